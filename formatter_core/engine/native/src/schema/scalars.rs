//! Scalars that need no algebra of their own: types, lists, lengths, bounds, common patterns and formats, and what
//! `allOf`, `anyOf` and `oneOf` make of these. They become what `schema/scalars.py` makes of them, byte for byte.

mod read;

use crate::program::operation;
use crate::schema::common::Common;
use crate::schema::inside::Inside;
use crate::schema::json::Tree;
use crate::schema::nodes::{write_counted, Regular};
use crate::schema::numbers::{Interval, Numbers};
use crate::schema::strings::{largest, Strings, MOST_ALTERNATIVES};
use read::Reader;

const FALSE: u8 = 1;
const TRUE: u8 = 1 << 1;
const NULL: u8 = 1 << 2;
const BOOLEANS: u8 = FALSE | TRUE;
/// In the order in which they are written.
const WORDS: [(u8, &[u8]); 3] = [(FALSE, b"false"), (TRUE, b"true"), (NULL, b"null")];

/// What a schema allows.
pub enum Scalars {
    /// All values of these types, by a schema that is the same however they were written.
    Types(Box<str>),
    /// What stands inside of its terminal.
    Made(Regular),
    /// No value.
    Nothing,
}

impl Scalars {
    /// What a schema says, which is given as text; None if that is left to others.
    pub fn read(text: &str, common: &Common) -> Option<Scalars> {
        let tree = Tree::read(text)?;
        let mut reader = Reader::new(&tree, common);
        let set = reader.set(tree.root, 0)?;
        if set.is_nothing() {
            return Some(Scalars::Nothing);
        }
        if let Some(types) = set.types() {
            return Some(Scalars::Types(types.into()));
        }
        let mut inside = Inside::new(&common.parts);
        let mut options = inside.strings(&set.strings, &reader.patterns)?;
        // What several sets of numbers share is written once: that is left to others.
        let is_interval = |numbers: &&Numbers| matches!(numbers, Numbers::Between(_));
        (!set.structured && set.numbers.iter().filter(is_interval).count() < 2).then_some(())?;
        for numbers in &set.numbers {
            options += inside.numbers(numbers);
        }
        for (bit, word) in WORDS {
            if set.words & bit > 0 {
                inside.bytes(word);
                options += 1;
            }
        }
        if options > 1 {
            inside.list(operation::CHOICE, options);
        }
        let mut made = inside.regular;
        if set.numbers.is_empty() && set.strings.is_empty() {
            let words = std::mem::take(&mut made.program);
            write_counted(&mut made.program, operation::KEPT, &words);
        } else {
            // Whole types with one of two words are written otherwise.
            let has_more = !set.numbers.iter().all(Numbers::is_any_of_type) || !set.strings.iter().all(Strings::is_any);
            has_more.then_some(())?;
        }
        Some(Scalars::Made(made))
    }
}

/// A set of values.
#[derive(Clone)]
struct Set<'a> {
    words: u8,
    /// Whether there may be arrays or objects.
    structured: bool,
    numbers: Vec<Numbers>,
    strings: Vec<Strings<'a>>,
}

impl<'a> Set<'a> {
    fn any() -> Self {
        Set {
            words: BOOLEANS | NULL,
            structured: true,
            numbers: vec![Numbers::Between(Interval::ALL)],
            strings: vec![Strings::ANY],
        }
    }

    fn none() -> Self {
        Set {
            words: 0,
            structured: false,
            numbers: Vec::new(),
            strings: Vec::new(),
        }
    }

    fn is_nothing(&self) -> bool {
        self.words == 0 && !self.structured && self.numbers.is_empty() && self.strings.is_empty()
    }

    /// The values of both; None if that is left to others.
    fn met(&self, other: &Set<'a>) -> Option<Set<'a>> {
        let numbers = product(&self.numbers, &other.numbers, Numbers::is_any, |one, other| {
            Some(one.met(other))
        })?;
        let strings = product(&self.strings, &other.strings, Strings::is_any, Strings::met)?;
        Some(Set {
            words: self.words & other.words,
            structured: self.structured && other.structured,
            numbers,
            strings: largest(strings)?,
        })
    }

    /// The values of any; None if that is left to others.
    fn united(sets: Vec<Set<'a>>) -> Option<Set<'a>> {
        let mut sets = sets.into_iter();
        let mut all = sets.next()?;
        let is_one = sets.len() == 0;
        for set in sets {
            all.words |= set.words;
            all.structured |= set.structured;
            all.numbers.extend(set.numbers);
            all.strings.extend(set.strings);
        }
        if !is_one {
            all.numbers = each_once(all.numbers, Numbers::is_any);
            all.strings = largest(each_once(all.strings, Strings::is_any))?;
        }
        (all.numbers.len() <= MOST_ALTERNATIVES).then_some(all)
    }

    /// Whether no value is in both for certain.
    fn is_apart_from(&self, other: &Set<'a>) -> bool {
        let are_apart = |one: &Strings<'a>, other: &Strings<'a>| matches!(one.met(other), Some(None));
        let mut numbers = self.numbers.iter();
        let mut strings = self.strings.iter();
        self.words & other.words == 0
            && numbers.all(|one| other.numbers.iter().all(|other| one.met(other).is_none()))
            && strings.all(|one| other.strings.iter().all(|other| are_apart(one, other)))
    }

    /// A schema that says the same with types alone, if there is one.
    fn types(&self) -> Option<String> {
        let (mut integers, mut numbers) = (false, false);
        match &self.numbers[..] {
            [] => {}
            [Numbers::Between(interval)] if !interval.is_bounded() => {
                integers = interval.whole;
                numbers = !interval.whole;
            }
            _ => return None,
        }
        let strings = match &self.strings[..] {
            [] => false,
            [strings] if strings.is_any() => true,
            _ => return None,
        };
        let booleans = self.words & BOOLEANS;
        (!self.structured && (booleans == 0 || booleans == BOOLEANS)).then_some(())?;
        let mut text = String::from("{\"type\":[");
        for (name, has) in [
            ("null", self.words & NULL > 0),
            ("boolean", booleans > 0),
            ("integer", integers),
            ("number", numbers),
            ("string", strings),
        ] {
            if has {
                text.push_str(if text.ends_with('[') { "\"" } else { ",\"" });
                text.push_str(name);
                text.push('"');
            }
        }
        Some(text + "]}")
    }
}

/// The intersections of two unions, each once; None if that is left to others.
fn product<T: Clone + PartialEq>(
    first: &[T],
    second: &[T],
    is_any: impl Fn(&T) -> bool,
    met: impl Fn(&T, &T) -> Option<Option<T>>,
) -> Option<Vec<T>> {
    match (first, second) {
        ([only], others) | (others, [only]) if is_any(only) => return Some(others.to_vec()),
        _ => {}
    }
    let mut found = Vec::new();
    for one in first {
        for other in second {
            found.extend(met(one, other)?.filter(|both| !found.contains(both)));
        }
    }
    (found.len() <= MOST_ALTERNATIVES).then_some(found)
}

/// The alternatives, each once, or the one that holds all.
fn each_once<T: PartialEq>(items: Vec<T>, is_any: impl Fn(&T) -> bool) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if is_any(&item) {
            return vec![item];
        }
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}
