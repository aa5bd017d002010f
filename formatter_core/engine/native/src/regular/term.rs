//! Regular expressions over bytes as hash-consed values: equal terms have equal numbers.
//!
//! The constructors apply the equations that keep the set of derivatives small (Brzozowski 1964; Owens, Reppy and Turon
//! 2009). Alternatives and intersections are flat, sorted and without duplicates. Concatenation leans to the right,
//! except for a chain of byte sets, which is not taken apart. Sets of single bytes are merged. `NOTHING` and `EMPTY`
//! disappear where they can.

mod copy;
mod facts;
mod spelled;
mod text;
mod within;

use std::cell::RefCell;

use self::facts::Facts;
pub use self::spelled::Ranges;
pub use self::text::{Spelling, SHORT_ESCAPES};
use crate::base::byteset::ByteSet;
use crate::base::hash::{Blocks, FastMap, Interner};
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::MAX_PREFIX_TREE_DEPTH;
use crate::regular::multiples::Multiples;
use crate::regular::substring::SuffixAutomaton;

/// The number of a term; it is also the number of an automaton state.
pub type Term = u32;

/// The term that matches nothing.
pub const NOTHING: Term = 0;
/// The term that matches only the empty string.
pub const EMPTY: Term = 1;
/// The term that matches every byte string.
pub const EVERYTHING: Term = 2;

/// The count that means "no maximum".
pub const UNBOUNDED: u32 = u32::MAX;

/// From this many alternatives on, `tree` merges common prefixes.
const PREFIXES_MERGED_FROM: usize = 32;
/// From this many alternatives on, `before_chain` puts what follows all of them at the end of each.
const ENDS_REPEATED_FROM: usize = 1024;
/// Number of bytes of a literal, or of parts of a concatenation, that are charged together.
const LITERAL_BYTES_CHARGED: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Nothing,
    Empty,
    Set(u32),
    Concatenation(Term, Term),
    Alternation(Box<[Term]>),
    Intersection(Box<[Term]>),
    Complement(Term),
    /// `item`, repeated `minimum` to `maximum` times; `minimum` is 0 if `item` matches the empty string.
    Repeat {
        item: Term,
        minimum: u32,
        maximum: u32,
    },
    /// The strings of a term that have no proper prefix in it; the term must not match the empty string.
    First(Term),
    /// The non-empty strings of a term that have no non-empty proper prefix in it.
    Shortest(Term),
    /// The strings that lead on from a state of a text's suffix automaton.
    Substring {
        text: u32,
        state: u32,
    },
    /// The strings that lead to a multiple.
    Multiples(Multiples),
}

/// The table of all terms.
pub struct Terms {
    kinds: Interner<Kind>,
    facts: Blocks<Facts>,
    sets: Interner<ByteSet>,
    texts: FastMap<Box<[char]>, u32>,
    automata: Vec<SuffixAutomaton>,
    classes: FastMap<Box<[(u32, u32)]>, Term>,
    /// The spellings of the ASCII characters in JSON, by kind of spelling; `NOTHING` if not computed yet.
    json_ascii: [[Term; 128]; 2],
    kept: FastMap<Box<[u8]>, Term>,
    /// For two terms and a search depth, whether each string of the first is obviously a repetition of the second.
    repetitions: RefCell<FastMap<(Term, Term, usize), bool>>,
    bytes: usize,
    /// Heap bytes of the single terms, texts and classes.
    inner: usize,
}

impl Terms {
    pub fn new() -> Self {
        let mut terms = Terms {
            kinds: Interner::new(),
            facts: Blocks::new(),
            sets: Interner::new(),
            texts: FastMap::default(),
            automata: Vec::new(),
            classes: FastMap::default(),
            json_ascii: [[NOTHING; 128]; 2],
            kept: FastMap::default(),
            repetitions: RefCell::default(),
            bytes: 0,
            inner: 0,
        };
        terms.intern(Kind::Nothing);
        terms.intern(Kind::Empty);
        terms.intern(Kind::Complement(NOTHING));
        terms
    }

