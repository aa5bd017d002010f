//! Shared foundations: limits and the meter that keeps every operation finite, errors, hash tables, and sets.
//!
//! `limits` counts steps of work and bytes, and checks at intervals whether the caller was interrupted; `damage`
//! contains panics. `hash` has hash tables for small keys, and tables in which equal values have equal numbers (hash
//! consing); `byteset` has sets of byte values in 256 bits; `utf8` splits ranges of code points into sequences of byte
//! ranges (Thompson; the method of `utf8-ranges`); `checksum` detects damaged programs. `tuning` is the table of the
//! constants that bound work or memory in all rooms.
//!
//! Complexity: constant for each operation, except for sorting. This room uses no other.
//!
//! Examples: `example_meter_ends_a_call` (`limits`), `example_interner_numbers_equal_values_alike` (`hash`),
//! `example_byte_set` (`byteset`), `example_sequences_of_a_range` (`utf8`).

pub mod byteset;
pub mod checksum;
#[cfg(feature = "count-allocations")]
pub mod counting;
pub mod damage;
pub mod hash;
pub mod heap;
pub mod limits;
pub mod number_sets;
pub mod order;
pub mod span;
pub mod stop;
pub mod tuning;
pub mod utf8;
