//! Texts as lists with shared tails, and the fewest tokens that spell each text.
//!
//! A region with a budget is spelled by tokens of its own. Barriers mark its beginning and end; they are not part of
//! the text. If a text has several parses with barriers at different positions, all these barriers are kept.

use std::cmp::Ordering;
use std::mem::size_of_val;

use crate::base::hash::Interner;
use crate::base::heap;
use crate::tokens::trie::{Trie, Vocabulary};

/// The number of a text.
pub type Text = u32;

/// The empty text.
pub const NIL: Text = 0;

/// The result where there is no text.
pub const IMPOSSIBLE: Text = 1;

/// The number of tokens where no number is enough; also the distance of a state that cannot be reached.
pub const NEVER: u32 = u32::MAX / 4;

/// Symbols from here on are tokens that the grammar names by id; smaller symbols are bytes.
pub const FIRST_TOKEN: u32 = 256;

/// An unknown byte of a text of which only the length is known. It takes a token of its own.
pub const SOME_BYTE: u32 = FIRST_BARRIER - 1;

/// Symbols from here on are barriers, which no token crosses. `CUT` is a plain barrier. Each other barrier is the
/// number of a span: the length of a region that begins there, and the maximum number of tokens for it.
const FIRST_BARRIER: u32 = 1 << 31;
pub const CUT: u32 = FIRST_BARRIER;

