//! The preferences of terminals that follow from their form alone. Most terminals need no other comparison.

use crate::captures::grammar_tree::{Node, Written};

/// The rule by which a terminal ranks its ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Preferred {
    /// Prefers the longer of two ends, if there can be two.
    Longest,
    /// Prefers the shorter end.
    Shortest,
    /// Ranks its ends by the order of its choices.
    Ordered,
}

/// The form of a node, as far as it decides a preference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// No match of the node is a prefix of another match.
    OneEnd,
    Plain(Preferred),
}

/// Compute the preference of each node that is regular.
pub fn preferences(written: &Written) -> Vec<Preferred> {
    let mut forms: Vec<Form> = Vec::with_capacity(written.nodes.len());
    for node in &written.nodes {
        let form = match node {
            Node::Bytes(_) | Node::Chars(_) | Node::Shortest(_) => Form::OneEnd,
            Node::Sequence(items) => {
                let mut forms = items.iter().map(|item| forms[*item as usize]);
                match forms.find(|form| *form != Form::OneEnd) {
                    None => Form::OneEnd,
                    Some(form) if forms.next().is_none() => form,
                    Some(_) => Form::Plain(Preferred::Ordered),
                }
            }
            Node::Choice(items) => match items[..] {
                [only] => forms[only as usize],
                _ => Form::Plain(Preferred::Ordered),
            },
            Node::Repeat {
                item,
                minimum,
                maximum,
                greedy,
            } => match (forms[*item as usize], minimum == maximum, greedy) {
                (Form::OneEnd, true, _) => Form::OneEnd,
                (Form::OneEnd, _, true) => Form::Plain(Preferred::Longest),
                (Form::OneEnd, _, false) => Form::Plain(Preferred::Shortest),
                (Form::Plain(Preferred::Longest), _, true) if *maximum == 1 => Form::Plain(Preferred::Longest),
                _ => Form::Plain(Preferred::Ordered),
            },
            Node::Terminal(item) => forms[*item as usize],
            _ => Form::Plain(Preferred::Longest),
        };
        forms.push(form);
    }
    let preferred = |form| match form {
        Form::OneEnd => Preferred::Longest,
        Form::Plain(preferred) => preferred,
    };
    forms.into_iter().map(preferred).collect()
}
