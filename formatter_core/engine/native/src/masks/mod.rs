//! Masks: which tokens may come next.
//!
//! `mask_parser` is Earley's algorithm (1970) over bytes, with nullable rules passed over (Aycock and Horspool 2002) and
//! tail calls dropped (as Leo's items, 1991, make right recursion linear). `freeze` turns its last column into a state,
//! `automaton` keeps the moves between states: a lazily built deterministic automaton. `allowed` puts a mask together from
//! the classes of the terminals under way and from what follows the tokens that cross their ends; `gather` does it by the
//! number of tokens that are then still needed. `compiled` is a grammar that all its sequences share, `sequence` one of them.
//!
//! Complexity: cubic in the length of a text for ambiguous grammars, linear for LR-regular ones; a mask that was computed
//! once is looked up. This room uses those above, but for `captures` and `schema`.

pub mod allowed;
pub mod automaton;
pub mod budget;
pub mod cache;
pub mod compiled;
pub mod deadlines;
pub mod freeze;
pub mod gather;
pub mod mask_parser;
pub mod sequence;
