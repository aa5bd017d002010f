//! Encodes a pattern's nodes as bytes for `formatter_core/syntax/regex`: a program of operations in postfix order, as
//! in `program`.
//!
//! Nodes are numbered from 0, and `AGAIN` refers to one of them. Some operations occur only here. `CLASS` is `CHARS`
//! with the byte length of its numbers in place of their count, so that a frequent set can be looked up. `ANY_TEXT` and
//! `ANY_CHAR` are the nodes of these names. `NAMED` is a capture with its name. Sets are numbered, too: `CLASS_AGAIN`
//! makes another node of an earlier set.

use super::classes::Range;
use super::node::{Kind, Node, Repeat};
use crate::base::hash::FastMap;
use crate::regular::program::{operation, write_counted, write_number};

const CLASS: u8 = 0x40;
const ANY_TEXT: u8 = 0x41;
const NAMED: u8 = 0x42;
const ANY_CHAR: u8 = 0x43;
const CLASS_AGAIN: u8 = 0x44;

pub fn written(node: &Node) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.write(node);
    writer.out
}

#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    /// The numbers of nodes written so far, by identity.
    made: FastMap<usize, u32>,
    /// The numbers of sets, by their addresses.
    sets: FastMap<*const Range, u32>,
}

impl Writer {
    fn write(&mut self, node: &Node) {
        if let Some(number) = self.made.get(&node.identity()) {
            self.out.push(operation::AGAIN);
            write_number(&mut self.out, *number);
            return;
        }
        self.write_new(node);
        self.made.insert(node.identity(), self.made.len() as u32);
    }

    fn write_new(&mut self, node: &Node) {
        match node.kind() {
            _ if node.identity() == Node::any_text().identity() => self.out.push(ANY_TEXT),
            _ if node.identity() == Node::any_char().identity() => self.out.push(ANY_CHAR),
            Kind::Text(text) => write_counted(&mut self.out, operation::BYTES, text.as_bytes()),
            Kind::Chars(ranges) if self.sets.contains_key(&ranges.as_ptr()) => {
                self.out.push(CLASS_AGAIN);
                write_number(&mut self.out, self.sets[&ranges.as_ptr()]);
            }
            Kind::Chars(ranges) => {
                self.sets.insert(ranges.as_ptr(), self.sets.len() as u32);
                let mut numbers = Vec::with_capacity(4 * ranges.len());
                for bound in ranges.iter().flat_map(|(low, high)| [low, high]) {
                    write_number(&mut numbers, *bound);
                }
                write_counted(&mut self.out, CLASS, &numbers);
            }
            Kind::Sequence(items) => self.list(operation::SEQUENCE, items),
            Kind::Choice(items) => self.list(operation::CHOICE, items),
            Kind::Intersection(items) => self.list(operation::INTERSECTION, items),
            Kind::Complement(item) => {
                self.write(item);
                self.out.push(operation::COMPLEMENT);
            }
            Kind::Repeat(Repeat {
                item,
                minimum,
                maximum,
                greedy,
            }) => {
                self.write(item);
                self.out.push(match greedy {
                    true => operation::REPEAT,
                    false => operation::LAZY_REPEAT,
                });
                write_number(&mut self.out, *minimum);
                write_number(&mut self.out, maximum.map_or(0, |maximum| maximum + 1));
            }
            Kind::Capture(name, item) => {
                self.write(item);
                write_counted(&mut self.out, NAMED, name.as_bytes());
            }
            // Patterns never have these nodes.
            Kind::JsonText(..) | Kind::ListedText(_) | Kind::Multiples { .. } => {}
        }
    }

    fn list(&mut self, operation: u8, items: &[Node]) {
        items.iter().for_each(|item| self.write(item));
        self.out.push(operation);
        write_number(&mut self.out, items.len() as u32);
    }
}
