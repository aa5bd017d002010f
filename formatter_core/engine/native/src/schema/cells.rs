//! Cells: sets of keys for which the same questions have the same answers.

use std::rc::Rc;

use crate::base::hash::FastSet;
use crate::schema::leaves::StringSet;
use crate::schema::load::Literal;
use crate::schema::shapes::Name;

/// A question that decides what a key's value must satisfy: whether a pattern matches the key, or the key satisfies a
/// literal for names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Question {
    Pattern(Name),
    Names(Literal),
}

/// A union of string sets, and the questions that all its members answer with yes.
pub struct Cell {
    pub strings: Vec<Rc<StringSet>>,
    pub yes: FastSet<Question>,
}
