//! The tokens that may come next by how many more tokens the text then needs: what masks near the end of a budget are
//! taken from.

use std::hash::Hash;
use std::mem::{size_of, size_of_val};
use std::sync::Arc;

use crate::base::hash::FastMap;
use crate::base::heap::{self, Counted, Counter};
use crate::tokens::class::TokenSet;
use crate::tokens::mask::{clear, Bits};
use crate::tokens::trie::Vocabulary;

/// How many tokens complete a state, the end id included. Where that depends on when regions have to be over, it holds
/// until this many tokens have come, and something else later.
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

    /// From numbers of tokens that grow, each with the distance until then; none if there are none.
    pub fn of(parts: Vec<(u32, u32)>) -> Option<Self> {
        parts.into_iter().rev().fold(None, |later, (until, distance)| {
            Some(Reach {
                distance,
                until,
                later: later.map(Arc::new),
            })
        })
    }

    /// The distance after this many tokens; None where nothing leads to the end any more.
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

/// How many tokens have come after the next one, and how many may come then.
#[derive(Clone, Copy)]
pub struct Room {
    pub tokens: u32,
    pub most: u32,
}

/// Tokens that have the same distance after them; it may be that none is known.
struct Group {
    reach: Reach,
    tokens: TokenSet,
}

impl Group {
    fn fits(&self, room: Room) -> bool {
        self.reach.at(room.tokens).is_some_and(|distance| distance <= room.most)
    }
}

/// The tokens that may come next, those that lead nearest to the end first.
pub struct Fitting {
    groups: Box<[Group]>,
    _memory: Counted,
}

impl Fitting {
    /// Whether there is room for all tokens.
    pub fn all_fit(&self, room: Room) -> bool {
        self.groups.iter().all(|group| group.fits(room))
    }

    /// Write the tokens that there is room for to a row; whether there are any.
    pub fn write(&self, room: Room, row: &mut [u32]) -> bool {
        row.fill(0);
        let mut has_tokens = false;
        for group in self.groups.iter().filter(|group| group.fits(room)) {
            has_tokens = true;
            group.tokens.write(row);
        }
        has_tokens
    }

    /// What all tokens begin with that there is room for.
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

/// Tokens that have something in common, while they are gathered.
pub struct Grouped<K> {
    groups: Vec<(K, Vec<u32>)>,
    numbers: FastMap<K, usize>,
    /// The group that was added to last.
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

    /// Take a group's tokens away.
    pub fn take(&mut self, common: &K) -> Vec<u32> {
        let group = self.numbers.get(common).map(|number| &mut self.groups[*number].1);
        group.map(std::mem::take).unwrap_or_default()
    }

    /// The groups that are not empty.
    pub fn finish(self, words: usize, counter: &Counter) -> Vec<(K, TokenSet)> {
        let groups = self.groups.into_iter().filter(|(_, ids)| !ids.is_empty());
        groups
            .map(|(common, ids)| (common, TokenSet::of(ids, words, counter)))
            .collect()
    }
}

/// The tokens that may come next while they are gathered.
#[derive(Default)]
pub struct Gathered {
    /// Those that stay inside one terminal, as bits: but for those that are also below.
    inside: Vec<(Reach, Box<[u32]>)>,
    followed: Grouped<Reach>,
}

impl Gathered {
    /// Tokens that stay inside a terminal; what is said of some of them by `add` counts for more.
    pub fn add_inside(&mut self, tokens: &TokenSet, reach: Reach, words: usize) {
        let place = self.inside.iter().position(|(known, _)| *known == reach);
        let place = place.unwrap_or_else(|| {
            self.inside.push((reach, vec![0; words].into()));
            self.inside.len() - 1
        });
        tokens.write(&mut self.inside[place].1);
    }

    /// Tokens with the same distance after them.
    pub fn add(&mut self, ids: &[u32], reach: Reach) {
        self.followed.add(ids, reach);
    }

    /// A token that may come by its id. What is known of it as text is forgotten.
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

    /// The tokens, whose bytes are counted with the masks of a grammar.
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
