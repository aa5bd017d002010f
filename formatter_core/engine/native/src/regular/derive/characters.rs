//! Terms over characters instead of bytes, used to decide whether a term matches anything.
//!
//! Six of seven states of a JSON string's automaton lie inside a character, most of them in its `\u` escapes. Here a
//! letter, which is a byte, represents all characters that no class of a term distinguishes, in all of their spellings.
//!
//! Proof that the answer is the same: no spelling of a character is a prefix of another one, so a text of whole
//! characters splits into characters in only one way. Take a term made of classes of characters. Its matches that are
//! texts of whole characters are the spellings of what the term over letters matches. This holds for alternatives,
//! intersections and complements; it holds for sequences, repetitions and first matches if their parts match only such
//! texts. If a term matches only such texts, the two terms agree on whether they match anything.

use super::emptiness::{Asked, NEVER};
use super::Derivatives;
use crate::base::byteset::ByteSet;
use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::{MAX_CHARACTER_DEPTH, MAX_LETTERS, MAX_SPELLING_PARTS};
use crate::regular::term::{Kind, Ranges, Spelling, Term, EMPTY, NOTHING};

/// Maximum number of classes that are distinguished at once, with one bit each.
const CLASS_BITS: usize = 64;

/// A term over letters, and whether the original term matches only texts of whole characters.
type Twin = Option<(Term, bool)>;

/// The value for "no class" and "no twin".
const NONE: u32 = u32::MAX;

/// A class of characters that occurred in a term.
struct Class {
    characters: Ranges,
    /// The term over bytes.
    term: Term,
    /// The letters of the class, once the letters distinguish it from other classes.
    letters: Option<ByteSet>,
}

/// The classes, letters and twins of terms with one kind of spelling.
#[derive(Default)]
pub(super) struct Characters {
    spelling: Spelling,
    /// The number of the class that a term is, or `NONE`.
    class_of: FastMap<Term, u32>,
    classes: Vec<Class>,
    /// Sets of letters, each with the term of all their characters, or `NOTHING` if no classes make up the set.
    unions: Vec<(ByteSet, Term)>,
    /// For each term, twice its twin, plus one if it matches only whole characters; or `NONE`.
    twins: FastMap<Term, u32>,
    /// An upper bound of the lengths of the letters' shortest spellings.
    longest: u32,
    /// Classes that occurred and have no letters yet.
    missing: Vec<u32>,
    /// Number of terms over letters that may still be made.
    left: usize,
    /// Tells whether the current terms are over letters.
    pub(super) in_letters: bool,
}

impl Characters {
    pub(super) fn of(spelling: Spelling) -> Self {
        Characters {
            spelling,
            ..Characters::default()
        }
    }

    /// Return the bytes on the heap, see `heap`.
    pub(super) fn heap(&self) -> usize {
        let ranges: usize = self.classes.iter().map(|class| heap::list(&class.characters)).sum();
        heap::table(&self.class_of)
            + heap::list(&self.classes)
            + ranges
            + heap::list(&self.unions)
            + heap::table(&self.twins)
            + heap::list(&self.missing)
    }
}

impl Derivatives {
    /// Return an upper bound of the number of bytes that lead to a match of a term, or `NEVER`. Return None if it
    /// cannot be computed over characters, or takes more than `most` terms over letters. If only life is asked for, the
    /// result only tells `NEVER` from other values.
    pub(super) fn bound_in_characters(
        &mut self,
        term: Term,
        asked: Asked,
        most: usize,
        meter: &mut Meter,
    ) -> Outcome<Option<u32>> {
        let Some(twin) = self.twin_of_few(term, most, meter)? else {
            return Ok(None);
        };
        let letters = self.in_letters(|all| all.letters_to_match(twin, asked, meter))?;
        Ok(Some(letters.saturating_mul(self.characters.longest.max(1))))
    }

    /// Return a term over letters that matches something if and only if `term` does. Return None if making it takes
    /// more than `most` terms.
    pub(super) fn twin_of_few(&mut self, term: Term, most: usize, meter: &mut Meter) -> Outcome<Option<Term>> {
        if self.characters.in_letters {
            return Ok(None);
        }
        // The next term mostly has the same kind of spelling as the one before.
        for _ in 0..2 {
            self.characters.left = most;
            let twin = self.in_characters(term, meter)?;
            if twin.is_some() {
                return Ok(twin);
            }
            std::mem::swap(&mut self.characters, &mut self.other_characters);
        }
        Ok(None)
    }

