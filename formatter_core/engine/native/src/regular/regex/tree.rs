//! The trees that both readers build: nodes, and the assertions around them that only a whole pattern can resolve.
//!
//! A tree without assertions is already a node. An assertion (an anchor or a look-around) is no set of texts by itself,
//! so everything above it uses the variants below until `lower` knows the whole pattern.

use std::rc::Rc;
use std::sync::Arc;

use super::classes::Ranges;
use super::node::{Kind, Node};

#[derive(Clone)]
pub enum Tree {
    Node(Node),
    /// The end of the text, or its start.
    Anchor {
        is_end: bool,
    },
    Look(Rc<Look>),
    Concat(Rc<[Tree]>),
    Alternate(Rc<[Tree]>),
    Loop(Rc<Loop>),
    Named(Arc<str>, Rc<Tree>),
}

/// A look-around: the text that follows (`ahead`) or precedes must match the item, or must not (`negated`).
pub struct Look {
    pub item: Tree,
    pub ahead: bool,
    pub negated: bool,
    pub position: usize,
}

/// A repeat.
#[derive(Clone)]
pub struct Loop {
    pub item: Tree,
    pub minimum: u32,
    pub maximum: Option<u32>,
    pub greedy: bool,
    pub position: usize,
}

impl Loop {
    /// Return the repeat with other bounds.
    pub fn times(&self, minimum: u32, maximum: Option<u32>) -> Self {
        Loop {
            minimum,
            maximum,
            ..self.clone()
        }
    }
}

impl From<Node> for Tree {
    fn from(node: Node) -> Self {
        Tree::Node(node)
    }
}

/// A sequence of nodes; adjacent texts become one.
#[derive(Default)]
pub struct Row {
    nodes: Vec<Node>,
    /// Number of nodes at the end that are texts to be merged.
    texts: usize,
}

impl Row {
    pub fn push(&mut self, node: Node) {
        match node.kind() {
            Kind::Text(_) => self.texts += 1,
            _ => self.end_texts(),
        }
        self.nodes.push(node);
    }

    /// Append nodes, of which the first is not merged with earlier ones.
    fn extend(&mut self, nodes: &[Node]) {
        if let [earlier @ .., last] = nodes {
            self.end_texts();
            self.nodes.extend_from_slice(earlier);
            self.push(last.clone());
        }
    }

    fn end_texts(&mut self) {
        let texts = self.nodes.len() - std::mem::take(&mut self.texts);
        if self.nodes.len() - texts > 1 {
            let text = self.nodes.drain(texts..).fold(String::new(), |mut text, node| {
                if let Kind::Text(more) = node.kind() {
                    text.push_str(more);
                }
                text
            });
            self.nodes.push(Node::text(text));
        }
    }

    /// Return one node for the sequence.
    pub fn joined(mut self) -> Node {
        self.end_texts();
        match self.nodes.len() {
            1 => self.nodes.remove(0),
            _ => Node::sequence(self.nodes),
        }
    }

    fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// Return the sequence of the items; adjacent items without assertions become one node, and adjacent texts one text.
pub fn concat(mut items: Vec<Tree>) -> Tree {
    if items.len() == 1 {
        return items.remove(0);
    }
    let (mut parts, mut row): (Vec<Tree>, Row) = (Vec::new(), Row::default());
    for item in items {
        match item {
            Tree::Node(node) if node.is_nothing() => return node.into(),
            Tree::Node(node) => match node.kind() {
                Kind::Sequence(items) => row.extend(items),
                _ => row.push(node),
            },
            other => {
                if !row.is_empty() {
                    parts.push(std::mem::take(&mut row).joined().into());
                }
                parts.push(other);
            }
        }
    }
    if parts.is_empty() {
        return row.joined().into();
    }
    if !row.is_empty() {
        parts.push(row.joined().into());
    }
    Tree::Concat(parts.into())
}

/// Return the choice between the items, in order of preference.
pub fn alternate(mut items: Vec<Tree>) -> Tree {
    items.retain(|item| !matches!(item, Tree::Node(node) if node.is_nothing()));
    if items.len() == 1 {
        return items.remove(0);
    }
    let nodes = items.iter().map(|item| match item {
        Tree::Node(node) => Some(node.clone()),
        _ => None,
    });
    match nodes.collect::<Option<Vec<Node>>>() {
        Some(nodes) => Node::choice(nodes).into(),
        None => Tree::Alternate(items.into()),
    }
}

/// Return the repeated item.
pub fn repeat(repeated: Loop) -> Tree {
    let Loop {
        item,
        minimum,
        maximum,
        greedy,
        ..
    } = &repeated;
    let is_optional = *minimum == 0;
    match item {
        _ if *maximum == Some(0) => Node::empty().into(),
        Tree::Node(node) if node.is_empty() || node.is_nothing() && is_optional => Node::empty().into(),
        Tree::Node(node) if node.is_nothing() => item.clone(),
        // An assertion holds as well once as many times.
        Tree::Anchor { .. } | Tree::Look(_) if is_optional => Node::empty().into(),
        Tree::Anchor { .. } | Tree::Look(_) => item.clone(),
        Tree::Node(_) if (*minimum, *maximum) == (1, Some(1)) => item.clone(),
        Tree::Node(node) => Node::repeat(node.clone(), *minimum, *maximum, *greedy).into(),
        _ => Tree::Loop(Rc::new(repeated)),
    }
}

/// Return a word boundary: a word character on exactly one side. The negation: on both sides or on neither.
pub fn boundary(word: Ranges, negated: bool, position: usize) -> Tree {
    let word = Node::one_of(word);
    let look = |ahead, negated| {
        Tree::Look(Rc::new(Look {
            item: word.clone().into(),
            ahead,
            negated,
            position,
        }))
    };
    let after_word = Tree::Concat([look(false, false), look(true, !negated)].into());
    let after_other = Tree::Concat([look(false, true), look(true, negated)].into());
    Tree::Alternate([after_word, after_other].into())
}

/// Return a capture: a node if the item is a node, otherwise a tree.
pub fn capture(name: Arc<str>, item: Tree) -> Tree {
    match item {
        Tree::Node(node) => Node::capture(name, node).into(),
        item => Tree::Named(name, Rc::new(item)),
    }
}
