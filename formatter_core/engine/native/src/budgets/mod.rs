//! How far the end is: the shortest text that completes a state, and the fewest tokens that spell it.
//!
//! `nearest` finds shortest ways inside a terminal, `remainder` puts them together along the network and the stack: the
//! least solution of equations over rules (Knuth, "A generalization of Dijkstra's algorithm", 1977). Masks under a budget
//! allow the tokens after which what remains still fits.
//!
//! Complexity: as Dijkstra's algorithm in the size of the grammar, once; then constant for a state that is known.
//! This room uses `base`, `regular`, `tokens` and `grammar`.

pub mod nearest;
pub mod remainder;
