//! Regular expressions over bytes as values that exist once: equal terms have equal numbers.
//!
//! The constructors apply the equations that keep the set of derivatives small (Brzozowski 1964; Owens, Reppy and
//! Turon 2009): alternatives and intersections are flat, sorted and without repetition, concatenation leans to the
//! right (but for a row of byte sets, which is not taken apart), sets of single bytes are merged, `NOTHING` and `EMPTY`
//! vanish where they can.

use crate::byteset::ByteSet;
use crate::hash::{FastMap, Interner};
use crate::limits::{Meter, Outcome};
use crate::substring::SuffixAutomaton;
use crate::utf8;

/// The number of a term, and so of an automaton state.
pub type Term = u32;

/// The term that matches nothing.
pub const NOTHING: Term = 0;
/// The term that matches the empty string alone.
pub const EMPTY: Term = 1;
/// The term that matches every byte string.
pub const EVERYTHING: Term = 2;

/// The count that stands for "without bound".
pub const UNBOUNDED: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Nothing,
    Empty,
    Set(u32),
    Concatenation(Term, Term),
    Alternation(Box<[Term]>),
    Intersection(Box<[Term]>),
    Complement(Term),
    /// `item` from `minimum` to `maximum` times; `minimum` is 0 where `item` matches the empty string.
    Repeat {
        item: Term,
        minimum: u32,
        maximum: u32,
    },
    /// The strings of a term without a proper prefix in it, where the term does not match the empty string.
    First(Term),
    /// The non-empty strings of a term without a non-empty proper prefix in it.
    Shortest(Term),
    /// What leads on from a state of a text's suffix automaton.
    Substring {
        text: u32,
        state: u32,
    },
}

#[derive(Clone, Copy)]
struct Facts {
    nullable: bool,
    /// Whether emptiness is not plain from the form, because of an intersection or a complement.
    uncertain: bool,
    /// Whether a count stands in the form where alternatives are compared, see `drop_narrower`.
    counted: bool,
    /// Whether more than two terms are intersected somewhere.
    tangled: bool,
    /// Whether other alternatives may plainly lie within it, see `drop_absorbed`.
    absorbs: bool,
    /// Whether it is byte sets in a row.
    is_chain: bool,
}

/// So many alternatives beside one are compared with it, and so many parts of their sequences.
const MOST_COMPARED: usize = 32;
/// How deep terms are looked into for whether one lies within another.
const DEPTH_COMPARED: usize = 24;

/// All terms.
pub struct Terms {
    kinds: Interner<Kind>,
    facts: Vec<Facts>,
    sets: Interner<ByteSet>,
    texts: FastMap<Box<[char]>, u32>,
    automata: Vec<SuffixAutomaton>,
    classes: FastMap<Box<[(u32, u32)]>, Term>,
    /// The spellings of the characters of ASCII in JSON, `NOTHING` where they have not been asked for.
    json_ascii: [Term; 128],
    kept: FastMap<Box<[u8]>, Term>,
    bytes: usize,
}

