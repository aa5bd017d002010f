//! Sets of strings as regular nodes: their texts without quotes, and their JSON spellings with quotes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::digits::repeat;
use super::formats::spelled_format;
use super::spelling::{free_body, free_char, not_in, quote, words};
use super::strings::{StringSet, Test};
use super::Leaves;
use crate::regular::regex::Node;

/// A constraint of a set, as a key: equal constraints have equal keys.
#[derive(PartialEq)]
enum Demand<'a> {
    Passed(&'a Test),
    Failed(&'a Test),
    Lengths(u64, Option<u64>),
    OtherThan(&'a BTreeSet<Arc<str>>),
    Any,
}

impl Leaves {
    /// Make the texts of a set as they are, without quotes and escapes.
    pub fn text_node(&self, strings: &StringSet) -> Node {
        let literals =
            |texts: &mut dyn Iterator<Item = &Arc<str>>| Node::choice(texts.map(|text| Node::text(&**text)).collect());
        if let Some(values) = &strings.values {
            return literals(&mut values.iter());
        }
        let mut items: Vec<Node> = strings.passed.iter().map(|test| self.test_node(test)).collect();
        items.extend(strings.failed.iter().map(|test| Node::complement(self.test_node(test))));
        if strings.minimum > 0 || strings.maximum.is_some() || strings.passed.is_empty() {
            items.push(of_length(Node::any_char(), strings));
        }
        if !strings.excluded.is_empty() {
            items.push(Node::complement(literals(&mut strings.excluded.iter())));
        }
        all_of(items)
    }

    /// Make the spellings of the texts of a union, with quotes, as alternatives. Shared constraints are written once.
    pub fn string_nodes<'a>(&self, union: impl Iterator<Item = &'a StringSet>) -> Vec<Node> {
        let mut found = Vec::new();
        let mut demands: Vec<Vec<(Demand, Node)>> = Vec::new();
        for strings in union {
            match strings.is_any() || strings.values.is_some() {
                true => found.push(quoted(self.string_body(strings))),
                false => demands.push(self.demands(strings)),
            }
        }
        let has = |each: &[(Demand, Node)], wanted: &Demand| each.iter().any(|(demand, _)| demand == wanted);
        let shared: Vec<&(Demand, Node)> = match &demands[..] {
            [first, others @ ..] if !others.is_empty() => {
                let is_shared = |demand: &&(Demand, Node)| others.iter().all(|each| has(each, &demand.0));
                first.iter().filter(is_shared).collect()
            }
            _ => Vec::new(),
        };
        if shared.is_empty() {
            let nodes = |each: Vec<(Demand, Node)>| each.into_iter().map(|(_, node)| node).collect();
            found.extend(demands.into_iter().map(|each| quoted(all_of(nodes(each)))));
            return found;
        }
        let mut items: Vec<Node> = shared.iter().map(|(_, node)| node.clone()).collect();
        let is_rest = |(demand, node): &(Demand, Node)| {
            let is_shared = shared.iter().any(|(shared, _)| shared == demand);
            (!is_shared).then(|| node.clone())
        };
        let rest: Vec<Vec<Node>> = demands
            .iter()
            .map(|each| each.iter().filter_map(is_rest).collect())
            .collect();
        if rest.iter().all(|nodes| !nodes.is_empty()) {
            items.push(Node::choice(rest.into_iter().map(all_of).collect()));
        }
        found.push(quoted(all_of(items)));
        found
    }

    /// Make the spellings of the texts of a set, without quotes.
    pub fn string_body(&self, strings: &StringSet) -> Node {
        if strings.is_any() {
            return free_body(self.spelling());
        }
        if let Some(values) = &strings.values {
            return words(values, self.spelling());
        }
        all_of(self.demands(strings).into_iter().map(|(_, node)| node).collect())
    }

    /// Return the constraints of a set without listed values, each with the texts that satisfy it.
    fn demands<'a>(&self, strings: &'a StringSet) -> Vec<(Demand<'a>, Node)> {
        let spelling = self.spelling();
        let mut found: Vec<(Demand, Node)> = Vec::new();
        for test in &strings.passed {
            let node = match test {
                Test::Format { name, .. } => spelled_format(name, spelling),
                Test::Pattern(_) => self.spelled_test(test),
            };
            found.push((Demand::Passed(test), node));
        }
        if strings.minimum > 0 || strings.maximum.is_some() {
            let lengths = Demand::Lengths(strings.minimum, strings.maximum);
            found.push((lengths, of_length(free_char(spelling), strings)));
        }
        if !strings.excluded.is_empty() {
            let others = not_in(strings.excluded.iter().map(|text| &**text), spelling);
            found.push((Demand::OtherThan(&strings.excluded), others));
        }
        if found.is_empty() {
            found.push((Demand::Any, free_body(spelling)));
        }
        for test in &strings.failed {
            found.push((Demand::Failed(test), Node::complement(self.spelled_test(test))));
        }
        found
    }
}

fn of_length(char: Node, strings: &StringSet) -> Node {
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    repeat(char, count(strings.minimum), strings.maximum.map(count))
}

fn quoted(body: Node) -> Node {
    Node::sequence(vec![quote(), body, quote()])
}

fn all_of(mut items: Vec<Node>) -> Node {
    match items.len() {
        1 => items.remove(0),
        _ => Node::intersection(items),
    }
}
