//! Terminals that do not contain certain texts (markers), such as the text that ends a tool's call.
//!
//! A terminal that cannot spell the first character of a marker stays unchanged. Any other terminal is intersected with
//! the texts without markers. In JSON the first character of a marker may be escaped where the marker would otherwise
//! occur, and only there.

use std::sync::Mutex;

use super::characters::long_escape;
use super::digits::repeat;
use super::Terminal;
use crate::base::hash::FastMap;
use crate::regular::regex::{Kind, Node};

/// First characters of markers that may be escaped: outside of strings, JSON contains them only unescaped.
const ESCAPABLE: &str = "<>[]{}|#@$%&*=~`^!?()/_:;";

/// Markers: texts that must not occur in canonical JSON.
pub struct Markers {
    /// The sorted first characters of the markers; `escaped` contains those that may be escaped in strings.
    firsts: Vec<char>,
    escaped: Vec<char>,
    /// The nodes with which we intersect a terminal that may contain markers.
    demands: Vec<Node>,
    /// The results for interned nodes, by identity; each entry keeps its node alive.
    kept: Mutex<FastMap<usize, (Node, Node)>>,
}

impl Markers {
    /// Make the markers, which must not be empty; return None if there are none.
    pub fn new(markers: &[&str]) -> Option<Markers> {
        let mut firsts: Vec<char> = markers.iter().filter_map(|marker| marker.chars().next()).collect();
        firsts.sort_unstable();
        firsts.dedup();
        (!firsts.is_empty()).then_some(())?;
        let escaped: Vec<char> = firsts
            .iter()
            .copied()
            .filter(|first| ESCAPABLE.contains(*first))
            .collect();
        let any_text = Node::any_text;
        let some = Node::choice(markers.iter().copied().map(Node::text).collect());
        let mut demands = vec![Node::complement(Node::sequence(vec![any_text(), some, any_text()]))];
        if !escaped.is_empty() {
            demands.push(needed_escapes(markers, &escaped));
        }
        Some(Markers {
            firsts,
            escaped,
            demands: demands.into_iter().map(Node::kept).collect(),
            kept: Mutex::default(),
        })
    }

    /// Return the texts of a terminal that contain no marker.
    pub fn free(&self, terminal: &Terminal) -> Terminal {
        if !may_spell(terminal.item(), &self.firsts) {
            return terminal.clone();
        }
        let item = self.with_escapes(terminal.item());
        let free = Node::intersection([item].into_iter().chain(self.demands.iter().cloned()).collect());
        Terminal::new(match terminal.item().is_kept() {
            true => free.kept(),
            false => free,
        })
    }

    /// Return the node with optional escapes for the first characters of markers in strings. Nodes that many schemas
    /// share stay interned.
    fn with_escapes(&self, node: &Node) -> Node {
        if !may_spell(node, &self.escaped) {
            return node.clone();
        }
        if !node.is_kept() {
            return self.changed(node);
        }
        let known = |made: &FastMap<usize, (Node, Node)>| Some(made.get(&node.identity())?.1.clone());
        if let Some(known) = self.kept.lock().ok().and_then(|made| known(&made)) {
            return known;
        }
        let made = self.changed(node).kept();
        if let Ok(mut kept) = self.kept.lock() {
            let entry = kept.entry(node.identity()).or_insert_with(|| (node.clone(), made));
            return entry.1.clone();
        }
        made
    }

    fn changed(&self, node: &Node) -> Node {
        match node.kind() {
            Kind::Chars(ranges) => {
                let is_in = |first: &&char| {
                    let code = u32::from(**first);
                    ranges.iter().any(|(low, high)| (*low..=*high).contains(&code))
                };
                let escapes: Vec<Node> = self
                    .escaped
                    .iter()
                    .filter(is_in)
                    .map(|first| long_escape(*first))
                    .collect();
                match escapes.is_empty() {
                    true => node.clone(),
                    false => Node::choice([node.clone()].into_iter().chain(escapes).collect()),
                }
            }
            Kind::JsonText(text, spelling) => self.in_pieces(node, text, |piece| Node::json_text(piece, *spelling)),
            Kind::ListedText(text) => self.in_pieces(node, text, |piece| Node::listed_text(piece)),
            _ => node.map_children(|child| self.with_escapes(child)),
        }
    }

    /// Make a text in which the first characters of markers may be escaped.
    fn in_pieces(&self, node: &Node, text: &str, text_node: impl Fn(&str) -> Node) -> Node {
        if !text.contains(&*self.escaped) {
            return node.clone();
        }
        let mut items = Vec::new();
        for piece in text.split_inclusive(&*self.escaped) {
            let last = piece.chars().next_back().filter(|last| self.escaped.contains(last));
            let plain = &piece[..piece.len() - last.map_or(0, char::len_utf8)];
            if !plain.is_empty() {
                items.push(text_node(plain));
            }
            if let Some(first) = last {
                let itself = text_node(first.encode_utf8(&mut [0; 4]));
                items.push(Node::choice(vec![itself, long_escape(first)]));
            }
        }
        Node::sequence(items)
    }
}

/// Return whether a regular node may spell one of these characters; true if that is uncertain.
fn may_spell(node: &Node, firsts: &[char]) -> bool {
    match node.kind() {
        Kind::Complement(_) => true,
        Kind::Chars(ranges) => {
            let is_in = |code: u32| ranges.iter().any(|(low, high)| (*low..=*high).contains(&code));
            firsts.iter().any(|first| is_in((*first).into()))
        }
        Kind::Text(text) | Kind::JsonText(text, _) | Kind::ListedText(text) => text.contains(firsts),
        Kind::Sequence(items) | Kind::Choice(items) | Kind::Intersection(items) => {
            items.iter().any(|item| may_spell(item, firsts))
        }
        Kind::Repeat(repeat) => may_spell(&repeat.item, firsts),
        Kind::Capture(_, item) => may_spell(item, firsts),
        Kind::Multiples { .. } => false,
    }
}

/// Make the texts in which such a character is escaped only where a marker would otherwise occur.
fn needed_escapes(markers: &[&str], firsts: &[char]) -> Node {
    let no_backslash = Node::chars([(0, 0x5b), (0x5d, 0xd7ff), (0xe000, 0x10_ffff)].into());
    let escape = Node::sequence(vec![Node::text("\\"), Node::any_char()]);
    let before = repeat(Node::choice(vec![no_backslash, escape]), 0, None);
    let needless = |first: &char| {
        let rests = markers.iter().filter_map(|marker| marker.strip_prefix(*first));
        let rests = Node::choice(rests.map(Node::text).collect());
        let marker = Node::sequence(vec![rests, Node::any_text()]);
        let other = Node::intersection(vec![Node::any_text(), Node::complement(marker)]);
        Node::sequence(vec![before.clone(), long_escape(*first), other])
    };
    Node::complement(Node::choice(firsts.iter().map(needless).collect()))
}
