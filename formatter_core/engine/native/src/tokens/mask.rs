//! Sets of tokens, in the form in which the masks of states are kept.

use std::mem::{size_of, size_of_val};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::base::heap::{self, Counted, Counter};

/// A set of tokens: one bit per id, 32 ids per word.
pub struct Bits {
    words: Vec<u32>,
    _memory: Counted,
}

impl Bits {
    pub fn new(words: Vec<u32>, counter: &Counter) -> Arc<Self> {
        let bytes = heap::COUNTS + size_of::<Self>() + heap::list(&words);
        Arc::new(Bits {
            words,
            _memory: Counted::new(bytes, counter),
        })
    }
}

impl Deref for Bits {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.words
    }
}

/// A mask: several shared bit sets, none of them empty, and single ids.
pub struct Mask {
    shared: Box<[Arc<Bits>]>,
    ids: Box<[u32]>,
    _memory: Counted,
    /// A number from 1 on, unique among all masks of the process.
    pub number: u64,
}

impl Mask {
    pub fn new(shared: Box<[Arc<Bits>]>, ids: Box<[u32]>, counter: &Counter) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let bytes = heap::COUNTS + size_of::<Self>() + size_of_val(&*shared) + size_of_val(&*ids);
        Mask {
            _memory: Counted::new(bytes, counter),
            shared,
            ids,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Write the mask to a row, which must have exactly as many words as the vocabulary needs.
    pub fn write(&self, row: &mut [u32]) {
        match self.shared.split_first() {
            None => row.fill(0),
            Some((first, rest)) => {
                row.copy_from_slice(first);
                rest.iter().for_each(|words| join(row, words));
            }
        }
        set(row, &self.ids);
    }

    /// Return whether the mask allows no token.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.ids.is_empty()
    }

    pub fn bytes(&self) -> usize {
        let share = |words: &Arc<Bits>| 16 + 4 * words.len() / Arc::strong_count(words);
        64 + self.shared.iter().map(share).sum::<usize>() + 4 * self.ids.len()
    }
}

/// Return the ids in a bit set, in ascending order.
pub fn ids_in(words: &[u32]) -> impl Iterator<Item = u32> + '_ {
    (0..).zip(words).flat_map(|(index, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            left &= left.checked_sub(1)?;
            Some(32 * index + bit)
        })
    })
}

/// Return a bit set of `words` words with these ids.
pub fn bits_from(ids: &[u32], words: usize) -> Vec<u32> {
    let mut bits = vec![0; words];
    set(&mut bits, ids);
    bits
}

/// Add ids to a bit set.
pub fn set(row: &mut [u32], ids: &[u32]) {
    for id in ids {
        row[*id as usize / 32] |= 1 << (id % 32);
    }
}

/// Remove ids from a bit set.
pub fn clear(row: &mut [u32], ids: &[u32]) {
    for id in ids {
        row[*id as usize / 32] &= !(1 << (id % 32));
    }
}

/// Add all ids of one bit set to another.
pub fn join(row: &mut [u32], words: &[u32]) {
    row.iter_mut().zip(words).for_each(|(word, more)| *word |= more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_mask_is_written_as_bits() {
        let counter = Counter::default();
        let shared = Bits::new(bits_from(&[0, 2], 1), &counter);
        let mask = Mask::new(Box::new([shared]), Box::new([4]), &counter);
        let mut row = [0];
        mask.write(&mut row);
        assert_eq!(row, [0b10101]);
        assert_eq!(ids_in(&row).collect::<Vec<_>>(), [0, 2, 4]);
    }
}
