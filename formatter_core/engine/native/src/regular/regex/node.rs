//! Regular nodes, as `formatter_core.grammar` has them: patterns and schemas are made of them.
//!
//! Nodes are shared: a node that occurs several times is written once.

use std::mem::{size_of, size_of_val};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::classes::{self, Ranges, ALL};
use crate::base::heap::{Total, COUNTS};
use crate::regular::term::Spelling;

#[derive(Debug)]
pub enum Kind {
    /// A text of whole characters.
    Text(Box<str>),
    Chars(Ranges),
    Sequence(Box<[Node]>),
    Choice(Box<[Node]>),
    Repeat(Repeat),
    Intersection(Box<[Node]>),
    Complement(Node),
    Capture(Arc<str>, Node),
    /// A text as it is spelled inside a JSON string.
    JsonText(Box<str>, Spelling),
    /// A JSON text in its only spelling, that of a listed text.
    ListedText(Box<str>),
    /// The plain decimals that are multiples of `step / 10^places`, with a maximum number of digits before the point; 0
    /// means no maximum.
    Multiples {
        step: u64,
        places: i32,
        digits: u32,
    },
}

/// The item, repeated `minimum` to `maximum` times; None for no maximum.
#[derive(Clone, Debug)]
pub struct Repeat {
    pub item: Node,
    pub minimum: u32,
    pub maximum: Option<u32>,
    pub greedy: bool,
}

#[derive(Clone, Debug)]
pub struct Node(Arc<Made>);

#[derive(Debug)]
struct Made {
    kind: Kind,
    facts: Facts,
    is_kept: AtomicBool,
    /// The program of the node, if it is kept.
    program: OnceLock<Box<[u8]>>,
    /// The bytes of the node that `NODES` counts, without the program.
    bytes: usize,
}

/// The bytes of all nodes that exist.
pub static NODES: Total = Total::new();

impl Drop for Made {
    fn drop(&mut self) {
        NODES.remove(self.bytes + self.program.get().map_or(0, |program| program.len()));
    }
}

impl Kind {
    /// Return the bytes on the heap (see `heap`), without those that other nodes share.
    fn heap(&self) -> usize {
        match self {
            Kind::Text(text) | Kind::JsonText(text, _) | Kind::ListedText(text) => text.len(),
            Kind::Chars(ranges) if Arc::strong_count(ranges) == 1 => COUNTS + size_of_val(&**ranges),
            Kind::Sequence(items) | Kind::Choice(items) | Kind::Intersection(items) => size_of_val(&**items),
            _ => 0,
        }
    }
}

/// Facts about a node.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Facts {
    /// Number of nodes in it, counted as a tree.
    size: u64,
    height: u32,
    /// The greatest count of its repeats, except those inside kept nodes.
    repeat: u32,
    /// Tells whether it matches the empty text.
    is_nullable: bool,
    /// Tells whether it has neither intersections nor complements, so that it certainly matches something.
    is_plain: bool,
    has_capture: bool,
    /// Tells whether a capture is inside an intersection or a complement, where its position cannot be determined.
    hides_capture: bool,
}

const LEAF: Facts = Facts {
    size: 1,
    height: 1,
    repeat: 0,
    is_nullable: false,
    is_plain: true,
    has_capture: false,
    hides_capture: false,
};

impl Node {
    fn new(kind: Kind) -> Self {
        let items = match &kind {
            Kind::Text(_) | Kind::Chars(_) | Kind::JsonText(..) | Kind::ListedText(_) | Kind::Multiples { .. } => &[],
            Kind::Sequence(items) | Kind::Choice(items) | Kind::Intersection(items) => &items[..],
            Kind::Repeat(Repeat { item, .. }) | Kind::Complement(item) | Kind::Capture(_, item) => {
                std::slice::from_ref(item)
            }
        };
        let mut all = items.iter().map(Node::is_nullable);
        let is_nullable = match &kind {
            Kind::Text(text) | Kind::JsonText(text, _) | Kind::ListedText(text) => text.is_empty(),
            Kind::Chars(_) | Kind::Multiples { .. } => false,
            Kind::Choice(_) => all.any(|nullable| nullable),
            Kind::Complement(item) => !item.is_nullable(),
            Kind::Repeat(Repeat { minimum: 0, .. }) => true,
            _ => all.all(|nullable| nullable),
        };
        let mut facts = Facts { is_nullable, ..LEAF };
        for item in items {
            facts.size = facts.size.saturating_add(item.size());
            facts.height = facts.height.max(1 + item.height());
            facts.is_plain &= item.is_plain();
            facts.has_capture |= item.0.facts.has_capture;
            facts.hides_capture |= item.hides_capture();
            if !item.is_kept() {
                facts.repeat = facts.repeat.max(item.largest_repeat());
            }
        }
        match &kind {
            Kind::Intersection(_) | Kind::Complement(_) => {
                facts.is_plain = false;
                facts.hides_capture = facts.has_capture;
            }
            Kind::Choice(items) => facts.is_plain &= !items.is_empty(),
            Kind::Capture(..) => facts.has_capture = true,
            Kind::Repeat(repeat) => {
                let largest = repeat.maximum.unwrap_or(0).max(repeat.minimum);
                facts.repeat = facts.repeat.max(largest);
            }
            Kind::JsonText(text, _) => facts.size += text.chars().count() as u64,
            _ => {}
        }
        let bytes = COUNTS + size_of::<Made>() + kind.heap();
        NODES.add(bytes);
        Node(Arc::new(Made {
            bytes,
            kind,
            facts,
            is_kept: AtomicBool::new(false),
            program: OnceLock::new(),
        }))
    }

