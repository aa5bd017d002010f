//! Converts Python data to JSON text, from the bytes that the module `marshal` writes in version 3. That format writes
//! a shared value once, so data that contains itself is finite.

use std::ops::Range;

use crate::base::stop;
use crate::base::tuning::{MAX_JSON_DEPTH, MAX_MARSHAL_REPEATED, MAX_MARSHAL_TEXT};
use crate::schema::json::{escape, STEPS_OF_A_VALUE};

/// The number of bits in a digit of an integer. Python converts integers with more than `INTEGER_DIGITS` digits.
const DIGIT: u32 = 15;
const INTEGER_DIGITS: u32 = 4;
/// The bit of a mark that says that later values may refer to this one.
const SHARED: u8 = 1 << 7;

/// Convert data to JSON text. Return None for data that is not JSON, and for data that Python must convert: floats,
/// large integers, half of a surrogate pair, and data that contains itself; also if the call must end, see
/// `stop::ends_within`.
pub fn json_of(data: &[u8]) -> Option<String> {
    let mut writer = Writer {
        data,
        written: String::with_capacity(data.len()),
        shared: Vec::new(),
        repeated: 0,
    };
    writer.value(0)?;
    writer.data.is_empty().then_some(writer.written)
}

struct Writer<'a> {
    data: &'a [u8],
    written: String,
    /// The ranges in the text of the values that may be repeated; None for values that are still being read.
    shared: Vec<Option<Range<usize>>>,
    /// The total length of the objects and lists that were repeated.
    repeated: usize,
}

impl<'a> Writer<'a> {
    fn value(&mut self, depth: u32) -> Option<()> {
        if stop::ends_within(STEPS_OF_A_VALUE) {
            return None;
        }
        let mark = self.bytes(1)?[0];
        if mark & SHARED == 0 {
            return self.marked(mark, depth);
        }
        let (number, start) = (self.shared.len(), self.written.len());
        self.shared.push(None);
        self.marked(mark & !SHARED, depth)?;
        self.shared[number] = Some(start..self.written.len());
        Some(())
    }

    fn marked(&mut self, mark: u8, depth: u32) -> Option<()> {
        match mark {
            b'N' => self.written.push_str("null"),
            b'T' => self.written.push_str("true"),
            b'F' => self.written.push_str("false"),
            b'i' => {
                let number = self.number()?;
                self.written.push_str(&number.to_string());
            }
            b'l' => {
                let count = self.number()?;
                (count.unsigned_abs() <= INTEGER_DIGITS).then_some(())?;
                let mut number = 0;
                for place in 0..count.unsigned_abs() {
                    let digit = u16::from_le_bytes(self.bytes(2)?.try_into().ok()?);
                    number |= i64::from(digit) << (DIGIT * place);
                }
                self.written.push_str(&(number * i64::from(count.signum())).to_string());
            }
            b'u' | b't' => self.string()?,
            b'r' => {
                let place = usize::try_from(self.number()?).ok()?;
                let found = self.written[self.shared.get(place)?.clone()?].to_string();
                (self.written.len() + found.len() <= MAX_MARSHAL_TEXT).then_some(())?;
                self.repeated += if found.starts_with(['{', '[']) { found.len() } else { 0 };
                (self.repeated <= MAX_MARSHAL_REPEATED).then_some(())?;
                self.written.push_str(&found);
            }
            b'[' | b'(' if depth < MAX_JSON_DEPTH => {
                let count = self.number()?;
                self.written.push('[');
                for place in 0..count {
                    self.comma(place > 0);
                    self.value(depth + 1)?;
                }
                self.written.push(']');
            }
            b'{' if depth < MAX_JSON_DEPTH => {
                self.written.push('{');
                let mut later = false;
                while *self.data.first()? != b'0' {
                    self.comma(later);
                    later = true;
                    let start = self.written.len();
                    self.value(depth + 1)?;
                    self.written[start..].starts_with('"').then_some(())?;
                    self.written.push(':');
                    self.value(depth + 1)?;
                }
                self.data = &self.data[1..];
                self.written.push('}');
            }
            _ => return None,
        }
        Some(())
    }

    fn comma(&mut self, wanted: bool) {
        if wanted {
            self.written.push(',');
        }
    }

    fn string(&mut self) -> Option<()> {
        let length = usize::try_from(self.number()?).ok()?;
        let content = std::str::from_utf8(self.bytes(length)?).ok()?;
        self.written.push('"');
        escape(content, &mut self.written);
        self.written.push('"');
        Some(())
    }

    fn number(&mut self) -> Option<i32> {
        Some(i32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        (count <= self.data.len()).then_some(())?;
        let (found, rest) = self.data.split_at(count);
        self.data = rest;
        Some(found)
    }
}
