//! Writes what stands inside of one terminal, see `program`. It is, byte for byte, what Python writes: what it makes once
//! and uses again, is written once.

use std::str;

use crate::hash::FastMap;
use crate::program::{operation, write_counted, write_number};
use crate::schema::nodes::Regular;
use crate::schema::terminals::Parts;
use crate::term::{Spelling, SHORT_ESCAPES};

/// Room for the programs of most names.
const USUAL_LENGTH: usize = 64;

/// What is made once, at its first use.
#[derive(Clone, Copy)]
pub enum Part {
    Empty,
    Nothing,
    Quote,
    /// The body of any string, and one of its characters.
    AnyBody,
    AnyChar,
    Digit,
    NonZero,
    Zero,
    Digits,
    Whole,
    Fraction,
    Minus,
    /// The sign of a zero.
    Sign,
    /// A point, and zeros.
    Zeros,
    /// What may follow the digits of a whole number.
    Tail,
}

const PARTS: usize = Part::Tail as usize + 1;

/// The number of what was made, and its size.
#[derive(Clone, Copy)]
pub struct Made(u32, u64);

pub struct Inside<'a> {
    pub regular: Regular,
    parts: &'a Parts,
    made: u32,
    shared: [Option<Made>; PARTS],
    /// What else was made, by what it stands for.
    kept: FastMap<(u32, u32), Made>,
    /// The classes of characters, by their numbers.
    classes: Vec<Vec<(u32, u32)>>,
    /// Set where something is written in which a marker may begin.
    may_hold_marker: bool,
}

impl<'a> Inside<'a> {
    pub fn new(parts: &'a Parts) -> Self {
        Inside {
            regular: Regular {
                program: Vec::with_capacity(USUAL_LENGTH),
                size: 0,
            },
            parts,
            made: 0,
            shared: [None; PARTS],
            kept: FastMap::default(),
            classes: Vec::new(),
            may_hold_marker: false,
        }
    }

    /// What was written, where no marker occurs.
    pub fn finished(mut self) -> Regular {
        let demands = self.parts.markers.as_ref().map_or(&[][..], |markers| &markers.demands);
        if self.may_hold_marker && !demands.is_empty() {
            demands.iter().for_each(|demand| self.kept(demand));
            self.list(operation::INTERSECTION, 1 + demands.len());
        }
        self.regular
    }

    /// The number that a class of characters has in this terminal, whatever pattern it stands in.
    pub fn number_of_class(&mut self, ranges: &[(u32, u32)]) -> u32 {
        let known = self.classes.iter().position(|known| known == ranges);
        let number = known.unwrap_or(self.classes.len());
        if number == self.classes.len() {
            self.classes.push(ranges.to_vec());
        }
        number as u32
    }

    #[inline(never)]
    pub fn part(&mut self, part: Part) {
        if let Some(made) = self.shared[part as usize] {
            return self.again(made);
        }
        let before = self.regular.size;
        match part {
            Part::Empty => self.list(operation::SEQUENCE, 0),
            Part::Nothing => self.list(operation::CHOICE, 0),
            Part::Quote => self.bytes(b"\""),
            Part::AnyBody => {
                self.may_hold_marker = true;
                self.kept(&self.parts.any_body);
            }
            Part::AnyChar => {
                self.may_hold_marker = true;
                self.kept(&self.parts.any_char);
            }
            Part::Digit => self.chars(&[(0x30, 0x39)]),
            Part::NonZero => self.chars(&[(0x31, 0x39)]),
            Part::Zero => self.bytes(b"0"),
            Part::Digits => {
                self.part(Part::Digit);
                self.repeat(0, None);
            }
            Part::Whole => {
                self.part(Part::Zero);
                self.part(Part::NonZero);
                match self.digits_left(1) {
                    None => self.part(Part::Digits),
                    most => {
                        self.part(Part::Digit);
                        self.repeat(0, most);
                    }
                }
                self.list(operation::SEQUENCE, 2);
                self.list(operation::CHOICE, 2);
            }
            Part::Fraction => {
                self.bytes(b".");
                self.part(Part::Digit);
                self.repeat(1, self.digits_left(0));
                self.list(operation::SEQUENCE, 2);
            }
            Part::Minus | Part::Sign => self.bytes(b"-"),
            Part::Zeros => {
                self.bytes(b".");
                self.bytes(b"0");
                self.repeat(1, None);
                self.list(operation::SEQUENCE, 2);
            }
            Part::Tail => {
                self.part(Part::Zeros);
                self.repeat(0, Some(1));
            }
        }
        self.shared[part as usize] = Some(self.last(before));
    }

    /// What was made last, where so much had been made before it.
    fn last(&self, size: u64) -> Made {
        Made(self.made - 1, self.regular.size - size)
    }

    /// Whether there is something that stands for this: then it is used again.
    #[inline(never)]
    pub fn has(&mut self, key: (u32, u32)) -> bool {
        let made = self.kept.get(&key).copied();
        made.map(|made| self.again(made)).is_some()
    }

    /// Keep what was made last, where so much had been made before it.
    pub fn keep(&mut self, key: (u32, u32), size: u64) {
        self.kept.insert(key, self.last(size));
    }

    #[inline(never)]
    fn again(&mut self, made: Made) {
        self.regular.program.push(operation::AGAIN);
        write_number(&mut self.regular.program, made.0);
        self.regular.size += made.1;
    }

