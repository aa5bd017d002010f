//! The common syntax of patterns, read by recursive descent.

use super::classes::{Member, DIGITS, LINE_ENDS, NONE, SPACE, WORD};
use super::{is_node, Pattern, Tree, EMPTY};

/// Deeper patterns are left to others, and counts with more digits.
const DEEPEST: u32 = 16;
const MOST_DIGITS: usize = 4;

impl Pattern<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    #[inline(never)]
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let char = chars.next()?;
        self.rest = chars.as_str();
        Some(char)
    }

    #[inline(never)]
    fn take(&mut self, wanted: u8) -> bool {
        let found = self.rest.as_bytes().first() == Some(&wanted);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    /// Alternatives up to the end of their group.
    pub(super) fn alternatives(&mut self, depth: u32) -> Option<Tree> {
        (depth <= DEEPEST).then_some(())?;
        let (first, branches) = (self.row.len(), self.branches.len());
        // Whether a quantifier may come next.
        let mut is_item = false;
        loop {
            let char = self.peek().filter(|char| *char != ')');
            let Some(char) = char.filter(|char| *char != '|') else {
                let branch = self.concat(first);
                self.branches.push(branch);
                is_item = false;
                if char.is_none() {
                    break;
                }
                self.next();
                continue;
            };
            self.next();
            let start = self.ranges.len();
            let counts = match char {
                '*' => Some((0, 0)),
                '+' => Some((1, 0)),
                '?' => Some((0, 2)),
                '{' => self.count()?,
                _ => None,
            };
            if let Some((minimum, maximum)) = counts {
                let greedy = !self.take(b'?');
                let item = self.row.pop().filter(|item| is_item && is_node(*item))?;
                let is_empty = maximum == 1 || matches!(item, Tree::Sequence((start, end)) if start == end);
                let node = match (minimum, maximum) {
                    _ if is_empty => EMPTY,
                    (1, 2) => item,
                    _ => self.repeat(item, minimum, maximum, greedy),
                };
                self.row.push(node);
                is_item = false;
                continue;
            }
            is_item = true;
            let item = match char {
                '^' | '$' => {
                    self.anchors += 1;
                    is_item = false;
                    Tree::Anchor(char == '$')
                }
                '(' => {
                    (!self.take(b'?') || self.take(b':')).then_some(())?;
                    let group = self.alternatives(depth + 1)?;
                    self.take(b')').then_some(())?;
                    group
                }
                '.' => {
                    self.add_class(start, LINE_ENDS, true);
                    self.one_of(start)?
                }
                '[' => {
                    self.class(start)?;
                    self.one_of(start)?
                }
                '\\' => {
                    let member = self.escape(false)?;
                    self.add_member(start, member);
                    self.one_of(start)?
                }
                _ => self.char(char),
            };
            self.row.push(item);
        }
        if self.branches.len() == branches + 1 {
            return self.branches.pop();
        }
        let are_nodes = self.branches[branches..].iter().all(|branch| is_node(*branch));
        self.row.extend_from_slice(&self.branches[branches..]);
        self.branches.truncate(branches);
        let span = self.list(first);
        Some(if are_nodes {
            Tree::Choice(span)
        } else {
            Tree::Alternate(span)
        })
    }

    /// A count in braces, of which the first is read: the greatest is one more, or 0. None within if there is none.
    fn count(&mut self) -> Option<Option<(u32, u32)>> {
        let before = self.rest;
        let minimum = self.number()?;
        let maximum = if self.take(b',') { self.number()? } else { minimum };
        if minimum == 0 || !self.take(b'}') {
            self.rest = before;
            return Some(None);
        }
        (maximum == 0 || maximum >= minimum).then_some(Some((minimum - 1, maximum)))
    }

    /// A number plus one, or 0 if there is none; None for a large number.
    fn number(&mut self) -> Option<u32> {
        let (mut number, mut digits) = (0, 0);
        while let Some(digit) = self.peek().and_then(|char| char.to_digit(10)) {
            number = number * 10 + digit;
            digits += 1;
            (digits <= MOST_DIGITS).then_some(())?;
            self.next();
        }
        Some(if digits == 0 { 0 } else { number + 1 })
    }

    /// A class in brackets, of which the first is read, as the last ranges.
    fn class(&mut self, start: usize) -> Option<()> {
        let is_negated = self.take(b'^');
        while !self.take(b']') {
            let low = self.member()?;
            let ahead = self.rest.as_bytes();
            if ahead.first() != Some(&b'-') || ahead.get(1) == Some(&b']') {
                self.add_member(start, low);
                continue;
            }
            self.next();
            let high = self.member()?;
            if let (Member::One(low), Member::One(high)) = (low, high) {
                (low <= high).then_some(())?;
                self.add(start, low, high);
            } else {
                // The hyphen is a character.
                self.add(start, 0x2d, 0x2d);
                self.add_member(start, low);
                self.add_member(start, high);
            }
        }
        if is_negated {
            let ranges = self.ranges.split_off(start);
            self.add_class(start, &ranges, true);
        }
        Some(())
    }

    fn member(&mut self) -> Option<Member> {
        match self.next()? {
            '\\' => self.escape(true),
            char => Some(Member::One(char.into())),
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, in_class: bool) -> Option<Member> {
        let kind = self.next()?;
        let class = match kind.to_ascii_lowercase() {
            'd' => DIGITS,
            's' => SPACE,
            'w' => WORD,
            _ => NONE,
        };
        if !class.is_empty() {
            return Some(Member::Class(class, kind.is_ascii_uppercase()));
        }
        let code = match kind {
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'v' => 0x0b,
            'b' if in_class => 0x08,
            'x' => self.hexadecimal(2)?,
            'u' => self.hexadecimal(4)?,
            kind if kind.is_ascii_alphanumeric() => return None,
            kind => kind.into(),
        };
        char::from_u32(code).map(|_| Member::One(code))
    }

    fn hexadecimal(&mut self, digits: u32) -> Option<u32> {
        let mut code = 0;
        for _ in 0..digits {
            code = code * 16 + self.next()?.to_digit(16)?;
        }
        Some(code)
    }
}
