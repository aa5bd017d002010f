//! Collects the token ids of a class.

use crate::tokens::class::TokenSet;
use crate::tokens::lexicon::Lexicon;
use crate::tokens::mask::{bits_from, clear, ids_in, set, Bits};

/// Return a set of tokens without some ids.
pub fn without(tokens: &TokenSet, ids: &[u32], lexicon: &Lexicon) -> TokenSet {
    let mut left = Inside::bits_of(tokens, lexicon.vocabulary.words());
    left.remove(ids);
    left.finish(lexicon)
}

/// Token ids while they are collected: a list while they are few, then bits.
pub enum Inside {
    List(Vec<u32>),
    Bits(Vec<u32>),
}

impl Inside {
    pub fn bits_of(tokens: &TokenSet, words: usize) -> Self {
        match tokens {
            TokenSet::Dense(bits) => Inside::Bits(bits.to_vec()),
            TokenSet::Sparse(ids) => Inside::Bits(bits_from(ids, words)),
        }
    }

    pub fn add(&mut self, ids: &[u32], words: usize) {
        match self {
            Inside::List(list) => {
                list.extend_from_slice(ids);
                if list.len() > words {
                    *self = Inside::Bits(bits_from(list, words));
                }
            }
            Inside::Bits(bits) => set(bits, ids),
        }
    }

    fn remove(&mut self, ids: &[u32]) {
        if let Inside::Bits(bits) = self {
            clear(bits, ids);
        }
    }

    /// Remove the ids in some ranges of the list of all ids. The ranges must be in ascending order and must not
    /// overlap.
    pub fn remove_between(&mut self, places: Vec<(usize, usize)>, all: &[u32]) {
        let removed: usize = places.iter().map(|(first, end)| end - first).sum();
        let Inside::Bits(bits) = self else {
            return;
        };
        if removed <= all.len() / 2 {
            for (first, end) in places {
                clear(bits, &all[first..end]);
            }
            return;
        }
        // Fewer ids stay than go: list those that stay.
        let (mut stay, mut from) = (Vec::new(), 0);
        for (first, end) in places.into_iter().chain([(all.len(), 0)]) {
            let between = all[from..first].iter();
            stay.extend(between.filter(|id| bits[**id as usize / 32] >> (**id % 32) & 1 != 0));
            from = end;
        }
        bits.fill(0);
        set(bits, &stay);
    }

    /// Return the set, which counts with the classes of a lexicon.
    pub fn finish(self, lexicon: &Lexicon) -> TokenSet {
        let (words, counter) = (lexicon.vocabulary.words(), &lexicon.owner.memory);
        let mut list = match self {
            Inside::List(list) => list,
            Inside::Bits(bits) => {
                let count: u32 = bits.iter().map(|word| word.count_ones()).sum();
                return match count as usize > words / 2 {
                    true => TokenSet::Dense(Bits::new(bits, counter)),
                    false => TokenSet::Sparse(ids_in(&bits).collect()),
                };
            }
        };
        list.sort_unstable();
        list.dedup();
        if list.len() > words / 2 {
            return TokenSet::Dense(Bits::new(bits_from(&list, words), counter));
        }
        TokenSet::Sparse(list.into())
    }
}
