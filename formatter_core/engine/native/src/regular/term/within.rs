//! Recognises terms that obviously lie within others, and drops alternatives and items of intersections that are
//! redundant for that reason.

use std::hash::Hasher;

use super::{Kind, Term, Terms, EMPTY, NOTHING};
use crate::base::hash::FastHasher;
use crate::base::order::{pair, sort_by};
use crate::base::tuning::{MAX_ALTERNATIVES_COMPARED, MAX_DEPTH_COMPARED, MAX_KEPT_COMPARISONS};

impl Terms {
    /// Drop alternatives that differ from another one only in narrower counts.
    ///
    /// If a counted part can begin at many positions, there is an alternative for each: for `(.{1,63}x){1,127}`, up to
    /// 63 times 127. Almost all of them lie within another one.
    pub(super) fn drop_narrower(&self, items: &mut Vec<Term>) {
        let is_counted = |item: &Term| self.facts[*item as usize].counted;
        if items.iter().filter(|item| is_counted(item)).nth(1).is_none() {
            return;
        }
        let counted: Vec<Term> = items.iter().copied().filter(is_counted).collect();
        let is_narrower = |index: usize| {
            let (first, end) = (
                index.saturating_sub(MAX_ALTERNATIVES_COMPARED),
                index + MAX_ALTERNATIVES_COMPARED + 1,
            );
            let near = &counted[first..end.min(counted.len())];
            near.iter()
                .any(|other| *other != counted[index] && self.is_within(counted[index], *other))
        };
        let mut narrower: Vec<Term> = self
            .begin_within_others(&counted)
            .into_iter()
            .filter(|index| is_narrower(*index))
            .map(|index| counted[index])
            .collect();
        narrower.sort_unstable();
        items.retain(|item| narrower.binary_search(item).is_err());
    }

    /// Return the indices of terms that have the same beginning as another one, up to the first repetition, whose count
    /// is equal or narrower. Only these can differ from another one only in narrower counts.
    fn begin_within_others(&self, terms: &[Term]) -> Vec<usize> {
        let first_count = |(index, term): (usize, &Term)| {
            let (mut begin, mut rest) = (FastHasher::default(), *term);
            for _ in 0..MAX_ALTERNATIVES_COMPARED {
                let (first, others) = match *self.kind(rest) {
                    Kind::Concatenation(first, others) => (first, Some(others)),
                    _ => (rest, None),
                };
                if let Kind::Repeat { item, minimum, maximum } = *self.kind(first) {
                    begin.write_u32(item);
                    return (begin.finish(), minimum, maximum, index as u32);
                }
                begin.write_u32(first);
                match others {
                    Some(others) => rest = others,
                    None => break,
                }
            }
            (begin.finish(), 1, 1, index as u32)
        };
        let mut begins: Vec<_> = terms.iter().enumerate().map(first_count).collect();
        sort_by(&mut begins, |(begin, minimum, maximum, index)| {
            (*begin, (pair(*minimum, !maximum), *index))
        });
        let mut found = Vec::new();
        let (mut current, mut most) = (None, 0);
        for (place, (begin, minimum, maximum, index)) in begins.iter().enumerate() {
            if current != Some(begin) {
                (current, most) = (Some(begin), 0);
            }
            // The terms before this one have a minimum that is at most as large.
            let after = begins
                .get(place + 1)
                .map(|(begin, minimum, maximum, _)| (begin, minimum, maximum));
            if *maximum <= most || after == Some((begin, minimum, maximum)) {
                found.push(*index as usize);
            }
            most = most.max(*maximum);
        }
        found
    }

    /// Drop alternatives that obviously lie within another alternative that is a repetition or an intersection.
    pub(super) fn drop_absorbed(&self, items: &mut Vec<Term>) {
        let absorbs = |item: &Term| self.facts[*item as usize].absorbs;
        let lies_within = |item: Term, wide: &[(Term, u64)]| {
            let bits = self.part_bits(item);
            wide.iter()
                .any(|&(wide, parts)| wide != item && parts & !bits == 0 && self.is_absorbed(item, wide))
        };
        // Wide alternatives, each with the bits of its parts. One that lies within an earlier one absorbs nothing more.
        let mut wide: Vec<(Term, u64)> = Vec::new();
        for item in items.iter().copied().filter(absorbs).take(MAX_ALTERNATIVES_COMPARED) {
            if !lies_within(item, &wide) {
                wide.push((item, self.part_bits(item)));
            }
        }
        if wide.is_empty() {
            return;
        }
        items.retain(|item| !lies_within(*item, &wide));
        if items.len() > 1 {
            let all = items.clone();
            items.retain(|item| match self.kind(*item) {
                Kind::Intersection(parts) => !parts.iter().any(|part| all.binary_search(part).is_ok()),
                _ => true,
            });
        }
    }

    /// Return a bit for each part of an intersection, and 0 for other terms: a term that lacks a bit lacks a part.
    fn part_bits(&self, term: Term) -> u64 {
        match self.kind(term) {
            Kind::Intersection(parts) => parts.iter().fold(0, |bits, part| bits | 1 << (part % 64)),
            _ => 0,
        }
    }