    #[inline(never)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        write_counted(&mut self.regular.program, operation::BYTES, bytes);
        self.add(1);
    }

    #[inline(never)]
    pub fn chars(&mut self, ranges: &[(u32, u32)]) {
        let program = &mut self.regular.program;
        program.push(operation::CHARS);
        write_number(program, ranges.len() as u32);
        for (low, high) in ranges {
            write_number(program, *low);
            write_number(program, *high);
        }
        self.add(1);
    }

    fn add(&mut self, size: u64) {
        self.regular.size += size;
        self.made += 1;
    }

    #[inline(never)]
    pub fn kept(&mut self, part: &Regular) {
        self.regular.program.extend_from_slice(&part.program);
        self.add(part.size);
    }

    /// All numbers, or all whole ones.
    pub fn of_type(&mut self, whole: bool) {
        self.kept(&self.parts.numbers[usize::from(whole)]);
    }

    /// The spellings of the texts that have a format, if they are given; one of these texts.
    pub fn format(&mut self, number: usize) -> Option<&str> {
        let (body, example) = self.parts.formats[number].given.as_ref()?;
        self.may_hold_marker = true;
        self.kept(body);
        Some(example)
    }

    /// Characters of strings as they are, or escaped where markers begin with them.
    pub fn raw_chars(&mut self, ranges: &[(u32, u32)]) {
        self.chars(ranges);
        let Some(markers) = &self.parts.markers else {
            return;
        };
        let holds = |first: char| {
            ranges
                .iter()
                .any(|range| (range.0..=range.1).contains(&u32::from(first)))
        };
        self.may_hold_marker |= markers.firsts.iter().any(|first| holds(*first));
        let mut options = 1;
        for (_, escape) in markers.escapes.iter().filter(|(first, _)| holds(*first)) {
            self.kept(escape);
            options += 1;
        }
        if options > 1 {
            self.list(operation::CHOICE, options);
        }
    }

    /// Write a text piece by piece, if a marker's first character in it may be escaped.
    fn in_pieces(&mut self, text: &[u8], write: fn(&mut Self, &[u8])) {
        let (Some(markers), Ok(text)) = (&self.parts.markers, str::from_utf8(text)) else {
            return write(self, text);
        };
        if !text.contains(&*markers.firsts) {
            return write(self, text.as_bytes());
        }
        self.may_hold_marker = true;
        let escape_of = |char: char| markers.escapes.iter().find(|(first, _)| *first == char);
        let mut pieces = 0;
        for piece in text.split_inclusive(|char| escape_of(char).is_some()) {
            let last = piece.chars().next_back().and_then(escape_of);
            let plain = &piece[..piece.len() - last.map_or(0, |(first, _)| first.len_utf8())];
            if !plain.is_empty() {
                write(self, plain.as_bytes());
                pieces += 1;
            }
            if let Some((first, escape)) = last {
                write(self, first.encode_utf8(&mut [0; 4]).as_bytes());
                self.kept(escape);
                self.list(operation::CHOICE, 2);
                pieces += 1;
            }
        }
        if pieces != 1 {
            self.list(operation::SEQUENCE, pieces);
        }
    }

    pub fn text(&mut self, text: &[u8]) {
        self.in_pieces(text, Self::whole_text);
    }

    #[inline(never)]
    fn whole_text(&mut self, text: &[u8]) {
        let operation = match self.parts.spelling {
            Spelling::Any => operation::JSON_TEXT,
            Spelling::Canonical => operation::CANONICAL_TEXT,
        };
        write_counted(&mut self.regular.program, operation, text);
        let is_first = |byte: &&u8| **byte & 0xc0 != 0x80;
        self.add(1 + text.iter().filter(is_first).count() as u64);
    }

    /// A text that is listed, or a name.
    pub fn listed_text(&mut self, text: &[u8]) {
        self.in_pieces(text, Self::whole_listed_text);
    }

    #[inline(never)]
    fn whole_listed_text(&mut self, text: &[u8]) {
        if self.parts.spelling == Spelling::Any {
            return self.whole_text(text);
        }
        let must_be_escaped = |byte: &u8| matches!(byte, 0..=0x1f | b'"' | b'\\');
        if !text.iter().any(must_be_escaped) {
            return self.bytes(text);
        }
        let mut written = Vec::with_capacity(text.len() + 8);
        for byte in text {
            let short = SHORT_ESCAPES.iter().find(|(code, _)| *code == u32::from(*byte));
            match short {
                _ if !must_be_escaped(byte) => written.push(*byte),
                Some((_, letter)) => written.extend([b'\\', *letter]),
                None => written.extend(format!("\\u{byte:04x}").bytes()),
            }
        }
        self.bytes(&written);
    }

    /// How characters are spelled.
    pub fn spelling(&self) -> Spelling {
        self.parts.spelling
    }

    #[inline(never)]
    pub fn operation(&mut self, operation: u8) {
        self.regular.program.push(operation);
        self.add(1);
    }

    #[inline(never)]
    pub fn repeat(&mut self, minimum: u32, maximum: Option<u32>) {
        self.repeat_by(operation::REPEAT, minimum, maximum.map_or(0, |maximum| maximum + 1));
    }

    /// The greatest count plus one, or 0, as in a program.
    pub fn repeat_by(&mut self, operation: u8, minimum: u32, maximum: u32) {
        self.operation(operation);
        write_number(&mut self.regular.program, minimum);
        write_number(&mut self.regular.program, maximum);
    }

    #[inline(never)]
    pub fn list(&mut self, operation: u8, count: usize) {
        self.operation(operation);
        write_number(&mut self.regular.program, count as u32);
    }
}
