//! JSON Schemas that are plain enough to need no algebra, from their text to a grammar's program.
//!
//! The rest is Python's (`formatter_core/schema`), which makes of these schemas the same programs: `json` reads the text,
//! `locations` finds what is plain, `lower` makes rules, `nodes` and `terminals` write them. What a schema says of scalars
//! comes from outside as a program, by its text.

mod json;
mod locations;
mod lower;
mod nodes;
mod terminals;

use json::Tree;
use locations::Locations;
use lower::{Lowering, Terminal, TOKENS};
use nodes::{Node, Regular, Writer};
use terminals::Parts;

use crate::hash::FastMap;
use crate::limits::Outcome;
use crate::program::Reader;

/// The plain schemas of one text, on their way to rules of a program.
pub struct Schema {
    locations: Locations,
    /// The schemas whose rules others use.
    goals: Vec<u32>,
    numbers: FastMap<u32, u32>,
    rules: Vec<Node>,
    any: u32,
    terminals: Vec<Terminal>,
    /// The schemas of scalars whose programs are needed, each ended by a zero byte.
    pub wanted: Vec<u8>,
    pub program: Vec<u8>,
}

impl Schema {
    /// A schema's text; None if it is not an object in JSON that can be read here.
    pub fn read(text: &str, draft: u32) -> Option<Schema> {
        let tree = Tree::read(text)?;
        tree.entries(tree.root).filter(|entries| !entries.is_empty())?;
        Some(Schema {
            locations: Locations::new(tree, draft),
            goals: Vec::new(),
            numbers: FastMap::default(),
            rules: Vec::new(),
            any: 0,
            terminals: Vec::new(),
            wanted: Vec::new(),
            program: Vec::new(),
        })
    }

    /// The number of the goal to satisfy the schema at a JSON Pointer; None if it is not plain.
    pub fn goal(&mut self, pointer: &str) -> Option<u32> {
        let schema = self.locations.at(pointer)?;
        self.locations.is_plain(schema).then_some(())?;
        let next = self.goals.len() as u32;
        let number = *self.numbers.entry(schema).or_insert(next);
        if number == next {
            self.goals.push(schema);
        }
        Some(number)
    }

    /// Make the rules of all goals, by their numbers, and then those that these need, numbered from `first` on; how many
    /// there are, and the number of the rule of any value, which is there if it is used here or wanted. None if a goal
    /// has no value, or it takes too much.
    pub fn lower(&mut self, first: u32, wants_any: bool, maximum_nodes: u64) -> Option<(u32, u32)> {
        let made = Lowering::of(&self.locations, &self.goals, first, wants_any, maximum_nodes)?;
        for terminal in &made.terminals {
            if let Terminal::Scalars(text) = terminal {
                self.wanted.extend_from_slice(text.as_bytes());
                self.wanted.push(0);
            }
        }
        self.any = made.any.unwrap_or(0);
        self.rules = made.rules;
        self.terminals = made.terminals;
        Some((self.rules.len() as u32, self.any))
    }

    /// Write the rules; how many nodes they have. `given` are the programs of the tokens, of the colon and of any string's
    /// body, and then of the wanted scalars, each with its size before it; `written` those of terminals that stand in the
    /// rules before these, by number.
    pub fn write(&mut self, given: &[u8], written: &[u8]) -> Outcome<u64> {
        let mut reader = Reader { data: given };
        let mut next = || -> Outcome<Regular> {
            let size = u64::from(reader.number()?);
            let program = reader.counted_bytes()?.to_vec();
            Ok(Regular { program, size })
        };
        let mut terminals = Vec::new();
        for _ in 0..TOKENS {
            terminals.push(next()?);
        }
        let (colon, any_body) = (next()?, next()?);
        let parts = Parts {
            colon: &colon,
            any_body: &any_body,
        };
        for terminal in &self.terminals {
            terminals.push(match terminal {
                Terminal::Name(name) => parts.name(name),
                Terminal::NameOtherThan(names) => parts.name_other_than(names),
                Terminal::Scalars(_) => next()?,
            });
        }
        let mut writer = Writer::new(self.any, &terminals);
        writer.know(written)?;
        for rule in &self.rules {
            writer.rule(rule);
        }
        let (program, nodes) = (writer.out, writer.nodes);
        self.program = program;
        Ok(nodes)
    }
}
