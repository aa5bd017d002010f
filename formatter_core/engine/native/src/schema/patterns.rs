//! Patterns of ECMA 262 as regular nodes: the common part of `syntax/regex`, which makes the same nodes in the same way.
//! Whatever may be invalid, or is rare, is left to that: look-around, back-references, properties, flags, named groups.

mod anchors;
mod classes;
mod matching;
mod nodes;
mod syntax;

use anchors::Tail;
use classes::NONE;
pub use classes::{insert, LAST};
pub use matching::MOST_STEPS;

/// Longer patterns are left to others, and those with more anchors.
const LONGEST: usize = 1024;
const MOST_ANCHORS: u32 = 6;

/// Where a list or a text begins and ends.
pub type Span = (u32, u32);

/// A node, or what holds anchors and is no set of texts by itself.
#[derive(Clone, Copy, PartialEq)]
pub enum Tree {
    Text(Span),
    Chars(Span),
    Sequence(Span),
    Choice(Span),
    /// The place of the item, the least count, the greatest plus one or 0, and whether it is greedy.
    Repeat(u32, u32, u32, bool),
    /// The end of the text, or its start.
    Anchor(bool),
    Concat(Span),
    Alternate(Span),
}

const EMPTY: Tree = Tree::Sequence((0, 0));

/// A pattern, and what its nodes hold.
pub struct Pattern<'a> {
    rest: &'a str,
    anchors: u32,
    items: Vec<Tree>,
    /// Sorted, disjoint, inclusive, and without surrogates.
    ranges: Vec<(u32, u32)>,
    text: Vec<u8>,
    /// Alternatives, and what stands side by side, that are not finished.
    branches: Vec<Tree>,
    row: Vec<Tree>,
    /// The texts in which the pattern is found.
    pub whole: Tree,
}

impl<'a> Pattern<'a> {
    /// None if that is left to others.
    pub fn read(pattern: &'a str) -> Option<Self> {
        (pattern.len() <= LONGEST).then_some(())?;
        let mut reader = Pattern {
            rest: pattern,
            anchors: 0,
            items: Vec::new(),
            ranges: Vec::new(),
            text: Vec::new(),
            branches: Vec::new(),
            row: Vec::new(),
            whole: EMPTY,
        };
        reader.whole = reader.found()?;
        Some(reader)
    }

    fn found(&mut self) -> Option<Tree> {
        let tree = self.alternatives(0)?;
        (self.rest.is_empty() && self.anchors <= MOST_ANCHORS).then_some(())?;
        let start = self.ranges.len();
        self.add_class(start, NONE, true);
        let any_char = self.one_of(start)?;
        let any_text = self.repeat(any_char, 0, 0, true);
        if is_node(tree) {
            if self.is_nullable(tree) {
                return Some(any_text);
            }
            self.row.extend([any_text, tree, any_text]);
            return Some(self.concat(0));
        }
        let mut tails = vec![Tail {
            at_start: false,
            at_end: false,
            node: EMPTY,
        }];
        for tree in [any_text, tree, any_text] {
            tails = self.follow(tree, &tails);
        }
        (!tails.is_empty()).then_some(())?;
        self.row.extend(tails.iter().map(|tail| tail.node));
        Some(self.choice(0))
    }

    pub fn text(&self, span: Span) -> &[u8] {
        &self.text[span.0 as usize..span.1 as usize]
    }

    pub fn ranges(&self, span: Span) -> &[(u32, u32)] {
        &self.ranges[span.0 as usize..span.1 as usize]
    }

    pub fn items(&self, span: Span) -> &[Tree] {
        &self.items[span.0 as usize..span.1 as usize]
    }

    fn is_nullable(&self, node: Tree) -> bool {
        self.lengths(node).0 == 0
    }

    /// The least and the greatest length in characters, and whether every length between them comes for certain.
    #[inline(never)]
    pub fn lengths(&self, node: Tree) -> (u32, u32, bool) {
        match node {
            Tree::Text(span) => {
                let is_first = |byte: &&u8| **byte & 0xc0 != 0x80;
                let length = self.text(span).iter().filter(is_first).count() as u32;
                (length, length, true)
            }
            Tree::Sequence(span) => {
                let mut all = (0, 0, true);
                for item in self.items(span) {
                    let item = self.lengths(*item);
                    all.0 = item.0.saturating_add(all.0);
                    all.1 = item.1.saturating_add(all.1);
                    all.2 &= item.2;
                }
                all
            }
            Tree::Choice(span) => {
                let mut all = (u32::MAX, 0, true);
                for item in self.items(span) {
                    let item = self.lengths(*item);
                    all.2 &= item.2 && (item.0 == all.0 || all.0 == u32::MAX);
                    all.0 = item.0.min(all.0);
                    all.1 = item.1.max(all.1);
                }
                all
            }
            Tree::Repeat(item, minimum, maximum, _) => {
                let (least, most, all) = self.lengths(self.items[item as usize]);
                (
                    least.saturating_mul(minimum),
                    most.saturating_mul(maximum.wrapping_sub(1)),
                    all && (least <= 1 || minimum + 1 == maximum),
                )
            }
            _ => (1, 1, true),
        }
    }
}

/// Whether it holds no anchor.
fn is_node(tree: Tree) -> bool {
    !matches!(tree, Tree::Anchor(_) | Tree::Concat(_) | Tree::Alternate(_))
}
