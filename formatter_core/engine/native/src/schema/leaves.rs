//! The leaves of schemas: exact sets of numbers and strings, their spellings, and the terminals of a grammar.
//!
//! `numbers` and `strings` are the sets, with their intersections and complements; `deciding` decides which are empty.
//! Regular nodes spell the sets: `digits` and `numerals` for numbers, `characters`, `spelling`, `formats` and `texts`
//! for strings. `scalars` and `tokens` make terminals of these nodes, `markers` removes texts from terminals, `escapes`
//! escapes characters in them, and `terminal_program` writes their programs. Nodes that most schemas need are made once
//! for the process, all others once for each `Leaves`.

mod characters;
mod deciding;
mod decimal;
mod digits;
mod escapes;
pub mod formats;
mod markers;
mod multiples;
mod natural;
mod numbers;
mod numerals;
mod scalars;
mod spelling;
mod strings;
mod terminal_program;
mod texts;
mod tokens;
mod whitespace;

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use deciding::Automaton;
pub use deciding::Decision;
pub use decimal::Decimal;
pub use escapes::with_escapes;
pub use markers::Markers;
pub use numbers::NumberSet;
pub use numerals::number_program;
pub use scalars::Scalars;
use spelling::Speller;
pub use strings::{largest_strings, StringSet, Test};
pub use terminal_program::{inside, largest_repeat};
pub use tokens::Tokens;
pub use whitespace::Whitespace;

use crate::regular::regex::{self, Dialect, Node};
use crate::regular::term::Spelling;

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The answer depends on the texts that we leave out of a format: the question concerns its complement, or whether
    /// a listed text has the format.
    LeftOut {
        format: Arc<str>,
        /// The pointer of the format in the schema.
        pointer: Arc<str>,
        text: Option<Arc<str>>,
    },
    /// A limit, its value, and the thing that is too large for it.
    Limit {
        name: &'static str,
        value: u64,
        what: &'static str,
    },
}

impl Fault {
    pub fn limit(name: &'static str, value: u64, what: &'static str) -> Fault {
        Fault::Limit { name, value, what }
    }
}

pub type Outcome<T> = Result<T, Fault>;

/// A cache of one thread that makes leaves, and remembers its results and decisions.
pub struct Leaves {
    speller: Speller,
    patterns: RefCell<HashMap<Arc<str>, Result<Node, regex::Fault>>>,
    tests: RefCell<HashMap<Test, Node>>,
    automata: RefCell<HashMap<Test, Rc<RefCell<Automaton>>>>,
    numbers: RefCell<HashMap<NumberSet, Decision>>,
    strings: RefCell<HashMap<StringSet, Decision>>,
    scalars: RefCell<HashMap<Scalars, Option<Terminal>>>,
}

impl Leaves {
    pub fn new(spelling: Spelling) -> Self {
        Leaves {
            speller: Speller::new(spelling),
            patterns: RefCell::default(),
            tests: RefCell::default(),
            automata: RefCell::default(),
            numbers: RefCell::default(),
            strings: RefCell::default(),
            scalars: RefCell::default(),
        }
    }

    pub fn spelling(&self) -> Spelling {
        self.speller.spelling
    }

    /// Return the texts in which a pattern matches, or why the pattern cannot be read. The same pattern gives the same
    /// node.
    pub fn read_pattern(&self, pattern: &str) -> Result<Node, regex::Fault> {
        if let Some(known) = self.patterns.borrow().get(pattern) {
            return known.clone();
        }
        let codes: Vec<u32> = pattern.chars().map(u32::from).collect();
        let read = regex::read(&codes, Dialect::Ecma, &regex::Limits::default());
        self.patterns.borrow_mut().insert(pattern.into(), read.clone());
        read
    }

    /// Return the spellings of the texts that pass a test; the same test gives the same node.
    fn spelled_test(&self, test: &Test) -> Node {
        kept(&self.tests, test, || self.speller.spell(&self.test_node(test)))
    }
}

/// Return the cached value of a key; make it on first use.
fn kept<K: Clone + Eq + Hash, V: Clone>(known: &RefCell<HashMap<K, V>>, key: &K, make: impl FnOnce() -> V) -> V {
    if let Some(value) = known.borrow().get(key) {
        return value.clone();
    }
    let value = make();
    known.borrow_mut().insert(key.clone(), value.clone());
    value
}

/// A regular node that is compiled into one automaton; equal nodes are one value, wherever they occur.
#[derive(Clone, Debug)]
pub struct Terminal {
    item: Node,
}

impl Terminal {
    pub fn new(item: Node) -> Self {
        Terminal { item }
    }

    /// Return the inside of the terminal.
    pub fn item(&self) -> &Node {
        &self.item
    }
}

/// Make a sequence of the items, or return the only one.
fn in_a_row(mut items: Vec<Node>) -> Node {
    match items.len() {
        1 => items.remove(0),
        _ => Node::sequence(items),
    }
}

/// Make a choice of the items, or return the only one.
fn any_of_these(mut items: Vec<Node>) -> Node {
    match items.len() {
        1 => items.remove(0),
        _ => Node::choice(items),
    }
}
