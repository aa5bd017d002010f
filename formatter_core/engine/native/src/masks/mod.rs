//! Masks: the sets of tokens that may come next.
//!
//! `mask_parser` is Earley's algorithm (1970) over bytes, with nullable rules skipped (Aycock and Horspool 2002) and
//! tail calls dropped (as Leo's items, 1991, make right recursion linear). `freeze` turns its last column into a state.
//! `automaton` keeps the moves between states: a lazily built deterministic automaton. `allowed` combines a mask from
//! the classes of the active terminals and from the tokens that cross their ends; `gather` groups the tokens by the
//! number of tokens that are then still needed. `engine` is a vocabulary that many grammars share, `compiled` a grammar
//! that all its sequences share; `sequence` is one of them.
//!
//! Complexity: cubic in the length of a text for ambiguous grammars, linear for LR-regular ones; a mask that was
//! computed once is looked up. This room uses those above, except for `captures` and `schema`.
//!
//! Examples: `example_columns_of_a_text` (`mask_parser`), and in `sequence` `example_masks_of_a_sequence`,
//! `example_fork_and_rollback`, `example_budget_leaves_room_for_the_end`.

pub mod allowed;
pub mod automaton;
pub mod budget;
pub mod cache;
pub mod compiled;
pub mod deadlines;
pub mod engine;
pub mod freeze;
pub mod gather;
pub mod mask_parser;
pub mod sequence;
