//! Sets of characters in patterns.

use super::{Pattern, Tree};

pub const LAST: u32 = 0x10_ffff;
pub type Class = &'static [(u32, u32)];
pub const NONE: Class = &[];
pub const DIGITS: Class = &[(0x30, 0x39)];
pub const WORD: Class = &[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)];
pub const LINE_ENDS: Class = &[(0x0a, 0x0a), (0x0d, 0x0d), (0x2028, 0x2029)];
/// White space and line ends (ECMA-262, sections 12.2 and 12.3).
pub const SPACE: Class = &[
    (0x09, 0x0d),
    (0x20, 0x20),
    (0xa0, 0xa0),
    (0x1680, 0x1680),
    (0x2000, 0x200a),
    (0x2028, 0x2029),
    (0x202f, 0x202f),
    (0x205f, 0x205f),
    (0x3000, 0x3000),
    (0xfeff, 0xfeff),
];

/// One character, or a class or what is not in it.
#[derive(Clone, Copy)]
pub enum Member {
    One(u32),
    Class(Class, bool),
}

impl Pattern<'_> {
    #[inline(never)]
    pub(super) fn add_member(&mut self, start: usize, member: Member) {
        match member {
            Member::One(code) => self.add(start, code, code),
            Member::Class(class, is_negated) => self.add_class(start, class, is_negated),
        }
    }

    /// Add a class, or what is not in it, to the last ranges.
    #[inline(never)]
    pub(super) fn add_class(&mut self, start: usize, class: &[(u32, u32)], is_negated: bool) {
        let mut next = 0;
        for (low, high) in class {
            if !is_negated {
                self.add(start, *low, *high);
            } else if *low > next {
                self.add(start, next, low - 1);
            }
            next = high + 1;
        }
        if is_negated && next <= LAST {
            self.add(start, next, LAST);
        }
    }

    /// Add a range without its surrogates to the last ranges.
    #[inline(never)]
    pub(super) fn add(&mut self, start: usize, low: u32, high: u32) {
        insert(&mut self.ranges, start, low, high.min(0xd7ff));
        insert(&mut self.ranges, start, low.max(0xe000), high);
    }

    /// One character of the last ranges; None if there is none.
    #[inline(never)]
    pub(super) fn one_of(&mut self, start: usize) -> Option<Tree> {
        match self.ranges[start..] {
            [] => None,
            [(low, high)] if low == high => char::from_u32(low).map(|char| self.char(char)),
            _ => Some(Tree::Chars((start as u32, self.ranges.len() as u32))),
        }
    }
}

/// Add a range, if it is one, to sorted ranges that begin at a place.
#[inline(never)]
pub fn insert(ranges: &mut Vec<(u32, u32)>, start: usize, mut low: u32, mut high: u32) {
    if low > high {
        return;
    }
    let mut place = start;
    while place < ranges.len() && ranges[place].1 + 1 < low {
        place += 1;
    }
    while place < ranges.len() && ranges[place].0 <= high + 1 {
        low = low.min(ranges[place].0);
        high = high.max(ranges[place].1);
        ranges.remove(place);
    }
    ranges.insert(place, (low, high));
}
