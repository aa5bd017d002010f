//! Patterns of regular expressions, in either syntax, as regular nodes. What is invalid, or not regular, is a `Fault`.
//!
//! `scanner` is shared by the readers `ecma` and `rust`, which build a `tree`; `lower` expresses its assertions and leaves a
//! `node`. Sets of characters are `classes`, those with names `unicode`. `queries` asks about nodes; `term` and `encode` are
//! what becomes of them.

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

/// Bounds on what a pattern may cost: see `formatter_core/limits`.
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

/// Read a pattern, which is given as code points, lone surrogates included.
pub fn read(pattern: &[u32], dialect: Dialect, limits: &Limits) -> Outcome<Node> {
    match dialect {
        Dialect::Rust => rust::read(pattern, limits, false),
        Dialect::RustWithLook => rust::read(pattern, limits, true),
        Dialect::Ecma => ecma::read(pattern, limits),
    }
}
