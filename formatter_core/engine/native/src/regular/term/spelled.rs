//! Finds the characters that a term spells, if it has all spellings of each inside a JSON string.

use super::{Kind, Spelling, Term, Terms, EMPTY, SHORT_ESCAPES};
use crate::base::byteset::ByteSet;

/// Code points in ascending order; no two ranges are adjacent.
pub type Ranges = Vec<(u32, u32)>;

const SURROGATES: (u32, u32) = (0xd800, 0xdfff);
const FIRST_TRAIL: u32 = 0xdc00;

/// The kind of digits in which a number is written.
#[derive(Clone, Copy)]
enum Digits {
    Hexadecimal,
    /// The bytes of a character in UTF-8 after the first one.
    Continuation,
}

impl Terms {
    /// Return the characters that a term spells, each in all spellings. Return None if a spelling is missing, or if the
    /// term matches anything else.
    pub fn spelled(&self, term: Term, spelling: Spelling) -> Option<Ranges> {
        let items = match self.kind(term) {
            Kind::Alternation(items) => items,
            _ => &[term][..],
        };
        let (mut raw, mut short, mut long) = (Vec::new(), Vec::new(), Vec::new());
        for &item in items {
            match *self.kind(item) {
                Kind::Concatenation(first, second) if self.is_byte(first, b'\\') => {
                    self.add_escapes(second, &mut short, &mut long)?;
                }
                Kind::Concatenation(first, second) => self.add_encoded(first, second, &mut raw)?,
                Kind::Set(set) => self.byte_set(set).iter().try_for_each(|byte| {
                    raw.push((byte.into(), byte.into()));
                    byte.is_ascii().then_some(())
                })?,
                _ => return None,
            }
        }
        let all = in_order([&raw[..], &short, &long].concat());
        let (with_raw, with_long) = spelling.ranges();
        let with_short: Ranges = spelling.short_escapes().map(|(code, _)| (code, code)).collect();
        let is_whole = in_order(raw) == overlap(&all, with_raw)
            && in_order(short) == overlap(&all, &with_short)
            && in_order(long) == overlap(&all, with_long);
        is_whole.then_some(all)
    }

    fn is_byte(&self, term: Term, byte: u8) -> bool {
        matches!(*self.kind(term), Kind::Set(set) if self.byte_set(set) == ByteSet::single(byte))
    }

    /// Add the characters beyond ASCII whose UTF-8 begins with one of the bytes of `first`.
    fn add_encoded(&self, first: Term, second: Term, raw: &mut Ranges) -> Option<()> {
        let Kind::Set(set) = *self.kind(first) else {
            return None;
        };
        for byte in self.byte_set(set).iter() {
            let (bits, least, more) = match byte {
                0xc2..=0xdf => (byte & 0x1f, 0x80, 1),
                0xe0..=0xef => (byte & 0xf, 0x800, 2),
                0xf0..=0xf4 => (byte & 7, 0x1_0000, 3),
                _ => return None,
            };
            for (low, high, rest) in self.numbers(second, more, Digits::Continuation)? {
                let above = u32::from(bits) << (6 * more);
                let (low, high) = (above | low, above | high);
                let is_character = low >= least && high <= 0x10_ffff && (high < SURROGATES.0 || low > SURROGATES.1);
                if rest != EMPTY || !is_character {
                    return None;
                }
                raw.push((low, high));
            }
        }
        Some(())
    }

    /// Add the characters that a backslash followed by `term` spells.
    fn add_escapes(&self, term: Term, short: &mut Ranges, long: &mut Ranges) -> Option<()> {
        match *self.kind(term) {
            Kind::Alternation(ref items) => {
                let mut items = items.iter();
                items.try_for_each(|item| self.add_escapes(*item, short, long))
            }
            Kind::Set(set) => self.byte_set(set).iter().try_for_each(|letter| {
                let (code, _) = SHORT_ESCAPES.iter().find(|(_, other)| *other == letter)?;
                short.push((*code, *code));
                Some(())
            }),
            Kind::Concatenation(first, digits) if self.is_byte(first, b'u') => {
                for (low, high, rest) in self.numbers(digits, 4, Digits::Hexadecimal)? {
                    match rest {
                        EMPTY if high < SURROGATES.0 || low > SURROGATES.1 => long.push((low, high)),
                        _ if low >= SURROGATES.0 && high < FIRST_TRAIL => {
                            let trails = self.trails(rest)?;
                            let pairs = (low..=high).flat_map(|lead| {
                                let above = 0x1_0000 + ((lead - SURROGATES.0) << 10);
                                trails.iter().map(move |(low, high)| (above + low, above + high))
                            });
                            long.extend(pairs);
                        }
                        _ => return None,
                    }
                }
                Some(())
            }
            _ => None,
        }
    }

    /// Return the second units of surrogate pairs, minus `FIRST_TRAIL`.
    fn trails(&self, term: Term) -> Option<Ranges> {
        let Kind::Concatenation(first, second) = *self.kind(term) else {
            return None;
        };
        let Kind::Concatenation(letter, digits) = *self.kind(second) else {
            return None;
        };
        if !self.is_byte(first, b'\\') || !self.is_byte(letter, b'u') {
            return None;
        }
        let trail = |(low, high, rest)| {
            let is_trail = low >= FIRST_TRAIL && high <= SURROGATES.1 && rest == EMPTY;
            is_trail.then(|| (low - FIRST_TRAIL, high - FIRST_TRAIL))
        };
        let found = self.numbers(digits, 4, Digits::Hexadecimal)?;
        found.into_iter().map(trail).collect()
    }

