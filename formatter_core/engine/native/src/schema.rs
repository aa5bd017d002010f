//! JSON Schemas that are plain enough to need no algebra, from their text to a grammar's program.
//!
//! The rest is Python's (`formatter_core/schema`), which makes of these schemas the same programs: `json` reads the text,
//! `locations` and `shapes` find what is plain, `lower` makes rules, `nodes` and `terminals` write them. `scalars` makes what
//! most schemas say of scalars, with `numbers`, `strings` and `patterns`, and `inside` writes it; the rest comes from
//! outside as a program, by its text.

mod common;
mod inside;
mod json;
mod locations;
mod lower;
mod marshal;
mod nodes;
mod numbers;
mod patterns;
mod scalars;
mod shapes;
mod spelled;
mod strings;
mod terminals;
mod titles;

use std::borrow::Cow;
use std::iter;
use std::str;
use std::sync::Arc;

pub use common::Common;
pub use json::Tree;
use locations::{Kind, Locations};
use lower::{name_of, Lowering, Terminal, ANY_RULES};
pub use marshal::json_of;
use nodes::{any_of, derives, others_derive, uses, Node, Regular, Writer, LEVELS};
use titles::Title;
pub use titles::{Titles, Written};

use crate::hash::{FastMap, FastSet};
use crate::limits::{Fault, Outcome};
use crate::program::{operation, write_counted, write_number, Reader, MAGIC};

/// Ends a JSON Pointer, in which names may have any character: no UTF-8 has this byte.
const POINTER_END: u8 = 0xff;
/// Most programs have at most so many bytes.
const USUAL_PROGRAM: usize = 1 << 13;

/// The plain schemas of one text, on their way to rules of a program.
pub struct Schema {
    common: Arc<Common>,
    locations: Locations,
    /// The schemas whose rules others use.
    goals: Vec<u32>,
    numbers: FastMap<u32, u32>,
    /// The schemas that goals lead to: the plain ones, and the others by their numbers.
    reached: FastSet<u32>,
    holes: FastMap<u32, u32>,
    /// The JSON Pointers of holes, each ended by `POINTER_END`.
    pub pointers: Vec<u8>,
    rules: Vec<Node>,
    titles: Vec<Title>,
    /// The number of the first rule of any value, which come after these, where they are used.
    any: Option<u32>,
    /// The rules that derive something, as far as is known.
    derived: Vec<bool>,
    /// The depths that rules stand at, plus one, or 0 if that is nowhere; empty as long as nobody has asked.
    depths: Vec<u8>,
    terminals: Vec<Terminal>,
    /// The schemas of scalars and of names whose programs are needed, each ended by a zero byte.
    pub wanted: Vec<u8>,
    pub program: Vec<u8>,
    /// The programs of the terminals that stand in these rules for the first time, and how many they are; see `write`.
    pub new_terminals: (Vec<u8>, u32),
    pub nodes: u64,
}

/// How far a schema is done without others.
#[derive(Clone, Copy)]
pub enum Progress {
    /// Only others can tell what it allows.
    Refused = 0,
    /// Parts of it need the algebra.
    NotPlain = 1,
    /// There are rules, whose scalars may be wanted.
    Wanting = 2,
    /// Its program is written.
    Written = 3,
}

impl Schema {
    /// A schema as JSON; None unless it is an object with entries.
    pub fn new(tree: Arc<Tree>, common: Arc<Common>) -> Option<Schema> {
        tree.entries(tree.root).filter(|entries| !entries.is_empty())?;
        Some(Schema {
            locations: Locations::new(tree, Arc::clone(&common)),
            common,
            goals: Vec::new(),
            numbers: FastMap::default(),
            reached: FastSet::default(),
            holes: FastMap::default(),
            pointers: Vec::new(),
            rules: Vec::new(),
            titles: Vec::new(),
            any: None,
            derived: Vec::new(),
            depths: Vec::new(),
            terminals: Vec::new(),
            wanted: Vec::new(),
            program: Vec::new(),
            new_terminals: (Vec::new(), 0),
            nodes: 0,
        })
    }

    /// Do all that needs no others, for the schema as a whole; its program is written if it is `alone`.
    pub fn advance(&mut self, maximum_nodes: u64, alone: bool) -> Outcome<Progress> {
        let root = self.locations.tree.root;
        if self.goal(&[POINTER_END])?.is_none() || !self.holes.is_empty() {
            return Ok(Progress::NotPlain);
        }
        // One that says nothing may be an example in place of a schema.
        if matches!(self.locations.kind(root), Kind::Silent) {
            return Ok(Progress::Refused);
        }
        if self.lower(false, maximum_nodes).is_none() || !self.all_derive(&[], &mut []) && !self.prune() {
            return Ok(Progress::Refused);
        }
        if !self.common.levels.is_empty() {
            self.depths(&[1]);
        }
        if !self.wanted.is_empty() || !alone {
            return Ok(Progress::Wanting);
        }
        self.write_whole()?;
        Ok(Progress::Written)
    }

