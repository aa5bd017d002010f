//! ECMA 262 syntax, for the keyword `pattern` of JSON Schema: ECMA-262, section 22.2.1, with the flag `u`.
//!
//! The node matches every whole text in which the pattern is found anywhere, as `pattern` requires. Many real schemas
//! use syntax that is malformed under `u` but well formed in Annex B (B.1.2): `\-`, `\_`, a lone `]` or `{`, `[\w-.]`,
//! a quantified look-ahead. This reader accepts it with the meaning of Annex B; code points, `\u{…}` and `\p{…}` keep
//! their meaning under `u`. It also accepts syntax that schemas take from Python and Rust, with the meaning that both
//! give it: `\A`, `\z`, `(?P<name>…)`, and flags for the whole pattern at its beginning, as in `(?i)a`. It refuses only
//! syntax that validators understand differently: other escaped letters and digits without a meaning in ECMA 262 (`\Z`,
//! `\a`, `\1` without a group). Group names have no effect here.
//!
//! Anchors, word boundaries, look-ahead, and look-behind of one character are exact; back-references are refused.

use super::classes::{self, Member, Members, Range, Ranges, LAST, WORD};
use super::fault::{Outcome, Reason};
use super::lower::lower;
use super::node::Node;
use super::scanner::{Scanner, Wrap, OTHER};
use super::tree::{boundary, concat, Tree};
use super::unicode;
use super::Limits;
use crate::base::hash::FastMap;

const IGNORE_CASE: u32 = 1;
const DOT_ALL: u32 = 2;
const MULTI_LINE: u32 = 4;
const VERBOSE: u32 = 8;

