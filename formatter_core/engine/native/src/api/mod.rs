//! The functions that other languages call: the C interface, functions that CPython calls directly, and logits.
//!
//! `interface` and its siblings turn pointers and lengths into values, catch panics, and return numbers. `gate` makes
//! forks of the process wait while a call is running. `python_calls` makes function objects through Python's stable
//! ABI; they cost a fraction of a ctypes call and release the GIL. `logits` finds the best tokens of a row (selection
//! by blocks), and `masking` masks rows in place.
//!
//! Complexity: a call adds a constant. This room uses all others; none uses it.
//!
//! Example: `example_calls_of_the_c_interface` (`interface_sequences`).

pub mod gate;
pub mod interface;
pub mod interface_leaves;
pub mod interface_logits;
pub mod interface_parser;
pub mod interface_regex;
pub mod interface_schema;
pub mod interface_sequences;
#[cfg(test)]
pub mod interface_tests;
pub mod logits;
pub mod masking;
#[cfg(test)]
pub mod parser_tests;
pub mod python_calls;
