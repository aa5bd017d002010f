//! Terms of characters: as UTF-8, and in every spelling inside a JSON string.

use super::{Term, Terms, EMPTY, NOTHING};
use crate::base::byteset::ByteSet;
use crate::base::hash::FastMap;
use crate::base::limits::{Meter, Outcome};
use crate::base::utf8;

/// Characters with a short escape in JSON, and its letter.
pub const SHORT_ESCAPES: [(u32, u8); 8] = [
    (8, b'b'),
    (9, b't'),
    (0xa, b'n'),
    (0xc, b'f'),
    (0xd, b'r'),
    (0x22, b'"'),
    (0x2f, b'/'),
    (0x5c, b'\\'),
];

/// The spellings of characters inside a JSON string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// All spellings (RFC 8259, section 7).
    #[default]
    Any,
    /// The spellings that a careful writer uses. A character is written as itself unless it must be escaped; then it
    /// has its short escape, or its `\u` escape if there is no short one. A character beyond ASCII may be written as
    /// itself or as a `\u` escape.
    Canonical,
}

/// The characters that may be written as themselves.
const RAW: [(u32, u32); 4] = [(0x20, 0x21), (0x23, 0x5b), (0x5d, 0xd7ff), (0xe000, 0x10_ffff)];
const ALL: [(u32, u32); 2] = [(0, 0xd7ff), (0xe000, 0x10_ffff)];
/// The characters whose `\u` escape is canonical: their only canonical spelling, or one beside themselves.
const LONG: [(u32, u32); 5] = [(0, 7), (0xb, 0xb), (0xe, 0x1f), (0x80, 0xd7ff), (0xe000, 0x10_ffff)];

/// Inclusive ranges of code points.
type Ranges = &'static [(u32, u32)];

impl Spelling {
    /// Return the characters that may be written as themselves, and those that have `\u` escapes.
    pub fn ranges(self) -> (Ranges, Ranges) {
        match self {
            Spelling::Any => (&RAW, &ALL),
            Spelling::Canonical => (&RAW, &LONG),
        }
    }

    /// Return the characters with short escapes, and their letters.
    pub fn short_escapes(self) -> impl Iterator<Item = (u32, u8)> {
        let are_listed = move |escape: &(u32, u8)| self == Spelling::Any || escape.1 != b'/';
        SHORT_ESCAPES.into_iter().filter(are_listed)
    }
}

impl Terms {
    /// Return a term for one code point of these ranges.
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
        self.inner += 8 * ranges.len();
        self.classes.insert(ranges.into(), term);
        term
    }

    /// Return a term for a text inside a JSON string.
    pub fn json_text(&mut self, text: &str, spelling: Spelling) -> Term {
        text.chars().rev().fold(EMPTY, |rest, character| {
            let head = self.json_character(character, spelling);
            self.concatenation(head, rest)
        })
    }

    /// Make `json_text`, charging `steps` for each byte as it is made: a signal can interrupt it, however long the text
    /// is.
    pub fn charged_json_text(
        &mut self,
        text: &str,
        spelling: Spelling,
        steps: usize,
        meter: &mut Meter,
    ) -> Outcome<Term> {
        text.chars().rev().try_fold(EMPTY, |rest, character| {
            meter.work(steps * character.len_utf8())?;
            let head = self.json_character(character, spelling);
            Ok(self.concatenation(head, rest))
        })
    }

    /// Return a term for one character: itself, its short escape, or the hexadecimal digits of its one or two UTF-16
    /// units in either case.
    fn json_character(&mut self, character: char, spelling: Spelling) -> Term {
        let known = self.json_ascii[spelling as usize].get(character as usize).copied();
        if let Some(term) = known.filter(|term| *term != NOTHING) {
            return term;
        }
        let is_any = spelling == Spelling::Any;
        let short = spelling.short_escapes().find(|(code, _)| *code == u32::from(character));
        let is_raw = character >= ' ' && character != '"' && character != '\\';
        let mut ways = Vec::new();
        if is_any || short.is_none() && (!is_raw || !character.is_ascii()) {
            ways.push(self.long_escape(character));
        }
        ways.extend(short.map(|(_, letter)| self.literal(&[b'\\', letter])));
        if is_raw {
            ways.push(self.literal(character.encode_utf8(&mut [0; 4]).as_bytes()));
        }
        let term = self.alternation(ways);
        if let Some(place) = self.json_ascii[spelling as usize].get_mut(character as usize) {
            *place = term;
        }
        term
    }

    fn long_escape(&mut self, character: char) -> Term {
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
        escape
    }
}
