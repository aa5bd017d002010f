//! Rust syntax: the language of the crate `regex` (https://docs.rs/regex, section "Syntax"), for a whole text.
//!
//! Perl classes (`\d`, `\w`, `\s`) and `.` are Unicode-aware; `.` excludes the newline; `(?-u)` makes classes ASCII,
//! and is refused where it would match bytes that are not UTF-8. Back-references are not part of the syntax; `(?m)^` is
//! refused. Where look-around is allowed, it has the meaning of ECMA 262. Anchors keep their meaning: they hold only at
//! the ends of the text.

mod class;

use class::{IGNORE_CASE, UNICODE, VERBOSE};

use super::classes::{self, Ranges, WORD};
use super::fault::{Outcome, Reason};
use super::lower::lower;
use super::node::Node;
use super::scanner::{Scanner, Wrap};
use super::tree::{boundary, Tree};
use super::{unicode, Limits};
use crate::base::hash::FastSet;

const MULTI_LINE: u32 = 8;
const DOT_ALL: u32 = 16;
const SWAP_GREED: u32 = 32;
const CRLF: u32 = 64;

const SPECIAL: &[u8] = br"\.+*?()|[]{}^$";

/// Read a pattern in Rust syntax: the node matches the texts that match as a whole.
///
/// `(?P<name>…)` and `(?<name>…)` become captures; other groups only group. Look-around and word boundaries are allowed
/// only in patterns for whole texts: a part of a grammar cannot know the text around it.
pub fn read(pattern: &[u32], limits: &Limits, may_look: bool) -> Outcome<Node> {
    let mut reader = Reader {
        scanner: Scanner::new(pattern, limits, UNICODE),
        names: FastSet::default(),
        may_look,
    };
    let tree = reader.read()?;
    lower(tree, limits, !reader.names.is_empty())
}

fn flag(letter: u8) -> Option<u32> {
    Some(match letter {
        b'i' => IGNORE_CASE,
        b'm' => MULTI_LINE,
        b's' => DOT_ALL,
        b'U' => SWAP_GREED,
        b'u' => UNICODE,
        b'R' => CRLF,
        b'x' => VERBOSE,
        _ => return None,
    })
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    names: FastSet<&'a [u32]>,
    /// Tells whether the pattern may look around.
    may_look: bool,
}