    /// Run `ask` in the mode in which terms are over letters.
    pub(super) fn in_letters<T>(&mut self, ask: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        self.characters.in_letters = true;
        let answer = ask(self);
        self.characters.in_letters = false;
        answer
    }

    /// Return the term over bytes for these letters, made of known classes; `NOTHING` if no such classes make up the
    /// set.
    pub(super) fn class_of_letters(&mut self, letters: ByteSet) -> Term {
        let known = &self.characters;
        if let Some((_, term)) = known.unions.iter().find(|(other, _)| *other == letters) {
            return *term;
        }
        let (mut rest, mut parts) = (letters, Vec::new());
        let within = |class: &Class| Some((class.letters?, class.term));
        while !rest.is_empty() {
            let all = known.classes.iter().filter_map(within);
            let useful =
                all.filter(|(class, _)| class.union(&letters) == letters && !class.intersection(&rest).is_empty());
            let Some((class, term)) = useful.max_by_key(|(class, _)| class.len()) else {
                parts.clear();
                break;
            };
            class.iter().for_each(|letter| rest.remove(letter));
            parts.push(term);
        }
        let term = self.terms.alternation(parts);
        self.bytes += 48;
        self.characters.unions.push((letters, term));
        term
    }

    fn letters_to_match(&mut self, twin: Term, asked: Asked, meter: &mut Meter) -> Outcome<u32> {
        match self.live(twin, meter)? {
            false => Ok(NEVER),
            true if asked == Asked::Life => Ok(0),
            true => self.way_to_match(twin, meter),
        }
    }

    /// Return a term over letters that matches something if and only if `term` does.
    fn in_characters(&mut self, term: Term, meter: &mut Meter) -> Outcome<Option<Term>> {
        // Try the existing letters, then letters for more classes, then letters without the classes of other terms.
        for _ in 0..3 {
            let bytes = self.bytes();
            let twin = self.twin(term, MAX_CHARACTER_DEPTH, meter)?;
            meter.grow(self.bytes() - bytes)?;
            if self.characters.missing.is_empty() {
                return Ok(twin.filter(|(_, is_whole)| *is_whole).map(|(twin, _)| twin));
            }
            self.find_letters(meter)?;
        }
        self.keep_twin(term, None);
        Ok(None)
    }

    /// Assign letters to the missing classes and to those that had letters. If they are too many, assign none.
    fn find_letters(&mut self, meter: &mut Meter) -> Outcome<()> {
        let known = &mut self.characters;
        known.twins.clear();
        known.unions.clear();
        let mut wanted = std::mem::take(&mut known.missing);
        for (number, class) in (0..).zip(&mut known.classes) {
            wanted.extend(class.letters.take().map(|_| number));
        }
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.len() > CLASS_BITS {
            return Ok(());
        }
        // The code points at which a class begins, and those after its end.
        let mut borders: Vec<(u32, u32)> = Vec::new();
        for (index, &class) in (0..).zip(&wanted) {
            for (low, high) in &known.classes[class as usize].characters {
                borders.extend([(*low, index), (high + 1, index)]);
            }
        }
        meter.work(2 * borders.len())?;
        borders.sort_unstable();
        // For each letter, the set of classes that include it.
        let mut letters: Vec<u64> = Vec::new();
        let mut inside = 0u64;
        known.longest = 1;
        for (place, &(code, index)) in borders.iter().enumerate() {
            inside ^= 1 << index;
            let is_last = borders.get(place + 1).map_or(true, |next| next.0 != code);
            if is_last && inside != 0 && !letters.contains(&inside) {
                meter.work(letters.len())?;
                letters.push(inside);
                known.longest = known.longest.max(shortest_spelling(code));
            }
        }
        if letters.len() > MAX_LETTERS {
            return Ok(());
        }
        for (index, &class) in wanted.iter().enumerate() {
            let mut set = ByteSet::default();
            for (letter, classes) in (0..=255).zip(&letters) {
                if classes >> index & 1 == 1 {
                    set.insert(letter);
                }
            }
            known.classes[class as usize].letters = Some(set);
        }
        Ok(())
    }

