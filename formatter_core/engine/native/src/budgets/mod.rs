//! Distances to the end: the shortest text that completes a state, and the fewest tokens that spell it.
//!
//! `nearest` finds shortest ways inside a terminal. `remainder` combines them along the network and the stack: the
//! least solution of equations over rules (Knuth, "A generalization of Dijkstra's algorithm", 1977). A mask under a
//! budget allows the tokens after which the remainder still fits.
//!
//! Complexity: as Dijkstra's algorithm in the size of the grammar, once; then constant for a known state. This room
//! uses `base`, `regular`, `tokens` and `grammar`.
//!
//! Examples: `example_shortest_way_through_a_terminal` (`nearest`), `example_remainder_of_a_start`.

pub mod nearest;
pub mod remainder;
