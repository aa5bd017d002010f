//! Sets of characters: their algebra, and case folding.
//!
//! A set is a list of sorted, disjoint, non-adjacent, inclusive ranges of Unicode scalar values. No set includes
//! surrogates, so a range never spans them: U+D7FF and U+E000 are not adjacent.

use std::sync::{Arc, OnceLock};

pub type Range = (u32, u32);
pub type Ranges = Arc<[Range]>;

pub const LAST: u32 = 0x10_ffff;
pub const NONE: &[Range] = &[];
pub const ALL: &[Range] = &[(0, 0xd7ff), (0xe000, LAST)];

const SURROGATES: Range = (0xd800, 0xdfff);
/// Maximum number of ranges that a growing union collects before it merges them.
const RANGES_BEFORE_MERGE: usize = 4096;

pub const WORD: &[Range] = &[DIGIT, UPPER, (0x5f, 0x5f), LOWER];
pub const ASCII_DIGITS: &[Range] = &[DIGIT];
pub const ASCII_SPACE: &[Range] = &[(0x09, 0x0d), (0x20, 0x20)];

const DIGIT: Range = (0x30, 0x39);
const UPPER: Range = (0x41, 0x5a);
const LOWER: Range = (0x61, 0x7a);

/// Return the set of a name in `[:…:]`.
pub fn posix(name: &str) -> Option<&'static [Range]> {
    Some(match name {
        "alnum" => &[DIGIT, UPPER, LOWER],
        "alpha" => &[UPPER, LOWER],
        "ascii" => &[(0, 0x7f)],
        "blank" => &[(0x09, 0x09), (0x20, 0x20)],
        "cntrl" => &[(0, 0x1f), (0x7f, 0x7f)],
        "digit" => ASCII_DIGITS,
        "graph" => &[(0x21, 0x7e)],
        "lower" => &[LOWER],
        "print" => &[(0x20, 0x7e)],
        "punct" => &[(0x21, 0x2f), (0x3a, 0x40), (0x5b, 0x60), (0x7b, 0x7e)],
        "space" => ASCII_SPACE,
        "upper" => &[UPPER],
        "word" => WORD,
        "xdigit" => &[DIGIT, (0x41, 0x46), (0x61, 0x66)],
        _ => return None,
    })
}

/// Return the set of all characters.
pub fn all() -> Ranges {
    static EVERY: OnceLock<Ranges> = OnceLock::new();
    EVERY.get_or_init(|| ALL.into()).clone()
}

/// Return the empty set.
pub fn none() -> Ranges {
    static NO: OnceLock<Ranges> = OnceLock::new();
    NO.get_or_init(|| NONE.into()).clone()
}

/// Return the set of one code point; empty for a surrogate.
pub fn single(code: u32) -> Ranges {
    match (SURROGATES.0..=SURROGATES.1).contains(&code) {
        true => none(),
        false => [(code, code)].into(),
    }
}

/// Return the set of ranges, which may be in any order; surrogates are dropped.
pub fn of(pairs: impl IntoIterator<Item = Range>) -> Ranges {
    let parts = pairs.into_iter().flat_map(|(low, high)| without_surrogates(low, high));
    joined(parts.collect()).into()
}

fn without_surrogates(low: u32, high: u32) -> impl Iterator<Item = Range> {
    let below = (low, high.min(SURROGATES.0 - 1));
    let above = (low.max(SURROGATES.1 + 1), high);
    [below, above].into_iter().filter(|part| part.0 <= part.1)
}

pub fn union<'a>(sets: impl IntoIterator<Item = &'a [Range]>) -> Ranges {
    joined(sets.into_iter().flatten().copied().collect()).into()
}

