//! A fast hash for small keys, and a table that gives equal values equal numbers.
//!
//! An automaton can grow by several hundred thousand states within one mask. These containers therefore never move all
//! their contents at once.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::mem::size_of;
use std::ops::{Index, Range};

use crate::base::tuning::MAX_DIRECTORY_BITS;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A multiply-and-rotate hasher. It need not resist attacks: all keys are numbers that this crate made.
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
        // Use two independent chains, so that neither waits for the other.
        let pairs = bytes.chunks_exact(16);
        let rest = pairs.remainder();
        let mut other = FastHasher(FACTOR);
        for pair in pairs {
            self.mix(word(&pair[..8]));
            other.mix(word(&pair[8..]));
        }
        rest.chunks(8).for_each(|chunk| self.mix(word(chunk)));
        self.mix(other.0);
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

/// Return the hash of a value.
#[inline]
pub fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = FastHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A list stored in blocks, which do not move when the list grows.
#[derive(Default)]
pub struct Blocks<T> {
    blocks: Vec<Vec<T>>,
}

const BLOCK: usize = 4096;

/// Return the heap bytes of the blocks, without the heap memory of the values themselves.
fn heap_of<T>(blocks: &Vec<Vec<T>>) -> usize {
    let values: usize = blocks.iter().map(Vec::capacity).sum();
    size_of::<Vec<T>>() * blocks.capacity() + size_of::<T>() * values
}

impl<T> Blocks<T> {
    pub fn new() -> Self {
        Blocks { blocks: Vec::new() }
    }

