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
    #[inline]
    pub(super) fn push(&mut self, item: Priority) {
        match self.first {
            Some(first) if item < first => self.others.push(item),
            before => {
                self.others.extend(before);
                self.first = Some(item);
            }
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Priority> {
        std::mem::replace(&mut self.first, self.others.pop())
    }
}
