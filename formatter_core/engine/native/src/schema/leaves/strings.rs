//! Exact sets of strings: lengths, patterns, formats and lists of values.
//!
//! The intersection of two sets is one set with the constraints of both. The complement of a set is a union of as many
//! sets as the set has constraints. An automaton of bounded size decides whether a set is empty, and how many texts it
//! has.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::mem::size_of;
use std::sync::Arc;

use super::formats::{format_node, wide_name};
use super::{Fault, Leaves, Outcome};
use crate::base::heap;
use crate::base::tuning::MAX_STRINGS_COMPARED;
use crate::regular::regex::Node;

/// A regular property of a text: an ECMA 262 pattern matches in it, or it has a format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    Pattern(Arc<str>),
    /// `narrowed` is the pointer of the format in the schema if we leave out texts that pass the test; then we cannot
    /// tell which texts fail it.
    Format {
        name: Arc<str>,
        narrowed: Option<Arc<str>>,
    },
}

impl Test {
    /// Return the name and the pointer of the format if we leave out texts of it.
    fn narrowed(&self) -> Option<(&Arc<str>, &Arc<str>)> {
        match self {
            Test::Format {
                name,
                narrowed: Some(pointer),
            } => Some((name, pointer)),
            _ => None,
        }
    }

    /// Return the test that accepts all texts that pass this test, including those that we leave out; None if any text
    /// may pass.
    pub fn wide(&self) -> Option<Test> {
        match self {
            Test::Format {
                name,
                narrowed: Some(_),
            } => wide_name(name).map(|wide| Test::Format {
                name: wide.into(),
                narrowed: None,
            }),
            _ => Some(self.clone()),
        }
    }

    /// Return the test without the texts that we leave out, as the exact test.
    pub fn enforced(&self) -> Test {
        match self {
            Test::Pattern(_) => self.clone(),
            Test::Format { name, .. } => Test::Format {
                name: name.clone(),
                narrowed: None,
            },
        }
    }
}

/// A set of texts that pass and fail these tests and whose length (in code points) is within bounds.
///
/// If there are `values`, they list the members, and no other field has an effect. `excluded` are single texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StringSet {
    pub minimum: u64,
    pub maximum: Option<u64>,
    pub passed: Vec<Test>,
    pub failed: Vec<Test>,
    pub excluded: BTreeSet<Arc<str>>,
    pub values: Option<Vec<Arc<str>>>,
}

impl StringSet {
    /// Estimate the heap memory, see `heap`; the memory of excluded texts is approximate.
    pub fn heap(&self) -> usize {
        let text = |text: &Arc<str>| heap::COUNTS + text.len();
        let test = |test: &Test| match test {
            Test::Pattern(pattern) => text(pattern),
            Test::Format { name, narrowed } => text(name) + narrowed.as_ref().map_or(0, text),
        };
        let tests = self.passed.iter().chain(&self.failed).map(test).sum::<usize>();
        let values = self
            .values
            .as_ref()
            .map_or(0, |values| heap::list(values) + values.iter().map(text).sum::<usize>());
        let excluded = self
            .excluded
            .iter()
            .map(|each| text(each) + size_of::<Arc<str>>())
            .sum::<usize>();
        heap::list(&self.passed) + heap::list(&self.failed) + tests + values + excluded
    }

    pub fn any() -> Self {
        StringSet::default()
    }

    pub fn is_any(&self) -> bool {
        *self == StringSet::default()
    }

    pub fn of_values(values: Vec<Arc<str>>) -> Self {
        StringSet {
            values: Some(values),
            ..StringSet::default()
        }
    }

    pub fn passing(test: Test) -> Self {
        StringSet {
            passed: vec![test],
            ..StringSet::default()
        }
    }

    pub fn other_than(texts: impl IntoIterator<Item = Arc<str>>) -> Self {
        StringSet {
            excluded: texts.into_iter().collect(),
            ..StringSet::default()
        }
    }

    /// Return the set without the texts that we leave out.
    pub fn as_enforced(&self) -> Self {
        StringSet {
            passed: self.passed.iter().map(Test::enforced).collect(),
            ..self.clone()
        }
    }

    /// Return the texts outside the set, as a union; refused if we leave out texts of the set.
    pub fn others(&self) -> Outcome<Vec<StringSet>> {
        for test in &self.passed {
            if let Some((name, pointer)) = test.narrowed() {
                return Err(left_out(name, pointer, None));
            }
        }
        if let Some(values) = &self.values {
            return Ok(vec![StringSet::other_than(values.iter().cloned())]);
        }
        let mut found = Vec::new();
        if self.minimum > 0 {
            found.push(StringSet {
                maximum: Some(self.minimum - 1),
                ..StringSet::default()
            });
        }
        if let Some(maximum) = self.maximum {
            found.push(StringSet {
                minimum: maximum.saturating_add(1),
                ..StringSet::default()
            });
        }
        found.extend(self.passed.iter().map(|test| StringSet {
            failed: vec![test.clone()],
            ..StringSet::default()
        }));
        found.extend(self.failed.iter().cloned().map(StringSet::passing));
        if !self.excluded.is_empty() {
            found.push(StringSet::of_values(self.excluded.iter().cloned().collect()));
        }
        Ok(found)
    }

