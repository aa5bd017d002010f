//! How many bytes values have on the heap, as the allocator was asked for them.
//!
//! What is told by a call (`heap` of many types) is summed up from lengths and capacities, never by looking at every item:
//! where items have memory of their own, that is counted when they are made.

use std::mem::size_of;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::base::hash::FastMap;

/// What `Arc` keeps beside its value.
pub const COUNTS: usize = 2 * size_of::<usize>();

/// Of a list, without what its items have themselves.
pub fn list<T>(list: &Vec<T>) -> usize {
    size_of::<T>() * list.capacity()
}

/// Of a table, without what its entries have themselves: a byte for each of its slots, and 16 more, as hashbrown lays it out.
pub fn table<K, V>(table: &FastMap<K, V>) -> usize {
    // At most seven of eight slots are used, and the number of slots is a power of two.
    let slots = match table.capacity() {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        capacity => (8 * capacity / 7).next_power_of_two(),
    };
    (slots * size_of::<(K, V)>()).next_multiple_of(16) + slots + 16
}

/// Bytes that many owners count together.
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

    /// Count what was `before` as what it is `now`.
    pub fn change(&self, before: usize, now: usize) {
        self.0.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }
}

/// Bytes of one owner, which are counted as long as it lives.
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

    /// Count the owner as this many bytes.
    pub fn set(&self, bytes: usize) {
        self.counter.change(self.bytes.swap(bytes, Ordering::Relaxed), bytes);
    }

    /// Count what the owner has let go.
    pub fn shrink(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.counter.remove(bytes);
    }

    /// Count what the owner has grown by.
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

/// Bytes that a process has of something, whoever keeps it.
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

/// What one owner has of a total, as long as it lives.
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

    /// Count the owner as this many bytes.
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
