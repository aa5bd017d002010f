//! Regular nodes, as `formatter_core.grammar` has them: those that patterns are made of.
//!
//! Nodes are shared: one that stands in several places is written once.

use std::rc::Rc;

use super::classes::{self, Ranges, ALL};

#[derive(Debug, PartialEq)]
pub enum Kind {
    /// Whole characters.
    Text(Box<str>),
    Chars(Ranges),
    Sequence(Box<[Node]>),
    Choice(Box<[Node]>),
    Repeat(Repeat),
    Intersection(Box<[Node]>),
    Complement(Node),
    Capture(Rc<str>, Node),
}

/// The item from `minimum` to `maximum` times; without bound if that is None.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    pub item: Node,
    pub minimum: u32,
    pub maximum: Option<u32>,
    pub greedy: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node(Rc<Made>);

#[derive(Debug, PartialEq)]
struct Made {
    kind: Kind,
    facts: Facts,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Facts {
    /// How many nodes it is, as a tree.
    size: u64,
    height: u32,
    /// Whether it matches the empty text.
    is_nullable: bool,
    /// Whether it has neither intersections nor complements, so that it surely matches something.
    is_plain: bool,
    has_capture: bool,
    /// Whether a capture stands in an intersection or a complement, where nothing can tell its place.
    hides_capture: bool,
}

const LEAF: Facts = Facts {
    size: 1,
    height: 1,
    is_nullable: false,
    is_plain: true,
    has_capture: false,
    hides_capture: false,
};

impl Node {
    fn new(kind: Kind) -> Self {
        let items = match &kind {
            Kind::Text(_) | Kind::Chars(_) => &[],
            Kind::Sequence(items) | Kind::Choice(items) | Kind::Intersection(items) => &items[..],
            Kind::Repeat(Repeat { item, .. }) | Kind::Complement(item) | Kind::Capture(_, item) => {
                std::slice::from_ref(item)
            }
        };
        let mut all = items.iter().map(Node::is_nullable);
        let is_nullable = match &kind {
            Kind::Text(text) => text.is_empty(),
            Kind::Chars(_) => false,
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
        }
        match &kind {
            Kind::Intersection(_) | Kind::Complement(_) => {
                facts.is_plain = false;
                facts.hides_capture = facts.has_capture;
            }
            Kind::Choice(items) => facts.is_plain &= !items.is_empty(),
            Kind::Capture(..) => facts.has_capture = true,
            _ => {}
        }
        Node(Rc::new(Made { kind, facts }))
    }

    pub fn text(text: impl Into<Box<str>>) -> Self {
        Node::new(Kind::Text(text.into()))
    }

    pub fn chars(ranges: Ranges) -> Self {
        Node::new(Kind::Chars(ranges))
    }

    /// One character of a set: a text if there is only one.
    pub fn one_of(ranges: Ranges) -> Self {
        match *ranges {
            [] => Node::nothing(),
            [(low, high)] if low == high => {
                Node::text(char::from_u32(low).map_or(String::new(), |char| char.to_string()))
            }
            _ => Node::chars(ranges),
        }
    }

    /// The items as they are; see also `queries::in_order`.
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

    pub fn capture(name: Rc<str>, item: Node) -> Self {
        Node::new(Kind::Capture(name, item))
    }

    /// The empty text alone.
    pub fn empty() -> Self {
        Node::sequence(Vec::new())
    }

    /// What matches nothing.
    pub fn nothing() -> Self {
        Node::choice(Vec::new())
    }

    /// Every character; the same node at each call of a thread.
    pub fn any_char() -> Self {
        thread_local! {
            static ANY_CHAR: Node = Node::chars(classes::all());
        }
        ANY_CHAR.with(Node::clone)
    }

    /// Every text; also the same node.
    pub fn any_text() -> Self {
        thread_local! {
            static ANY_TEXT: Node = Node::repeat(Node::any_char(), 0, None, true);
        }
        ANY_TEXT.with(Node::clone)
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

    /// What is the same for one node wherever it stands.
    pub fn identity(&self) -> usize {
        Rc::as_ptr(&self.0) as usize
    }
}
