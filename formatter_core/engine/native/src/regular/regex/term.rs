//! Makes terms from nodes, and decides whether a node matches anything.

use super::node::{Kind, Node};
use crate::base::limits::{Meter, Usage};
use crate::base::tuning::DECIDING_PATTERNS;
use crate::regular::derive::Derivatives;
use crate::regular::term::{Term, Terms, NOTHING, UNBOUNDED};

/// Return whether the node matches any text (None if this takes too long), and the number of elementary steps taken.
pub fn matches_something(node: &Node) -> (Option<bool>, u64) {
    let (states, work, nodes) = DECIDING_PATTERNS;
    if node.size() > nodes {
        return (None, 0);
    }
    let usage = Usage::default();
    let mut meter = Meter::new(work, &usage, states);
    let mut derivatives = Derivatives::new();
    let term = term_of(&mut derivatives.terms, node);
    let count = derivatives.count(term, 1, &mut meter);
    drop(meter);
    (count.ok().map(|count| count > 0), usage.work())
}

pub fn term_of(terms: &mut Terms, node: &Node) -> Term {
    let all = |terms: &mut Terms, items: &[Node]| items.iter().map(|item| term_of(terms, item)).collect::<Vec<Term>>();
    match node.kind() {
        Kind::Text(text) => terms.literal(text.as_bytes()),
        Kind::Chars(ranges) => terms.characters(ranges),
        Kind::Sequence(items) => {
            let items = all(terms, items);
            let last = terms.literal(b"");
            items
                .into_iter()
                .rev()
                .fold(last, |rest, item| terms.concatenation(item, rest))
        }
        Kind::Choice(items) => {
            let items = all(terms, items);
            terms.alternation(items)
        }
        Kind::Repeat(repeat) => {
            let item = term_of(terms, &repeat.item);
            terms.repeat(item, repeat.minimum, repeat.maximum.unwrap_or(UNBOUNDED))
        }
        Kind::Intersection(items) => {
            let items = all(terms, items);
            terms.intersection(items)
        }
        Kind::Complement(item) => {
            let item = term_of(terms, item);
            terms.complement(item)
        }
        Kind::Capture(_, item) => term_of(terms, item),
        Kind::JsonText(text, spelling) => terms.json_text(text, *spelling),
        // Patterns never have these nodes.
        Kind::ListedText(_) | Kind::Multiples { .. } => NOTHING,
    }
}
