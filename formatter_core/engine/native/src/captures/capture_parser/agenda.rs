//! The items of a column whose successors are still to be computed.

use std::collections::BinaryHeap;

/// The column of an item's call, how early its rank and its count are, and its number. The greatest priority comes
/// first.
pub(super) type Priority = (u32, u32, u32, u32);

/// A queue that gives items of late calls first, then items in the order of ranks and counts. It mostly contains one
/// item.
#[derive(Default)]
pub(super) struct Agenda {
    first: Option<Priority>,
    others: BinaryHeap<Priority>,
}

impl Agenda {
    /// Return the heap memory in bytes, see `heap`.
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
