//! Regular languages over bytes: terms, their derivatives, and patterns.
//!
//! Terms are hash-consed and kept in the normal form that bounds the number of derivatives (`term`; Brzozowski,
//! "Derivatives of Regular Expressions", 1964; Owens, Reppy and Turon, "Regular-expression derivatives re-examined",
//! 2009). `derive` computes the derivatives of a term for all bytes at once, so that intersection and complement need
//! no product of automata. `multiples` (remainders of decimals) and `substring` (a suffix automaton: Blumer et al.
//! 1985) are automata whose states are computed. `regex` reads patterns in the syntaxes of ECMA 262 and of Rust,
//! `distinct` records which values of a list have come, `program` is the format of serialised grammars.
//!
//! Complexity: a derivative takes time linear in the term; a language may have exponentially many, which the meter
//! bounds. This room uses `base`.
//!
//! Examples: `example_term`, `example_derivative_is_the_term_of_the_rest` (`derive`), `example_pattern_becomes_a_term`
//! (`regex`), `example_class_of_characters`, `example_automaton_of_a_text` (`substring`), `example_multiples_of_seven`,
//! `example_values_that_have_come` (`distinct`), `example_program_is_in_postfix_order`.

pub mod derive;
pub mod distinct;
pub mod multiples;
pub mod program;
pub mod regex;
pub mod substring;
pub mod term;
