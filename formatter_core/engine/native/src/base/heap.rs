//! Computes how many bytes values take on the heap, as requested from the allocator.
//!
//! The `heap` methods of many types add up lengths and capacities and never visit every item. Where items own memory,
//! their bytes are counted when they are made.

use std::mem::size_of;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::base::hash::FastMap;

/// Bytes of the two reference counts that an `Arc` stores next to its value.
pub const COUNTS: usize = 2 * size_of::<usize>();

/// Return the heap bytes of a list, without those of its items.
pub fn list<T>(list: &Vec<T>) -> usize {
    size_of::<T>() * list.capacity()
}

/// Return the heap bytes of a table, without those of its entries. Besides the entries, hashbrown stores one byte per
/// slot and 16 more.
pub fn table<K, V>(table: &FastMap<K, V>) -> usize {
    // hashbrown fills at most seven of eight slots, and the number of slots is a power of two.
    let slots = match table.capacity() {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        capacity => (8 * capacity / 7).next_power_of_two(),
    };
    (slots * size_of::<(K, V)>()).next_multiple_of(16) + slots + 16
}

/// A counter of bytes that many owners share.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Replace a count of `before` bytes by `now` bytes.
    pub fn change(&self, before: usize, now: usize) {
        self.0.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }
}

/// The bytes of one owner. The shared counter includes them until the owner is dropped.
#[derive(Debug)]
pub struct Counted {
    bytes: AtomicUsize,
    counter: Counter,
}

impl Counted {
    pub fn new(bytes: usize, counter: &Counter) -> Self {
        counter.add(bytes);
        Counted {
            bytes: AtomicUsize::new(bytes),
            counter: counter.clone(),
        }
    }

    pub fn counter(&self) -> &Counter {
        &self.counter
    }

    /// Set the number of the owner's bytes.
    pub fn set(&self, bytes: usize) {
        self.counter.change(self.bytes.swap(bytes, Ordering::Relaxed), bytes);
    }

    /// Subtract bytes that the owner has freed.
    pub fn shrink(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.counter.remove(bytes);
    }

    /// Add bytes by which the owner has grown.
    pub fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counter.add(bytes);
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::new(self.bytes.load(Ordering::Relaxed), &self.counter)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counter.remove(*self.bytes.get_mut());
    }
}

/// The number of bytes that the whole process uses for one purpose, over all owners.
pub struct Total(AtomicUsize);

impl Total {
    pub const fn new() -> Self {
        Total(AtomicUsize::new(0))
    }

    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The bytes of one owner. The process-wide total includes them until the owner is dropped.
pub struct Share {
    bytes: AtomicUsize,
    total: &'static Total,
}

impl Share {
    pub fn new(bytes: usize, total: &'static Total) -> Self {
        total.add(bytes);
        Share {
            bytes: AtomicUsize::new(bytes),
            total,
        }
    }

    /// Set the number of the owner's bytes.
    pub fn set(&self, bytes: usize) {
        self.total.add(bytes);
        self.total.remove(self.bytes.swap(bytes, Ordering::Relaxed));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.total.remove(*self.bytes.get_mut());
    }
}