/// Texts of bytes and of tokens named by id. Each text is a symbol and the text after it; equal texts have equal
/// numbers.
pub struct Texts {
    cells: Interner<(u32, Text)>,
    fewest: Vec<u32>,
    /// The fewest tokens inside regions; None if they are the same as `fewest`.
    fewest_in_regions: Option<Vec<u32>>,
    /// The lengths of regions, each with the maximum number of tokens.
    spans: Interner<(u32, u32)>,
    /// The tokens that must not be used, sorted.
    avoided: Box<[u32]>,
    /// The node of the vocabulary's trie for each first byte.
    roots: Box<[Option<u32>; 256]>,
    /// Tells whether each byte is spelled by a token of its own.
    is_plain: bool,
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
            fewest_in_regions: None,
            spans: Interner::new(),
            avoided: avoided.into(),
            roots,
            is_plain: false,
        }
    }

    /// From now on, spell each byte by a token of its own, because only the length of some texts is known. If
    /// `spell_regions` is set, no such text is in a region, and the texts of regions are still spelled exactly.
    pub fn spell_plainly(&mut self, spell_regions: bool) {
        self.is_plain = true;
        self.fewest_in_regions = spell_regions.then(|| self.fewest.clone());
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        let lists = heap::list(&self.fewest) + self.fewest_in_regions.as_ref().map_or(0, heap::list);
        self.cells.heap() + lists + self.spans.heap() + size_of_val(&*self.avoided) + size_of_val(&*self.roots)
    }

    /// Return the number of texts.
    pub fn len(&self) -> usize {
        self.fewest.len()
    }

    /// Return the fewest tokens that spell a text, or `NEVER`.
    pub fn fewest(&self, text: Text) -> u32 {
        self.fewest[text as usize]
    }

    /// Return the fewest tokens that spell the text of a region, or `NEVER`.
    pub fn fewest_in_region(&self, text: Text) -> u32 {
        self.fewest_in_regions.as_ref().unwrap_or(&self.fewest)[text as usize]
    }

    /// Return the first symbol and the text after it; None for `NIL` and `IMPOSSIBLE`.
    pub fn split(&self, text: Text) -> Option<(u32, Text)> {
        (text > IMPOSSIBLE).then(|| *self.cells.get(text))
    }

    /// Return whether a token may be used.
    pub fn is_usable(&self, token: u32) -> bool {
        self.avoided.binary_search(&token).is_err()
    }

    /// Return whether some usable token ends at a node of the trie.
    pub fn ends_token(&self, trie: &Trie, node: u32) -> bool {
        let ids = trie.ids(node as usize);
        !ids.is_empty() && (self.avoided.is_empty() || ids.iter().any(|id| self.is_usable(*id)))
    }

    /// Return the node of the trie for a first byte.
    pub fn root(&self, byte: u8) -> Option<u32> {
        self.roots[usize::from(byte)]
    }

    /// Return the text that consists of a symbol and the text after it.
    pub fn cons(&mut self, symbol: u32, rest: Text, vocabulary: &Vocabulary) -> Text {
        if symbol < FIRST_BARRIER {
            return self.cell(symbol, rest, vocabulary);
        }
        let (symbols, rest) = self.barriers_with(symbol, rest);
        symbols
            .into_iter()
            .rev()
            .fold(rest, |rest, symbol| self.cell(symbol, rest, vocabulary))
    }

    /// Return the barrier for the beginning of a region that is `length` symbols long and may take `most` tokens.
    pub fn span(&mut self, length: u32, most: u32) -> u32 {
        match length {
            0 => CUT,
            _ => CUT + 1 + self.spans.intern((length, most)).0,
        }
    }

    /// Merge a barrier with those at the beginning of a text. Return them sorted and without duplicates (`CUT` only if
    /// there is no other), and the text after them.
    fn barriers_with(&self, barrier: u32, mut rest: Text) -> (Vec<u32>, Text) {
        let mut symbols = vec![barrier];
        while let Some((next, after)) = self.barrier(rest) {
            symbols.push(next);
            rest = after;
        }
        symbols.sort_unstable();
        symbols.dedup();
        if symbols.len() > 1 {
            symbols.retain(|symbol| *symbol != CUT);
        }
        (symbols, rest)
    }

    /// Return the barrier at the beginning of a text, if there is one, and the text after it.
    fn barrier(&self, text: Text) -> Option<(u32, Text)> {
        self.split(text).filter(|(symbol, _)| *symbol >= FIRST_BARRIER)
    }

    /// Return the rest of a text after this many symbols, not counting barriers.
    pub fn skip(&self, mut text: Text, mut symbols: u32) -> Text {
        while symbols > 0 {
            match self.split(text) {
                Some((symbol, rest)) => {
                    symbols -= u32::from(symbol < FIRST_BARRIER);
                    text = rest;
                }
                None => break,
            }
        }
        text
    }

    /// Return the fewest tokens that spell the first symbols of a text, up to the barrier at the end of a region.
    pub fn fewest_up_to(&self, text: Text, symbols: u32) -> u32 {
        match self.fewest_in_region(text) {
            NEVER => NEVER,
            all => all - self.fewest_in_region(self.skip(text, symbols)),
        }
    }

    fn cell(&mut self, symbol: u32, rest: Text, vocabulary: &Vocabulary) -> Text {
        let (text, is_new) = self.cells.intern((symbol, rest));
        if is_new {
            let fewest = self.count(text, self.is_plain, &self.fewest, vocabulary);
            self.fewest.push(fewest);
            let in_region = |known: &Vec<u32>| self.count(text, false, known, vocabulary);
            let in_region = self.fewest_in_regions.as_ref().map(in_region);
            if let (Some(known), Some(fewest)) = (&mut self.fewest_in_regions, in_region) {
                known.push(fewest);
            }
        }
        text
    }

    /// Return the smaller of two texts of equal length, compared symbol by symbol; if they are equal, return one with
    /// the barriers of both.
    pub fn first(&mut self, one: Text, other: Text, vocabulary: &Vocabulary) -> Text {
        match self.compare(one, other) {
            Ordering::Less => one,
            Ordering::Greater => other,
            Ordering::Equal => self.union(one, other, vocabulary),
        }
    }

    /// Compare two texts of equal length without regard to barriers; `IMPOSSIBLE` sorts last.
    pub fn compare(&self, one: Text, other: Text) -> Ordering {
        if one == IMPOSSIBLE || other == IMPOSSIBLE {
            return (one == IMPOSSIBLE).cmp(&(other == IMPOSSIBLE));
        }
        let (mut left, mut right) = (one, other);
        while left != right {
            while let Some((_, rest)) = self.barrier(left) {
                left = rest;
            }
            while let Some((_, rest)) = self.barrier(right) {
                right = rest;
            }
            match (self.split(left), self.split(right)) {
                (Some(first), Some(second)) if first.0 == second.0 => (left, right) = (first.1, second.1),
                (first, second) => return first.map(|(symbol, _)| symbol).cmp(&second.map(|(symbol, _)| symbol)),
            }
        }
        Ordering::Equal
    }

    /// Return a text with the barriers of two texts that differ only in their barriers.
    pub fn union(&mut self, one: Text, other: Text, vocabulary: &Vocabulary) -> Text {
        let (mut left, mut right) = (one, other);
        let mut symbols = Vec::new();
        while left != right {
            if let Some((symbol, rest)) = self.barrier(left) {
                symbols.push(symbol);
                left = rest;
            } else if let Some((symbol, rest)) = self.barrier(right) {
                symbols.push(symbol);
                right = rest;
            } else if let (Some((symbol, first)), Some((_, second))) = (self.split(left), self.split(right)) {
                symbols.push(symbol);
                (left, right) = (first, second);
            } else {
                break;
            }
        }
        symbols
            .into_iter()
            .rev()
            .fold(left, |rest, symbol| self.cons(symbol, rest, vocabulary))
    }

    /// Compute the fewest tokens of a text from the known results for shorter texts.
    fn count(&self, text: Text, is_plain: bool, known: &[u32], vocabulary: &Vocabulary) -> u32 {
        let fewest = |text: Text| known[text as usize];
        let (symbol, rest) = *self.cells.get(text);
        if let Some(number) = symbol.checked_sub(FIRST_BARRIER) {
            let fits = number.checked_sub(1).map_or(true, |number| {
                let (length, most) = *self.spans.get(number);
                self.fewest_up_to(rest, length) <= most
            });
            return if fits { fewest(rest) } else { NEVER };
        }
        if is_plain && symbol < FIRST_TOKEN || symbol == SOME_BYTE {
            return add(1, fewest(rest));
        }
        let mut rest = Some(rest);
        let after = || {
            let text = rest?;
            let next = self.split(text);
            rest = next.map(|(_, after)| after);
            Some((next.map(|(symbol, _)| symbol), fewest(text)))
        };
        self.spell(symbol, after, vocabulary).0
    }

    /// Return the fewest tokens that spell `symbols`, which must not include barriers, followed by a text.
    pub fn fewest_before(&self, symbols: &[u32], rest: Text, vocabulary: &Vocabulary) -> u32 {
        let count = symbols.len();
        let mut fewest = vec![self.fewest(rest); count + 1];
        for index in (0..count).rev() {
            let symbol = symbols[index];
            if self.is_plain && symbol < FIRST_TOKEN || symbol == SOME_BYTE {
                fewest[index] = add(1, fewest[index + 1]);
                continue;
            }
            let (mut place, mut beyond) = (index + 1, Some(rest));
            let after = || {
                if place < count {
                    place += 1;
                    return Some((Some(symbols[place - 1]), fewest[place - 1]));
                }
                let text = beyond?;
                let next = self.split(text);
                beyond = next.map(|(_, after)| after);
                Some((next.map(|(symbol, _)| symbol), self.fewest(text)))
            };
            fewest[index] = self.spell(symbol, after, vocabulary).0;
        }
        fewest[0]
    }

    /// Return whether each byte is spelled by a token of its own, because only the length of some texts is known.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Return the fewest tokens that spell a symbol, which must not be a barrier, and what follows it; and the number
    /// of following symbols that the result depends on. `after` returns the following symbols one by one, each with the
    /// fewest tokens for it and the rest after it.
    pub fn spell(
        &self,
        symbol: u32,
        mut after: impl FnMut() -> Option<(Option<u32>, u32)>,
        vocabulary: &Vocabulary,
    ) -> (u32, usize) {
        if let Some(token) = symbol.checked_sub(FIRST_TOKEN) {
            let is_usable = (token as usize) < vocabulary.len() && self.is_usable(token);
            let rest = after().filter(|_| is_usable);
            return (rest.map_or(NEVER, |(_, fewest)| add(1, fewest)), 1);
        }
        let trie = &vocabulary.trie;
        let (mut best, mut depth) = (NEVER, 0);
        let mut node = self.root(symbol as u8);
        while let Some(at) = node {
            let Some((next, fewest)) = after() else {
                break;
            };
            depth += 1;
            if self.ends_token(trie, at) {
                best = best.min(add(1, fewest));
            }
            let next = next.filter(|next| *next < FIRST_TOKEN);
            node = next.and_then(|next| trie.child(at, next as u8));
        }
        (best, depth)
    }
}