    pub fn text(text: impl Into<Box<str>>) -> Self {
        Node::new(Kind::Text(text.into()))
    }

    pub fn chars(ranges: Ranges) -> Self {
        Node::new(Kind::Chars(ranges))
    }

    /// Make a node for one character of a set: a text if there is only one.
    pub fn one_of(ranges: Ranges) -> Self {
        match *ranges {
            [] => Node::nothing(),
            [(low, high)] if low == high => {
                Node::text(char::from_u32(low).map_or(String::new(), |char| char.to_string()))
            }
            _ => Node::chars(ranges),
        }
    }

    /// Make a sequence of the items as they are; see also `queries::in_order`.
    pub fn sequence(items: Vec<Node>) -> Self {
        Node::new(Kind::Sequence(items.into()))
    }

    pub fn choice(items: Vec<Node>) -> Self {
        Node::new(Kind::Choice(items.into()))
    }

    pub fn intersection(items: Vec<Node>) -> Self {
        Node::new(Kind::Intersection(items.into()))
    }

    pub fn complement(item: Node) -> Self {
        Node::new(Kind::Complement(item))
    }

    pub fn repeat(item: Node, minimum: u32, maximum: Option<u32>, greedy: bool) -> Self {
        Node::new(Kind::Repeat(Repeat {
            item,
            minimum,
            maximum,
            greedy,
        }))
    }

    pub fn capture(name: Arc<str>, item: Node) -> Self {
        Node::new(Kind::Capture(name, item))
    }

    pub fn json_text(text: impl Into<Box<str>>, spelling: Spelling) -> Self {
        Node::new(Kind::JsonText(text.into(), spelling))
    }

    pub fn listed_text(text: impl Into<Box<str>>) -> Self {
        Node::new(Kind::ListedText(text.into()))
    }

    pub fn multiples(step: u64, places: i32, digits: u32) -> Self {
        Node::new(Kind::Multiples { step, places, digits })
    }

    /// Mark a node that is made once and that many grammars share: engines cache what they make of it.
    pub fn kept(self) -> Self {
        self.0.is_kept.store(true, Ordering::Relaxed);
        self
    }

    pub fn is_kept(&self) -> bool {
        self.0.is_kept.load(Ordering::Relaxed)
    }

    /// Return the program of a kept node; the first call writes it.
    pub fn kept_program(&self, write: impl FnOnce() -> Vec<u8>) -> &[u8] {
        self.0.program.get_or_init(|| {
            let program: Box<[u8]> = write().into();
            NODES.add(program.len());
            program
        })
    }

    /// Make a node that matches only the empty text.
    pub fn empty() -> Self {
        Node::sequence(Vec::new())
    }

    /// Make a node that matches nothing.
    pub fn nothing() -> Self {
        Node::choice(Vec::new())
    }

    /// Return the node for every single character; each call returns the same node.
    pub fn any_char() -> Self {
        static ANY_CHAR: OnceLock<Node> = OnceLock::new();
        ANY_CHAR.get_or_init(|| Node::chars(classes::all())).clone()
    }

    /// Return the node for every text; each call returns the same node.
    pub fn any_text() -> Self {
        static ANY_TEXT: OnceLock<Node> = OnceLock::new();
        let make = || Node::repeat(Node::any_char(), 0, None, true);
        ANY_TEXT.get_or_init(make).clone()
    }

    /// Return the node for the empty text; each call returns the same node.
    pub fn empty_text() -> Self {
        static EMPTY: OnceLock<Node> = OnceLock::new();
        EMPTY.get_or_init(Node::empty).clone()
    }

    /// Return the node that matches no text; each call returns the same node.
    pub fn no_text() -> Self {
        static NOTHING: OnceLock<Node> = OnceLock::new();
        NOTHING.get_or_init(Node::nothing).clone()
    }

    /// Return the node with changed children; the node itself if it has no children.
    pub fn map_children(&self, mut change: impl FnMut(&Node) -> Node) -> Self {
        match self.kind() {
            Kind::Sequence(items) => Node::sequence(items.iter().map(change).collect()),
            Kind::Choice(items) => Node::choice(items.iter().map(change).collect()),
            Kind::Intersection(items) => Node::intersection(items.iter().map(change).collect()),
            Kind::Repeat(repeat) => Node::repeat(change(&repeat.item), repeat.minimum, repeat.maximum, repeat.greedy),
            Kind::Complement(item) => Node::complement(change(item)),
            Kind::Capture(name, item) => Node::capture(name.clone(), change(item)),
            _ => self.clone(),
        }
    }

    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    pub fn size(&self) -> u64 {
        self.0.facts.size
    }

    pub fn height(&self) -> u32 {
        self.0.facts.height
    }

    pub fn largest_repeat(&self) -> u32 {
        self.0.facts.repeat
    }

    pub fn is_nullable(&self) -> bool {
        self.0.facts.is_nullable
    }

    pub fn is_plain(&self) -> bool {
        self.0.facts.is_plain
    }

    pub fn hides_capture(&self) -> bool {
        self.0.facts.hides_capture
    }

    pub fn is_empty(&self) -> bool {
        matches!(self.kind(), Kind::Sequence(items) if items.is_empty())
    }

    pub fn is_nothing(&self) -> bool {
        matches!(self.kind(), Kind::Choice(items) if items.is_empty())
    }

    pub fn is_any_text(&self) -> bool {
        match self.kind() {
            Kind::Repeat(Repeat {
                item,
                minimum: 0,
                maximum: None,
                greedy: true,
            }) => matches!(item.kind(), Kind::Chars(ranges) if **ranges == *ALL),
            _ => false,
        }
    }

    /// Return a number that is the same for all references to one node.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}
