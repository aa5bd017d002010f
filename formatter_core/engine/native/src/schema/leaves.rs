//! The leaves of schemas: exact sets of numbers and strings, their spellings, and the terminals of a grammar.
//!
//! `numbers` and `strings` are the sets, with their intersections and complements; `deciding` says which are empty. What
//! spells them are regular nodes: `digits` and `numerals` for numbers, `characters`, `spelling`, `formats` and `texts` for
//! strings. `scalars` and `tokens` make terminals of these, `markers` those in which some texts do not occur, `escapes`
//! those that spell some characters otherwise, and `terminal_program` their
//! programs. What most schemas have is made once for the process, the rest once for a `Leaves`.

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
pub use numbers::{NumberSet, MOST_STATES};
pub use numerals::number_program;
pub use scalars::Scalars;
use spelling::Speller;
pub use strings::{largest_strings, StringSet, Test, MOST_COMPARED};
pub use terminal_program::{inside, largest_repeat};
pub use tokens::Tokens;
pub use whitespace::Whitespace;

use crate::regular::regex::{self, Dialect, Node};
use crate::regular::term::Spelling;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// What is asked needs the texts that are left out of a format: those outside of it, or whether a listed text is one.
    LeftOut {
        format: Arc<str>,
        /// Where the schema names the format.
        pointer: Arc<str>,
        text: Option<Arc<str>>,
    },
    /// A limit, its value, and what is too large for it.
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

/// Makes leaves, and remembers what it has made and decided. One thread's.
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

    /// The texts in which a pattern is found; also says whether it can be read. The same node for the same pattern.
    pub fn read_pattern(&self, pattern: &str) -> Result<Node, regex::Fault> {
        if let Some(known) = self.patterns.borrow().get(pattern) {
            return known.clone();
        }
        let codes: Vec<u32> = pattern.chars().map(u32::from).collect();
        let read = regex::read(&codes, Dialect::Ecma, &regex::Limits::default());
        self.patterns.borrow_mut().insert(pattern.into(), read.clone());
        read
    }

    /// The spellings of the texts that pass a test; the same node for the same test.
    fn spelled_test(&self, test: &Test) -> Node {
        kept(&self.tests, test, || self.speller.spell(&self.test_node(test)))
    }
}

/// What is known of a key, or made for it now.
fn kept<K: Clone + Eq + Hash, V: Clone>(known: &RefCell<HashMap<K, V>>, key: &K, make: impl FnOnce() -> V) -> V {
    if let Some(value) = known.borrow().get(key) {
        return value.clone();
    }
    let value = make();
    known.borrow_mut().insert(key.clone(), value.clone());
    value
}

/// A regular node that is compiled into one automaton; one value for one node, wherever it stands.
#[derive(Clone, Debug)]
pub struct Terminal {
    item: Node,
}

impl Terminal {
    pub fn new(item: Node) -> Self {
        Terminal { item }
    }

    /// What stands inside.
    pub fn item(&self) -> &Node {
        &self.item
    }
}

/// The items one after the other, or the only one.
fn in_a_row(mut items: Vec<Node>) -> Node {
    match items.len() {
        1 => items.remove(0),
        _ => Node::sequence(items),
    }
}

/// One of the items, or the only one.
fn any_of_these(mut items: Vec<Node>) -> Node {
    match items.len() {
        1 => items.remove(0),
        _ => Node::choice(items),
    }
}