    /// Return the constraints on the members, for comparisons: a set whose constraints are a subset of another's is at
    /// least as wide.
    fn demands(&self) -> HashSet<Demand<'_>> {
        let passed = self.passed.iter().map(Demand::Passed);
        let failed = self.failed.iter().map(Demand::Failed);
        passed
            .chain(failed)
            .chain(self.excluded.iter().map(Demand::OtherThan))
            .collect()
    }

    /// Return whether the bounds of the length are inside those of another set.
    fn lies_within(&self, wide: &StringSet) -> bool {
        let is_short = |maximum| self.maximum.is_some_and(|own| own <= maximum);
        self.minimum >= wide.minimum && wide.maximum.map_or(true, is_short)
    }
}

#[derive(PartialEq, Eq, Hash)]
enum Demand<'a> {
    Passed(&'a Test),
    Failed(&'a Test),
    OtherThan(&'a Arc<str>),
}

/// Return a union without alternatives that are obviously subsets of others; products of unions have many of them.
pub fn largest_strings(mut union: Vec<StringSet>) -> Vec<StringSet> {
    if union.len() < 2 {
        return union;
    }
    let demands: Vec<HashSet<Demand>> = union.iter().map(StringSet::demands).collect();
    let mut kept: Vec<bool> = union.iter().map(|each| each.values.is_some()).collect();
    let mut order: Vec<usize> = (0..union.len()).filter(|place| !kept[*place]).collect();
    order.sort_by_key(|place| demands[*place].len());
    let mut wide: Vec<usize> = Vec::new();
    for place in order {
        let is_inside =
            |other: &usize| demands[*other].is_subset(&demands[place]) && union[place].lies_within(&union[*other]);
        if !wide.iter().take(MAX_STRINGS_COMPARED).any(is_inside) {
            wide.push(place);
            kept[place] = true;
        }
    }
    drop(demands);
    let mut are_kept = kept.into_iter();
    union.retain(|_| are_kept.next() == Some(true));
    union
}

impl Leaves {
    /// Return whether a text passes a test; refused if it may be one of the texts that we leave out.
    pub fn matches(&self, test: &Test, text: &str) -> Outcome<bool> {
        if self.automaton_matches(test, text)? {
            return Ok(true);
        }
        if let Some((name, pointer)) = test.narrowed() {
            let may_pass = match test.wide() {
                Some(wide) => self.matches(&wide, text)?,
                None => true,
            };
            if may_pass {
                return Err(left_out(name, pointer, Some(text)));
            }
        }
        Ok(false)
    }

    /// Return whether a text is in a set.
    pub fn is_in(&self, text: &str, strings: &StringSet) -> Outcome<bool> {
        if let Some(values) = &strings.values {
            return Ok(values.iter().any(|value| **value == *text));
        }
        let length = text.chars().count() as u64;
        if length < strings.minimum
            || strings.maximum.is_some_and(|maximum| length > maximum)
            || strings.excluded.contains(text)
        {
            return Ok(false);
        }
        for test in &strings.passed {
            if !self.matches(test, text)? {
                return Ok(false);
            }
        }
        for test in &strings.failed {
            if self.matches(test, text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Return the intersection; None if it is certainly empty.
    pub fn meet_strings(&self, one: &StringSet, other: &StringSet) -> Outcome<Option<StringSet>> {
        if one.is_any() || one == other {
            return Ok(Some(other.clone()));
        }
        if other.is_any() {
            return Ok(Some(one.clone()));
        }
        if one.values.is_some() || other.values.is_some() {
            let (first, second) = if one.values.is_some() {
                (one, other)
            } else {
                (other, one)
            };
            let mut kept = Vec::new();
            for value in first.values.iter().flatten() {
                if self.is_in(value, second)? {
                    kept.push(value.clone());
                }
            }
            return Ok((!kept.is_empty()).then(|| StringSet::of_values(kept)));
        }
        let minimum = one.minimum.max(other.minimum);
        let maximum = one.maximum.into_iter().chain(other.maximum).min();
        let passed = each_once(one.passed.iter().chain(&other.passed));
        let failed = each_once(one.failed.iter().chain(&other.failed));
        if maximum.is_some_and(|maximum| minimum > maximum) || passed.iter().any(|test| failed.contains(test)) {
            return Ok(None);
        }
        Ok(Some(StringSet {
            minimum,
            maximum,
            passed,
            failed,
            excluded: one.excluded.union(&other.excluded).cloned().collect(),
            values: None,
        }))
    }

    /// Return the texts that pass a test, except those that we leave out; the same test gives the same node.
    pub fn test_node(&self, test: &Test) -> Node {
        match test {
            Test::Format { name, .. } => format_node(name),
            // The pattern of a test has been read before, so it is valid.
            Test::Pattern(pattern) => self.read_pattern(pattern).unwrap_or_else(|_| Node::no_text()),
        }
    }
}

/// Make the refusal of a question about the texts that we leave out of a format; `text` may be one of them.
fn left_out(format: &Arc<str>, pointer: &Arc<str>, text: Option<&str>) -> Fault {
    Fault::LeftOut {
        format: format.clone(),
        pointer: pointer.clone(),
        text: text.map(Arc::from),
    }
}

fn each_once<'a, T: Clone + Eq + Hash + 'a>(items: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut known = HashSet::new();
    items.filter(|item| known.insert(*item)).cloned().collect()
}