impl Reader<'_> {
    fn read(&mut self) -> Outcome<Tree> {
        loop {
            if !self.scanner.has(VERBOSE | IGNORE_CASE) && self.scanner.read_run(SPECIAL)? {
                continue;
            }
            self.scanner.skip_space();
            let Some(next) = self.scanner.peek(0) else {
                return self.scanner.finish();
            };
            match next {
                b'\\' => self.read_escape()?,
                b'.' => self.read_dot()?,
                b'[' => {
                    let class = self.scanner.read_class()?;
                    self.scanner.add_class(class)?;
                }
                b'(' => self.read_open()?,
                b')' => self.scanner.read_close()?,
                b'|' => self.scanner.read_bar(),
                b'^' | b'$' => self.read_anchor(next == b'$')?,
                b'*' => self.read_quantifier(0, None)?,
                b'+' => self.read_quantifier(1, None)?,
                b'?' => self.read_quantifier(0, Some(1))?,
                b'{' => self.read_count()?,
                _ => self.read_character()?,
            }
        }
    }

    fn read_character(&mut self) -> Outcome<()> {
        let code = self.scanner.read_code_point()?;
        let ranges = self.scanner.folded(classes::single(code));
        self.scanner.add_class(ranges)
    }

    fn read_dot(&mut self) -> Outcome<()> {
        if !self.scanner.has(UNICODE) {
            return Err(Reason::BytesOfDot.at(self.scanner.at));
        }
        self.scanner.at += 1;
        let excluded: Ranges = match (self.scanner.has(DOT_ALL), self.scanner.has(CRLF)) {
            (true, _) => classes::NONE.into(),
            (_, true) => [(0x0a, 0x0a), (0x0d, 0x0d)].into(),
            _ => classes::single(0x0a),
        };
        self.scanner.add_class(classes::negation(&excluded))
    }

    fn read_anchor(&mut self, is_end: bool) -> Outcome<()> {
        if self.scanner.has(MULTI_LINE) {
            return Err(Reason::RustMultiLine.at(self.scanner.at));
        }
        self.scanner.at += 1;
        self.scanner.add(Tree::Anchor { is_end })
    }

    fn read_escape(&mut self) -> Outcome<()> {
        let start = self.scanner.at;
        match self.scanner.peek(1) {
            Some(kind @ (b'A' | b'z')) => {
                self.scanner.at += 2;
                self.scanner.add(Tree::Anchor { is_end: kind == b'z' })
            }
            Some(kind @ (b'b' | b'B')) if self.may_look => {
                self.scanner.at += 2;
                let is_unicode = self.scanner.has(UNICODE);
                let word = if is_unicode { unicode::word() } else { WORD.into() };
                self.scanner.add(boundary(word, kind == b'B', start))
            }
            Some(b'b' | b'B' | b'<' | b'>') => Err(Reason::RustBoundary.at(start)),
            _ => {
                let ranges = self.scanner.read_escape()?;
                self.scanner.add_class(ranges)
            }
        }
    }

    fn read_quantifier(&mut self, minimum: u64, maximum: Option<u64>) -> Outcome<()> {
        let start = self.scanner.at;
        self.scanner.at += 1;
        self.repeat((minimum, maximum), start)
    }

    fn read_count(&mut self) -> Outcome<()> {
        let start = self.scanner.at;
        self.scanner.at += 1;
        let Some(minimum) = self.read_number() else {
            return Err(Reason::RustCount.at(start));
        };
        let maximum = match self.scanner.take(b",") {
            true => self.read_number(),
            false => Some(minimum),
        };
        if !self.scanner.take(b"}") {
            return Err(Reason::RustCount.at(start));
        }
        self.repeat((minimum, maximum), start)
    }

    /// Read a number, with spaces around it.
    fn read_number(&mut self) -> Option<u64> {
        self.scanner.skip_white_space();
        let digits = self.scanner.skip(|digit| digit.is_ascii_digit());
        let number = (digits > 0).then(|| self.scanner.number(digits));
        self.scanner.skip_white_space();
        number
    }

    fn repeat(&mut self, bounds: (u64, Option<u64>), start: usize) -> Outcome<()> {
        let is_lazy = self.scanner.take(b"?");
        self.scanner
            .repeat(bounds, is_lazy == self.scanner.has(SWAP_GREED), start)
    }

    fn read_open(&mut self) -> Outcome<()> {
        let start = self.scanner.at;
        self.scanner.at += 1;
        self.scanner.skip_space();
        let sign = self.scanner.at;
        if let Some(wrap) = self.scanner.take_look(start) {
            return match self.may_look {
                true => self.scanner.open(start, wrap),
                false => Err(Reason::RustLook.about(start, sign, self.scanner.at)),
            };
        }
        if self.scanner.take(b"?P<") || self.scanner.take(b"?<") {
            let wrap = self.read_name()?;
            return self.scanner.open(start, wrap);
        }
        match self.scanner.take(b"?") {
            true => self.read_flags(start),
            false => self.scanner.open(start, Wrap::Nothing),
        }
    }

    fn read_name(&mut self) -> Outcome<Wrap> {
        let (start, pattern) = (self.scanner.at, self.scanner.pattern);
        let end = self.scanner.find(b'>').unwrap_or(start);
        let name = &pattern[start..end];
        let char = |code: &u32| char::from_u32(*code).unwrap_or(' ');
        if !name
            .first()
            .map(char)
            .is_some_and(|first| first == '_' || first.is_alphabetic())
        {
            return Err(Reason::RustName.at(start));
        }
        let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '.' | '[' | ']');
        if let Some(place) = name.iter().position(|code| !is_part(char(code))) {
            return Err(Reason::RustNameCharacter.at(start + place));
        }
        if !self.names.insert(name) {
            return Err(Reason::RustNameTwice.about(start, start, end));
        }
        self.scanner.at = end + 1;
        Ok(Wrap::Capture(self.scanner.text(start, end).into()))
    }

    /// Read `(?flags)`, which holds to the end of the group, or `(?flags:…)`, which is a group of its own.
    fn read_flags(&mut self, start: usize) -> Outcome<()> {
        let (mut flags, mut seen, mut negated, mut last) = (self.scanner.flags, 0, false, 0);
        let end = loop {
            let position = self.scanner.at;
            let Some(letter) = self.scanner.peek(0) else {
                return Err(Reason::GroupNotClosed.at(start));
            };
            if matches!(letter, b')' | b':') {
                break letter;
            }
            self.scanner.at += 1;
            self.scanner.skip_space();
            match flag(letter).filter(|flag| seen & flag == 0) {
                Some(flag) => {
                    seen |= flag;
                    flags = if negated { flags & !flag } else { flags | flag };
                }
                None if letter == b'-' && !negated => negated = true,
                None => return Err(Reason::RustFlag.at(position)),
            }
            last = letter;
        };
        if last == b'-' || seen == 0 && end == b')' {
            return Err(Reason::RustFlagsMissing.at(self.scanner.at));
        }
        self.scanner.at += 1;
        if end == b':' {
            self.scanner.open(start, Wrap::Nothing)?;
        } else {
            self.scanner.forbid_quantifier();
        }
        self.scanner.flags = flags;
        Ok(())
    }
}
