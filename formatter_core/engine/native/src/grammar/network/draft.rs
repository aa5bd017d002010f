//! What a network is built of and in.

use super::shared::Templates;
use super::solve::{NULLABLE, PRODUCTIVE};
use super::{Position, END};
use crate::base::hash::{FastMap, Numbers};
use crate::base::heap;
use crate::base::span::Span;
use crate::grammar::decode::Source;
use crate::grammar::members::Rest;
use crate::regular::term::Term;

/// What a network is built of, and in: memory that the next one is built in, too.
#[derive(Default)]
pub struct Draft {
    pub source: Source,
    pub positions: Vec<Position>,
    /// The places of all splits.
    pub places: Vec<u32>,
    /// Where each rule begins; the items of the rules' bodies stand in the source, with those of helper rules that stand
    /// for the items of counted repeats.
    pub starts: Vec<u32>,
    /// The first of the positions that were built for each rule.
    pub begins: Vec<u32>,
    /// Where rules begin that are called in last place, by rule; `END` if they are not.
    pub entries: Vec<u32>,
    /// The items of members in order.
    pub in_order: Vec<u32>,
    /// See `solve`.
    pub facts: Vec<u8>,
    /// Positions that are made once.
    pub known: Numbers,
    pub helpers: FastMap<u32, u32>,
    /// What is left of the item that is being built.
    pub tasks: Vec<Task>,
    /// The alternatives of the choices under way that are built.
    pub built: Vec<u32>,
    pub templates: Templates,
}

/// What takes more is not kept for the next network.
const MOST_KEPT: usize = 1 << 16;

impl Draft {
    /// Begin with positions for a source.
    pub fn clear(&mut self) {
        let rules = self.source.bodies.len();
        self.positions.clear();
        self.facts.clear();
        self.add(Position::End, PRODUCTIVE | NULLABLE);
        self.places.clear();
        self.starts.clear();
        self.begins.clear();
        self.entries.clear();
        self.entries.resize(rules, END);
        self.in_order.clear();
        self.known.clear(self.source.items.len());
        self.helpers.clear();
        self.tasks.clear();
        self.built.clear();
    }

    #[inline]
    pub fn add(&mut self, position: Position, facts: u8) {
        self.facts.push(facts);
        self.positions.push(position);
    }

    /// See `heap`.
    pub fn heap(&self) -> usize {
        self.source.heap()
            + heap::list(&self.positions)
            + heap::list(&self.places)
            + heap::list(&self.starts)
            + heap::list(&self.begins)
            + heap::list(&self.entries)
            + heap::list(&self.in_order)
            + heap::list(&self.facts)
            + self.known.heap()
            + heap::table(&self.helpers)
            + heap::list(&self.tasks)
            + heap::list(&self.built)
            + self.templates.heap()
    }

    /// Let the memory go if it is much.
    pub fn forget_much(&mut self) {
        if self.positions.capacity() + self.places.capacity() + self.source.capacity() > MOST_KEPT {
            *self = Draft::default();
        }
    }
}

/// What is left to build. Bodies are built from their end: each task turns the place after it into the place before.
pub enum Task {
    Item(u32),
    /// What is left of the items of a sequence.
    Sequence(Span),
    /// Alternatives: those that are left are to be built in front of `next`; those that are built stand from `built` on.
    Choice {
        left: Span,
        next: u32,
        built: usize,
    },
    /// The body of an unbounded repeat is built: close the circle at `start`.
    Loop {
        start: u32,
        next: u32,
        minimum: u32,
    },
    /// What follows round number `rounds` of a bounded repeat is built, but for the way out of it.
    Rounds {
        item: u32,
        rounds: u32,
        minimum: u32,
        next: u32,
    },
    /// Of members in order the one at `index` is built. If it is repeated, `round` is where it or a further one may come.
    Member {
        separator: Term,
        members: Span,
        index: u32,
        round: Option<u32>,
        rest: Rest,
    },
}
