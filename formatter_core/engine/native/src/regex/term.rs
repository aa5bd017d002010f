//! The terms of nodes, for questions about their languages.

use super::node::{Kind, Node};
use crate::term::{Term, Terms, UNBOUNDED};

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
    }
}
