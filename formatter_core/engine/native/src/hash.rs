//! A fast hash for small keys, and a table that gives equal values equal numbers.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

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
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
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

/// Values by number, each value once.
pub struct Interner<K> {
    items: Vec<K>,
    /// The hash of each value with its number, so that growing looks at no value.
    table: Vec<(u32, u32)>,
}

const FREE: (u32, u32) = (0, u32::MAX);

impl<K: Hash + Eq> Interner<K> {
    pub fn new() -> Self {
        Interner {
            items: Vec::new(),
            table: vec![FREE; 64],
        }
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn get(&self, number: u32) -> &K {
        &self.items[number as usize]
    }

    /// The number of an equal value that is there, or a new number; and whether it is new.
    pub fn intern(&mut self, value: K) -> (u32, bool) {
        let mut hasher = FastHasher::default();
        value.hash(&mut hasher);
        let hash = (hasher.finish() >> 16) as u32;
        let mut slot = hash as usize & (self.table.len() - 1);
        loop {
            match self.table[slot] {
                FREE => break,
                (other, number) if other == hash && self.items[number as usize] == value => return (number, false),
                _ => slot = (slot + 1) & (self.table.len() - 1),
            }
        }
        let number = self.items.len() as u32;
        self.table[slot] = (hash, number);
        self.items.push(value);
        if self.items.len() * 2 > self.table.len() {
            self.grow();
        }
        (number, true)
    }

    fn grow(&mut self) {
        let mask = self.table.len() * 2 - 1;
        let old = std::mem::replace(&mut self.table, vec![FREE; mask + 1]);
        for entry in old.into_iter().filter(|entry| *entry != FREE) {
            let mut slot = entry.0 as usize & mask;
            while self.table[slot] != FREE {
                slot = (slot + 1) & mask;
            }
            self.table[slot] = entry;
        }
    }
}
