//! JSON Schemas: turns the text of a schema into the program of a grammar.
//!
//! `json` reads the text. `load` numbers its schemas and resolves references. `normal` brings a conjunction of schemas
//! (`goals`) to a normal form (`shapes`): for each type a union of conjunctions of constraints. Combinators become
//! products and unions, or differences (`complement`) for `not`, `oneOf` (`exclusive`) and `if`. `clauses` keeps unions
//! about single properties small, `emptiness` drops alternatives that are known to be empty, and `assertions` and
//! `evaluated` read the keywords. `lowering` makes rules of goals, with `arrays` and `counting`, `objects`, `keys` and
//! `key_order`; `productive` removes rules that derive nothing. `leaves` contains sets of numbers and strings, and the
//! terminals of the rules, which `nodes` writes within a grammar's `bounds`; `plain` gives the texts of a schema
//! without quotes. Subtracting unions takes exponential time at worst, so all work is metered. Keywords that cannot be
//! expressed exactly are refused or dropped (`report`), and Python says why (`formatter_core/schema/refusals.py`).
//!
//! Examples: `example_tree_of_a_text` (`json`), `example_normal_form_of_a_schema`, `example_shapes_are_sets_of_values`,
//! `example_set_of_numbers` (`leaves`), and in this module `example_schema_becomes_a_program` and
//! `example_keyword_that_cannot_be_enforced_is_refused_or_dropped`.

mod any_value;
mod arrays;
mod assertions;
mod bits;
mod bounds;
mod cells;
mod clauses;
mod common;
mod complement;
mod completion;
mod counting;
mod emptiness;
mod evaluated;
mod exclusive;
mod goals;
mod indents;
mod json;
mod key_order;
mod keys;
pub mod keywords;
mod leaves;
mod listing;
mod load;
mod lowering;
mod marshal;
mod nodes;
mod normal;
mod objects;
mod ordered;
mod plain;
mod productive;
mod report;
mod rules;
mod shapes;
mod single;
mod tokens;
mod uris;

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem::size_of;
use std::sync::Arc;

use any_value::ANY_RULES;
use bounds::past_bounds;
pub use common::{Common, Options};
use indents::depths;
pub use json::{Tree, Value};
pub use leaves::number_program;
pub use leaves::Whitespace;
pub use lowering::Most;
use lowering::{lower, Made};
pub use marshal::json_of;
use nodes::{Regular, Writer};
pub use plain::{Plain, Texts};
use report::{written, Refusal, Refusals, Stop, Why};

use crate::base::heap::{self, Share, Total};
use crate::base::limits::Outcome;
use crate::regular::program::{operation, write_counted, write_number, MAGIC};

/// Initial capacity of a program in bytes; most programs are smaller.
const USUAL_PROGRAM: usize = 1 << 13;
/// The byte that ends the name of a rule; it does not occur in UTF-8.
const NAME_END: u8 = 0xff;

/// The memory in bytes that schemas take in a process: their texts and programs, their rules inside other formats, and
/// the data that schemas with the same options share.
pub static SCHEMAS: Total = Total::new();

/// A schema's text, and the documents to which it may refer, by their URIs.
pub struct Document {
    pub tree: Arc<Tree>,
    pub registry: HashMap<String, Arc<Tree>>,
    _memory: Share,
}

impl Document {
    /// Make the document of a text that refers to no other documents.
    pub fn new(tree: Tree) -> Self {
        let bytes = size_of::<Self>() + heap::COUNTS + size_of::<Tree>() + tree.heap();
        Document {
            tree: Arc::new(tree),
            registry: HashMap::new(),
            _memory: Share::new(bytes, &SCHEMAS),
        }
    }
}

/// A program with the names of its rules; or the reason why there is none, see `report::written`.
pub struct Written {
    pub program: Vec<u8>,
    pub names: Vec<u8>,
    /// The keywords that are not enforced, in the format of `report::written`.
    pub dropped: Vec<u8>,
    _memory: Share,
}

impl Written {
    fn refused(refusal: &Refusal, dropped: Vec<u8>) -> Self {
        Written::new(written([refusal]), Vec::new(), dropped)
    }

    fn new(program: Vec<u8>, names: Vec<u8>, dropped: Vec<u8>) -> Self {
        let lists = heap::list(&program) + heap::list(&names) + heap::list(&dropped);
        Written {
            program,
            names,
            dropped,
            _memory: Share::new(size_of::<Self>() + lists, &SCHEMAS),
        }
    }
}

/// The rules of a schema.
pub struct Schema {
    common: Arc<Common>,
    made: Made,
    /// The depth of each rule; empty if depths do not matter.
    depths: Vec<i32>,
    pub program: Vec<u8>,
    /// The names of the rules, except those of any value, each ended by `NAME_END`.
    pub names: Vec<u8>,
    /// The keywords that are not enforced, see `report::written`.
    pub dropped: Vec<u8>,
    most: Most,
    /// The programs of the terminals that first occur in these rules, and how many there are; see `write`.
    pub new_terminals: (Vec<u8>, u32),
    pub nodes: u64,
    memory: Share,
}

impl Schema {
    /// Lower the schema of a text, or return why it is refused. If `lenient`, keywords that cannot be enforced are
    /// dropped; a schema without such keywords is lowered in the same way.
    pub fn new(document: &Document, common: Arc<Common>, most: Most, lenient: bool) -> Result<Schema, Written> {
        let mut refusals = Refusals::default();
        let mut made = lower(document, &common, most, &mut refusals);
        if matches!(&made, Err(Stop::Refused(refusal)) if lenient && refusal.is_unsupported()) {
            refusals = Refusals::lenient();
            made = lower(document, &common, most, &mut refusals);
        }
        let dropped = written(&refusals.dropped);
        let refusal = match made.map(|made| past_bounds(&made, &common, &most).map_or(Ok(made), Err)) {
            Ok(Ok(made)) => return Ok(Schema::of(made, common, most, dropped)),
            Ok(Err(refusal)) => refusal,
            Err(Stop::Refused(refusal)) => *refusal,
            Err(Stop::InProgress) => unreachable!("a search ends with an answer"),
        };
        Err(Written::refused(&refusal, dropped))
    }