    fn twin(&mut self, term: Term, depth: usize, meter: &mut Meter) -> Outcome<Twin> {
        if let Some(known) = self.known_twin(term) {
            return Ok(known);
        }
        self.characters.left = self.characters.left.saturating_sub(1);
        let found = match depth.checked_sub(1) {
            Some(depth) if self.characters.left > 0 => self.make_twin(term, depth, meter)?,
            _ => None,
        };
        self.keep_twin(term, found);
        Ok(found)
    }

    fn known_twin(&self, term: Term) -> Option<Twin> {
        let known = *self.characters.twins.get(&term)?;
        Some((known != NONE).then_some((known >> 1, known & 1 == 1)))
    }

    fn keep_twin(&mut self, term: Term, twin: Twin) {
        if twin.is_none() && self.characters.left == 0 {
            return;
        }
        self.bytes += 16;
        let kept = twin.map_or(NONE, |(twin, is_whole)| 2 * twin + u32::from(is_whole));
        self.characters.twins.insert(term, kept);
    }

    fn make_twin(&mut self, term: Term, depth: usize, meter: &mut Meter) -> Outcome<Twin> {
        meter.work(1)?;
        let kind = self.terms.kind(term).clone();
        Ok(match kind {
            Kind::Nothing | Kind::Empty => Some((term, true)),
            Kind::Complement(NOTHING) => Some((term, false)),
            Kind::Set(_) | Kind::Substring { .. } | Kind::Multiples(_) => None,
            Kind::Concatenation(..) => self.sequence_twin(term, depth, meter)?,
            Kind::Alternation(items) => self.alternation_twin(term, &items, depth, meter)?,
            Kind::Intersection(items) => {
                let mut twins = Vec::with_capacity(items.len());
                let mut is_whole = false;
                for &item in items.iter() {
                    let Some((twin, whole)) = self.twin(item, depth, meter)? else {
                        return Ok(None);
                    };
                    twins.push(twin);
                    is_whole |= whole;
                }
                Some((self.terms.intersection(twins), is_whole))
            }
            Kind::Complement(item) => {
                let twin = self.twin(item, depth, meter)?;
                twin.map(|(twin, _)| (self.terms.complement(twin), false))
            }
            Kind::Repeat { item, .. } | Kind::First(item) | Kind::Shortest(item) => {
                let Some((twin, true)) = self.twin(item, depth, meter)? else {
                    return Ok(None);
                };
                let twin = match kind {
                    Kind::Repeat { minimum, maximum, .. } => self.terms.repeat(twin, minimum, maximum),
                    Kind::First(_) => self.terms.first(twin),
                    _ => self.terms.shortest(twin),
                };
                Some((twin, true))
            }
        })
    }

    /// Make the twin of a sequence in a loop, so that a long sequence does not count as a deep term.
    fn sequence_twin(&mut self, term: Term, depth: usize, meter: &mut Meter) -> Outcome<Twin> {
        let mut heads: Vec<(Term, Term)> = Vec::new();
        let mut rest = term;
        let mut twin = loop {
            if let Some(known) = self.known_twin(rest) {
                break known;
            }
            let Kind::Concatenation(first, second) = *self.terms.kind(rest) else {
                break self.twin(rest, depth, meter)?;
            };
            meter.work(1)?;
            let (head, next) = match self.twin(first, depth, meter)? {
                Some((head, true)) => (head, second),
                Some((_, false)) => break None,
                None => match self.first_spelled(rest, meter)? {
                    Some(found) => found,
                    None => break None,
                },
            };
            heads.push((rest, head));
            rest = next;
        };
        for (rest, head) in heads.into_iter().rev() {
            twin = twin.map(|(tail, is_whole)| (self.terms.concatenation(head, tail), is_whole));
            self.keep_twin(rest, twin);
        }
        Ok(twin)
    }

