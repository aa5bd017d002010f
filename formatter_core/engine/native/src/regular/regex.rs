//! Reads patterns of regular expressions, in either syntax, into regular nodes. A pattern that is invalid or not
//! regular is a `Fault`.
//!
//! The readers `ecma` and `rust` share `scanner` and build a `tree`; `lower` resolves its assertions and returns a
//! `node`. `classes` has sets of characters, and `unicode` has the named ones. `queries` answers questions about nodes;
//! `term` and `encode` convert them.

mod classes;
mod ecma;
mod encode;
mod fault;
mod lower;
mod node;
mod queries;
mod rust;
mod scanner;
mod term;
mod tree;
mod unicode;

pub use classes::{intersection, of, ALL};
pub use encode::written;
pub use fault::{Fault, Outcome};
pub use node::{Kind, Node, NODES};
pub use term::term_of;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Rust = 0,
    Ecma = 1,
    /// Rust syntax with look-around and word boundaries.
    RustWithLook = 2,
}

/// The limits on the cost of a pattern: see `formatter_core/limits`.
pub struct Limits {
    pub nodes: u64,
    pub repeat: u64,
    pub depth: u32,
    pub work: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            nodes: 1_000_000,
            repeat: 1_000_000,
            depth: 100,
            work: 20_000_000,
        }
    }
}

/// Read a pattern, given as code points; lone surrogates are allowed.
pub fn read(pattern: &[u32], dialect: Dialect, limits: &Limits) -> Outcome<Node> {
    match dialect {
        Dialect::Rust => rust::read(pattern, limits, false),
        Dialect::RustWithLook => rust::read(pattern, limits, true),
        Dialect::Ecma => ecma::read(pattern, limits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::{Meter, Usage};
    use crate::regular::derive::Derivatives;

    #[test]
    fn example_pattern_becomes_a_term() {
        let pattern: Vec<u32> = "a{2,3}|[b-d]".chars().map(u32::from).collect();
        let node = read(&pattern, Dialect::Rust, &Limits::default()).unwrap();
        let mut derivatives = Derivatives::new();
        let term = term_of(&mut derivatives.terms, &node);
        let usage = Usage::default();
        let mut meter = Meter::new(1_000, &usage, 1_000);
        for (text, is_match) in [("aa", true), ("c", true), ("a", false), ("aaaa", false)] {
            assert_eq!(
                derivatives.matches(term, text.as_bytes(), &mut meter),
                is_match,
                "{text}"
            );
        }
    }
}