    fn of(made: Made, common: Arc<Common>, most: Most, dropped: Vec<u8>) -> Schema {
        let depths = match common.levels.is_empty() {
            true => Vec::new(),
            false => depths(&made.rules),
        };
        let mut names = Vec::new();
        for title in &made.titles {
            names.extend(title.as_bytes());
            names.push(NAME_END);
        }
        Schema {
            common,
            made,
            depths,
            program: Vec::new(),
            names,
            dropped,
            most,
            new_terminals: (Vec::new(), 0),
            nodes: 0,
            memory: Share::new(0, &SCHEMAS),
        }
    }

    /// Count the memory of the schema, if it is kept.
    pub fn count_memory(&self) {
        let lists = [&self.program, &self.names, &self.dropped, &self.new_terminals.0].map(heap::list);
        let lists = lists.iter().sum::<usize>() + heap::list(&self.depths);
        self.memory.set(size_of::<Self>() + self.made.heap() + lists);
    }

    /// Return the number of rules, including those of any value.
    pub fn count(&self) -> u32 {
        let any_rules = if self.made.uses_any { ANY_RULES } else { 0 };
        (self.made.rules.len() + any_rules) as u32
    }

    /// Return the program of the schema as a whole grammar, and the number of its nodes; or why the schema is refused.
    pub fn written(mut self) -> Outcome<Result<(Written, u64), Written>> {
        let count = self.count();
        self.program = Vec::with_capacity(USUAL_PROGRAM);
        self.program.extend(MAGIC);
        write_number(&mut self.program, count);
        write_number(&mut self.program, 0);
        self.append(0, &[])?;
        if self.nodes > self.most.nodes {
            let refusal = Refusal::limit(Why::GrammarNodes, &["the grammar"]);
            return Ok(Err(Written::refused(&refusal, self.dropped)));
        }
        self.program.shrink_to_fit();
        self.names.shrink_to_fit();
        Ok(Ok((Written::new(self.program, self.names, self.dropped), self.nodes)))
    }

    /// Write the rules, numbered from `first` on. `written` contains the programs of the terminals of earlier rules, by
    /// number. Afterwards `new_terminals` has the terminals that first occur in these rules.
    pub fn write(&mut self, first: u32, written: &[u8]) -> Outcome<()> {
        self.program.clear();
        self.append(first, written)
    }

    fn append(&mut self, first: u32, written: &[u8]) -> Outcome<()> {
        let (common, made) = (&*self.common, &self.made);
        let tokens = common.tokens.iter().chain(&made.terminals);
        let mut terminals: Vec<Cow<Regular>> = tokens.map(Cow::Borrowed).collect();
        let levels = (!common.levels.is_empty()).then_some(terminals.len() as u32);
        terminals.extend(common.levels.iter().map(Cow::Borrowed));
        let any = made.rules.len() as u32;
        let mut writer = Writer::new(&mut self.program, first, any, &terminals, levels);
        writer.know(written)?;
        for (place, rule) in made.rules.iter().enumerate() {
            match made.fixed.get(place) {
                Some(true) => writer.fixed_rule(rule),
                _ => writer.rule(rule, self.depths.get(place).copied().unwrap_or(0)),
            }
        }
        self.nodes = writer.nodes;
        self.new_terminals = (Vec::new(), writer.new.len() as u32);
        for number in &writer.new {
            let program = &terminals[*number as usize].program;
            write_counted(&mut self.new_terminals.0, operation::TERMINAL, program);
        }
        if made.uses_any {
            let (rules, nodes) = common.any_value();
            write_counted(&mut self.program, operation::RULES, rules);
            self.nodes += nodes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regular::program::Reader;
    use crate::regular::term::Spelling;

    /// Lower a schema with the usual limits; `lenient` drops keywords that cannot be enforced.
    fn lowered(text: &str, lenient: bool) -> Result<Schema, Written> {
        let common = Common::new(Options {
            spelling: Spelling::Any,
            whitespace: Whitespace::default(),
            in_any_order: false,
            enforces_formats: true,
            escaped: "",
            markers: &[],
        });
        let most = Most {
            nodes: 100_000,
            work: 1_000_000,
            repeat: 100_000,
            depth: 100,
        };
        Schema::new(
            &Document::new(Tree::read(text).unwrap()),
            Arc::new(common),
            most,
            lenient,
        )
    }

    #[test]
    fn example_schema_becomes_a_program() {
        let schema = lowered(r#"{"properties": {"a": {"type": "null"}}, "required": ["a"]}"#, false);
        let Ok(Ok((written, nodes))) = schema.unwrap_or_else(|_| panic!("it is lowered")).written() else {
            panic!("it fits");
        };
        let (_, rules, start) = Reader::of_grammar(&written.program).unwrap();
        assert!(start < rules && nodes > 1);
    }

    #[test]
    fn example_keyword_that_cannot_be_enforced_is_refused_or_dropped() {
        let text = r#"{"type": "string", "pattern": "(a)\\1"}"#;
        let refused = lowered(text, false).err().unwrap();
        assert!(String::from_utf8_lossy(&refused.program).contains("pattern"));
        let dropped = lowered(text, true).ok().unwrap().dropped;
        assert!(String::from_utf8_lossy(&dropped).contains("pattern"));
    }
}