    /// Return the bytes on the heap (see `heap`), without those of the values themselves.
    pub fn heap(&self) -> usize {
        heap_of(&self.blocks)
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

    /// Allocate the whole first block, so that its values do not move either.
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
    /// Set the value at an index, and fill the gap before it in its block with defaults. A block without values takes
    /// no memory, and the first block takes no more than it needs.
    pub fn set(&mut self, index: usize, value: T) {
        if self.blocks.len() <= index / BLOCK {
            self.blocks.resize_with(index / BLOCK + 1, Vec::new);
        }
        let block = &mut self.blocks[index / BLOCK];
        if block.len() <= index % BLOCK {
            if index >= BLOCK {
                block.reserve_exact(BLOCK - block.len());
            }
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

/// Short immutable lists, one after the other in blocks; blocks do not move, except the first one.
pub struct Lists<T> {
    blocks: Vec<Vec<T>>,
}

/// The position of the first value of a list, and the position after its last value.
#[derive(Clone, Copy, Default)]
pub struct List {
    start: u32,
    end: u32,
}

impl List {
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Return the positions of the list's values.
    pub fn places(self) -> Range<u32> {
        self.start..self.end
    }
}

impl<T: Copy> Lists<T> {
    pub fn new() -> Self {
        Lists { blocks: Vec::new() }
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        heap_of(&self.blocks)
    }

    /// Add a list, which must not be longer than a block.
    pub fn add(&mut self, values: &[T]) -> List {
        if self
            .blocks
            .last()
            .map_or(true, |last| BLOCK - last.len() < values.len())
        {
            let room = if self.blocks.is_empty() { 0 } else { BLOCK };
            self.blocks.push(Vec::with_capacity(room));
        }
        let before = BLOCK * (self.blocks.len() - 1);
        let block = &mut self.blocks[before / BLOCK];
        let start = (before + block.len()) as u32;
        block.extend_from_slice(values);
        List {
            start,
            end: start + values.len() as u32,
        }
    }

    #[inline]
    pub fn get(&self, list: List) -> &[T] {
        let start = list.start as usize % BLOCK;
        self.blocks
            .get(list.start as usize / BLOCK)
            .map_or(&[], |block| &block[start..start + list.len()])
    }
}

impl<T> Index<u32> for Lists<T> {
    type Output = T;

    #[inline]
    fn index(&self, place: u32) -> &T {
        &self.blocks[place as usize / BLOCK][place as usize % BLOCK]
    }
}

/// Distinct values, numbered in order of insertion. The index is an extendible hash table (Fagin et al. 1979): a full
/// page is split in two. So no insertion takes long, and the table touches little fresh memory, which is slow: the
/// first access to a memory page takes as long as thousands of instructions.
pub struct Interner<K> {
    items: Blocks<K>,
    /// The page for each prefix of a hash; the length of the list gives the number of bits in the prefix.
    directory: Vec<u32>,
    /// Entries of a hash and a value's number plus one, so that splitting a page need not read the values; 0 for a free
    /// entry.
    pages: Vec<Vec<u64>>,
    /// For each page, the number of leading bits that its hashes share, and the number of its values.
    sizes: Vec<(u32, usize)>,
}

/// A full page with this many slots is split; a smaller page, or one whose hashes share too many bits, is doubled.
const PAGE_SLOTS: usize = 512;

impl<K: Hash + Eq> Interner<K> {
    pub fn new() -> Self {
        Interner {
            items: Blocks::new(),
            directory: vec![0],
            pages: vec![vec![0; 64]],
            sizes: vec![(0, 0)],
        }
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Return the bytes on the heap (see `heap`), without those of the values themselves.
    pub fn heap(&self) -> usize {
        let lists = size_of::<u32>() * self.directory.capacity() + size_of::<(u32, usize)>() * self.sizes.capacity();
        self.items.heap() + heap_of(&self.pages) + lists
    }

    /// Reserve memory for a block of values; call this while there are few values.
    pub fn make_room(&mut self) {
        self.items.make_room();
    }

    pub fn get(&self, number: u32) -> &K {
        &self.items[number as usize]
    }

    /// Return the number of an equal value, or add the value under a new number. The second item tells whether it is
    /// new.
    pub fn intern(&mut self, value: K) -> (u32, bool) {
        let hash = (hash_of(&value) >> 16) as u32;
        let page = self.directory[self.place(hash)] as usize;
        let entries = &mut self.pages[page];
        let mask = entries.len() - 1;
        let mut slot = hash as usize & mask;
        while entries[slot] != 0 {
            let number = entries[slot] as u32 - 1;
            if (entries[slot] >> 32) as u32 == hash && self.items[number as usize] == value {
                return (number, false);
            }
            slot = (slot + 1) & mask;
        }
        let number = self.items.len() as u32;
        entries[slot] = u64::from(hash) << 32 | u64::from(number + 1);
        self.items.push(value);
        self.sizes[page].1 += 1;
        if 8 * self.sizes[page].1 > 5 * entries.len() {
            self.divide(page, hash);
        }
        (number, true)
    }

    /// Return the index of the directory entry for a hash.
    #[inline]
    fn place(&self, hash: u32) -> usize {
        (u64::from(hash) << self.directory.len().ilog2() >> 32) as usize
    }

    /// Split a page by the next bit of its hashes, one of which is `hash`, or double it.
    fn divide(&mut self, page: usize, hash: u32) {
        let entries = std::mem::take(&mut self.pages[page]);
        let values = entries.iter().copied().filter(|entry| *entry != 0);
        let (bits, _) = self.sizes[page];
        if entries.len() < PAGE_SLOTS || bits == MAX_DIRECTORY_BITS {
            let mut larger = vec![0; 2 * entries.len()];
            values.for_each(|entry| insert(&mut larger, entry));
            self.pages[page] = larger;
            return;
        }
        if self.directory.len() == 1 << bits {
            self.directory = self.directory.iter().flat_map(|page| [*page; 2]).collect();
        }
        let same = self.directory.len() >> bits;
        let first = self.place(hash) & !(same - 1);
        self.directory[first + same / 2..first + same].fill(self.pages.len() as u32);
        let mut halves = [vec![0; entries.len()], vec![0; entries.len()]];
        let mut counts = [0; 2];
        for entry in values {
            let half = (entry >> (63 - bits) & 1) as usize;
            insert(&mut halves[half], entry);
            counts[half] += 1;
        }
        let [lower, upper] = halves;
        self.pages[page] = lower;
        self.pages.push(upper);
        self.sizes[page] = (bits + 1, counts[0]);
        self.sizes.push((bits + 1, counts[1]));
    }
}

/// An index of values that are stored elsewhere: it finds a value's number by the value's hash.
#[derive(Default)]
pub struct Numbers {
    /// Entries in the form that the pages of an `Interner` have.
    entries: Vec<u64>,
    count: usize,
}

impl Numbers {
    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        size_of::<u64>() * self.entries.capacity()
    }

    /// Remove all entries, and reserve memory for this many.
    pub fn clear(&mut self, room: usize) {
        self.entries.clear();
        self.entries.resize((2 * room).next_power_of_two().max(64), 0);
        self.count = 0;
    }

    /// Return the number of an equal value; if there is none, add this value under `number`.
    #[inline]
    pub fn find(&mut self, hash: u64, number: u32, is_equal: impl Fn(u32) -> bool) -> u32 {
        let hash = (hash >> 16) as u32;
        let mask = self.entries.len() - 1;
        let mut slot = hash as usize & mask;
        while self.entries[slot] != 0 {
            let known = self.entries[slot] as u32 - 1;
            if (self.entries[slot] >> 32) as u32 == hash && is_equal(known) {
                return known;
            }
            slot = (slot + 1) & mask;
        }
        self.entries[slot] = u64::from(hash) << 32 | u64::from(number + 1);
        self.count += 1;
        if self.count > self.entries.len() / 2 {
            self.grow();
        }
        number
    }

    #[cold]
    fn grow(&mut self) {
        let room = vec![0; 2 * self.entries.len()];
        let before = std::mem::replace(&mut self.entries, room);
        let values = before.into_iter().filter(|entry| *entry != 0);
        values.for_each(|entry| insert(&mut self.entries, entry));
    }
}

/// Put an entry into the first free place for its hash.
#[inline]
fn insert(entries: &mut [u64], entry: u64) {
    let mask = entries.len() - 1;
    let mut slot = (entry >> 32) as usize & mask;
    while entries[slot] != 0 {
        slot = (slot + 1) & mask;
    }
    entries[slot] = entry;
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

    #[test]
    fn values_with_the_same_hash_are_told_apart() {
        #[derive(PartialEq, Eq)]
        struct Same(u32);
        impl Hash for Same {
            fn hash<H: Hasher>(&self, state: &mut H) {
                state.write_u32(self.0 % 3);
            }
        }
        let mut numbers = Interner::new();
        for value in 0..3000 {
            assert_eq!(numbers.intern(Same(value)), (value, true));
            assert_eq!(numbers.intern(Same(value / 2)), (value / 2, false));
        }
    }

    #[test]
    fn example_interner_numbers_equal_values_alike() {
        let mut words = Interner::new();
        assert_eq!(words.intern("to"), (0, true));
        assert_eq!(words.intern("be"), (1, true));
        assert_eq!(words.intern("to"), (0, false));
        assert_eq!(*words.get(1), "be");
    }
}