    /// The number of the goal to satisfy the schemas at JSON Pointers, one or two, each ended by `POINTER_END`; None if it is
    /// not plain.
    pub fn goal(&mut self, pointers: &[u8]) -> Outcome<Option<u32>> {
        let pointers = pointers.strip_suffix(&[POINTER_END]).ok_or(Fault::Malformed)?;
        let mut schemas = Vec::new();
        for pointer in pointers.split(|byte| *byte == POINTER_END) {
            let pointer = str::from_utf8(pointer).map_err(|_| Fault::Malformed)?;
            let Some(schema) = self.locations.at(pointer).filter(|at| self.locations.is_plain(*at)) else {
                return Ok(None);
            };
            schemas.push(schema);
        }
        let schema = match schemas[..] {
            [schema] => Some(self.locations.resolved(schema)),
            [one, other] => self.locations.both([one, other]),
            _ => None,
        };
        let Some(schema) = schema else {
            return Ok(None);
        };
        let next = self.goals.len() as u32;
        let number = *self.numbers.entry(schema).or_insert(next);
        if number == next {
            self.goals.push(schema);
            self.explore(schemas);
        }
        Ok(Some(number))
    }

    /// Find the schemas that plain ones lead to.
    fn explore(&mut self, mut pending: Vec<u32>) {
        while let Some(schema) = pending.pop() {
            let is_plain = self.locations.is_plain(schema);
            let schema = self.locations.resolved(schema);
            if is_plain {
                if self.reached.insert(schema) {
                    pending.extend(self.locations.uses(schema));
                }
            } else if !self.holes.contains_key(&schema) {
                self.holes.insert(schema, self.holes.len() as u32);
                self.pointers.extend(self.locations.tree.pointer(schema).as_bytes());
                self.pointers.push(POINTER_END);
            }
        }
    }

    /// Make the rules of all goals, by their numbers, and then those that these need, but for holes; how many there are, and
    /// the number of the rule of any value, which is there if it is used here or wanted. None if a goal has no value, or it
    /// takes too much.
    pub fn lower(&mut self, wants_any: bool, maximum_nodes: u64) -> Option<(u32, u32)> {
        let made = Lowering::of(&self.locations, &self.goals, &self.holes, wants_any, maximum_nodes)?;
        for terminal in &made.terminals {
            if let Terminal::Scalars(text) | Terminal::NameLike(text) = terminal {
                if self.common.scalars(text).is_none() {
                    self.wanted.extend_from_slice(text.as_bytes());
                    self.wanted.push(0);
                }
            }
        }
        self.any = made.any;
        self.rules = made.rules;
        self.titles = made.titles;
        self.terminals = made.terminals;
        self.derived = vec![false; self.rules.len()];
        Some((self.count(), self.any.unwrap_or(0)))
    }

    /// How many rules there are, with those of any value.
    pub fn count(&self) -> u32 {
        (self.rules.len() + self.any.map_or(0, |_| ANY_RULES)) as u32
    }

    /// Whether every alternative derives something, given which holes do, and every rule but for those that are obviously
    /// nothing and no goals; if not, `goals` says which of the goals do.
    pub fn all_derive(&mut self, holes: &[bool], goals: &mut [u8]) -> bool {
        let found = &mut self.derived;
        let mut pending: Vec<usize> = (0..found.len()).filter(|rule| !found[*rule]).collect();
        loop {
            let before = pending.len();
            // What a rule needs comes after it, as values do, or before it, as later properties do.
            pending.reverse();
            pending.retain(|rule| {
                found[*rule] = derives(&self.rules[*rule], found, holes);
                !found[*rule]
            });
            if pending.is_empty() || pending.len() == before {
                break;
            }
        }
        for (goal, derived) in goals.iter_mut().zip(found.iter()) {
            *goal = u8::from(*derived);
        }
        let first_other = self.goals.len();
        let may_stay = |rule: &usize| *rule >= first_other && self.rules[*rule].is_nothing();
        let mut options = self.rules.iter().flat_map(Node::options);
        let derived =
            |option: &Node| derives(option, &self.derived, holes) && others_derive(option, &self.derived, holes);
        let all = pending.is_empty() && !holes.contains(&false);
        all || pending.iter().all(may_stay) && options.all(derived)
    }

    /// Leave out the alternatives that derive nothing; whether all goals still derive something, and whatever members may
    /// come several times.
    fn prune(&mut self) -> bool {
        for rule in &mut self.rules {
            let mut options = match std::mem::replace(rule, Node::NOTHING) {
                Node::Choice(options) => options,
                node => vec![node],
            };
            options.retain(|option| derives(option, &self.derived, &[]));
            *rule = any_of(options);
        }
        let mut options = self.rules.iter().flat_map(Node::options);
        self.derived[..self.goals.len()].iter().all(|derived| *derived)
            && options.all(|option| others_derive(option, &self.derived, &[]))
    }

