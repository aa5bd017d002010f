//! The cache that all sequences of one grammar share: frames and states, which exist once each, moves between states,
//! and masks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::base::hash::FastMap;
use crate::base::heap::{self, Counter};
use crate::base::limits::{Fault, Limit, Outcome};
use crate::base::tuning::{LIVE_TO_CACHE, MAX_FREED_AT_ONCE};
use crate::grammar::stack::{Called, Frozen, Group, Key, State, ROOT};
use crate::tokens::fitting::Fitting;
use crate::tokens::lexicon::{LetGo, Lexicon};
use crate::tokens::mask::Mask;

pub struct Cache {
    groups: FastMap<Key, Arc<Group>>,
    states: FastMap<Key, Arc<State>>,
    moves: FastMap<(u64, u32), Arc<State>>,
    masks: FastMap<u64, Arc<Mask>>,
    fitting: FastMap<u64, Arc<Fitting>>,
    /// Dropped contents that are being freed.
    freed: LetGo,
    bytes: usize,
    maximum: usize,
    lexicon: Arc<Lexicon>,
    /// The next number for a group or state, shared by all caches of one grammar.
    next_id: Arc<AtomicU64>,
    live_bytes: Counter,
    /// Counts the bytes of the memories of member lists.
    memories: Counter,
    /// Heap bytes of the kept keys.
    keys: usize,
    /// Bytes of dropped tables and keys, and of other contents dropped with them, as long as some of them are not
    /// freed.
    freed_tables: usize,
}

impl Cache {
    /// Make a cache that keeps about `maximum` bytes of states of `lexicon`; `memories` counts the memories of the
    /// grammar's member lists.
    pub fn new(maximum: usize, lexicon: Arc<Lexicon>, memories: &Counter) -> Self {
        Cache {
            groups: FastMap::default(),
            states: FastMap::default(),
            moves: FastMap::default(),
            masks: FastMap::default(),
            fitting: FastMap::default(),
            freed: Box::new(std::iter::empty()),
            bytes: 0,
            maximum,
            lexicon,
            next_id: Arc::new(AtomicU64::new(ROOT + 1)),
            live_bytes: Counter::default(),
            memories: memories.clone(),
            keys: 0,
            freed_tables: 0,
        }
    }

    /// Return an empty cache for the same grammar with another lexicon. It frees everything that this cache has kept,
    /// and then `others`, which have `bytes` bytes. Sequences keep the states that they need; equal states made later
    /// are new objects, so results for them are computed again.
    pub fn renewed(&mut self, lexicon: Arc<Lexicon>, others: LetGo, bytes: usize) -> Self {
        let before = std::mem::replace(&mut self.freed, Box::new(std::iter::empty()));
        let freed_tables = std::mem::take(&mut self.freed_tables) + self.tables() + bytes;
        Cache {
            freed_tables,
            freed: Box::new(before.chain(self.let_go()).chain(others)),
            next_id: self.next_id.clone(),
            live_bytes: self.live_bytes.clone(),
            ..Cache::new(self.maximum, lexicon, &self.memories)
        }
    }

    /// Return the frame to which the whole text returns.
    pub fn root(&self) -> Arc<Group> {
        let called = Called {
            edges: Box::default(),
            memory: None,
            deadlines: None,
        };
        Group::new(ROOT, vec![called], &self.live_bytes)
    }

    /// Return the bytes of all states and frames that exist, kept or not, and of the tables.
    pub fn memory(&self) -> usize {
        self.live_bytes.bytes() + self.tables_memory()
    }

    /// Return the bytes of the tables only.
    pub fn tables_memory(&self) -> usize {
        self.tables() + self.freed_tables
    }

    /// Return the bytes of the tables (see `heap`), without those of the values, which count themselves.
    fn tables(&self) -> usize {
        heap::table(&self.groups)
            + heap::table(&self.states)
            + heap::table(&self.moves)
            + heap::table(&self.masks)
            + heap::table(&self.fitting)
            + self.keys
    }

