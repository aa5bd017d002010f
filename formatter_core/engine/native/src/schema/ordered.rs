//! A map that keeps the order in which its keys first occurred.

use std::hash::Hash;

use crate::base::hash::FastMap;

pub struct Ordered<K, V> {
    entries: Vec<(K, V)>,
    places: FastMap<K, usize>,
}

impl<K: Eq + Hash + Clone, V: Default> Ordered<K, V> {
    pub fn new() -> Self {
        Ordered {
            entries: Vec::new(),
            places: FastMap::default(),
        }
    }

    /// Return the value of a key; a new key has the default value.
    pub fn at(&mut self, key: K) -> &mut V {
        let next = self.entries.len();
        let place = *self.places.entry(key.clone()).or_insert(next);
        if place == next {
            self.entries.push((key, V::default()));
        }
        &mut self.entries[place].1
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.places.get(key).map(|place| &self.entries[*place].1)
    }

    pub fn entries(&self) -> &[(K, V)] {
        &self.entries
    }

    pub fn into_entries(self) -> Vec<(K, V)> {
        self.entries
    }
}
