//! The items of a parse: positions in calls of rules. The items of one call form a tree, in which the parent of an item
//! is the item before it.

use crate::base::heap;
use crate::base::limits::{Fault, Limit, Outcome};
use crate::captures::forest::Forest;
use crate::captures::positions::Plan;

pub const NONE: u32 = u32::MAX;
/// Added to the number of a call, in place of an item that ends the call: the call derived no text.
pub const OVER_NOTHING: u32 = 1 << 31;

/// A step that does not take a byte.
pub const NO_BYTE: u16 = u16::MAX;
/// Steps that we charge for an item, a call or a thread, because of the memory that it takes.
pub const ITEM_COST: usize = 4;

/// A position in the body of a call, reached in a column.
#[derive(Clone, Copy)]
pub struct Item {
    pub position: u32,
    /// The position through which the item was reached; from there to `position` there are only marks, see
    /// `Plan::past_marks`.
    pub entry: u32,
    /// The number of earlier rounds of a repeat, as far as it matters; or the number of the memory of a list of
    /// members.
    pub count: u32,
    pub call: u32,
    pub column: u32,
    /// The item before this one in the preferred derivation. Its position tells how this item was reached.
    pub parent: u32,
    /// The item that ended a call, or the index of an alternative.
    pub detail: u32,
    /// The set of rules that have derived all of the call so far; only rules that may derive themselves are in it.
    pub whole: u32,
    /// True if a better item has replaced this one.
    pub is_replaced: bool,
}

/// A call of a rule in a column.
pub struct Call {
    pub rule: u32,
    pub column: u32,
    /// The index plus one of the last caller.
    pub callers: u32,
    /// The item that ends the call in its own column, unless there may be several.
    pub empty: u32,
}

/// A step that reaches an item.
#[derive(Clone, Copy)]
pub struct Edge {
    pub position: u32,
    pub entry: u32,
    pub count: u32,
    pub column: u32,
    pub parent: u32,
    pub detail: u32,
    pub whole: u32,
}

/// All items and calls of a text so far.
#[derive(Default)]
pub struct Tree {
    pub steps: Vec<u16>,
    pub items: Vec<Item>,
    /// The items of each call as a tree; it may lag behind, see `complete_forest`.
    pub forest: Forest,
    pub calls: Vec<Call>,
    /// The first item of the last column.
    pub first: usize,
}

impl Tree {
    /// Return the heap memory in bytes, see `heap`.
    pub fn heap(&self) -> usize {
        heap::list(&self.steps) + heap::list(&self.items) + self.forest.heap() + heap::list(&self.calls)
    }

    /// Return the number of the last column.
    pub fn column(&self) -> u32 {
        self.steps.len() as u32
    }

    /// Add the item that an edge leads to.
    pub fn add(&mut self, call: u32, edge: Edge) -> Outcome<u32> {
        let number = number_of(self.items.len())?;
        self.items.push(Item {
            position: edge.position,
            entry: edge.entry,
            count: edge.count,
            call,
            column: edge.column,
            parent: edge.parent,
            detail: edge.detail,
            whole: edge.whole,
            is_replaced: false,
        });
        Ok(number)
    }

    /// Add the missing items to the forest. Only comparisons of derivations need the forest.
    pub fn complete_forest(&mut self) {
        for item in &self.items[self.forest.len()..] {
            self.forest.add(item.parent);
        }
    }

    /// Return the item that ends a call.
    pub fn end_of(&self, detail: u32) -> u32 {
        match detail & OVER_NOTHING {
            0 => detail,
            _ => self.calls[(detail ^ OVER_NOTHING) as usize].empty,
        }
    }
}

impl Item {
    pub fn edge(&self) -> Edge {
        Edge {
            position: self.position,
            entry: self.entry,
            count: self.count,
            column: self.column,
            parent: self.parent,
            detail: self.detail,
            whole: self.whole,
        }
    }
}

impl Edge {
    /// Make an edge to a position, without a count.
    pub fn new(position: u32, parent: u32, detail: u32, whole: u32) -> Self {
        Edge {
            position,
            entry: position,
            count: 0,
            column: NONE,
            parent,
            detail,
            whole,
        }
    }

    /// Return this edge with a count of rounds.
    pub fn after(self, count: u32) -> Self {
        Edge { count, ..self }
    }

    /// Return this edge, moved past the marks, in a column.
    pub fn in_column(self, column: u32, plan: &Plan) -> Self {
        Edge {
            position: plan.past_marks(self.position),
            column,
            ..self
        }
    }

    /// Return the fields by which the items of one column differ.
    pub fn key(&self, call: u32) -> (u32, u32, u32, u32) {
        (self.position, call, self.count, self.whole)
    }
}

/// Return the number of a new item or call.
pub fn number_of(count: usize) -> Outcome<u32> {
    match u32::try_from(count) {
        Ok(number) if number < OVER_NOTHING => Ok(number),
        _ => Err(Fault::Limit(Limit::Work)),
    }
}
