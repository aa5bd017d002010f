//! A fast hash for small keys, and a table that gives equal values equal numbers.
//!
//! Automata of several hundred thousand states grow within one mask or the other: what holds them never moves all at once.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::{Index, IndexMut};

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
#[derive(Default)]
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
    /// Put a value at an index, and defaults before it in its block; blocks without a value take no room.
    pub fn set(&mut self, index: usize, value: T) {
        if self.blocks.len() <= index / BLOCK {
            self.blocks.resize_with(index / BLOCK + 1, Vec::new);
        }
        let block = &mut self.blocks[index / BLOCK];
        if block.len() <= index % BLOCK {
            block.reserve_exact(BLOCK - block.len());
            block.resize_with(index % BLOCK + 1, T::default);
        }
        block[index % BLOCK] = value;
    }
}

impl<T> Index<usize> for Blocks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.blocks[index / BLOCK][index % BLOCK]
    }
}

impl<T> IndexMut<usize> for Blocks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.blocks[index / BLOCK][index % BLOCK]
    }
}

/// Values by number, each value once, in a hash table that grows by one chain with each value (Litwin 1980): it is never
/// moved, and memory is used in order, since each page that is new to a process takes as long as thousands of instructions.
pub struct Interner<K> {
    items: Blocks<K>,
    /// For each value its hash, and the number and one of the next value in its chain, or 0.
    links: Blocks<(u32, u32)>,
    /// The number and one of the first value in each chain, or 0.
    chains: Blocks<u32>,
}

impl<K: Hash + Eq> Interner<K> {
    pub fn new() -> Self {
        let mut chains = Blocks::new();
        chains.push(0);
        Interner {
            items: Blocks::new(),
            links: Blocks::new(),
            chains,
        }
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Make room for a block of values, of which there are few so far.
    pub fn make_room(&mut self) {
        self.items.make_room();
        self.links.make_room();
        self.chains.make_room();
        while self.chains.len() < BLOCK {
            self.add_chain();
        }
    }

    pub fn get(&self, number: u32) -> &K {
        &self.items[number as usize]
    }

    /// The number of an equal value that is there, or a new number; and whether it is new.
    pub fn intern(&mut self, value: K) -> (u32, bool) {
        let hash = (hash_of(&value) >> 16) as u32;
        let chain = self.chain_of(hash);
        let first = self.chains[chain];
        let mut next = first;
        while let Some(number) = next.checked_sub(1) {
            let (its_hash, following) = self.links[number as usize];
            if its_hash == hash && self.items[number as usize] == value {
                return (number, false);
            }
            next = following;
        }
        let number = self.items.len() as u32;
        self.items.push(value);
        self.links.push((hash, first));
        self.chains[chain] = number + 1;
        if self.chains.len() < self.items.len() {
            self.add_chain();
        }
        (number, true)
    }

    /// The chain of values with a hash: as many bits of it as tell all chains apart, or one less.
    #[inline]
    fn chain_of(&self, hash: u32) -> usize {
        let mask = self.chains.len().next_power_of_two() - 1;
        let chain = hash as usize & mask;
        if chain < self.chains.len() {
            chain
        } else {
            chain & mask >> 1
        }
    }

    /// Divide one chain, each in its turn, into two.
    fn add_chain(&mut self) {
        let new = self.chains.len();
        let divided = new - (1 << new.ilog2());
        let mut next = std::mem::take(&mut self.chains[divided]);
        self.chains.push(0);
        while let Some(number) = next.checked_sub(1) {
            let chain = self.chain_of(self.links[number as usize].0);
            let first = std::mem::replace(&mut self.chains[chain], next);
            next = std::mem::replace(&mut self.links[number as usize].1, first);
        }
    }
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
