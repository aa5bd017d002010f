//! Context-free grammars, ready to be parsed for masks.
//!
//! `decode` reads a serialised grammar. `network` makes positions of it (recursive transition networks: Woods 1970), in
//! which choices and repeats are edges and only calls need a frame. `members` are lists whose parts come in any order.
//! `stack` has the frames of calls: a graph-structured stack (Tomita 1986), immutable and hash-consed, so that equal
//! situations are one state. `regions` has the deadlines of the parts that have budgets of their own.
//!
//! Complexity: networks are linear in the grammar; a search among members is exponential in the worst case, and
//! metered. This room uses `base`, `regular` and `tokens`.
//!
//! Examples: `example_program_is_decoded`, `example_network_of_positions`, `example_list_of_members`,
//! `example_frame_returns_to_its_caller` (`stack`).

pub mod decode;
pub mod members;
pub mod network;
pub mod regions;
pub mod stack;