    /// Find a class at the beginning of a sequence that is not a part of its own; return its letters and the tail after
    /// it.
    fn first_spelled(&mut self, term: Term, meter: &mut Meter) -> Outcome<Option<(Term, Term)>> {
        let (mut parts, mut rest) = (Vec::new(), term);
        for _ in 0..MAX_SPELLING_PARTS {
            let (head, tail) = match *self.terms.kind(rest) {
                Kind::Concatenation(head, tail) => (head, tail),
                _ => (rest, EMPTY),
            };
            parts.push(head);
            let join = |tail, head: &Term| self.terms.concatenation(*head, tail);
            let both = parts.iter().rev().fold(EMPTY, join);
            if let Some(letters) = self.class_letters(both, meter)? {
                return Ok(Some((letters, tail)));
            }
            if tail == EMPTY {
                break;
            }
            rest = tail;
        }
        Ok(None)
    }

    /// Make the twin of an alternation. Alternations are flat, so alternatives that together form a class are mixed
    /// with other alternatives.
    fn alternation_twin(&mut self, term: Term, items: &[Term], depth: usize, meter: &mut Meter) -> Outcome<Twin> {
        if let Some(letters) = self.class_letters(term, meter)? {
            return Ok(Some((letters, true)));
        }
        let (mut twins, mut others, mut is_whole) = (Vec::with_capacity(items.len()), Vec::new(), true);
        for &item in items {
            match self.twin(item, depth, meter)? {
                Some((twin, whole)) => {
                    twins.push(twin);
                    is_whole &= whole;
                }
                None => others.push(item),
            }
        }
        if !others.is_empty() {
            let others = self.terms.alternation(others);
            match self.class_letters(others, meter)? {
                Some(letters) => twins.push(letters),
                None => return Ok(None),
            }
        }
        Ok(Some((self.terms.alternation(twins), is_whole)))
    }

    /// Return the letters of a term that is a class of characters.
    fn class_letters(&mut self, term: Term, meter: &mut Meter) -> Outcome<Option<Term>> {
        let known = &mut self.characters;
        let class = match known.class_of.get(&term) {
            Some(class) => *class,
            None => {
                let class = match self.terms.spelled(term, known.spelling) {
                    None => NONE,
                    Some(ranges) => {
                        meter.work(4 * ranges.len() + known.classes.len())?;
                        let same = known.classes.iter().position(|other| other.characters == ranges);
                        same.unwrap_or_else(|| {
                            self.bytes += 8 * ranges.len() + 80;
                            known.classes.push(Class {
                                characters: ranges,
                                term,
                                letters: None,
                            });
                            known.classes.len() - 1
                        }) as u32
                    }
                };
                self.bytes += 16;
                known.class_of.insert(term, class);
                class
            }
        };
        let Some(letters) = known.classes.get(class as usize).map(|class| class.letters) else {
            return Ok(None);
        };
        if letters.is_none() {
            known.missing.push(class);
        }
        Ok(Some(letters.map_or(NOTHING, |letters| self.terms.set(letters))))
    }
}

