//! The items of a column that are still to be followed.

use std::collections::BinaryHeap;

/// The column of an item's call, how early its rank and its count are, and its number: the greatest comes first.
pub(super) type Priority = (u32, u32, u32, u32);

/// Those of late calls first, then in the order of ranks and counts. Mostly there is only one.
#[derive(Default)]
pub(super) struct Agenda {
    first: Option<Priority>,
    others: BinaryHeap<Priority>,
}

impl Agenda {
    /// See `heap`.
    pub(super) fn heap(&self) -> usize {
        std::mem::size_of::<Priority>() * self.others.capacity()
    }

    #[inline]
    pub(super) fn push(&mut self, item: Priority) {
        match self.first {
            None => self.first = Some(item),
            Some(first) => {
                self.others.push(first.min(item));
                self.first = Some(first.max(item));
            }
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Priority> {
        std::mem::replace(&mut self.first, self.others.pop())
    }
}
