//! Vocabularies, and the effect of their tokens on a terminal's state.
//!
//! The vocabulary is a trie in preorder (`trie`), so that a subtree is one range. `lexicon` has the automata of all
//! terminals that are used with a vocabulary: states are terms, and moves are derivatives, computed lazily. `classify`
//! sorts the tokens into a class for each state: those that stay inside the terminal, those that cross its end, and
//! dead ones, by one `walk` over the trie along the automaton (Willard and Louf 2023 index tokens likewise; DOMINO,
//! Beurer-Kellner et al. 2024, splits them at terminals). `mask` is a set of tokens; `spelling` computes the fewest
//! tokens that spell a text (a shortest path).
//!
//! Complexity: computing a class visits each trie node that the automaton reaches once; each state's class is computed
//! once. This room uses `base` and `regular`.
//!
//! Examples: `example_trie_of_a_vocabulary`, `example_lexicon_is_an_automaton_of_terminals`,
//! `example_class_of_a_terminal` (`classify`), `example_mask_is_written_as_bits`, `example_fewest_tokens_of_a_text`
//! (`spelling`).

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