/// Return the length of a character's shortest spelling.
fn shortest_spelling(code: u32) -> u32 {
    match code {
        8..=0xa | 0xc | 0xd | 0x22 | 0x5c | 0x80..=0x7ff => 2,
        0x20..=0x7f => 1,
        0x800..=0xffff => 3,
        0x1_0000.. => 4,
        _ => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Usage;
    use crate::regular::term::{Terms, EVERYTHING, UNBOUNDED};

    /// A simple pseudo-random number generator (Marsaglia 2003).
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u32) -> u32 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 33) as u32 % limit
        }
    }

    /// Return a class of a few characters with various kinds of spellings, or a term that is no class.
    fn leaf(random: &mut Random, terms: &mut Terms, spelling: Spelling) -> Term {
        match random.below(12) {
            0 => EMPTY,
            1 => EVERYTHING,
            2 => terms.literal(b"a"),
            3 => terms.literal(b"\""),
            _ => {
                let mut spelled = Vec::new();
                for text in ["a", "b", "\n", "\u{1}", "\"", "é", "\u{2028}", "😀"] {
                    if random.below(3) == 0 {
                        spelled.push(terms.json_text(text, spelling));
                    }
                }
                terms.alternation(spelled)
            }
        }
    }

    fn random_term(random: &mut Random, terms: &mut Terms, depth: u32, spelling: Spelling) -> Term {
        if depth == 0 {
            return leaf(random, terms, spelling);
        }
        let some = |random: &mut Random, terms: &mut Terms| -> Vec<Term> {
            let count = 2 + random.below(2);
            (0..count)
                .map(|_| random_term(random, terms, depth - 1, spelling))
                .collect()
        };
        match random.below(8) {
            0 | 1 => {
                let items = some(random, terms);
                items
                    .into_iter()
                    .fold(EMPTY, |tail, head| terms.concatenation(head, tail))
            }
            2 => {
                let items = some(random, terms);
                terms.alternation(items)
            }
            3 | 4 => {
                let items = some(random, terms);
                terms.intersection(items)
            }
            5 => {
                let item = random_term(random, terms, depth - 1, spelling);
                terms.complement(item)
            }
            6 => {
                let item = random_term(random, terms, depth - 1, spelling);
                let (least, more) = (random.below(3), random.below(3));
                let most = if more == 2 { UNBOUNDED } else { least + more };
                terms.repeat(item, least, most)
            }
            _ => {
                let item = random_term(random, terms, depth - 1, spelling);
                match random.below(2) {
                    0 => terms.first(item),
                    _ => terms.shortest(item),
                }
            }
        }
    }

    #[test]
    fn what_is_told_over_characters_is_so_over_bytes() {
        let (mut told, mut dead) = (0, 0);
        for seed in 1..3000 {
            let spelling = [Spelling::Any, Spelling::Canonical][seed as usize % 2];
            let usage = Usage::default();
            let mut meter = Meter::new(u64::MAX, &usage, u64::MAX);
            let [mut ours, mut bytes] = [true, false].map(|with_letters| {
                let mut derivatives = Derivatives::new();
                derivatives.characters.in_letters = !with_letters;
                (derivatives, Random(seed * 0x9e37_79b9))
            });
            for _ in 0..3 {
                let [mut term, mut same] = [&mut ours, &mut bytes].map(|(derivatives, random)| {
                    let depth = 2 + random.below(3);
                    random_term(random, &mut derivatives.terms, depth, spelling)
                });
                // Check also what remains after the first bytes of an escape.
                for byte in *b"\\u00 " {
                    let (ours, bytes) = (&mut ours.0, &mut bytes.0);
                    let live = bytes.live(same, &mut meter).unwrap();
                    let nearest = if live {
                        bytes.shortest_match(same, &mut meter).unwrap()
                    } else {
                        NEVER
                    };
                    let bound = ours
                        .bound_in_characters(term, Asked::Bound, usize::MAX, &mut meter)
                        .unwrap();
                    told += usize::from(bound.is_some());
                    dead += usize::from(bound == Some(NEVER));
                    assert!(
                        bound.map_or(true, |bound| nearest <= bound && live == (bound != NEVER)),
                        "{seed}"
                    );
                    assert_eq!(ours.live(term, &mut meter), Ok(live), "{seed}");
                    assert!(
                        !live || (nearest..NEVER).contains(&ours.bound_to_match(term, &mut meter).unwrap()),
                        "{seed}"
                    );
                    (term, same) = [(ours, term), (bytes, same)]
                        .map(|(all, term)| all.after(term, byte, &mut meter).unwrap())
                        .into();
                }
            }
        }
        assert!(told > 2000 && dead > 200, "{told} {dead}");
    }

    #[test]
    fn many_classes_are_told_apart_anew() {
        let usage = Usage::default();
        let mut meter = Meter::new(10_000_000, &usage, 1_000_000);
        let mut derivatives = Derivatives::new();
        for first in (0..400).step_by(8) {
            let terms = &mut derivatives.terms;
            let classes: Vec<Term> = (first..first + 20)
                .map(|code| terms.json_text(&char::from_u32(0x100 + code).unwrap().to_string(), Spelling::Any))
                .collect();
            let any = terms.alternation(classes.clone());
            let both = [classes[0], classes[19]].map(|class| {
                let many = terms.repeat(any, 3, 3);
                let tail = terms.concatenation(class, EVERYTHING);
                terms.intersection(vec![many, tail])
            });
            let none = terms.intersection(both.to_vec());
            assert_eq!(
                derivatives.bound_in_characters(none, Asked::Life, usize::MAX, &mut meter),
                Ok(Some(NEVER))
            );
            assert_eq!(
                derivatives.bound_in_characters(both[0], Asked::Bound, usize::MAX, &mut meter),
                Ok(Some(6))
            );
        }
    }
}
