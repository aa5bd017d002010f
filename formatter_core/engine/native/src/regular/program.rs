//! The format of a serialised grammar, which masks (`decode`) and the parser of captures (`grammar_tree`) read.
//!
//! Version 6: the bytes `FCG6`, the number of rules, the number of the start rule, and one program for each rule. A
//! program is a list of operations in postfix order and ends with `RULE_END`; numbers are LEB128.
//!
//! Rules that many grammars share and that use no other rules may be replaced by `RULES`: a length, the number of these
//! rules, and their programs, in which rules and terminals are numbered from 0.
//!
//! `TERMINAL` is a length, and the program of the terminal's contents, which depends on nothing outside. Terminals are
//! numbered from 0. The nodes made inside a terminal have their own numbers from 0; `AGAIN` refers to one of either.
//! Inside a terminal, `KEPT` is a node that many grammars share: a length, and the program of that node alone, which
//! counts as one node.

use crate::base::limits::{Fault, Outcome};
use crate::regular::multiples::Multiples;
use crate::regular::term::{Spelling, UNBOUNDED};

pub const MAGIC: &[u8] = b"FCG6";

pub mod operation {
    pub const RULE_END: u8 = 0;
    pub const BYTES: u8 = 1;
    pub const CHARS: u8 = 2;
    pub const SEQUENCE: u8 = 3;
    pub const CHOICE: u8 = 4;
    pub const REPEAT: u8 = 5;
    pub const INTERSECTION: u8 = 6;
    pub const COMPLEMENT: u8 = 7;
    pub const SHORTEST: u8 = 8;
    pub const SUBSTRING: u8 = 9;
    pub const TERMINAL: u8 = 10;
    pub const AGAIN: u8 = 12;
    pub const REFERENCE: u8 = 13;
    pub const TOKEN: u8 = 14;
    pub const JSON_TEXT: u8 = 15;
    pub const KEPT: u8 = 16;
    pub const MEMBERS: u8 = 17;
    pub const CAPTURE: u8 = 18;
    pub const LAZY_REPEAT: u8 = 19;
    pub const REGION: u8 = 20;
    pub const MULTIPLES: u8 = 21;
    pub const RULES: u8 = 22;
    pub const CANONICAL_TEXT: u8 = 23;
}

/// Return how the texts of an operation are spelled.
pub fn spelling_of(operation: u8) -> Spelling {
    match operation {
        operation::CANONICAL_TEXT => Spelling::Canonical,
        _ => Spelling::Any,
    }
}

/// The kind of program that is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Rule,
    Terminal,
    Kept,
}

