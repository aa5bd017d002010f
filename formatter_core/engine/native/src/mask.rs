//! A set of tokens: what the mask of a state is kept as.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Some shared bit sets, none of them empty, and single ids.
pub struct Mask {
    shared: Vec<Arc<Vec<u32>>>,
    ids: Box<[u32]>,
    /// From 1 on; no two masks of a process ever have the same.
    pub number: u64,
}

impl Mask {
    pub fn new(shared: Vec<Arc<Vec<u32>>>, ids: Box<[u32]>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Mask {
            shared,
            ids,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Write the mask to a row of exactly as many words as the vocabulary takes.
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

    /// Whether no token may come.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.ids.is_empty()
    }

    pub fn bytes(&self) -> usize {
        let share = |words: &Arc<Vec<u32>>| 16 + 4 * words.len() / Arc::strong_count(words);
        64 + self.shared.iter().map(share).sum::<usize>() + 4 * self.ids.len()
    }
}

/// The ids in a bit set, ascending.
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

/// A bit set of so many words with these ids.
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

/// Take ids out of a bit set.
pub fn clear(row: &mut [u32], ids: &[u32]) {
    for id in ids {
        row[*id as usize / 32] &= !(1 << (id % 32));
    }
}

/// Add a bit set to another one.
pub fn join(row: &mut [u32], words: &[u32]) {
    row.iter_mut().zip(words).for_each(|(word, more)| *word |= more);
}