    /// The depths that holes stand at, given those of goals, each plus one, or 0 for what stands nowhere.
    pub fn depths(&mut self, goals: &[u8]) -> Vec<u8> {
        let mut at = vec![0; self.rules.len()];
        let mut holes = vec![0; self.holes.len()];
        let mut pending: Vec<(u32, u8)> = (0..).zip(goals.iter().copied()).collect();
        while let Some((rule, depth)) = pending.pop() {
            if at[rule as usize] >= depth {
                continue;
            }
            at[rule as usize] = depth;
            uses(&self.rules[rule as usize], i32::from(depth), &mut |node, depth| {
                let depth = depth.min(LEVELS + 1) as u8;
                match node {
                    Node::Rule(rule) => pending.push((*rule, depth)),
                    Node::Hole(hole) => holes[*hole as usize] = depth.max(holes[*hole as usize]),
                    _ => {}
                }
            });
        }
        self.depths = at;
        holes
    }

    /// What the rules stand for, but for those of any value.
    pub fn titles(&self) -> Titles {
        let pairs = self.locations.pairs.borrow().schemas.clone();
        Titles::new(Arc::clone(&self.locations.tree), self.titles.clone(), pairs)
    }

    /// The program, once it is written, with what its rules stand for.
    pub fn into_written(mut self) -> Written {
        let titles = std::mem::take(&mut self.titles);
        let pairs = std::mem::take(&mut self.locations.pairs.get_mut().schemas);
        let mut program = std::mem::take(&mut self.program);
        program.shrink_to_fit();
        let titles = Titles::new(Arc::clone(&self.locations.tree), titles, pairs);
        Written { program, titles }
    }

    /// Write the program of the schema, which is plain as a whole.
    fn write_whole(&mut self) -> Outcome<()> {
        let count = self.count();
        self.program = Vec::with_capacity(USUAL_PROGRAM);
        self.program.extend(MAGIC);
        write_number(&mut self.program, count);
        write_number(&mut self.program, 0);
        self.append(0, &[], &[], None)
    }

    /// Write the rules, numbered from `first` on. `holes` are the rules of the holes; `given` are the programs of the
    /// wanted scalars, each with its size before it; `written` those of terminals that stand in the rules before these,
    /// by number. Then `new_terminals` are those that stand in these rules for the first time.
    pub fn write(&mut self, first: u32, holes: &[u32], given: &[u8], written: &[u8]) -> Outcome<()> {
        self.program.clear();
        self.append(first, holes, given, Some(written))
    }

    fn append(&mut self, first: u32, holes: &[u32], given: &[u8], written: Option<&[u8]>) -> Outcome<()> {
        if holes.len() != self.holes.len() {
            return Err(Fault::Malformed);
        }
        let mut reader = Reader { data: given };
        let common = &*self.common;
        let mut terminals: Vec<Cow<Regular>> = common.tokens.iter().map(Cow::Borrowed).collect();
        for terminal in &self.terminals {
            terminals.push(match terminal {
                Terminal::Name(name) => Cow::Owned(common.parts.name(name)),
                Terminal::NameOtherThan(names) => {
                    let names = names.iter().map(|number| name_of(&self.terminals, *number));
                    Cow::Owned(common.parts.name_other_than(names.collect()))
                }
                Terminal::Made(inside) => Cow::Borrowed(inside),
                Terminal::Scalars(text) => match common.scalars(text) {
                    Some(known) => Cow::Borrowed(known),
                    None => Cow::Owned(Regular::read(&mut reader)?),
                },
                Terminal::NameLike(_) | Terminal::NameUnlike => Cow::Owned(Regular::read(&mut reader)?),
            });
        }
        let levels = (!common.levels.is_empty()).then_some(terminals.len() as u32);
        terminals.extend(common.levels.iter().map(Cow::Borrowed));
        let any = self.any.unwrap_or(0);
        let mut writer = Writer::new(&mut self.program, first, any, holes, &terminals, levels);
        writer.know(written.unwrap_or_default())?;
        let depths = self.depths.iter().map(|depth| i32::from(*depth).max(1) - 1);
        for (rule, depth) in self.rules.iter().zip(depths.chain(iter::repeat(0))) {
            writer.rule(rule, depth);
        }
        self.nodes = writer.nodes;
        if written.is_some() {
            self.new_terminals = (Vec::new(), writer.new.len() as u32);
            for number in &writer.new {
                let program = &terminals[*number as usize].program;
                write_counted(&mut self.new_terminals.0, operation::TERMINAL, program);
            }
        }
        if self.any.is_some() {
            let (rules, nodes) = common.any_value();
            write_counted(&mut self.program, operation::RULES, rules);
            self.nodes += nodes;
        }
        Ok(())
    }
}