    /// Reserve memory for many terms.
    pub fn make_room(&mut self) {
        self.kinds.make_room();
        self.facts.make_room();
    }

    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Return an estimate of the bytes that the terms take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        self.kinds.heap()
            + self.facts.heap()
            + self.sets.heap()
            + heap::table(&self.texts)
            + heap::list(&self.automata)
            + heap::table(&self.classes)
            + heap::table(&self.kept)
            + heap::table(&self.repetitions.borrow())
            + self.inner
    }

    pub fn kind(&self, term: Term) -> &Kind {
        self.kinds.get(term)
    }

    pub fn nullable(&self, term: Term) -> bool {
        self.facts[term as usize].nullable
    }

    pub fn uncertain(&self, term: Term) -> bool {
        self.facts[term as usize].uncertain
    }

    /// Return whether there is a count anywhere in a term that may be removed from it.
    pub fn has_counts(&self, term: Term) -> bool {
        self.facts[term as usize].has_counts
    }

    /// Return whether there is a count at the front of a term, or in what follows there.
    pub fn counted(&self, term: Term) -> bool {
        self.facts[term as usize].counted
    }

    /// Return whether more than two terms are intersected somewhere in a term: it may have far more states than its
    /// size suggests.
    pub fn tangled(&self, term: Term) -> bool {
        self.facts[term as usize].tangled
    }

    pub fn byte_set(&self, set: u32) -> ByteSet {
        *self.sets.get(set)
    }

    pub fn automaton(&self, text: u32) -> &SuffixAutomaton {
        &self.automata[text as usize]
    }

    pub fn set(&mut self, set: ByteSet) -> Term {
        if set.is_empty() {
            return NOTHING;
        }
        let (number, _) = self.sets.intern(set);
        self.intern(Kind::Set(number))
    }

    pub fn literal(&mut self, bytes: &[u8]) -> Term {
        self.literal_then(bytes, EMPTY)
    }

    /// Return a term for the bytes followed by `rest`.
    pub fn literal_then(&mut self, bytes: &[u8], rest: Term) -> Term {
        bytes.iter().rev().fold(rest, |rest, byte| {
            let head = self.set(ByteSet::single(*byte));
            self.concatenation(head, rest)
        })
    }

    /// Return a term for the bytes, charging `steps` for each, piece by piece: a signal can interrupt it, however long
    /// they are.
    pub fn charged_literal(&mut self, bytes: &[u8], steps: usize, meter: &mut Meter) -> Outcome<Term> {
        bytes.rchunks(LITERAL_BYTES_CHARGED).try_fold(EMPTY, |rest, piece| {
            meter.work(steps * piece.len())?;
            Ok(self.literal_then(piece, rest))
        })
    }

    /// Return the cached term of a program.
    pub fn kept(&self, program: &[u8]) -> Option<Term> {
        self.kept.get(program).copied()
    }

    /// Cache the term of a program.
    pub fn keep(&mut self, program: &[u8], term: Term) {
        self.bytes += program.len() + 48;
        self.inner += program.len();
        self.kept.insert(program.into(), term);
    }

    /// Return a term for any run of whole characters of `text`.
    pub fn substring(&mut self, text: &[char]) -> Term {
        if text.is_empty() {
            return EMPTY;
        }
        let number = self.text(text);
        self.substring_state(number, 0)
    }

    /// Return the number of a text's suffix automaton.
    fn text(&mut self, text: &[char]) -> u32 {
        if let Some(&number) = self.texts.get(text) {
            return number;
        }
        let number = self.automata.len() as u32;
        let automaton = SuffixAutomaton::new(text);
        self.inner += automaton.heap() + std::mem::size_of_val(text);
        self.automata.push(automaton);
        self.texts.insert(text.into(), number);
        self.bytes += 128 * text.len();
        number
    }

    pub fn substring_state(&mut self, text: u32, state: u32) -> Term {
        if self.automata[text as usize].moves(state).is_empty() {
            return EMPTY;
        }
        self.intern(Kind::Substring { text, state })
    }

    pub fn multiples(&mut self, state: Multiples) -> Term {
        self.intern(Kind::Multiples(state))
    }

    pub fn concatenation(&mut self, first: Term, second: Term) -> Term {
        if first == NOTHING || second == NOTHING {
            return NOTHING;
        }
        if second == EMPTY {
            return first;
        }
        if !matches!(self.kinds.get(first), Kind::Concatenation(..) | Kind::Empty) {
            return self.intern(Kind::Concatenation(first, second));
        }
        let heads = self.parts_before(first, second);
        self.prepend(&heads, second)
    }

    /// Concatenate, charging a step for each new term, piece by piece: a signal can interrupt it, however long the first
    /// term is.
    pub fn charged_concatenation(&mut self, first: Term, second: Term, meter: &mut Meter) -> Outcome<Term> {
        if second == NOTHING || second == EMPTY || !matches!(self.kinds.get(first), Kind::Concatenation(..)) {
            let before = self.len();
            let whole = self.concatenation(first, second);
            meter.work(self.len() - before)?;
            return Ok(whole);
        }
        let heads = self.parts_before(first, second);
        heads.rchunks(LITERAL_BYTES_CHARGED).try_fold(second, |rest, piece| {
            let before = self.len();
            let whole = self.prepend(piece, rest);
            meter.work(self.len() - before)?;
            Ok(whole)
        })
    }

    /// Return the parts of a concatenation that is put before `second`. A chain stays in one piece before another term:
    /// most chains are left at their first byte.
    fn parts_before(&self, first: Term, second: Term) -> Vec<Term> {
        let keeps_chains = !self.is_chain(second);
        let mut heads = Vec::new();
        let mut rest = first;
        while let Kind::Concatenation(head, tail) = *self.kinds.get(rest) {
            if keeps_chains && self.is_chain(rest) {
                break;
            }
            heads.push(head);
            rest = tail;
        }
        if rest != EMPTY {
            heads.push(rest);
        }
        heads
    }

    /// Put parts before a term, the last one first.
    fn prepend(&mut self, parts: &[Term], rest: Term) -> Term {
        let concatenate = |tail, head: &Term| self.intern(Kind::Concatenation(*head, tail));
        parts.iter().rev().fold(rest, concatenate)
    }

    /// Return whether a term is a sequence of byte sets.
    pub fn is_chain(&self, term: Term) -> bool {
        self.facts[term as usize].is_chain
    }

    /// Return the first byte of a chain, and the term after it.
    pub fn first_of_chain(&self, term: Term) -> Option<(u8, Term)> {
        if !self.is_chain(term) {
            return None;
        }
        let (head, rest) = self.split_first(term);
        match *self.kinds.get(head) {
            Kind::Set(set) => Some((self.byte_set(set).iter().next()?, rest)),
            _ => None,
        }
    }

    /// Split a term into its first part, if that is not nullable, and the rest, which may be `EMPTY`.
    pub fn split_first(&self, term: Term) -> (Term, Term) {
        match *self.kinds.get(term) {
            Kind::Concatenation(head, tail) if !self.nullable(head) => (head, tail),
            _ => (term, EMPTY),
        }
    }

    pub fn alternation(&mut self, items: Vec<Term>) -> Term {
        if let [only] = items[..] {
            return only;
        }
        let mut flat = Vec::with_capacity(items.len());
        let mut single = ByteSet::default();
        for item in items {
            match self.kinds.get(item) {
                Kind::Alternation(inner) => {
                    for &term in inner.iter() {
                        self.add_alternative(term, &mut flat, &mut single);
                    }
                }
                _ => self.add_alternative(item, &mut flat, &mut single),
            }
        }
        if !single.is_empty() {
            flat.push(self.set(single));
        }
        flat.sort_unstable();
        flat.dedup();
        if flat.binary_search(&EVERYTHING).is_ok() {
            return EVERYTHING;
        }
        if flat.first() == Some(&EMPTY) && flat[1..].iter().any(|term| self.nullable(*term)) {
            flat.remove(0);
        }
        self.drop_narrower(&mut flat);
        self.drop_absorbed(&mut flat);
        match flat.len() {
            0 => NOTHING,
            1 => flat[0],
            _ => self.intern(Kind::Alternation(flat.into())),
        }
    }

    /// Return an alternation in which many items may share prefixes. Each common prefix exists once, so that after it
    /// the rest is ready and no other item is examined. Many items are charged for each level of the tree.
    pub fn tree(&mut self, items: Vec<Term>, meter: &mut Meter) -> Outcome<Term> {
        match items.len() < PREFIXES_MERGED_FROM {
            true => Ok(self.alternation(items)),
            false => self.branches(items, MAX_PREFIX_TREE_DEPTH, meter),
        }
    }

    /// Return a term followed by a chain, and charge for each new term. In a tree of many texts, the chain is at the end
    /// of each text, so that after a text the rest is ready.
    pub fn before_chain(&mut self, term: Term, chain: Term, meter: &mut Meter) -> Outcome<Term> {
        match self.is_tree(term) {
            true => self.with_ends(term, chain, MAX_PREFIX_TREE_DEPTH, &mut FastMap::default(), meter),
            false => self.charged_concatenation(term, chain, meter),
        }
    }

    /// Return whether a term has many alternatives, nested or side by side.
    fn is_tree(&self, term: Term) -> bool {
        let (mut count, mut waiting) = (1, vec![term]);
        while let Some(term) = waiting.pop().filter(|_| count < ENDS_REPEATED_FROM) {
            match self.kinds.get(term) {
                Kind::Alternation(items) => {
                    count += items.len() - 1;
                    waiting.extend(items.iter().take(ENDS_REPEATED_FROM));
                }
                Kind::Concatenation(_, rest) if !self.is_chain(term) => waiting.push(*rest),
                _ => {}
            }
        }
        count >= ENDS_REPEATED_FROM
    }

    fn with_ends(
        &mut self,
        term: Term,
        chain: Term,
        depth: u32,
        known: &mut FastMap<Term, Term>,
        meter: &mut Meter,
    ) -> Outcome<Term> {
        if let Some(known) = known.get(&term) {
            return Ok(*known);
        }
        meter.work(1)?;
        let with_end = match (self.kinds.get(term).clone(), depth.checked_sub(1)) {
            (Kind::Alternation(items), Some(depth)) => {
                let items = items
                    .iter()
                    .map(|item| self.with_ends(*item, chain, depth, known, meter));
                let items = items.collect::<Outcome<_>>()?;
                self.alternation(items)
            }
            (Kind::Concatenation(first, rest), Some(depth)) if !self.is_chain(term) => {
                let rest = self.with_ends(rest, chain, depth, known, meter)?;
                self.concatenation(first, rest)
            }
            _ => self.charged_concatenation(term, chain, meter)?,
        };
        known.insert(term, with_end);
        Ok(with_end)
    }

    fn branches(&mut self, items: Vec<Term>, depth: u32, meter: &mut Meter) -> Outcome<Term> {
        let Some(depth) = depth.checked_sub(1).filter(|_| items.len() > 1) else {
            return Ok(self.alternation(items));
        };
        meter.work(items.len())?;
        let mut ways = Vec::new();
        let mut branches: Vec<(Term, Vec<Term>)> = Vec::new();
        let mut places: FastMap<Term, usize> = FastMap::default();
        for item in items {
            match self.split_at_first(item) {
                Some((head, rest)) => {
                    let place = *places.entry(head).or_insert(branches.len());
                    if place == branches.len() {
                        branches.push((head, Vec::new()));
                    }
                    branches[place].1.push(rest);
                }
                None => ways.push(item),
            }
        }
        for (head, rests) in branches {
            let rest = self.branches(rests, depth, meter)?;
            ways.push(self.concatenation(head, rest));
        }
        Ok(self.alternation(ways))
    }

    /// Split a term that is neither empty nor a chain into its first part and the rest.
    fn split_at_first(&mut self, term: Term) -> Option<(Term, Term)> {
        match *self.kinds.get(term) {
            Kind::Set(_) => Some((term, EMPTY)),
            Kind::Concatenation(head, _) if self.nullable(head) => None,
            Kind::Concatenation(head, tail) => match *self.kinds.get(head) {
                Kind::Concatenation(first, _) if self.nullable(first) => None,
                Kind::Concatenation(first, rest) => Some((first, self.concatenation(rest, tail))),
                _ => Some((head, tail)),
            },
            _ => None,
        }
    }

    fn add_alternative(&self, term: Term, flat: &mut Vec<Term>, single: &mut ByteSet) {
        match *self.kinds.get(term) {
            Kind::Nothing => {}
            Kind::Set(set) => *single = single.union(&self.byte_set(set)),
            _ => flat.push(term),
        }
    }

    pub fn intersection(&mut self, items: Vec<Term>) -> Term {
        let mut flat = items;
        for index in (0..flat.len()).rev() {
            if let Kind::Intersection(inner) = self.kinds.get(flat[index]) {
                flat.swap_remove(index);
                flat.extend_from_slice(inner);
            }
        }
        flat.sort_unstable();
        flat.dedup();
        flat.retain(|term| *term != EVERYTHING);
        match flat.first() {
            None => return EVERYTHING,
            Some(&NOTHING) => return NOTHING,
            Some(&EMPTY) => {
                let all = flat.iter().all(|term| self.nullable(*term));
                return if all { EMPTY } else { NOTHING };
            }
            Some(_) => {}
        }
        if self.drop_wider(&mut flat) {
            return NOTHING;
        }
        if flat.len() == 1 {
            return flat[0];
        }
        self.intern(Kind::Intersection(flat.into()))
    }

    pub fn complement(&mut self, item: Term) -> Term {
        match *self.kinds.get(item) {
            Kind::Complement(inner) => inner,
            _ => self.intern(Kind::Complement(item)),
        }
    }

    pub fn repeat(&mut self, item: Term, minimum: u32, maximum: u32) -> Term {
        let minimum = if self.nullable(item) { 0 } else { minimum };
        if maximum == 0 || item == EMPTY || item == NOTHING && minimum == 0 {
            return EMPTY;
        }
        if item == NOTHING || (minimum, maximum) == (1, 1) {
            return item;
        }
        match *self.kinds.get(item) {
            Kind::Repeat {
                minimum: 0,
                maximum: UNBOUNDED,
                ..
            } => item,
            _ => self.intern(Kind::Repeat { item, minimum, maximum }),
        }
    }

    pub fn first(&mut self, item: Term) -> Term {
        if self.nullable(item) {
            return EMPTY;
        }
        match self.kinds.get(item) {
            Kind::Nothing | Kind::First(_) | Kind::Shortest(_) => item,
            _ => self.intern(Kind::First(item)),
        }
    }

    pub fn shortest(&mut self, item: Term) -> Term {
        match item {
            NOTHING | EMPTY => NOTHING,
            _ if !self.nullable(item) => self.first(item),
            _ => self.intern(Kind::Shortest(item)),
        }
    }

    fn intern(&mut self, kind: Kind) -> Term {
        let (term, is_new) = self.kinds.intern(kind);
        if is_new {
            let kind = self.kinds.get(term);
            let extra = match kind {
                Kind::Alternation(items) | Kind::Intersection(items) => 4 * items.len(),
                _ => 0,
            };
            let facts = self.facts_of(kind);
            self.facts.push(facts);
            self.bytes += 64 + extra;
            self.inner += extra;
        }
        term
    }
}