    /// Return the numbers that a term writes with `count` digits, as runs with the lowest and the highest number, and
    /// the term after each run.
    fn numbers(&self, term: Term, count: u32, digits: Digits) -> Option<Vec<(u32, u32, Term)>> {
        if count == 0 {
            return Some(vec![(0, 0, term)]);
        }
        let (first, second) = match *self.kind(term) {
            Kind::Alternation(ref items) => {
                let mut found = Vec::new();
                for &item in items.iter() {
                    found.append(&mut self.numbers(item, count, digits)?);
                }
                return Some(found);
            }
            Kind::Concatenation(first, second) => (first, second),
            Kind::Set(_) => (term, EMPTY),
            _ => return None,
        };
        let Kind::Set(set) = *self.kind(first) else {
            let mut found = self.numbers(first, count, digits)?;
            let mut ends = found.iter_mut().map(|(_, _, rest)| rest);
            return ends
                .all(|rest| std::mem::replace(rest, second) == EMPTY)
                .then_some(found);
        };
        let (values, bits) = match digits {
            Digits::Hexadecimal => (hexadecimal(&self.byte_set(set))?, 4),
            Digits::Continuation => (continuation(&self.byte_set(set))?, 6),
        };
        let rests = self.numbers(second, count - 1, digits)?;
        let mut found: Vec<(u32, u32, Term)> = Vec::new();
        for value in (0..64).filter(|value| values >> value & 1 == 1) {
            for &(low, high, rest) in &rests {
                let above = value << (bits * (count - 1));
                match found.last_mut() {
                    Some(last) if last.1 + 1 == above + low && last.2 == rest => last.1 = above + high,
                    _ => found.push((above + low, above + high, rest)),
                }
            }
        }
        Some(found)
    }
}

/// Return the values of some digits, one bit each. Return None if a digit is present in only one case, or if a byte is
/// no digit.
fn hexadecimal(set: &ByteSet) -> Option<u64> {
    let mut values = 0;
    for byte in set.iter() {
        let is_whole = set.contains(byte.to_ascii_lowercase()) && set.contains(byte.to_ascii_uppercase());
        values |= 1 << char::from(byte).to_digit(16).filter(|_| is_whole)?;
    }
    Some(values)
}

fn continuation(set: &ByteSet) -> Option<u64> {
    let mut values = 0;
    for byte in set.iter() {
        values |= 1 << byte.checked_sub(0x80).filter(|value| *value < 64)?;
    }
    Some(values)
}

fn in_order(mut ranges: Vec<(u32, u32)>) -> Ranges {
    ranges.sort_unstable();
    let mut found: Ranges = Vec::new();
    for (low, high) in ranges {
        match found.last_mut() {
            Some(last) if low <= last.1 + 1 => last.1 = last.1.max(high),
            _ => found.push((low, high)),
        }
    }
    found
}

fn overlap(ranges: &[(u32, u32)], others: &[(u32, u32)]) -> Ranges {
    let mut found = Vec::new();
    for (low, high) in ranges {
        for other in others {
            let cut = (other.0.max(*low), other.1.min(*high));
            if cut.0 <= cut.1 {
                found.push(cut);
            }
        }
    }
    in_order(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn characters(text: &str) -> Ranges {
        in_order(text.chars().map(|one| (one.into(), one.into())).collect())
    }

    #[test]
    fn characters_in_every_spelling_are_told_from_those_that_lack_one() {
        for spelling in [Spelling::Any, Spelling::Canonical] {
            told_from_those_that_lack_one(spelling);
        }
    }

    fn told_from_those_that_lack_one(spelling: Spelling) {
        let mut terms = Terms::new();
        for text in [
            "a",
            "é\u{2028}",
            "\n",
            "\"\\/",
            "\u{1}\u{7f}",
            "😀z𐀀",
            "\u{ffff}\u{d7ff}\u{e000}",
        ] {
            let each: Vec<Term> = text
                .chars()
                .map(|one| terms.json_text(&one.to_string(), spelling))
                .collect();
            let class = terms.alternation(each.clone());
            assert_eq!(terms.spelled(class, spelling), Some(characters(text)), "{text:?}");
            let lacks_one = terms.literal("\\u0062".as_bytes());
            let more = terms.alternation(vec![class, lacks_one]);
            assert_eq!(terms.spelled(more, spelling), None);
            let twice = terms.concatenation(class, class);
            assert_eq!(terms.spelled(twice, spelling), None);
            let Kind::Alternation(items) = terms.kind(class).clone() else {
                continue;
            };
            for index in 0..items.len() {
                let mut fewer = items.to_vec();
                fewer.remove(index);
                let fewer = terms.alternation(fewer);
                let found = terms.spelled(fewer, spelling);
                assert!(
                    found.map_or(true, |found| found != characters(text)),
                    "{text:?} {index}"
                );
            }
        }
    }
}
