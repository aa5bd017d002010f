//! The parts of Rust syntax that denote one character: escapes and bracketed classes.

use crate::regular::regex::classes::{self, Member, Members, Ranges};
use crate::regular::regex::fault::{Outcome, Reason};
use crate::regular::regex::scanner::{Scanner, OTHER};
use crate::regular::regex::unicode;

pub const IGNORE_CASE: u32 = 1;
pub const UNICODE: u32 = 2;
pub const VERBOSE: u32 = 4;

/// A set operation in brackets.
#[derive(Clone, Copy)]
enum Operation {
    Intersection,
    Difference,
    SymmetricDifference,
}

/// An open bracket: the current union, and a set operation that waits for its right operand.
struct Class {
    position: usize,
    negated: bool,
    members: Members,
    left: Option<(Ranges, Operation)>,
}

impl Scanner<'_> {
    /// Under (?x), skip white space and comments.
    pub fn skip_space(&mut self) {
        if !self.has(VERBOSE) {
            return;
        }
        let is_space = |code: u32| matches!(code, 0x09..=0x0d | 0x20 | 0x85 | 0x200e | 0x200f | 0x2028 | 0x2029);
        while let Some(code) = self.pattern.get(self.at) {
            if is_space(*code) {
                self.at += 1;
            } else if *code == u32::from(b'#') {
                self.skip(|char| char != b'\n');
            } else {
                return;
            }
        }
    }

    /// Skip the white space that Unicode defines.
    pub fn skip_white_space(&mut self) {
        let is_space = |code: &&u32| char::from_u32(**code).is_some_and(char::is_whitespace);
        self.at += self.pattern[self.at..].iter().take_while(is_space).count();
    }

    /// Return the set, folded if the flag `i` is set.
    pub fn folded(&self, ranges: Ranges) -> Ranges {
        match (self.has(IGNORE_CASE), self.has(UNICODE)) {
            (false, _) => ranges,
            (true, true) => unicode::fold(&ranges),
            (true, false) => classes::fold_ascii(&ranges),
        }
    }

    /// Read the current character.
    pub fn read_code_point(&mut self) -> Outcome<u32> {
        let code = self.pattern[self.at];
        if char::from_u32(code).is_none() {
            return Err(Reason::LoneSurrogate.at(self.at));
        }
        self.at += 1;
        Ok(code)
    }

    /// Read an escape that denotes a character or a class, with case folding.
    pub fn read_escape(&mut self) -> Outcome<Ranges> {
        match self.read_escaped()? {
            Member::Class(folded) => Ok(folded),
            one => Ok(self.folded(one.into())),
        }
    }

    /// Read a bracketed class, with case folding.
    pub fn read_class(&mut self) -> Outcome<Ranges> {
        let mut outer: Vec<Class> = Vec::new();
        let mut top = self.open_class()?;
        loop {
            self.skip_space();
            let Some(next) = self.peek(0) else {
                return Err(Reason::ClassNotClosed.at(top.position));
            };
            let operation = match (next, self.peek(1)) {
                (b'&', Some(b'&')) => Some(Operation::Intersection),
                (b'-', Some(b'-')) => Some(Operation::Difference),
                (b'~', Some(b'~')) => Some(Operation::SymmetricDifference),
                _ => None,
            };
            if next == b']' {
                self.at += 1;
                let ranges = self.close_class(top)?;
                match outer.pop() {
                    None => return Ok(ranges),
                    Some(class) => top = class,
                }
                self.collect(&mut top.members, Member::Class(ranges))?;
            } else if next == b'[' {
                if let Some(posix) = self.read_posix()? {
                    self.collect(&mut top.members, Member::Class(posix))?;
                    continue;
                }
                if outer.len() + 1 >= self.limits.depth as usize {
                    return Err(Reason::ClassDepth.at(0));
                }
                outer.push(std::mem::replace(&mut top, self.open_class()?));
            } else if let Some(operation) = operation {
                self.at += 2;
                let left = self.operand(&mut top)?;
                top.left = Some((left, operation));
            } else {
                self.read_member(&mut top.members)?;
            }
        }
    }

    fn open_class(&mut self) -> Outcome<Class> {
        let position = self.at;
        self.at += 1;
        self.skip_space();
        let negated = self.take(b"^");
        self.skip_space();
        let mut class = Class {
            position,
            negated,
            members: Members::default(),
            left: None,
        };
        let mut has_hyphens = false;
        // At the beginning, `-` and then `]` are characters.
        while self.take(b"-") {
            self.collect(&mut class.members, Member::One(b'-'.into()))?;
            self.skip_space();
            has_hyphens = true;
        }
        if !has_hyphens && self.take(b"]") {
            self.collect(&mut class.members, Member::One(b']'.into()))?;
        }
        Ok(class)
    }

    /// Return the current union, combined with the operand to its left.
    fn operand(&mut self, class: &mut Class) -> Outcome<Ranges> {
        let right = self.folded(std::mem::take(&mut class.members).union());
        let Some((left, operation)) = class.left.take() else {
            return Ok(right);
        };
        self.spend(16 * (left.len() + right.len()))?;
        let left = self.folded(left);
        Ok(match operation {
            Operation::Intersection => classes::intersection(&left, &right),
            Operation::Difference => classes::difference(&left, &right),
            Operation::SymmetricDifference => classes::symmetric_difference(&left, &right),
        })
    }

    fn close_class(&mut self, mut class: Class) -> Outcome<Ranges> {
        let ranges = self.operand(&mut class)?;
        let ranges = self.folded(ranges);
        match (class.negated, self.has(UNICODE)) {
            (false, _) => Ok(ranges),
            (true, true) => Ok(classes::negation(&ranges)),
            (true, false) => Err(Reason::BytesOfClass.at(class.position)),
        }
    }

    /// Read `[:alpha:]` or `[:^alpha:]`, if it comes next.
    fn read_posix(&mut self) -> Outcome<Option<Ranges>> {
        let start = self.at;
        let is_open = self.take(b"[:");
        let negated = is_open && self.take(b"^");
        let begin = self.at;
        let length = self.skip(|letter| letter.is_ascii_lowercase());
        let known = classes::posix(&self.text(begin, begin + length)).filter(|_| is_open && self.take(b":]"));
        let Some(known) = known else {
            self.at = start;
            return Ok(None);
        };
        let ranges = self.folded(known.into());
        match (negated, self.has(UNICODE)) {
            (false, _) => Ok(Some(ranges)),
            (true, true) => Ok(Some(classes::negation(&ranges))),
            (true, false) => Err(Reason::BytesOfPosix.at(start)),
        }
    }

    /// Read a character, a range or an escaped class inside brackets.
    fn read_member(&mut self, members: &mut Members) -> Outcome<()> {
        let start = self.at;
        let low = self.read_single()?;
        self.skip_space();
        if self.peek(0) != Some(b'-') || matches!(self.after_hyphen(), Some(b']' | b'-') | None) {
            return self.collect(members, low);
        }
        self.at += 1;
        self.skip_space();
        match (low, self.read_single()?) {
            (Member::One(low), Member::One(high)) => self.collect_range(members, low, high, start),
            _ => Err(Reason::RustRangeOfClasses.at(start)),
        }
    }

    fn after_hyphen(&mut self) -> Option<u8> {
        let before = self.at;
        self.at += 1;
        self.skip_space();
        let found = self.peek(0);
        self.at = before;
        found
    }

    fn read_single(&mut self) -> Outcome<Member> {
        let start = self.at;
        let member = match (self.peek(0), self.peek(1)) {
            (Some(b'\\'), Some(b'b' | b'B' | b'A' | b'z' | b'<' | b'>')) => {
                return Err(Reason::RustBoundaryInClass.at(start))
            }
            (Some(b'\\'), _) => self.read_escaped()?,
            _ => Member::One(self.read_code_point()?),
        };
        let last = match &member {
            Member::One(code) => *code,
            Member::Class(ranges) => ranges.last().map_or(0, |last| last.1),
        };
        match last > 0x7f && !self.has(UNICODE) {
            true => Err(Reason::ClassAboveAscii.at(start)),
            false => Ok(member),
        }
    }

    /// Read a character, or a class with its case folded.
    fn read_escaped(&mut self) -> Outcome<Member> {
        let start = self.at;
        let Some(kind) = self.peek(1) else {
            return Err(Reason::EscapeNotFinished.at(start));
        };
        self.at += 2;
        let code = match kind {
            b'a' => 0x07,
            b'f' => 0x0c,
            b't' => 0x09,
            b'n' => 0x0a,
            b'r' => 0x0d,
            b'v' => 0x0b,
            b'x' => self.read_hexadecimal(start, 2)?,
            b'u' => self.read_hexadecimal(start, 4)?,
            b'U' => self.read_hexadecimal(start, 8)?,
            b'd' | b'D' | b's' | b'S' | b'w' | b'W' => {
                let ranges = self.perl(kind, start)?;
                return Ok(self.shared(start, ranges));
            }
            b'p' | b'P' => {
                let ranges = self.read_property(kind == b'P', start)?;
                return Ok(self.shared(start, ranges));
            }
            b'<' | b'>' => return Err(Reason::RustEscape.at(start)),
            kind if kind.is_ascii_digit() => return Err(Reason::RustReference.at(start)),
            kind if kind == OTHER || kind.is_ascii_alphabetic() => return Err(Reason::RustEscape.at(start)),
            kind => kind.into(),
        };
        Ok(Member::One(code))
    }

    /// Read `\x41`, `\u0041` or `\U00000041`, each also with any number of digits in braces.
    fn read_hexadecimal(&mut self, start: usize, digits: usize) -> Outcome<u32> {
        self.skip_space();
        let is_braced = self.take(b"{");
        let begin = self.at;
        let end = match is_braced {
            true => self.find(b'}'),
            false => Some(begin + digits).filter(|end| *end <= self.pattern.len()),
        };
        let found = self.skip(|digit| digit.is_ascii_hexdigit());
        let Some(end) = end.filter(|end| *end > begin && *end <= begin + found) else {
            return Err(Reason::RustHexadecimal.at(start));
        };
        self.at = end + usize::from(is_braced);
        let code = self.hexadecimal(begin, end);
        if char::from_u32(code).is_none() {
            return Err(Reason::NotACharacter.about(start, begin, end));
        }
        if digits == 2 && !is_braced && code > 0x7f && !self.has(UNICODE) {
            return Err(Reason::ByteAboveAscii.at(start));
        }
        Ok(code)
    }

    fn perl(&mut self, kind: u8, start: usize) -> Outcome<Ranges> {
        let is_unicode = self.has(UNICODE);
        let ranges = match (kind.to_ascii_lowercase(), is_unicode) {
            (b'd', true) => unicode::digits(),
            (b's', true) => unicode::space(),
            (_, true) => unicode::word(),
            (b'd', false) => classes::ASCII_DIGITS.into(),
            (b's', false) => classes::ASCII_SPACE.into(),
            (_, false) => classes::WORD.into(),
        };
        match (kind.is_ascii_lowercase(), is_unicode) {
            (true, _) => Ok(ranges),
            (false, true) => Ok(classes::negation(&ranges)),
            (false, false) => Err(Reason::BytesOfEscape.at(start)),
        }
    }

    /// Read `\pL`, `\p{Greek}`, `\p{^Greek}`, `\p{sc=Greek}` or `\p{gc!=Lu}`; names are matched loosely.
    fn read_property(&mut self, mut negated: bool, start: usize) -> Outcome<Ranges> {
        if !self.has(UNICODE) {
            return Err(Reason::PropertyOfBytes.at(start));
        }
        self.skip_space();
        let (mut begin, mut end) = (self.at, (self.at + 1).min(self.pattern.len()));
        self.at = end;
        if self.pattern[begin..end] == [b'{'.into()] {
            begin = end;
            end = self.find(b'}').ok_or(Reason::RustPropertyNotClosed.at(start))?;
            self.at = end + 1;
        }
        if self.pattern[begin..end].first() == Some(&b'^'.into()) {
            begin += 1;
            negated = !negated;
        }
        let text = self.text(begin, end);
        let (name, sign, value) = parts_of(&text);
        let ranges = property(name, value).ok_or(Reason::RustProperty.about(start, begin, end))?;
        let folded = self.folded(ranges);
        match negated != (sign == "!=") {
            true => Ok(classes::negation(&folded)),
            false => Ok(folded),
        }
    }
}

/// Return the name of a property, and the sign and the value if there is one.
fn parts_of(text: &str) -> (&str, &str, Option<&str>) {
    let Some(place) = text.find(['=', ':']) else {
        return (text, "", None);
    };
    let name = &text[..place];
    match name.strip_suffix('!') {
        Some(name) if text[place..].starts_with('=') => (name, "!=", Some(&text[place + 1..])),
        _ => (name, "=", Some(&text[place + 1..])),
    }
}

fn property(name: &str, value: Option<&str>) -> Option<Ranges> {
    let name = unicode::normal_name(name);
    let name = name.strip_prefix("is").unwrap_or(&name);
    let Some(value) = value.map(unicode::normal_name) else {
        let first = unicode::binary(name).or_else(|| unicode::category(name));
        return first.or_else(|| unicode::script(name));
    };
    match name {
        "gc" | "generalcategory" => match &*value {
            "any" | "ascii" | "assigned" => unicode::binary(&value),
            _ => unicode::category(&value),
        },
        "sc" | "script" => unicode::script(&value),
        "scx" | "scriptextensions" => unicode::script_extensions(&value),
        _ => None,
    }
}
