//! Goals: conjunctions of literals without repetition and without obvious contradiction.

use std::collections::HashMap;
use std::rc::Rc;

use crate::base::hash::{FastMap, FastSet};
use crate::schema::json::{Tree, Value};
use crate::schema::keywords::is_annotation;
use crate::schema::load::{Literal, Loader, Location, Said, FALSE, TRUE};
use crate::schema::report::Outcome;
use crate::schema::single::{Scalar, Single};

/// A conjunction of literals, in order, without `TRUE`; a contradiction is `[FALSE]`.
pub type Goal = Rc<[Literal]>;

/// A cache that makes goals and finds equal schemas.
#[derive(Default)]
pub struct Goals {
    same: FastMap<Literal, Literal>,
    first_to_say: HashMap<(usize, String), Literal>,
    conjoined: FastMap<Rc<[Literal]>, Goal>,
}

/// Return whether a goal is a contradiction.
pub fn is_false(goal: &[Literal]) -> bool {
    *goal == [FALSE]
}

impl Goals {
    /// Make the goal of these literals: `[FALSE]` if one schema is both required and forbidden.
    pub fn conjoin(&mut self, loader: &mut Loader, literals: &[Literal]) -> Outcome<Goal> {
        if let Some(known) = self.conjoined.get(literals) {
            return Ok(Rc::clone(known));
        }
        let goal = self.joined(loader, literals)?;
        self.conjoined.insert(literals.into(), Rc::clone(&goal));
        Ok(goal)
    }

    fn joined(&mut self, loader: &mut Loader, literals: &[Literal]) -> Outcome<Goal> {
        let mut known = FastSet::default();
        let mut kept: Vec<Literal> = literals.iter().copied().filter(|each| known.insert(*each)).collect();
        if known.contains(&FALSE) {
            return Ok([FALSE].into());
        }
        kept.retain(|literal| *literal != TRUE);
        if kept.len() < 2 {
            return Ok(kept.into());
        }
        // Of equal schemas we keep the first one, in the place of the last one.
        let mut distinct: Vec<Literal> = Vec::with_capacity(kept.len());
        let mut places: FastMap<Literal, usize> = FastMap::default();
        for literal in kept.into_iter().rev() {
            let same = self.same_schema(loader, literal)?;
            match places.get(&same) {
                Some(place) => distinct[*place] = literal,
                None => {
                    places.insert(same, distinct.len());
                    distinct.push(literal);
                }
            }
        }
        if places.keys().any(|same| places.contains_key(&-same)) {
            return Ok([FALSE].into());
        }
        distinct.reverse();
        Ok(distinct.into())
    }

    /// Return one literal that represents all equal schemas.
    pub fn same_schema(&mut self, loader: &mut Loader, literal: Literal) -> Outcome<Literal> {
        if literal.abs() == TRUE {
            return Ok(literal);
        }
        let mut chain = Vec::new();
        let mut next = literal.abs();
        let same = loop {
            if next.abs() == TRUE {
                break next;
            }
            if let Some(same) = self.same.get(&next) {
                break *same;
            }
            let location = loader.location(next);
            if said(&location).is_some_and(|mut said| said.next() == Some("$ref") && said.next().is_none()) {
                self.same.insert(next, next);
                chain.push(next);
                next = loader.resolve(&location, "$ref")?;
            } else {
                let first = *self
                    .first_to_say
                    .entry((location.resource, key_of(&location)))
                    .or_insert(next);
                self.same.insert(next, first);
                break first;
            }
        };
        for each in chain {
            self.same.insert(each, same);
        }
        Ok(same * literal.signum())
    }
}

/// Return the keywords of a schema in the text, without annotations.
fn said(location: &Location) -> Option<impl Iterator<Item = &str>> {
    let keywords = location.entries().map(|entry| entry.0);
    (!location.is_synthetic()).then(|| keywords.filter(|keyword| !is_annotation(keyword)))
}

/// Return a text that is equal for equal schemas.
fn key_of(location: &Location) -> String {
    let (mut key, tree) = (String::new(), location.tree());
    if !location.is_synthetic() {
        let entries = location.entries().filter(|(keyword, _)| !is_annotation(keyword));
        write_sorted(tree, entries.collect(), &mut key);
        return key;
    }
    key.push_str("{4:enum[");
    match &location.said {
        Said::Value(value) => write_same(tree, *value, &mut key),
        Said::Single(value) => write_single(&value.in_one_order(), &mut key),
        Said::Schema(_) => {}
    }
    key.push_str(",],}");
    key
}

/// Write a value so that equal values have equal texts, whatever the order of their keys.
fn write_same(tree: &Tree, value: u32, key: &mut String) {
    match tree.value(value) {
        Value::Object(_) => {
            let entries = tree.entries(value).unwrap_or(&[]).iter();
            write_sorted(
                tree,
                entries.map(|(name, value)| (tree.text(name), *value)).collect(),
                key,
            );
        }
        Value::List(_) => {
            key.push('[');
            for item in tree.items(value).unwrap_or(&[]) {
                write_same(tree, *item, key);
                key.push(',');
            }
            key.push(']');
        }
        Value::String(text) => write_text(tree.text(text), key),
        Value::Number => key.push_str(&tree.source(value).to_ascii_lowercase().replace('+', "")),
        _ => key.push_str(tree.source(value)),
    }
}

/// Write a value whose keys are in canonical order, in the same form as `write_same`.
fn write_single(value: &Single, key: &mut String) {
    match value {
        Single::Scalar(Scalar::Null) => key.push_str("null"),
        Single::Scalar(Scalar::Bool(value)) => key.push_str(if *value { "true" } else { "false" }),
        Single::Scalar(Scalar::Number(number)) => key.push_str(&format!("={}", number.fraction_text())),
        Single::Scalar(Scalar::Text(text)) => write_text(text, key),
        Single::List(items) => {
            key.push('[');
            for item in items {
                write_single(item, key);
                key.push(',');
            }
            key.push(']');
        }
        Single::Object(entries) => {
            key.push('{');
            for (name, value) in entries {
                write_text(name, key);
                write_single(value, key);
                key.push(',');
            }
            key.push('}');
        }
    }
}

fn write_sorted(tree: &Tree, mut entries: Vec<(&str, u32)>, key: &mut String) {
    entries.sort_unstable_by_key(|entry| entry.0);
    key.push('{');
    for (name, value) in entries {
        write_text(name, key);
        write_same(tree, value, key);
        key.push(',');
    }
    key.push('}');
}

fn write_text(text: &str, key: &mut String) {
    key.push_str(&format!("{}:{text}", text.len()));
}
