//! The workspace in which networks are built.

use super::shared::Templates;
use super::solve::{NULLABLE, PRODUCTIVE};
use super::{Position, END};
use crate::base::hash::{FastMap, Numbers};
use crate::base::heap;
use crate::base::span::Span;
use crate::base::tuning::MAX_KEPT_DRAFT;
use crate::grammar::decode::Source;
use crate::grammar::members::Rest;
use crate::regular::term::Term;

/// The source of a network, and the workspace in which it is built. The next network reuses this memory.
#[derive(Default)]
pub struct Draft {
    pub source: Source,
    pub positions: Vec<Position>,
    /// The places of all splits.
    pub places: Vec<u32>,
    /// The first position of each rule. The source has the items of the rules' bodies, including helper rules for the
    /// items of counted repeats.
    pub starts: Vec<u32>,
    /// For each rule, the first of the positions that were built for it.
    pub begins: Vec<u32>,
    /// For each rule, its first position for tail calls; `END` if there are none.
    pub entries: Vec<u32>,
    /// The items of members in order.
    pub in_order: Vec<u32>,
    /// The facts about each position, see `solve`.
    pub facts: Vec<u8>,
    /// An index of the positions that are made only once each.
    pub known: Numbers,
    pub helpers: FastMap<u32, u32>,
    /// The remaining tasks for the current item.
    pub tasks: Vec<Task>,
    /// The alternatives built so far of the choices in progress.
    pub built: Vec<u32>,
    pub templates: Templates,
}

impl Draft {
    /// Start the positions for a new source.
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

    /// Return the bytes on the heap, see `heap`.
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

    /// Free the memory if it is large.
    pub fn forget_much(&mut self) {
        if self.positions.capacity() + self.places.capacity() + self.source.capacity() > MAX_KEPT_DRAFT {
            *self = Draft::default();
        }
    }
}

/// A remaining task. Bodies are built from their end: each task turns the position after it into the position before
/// it.
pub enum Task {
    Item(u32),
    /// The remaining items of a sequence.
    Sequence(Span),
    /// Alternatives: `left` are to be built in front of `next`; those from `built` on are done.
    Choice {
        left: Span,
        next: u32,
        built: usize,
    },
    /// The body of an unbounded repeat is done: close the cycle at `start`.
    Loop {
        start: u32,
        next: u32,
        minimum: u32,
    },
    /// The continuation of round `rounds` of a bounded repeat is done, except for the exit from it.
    Rounds {
        item: u32,
        rounds: u32,
        minimum: u32,
        next: u32,
    },
    /// The member at `index` of members in order is done. If it is repeated, `round` is the position at which it or a
    /// further one may come.
    Member {
        separator: Term,
        members: Span,
        index: u32,
        round: Option<u32>,
        rest: Rest,
    },
}
