//! What terminals prefer as far as it is plain from their form: most need no comparison.

use crate::captures::grammar_tree::{Node, Written};

/// What a terminal prefers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Preferred {
    /// The longer one of two ends, where there can be two.
    Longest,
    /// The shorter one.
    Shortest,
    /// What its choices say.
    Ordered,
}

/// What is plain from a node's form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// No match begins with another one.
    OneEnd,
    Plain(Preferred),
}

/// What each node prefers, as far as nodes are regular.
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
