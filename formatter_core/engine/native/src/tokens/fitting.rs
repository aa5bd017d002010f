//! The tokens that may come next, grouped by the number of further tokens that the text then needs. Masks near the end
//! of a budget are made from them.

use std::hash::Hash;
use std::mem::{size_of, size_of_val};
use std::sync::Arc;

use crate::base::hash::FastMap;
use crate::base::heap::{self, Counted, Counter};
use crate::tokens::class::TokenSet;
use crate::tokens::mask::{clear, Bits};
use crate::tokens::trie::Vocabulary;

/// The number of tokens that complete a state, the end id included. If it depends on the deadlines of regions,
/// `distance` applies until `until` tokens have come, and `later` applies afterwards.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Reach {
    distance: u32,
    until: u32,
    later: Option<Arc<Reach>>,
}

impl Reach {
    pub fn always(distance: u32) -> Self {
        Reach {
            distance,
            until: u32::MAX,
            later: None,
        }
    }

    /// Make a reach from pairs (number of tokens, distance up to that number), with ascending numbers; return None if
    /// there are no pairs.
    pub fn of(parts: Vec<(u32, u32)>) -> Option<Self> {
        parts.into_iter().rev().fold(None, |later, (until, distance)| {
            Some(Reach {
                distance,
                until,
                later: later.map(Arc::new),
            })
        })
    }

    /// Return the distance after this many tokens, or None if the end can no longer be reached.
    pub fn at(&self, tokens: u32) -> Option<u32> {
        let mut current = Some(self);
        while let Some(reach) = current {
            if tokens <= reach.until {
                return Some(reach.distance);
            }
            current = reach.later.as_deref();
        }
        None
    }
}

/// `tokens` is the number of tokens once the next one has come; `most` is the maximum number that may follow it.
#[derive(Clone, Copy)]
pub struct Room {
    pub tokens: u32,
    pub most: u32,
}

/// Tokens that have the same distance after them; the distance may be unknown.
struct Group {
    reach: Reach,
    tokens: TokenSet,
}

impl Group {
    fn fits(&self, room: Room) -> bool {
        self.reach.at(room.tokens).is_some_and(|distance| distance <= room.most)
    }
}

/// The tokens that may come next, grouped by their distance to the end.
pub struct Fitting {
    groups: Box<[Group]>,
    _memory: Counted,
}

impl Fitting {
    /// Return whether all tokens fit into the room.
    pub fn all_fit(&self, room: Room) -> bool {
        self.groups.iter().all(|group| group.fits(room))
    }

    /// Write the tokens that fit into the room to a row; return whether there are any.
    pub fn write(&self, room: Room, row: &mut [u32]) -> bool {
        row.fill(0);
        let mut has_tokens = false;
        for group in self.groups.iter().filter(|group| group.fits(room)) {
            has_tokens = true;
            group.tokens.write(row);
        }
        has_tokens
    }

    /// Return the longest common prefix of all tokens that fit into the room.
    pub fn common_prefix(&self, room: Room, vocabulary: &Vocabulary) -> Vec<u8> {
        let fits = self.groups.iter().filter(|group| group.fits(room));
        let mut common: Option<&[u8]> = None;
        for id in fits.flat_map(|group| group.tokens.ids()) {
            let text = vocabulary.token(id);
            let common = common.get_or_insert(text);
            let same = common.iter().zip(text).take_while(|(one, other)| one == other).count();
            *common = &common[..same];
            if same == 0 {
                break;
            }
        }
        common.unwrap_or_default().to_vec()
    }

    pub fn bytes(&self) -> usize {
        let groups = self.groups.iter().map(|group| 48 + group.tokens.bytes());
        groups.sum::<usize>() + 48
    }
}

/// Collects tokens and groups them by a common property.
pub struct Grouped<K> {
    groups: Vec<(K, Vec<u32>)>,
    numbers: FastMap<K, usize>,
    /// The group that the last tokens were added to.
    last: usize,
}

impl<K> Default for Grouped<K> {
    fn default() -> Self {
        Grouped {
            groups: Vec::new(),
            numbers: FastMap::default(),
            last: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Grouped<K> {
    pub fn add(&mut self, ids: &[u32], common: K) {
        if self.groups.get(self.last).map_or(true, |group| group.0 != common) {
            self.last = *self.numbers.entry(common.clone()).or_insert(self.groups.len());
            if self.last == self.groups.len() {
                self.groups.push((common, Vec::new()));
            }
        }
        self.groups[self.last].1.extend_from_slice(ids);
    }

    /// Remove a group's tokens and return them.
    pub fn take(&mut self, common: &K) -> Vec<u32> {
        let group = self.numbers.get(common).map(|number| &mut self.groups[*number].1);
        group.map(std::mem::take).unwrap_or_default()
    }

    /// Return the groups that are not empty.
    pub fn finish(self, words: usize, counter: &Counter) -> Vec<(K, TokenSet)> {
        let groups = self.groups.into_iter().filter(|(_, ids)| !ids.is_empty());
        groups
            .map(|(common, ids)| (common, TokenSet::of(ids, words, counter)))
            .collect()
    }
}

/// Collects the tokens that may come next.
#[derive(Default)]
pub struct Gathered {
    /// Tokens that stay inside one terminal, as bits; tokens that are also in `followed` do not count here.
    inside: Vec<(Reach, Box<[u32]>)>,
    followed: Grouped<Reach>,
}

impl Gathered {
    /// Add tokens that stay inside a terminal. The reach that `add` gives for a token takes precedence.
    pub fn add_inside(&mut self, tokens: &TokenSet, reach: Reach, words: usize) {
        let place = self.inside.iter().position(|(known, _)| *known == reach);
        let place = place.unwrap_or_else(|| {
            self.inside.push((reach, vec![0; words].into()));
            self.inside.len() - 1
        });
        tokens.write(&mut self.inside[place].1);
    }

    /// Add tokens that have the same distance after them.
    pub fn add(&mut self, ids: &[u32], reach: Reach) {
        self.followed.add(ids, reach);
    }

    /// Add a token that the grammar names by its id. This replaces what is known of the token as text.
    pub fn add_named(&mut self, token: u32, reach: Option<Reach>) {
        for (_, ids) in &mut self.followed.groups {
            ids.retain(|id| *id != token);
        }
        for (_, bits) in &mut self.inside {
            clear(bits, &[token]);
        }
        if let Some(reach) = reach {
            self.add(&[token], reach);
        }
    }

    /// Return the collected tokens; `counter` counts their bytes with the masks of the grammar.
    pub fn finish(self, words: usize, counter: &Counter) -> Fitting {
        let mut groups: Vec<Group> = Vec::new();
        for (reach, mut bits) in self.inside {
            for (_, ids) in &self.followed.groups {
                clear(&mut bits, ids);
            }
            if bits.iter().any(|word| *word != 0) {
                let tokens = TokenSet::Dense(Bits::new(bits.into_vec(), counter));
                groups.push(Group { reach, tokens });
            }
        }
        let followed = self.followed.finish(words, counter);
        groups.extend(followed.into_iter().map(|(reach, tokens)| Group { reach, tokens }));
        let groups: Box<[Group]> = groups.into();
        let sets = groups.iter().map(|group| group.tokens.heap()).sum::<usize>();
        let bytes = heap::COUNTS + size_of::<Fitting>() + size_of_val(&*groups) + sets;
        Fitting {
            groups,
            _memory: Counted::new(bytes, counter),
        }
    }
}