    /// Return the group with this key; make it if it does not exist.
    pub fn group(&mut self, key: Key, members: Vec<Called>) -> Outcome<Arc<Group>> {
        if let Some(group) = self.groups.get(&key) {
            return Ok(group.clone());
        }
        self.check_live_bytes()?;
        let group = Group::new(self.next_id(), members, &self.live_bytes);
        self.bytes += group.bytes() + bytes_of(&key);
        self.keys += key.heap();
        self.groups.insert(key, group.clone());
        Ok(group)
    }

    /// Return the group with this key, if it was kept.
    pub fn known_group(&self, key: &Key) -> Option<Arc<Group>> {
        self.groups.get(key).cloned()
    }

    /// Store another key for a group, with the same edges in another order.
    pub fn keep_group(&mut self, key: Key, group: &Arc<Group>) {
        let (bytes, own) = (bytes_of(&key), key.heap());
        if self.groups.insert(key, group.clone()).is_none() {
            self.bytes += bytes;
            self.keys += own;
        }
    }

    /// Return the state with these parts.
    pub fn state(&mut self, parts: Frozen) -> Outcome<Arc<State>> {
        let key = parts.key();
        if let Some(state) = self.states.get(&key) {
            return Ok(state.clone());
        }
        self.check_live_bytes()?;
        let state = State::new(self.next_id(), parts, self.lexicon.clone(), &self.live_bytes);
        self.bytes += state.bytes() + bytes_of(&key);
        self.keys += key.heap();
        self.states.insert(key, state.clone());
        Ok(state)
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn check_live_bytes(&self) -> Outcome<()> {
        if self.live_bytes.bytes() + self.memories.bytes() > LIVE_TO_CACHE.saturating_mul(self.maximum.max(1 << 20)) {
            return Err(Fault::Limit(Limit::CacheBytes));
        }
        Ok(())
    }

    pub fn after(&self, state: &State, token: u32) -> Option<Arc<State>> {
        self.moves.get(&(state.id, token)).cloned()
    }

    pub fn keep_move(&mut self, state: &State, token: u32, next: &Arc<State>) {
        self.moves.insert((state.id, token), next.clone());
        self.bytes += 48;
        self.trim();
    }

    pub fn mask(&self, state: &State) -> Option<Arc<Mask>> {
        self.masks.get(&state.id).cloned()
    }

    pub fn keep_mask(&mut self, state: &State, mask: &Arc<Mask>) {
        if self.masks.insert(state.id, mask.clone()).is_none() {
            self.bytes += mask.bytes() + 48;
        }
        self.trim();
    }

    pub fn fitting(&self, state: &State) -> Option<Arc<Fitting>> {
        self.fitting.get(&state.id).cloned()
    }

    pub fn keep_fitting(&mut self, state: &State, fitting: &Arc<Fitting>) {
        if self.fitting.insert(state.id, fitting.clone()).is_none() {
            self.bytes += fitting.bytes() + 48;
        }
        self.trim();
    }

    /// If the cache is too large, drop everything; in any case, free some of the dropped contents.
    fn trim(&mut self) {
        if self.bytes > self.maximum {
            self.freed_tables = self.tables();
            self.freed = self.let_go();
        }
        let (mut pieces, mut bytes) = (0, 0);
        for piece in self.freed.by_ref().take(MAX_FREED_AT_ONCE) {
            pieces += 1;
            bytes += piece;
        }
        self.freed_tables = match pieces {
            MAX_FREED_AT_ONCE => self.freed_tables.saturating_sub(bytes),
            _ => 0,
        };
    }

    /// Return all contents, to be freed piece by piece.
    fn let_go(&mut self) -> LetGo {
        self.bytes = 0;
        self.keys = 0;
        // Only keys are counted here: everything else counts itself.
        let groups = std::mem::take(&mut self.groups).into_keys().map(|key| key.heap());
        let states = std::mem::take(&mut self.states).into_keys().map(|key| key.heap());
        let moves = std::mem::take(&mut self.moves).into_iter().map(|_| 0);
        let masks = std::mem::take(&mut self.masks).into_iter().map(|_| 0);
        let fitting = std::mem::take(&mut self.fitting).into_iter().map(|_| 0);
        Box::new(masks.chain(fitting).chain(moves).chain(states).chain(groups))
    }
}

/// Return an estimate of the bytes that a key and its entry take in a table.
fn bytes_of(key: &Key) -> usize {
    8 * key.0.len() + 48
}
