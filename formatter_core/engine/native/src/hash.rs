//! A fast hash for small keys, and a table that gives equal values equal numbers.
//!
//! Automata of several hundred thousand states grow within one mask or the other: what holds them never moves all at once.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::Index;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiply-and-rotate hashing: the keys are numbers that this crate made itself.
#[derive(Clone, Copy, Default)]
pub struct FastHasher(u64);

impl FastHasher {
    #[inline]
    fn mix(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(FACTOR);
    }
}

impl Hasher for FastHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        };
        let chunks = bytes.chunks_exact(8);
        let rest = chunks.remainder();
        chunks.for_each(|chunk| self.mix(word(chunk)));
        if !rest.is_empty() {
            self.mix(word(rest));
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }
}

pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;
pub type FastSet<K> = HashSet<K, BuildHasherDefault<FastHasher>>;

/// The hash of a value.
#[inline]
pub fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = FastHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A list in blocks, which stay where they are when it grows.
pub struct Blocks<T> {
    blocks: Vec<Vec<T>>,
}

const BLOCK: usize = 4096;

impl<T> Blocks<T> {
    pub fn new() -> Self {
        Blocks { blocks: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.blocks
            .last()
            .map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.blocks.get(index / BLOCK)?.get(index % BLOCK)
    }

    /// Let the first block have its whole room, so that its values stay where they are, too.
    pub fn make_room(&mut self) {
        match &mut self.blocks[..] {
            [] => self.blocks.push(Vec::with_capacity(BLOCK)),
            [first, ..] => first.reserve_exact(BLOCK - first.len()),
        }
    }

    pub fn push(&mut self, value: T) {
        match self.blocks.last_mut() {
            Some(last) if last.len() < BLOCK => last.push(value),
            None => self.blocks.push(vec![value]),
            Some(_) => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(value);
                self.blocks.push(block);
            }
        }
    }
}

impl<T: Default> Blocks<T> {
    /// Put a value at an index, and defaults before it where there is nothing.
    pub fn set(&mut self, index: usize, value: T) {
        while self.len() <= index {
            self.push(T::default());
        }
        self.blocks[index / BLOCK][index % BLOCK] = value;
    }
}

impl<T> Index<usize> for Blocks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.blocks[index / BLOCK][index % BLOCK]
    }
}

/// Values by number, each value once.
pub struct Interner<K> {
    items: Blocks<K>,
    /// The upper half of each value's hash with its number and one, so that growing need not read the values; or 0.
    table: Vec<u64>,
    /// The table before it grew, which is moved little by little: some of it with each new value.
    old: Vec<u64>,
    /// How many entries of the old table have been moved.
    moved: usize,
}

/// Entries of an old table that are moved with a new value: all of them long before the table grows again.
const MOVED_AT_ONCE: usize = 16;

impl<K: Hash + Eq> Interner<K> {
    pub fn new() -> Self {
        Interner {
            items: Blocks::new(),
            table: vec![0; 64],
            old: Vec::new(),
            moved: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Make room for a block of values, of which there are few so far.
    pub fn make_room(&mut self) {
        self.items.make_room();
        self.grow_table(2 * BLOCK);
    }

    pub fn get(&self, number: u32) -> &K {
        &self.items[number as usize]
    }

    /// The number of an equal value that is there, or a new number; and whether it is new.
    pub fn intern(&mut self, value: K) -> (u32, bool) {
        let hash = (hash_of(&value) >> 16) as u32;
        if let Some(number) = self
            .find(&self.table, hash, &value)
            .or_else(|| self.find(&self.old, hash, &value))
        {
            return (number, false);
        }
        let number = self.items.len() as u32;
        self.items.push(value);
        insert(&mut self.table, u64::from(hash) << 32 | u64::from(number + 1));
        self.move_some();
        if self.items.len() * 2 > self.table.len() {
            self.grow_table(self.table.len() * 2);
        }
        (number, true)
    }

    fn grow_table(&mut self, size: usize) {
        self.old = std::mem::replace(&mut self.table, vec![0; size]);
        self.moved = 0;
        self.move_some();
    }

    #[inline]
    fn find(&self, table: &[u64], hash: u32, value: &K) -> Option<u32> {
        let mask = table.len().checked_sub(1)?;
        let mut slot = hash as usize & mask;
        loop {
            let entry = table[slot];
            let number = (entry as u32).checked_sub(1)?;
            if (entry >> 32) as u32 == hash && self.items[number as usize] == *value {
                return Some(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    #[inline]
    fn move_some(&mut self) {
        if self.old.is_empty() {
            return;
        }
        let end = self.old.len().min(self.moved + MOVED_AT_ONCE);
        for &entry in self.old[self.moved..end].iter().filter(|entry| **entry != 0) {
            insert(&mut self.table, entry);
        }
        self.moved = end;
        if end == self.old.len() {
            self.old = Vec::new();
        }
    }
}

/// Put an entry where there is room for it.
#[inline]
fn insert(table: &mut [u64], entry: u64) {
    let mask = table.len() - 1;
    let mut slot = (entry >> 32) as usize & mask;
    while table[slot] != 0 {
        slot = (slot + 1) & mask;
    }
    table[slot] = entry;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_numbers_while_the_table_grows() {
        let mut numbers: Interner<u64> = Interner::new();
        for value in 0..100_000 {
            assert_eq!(numbers.intern(value * 7), (value as u32, true));
            let earlier = value / 2;
            assert_eq!(numbers.intern(earlier * 7), (earlier as u32, false));
        }
        assert_eq!(numbers.len(), 100_000);
        assert_eq!(*numbers.get(99_999), 99_999 * 7);
    }
}