    fn is_absorbed(&self, narrow: Term, wide: Term) -> bool {
        match (self.kind(narrow), self.kind(wide)) {
            (Kind::Intersection(parts), Kind::Intersection(fewer)) => {
                fewer.len() < parts.len() && fewer.iter().all(|part| parts.binary_search(part).is_ok())
            }
            (_, Kind::Repeat { item, .. }) => self.is_repetition(narrow, *item, MAX_DEPTH_COMPARED),
            (_, Kind::Concatenation(first, tail)) => match self.kind(*first) {
                Kind::Repeat { item, .. } => self.is_repetition_before(narrow, *item, [*tail, wide]),
                _ => false,
            },
            _ => false,
        }
    }

    /// Return whether a term is obviously some repetitions of `item` followed by one of `tails`.
    fn is_repetition_before(&self, mut term: Term, item: Term, tails: [Term; 2]) -> bool {
        for _ in 0..MAX_ALTERNATIVES_COMPARED {
            match self.kind(term) {
                _ if tails.contains(&term) => return true,
                Kind::Concatenation(first, rest) if self.is_repetition(*first, item, MAX_DEPTH_COMPARED) => {
                    term = *rest
                }
                _ => return false,
            }
        }
        false
    }

    /// Return whether each string of a term is obviously a repetition of `item`, any number of times.
    fn is_repetition(&self, mut term: Term, item: Term, depth: usize) -> bool {
        for _ in 0..MAX_ALTERNATIVES_COMPARED {
            match self.kind(term) {
                _ if term == item || term == EMPTY || term == NOTHING => return true,
                _ if depth == 0 => return false,
                Kind::Repeat { item: other, .. } => return self.is_repetition(*other, item, depth - 1),
                Kind::Concatenation(first, rest) if self.is_repetition(*first, item, depth - 1) => term = *rest,
                Kind::Alternation(items) if items.len() <= MAX_ALTERNATIVES_COMPARED => {
                    // These are mostly characters: the same few are compared again and again.
                    let key = (term, item, depth);
                    if let Some(known) = self.repetitions.borrow().get(&key) {
                        return *known;
                    }
                    let all = items.iter().all(|one| self.is_repetition(*one, item, depth - 1));
                    let mut repetitions = self.repetitions.borrow_mut();
                    if repetitions.len() > MAX_KEPT_COMPARISONS {
                        repetitions.clear();
                    }
                    repetitions.insert(key, all);
                    return all;
                }
                Kind::Intersection(items) => {
                    return items.iter().any(|one| self.is_repetition(*one, item, depth - 1));
                }
                _ => return self.is_part(term, item, depth - 1),
            }
        }
        false
    }

    /// Return whether each string of a term without repetitions is obviously a string of another.
    fn is_part(&self, term: Term, other: Term, depth: usize) -> bool {
        match (self.kind(term), self.kind(other)) {
            _ if term == other => true,
            _ if depth == 0 => false,
            (Kind::Alternation(items), _) if items.len() <= MAX_ALTERNATIVES_COMPARED => {
                items.iter().all(|item| self.is_part(*item, other, depth - 1))
            }
            (_, Kind::Alternation(others)) if others.len() <= MAX_ALTERNATIVES_COMPARED => {
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

    /// Return whether two terms differ only in counts, and the counts of the first lie within those of the second.
    pub fn is_within(&self, mut narrow: Term, mut wide: Term) -> bool {
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
        for _ in 0..MAX_ALTERNATIVES_COMPARED {
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

    /// Drop repetitions within which another item obviously lies. Return true if an item lies within a repetition whose
    /// complement is also an item: then the intersection is empty.
    pub(super) fn drop_wider(&self, items: &mut Vec<Term>) -> bool {
        for index in (0..items.len()).rev() {
            let (repeated, negated) = match *self.kind(items[index]) {
                Kind::Complement(inner) => (inner, true),
                _ => (items[index], false),
            };
            if let (true, Kind::Repeat { item, .. }) = (self.facts[repeated as usize].absorbs, self.kind(repeated)) {
                let is_narrow =
                    |other: &Term| *other != items[index] && self.is_repetition(*other, *item, MAX_DEPTH_COMPARED);
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
}

#[cfg(test)]
mod tests {
    use super::super::*;

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
        // These are bytes that are not whole characters.
        let part = terms.literal(b"\xc3");
        let both = terms.alternation(vec![part, all]);
        assert!(both != all && terms.intersection(vec![part, all]) != part);
        let outside = terms.intersection(vec![outside, part]);
        assert_ne!(outside, NOTHING);
    }

    #[test]
    fn a_match_anywhere_leaves_nothing_to_look_for() {
        let mut terms = Terms::new();
        let characters = terms.characters(&[(0, 33), (35, 0x10_ffff)]);
        let [digits, quote] = [terms.characters(&[(48, 57)]), terms.literal(b"\"")];
        let all = terms.repeat(characters, 0, UNBOUNDED);
        let rest = terms.concatenation(all, quote);
        let number = terms.repeat(digits, 3, 3);
        let again = terms.concatenation(number, rest);
        let later = terms.concatenation(all, again);
        assert_eq!(terms.alternation(vec![later, rest, again]), rest);
        let quoted = terms.concatenation(quote, rest);
        assert_ne!(terms.alternation(vec![quoted, rest]), rest);
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
        // The same holds after a common prefix, and only after that.
        let mut after = |begin: &[u8], counted| terms.literal_then(begin, counted);
        let [few, many, elsewhere] = [after(b"cd", narrow), after(b"cd", wide), after(b"ce", wide)];
        assert_eq!(terms.alternation(vec![few, many]), many);
        assert_ne!(terms.alternation(vec![few, elsewhere]), elsewhere);
    }
}
