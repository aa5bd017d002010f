//! Parsing of texts with their captures.
//!
//! `grammar_tree` is the grammar as it is written, with captures and the order of alternatives. `capture_parser` is
//! Earley's algorithm; each item keeps the derivation that a backtracking matcher would find first (prioritised
//! choice). Inside terminals Pike's matcher decides (`terminal_order`; Cox 2009), with ordered partial derivatives
//! (Antimirov 1996). Items form trees with jump pointers (`forest`; Myers 1983). `agreement` computes the captures on
//! which all parses of an unfinished text agree, for events; `shortest` computes the length of the shortest text.
//!
//! Complexity: cubic in the length of the text at worst, linear for the grammars of schemas.
//! This room uses `base`, `regular`, `tokens` and `grammar`.
//!
//! Examples: `example_tree_keeps_the_order_of_alternatives`, `example_captures_of_a_text` (`parser`),
//! `example_marks_on_which_all_parses_agree` (`following`).

pub mod agreement;
pub mod capture_parser;
pub mod following;
pub mod forest;
pub mod grammar_tree;
pub mod items;
pub mod memories;
pub mod parser;
pub mod positions;
pub mod preference;
pub mod preferred_captures;
pub mod shortest;
pub mod terminal_order;
pub mod trails;
