//! Token ids while a class is gathered.

use crate::class::TokenSet;
use crate::mask::{clear, ids_in, set};

/// A set of tokens without some of them.
pub fn without(tokens: &TokenSet, ids: &[u32], words: usize) -> TokenSet {
    let mut left = Inside::bits_of(tokens, words);
    left.remove(ids);
    left.finish(words)
}

/// Token ids while they are gathered: listed while they are few.
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

    pub fn remove(&mut self, ids: &[u32]) {
        if let Inside::Bits(bits) = self {
            clear(bits, ids);
        }
    }

    pub fn finish(self, words: usize) -> TokenSet {
        let mut list = match self {
            Inside::List(list) => list,
            Inside::Bits(bits) => {
                let count: u32 = bits.iter().map(|word| word.count_ones()).sum();
                return match count as usize > words / 2 {
                    true => TokenSet::Dense(bits.into()),
                    false => TokenSet::Sparse(ids_in(&bits).collect()),
                };
            }
        };
        list.sort_unstable();
        list.dedup();
        if list.len() > words / 2 {
            return TokenSet::Dense(bits_from(&list, words).into());
        }
        TokenSet::Sparse(list.into())
    }
}

pub fn bits_from(ids: &[u32], words: usize) -> Vec<u32> {
    let mut bits = vec![0; words];
    set(&mut bits, ids);
    bits
}