/// A reader of the operands of operations.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    pub data: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Return a reader of a grammar's rules, the number of rules, and the number of the start rule.
    pub fn of_grammar(data: &'a [u8]) -> Outcome<(Self, u32, u32)> {
        let mut reader = Reader { data };
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(Fault::Malformed);
        }
        let (rules, start) = (reader.number()?, reader.number()?);
        if start >= rules {
            return Err(Fault::Malformed);
        }
        Ok((reader, rules, start))
    }

    /// Return a fault unless all data has been read.
    pub fn finish(&self) -> Outcome<()> {
        match self.data {
            [] => Ok(()),
            _ => Err(Fault::Malformed),
        }
    }

    /// If shared rules come next, return their programs and their number, which must be at most `most`.
    pub fn shared_rules(&mut self, most: usize) -> Outcome<Option<(&'a [u8], u32)>> {
        if self.data.first() != Some(&operation::RULES) {
            return Ok(None);
        }
        self.byte()?;
        let data = self.counted_bytes()?;
        let mut rules = Reader { data };
        let count = rules.number()?;
        match count as usize <= most.min(rules.data.len()) {
            true => Ok(Some((data, count))),
            false => Err(Fault::Malformed),
        }
    }

    #[inline]
    fn take(&mut self, length: usize) -> Outcome<&'a [u8]> {
        if length > self.data.len() {
            return Err(Fault::Malformed);
        }
        let (head, rest) = self.data.split_at(length);
        self.data = rest;
        Ok(head)
    }

    #[inline]
    pub fn byte(&mut self) -> Outcome<u8> {
        let (first, rest) = self.data.split_first().ok_or(Fault::Malformed)?;
        self.data = rest;
        Ok(*first)
    }

    #[inline]
    pub fn number(&mut self) -> Outcome<u32> {
        match self.data {
            [byte @ 0..=0x7f, rest @ ..] => {
                self.data = rest;
                Ok(u32::from(*byte))
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Outcome<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| Fault::Malformed);
            }
        }
        Err(Fault::Malformed)
    }

    pub fn counted_bytes(&mut self) -> Outcome<&'a [u8]> {
        let length = self.number()?;
        self.take(length as usize)
    }

    /// Read a text in UTF-8.
    pub fn text(&mut self) -> Outcome<&'a str> {
        std::str::from_utf8(self.counted_bytes()?).map_err(|_| Fault::Malformed)
    }

    /// Read ranges of code points.
    pub fn ranges(&mut self) -> Outcome<Vec<(u32, u32)>> {
        let count = self.number()?;
        let mut ranges = Vec::new();
        for _ in 0..count {
            let (low, high) = (self.number()?, self.number()?);
            if low > high || high > 0x10_ffff {
                return Err(Fault::Malformed);
            }
            ranges.push((low, high));
        }
        Ok(ranges)
    }

    /// Read the multiples of a step.
    pub fn multiples(&mut self) -> Outcome<Multiples> {
        let (step, places, zeros, digits) = (self.number()?, self.number()?, self.number()?, self.number()?);
        let small = |count: u32| u16::try_from(count).ok().filter(|count| *count < u16::MAX / 2);
        match (small(places), small(zeros), small(digits)) {
            (Some(places), Some(zeros), Some(digits)) if step > 0 && (places == 0 || zeros == 0) => {
                Ok(Multiples::new(step, places, zeros, digits))
            }
            _ => Err(Fault::Malformed),
        }
    }

    /// Read the bounds of a repetition.
    pub fn bounds(&mut self) -> Outcome<(u32, u32)> {
        let minimum = self.number()?;
        let maximum = self.number()?.checked_sub(1).unwrap_or(UNBOUNDED);
        if minimum > maximum || minimum == UNBOUNDED {
            return Err(Fault::Malformed);
        }
        Ok((minimum, maximum))
    }
}

/// Remove and return the last values of a stack.
pub fn pop_many<T>(stack: &mut Vec<T>, count: usize) -> Outcome<Vec<T>> {
    let rest = stack.len().checked_sub(count).ok_or(Fault::Malformed)?;
    Ok(stack.split_off(rest))
}

/// Write a number as LEB128.
pub fn write_number(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Write an operation, the length of its data, and the data.
pub fn write_counted(out: &mut Vec<u8>, operation: u8, data: &[u8]) {
    out.push(operation);
    write_number(out, data.len() as u32);
    out.extend_from_slice(data);
}

#[cfg(test)]
pub mod tests {
    use super::operation::{BYTES, CHOICE, REFERENCE, RULE_END, SEQUENCE};
    use super::*;

    /// The grammar `s = "(" s ")" | "x"`; examples of other modules use it.
    pub const NESTED: &[u8] = &[
        b'F', b'C', b'G', b'6', 1, 0, // one rule, which is the start
        BYTES, 1, b'(', REFERENCE, 0, BYTES, 1, b')', SEQUENCE, 3, // the first alternative
        BYTES, 1, b'x', CHOICE, 2, RULE_END,
    ];

    #[test]
    fn example_program_is_in_postfix_order() {
        let (mut reader, rules, start) = Reader::of_grammar(NESTED).unwrap();
        assert_eq!((rules, start), (1, 0));
        assert_eq!((reader.byte(), reader.counted_bytes()), (Ok(BYTES), Ok(&b"("[..])));
        assert_eq!((reader.byte(), reader.number()), (Ok(REFERENCE), Ok(0)));
        let mut written = Vec::new();
        write_counted(&mut written, BYTES, b"x");
        assert!(NESTED.ends_with(&[&written[..], &[CHOICE, 2, RULE_END]].concat()));
    }
}
