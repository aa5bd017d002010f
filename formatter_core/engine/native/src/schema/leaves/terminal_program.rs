//! Writes the inside of one terminal as a program, see `program`. A node that occurs several times is written once.

use std::collections::hash_map::Entry;

use super::{Fault, Outcome};
use crate::base::hash::FastMap;
use crate::regular::program::{operation, write_counted, write_number};
use crate::regular::regex::{Kind, Node};
use crate::regular::term::{Spelling, SHORT_ESCAPES};

/// The limits of a grammar that concern terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    pub nodes: u64,
    pub repeat: u32,
    pub depth: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            nodes: 1_000_000,
            repeat: 1_000_000,
            depth: 100,
        }
    }
}

/// Return the largest count of a repeat. Repeats in interned nodes are not included, as they are within any limits.
pub fn largest_repeat(node: &Node) -> u32 {
    match node.is_kept() {
        true => 0,
        false => node.largest_repeat(),
    }
}

/// Write the inside of a terminal as a program, unless it exceeds the bounds.
pub fn write_inside(node: &Node, bounds: &Bounds) -> Outcome<Vec<u8>> {
    if node.height() > bounds.depth {
        return Err(Fault::limit("depth", bounds.depth.into(), "a terminal"));
    }
    if largest_repeat(node) > bounds.repeat {
        return Err(Fault::limit("repeat", bounds.repeat.into(), "a repeat"));
    }
    if node.size() > bounds.nodes {
        return Err(Fault::limit("nodes", bounds.nodes, "a terminal"));
    }
    Ok(inside(node))
}

/// Write the inside of a terminal without checking bounds.
pub fn inside(node: &Node) -> Vec<u8> {
    let mut writer = Writer {
        out: Vec::new(),
        known: FastMap::default(),
        in_kept: false,
    };
    writer.node(node);
    writer.out
}

struct Writer {
    out: Vec<u8>,
    /// The numbers of the nodes that were written, by identity.
    known: FastMap<usize, u32>,
    /// True if the node is a part of an interned node. An interned node contains no other interned node.
    in_kept: bool,
}

impl Writer {
    fn node(&mut self, node: &Node) {
        if let Some(number) = self.known.get(&node.identity()) {
            self.out.push(operation::AGAIN);
            write_number(&mut self.out, *number);
            return;
        }
        self.new_node(node);
        let next = self.known.len() as u32;
        if let Entry::Vacant(entry) = self.known.entry(node.identity()) {
            entry.insert(next);
        }
    }

    fn new_node(&mut self, node: &Node) {
        if node.is_kept() && !self.in_kept {
            return self.out.extend_from_slice(node.kept_program(|| kept_program(node)));
        }
        match node.kind() {
            Kind::Text(text) => write_counted(&mut self.out, operation::BYTES, text.as_bytes()),
            Kind::ListedText(text) => write_counted(&mut self.out, operation::BYTES, listed(text).as_bytes()),
            Kind::JsonText(text, spelling) => {
                let operation = match spelling {
                    Spelling::Any => operation::JSON_TEXT,
                    Spelling::Canonical => operation::CANONICAL_TEXT,
                };
                write_counted(&mut self.out, operation, text.as_bytes());
            }
            Kind::Chars(ranges) => {
                self.out.push(operation::CHARS);
                write_number(&mut self.out, ranges.len() as u32);
                for bound in ranges.iter().flat_map(|(low, high)| [low, high]) {
                    write_number(&mut self.out, *bound);
                }
            }
            Kind::Sequence(items) => self.list(operation::SEQUENCE, items),
            Kind::Choice(items) => self.list(operation::CHOICE, items),
            Kind::Intersection(items) => self.list(operation::INTERSECTION, items),
            Kind::Repeat(repeat) => {
                self.node(&repeat.item);
                self.out.push(match repeat.greedy {
                    true => operation::REPEAT,
                    false => operation::LAZY_REPEAT,
                });
                write_number(&mut self.out, repeat.minimum);
                write_number(&mut self.out, repeat.maximum.map_or(0, |maximum| maximum + 1));
            }
            Kind::Complement(item) => {
                self.node(item);
                self.out.push(operation::COMPLEMENT);
            }
            Kind::Multiples { step, places, digits } => {
                self.out.push(operation::MULTIPLES);
                write_number(&mut self.out, u32::try_from(*step).unwrap_or(u32::MAX));
                for number in [(*places).max(0), (-*places).max(0)] {
                    write_number(&mut self.out, number.unsigned_abs());
                }
                write_number(&mut self.out, *digits);
            }
            // The texts of schemas have no captures.
            Kind::Capture(_, item) => self.new_node(item),
        }
    }

    fn list(&mut self, operation: u8, items: &[Node]) {
        items.iter().for_each(|item| self.node(item));
        self.out.push(operation);
        write_number(&mut self.out, items.len() as u32);
    }
}

fn kept_program(node: &Node) -> Vec<u8> {
    let mut writer = Writer {
        out: Vec::new(),
        known: FastMap::default(),
        in_kept: true,
    };
    writer.node(node);
    let mut program = Vec::with_capacity(writer.out.len() + 4);
    write_counted(&mut program, operation::KEPT, &writer.out);
    program
}

/// Return the one spelling of a listed text.
pub(super) fn listed(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        let short = SHORT_ESCAPES.iter().find(|(code, _)| *code == u32::from(char));
        match (char, short) {
            ('\0'..='\x1f' | '"' | '\\', Some((_, letter))) => written.extend(['\\', char::from(*letter)]),
            ('\0'..='\x1f', None) => written.push_str(&format!("\\u{:04x}", u32::from(char))),
            _ => written.push(char),
        }
    }
    written
}
