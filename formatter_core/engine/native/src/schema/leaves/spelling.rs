//! JSON spellings of texts and of regular nodes over texts, without quotes.
//!
//! A node is spelled part by part, in linear time; the complement of a node is taken among all strings. Listed texts
//! share equal prefixes, up to a maximum nesting of alternatives.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use super::characters;
use super::digits::repeat;
use crate::base::hash::FastMap;
use crate::base::stop;
use crate::base::tuning::MAX_SHARED_PREFIXES;
use crate::regular::regex::{Kind, Node};
use crate::regular::term::Spelling;

/// The cost in elementary steps of a text at one level of a trie.
const STEPS_OF_A_TEXT: u64 = 4;

pub fn quote() -> Node {
    static QUOTE: OnceLock<Node> = OnceLock::new();
    QUOTE.get_or_init(|| Node::text("\"")).clone()
}

/// Return any character of a string; every call returns the same node.
pub fn free_char(spelling: Spelling) -> Node {
    characters::any_character(spelling)
}

/// Return any string without quotes; every call returns the same node.
pub fn free_body(spelling: Spelling) -> Node {
    static KNOWN: [OnceLock<Node>; 2] = [OnceLock::new(), OnceLock::new()];
    let make = || repeat(free_char(spelling), 0, None).kept();
    KNOWN[spelling as usize].get_or_init(make).clone()
}

/// Return any string; every call returns the same node.
pub fn free_string(spelling: Spelling) -> Node {
    static KNOWN: [OnceLock<Node>; 2] = [OnceLock::new(), OnceLock::new()];
    let make = || Node::sequence(vec![quote(), free_body(spelling), quote()]).kept();
    KNOWN[spelling as usize].get_or_init(make).clone()
}

/// Make a listed text, or a name.
pub fn listed_text(text: &str, spelling: Spelling) -> Node {
    match spelling {
        Spelling::Any => Node::json_text(text, spelling),
        Spelling::Canonical => Node::listed_text(text),
    }
}

/// The spellings of classes of characters, by their ranges.
type Classes = FastMap<Arc<[(u32, u32)]>, Node>;

/// A cache that spells nodes; equal sets of characters give one node.
pub struct Speller {
    pub spelling: Spelling,
    classes: RefCell<Classes>,
}

impl Speller {
    pub fn new(spelling: Spelling) -> Self {
        Speller {
            spelling,
            classes: RefCell::default(),
        }
    }

    /// Return the language of a node over text, as JSON strings without quotes.
    pub fn spell(&self, node: &Node) -> Node {
        match node.kind() {
            Kind::Chars(ranges) => {
                let mut known = self.classes.borrow_mut();
                let make = || characters::characters(ranges, self.spelling);
                known.entry(ranges.clone()).or_insert_with(make).clone()
            }
            Kind::Text(text) => Node::json_text(text.clone(), self.spelling),
            Kind::Complement(item) => {
                let other = Node::complement(self.spell(item));
                Node::intersection(vec![free_body(self.spelling), other])
            }
            Kind::Capture(_, item) => self.spell(item),
            _ => node.map_children(|child| self.spell(child)),
        }
    }
}

/// Make the union of listed texts, without quotes; equal prefixes are shared.
pub fn words(texts: &[Arc<str>], spelling: Spelling) -> Node {
    let mut known = HashSet::new();
    let texts = texts.iter().map(|text| &**text).filter(|text| known.insert(*text));
    trie(texts.collect(), MAX_SHARED_PREFIXES, &|text| {
        listed_text(text, spelling)
    })
}

/// Make every text other than `texts`, in any spelling, without quotes. The `texts` must be distinct.
///
/// The result is a difference of two automata: written out as a node, it would need a class of other characters for
/// each character.
pub fn not_in<'a>(texts: impl Iterator<Item = &'a str>, spelling: Spelling) -> Node {
    let texts: Vec<&str> = texts.collect();
    let free = free_body(spelling);
    if texts.is_empty() {
        return free;
    }
    let listed = trie(texts, MAX_SHARED_PREFIXES, &|text| Node::json_text(text, spelling));
    Node::intersection(vec![free, Node::complement(listed)])
}

/// Make a trie of some distinct texts; part of one if the call must end, see `stop::ends_within`.
fn trie(texts: Vec<&str>, depth: u32, text_node: &dyn Fn(&str) -> Node) -> Node {
    if stop::ends_within(STEPS_OF_A_TEXT * texts.len() as u64) {
        return Node::empty_text();
    }
    if let [text] = texts[..] {
        return match text {
            "" => Node::empty_text(),
            _ => text_node(text),
        };
    }
    if depth == 0 {
        return Node::choice(texts.into_iter().map(text_node).collect());
    }
    let (least, greatest) = (texts.iter().min(), texts.iter().max());
    let least = least.copied().unwrap_or_default();
    let length = shared_length(least, greatest.copied().unwrap_or_default());
    let mut groups: Vec<Vec<&str>> = Vec::new();
    let mut known: FastMap<Option<char>, usize> = FastMap::default();
    for text in texts {
        let rest = &text[length..];
        let group = *known.entry(rest.chars().next()).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(rest);
    }
    let tails = Node::choice(
        groups
            .into_iter()
            .map(|group| trie(group, depth - 1, text_node))
            .collect(),
    );
    match length {
        0 => tails,
        _ => Node::sequence(vec![text_node(&least[..length]), tails]),
    }
}

/// Return how many bytes of whole characters two texts share at the beginning.
fn shared_length(one: &str, other: &str) -> usize {
    let shared = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
    shared.map(|(char, _)| char.len_utf8()).sum()
}