impl Terms {
    pub fn new() -> Self {
        let mut terms = Terms {
            kinds: Interner::new(),
            facts: Vec::new(),
            sets: Interner::new(),
            texts: FastMap::default(),
            automata: Vec::new(),
            classes: FastMap::default(),
            json_ascii: [NOTHING; 128],
            kept: FastMap::default(),
            bytes: 0,
        };
        terms.intern(Kind::Nothing);
        terms.intern(Kind::Empty);
        terms.intern(Kind::Complement(NOTHING));
        terms
    }

    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// An estimate of the bytes that the terms take.
    pub fn bytes(&self) -> usize {
        self.bytes
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

    /// Whether more than two terms are intersected somewhere in a term: its states may be far more than it shows.
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

    /// The bytes, and then `rest`.
    pub fn literal_then(&mut self, bytes: &[u8], rest: Term) -> Term {
        bytes.iter().rev().fold(rest, |rest, byte| {
            let head = self.set(ByteSet::single(*byte));
            self.concatenation(head, rest)
        })
    }

    /// One code point of these ranges.
    pub fn characters(&mut self, ranges: &[(u32, u32)]) -> Term {
        if let Some(&term) = self.classes.get(ranges) {
            return term;
        }
        let mut first_bytes: FastMap<Term, ByteSet> = FastMap::default();
        for &(low, high) in ranges {
            for sequence in utf8::sequences(low, high) {
                let mut rest = EMPTY;
                for &(low, high) in sequence[1..].iter().rev() {
                    let head = self.set(ByteSet::range(low, high));
                    rest = self.concatenation(head, rest);
                }
                let (low, high) = sequence[0];
                first_bytes.entry(rest).or_default().insert_range(low, high);
            }
        }
        let mut items = Vec::with_capacity(first_bytes.len());
        for (rest, set) in first_bytes {
            let head = self.set(set);
            items.push(self.concatenation(head, rest));
        }
        let term = self.alternation(items);
        self.bytes += 8 * ranges.len() + 48;
        self.classes.insert(ranges.into(), term);
        term
    }

    /// A text in every spelling inside of a JSON string (RFC 8259, section 7).
    pub fn json_text(&mut self, text: &str) -> Term {
        text.chars().rev().fold(EMPTY, |rest, character| {
            let head = self.json_character(character);
            self.concatenation(head, rest)
        })
    }

    /// One character: itself, a short escape, or the hexadecimal digits of its one or two UTF-16 units in any case.
    fn json_character(&mut self, character: char) -> Term {
        let known = self.json_ascii.get(character as usize).copied();
        if let Some(term) = known.filter(|term| *term != NOTHING) {
            return term;
        }
        let mut units = [0; 2];
        let mut escape = EMPTY;
        for unit in character.encode_utf16(&mut units).iter().rev() {
            for place in 0..4 {
                let digit = char::from_digit(u32::from(unit >> (4 * place) & 15), 16).unwrap_or('0');
                let mut cases = ByteSet::single(digit as u8);
                cases.insert_range(digit.to_ascii_uppercase() as u8, digit.to_ascii_uppercase() as u8);
                let head = self.set(cases);
                escape = self.concatenation(head, escape);
            }
            escape = self.literal_then(b"\\u", escape);
        }
        let short = match character {
            '"' | '\\' | '/' => Some(character as u8),
            '\u{8}' => Some(b'b'),
            '\u{c}' => Some(b'f'),
            '\n' => Some(b'n'),
            '\r' => Some(b'r'),
            '\t' => Some(b't'),
            _ => None,
        };
        let mut ways = vec![escape];
        ways.extend(short.map(|letter| self.literal(&[b'\\', letter])));
        if character >= ' ' && character != '"' && character != '\\' {
            ways.push(self.literal(character.encode_utf8(&mut [0; 4]).as_bytes()));
        }
        let term = self.alternation(ways);
        if let Some(place) = self.json_ascii.get_mut(character as usize) {
            *place = term;
        }
        term
    }

    /// The term of a program that was kept.
    pub fn kept(&self, program: &[u8]) -> Option<Term> {
        self.kept.get(program).copied()
    }

    /// Keep the term of a program.
    pub fn keep(&mut self, program: &[u8], term: Term) {
        self.bytes += program.len() + 48;
        self.kept.insert(program.into(), term);
    }

    /// Any run of whole characters of `text`.
    pub fn substring(&mut self, text: &[char]) -> Term {
        if text.is_empty() {
            return EMPTY;
        }
        let number = self.text(text);
        self.substring_state(number, 0)
    }

    /// The number of a text's suffix automaton.
    fn text(&mut self, text: &[char]) -> u32 {
        if let Some(&number) = self.texts.get(text) {
            return number;
        }
        let number = self.automata.len() as u32;
        self.automata.push(SuffixAutomaton::new(text));
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

    /// The term here for what `term` of `others` matches; `known` holds what was copied before.
    pub fn copy(
        &mut self,
        term: Term,
        others: &Terms,
        known: &mut FastMap<Term, Term>,
        meter: &mut Meter,
    ) -> Outcome<Term> {
        // What a term consists of is copied first, on a stack of our own: terms can be deep.
        let mut stack = vec![term];
        while let Some(&current) = stack.last() {
            meter.work(1)?;
            if known.contains_key(&current) {
                stack.pop();
                continue;
            }
            let before = stack.len();
            each_part(others.kind(current), |part| {
                if !known.contains_key(&part) {
                    stack.push(part);
                }
            });
            meter.work(stack.len() - before)?;
            if stack.len() == before {
                let (bytes, copied) = (self.bytes, self.copy_with(current, others, known));
                meter.grow(self.bytes - bytes)?;
                known.insert(current, copied);
                stack.pop();
            }
        }
        Ok(known.get(&term).copied().unwrap_or(NOTHING))
    }

    /// A copy of a term whose parts have been copied.
    fn copy_with(&mut self, term: Term, others: &Terms, known: &FastMap<Term, Term>) -> Term {
        let copied = |part: &Term| known.get(part).copied().unwrap_or(NOTHING);
        match others.kind(term) {
            Kind::Nothing => NOTHING,
            Kind::Empty => EMPTY,
            Kind::Set(set) => self.set(others.byte_set(*set)),
            Kind::Concatenation(first, second) => self.concatenation(copied(first), copied(second)),
            Kind::Alternation(items) => self.alternation(items.iter().map(copied).collect()),
            Kind::Intersection(items) => self.intersection(items.iter().map(copied).collect()),
            Kind::Complement(item) => self.complement(copied(item)),
            Kind::Repeat { item, minimum, maximum } => self.repeat(copied(item), *minimum, *maximum),
            Kind::First(item) => self.first(copied(item)),
            Kind::Shortest(item) => self.shortest(copied(item)),
            Kind::Substring { text, state } => {
                let characters = others.texts.iter().find(|(_, number)| *number == text);
                let number = characters.map_or(0, |(characters, _)| self.text(characters));
                self.substring_state(number, *state)
            }
        }
    }

    pub fn concatenation(&mut self, first: Term, second: Term) -> Term {
        if first == NOTHING || second == NOTHING {
            return NOTHING;
        }
        if second == EMPTY {
            return first;
        }
        // A chain before something else stays in one piece: most are left at their first byte.
        let is_chain = |term: Term| self.facts[term as usize].is_chain;
        let keeps_chains = !is_chain(second);
        let mut heads = Vec::new();
        let mut rest = first;
        while let Kind::Concatenation(head, tail) = *self.kinds.get(rest) {
            if keeps_chains && is_chain(rest) {
                break;
            }
            heads.push(head);
            rest = tail;
        }
        if rest != EMPTY {
            heads.push(rest);
        }
        heads
            .into_iter()
            .rev()
            .fold(second, |tail, head| self.intern(Kind::Concatenation(head, tail)))
    }

    pub fn alternation(&mut self, items: Vec<Term>) -> Term {
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

    /// Leave out alternatives that differ from another one in narrower counts alone.
    ///
    /// Where a counted part can begin in many places, there is an alternative for each: of `(.{1,63}x){1,127}`, up to
    /// 63 times 127. Almost all of them are within another one.
    fn drop_narrower(&self, items: &mut Vec<Term>) {
        let is_counted = |item: &Term| self.facts[*item as usize].counted;
        if items.iter().filter(|item| is_counted(item)).nth(1).is_none() {
            return;
        }
        let counted: Vec<Term> = items.iter().copied().filter(is_counted).collect();
        let is_narrower = |index: usize| {
            let (first, end) = (index.saturating_sub(MOST_COMPARED), index + MOST_COMPARED + 1);
            let near = &counted[first..end.min(counted.len())];
            near.iter()
                .any(|other| *other != counted[index] && self.is_within(counted[index], *other))
        };
        let narrower: Vec<Term> = (0..counted.len())
            .filter(|index| is_narrower(*index))
            .map(|index| counted[index])
            .collect();
        items.retain(|item| narrower.binary_search(item).is_err());
    }

    /// Leave out alternatives that plainly lie within a repetition or an intersection beside them.
    fn drop_absorbed(&self, items: &mut Vec<Term>) {
        let absorbs = |item: &Term| self.facts[*item as usize].absorbs;
        let Some(first) = items.iter().position(absorbs) else {
            return;
        };
        let wide: Vec<Term> = items[first..]
            .iter()
            .copied()
            .filter(absorbs)
            .take(MOST_COMPARED)
            .collect();
        for wide in wide {
            if items.binary_search(&wide).is_ok() {
                items.retain(|item| *item == wide || !self.is_absorbed(*item, wide));
            }
        }
        if items.len() > 1 {
            let all = items.clone();
            items.retain(|item| match self.kind(*item) {
                Kind::Intersection(parts) => !parts.iter().any(|part| all.binary_search(part).is_ok()),
                _ => true,
            });
        }
    }

    fn is_absorbed(&self, narrow: Term, wide: Term) -> bool {
        match (self.kind(narrow), self.kind(wide)) {
            (Kind::Intersection(parts), Kind::Intersection(fewer)) => {
                fewer.len() < parts.len() && fewer.iter().all(|part| parts.binary_search(part).is_ok())
            }
            (_, Kind::Repeat { item, .. }) => self.is_repetition(narrow, *item, DEPTH_COMPARED),
            _ => false,
        }
    }

    /// Whether each string of a term is plainly one of `item` any number of times.
    fn is_repetition(&self, mut term: Term, item: Term, depth: usize) -> bool {
        for _ in 0..MOST_COMPARED {
            match self.kind(term) {
                _ if term == item || term == EMPTY || term == NOTHING => return true,
                _ if depth == 0 => return false,
                Kind::Repeat { item: other, .. } => return self.is_repetition(*other, item, depth - 1),
                Kind::Concatenation(first, rest) if self.is_repetition(*first, item, depth - 1) => term = *rest,
                Kind::Alternation(items) if items.len() <= MOST_COMPARED => {
                    let mut items = items.iter();
                    return items.all(|one| self.is_repetition(*one, item, depth - 1));
                }
                Kind::Intersection(items) => {
                    return items.iter().any(|one| self.is_repetition(*one, item, depth - 1));
                }
                _ => return self.is_part(term, item, depth - 1),
            }
        }
        false
    }

    /// Whether each string of a term without repetitions is plainly one of another's.
    fn is_part(&self, term: Term, other: Term, depth: usize) -> bool {
        match (self.kind(term), self.kind(other)) {
            _ if term == other => true,
            _ if depth == 0 => false,
            (Kind::Alternation(items), _) if items.len() <= MOST_COMPARED => {
                items.iter().all(|item| self.is_part(*item, other, depth - 1))
            }
            (_, Kind::Alternation(others)) if others.len() <= MOST_COMPARED => {
                others.iter().any(|other| self.is_part(term, *other, depth - 1))
            }
            (Kind::Set(set), Kind::Set(other)) => {
                self.byte_set(*set).intersection(&self.byte_set(*other)) == self.byte_set(*set)
            }
            (Kind::Concatenation(first, rest), Kind::Concatenation(other, others)) => {
                self.is_part(*first, *other, depth - 1) && self.is_part(*rest, *others, depth - 1)
            }
            _ => false,
        }
    }

    /// Whether two terms are the same but for counts, and those of the first lie within those of the second.
    fn is_within(&self, mut narrow: Term, mut wide: Term) -> bool {
        let same = |narrow: Term, wide: Term| match (self.kind(narrow), self.kind(wide)) {
            _ if narrow == wide => true,
            (
                Kind::Repeat { item, minimum, maximum },
                Kind::Repeat {
                    item: other,
                    minimum: least,
                    maximum: most,
                },
            ) => item == other && least <= minimum && maximum <= most,
            _ => false,
        };
        for _ in 0..MOST_COMPARED {
            match (self.kind(narrow), self.kind(wide)) {
                _ if narrow == wide => return true,
                (Kind::Concatenation(first, rest), Kind::Concatenation(other, others)) if same(*first, *other) => {
                    (narrow, wide) = (*rest, *others);
                }
                _ => return same(narrow, wide),
            }
        }
        false
    }

    fn add_alternative(&self, term: Term, flat: &mut Vec<Term>, single: &mut ByteSet) {
        match *self.kinds.get(term) {
            Kind::Nothing => {}
            Kind::Set(set) => *single = single.union(&self.byte_set(set)),
            _ => flat.push(term),
        }
    }

    pub fn intersection(&mut self, items: Vec<Term>) -> Term {
        let mut flat = Vec::with_capacity(items.len());
        for item in items {
            match self.kinds.get(item) {
                Kind::Intersection(inner) => flat.extend_from_slice(inner),
                _ => flat.push(item),
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

    /// Leave out repetitions that another part plainly lies within. Whether it lies within the complement of one too.
    fn drop_wider(&self, items: &mut Vec<Term>) -> bool {
        for index in (0..items.len()).rev() {
            let (repeated, negated) = match *self.kind(items[index]) {
                Kind::Complement(inner) => (inner, true),
                _ => (items[index], false),
            };
            if let (true, Kind::Repeat { item, .. }) = (self.facts[repeated as usize].absorbs, self.kind(repeated)) {
                let is_narrow =
                    |other: &Term| *other != items[index] && self.is_repetition(*other, *item, DEPTH_COMPARED);
                if items.iter().any(is_narrow) {
                    if negated {
                        return true;
                    }
                    items.remove(index);
                }
            }
        }
        false
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
        let facts = self.facts_of(&kind);
        let extra = match &kind {
            Kind::Alternation(items) | Kind::Intersection(items) => 4 * items.len(),
            _ => 0,
        };
        let (term, new) = self.kinds.intern(kind);
        if new {
            self.facts.push(facts);
            self.bytes += 64 + extra;
        }
        term
    }

    fn facts_of(&self, kind: &Kind) -> Facts {
        let any_uncertain = |items: &[Term]| items.iter().any(|term| self.uncertain(*term));
        let (nullable, uncertain) = match kind {
            Kind::Nothing | Kind::Set(_) => (false, false),
            Kind::Empty | Kind::Substring { .. } => (true, false),
            Kind::Concatenation(first, second) => (
                self.nullable(*first) && self.nullable(*second),
                any_uncertain(&[*first, *second]),
            ),
            Kind::Alternation(items) => (items.iter().any(|term| self.nullable(*term)), any_uncertain(items)),
            Kind::Intersection(items) => (items.iter().all(|term| self.nullable(*term)), true),
            Kind::Complement(NOTHING) => (true, false),
            Kind::Complement(item) => (!self.nullable(*item), true),
            Kind::Repeat { item, minimum, .. } => (*minimum == 0, self.uncertain(*item)),
            Kind::First(item) | Kind::Shortest(item) => (false, self.uncertain(*item)),
        };
        let counted = match kind {
            Kind::Concatenation(first, second) => {
                self.facts[*first as usize].counted || self.facts[*second as usize].counted
            }
            Kind::Repeat { minimum, maximum, .. } => *minimum > 1 || *maximum != UNBOUNDED,
            _ => false,
        };
        let absorbs = match kind {
            Kind::Intersection(_) => true,
            Kind::Repeat { minimum, maximum, .. } => *minimum == 0 && *maximum == UNBOUNDED,
            _ => false,
        };
        let is_chain = match kind {
            Kind::Set(_) => true,
            Kind::Concatenation(first, second) => {
                matches!(self.kind(*first), Kind::Set(_)) && self.facts[*second as usize].is_chain
            }
            _ => false,
        };
        let mut tangled = matches!(kind, Kind::Intersection(items) if items.len() > 2);
        if uncertain && !tangled {
            each_part(kind, |part| tangled |= self.tangled(part));
        }
        Facts {
            nullable,
            uncertain,
            counted,
            tangled,
            absorbs,
            is_chain,
        }
    }
}

fn each_part(kind: &Kind, mut call: impl FnMut(Term)) {
    match kind {
        Kind::Nothing | Kind::Empty | Kind::Set(_) | Kind::Substring { .. } => {}
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
    fn what_plainly_lies_within_another_is_left_out() {
        let mut terms = Terms::new();
        let characters = terms.characters(&[(0, 0x10_ffff)]);
        let [a, b] = [terms.literal(b"a"), terms.literal("\u{e9}".as_bytes())];
        let all = terms.repeat(characters, 0, UNBOUNDED);
        let few = terms.repeat(characters, 2, 9);
        let mut with = |middle| {
            let tail = terms.concatenation(middle, all);
            terms.concatenation(all, tail)
        };
        let [with_a, with_b] = [with(a), with(b)];
        assert_eq!(terms.alternation(vec![with_a, all, few]), all);
        assert_eq!(terms.intersection(vec![all, few]), few);
        let narrow = terms.intersection(vec![with_a, few]);
        assert_eq!(terms.intersection(vec![all, with_a, few]), narrow);
        let outside = terms.complement(all);
        assert_eq!(terms.intersection(vec![outside, few]), NOTHING);
        assert_eq!(terms.alternation(vec![narrow, with_a]), with_a);
        let narrower = terms.intersection(vec![with_a, few, with_b]);
        assert_eq!(terms.alternation(vec![narrow, narrower]), narrow);
        // Bytes that are no whole characters.
        let part = terms.literal(b"\xc3");
        let both = terms.alternation(vec![part, all]);
        assert!(both != all && terms.intersection(vec![part, all]) != part);
        let outside = terms.intersection(vec![outside, part]);
        assert_ne!(outside, NOTHING);
    }

    #[test]
    fn alternatives_with_narrower_counts_are_left_out() {
        let mut terms = Terms::new();
        let (a, b) = (terms.literal(b"ab"), terms.literal(b"b"));
        let mut counted = |minimum, maximum, rounds| {
            let first = terms.repeat(a, minimum, maximum);
            let tail = terms.repeat(b, 0, rounds);
            (first, tail)
        };
        let [narrow, wide, other] = [counted(1, 3, 4), counted(0, 5, 4), counted(0, 6, 3)];
        let [narrow, wide, other] = [narrow, wide, other].map(|(first, tail)| terms.concatenation(first, tail));
        assert_eq!(terms.alternation(vec![narrow, wide]), wide);
        let both = terms.alternation(vec![narrow, wide, other]);
        assert_eq!(both, terms.alternation(vec![wide, other]));
        assert!(both != wide && both != other);
    }
}
