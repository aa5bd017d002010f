//! Blank space between the tokens of JSON.

use std::sync::OnceLock;

use super::digits::{optional, repeat};
use crate::regular::regex::Node;

/// Spaces for each level of nesting, at most.
const STEP: u32 = 4;

/// Where JSON may have blanks. There are never any before or after the whole text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Whitespace {
    /// The exact text between two entries, such as ", "; None: a comma with a gap on either side.
    pub comma: Option<Box<str>>,
    /// The exact text between a name and its value, such as ": "; None: a colon with a gap on either side.
    pub colon: Option<Box<str>>,
    /// The most spaces in a gap on one line.
    pub spaces: u32,
    /// Whether a gap may also be a newline and an indentation.
    pub lines: bool,
    /// The most spaces after such a newline.
    pub indent: u32,
    /// Blanks where writers put them: none before a comma or a colon, and at most one space after a colon.
    pub as_written: bool,
}

impl Default for Whitespace {
    fn default() -> Self {
        Whitespace {
            comma: None,
            colon: None,
            spaces: 1,
            lines: true,
            indent: 64,
            as_written: false,
        }
    }
}

impl Whitespace {
    pub fn as_written() -> Self {
        Whitespace {
            as_written: true,
            ..Whitespace::default()
        }
    }

    pub fn compact() -> Self {
        Whitespace {
            spaces: 0,
            lines: false,
            ..Whitespace::default()
        }
    }

    pub fn one_line() -> Self {
        Whitespace {
            comma: Some(", ".into()),
            colon: Some(": ".into()),
            lines: false,
            ..Whitespace::default()
        }
    }

    /// Whether it is one of those that have names, or one of their levels.
    pub fn is_named(&self) -> bool {
        self.as_written || [Self::default(), Self::compact(), Self::one_line()].contains(self)
    }

    /// The same for brackets that stand inside of so many others.
    pub fn at(&self, level: u32) -> Self {
        match self.as_written {
            true => Whitespace {
                indent: STEP * (level + 1),
                ..Whitespace::as_written()
            },
            false => self.clone(),
        }
    }

    fn has_gap(&self) -> bool {
        self.spaces > 0 || self.lines
    }

    /// Blank space next to a bracket.
    pub fn gap(&self) -> Node {
        if !self.has_gap() {
            return Node::empty_text();
        }
        let space = space();
        let mut options = vec![Node::empty_text()];
        match self.spaces {
            0 => {}
            1 => options.push(space.clone()),
            most => options.push(repeat(space.clone(), 1, Some(most as usize))),
        }
        if self.lines {
            let indent = repeat(space, 0, Some(self.indent as usize));
            options.push(Node::sequence(vec![Node::text("\n"), indent]));
        }
        Node::choice(options)
    }

    /// A comma, or a colon, with what may stand around it; `gap` is that of brackets.
    pub fn around(&self, mark: &str, gap: &Node) -> Node {
        let exact = if mark == ":" { &self.colon } else { &self.comma };
        match exact {
            _ if self.as_written => {
                let after = if mark == ":" { optional(space()) } else { gap.clone() };
                Node::sequence(vec![Node::text(mark), after])
            }
            Some(exact) => Node::text(&**exact),
            None if !self.has_gap() => Node::text(mark),
            None => Node::sequence(vec![gap.clone(), Node::text(mark), gap.clone()]),
        }
    }
}

/// The same node at each call.
fn space() -> Node {
    static SPACE: OnceLock<Node> = OnceLock::new();
    SPACE.get_or_init(|| Node::text(" ")).clone()
}