/// Return the union of ranges, which may be in any order.
fn joined(mut parts: Vec<Range>) -> Vec<Range> {
    parts.sort_unstable();
    parts.dedup_by(|next, last| {
        let touches = next.0 <= last.1 + 1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    parts
}

pub fn negation(ranges: &[Range]) -> Ranges {
    let (mut gaps, mut start) = (Vec::with_capacity(ranges.len() + 2), 0);
    for (low, high) in ranges {
        gaps.extend((*low > start).then(|| (start, low - 1)));
        start = high + 1;
    }
    gaps.extend((start <= LAST).then_some((start, LAST)));
    of(gaps)
}

pub fn intersection(left: &[Range], right: &[Range]) -> Ranges {
    let (mut common, mut i, mut j) = (Vec::new(), 0, 0);
    while i < left.len() && j < right.len() {
        let (low, high) = (left[i].0.max(right[j].0), left[i].1.min(right[j].1));
        common.extend((low <= high).then_some((low, high)));
        if left[i].1 < right[j].1 {
            i += 1;
        } else {
            j += 1;
        }
    }
    common.into()
}

pub fn difference(left: &[Range], right: &[Range]) -> Ranges {
    intersection(left, &negation(right))
}

pub fn symmetric_difference(left: &[Range], right: &[Range]) -> Ranges {
    union([&*difference(left, right), &*difference(right, left)])
}

/// Return the set with all characters that differ from one of its own only in the case of A to Z; see `unicode::fold`
/// for all letters.
pub fn fold_ascii(ranges: &[Range]) -> Ranges {
    let (lower, upper) = (intersection(ranges, &[LOWER]), intersection(ranges, &[UPPER]));
    let lower = lower.iter().map(|(low, high)| (low - 32, high - 32));
    let upper = upper.iter().map(|(low, high)| (low + 32, high + 32));
    of(ranges.iter().copied().chain(lower).chain(upper))
}

/// A character, or a class of characters.
#[derive(Clone)]
pub enum Member {
    One(u32),
    Class(Ranges),
}

impl From<Member> for Ranges {
    fn from(member: Member) -> Ranges {
        match member {
            Member::One(code) => single(code),
            Member::Class(ranges) => ranges,
        }
    }
}

/// A growing union, which is compacted from time to time to bound its memory.
#[derive(Default)]
pub struct Members {
    parts: Vec<Range>,
    /// Number of ranges after the last compaction.
    joined: usize,
    last: Option<Ranges>,
}

impl Members {
    /// Add a character or a class. Return the number of its ranges, or 0 if the class is the one added last.
    pub fn add(&mut self, member: Member) -> usize {
        match member {
            Member::One(code) => self.add_range(code, code),
            Member::Class(ranges) => {
                if self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &ranges)) {
                    return 0;
                }
                self.parts.extend_from_slice(&ranges);
                self.compact();
                self.last.insert(ranges).len()
            }
        }
    }

    pub fn add_range(&mut self, low: u32, high: u32) -> usize {
        let parts = without_surrogates(low, high);
        self.parts.extend(parts);
        self.compact();
        1
    }

    fn compact(&mut self) {
        if self.parts.len() > RANGES_BEFORE_MERGE + 2 * self.joined {
            self.parts = joined(std::mem::take(&mut self.parts));
            self.joined = self.parts.len();
        }
    }

    /// Return the union of all members.
    pub fn union(self) -> Ranges {
        joined(self.parts).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return sets of small numbers, and of numbers near the surrogates and near the last code point.
    fn some_sets() -> Vec<Ranges> {
        let bounds = [0, 1, 2, 5, 0xd7fe, 0xd7ff, 0xe000, 0xe001, LAST - 1, LAST];
        let pairs = bounds.iter().flat_map(|low| bounds.iter().map(|high| (*low, *high)));
        let pairs: Vec<Range> = pairs.filter(|(low, high)| low <= high).collect();
        let two = pairs
            .iter()
            .enumerate()
            .map(|(place, one)| of([*one, pairs[(7 * place + 3) % pairs.len()]]));
        two.chain([NONE.into(), all()]).collect()
    }

    fn has(ranges: &[Range], code: u32) -> bool {
        ranges.iter().any(|(low, high)| (*low..=*high).contains(&code))
    }

    #[test]
    fn the_algebra_is_that_of_sets() {
        let codes = [0, 1, 2, 3, 5, 6, 0xd7fe, 0xd7ff, 0xe000, 0xe001, 0xe002, LAST - 1, LAST];
        for one in some_sets() {
            assert_eq!(negation(&negation(&one)), one);
            assert_eq!(union([&*one, &*negation(&one)]), all());
            for other in some_sets() {
                for code in codes {
                    let (a, b) = (has(&one, code), has(&other, code));
                    assert_eq!(has(&union([&*one, &*other]), code), a || b);
                    assert_eq!(has(&intersection(&one, &other), code), a && b);
                    assert_eq!(has(&difference(&one, &other), code), a && !b);
                    assert_eq!(has(&symmetric_difference(&one, &other), code), a != b);
                }
            }
        }
    }

    #[test]
    fn surrogates_belong_to_no_set() {
        assert!(single(0xd800).is_empty() && of([(0xd800, 0xdfff)]).is_empty());
        assert_eq!(*of([(0xd000, 0xe100)]), [(0xd000, 0xd7ff), (0xe000, 0xe100)]);
        assert_eq!(negation(NONE), all());
    }

    #[test]
    fn letters_of_ascii_are_folded() {
        let ascii = fold_ascii(&of([(0x41, 0x43), (0x212a, 0x212a)]));
        assert_eq!(*ascii, [(0x41, 0x43), (0x61, 0x63), (0x212a, 0x212a)]);
    }

    #[test]
    fn a_union_that_grows_is_that_of_its_parts() {
        let mut members = Members::default();
        for place in 0..9000 {
            assert_eq!(members.add(Member::One(2 * place + 1)), 1);
        }
        assert_eq!(members.add_range(0xd000, 0xe000), 1);
        let odd = (0..9000).map(|place| (2 * place + 1, 2 * place + 1));
        assert_eq!(members.union(), of(odd.chain([(0xd000, 0xe000)])));
        let mut members = Members::default();
        assert_eq!(
            [members.add(Member::Class(all())), members.add(Member::Class(all()))],
            [2, 0]
        );
        assert_eq!(members.union(), all());
    }

    #[test]
    fn example_class_of_characters() {
        let letters = of([(0x61, 0x7a)]);
        let vowels = of([0x61, 0x65, 0x69, 0x6f, 0x75].map(|letter| (letter, letter)));
        assert_eq!(intersection(&letters, &vowels), vowels);
    }
}
