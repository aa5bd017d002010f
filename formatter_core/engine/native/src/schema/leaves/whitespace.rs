//! Blank space between the tokens of JSON.

use std::sync::OnceLock;

use super::digits::{optional, repeat};
use crate::regular::regex::Node;

/// Maximum spaces for each level of nesting.
const STEP: u32 = 4;

/// The blanks that JSON may contain. There are never blanks before or after the whole text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Whitespace {
    /// The exact text between two entries, such as ", "; None means a comma with a gap on either side.
    pub comma: Option<Box<str>>,
    /// The exact text between a name and its value, such as ": "; None means a colon with a gap on either side.
    pub colon: Option<Box<str>>,
    /// Maximum spaces in a gap on one line.
    pub spaces: u32,
    /// True if a gap may also be a newline and an indentation.
    pub lines: bool,
    /// Maximum spaces after such a newline.
    pub indent: u32,
    /// True if blanks occur only where writers put them: none before a comma or a colon, and at most one space after a
    /// colon.
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

    /// Return whether this is one of the named settings, or one level of such a setting.
    pub fn is_named(&self) -> bool {
        self.as_written || [Self::default(), Self::compact(), Self::one_line()].contains(self)
    }

    /// Return the setting for brackets inside `level` other brackets.
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

    /// Return the blank space next to a bracket.
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

    /// Return a comma or a colon with the blanks around it; `gap` is the gap next to brackets.
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

/// Return a space; every call returns the same node.
fn space() -> Node {
    static SPACE: OnceLock<Node> = OnceLock::new();
    SPACE.get_or_init(|| Node::text(" ")).clone()
}