const SPECIAL: &[u8] = br"\.+*?()|[{^$";
const LINE_ENDS: &[Range] = &[(0x0a, 0x0a), (0x0d, 0x0d), (0x2028, 0x2029)];
/// White space and line terminators (ECMA-262, sections 12.2 and 12.3).
const SPACE: &[Range] = &[
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

/// Read a pattern of JSON Schema. The node matches the whole texts that include a match.
pub fn read(pattern: &[u32], limits: &Limits) -> Outcome<Node> {
    let mut reader = Reader {
        scanner: Scanner::new(pattern, limits, 0),
        classes: FastMap::default(),
    };
    let any_text = Node::any_text();
    match reader.read()? {
        Tree::Node(node) if node.is_nullable() => Ok(any_text),
        tree => {
            let found = concat(vec![any_text.clone().into(), tree, any_text.into()]);
            lower(found, limits, false)
        }
    }
}

/// Return the flag for a letter.
fn flag(letter: u8) -> Option<u32> {
    match letter {
        b'i' => Some(IGNORE_CASE),
        b's' => Some(DOT_ALL),
        b'm' => Some(MULTI_LINE),
        _ => None,
    }
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    /// The classes read so far, by their text and flags, each with its length: the same class often occurs again.
    classes: FastMap<(&'a [u32], u32), (usize, Tree)>,
}

impl<'a> Reader<'a> {
    fn read(&mut self) -> Outcome<Tree> {
        self.read_whole_flags();
        while let Some(next) = self.scanner.peek(0) {
            if self.scanner.has(VERBOSE) && self.skip_ignored() {
                continue;
            }
            if !self.scanner.has(IGNORE_CASE | VERBOSE) && self.scanner.read_run(SPECIAL)? {
                continue;
            }
            match next {
                b'\\' => self.read_escape()?,
                b'.' => {
                    self.scanner.at += 1;
                    let is_any = self.scanner.has(DOT_ALL);
                    let class = if is_any {
                        classes::all()
                    } else {
                        classes::negation(LINE_ENDS)
                    };
                    self.scanner.add_class(class)?;
                }
                b'[' => self.read_class()?,
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
        self.scanner.finish()
    }

    /// Read flags for the whole pattern, as Python and Rust allow them.
    fn read_whole_flags(&mut self) {
        if !self.scanner.take(b"(?") {
            return;
        }
        let length = self.scanner.skip(|letter| b"imsux".contains(&letter));
        let letters = self.scanner.at - length..self.scanner.at;
        if length == 0 || !self.scanner.take(b")") {
            self.scanner.at = 0;
            return;
        }
        for letter in &self.scanner.pattern[letters] {
            self.scanner.flags |= match *letter as u8 {
                b'x' => VERBOSE,
                letter => flag(letter).unwrap_or(0),
            };
        }
    }

    /// Skip what a verbose pattern ignores outside classes.
    fn skip_ignored(&mut self) -> bool {
        if self.scanner.skip(|char| matches!(char, b' ' | b'\t'..=b'\r')) > 0 {
            return true;
        }
        self.scanner.peek(0) == Some(b'#') && self.scanner.skip(|char| char != b'\n') > 0
    }

    fn read_character(&mut self) -> Outcome<()> {
        let character = classes::single(self.scanner.pattern[self.scanner.at]);
        self.scanner.at += 1;
        self.add_folded(character)
    }

    fn add_folded(&mut self, ranges: Ranges) -> Outcome<()> {
        let ranges = self.folded(ranges);
        self.scanner.add_class(ranges)
    }

    fn folded(&self, ranges: Ranges) -> Ranges {
        match self.scanner.has(IGNORE_CASE) {
            true => unicode::fold(&ranges),
            false => ranges,
        }
    }

    fn read_anchor(&mut self, is_end: bool) -> Outcome<()> {
        if self.scanner.has(MULTI_LINE) {
            return Err(Reason::EcmaMultiLine.at(self.scanner.at));
        }
        self.scanner.at += 1;
        self.add_assertion(Tree::Anchor { is_end })
    }

    fn add_assertion(&mut self, tree: Tree) -> Outcome<()> {
        self.scanner.add(tree)?;
        self.scanner.forbid_quantifier();
        Ok(())
    }

    fn read_quantifier(&mut self, minimum: u64, maximum: Option<u64>) -> Outcome<()> {
        let start = self.scanner.at;
        self.scanner.at += 1;
        self.repeat((minimum, maximum), start)
    }

    fn read_count(&mut self) -> Outcome<()> {
        let start = self.scanner.at;
        match self.count() {
            Some(bounds) => self.repeat(bounds, start),
            None => {
                // By Annex B, it is a character.
                self.scanner.at = start;
                self.read_character()
            }
        }
    }

    /// Read `{m}`, `{m,}` or `{m,n}`.
    fn count(&mut self) -> Option<(u64, Option<u64>)> {
        let number = |scanner: &mut Scanner| {
            let digits = scanner.skip(|digit| digit.is_ascii_digit());
            (digits > 0).then(|| scanner.number(digits))
        };
        self.scanner.at += 1;
        let minimum = number(&mut self.scanner)?;
        let maximum = match self.scanner.take(b",") {
            true => number(&mut self.scanner),
            false => Some(minimum),
        };
        self.scanner.take(b"}").then_some((minimum, maximum))
    }

    fn repeat(&mut self, bounds: (u64, Option<u64>), start: usize) -> Outcome<()> {
        let greedy = !self.scanner.take(b"?");
        self.scanner.repeat(bounds, greedy, start)?;
        self.scanner.forbid_quantifier();
        Ok(())
    }

    fn read_open(&mut self) -> Outcome<()> {
        let start = self.scanner.at;
        self.scanner.at += 1;
        if let Some(wrap) = self.scanner.take_look(start) {
            return self.scanner.open(start, wrap);
        }
        if !self.scanner.take(b"?") || self.take_name() {
            return self.scanner.open(start, Wrap::Nothing);
        }
        let (mut flags, mut is_set) = (self.scanner.flags, true);
        while let Some(letter) = self.scanner.peek(0) {
            self.scanner.at += 1;
            match letter {
                b':' => {
                    self.scanner.open(start, Wrap::Nothing)?;
                    self.scanner.flags = flags;
                    return Ok(());
                }
                b'-' if is_set => is_set = false,
                letter => match flag(letter) {
                    Some(flag) if is_set => flags |= flag,
                    Some(flag) => flags &= !flag,
                    None => break,
                },
            }
        }
        Err(Reason::EcmaGroup.at(start))
    }

    /// Skip `<name>` or `P<name>`.
    fn take_name(&mut self) -> bool {
        let start = self.scanner.at;
        self.scanner.take(b"P");
        if self.scanner.take(b"<") {
            let begin = self.scanner.at;
            let end = self.scanner.find(b'>').unwrap_or(begin);
            let mut name = self.scanner.pattern[begin..end].iter();
            let is_named = |code: &u32| {
                let char = char::from_u32(*code);
                char.is_some_and(|char| char.is_alphanumeric() || matches!(char, '_' | '$'))
            };
            let is_digit = |code: &u32| char::from_u32(*code).is_some_and(|char| char.is_ascii_digit());
            if begin < end && name.all(is_named) && !is_digit(&self.scanner.pattern[begin]) {
                self.scanner.at = end + 1;
                return true;
            }
        }
        self.scanner.at = start;
        false
    }

    fn read_escape(&mut self) -> Outcome<()> {
        match self.scanner.peek(1) {
            Some(kind @ (b'b' | b'B')) => {
                let boundary = boundary(self.word(), kind == b'B', self.scanner.at);
                self.scanner.at += 2;
                self.add_assertion(boundary)
            }
            Some(kind @ (b'A' | b'z')) => {
                self.scanner.at += 2;
                self.add_assertion(Tree::Anchor { is_end: kind == b'z' })
            }
            _ => {
                let escaped = self.read_escaped(false)?;
                self.add_folded(escaped.into())
            }
        }
    }

    /// Return the set of `\w` (WordCharacters, section 22.2.2.9.3).
    fn word(&self) -> Ranges {
        self.folded(WORD.into())
    }

    fn read_escaped(&mut self, in_class: bool) -> Outcome<Member> {
        let start = self.scanner.at;
        let Some(kind) = self.scanner.peek(1) else {
            return Err(Reason::EscapeNotFinished.at(start));
        };
        self.scanner.at += 2;
        let class = match kind.to_ascii_lowercase() {
            b'd' => classes::ASCII_DIGITS.into(),
            b's' => SPACE.into(),
            b'w' => self.word(),
            b'p' => self.read_property(start)?,
            _ => {
                let code = self.read_code(kind, start, in_class)?;
                return Ok(Member::One(code));
            }
        };
        let is_negated = kind.is_ascii_uppercase();
        let class = if is_negated { classes::negation(&class) } else { class };
        Ok(self.scanner.shared(start, class))
    }

    /// Return the code point of an escape for one character.
    fn read_code(&mut self, kind: u8, start: usize, in_class: bool) -> Outcome<u32> {
        let next = self.scanner.peek(0).unwrap_or(OTHER);
        match kind {
            b'f' => return Ok(0x0c),
            b'n' => return Ok(0x0a),
            b'r' => return Ok(0x0d),
            b't' => return Ok(0x09),
            b'v' => return Ok(0x0b),
            b'b' if in_class => return Ok(0x08),
            b'0' if !next.is_ascii_digit() => return Ok(0),
            b'c' if next.is_ascii_alphabetic() => {
                self.scanner.at += 1;
                return Ok(u32::from(next) % 32);
            }
            b'x' => {
                if let Some(code) = self.take_hexadecimal(2) {
                    return Ok(code);
                }
            }
            b'u' => {
                if let Some(code) = self.take_code_units(start)? {
                    return Ok(code);
                }
            }
            _ => {}
        }
        match kind {
            b'0' => Err(Reason::EcmaOctal.at(start)),
            b'k' | b'1'..=b'9' => Err(Reason::BackReference.at(start)),
            kind if kind.is_ascii_alphabetic() => Err(Reason::EcmaEscape.at(start)),
            _ => Ok(self.scanner.pattern[start + 1]),
        }
    }

    /// Read a number of `digits` hexadecimal digits.
    fn take_hexadecimal(&mut self, digits: usize) -> Option<u32> {
        let mut code = 0;
        for place in 0..digits {
            let digit = self.scanner.peek(place)?;
            code = code * 16 + char::from(digit).to_digit(16)?;
        }
        self.scanner.at += digits;
        Some(code)
    }

    /// Read what follows `\u`: digits in braces, four digits, or a surrogate pair.
    fn take_code_units(&mut self, start: usize) -> Outcome<Option<u32>> {
        let before = self.scanner.at;
        if self.scanner.take(b"{") {
            let begin = self.scanner.at;
            let digits = self.scanner.skip(|digit| digit.is_ascii_hexdigit());
            if digits == 0 || !self.scanner.take(b"}") {
                self.scanner.at = before;
                return Ok(None);
            }
            let (code, end) = (self.scanner.hexadecimal(begin, begin + digits), begin + digits);
            return match code > LAST {
                true => Err(Reason::NotACharacter.about(start, begin, end)),
                false => Ok(Some(code)),
            };
        }
        let Some(first) = self.take_hexadecimal(4) else {
            return Ok(None);
        };
        let after = self.scanner.at;
        if (0xd800..0xdc00).contains(&first) && self.scanner.take(b"\\u") {
            match self.take_hexadecimal(4) {
                Some(second @ 0xdc00..=0xdfff) => {
                    return Ok(Some(0x1_0000 + (first - 0xd800) * 0x400 + second - 0xdc00))
                }
                _ => self.scanner.at = after,
            }
        }
        Ok(Some(first))
    }

    /// Read a property such as `\p{L}`, `\p{Script=Greek}` or `\p{Emoji}`; names ignore case.
    fn read_property(&mut self, start: usize) -> Outcome<Ranges> {
        let begin = self.scanner.at + 1;
        let (Some(b'{'), Some(end)) = (self.scanner.peek(0), self.scanner.find(b'}')) else {
            return Err(Reason::EcmaPropertyForm.at(start));
        };
        self.scanner.at = end + 1;
        let text = self.scanner.text(begin, end);
        let found = match text.split_once('=') {
            None => {
                let name = unicode::normal_name(&text);
                unicode::category(&name).or_else(|| unicode::binary(&name))
            }
            Some((name, value)) => {
                let value = unicode::normal_name(value);
                match &*unicode::normal_name(name) {
                    "gc" | "generalcategory" => unicode::category(&value),
                    "sc" | "script" => unicode::script(&value),
                    "scx" | "scriptextensions" => unicode::script_extensions(&value),
                    _ => None,
                }
            }
        };
        found.ok_or(Reason::EcmaProperty.about(start, begin, end))
    }

    fn read_class(&mut self) -> Outcome<()> {
        let (start, pattern) = (self.scanner.at, self.scanner.pattern);
        self.scanner.at += 1;
        // No class ends before the first closing bracket.
        let first_end = self.scanner.find(b']').map_or(start, |end| end + 1);
        let key = (&pattern[start..first_end], self.scanner.flags);
        if let Some((length, known)) = self.classes.get(&key) {
            self.scanner.at = start + length;
            return self.scanner.add(known.clone());
        }
        let negated = self.scanner.take(b"^");
        let mut members = Members::default();
        while !self.scanner.take(b"]") {
            if self.scanner.peek(0).is_none() {
                return Err(Reason::ClassNotClosed.at(start));
            }
            self.read_member(&mut members)?;
        }
        let ranges = self.folded(members.union());
        let ranges = if negated { classes::negation(&ranges) } else { ranges };
        let node: Tree = Node::one_of(ranges).into();
        let end = self.scanner.at;
        let made = (end - start, node.clone());
        self.classes.insert((&pattern[start..end], self.scanner.flags), made);
        self.scanner.add(node)
    }

    /// Read a character, a range or an escaped class inside brackets.
    fn read_member(&mut self, members: &mut Members) -> Outcome<()> {
        let start = self.scanner.at;
        let low = self.read_single()?;
        if self.scanner.peek(0) != Some(b'-') || matches!(self.scanner.peek(1), Some(b']') | None) {
            return self.scanner.collect(members, low);
        }
        self.scanner.at += 1;
        match (low, self.read_single()?) {
            (Member::One(low), Member::One(high)) => self.scanner.collect_range(members, low, high, start),
            (low, high) => {
                // By Annex B, the hyphen is a character.
                for member in [low, Member::One(b'-'.into()), high] {
                    self.scanner.collect(members, member)?;
                }
                Ok(())
            }
        }
    }

    fn read_single(&mut self) -> Outcome<Member> {
        if self.scanner.peek(0) == Some(b'\\') {
            return self.read_escaped(true);
        }
        let code = self.scanner.pattern[self.scanner.at];
        self.scanner.at += 1;
        Ok(Member::One(code))
    }
}
