//! Sets of numbers. Each set has a number: equal sets have equal numbers.

use crate::base::hash::Interner;

pub const EMPTY_SET: u32 = 0;

pub struct NumberSets {
    sets: Interner<Box<[u32]>>,
    /// Bytes that the single sets take on the heap.
    inner: usize,
}

impl NumberSets {
    pub fn new() -> Self {
        let mut sets = Interner::new();
        sets.intern(Box::default());
        NumberSets { sets, inner: 0 }
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        self.sets.heap() + self.inner
    }

    fn number(&mut self, numbers: Vec<u32>) -> u32 {
        let bytes = std::mem::size_of_val(&numbers[..]);
        let (number, is_new) = self.sets.intern(numbers.into());
        self.inner += if is_new { bytes } else { 0 };
        number
    }

    /// Return the set with one more number, or None if `set` already has it.
    pub fn with(&mut self, set: u32, number: u32) -> Option<u32> {
        let numbers = self.sets.get(set);
        let place = numbers.binary_search(&number).err()?;
        let mut more = numbers.to_vec();
        more.insert(place, number);
        Some(self.number(more))
    }

    pub fn union(&mut self, one: u32, other: u32) -> u32 {
        if one == other || other == EMPTY_SET {
            return one;
        }
        let mut numbers = [self.sets.get(one).as_ref(), self.sets.get(other).as_ref()].concat();
        numbers.sort_unstable();
        numbers.dedup();
        self.number(numbers)
    }

    /// Return the union of two sets, or None if they have a number in common.
    pub fn disjoint_union(&mut self, one: u32, other: u32) -> Option<u32> {
        let numbers = self.sets.get(one).len() + self.sets.get(other).len();
        let both = if one == EMPTY_SET {
            other
        } else {
            self.union(one, other)
        };
        (self.sets.get(both).len() == numbers).then_some(both)
    }
}
