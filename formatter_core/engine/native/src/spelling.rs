//! Texts as lists that share their ends, and the fewest tokens that spell each.

use crate::hash::Interner;
use crate::trie::{Trie, Vocabulary};

/// The number of a text.
pub type Text = u32;

/// The empty text.
pub const NIL: Text = 0;

/// Stands for a text that there is none of.
pub const IMPOSSIBLE: Text = 1;

/// No number of tokens is enough; also the distance of what cannot be reached.
pub const NEVER: u32 = u32::MAX / 4;

/// Symbols from here on are tokens that come by their ids; those before are bytes.
pub const FIRST_TOKEN: u32 = 256;

/// Texts of bytes and of tokens that come by their ids. Each is a symbol and the text after it, and exists once.
pub struct Texts {
    cells: Interner<(u32, Text)>,
    fewest: Vec<u32>,
    /// The tokens that must not be used, sorted.
    avoided: Box<[u32]>,
    /// The node of the vocabulary's trie for each first byte.
    roots: Box<[Option<u32>; 256]>,
}

impl Texts {
    pub fn new(vocabulary: &Vocabulary, avoided: &[u32]) -> Self {
        let nodes = vocabulary.trie.nodes();
        let mut roots = Box::new([None; 256]);
        let mut index = 0;
        while let Some(node) = nodes.get(index) {
            roots[usize::from(node.byte)] = Some(index as u32);
            index = node.end as usize;
        }
        let mut cells = Interner::new();
        cells.intern((u32::MAX, NIL));
        cells.intern((u32::MAX, IMPOSSIBLE));
        Texts {
            cells,
            fewest: vec![0, NEVER],
            avoided: avoided.into(),
            roots,
        }
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.fewest.len()
    }

    /// The fewest tokens that spell a text, or `NEVER`.
    pub fn fewest(&self, text: Text) -> u32 {
        self.fewest[text as usize]
    }

    /// The first symbol and the text after it; None of the empty text, and where there is none.
    pub fn split(&self, text: Text) -> Option<(u32, Text)> {
        (text > IMPOSSIBLE).then(|| *self.cells.get(text))
    }

    /// Whether a token may be used.
    pub fn is_usable(&self, token: u32) -> bool {
        self.avoided.binary_search(&token).is_err()
    }

    /// Whether some usable token ends at a node of the trie.
    pub fn ends_token(&self, trie: &Trie, node: u32) -> bool {
        let ids = trie.ids(node as usize);
        !ids.is_empty() && (self.avoided.is_empty() || ids.iter().any(|id| self.is_usable(*id)))
    }

    /// The node of the trie for a first byte.
    pub fn root(&self, byte: u8) -> Option<u32> {
        self.roots[usize::from(byte)]
    }

    /// A symbol and a text after it.
    pub fn cons(&mut self, symbol: u32, rest: Text, vocabulary: &Vocabulary) -> Text {
        let (text, is_new) = self.cells.intern((symbol, rest));
        if is_new {
            let fewest = self.count(text, vocabulary);
            self.fewest.push(fewest);
        }
        text
    }

    /// The one of two texts of one length that comes first, symbol by symbol.
    pub fn first(&self, one: Text, other: Text) -> Text {
        if one == IMPOSSIBLE || other == IMPOSSIBLE {
            return if one == IMPOSSIBLE { other } else { one };
        }
        let (mut left, mut right) = (one, other);
        while left != right {
            match (self.split(left), self.split(right)) {
                (Some(first), Some(second)) if first.0 == second.0 => (left, right) = (first.1, second.1),
                (first, second) => return if first <= second { one } else { other },
            }
        }
        one
    }

    fn count(&self, text: Text, vocabulary: &Vocabulary) -> u32 {
        let (symbol, rest) = *self.cells.get(text);
        if let Some(token) = symbol.checked_sub(FIRST_TOKEN) {
            let is_usable = (token as usize) < vocabulary.len() && self.is_usable(token);
            return if is_usable { add(1, self.fewest(rest)) } else { NEVER };
        }
        let trie = &vocabulary.trie;
        let mut best = NEVER;
        let (mut node, mut rest) = (self.root(symbol as u8), rest);
        while let Some(at) = node {
            if self.ends_token(trie, at) {
                best = best.min(add(1, self.fewest(rest)));
            }
            node = match self.split(rest) {
                Some((next, after)) if next < FIRST_TOKEN => {
                    rest = after;
                    trie.child(at, next as u8)
                }
                _ => None,
            };
        }
        best
    }
}

/// The sum of two numbers of tokens.
pub fn add(one: u32, other: u32) -> u32 {
    (one + other).min(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_spelt_in_as_few_tokens_as_possible() {
        // Tokens: 0 "a", 1 "ab", 2 "abc", 3 "b", 4 "cd", 5 "c"; the longest match first would need "abc" and then "d".
        let vocabulary = Vocabulary::new(b"aababcbcdc", &[0, 1, 3, 6, 7, 9, 10]).unwrap();
        let spell = |texts: &mut Texts, bytes: &[u8]| {
            let text = bytes
                .iter()
                .rev()
                .fold(NIL, |rest, byte| texts.cons(u32::from(*byte), rest, &vocabulary));
            texts.fewest(text)
        };
        let mut texts = Texts::new(&vocabulary, &[]);
        assert_eq!(spell(&mut texts, b"abcd"), 2);
        assert_eq!(spell(&mut texts, b"abc"), 1);
        assert_eq!(spell(&mut texts, b"abd"), NEVER);
        let mut texts = Texts::new(&vocabulary, &[1, 2]);
        assert_eq!(spell(&mut texts, b"abcd"), 3);
    }

    #[test]
    fn a_token_by_its_id_is_one_symbol() {
        let vocabulary = Vocabulary::new(b"a", &[0, 1, 1]).unwrap();
        let mut texts = Texts::new(&vocabulary, &[]);
        let end = texts.cons(FIRST_TOKEN + 1, NIL, &vocabulary);
        let text = texts.cons(u32::from(b'a'), end, &vocabulary);
        assert_eq!((texts.fewest(text), texts.fewest(end)), (2, 1));
        let beyond = texts.cons(FIRST_TOKEN + 9, NIL, &vocabulary);
        assert_eq!(texts.fewest(beyond), NEVER);
    }
}
