//! Decisions by automata of bounded size: which sets are empty, which texts a set contains and how many, and whether a
//! text passes a test.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use super::numbers::NumberSet;
use super::numerals::number_node;
use super::strings::{StringSet, Test};
use super::terminal_program::{write_inside, Bounds};
use super::{kept, Fault, Leaves, Outcome};
use crate::base::limits::{self, Limit, Limits, Meter, Usage};
use crate::base::tuning::{COUNTING_TEXTS, DECIDING_NUMBERS, DECIDING_STRINGS};
use crate::captures::grammar_tree::count_matches;
use crate::regular::derive::Derivatives;
use crate::regular::program::{operation, write_counted, MAGIC};
use crate::regular::regex::{term_of, Kind, Node};
use crate::regular::term::{Spelling, Term};

/// An answer, and the number of elementary steps that it takes to find it.
pub type Decision = (bool, u64);

/// The automaton of a test.
pub struct Automaton {
    derivatives: Derivatives,
    start: Term,
}

impl Leaves {
    /// Decide whether a set is known to be empty.
    pub fn decide_no_number(&self, numbers: &NumberSet) -> Decision {
        if numbers.values.is_some() || numbers.not_multiples.is_empty() && numbers.excluded.is_empty() {
            return (false, 0);
        }
        let decide = || decide_empty(&number_node(numbers, Spelling::Any, false), DECIDING_NUMBERS);
        kept(&self.numbers, numbers, decide)
    }

    /// Decide whether a set is known to be empty.
    pub fn decide_no_string(&self, strings: &StringSet) -> Decision {
        kept(&self.strings, strings, || self.worked_out(strings))
    }

    fn worked_out(&self, strings: &StringSet) -> Decision {
        if let Some(values) = &strings.values {
            return (values.is_empty(), 0);
        }
        if strings.passed.is_empty() && (strings.failed.is_empty() || strings.maximum.is_none()) {
            return (false, 0);
        }
        let nodes: Vec<Node> = strings.passed.iter().map(|test| self.test_node(test)).collect();
        let begin = || nodes.iter().map(beginning);
        let longest = begin().fold(
            "",
            |longest, next| if next.len() > longest.len() { next } else { longest },
        );
        if !begin().all(|each| longest.starts_with(each)) {
            return (true, 0);
        }
        // A failed test with another literal prefix cannot match; drop it.
        let mut wide = strings.clone();
        wide.passed = strings.passed.iter().filter_map(Test::wide).collect();
        wide.failed.retain(|test| {
            let node = self.test_node(test);
            let begin = beginning(&node);
            begin.starts_with(longest) || longest.starts_with(begin)
        });
        if let [only, ..] = &wide.passed[..] {
            if wide == StringSet::passing(only.clone()) && self.has_text(only) {
                return (false, 0);
            }
        }
        decide_empty(&self.text_node(&wide), DECIDING_STRINGS)
    }

    /// Return whether some text obviously passes a test: this holds for every format and for patterns without negation.
    fn has_text(&self, test: &Test) -> bool {
        matches!(test, Test::Format { .. }) || has_text(&self.test_node(test))
    }

    /// Count the texts of a set, at most `most`; also return the elementary steps that this took.
    pub fn count_texts(&self, strings: &StringSet, most: u64) -> Outcome<(u64, u64)> {
        match &strings.values {
            Some(values) => Ok((most.min(values.len() as u64), 0)),
            None => {
                let (count, steps) = count(&self.text_node(strings), COUNTING_TEXTS, most);
                Ok((count?, steps))
            }
        }
    }

    /// Return the texts of a set that does not have too many, the shortest first.
    pub fn texts(&self, strings: &StringSet) -> Outcome<Vec<Arc<str>>> {
        if let Some(values) = &strings.values {
            return Ok(values.clone());
        }
        let mut automaton = Automaton::of(&self.text_node(strings));
        automaton.texts().map_err(too_complex(Limits::default()))
    }

