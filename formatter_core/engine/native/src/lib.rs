//! The native grammar engine of formatter-core.
//!
//! Each room says in its first lines what it does, by which algorithm, and which rooms it may use: `base`, `regular`, `tokens`,
//! `grammar`, `budgets`, `masks`, `captures`, `schema` and `api`, from the bottom up. None uses one after it.

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod api;
mod base;
mod budgets;
mod captures;
mod grammar;
mod masks;
mod regular;
mod schema;
mod tokens;