/// Add two numbers of tokens; the sum is at most `NEVER`.
pub fn add(one: u32, other: u32) -> u32 {
    (one + other).min(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::trie::tests::vocabulary;

    #[test]
    fn a_text_is_spelt_in_as_few_tokens_as_possible() {
        // Tokens: 0 "a", 1 "ab", 2 "abc", 3 "b", 4 "cd", 5 "c"; a greedy longest match would need "abc" and then "d".
        let vocabulary = Vocabulary::new(b"aababcbcdc", &[0, 1, 3, 6, 7, 9, 10]).unwrap();
        let spell = |texts: &mut Texts, bytes: &[u8]| {
            let text = bytes
                .iter()
                .rev()
                .fold(NIL, |rest, byte| texts.cons(u32::from(*byte), rest, &vocabulary));
            for place in 0..=bytes.len() {
                let symbols: Vec<u32> = bytes[..place].iter().map(|byte| u32::from(*byte)).collect();
                let rest = texts.skip(text, place as u32);
                assert_eq!(texts.fewest_before(&symbols, rest, &vocabulary), texts.fewest(text));
            }
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

    #[test]
    fn example_fewest_tokens_of_a_text() {
        let vocabulary = vocabulary(&["a", "b", "ab"]);
        let mut texts = Texts::new(&vocabulary, &[]);
        let b = texts.cons(b'b'.into(), NIL, &vocabulary);
        let ab = texts.cons(b'a'.into(), b, &vocabulary);
        let aab = texts.cons(b'a'.into(), ab, &vocabulary);
        assert_eq!([b, ab, aab].map(|text| texts.fewest(text)), [1, 1, 2]);
    }
}
