//! The JSON spellings (RFC 8259, section 7) of single characters, as regular nodes.
//!
//! A character has up to three kinds of spelling: itself, a short escape, and a `\u` escape, or two of them (UTF-16
//! surrogates) beyond U+FFFF. Every spelling has one reading, so intersections and differences stay exact. See
//! `Spelling` for which spellings count. A range of characters becomes products of ranges of hexadecimal digits: at
//! most two for each digit.

use std::sync::{Arc, OnceLock};

use super::{any_of_these, in_a_row};
use crate::regular::regex::{intersection, of, Node, ALL};
use crate::regular::term::Spelling;

/// An inclusive range of code points, or of digits.
type Range = (u32, u32);

/// The number of high surrogates, and of low surrogates.
const HALF: u32 = 0x400;

/// Return the spellings of any character; every call returns the same node.
pub fn any_character(spelling: Spelling) -> Node {
    static KNOWN: [OnceLock<Node>; 2] = [OnceLock::new(), OnceLock::new()];
    KNOWN[spelling as usize]
        .get_or_init(|| spelled(ALL, spelling).kept())
        .clone()
}

/// Make the spellings of one character out of sorted, disjoint, inclusive ranges without surrogates.
pub fn characters(ranges: &Arc<[Range]>, spelling: Spelling) -> Node {
    match **ranges == *ALL {
        true => any_character(spelling),
        false => spelled(ranges, spelling),
    }
}

fn spelled(ranges: &[Range], spelling: Spelling) -> Node {
    let (raw, long) = spelling.ranges();
    let raw = intersection(ranges, raw);
    let is_in = |code: u32| ranges.iter().any(|(low, high)| (*low..=*high).contains(&code));
    let short = spelling.short_escapes().filter(|(code, _)| is_in(*code));
    let short = of(short.map(|(_, letter)| (letter.into(), letter.into())));
    let mut options = Vec::new();
    if !raw.is_empty() {
        options.push(Node::chars(raw.clone()));
    }
    let mut escapes = Vec::new();
    if !short.is_empty() {
        escapes.push(Node::chars(short.clone()));
    }
    let mut hexadecimal = Vec::new();
    for (low, high) in intersections(ranges, long) {
        if low <= 0xffff {
            hexadecimal.extend(hexadecimals(low, high.min(0xffff)));
        }
        if high > 0xffff {
            hexadecimal.extend(surrogate_pairs(low.max(0x1_0000), high));
        }
    }
    if !hexadecimal.is_empty() || raw.is_empty() && short.is_empty() {
        escapes.push(in_a_row(vec![Node::text("u"), any_of_these(hexadecimal)]));
    }
    if !escapes.is_empty() {
        options.push(in_a_row(vec![Node::text("\\"), any_of_these(escapes)]));
    }
    any_of_these(options)
}

/// Make the `\u` escape of a character up to U+FFFF, with hexadecimal digits of both cases.
pub fn long_escape(char: char) -> Node {
    in_a_row(vec![
        Node::text("\\u"),
        any_of_these(hexadecimals(char.into(), char.into())),
    ])
}

/// Return the intersections of ranges with other ranges, each by itself.
fn intersections(ranges: &[Range], others: &[Range]) -> Vec<Range> {
    let both = |one: &Range, other: &Range| (one.0.max(other.0), one.1.min(other.1));
    let pairs = ranges
        .iter()
        .flat_map(|one| others.iter().map(move |other| both(one, other)));
    pairs.filter(|(low, high)| low <= high).collect()
}

fn hexadecimals(low: u32, high: u32) -> Vec<Node> {
    let rows = digit_ranges(low, high, 4, 16);
    rows.into_iter()
        .map(|row| in_a_row(row.into_iter().map(nibble).collect()))
        .collect()
}

fn surrogate_pairs(low: u32, high: u32) -> Vec<Node> {
    let pairs = digit_ranges(low - 0x1_0000, high - 0x1_0000, 2, HALF);
    let half = |first: u32, (low, high): Range| any_of_these(hexadecimals(first + low, first + high));
    let both = |pair: Vec<Range>| Node::sequence(vec![half(0xd800, pair[0]), Node::text("\\u"), half(0xdc00, pair[1])]);
    pairs.into_iter().map(both).collect()
}

/// Return the numbers from `low` to `high` as products of ranges of digits, most significant first.
fn digit_ranges(low: u32, high: u32, digits: u32, base: u32) -> Vec<Vec<Range>> {
    if digits == 1 {
        return vec![vec![(low, high)]];
    }
    let size = base.pow(digits - 1);
    let (mut first, low_rest, mut last, high_rest) = (low / size, low % size, high / size, high % size);
    let below = |digit: u32, low: u32, high: u32| {
        let rows = digit_ranges(low, high, digits - 1, base).into_iter();
        rows.map(move |row| [(digit, digit)].into_iter().chain(row).collect::<Vec<Range>>())
    };
    if first == last {
        return below(first, low_rest, high_rest).collect();
    }
    let mut found = Vec::new();
    if low_rest > 0 {
        found.extend(below(first, low_rest, size - 1));
        first += 1;
    }
    let mut tail = Vec::new();
    if high_rest != size - 1 {
        tail.extend(below(last, 0, high_rest));
        last -= 1;
    }
    if first <= last {
        let mut row = vec![(0, base - 1); digits as usize];
        row[0] = (first, last);
        found.push(row);
    }
    found.extend(tail);
    found
}

/// Make a hexadecimal digit of a range, in both cases; the same range gives the same node.
fn nibble((low, high): Range) -> Node {
    static KNOWN: OnceLock<Vec<Node>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let digits = |low: u32, high: u32| {
            let decimal = (low <= 9).then_some((0x30 + low, 0x30 + high.min(9)));
            let letters = [0x41, 0x61].map(|base| (base + low.max(10) - 10, base + high.max(10) - 10));
            let letters = letters.into_iter().filter(|_| high >= 10);
            Node::chars(of(decimal.into_iter().chain(letters)))
        };
        (0..16)
            .flat_map(|low| (0..16).map(move |high| (low, high)))
            .map(|(low, high)| digits(low, high.max(low)))
            .collect()
    });
    known[(16 * low + high) as usize].clone()
}