    /// Return whether a text passes a test, ignoring whether the test leaves texts out.
    pub(super) fn automaton_matches(&self, test: &Test, text: &str) -> Outcome<bool> {
        let key = test.enforced();
        let mut automata = self.automata.borrow_mut();
        if !automata.contains_key(&key) {
            let made = Automaton::of(&self.test_node(test));
            automata.insert(key.clone(), Rc::new(made.into()));
        }
        let automaton = automata[&key].clone();
        drop(automata);
        let found = automaton.borrow_mut().accepts(text.as_bytes());
        found.map_err(too_complex(Limits::default()))
    }
}

impl Automaton {
    fn of(node: &Node) -> Self {
        let mut derivatives = Derivatives::new();
        let start = term_of(&mut derivatives.terms, node);
        Automaton { derivatives, start }
    }

    fn accepts(&mut self, text: &[u8]) -> limits::Outcome<bool> {
        let (bounds, usage) = (Limits::default(), Usage::default());
        let mut meter = Meter::new(bounds.work, &usage, bounds.states);
        let mut state = self.start;
        for byte in text {
            state = self.derivatives.after(state, *byte, &mut meter)?;
        }
        Ok(self.derivatives.terms.nullable(state))
    }

    fn texts(&mut self) -> limits::Outcome<Vec<Arc<str>>> {
        let (bounds, usage) = (Limits::default(), Usage::default());
        let mut meter = Meter::new(bounds.work, &usage, bounds.states);
        let mut pending = VecDeque::from([(self.start, Vec::new())]);
        let mut found = Vec::new();
        while let Some((state, text)) = pending.pop_front() {
            if self.derivatives.terms.nullable(state) {
                found.push(String::from_utf8_lossy(&text).as_ref().into());
            }
            for place in self.derivatives.moves(state, &mut meter)?.places() {
                let step = self.derivatives.step(place);
                if self.derivatives.live(step.target, &mut meter)? {
                    let longer = |byte| [&text[..], &[byte]].concat();
                    pending.extend((step.low..=step.high).map(|byte| (step.target, longer(byte))));
                }
            }
        }
        Ok(found)
    }
}

/// Decide whether a node is known to match nothing; it is not known if the given numbers of states and steps do not
/// suffice.
fn decide_empty(node: &Node, bounds: (u64, u64)) -> Decision {
    let (count, steps) = count(node, bounds, 1);
    (matches!(count, Ok(0)), steps)
}

/// Count the texts that a node matches, at most `most`; also return the elementary steps that this took.
fn count(node: &Node, (states, work): (u64, u64), most: u64) -> (Outcome<u64>, u64) {
    let bounds = Limits {
        states,
        work,
        ..Limits::default()
    };
    let inside = match write_inside(node, &Bounds::default()) {
        Ok(inside) => inside,
        Err(fault) => return (Err(fault), 0),
    };
    let mut program = MAGIC.to_vec();
    program.extend([1, 0]);
    write_counted(&mut program, operation::TERMINAL, &inside);
    program.push(operation::RULE_END);
    let usage = Usage::default();
    let found = count_matches(&program, most, &bounds, &mut Meter::new(work, &usage, states));
    (found.map_err(too_complex(bounds)), usage.work())
}

fn too_complex(bounds: Limits) -> impl Fn(limits::Fault) -> Fault {
    move |fault| match fault {
        limits::Fault::Limit(Limit::States) => Fault::limit("states", bounds.states, "a terminal"),
        limits::Fault::Limit(Limit::Nodes) => Fault::limit("nodes", bounds.nodes, "a terminal"),
        _ => Fault::limit("work", bounds.work, "a terminal"),
    }
}

/// Return a prefix with which every text of a node obviously begins.
fn beginning(mut node: &Node) -> &str {
    loop {
        match node.kind() {
            Kind::Sequence(items) if !items.is_empty() => node = &items[0],
            Kind::Text(text) => return text,
            _ => return "",
        }
    }
}

/// Return whether a node obviously matches some text; false for nodes that restrict others, such as complements.
fn has_text(node: &Node) -> bool {
    match node.kind() {
        Kind::Chars(ranges) => !ranges.is_empty(),
        Kind::Text(_) => true,
        Kind::Sequence(items) => items.iter().all(has_text),
        Kind::Choice(items) => items.iter().any(has_text),
        Kind::Repeat(repeat) => repeat.minimum == 0 || has_text(&repeat.item),
        Kind::Capture(_, item) => has_text(item),
        _ => false,
    }
}