fn each_part(kind: &Kind, mut call: impl FnMut(Term)) {
    match kind {
        Kind::Nothing | Kind::Empty | Kind::Set(_) | Kind::Substring { .. } | Kind::Multiples(_) => {}
        Kind::Concatenation(first, second) => [*first, *second].into_iter().for_each(call),
        Kind::Alternation(items) | Kind::Intersection(items) => items.iter().copied().for_each(call),
        Kind::Complement(item) | Kind::First(item) | Kind::Shortest(item) | Kind::Repeat { item, .. } => call(*item),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_languages_of_simple_form_are_one_term() {
        let mut terms = Terms::new();
        let (a, b) = (terms.literal(b"a"), terms.literal(b"b"));
        let ab = terms.literal(b"ab");
        let split = terms.concatenation(a, b);
        assert_eq!(ab, split);
        assert_eq!(terms.alternation(vec![a, b]), terms.alternation(vec![b, a, b]));
        assert_eq!(terms.characters(&[(97, 98)]), terms.alternation(vec![a, b]));
        let star = terms.repeat(a, 0, UNBOUNDED);
        assert_eq!(terms.alternation(vec![EMPTY, star]), star);
        assert_eq!(terms.repeat(star, 3, UNBOUNDED), star);
        assert_eq!(terms.shortest(EMPTY), NOTHING);
    }

    #[test]
    fn example_term() {
        let mut terms = Terms::new();
        let (a, b) = (terms.literal(b"a"), terms.literal(b"b"));
        let either = terms.alternation(vec![a, b]);
        assert_eq!(either, terms.alternation(vec![b, a, b]));
        assert_eq!(terms.concatenation(a, NOTHING), NOTHING);
        let many = terms.repeat(either, 0, UNBOUNDED);
        assert!(terms.nullable(many) && !terms.nullable(either));
    }
}
