//! The tokens that may come next by how many more tokens the text then needs: what masks near the end of a budget are
//! taken from.

use crate::class::TokenSet;
use crate::hash::FastMap;
use crate::mask::{join, set};
use crate::trie::Vocabulary;

/// Tokens that have the same distance after them; it may be that none is known.
struct Group {
    distance: u32,
    tokens: TokenSet,
}

/// The tokens that may come next, those that lead nearest to the end first.
pub struct Fitting {
    groups: Box<[Group]>,
}

impl Fitting {
    /// The greatest distance after any token.
    pub fn farthest(&self) -> u32 {
        self.groups.last().map_or(0, |group| group.distance)
    }

    /// Write the tokens after which at most `most` more are needed to a row; whether there are any.
    pub fn write(&self, most: u32, row: &mut [u32]) -> bool {
        row.fill(0);
        let fits = self.groups.iter().take_while(|group| group.distance <= most);
        let mut has_tokens = false;
        for group in fits {
            has_tokens = true;
            match &group.tokens {
                TokenSet::Dense(words) => join(row, words),
                TokenSet::Sparse(ids) => set(row, ids),
            }
        }
        has_tokens
    }

    /// What all tokens begin with after which at most `most` more are needed.
    pub fn common_prefix(&self, most: u32, vocabulary: &Vocabulary) -> Vec<u8> {
        let fits = self.groups.iter().take_while(|group| group.distance <= most);
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
        let tokens = |group: &Group| match &group.tokens {
            TokenSet::Dense(words) => 4 * words.len(),
            TokenSet::Sparse(ids) => 4 * ids.len(),
        };
        self.groups.iter().map(|group| 48 + tokens(group)).sum::<usize>() + 48
    }
}

/// Tokens while they are gathered.
#[derive(Default)]
pub struct Gathered {
    groups: Vec<(u32, Vec<u32>)>,
    numbers: FastMap<u32, usize>,
    /// The group that was added to last.
    last: usize,
}

impl Gathered {
    /// A token that may come by its id. What is known of it as text is forgotten.
    pub fn add_named(&mut self, token: u32, distance: u32) {
        for (_, ids) in &mut self.groups {
            ids.retain(|id| *id != token);
        }
        self.add(&[token], distance);
    }

    pub fn finish(self, words: usize) -> Fitting {
        let mut groups: Vec<Group> = self
            .groups
            .into_iter()
            .filter(|(_, ids)| !ids.is_empty())
            .map(|(distance, ids)| Group {
                distance,
                tokens: token_set(ids, words),
            })
            .collect();
        groups.sort_unstable_by_key(|group| group.distance);
        Fitting { groups: groups.into() }
    }

    /// Tokens with the same distance after them.
    pub fn add(&mut self, ids: &[u32], distance: u32) {
        if self.groups.get(self.last).map_or(true, |group| group.0 != distance) {
            self.last = *self.numbers.entry(distance).or_insert(self.groups.len());
            if self.last == self.groups.len() {
                self.groups.push((distance, Vec::new()));
            }
        }
        self.groups[self.last].1.extend_from_slice(ids);
    }
}

fn token_set(ids: Vec<u32>, words: usize) -> TokenSet {
    if ids.len() <= words {
        return TokenSet::Sparse(ids.into());
    }
    let mut bits = vec![0; words];
    set(&mut bits, &ids);
    TokenSet::Dense(bits.into())
}
