//! The items of a parse: places in calls of rules. Those of one call form a tree, in which each hangs on the one before.

use crate::limits::{Fault, Limit, Meter, Outcome};

pub const NONE: u32 = u32::MAX;
/// In the place of an item that ends a call: the call of this number, over no text at all.
pub const OVER_NOTHING: u32 = 1 << 31;

/// A step that is no byte.
pub const NO_BYTE: u16 = u16::MAX;
/// What the making of an item, a call or a thread costs, for the bytes that it takes.
pub const COST: usize = 4;

/// A place in the body of a call, reached in a column.
#[derive(Clone, Copy)]
pub struct Item {
    pub position: u32,
    /// How many rounds of a repeat came before, as far as it matters.
    pub count: u32,
    pub call: u32,
    pub column: u32,
    /// The item before it in the preferred derivation, by whose position it is known how it was reached.
    pub parent: u32,
    /// The item that ended a call; the index of an alternative.
    pub detail: u32,
    /// How many items come before, and one of them further ahead.
    pub depth: u32,
    pub jump: u32,
    /// The set of rules that have derived all of the call so far, as far as they may derive themselves.
    pub whole: u32,
    /// Whether a better one has taken its place.
    pub is_replaced: bool,
}

/// A call of a rule in a column.
pub struct Call {
    pub rule: u32,
    pub column: u32,
    /// The last one of those who called, plus one.
    pub callers: u32,
    /// The item that ends it in its own column, unless there may be several.
    pub empty: u32,
}

/// A way to reach an item.
#[derive(Clone, Copy)]
pub struct Edge {
    pub position: u32,
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
    pub calls: Vec<Call>,
    /// The first item of the last column.
    pub first: usize,
}

impl Tree {
    /// The last column.
    pub fn column(&self) -> u32 {
        self.steps.len() as u32
    }

    /// Add the item that an edge leads to.
    pub fn add(&mut self, call: u32, edge: Edge) -> Outcome<u32> {
        let number = number_of(self.items.len())?;
        let item = self.item(call, edge);
        self.items.push(item);
        Ok(number)
    }

    fn item(&self, call: u32, edge: Edge) -> Item {
        // Jumps are as in a skew-binary list (Myers 1983): the ways to any ancestor are short.
        let (depth, jump) = match self.items.get(edge.parent as usize) {
            None => (0, NONE),
            Some(parent) => {
                let far = self.items.get(parent.jump as usize);
                let depth_of = |item: Option<&Item>| item.map_or(0, |item| item.depth);
                let farther = far.map_or(NONE, |far| far.jump);
                let even = far.is_some()
                    && parent.depth - depth_of(far) == depth_of(far) - depth_of(self.items.get(farther as usize));
                (
                    parent.depth + 1,
                    if even && farther != NONE { farther } else { edge.parent },
                )
            }
        };
        Item {
            position: edge.position,
            count: edge.count,
            call,
            column: edge.column,
            parent: edge.parent,
            detail: edge.detail,
            depth,
            jump,
            whole: edge.whole,
            is_replaced: false,
        }
    }

    /// The item that ends a call.
    pub fn end_of(&self, detail: u32) -> u32 {
        match detail & OVER_NOTHING {
            0 => detail,
            _ => self.calls[(detail ^ OVER_NOTHING) as usize].empty,
        }
    }

    /// Where the ways to two items of one call part: the last item that they share, and the next one on each way, unless
    /// that item is the end of the way.
    pub fn parting(&self, one: u32, other: u32, meter: &mut Meter) -> Outcome<(u32, Option<u32>, Option<u32>)> {
        let (one_depth, other_depth) = (self.items[one as usize].depth, self.items[other as usize].depth);
        let depth = one_depth.min(other_depth);
        let (mut first, mut second) = (self.ancestor(one, depth, meter)?, self.ancestor(other, depth, meter)?);
        if first == second {
            let mut next = |item: u32, own: u32| match own > depth {
                true => self.ancestor(item, depth + 1, meter).map(Some),
                false => Ok(None),
            };
            return Ok((first, next(one, one_depth)?, next(other, other_depth)?));
        }
        loop {
            meter.work(1)?;
            let (left, right) = (self.items[first as usize], self.items[second as usize]);
            if left.parent == right.parent {
                return Ok((left.parent, Some(first), Some(second)));
            }
            (first, second) = match left.jump == right.jump {
                true => (left.parent, right.parent),
                false => (left.jump, right.jump),
            };
        }
    }

    pub fn ancestor(&self, mut item: u32, depth: u32, meter: &mut Meter) -> Outcome<u32> {
        loop {
            let here = self.items[item as usize];
            if here.depth <= depth {
                return Ok(item);
            }
            meter.work(1)?;
            let jump_depth = self.items[here.jump as usize].depth;
            item = if jump_depth >= depth { here.jump } else { here.parent };
        }
    }
}

impl Item {
    pub fn edge(&self) -> Edge {
        Edge {
            position: self.position,
            count: self.count,
            column: self.column,
            parent: self.parent,
            detail: self.detail,
            whole: self.whole,
        }
    }
}

impl Edge {
    /// To a position in the last column, without a count.
    pub fn new(position: u32, parent: u32, detail: u32, whole: u32) -> Self {
        Edge {
            position,
            count: 0,
            column: NONE,
            parent,
            detail,
            whole,
        }
    }

    /// The same after so many rounds.
    pub fn after(self, count: u32) -> Self {
        Edge { count, ..self }
    }

    /// What makes the items of one column different.
    pub fn key(&self, call: u32) -> (u32, u32, u32, u32) {
        (self.position, call, self.count, self.whole)
    }
}

/// The number of a new item or call.
pub fn number_of(count: usize) -> Outcome<u32> {
    match u32::try_from(count) {
        Ok(number) if number < OVER_NOTHING => Ok(number),
        _ => Err(Fault::Limit(Limit::Work)),
    }
}
