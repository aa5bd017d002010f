//! Vocabularies, and what a terminal's state means for their tokens.
//!
//! The vocabulary is a trie in preorder (`trie`), so that a subtree is one range. `lexicon` holds the automata of all
//! terminals that meet a vocabulary: states are terms, moves are derivatives, worked out lazily. `classify` sorts the tokens for
//! a state into a class: those that stay inside the terminal, those that cross its end, and dead ones, by one `walk` over
//! the trie along the automaton (Willard and Louf 2023 index tokens likewise; DOMINO, Beurer-Kellner et al. 2024, splits them
//! at terminals). `mask` is a set of tokens, `spelling` computes the fewest tokens that spell a text (a shortest path).
//!
//! Complexity: a class takes one visit for each node of the trie that the automaton reaches, once for each state.
//! This room uses `base` and `regular`.

pub mod class;
pub mod classify;
pub mod fitting;
pub mod lexicon;
pub mod mask;
pub mod moves;
pub mod rounds;
pub mod spelling;
pub mod targets;
pub mod token_ids;
pub mod trie;
pub mod walk;
