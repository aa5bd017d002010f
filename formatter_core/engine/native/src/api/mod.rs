//! What others call: the C interface, functions that CPython calls by itself, and logits.
//!
//! `interface` and its siblings turn pointers and lengths into values, catch panics, and answer with numbers. `gate` holds
//! forks of the process back while a call is under way; `python_calls` makes function objects by Python's stable ABI, which
//! cost a fraction of ctypes' calls and release the GIL. `logits` finds the best tokens of a row (selection by blocks),
//! `masking` masks rows where they lie.
//!
//! Complexity: a call adds a constant. This room uses all others; none uses it.

pub mod gate;
pub mod interface;
pub mod interface_leaves;
pub mod interface_logits;
pub mod interface_parser;
pub mod interface_regex;
pub mod interface_schema;
#[cfg(test)]
pub mod interface_tests;
pub mod logits;
pub mod masking;
#[cfg(test)]
pub mod parser_tests;
pub mod python_calls;
