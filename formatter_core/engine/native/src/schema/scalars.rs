//! Scalars that need no algebra of their own: types, lists, lengths, bounds, common patterns and formats, and what
//! `allOf`, `anyOf` and `oneOf` make of these. They become what `schema/scalars.py` makes of them, byte for byte.

mod read;

use crate::program::{operation, write_counted};
use crate::schema::common::Common;
use crate::schema::inside::Inside;
use crate::schema::json::Tree;
use crate::schema::nodes::Regular;
use crate::schema::numbers::{Interval, Numbers};
use crate::schema::strings::Strings;
use read::Reader;

const FALSE: u8 = 1;
const TRUE: u8 = 1 << 1;
const NULL: u8 = 1 << 2;
const BOOLEANS: u8 = FALSE | TRUE;
/// In the order in which they are written.
const WORDS: [(u8, &[u8]); 3] = [(FALSE, b"false"), (TRUE, b"true"), (NULL, b"null")];

/// Unions of more alternatives are left to others.
const MOST_ALTERNATIVES: usize = 8;

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
        if let Some(made) = text.contains("\"pattern\"").then(|| common.patterned(text)).flatten() {
            return Some(Scalars::Made(made));
        }
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
        let mut options = inside.strings(&set.strings(), &reader.patterns)?;
        let mut intervals = 0;
        for item in &set.items {
            if let Item::Numbers(numbers) = item {
                (!numbers.have_exponents()).then_some(())?;
                options += inside.numbers(numbers);
                intervals += usize::from(matches!(numbers, Numbers::Between(_)));
            }
        }
        // What several intervals share is written once, and whole types with one of two words are kept: that is left to
        // others.
        let is_type = |item: &Item| match item {
            Item::Numbers(numbers) => numbers.is_any_of_type(),
            Item::Strings(strings) => strings.is_any(),
        };
        let has_words_alone = set.items.is_empty();
        (!set.structured && intervals < 2 && (has_words_alone || !set.items.iter().all(is_type))).then_some(())?;
        for (bit, word) in WORDS {
            if set.words & bit > 0 {
                inside.bytes(word);
                options += 1;
            }
        }
        if options > 1 {
            inside.list(operation::CHOICE, options);
        }
        let mut made = inside.finished();
        if has_words_alone {
            let words = std::mem::take(&mut made.program);
            write_counted(&mut made.program, operation::KEPT, &words);
        }
        if !reader.patterns.is_empty() {
            common.keep_patterned(text, &made);
        }
        Some(Scalars::Made(made))
    }
}

/// Numbers or strings.
#[derive(Clone, PartialEq)]
enum Item<'a> {
    Numbers(Numbers),
    Strings(Strings<'a>),
}

impl<'a> Item<'a> {
    /// What is in both, if there is anything; None if that is left to others.
    fn met(&self, other: &Item<'a>) -> Option<Option<Item<'a>>> {
        match (self, other) {
            (Item::Numbers(one), Item::Numbers(other)) => Some(one.met(other).map(Item::Numbers)),
            (Item::Strings(one), Item::Strings(other)) => Some(one.met(other)?.map(Item::Strings)),
            _ => Some(None),
        }
    }

    /// Whether it is obviously inside another, which has fewer tests or comes before it, or holds all of its type.
    fn lies_within(&self, other: &Item, comes_before: bool) -> bool {
        match (self, other) {
            (Item::Numbers(_), Item::Numbers(other)) => other.is_any(),
            (Item::Strings(one), Item::Strings(other)) => {
                other.is_any() || one.lies_within(other) && (comes_before || one.tests() > other.tests())
            }
            _ => false,
        }
    }
}

/// A set of values.
struct Set<'a> {
    words: u8,
    /// Whether there may be arrays or objects.
    structured: bool,
    items: Vec<Item<'a>>,
}

impl<'a> Set<'a> {
    fn none() -> Self {
        Set {
            words: 0,
            structured: false,
            items: Vec::new(),
        }
    }

    fn any() -> Self {
        Set {
            words: BOOLEANS | NULL,
            structured: true,
            items: vec![
                Item::Numbers(Numbers::Between(Interval::ALL)),
                Item::Strings(Strings::ANY),
            ],
        }
    }

    fn is_nothing(&self) -> bool {
        self.words == 0 && !self.structured && self.items.is_empty()
    }

    fn strings(&self) -> Vec<&Strings<'a>> {
        let strings = self.items.iter().filter_map(|item| match item {
            Item::Numbers(_) => None,
            Item::Strings(strings) => Some(strings),
        });
        strings.collect()
    }

    /// The values of both; None if that is left to others.
    fn met(&self, other: &Set<'a>) -> Option<Set<'a>> {
        let mut items = Vec::new();
        for one in &self.items {
            for other in &other.items {
                items.extend(one.met(other)?);
            }
        }
        Some(Set {
            words: self.words & other.words,
            structured: self.structured && other.structured,
            items: largest(items)?,
        })
    }

    /// The values of any; None if that is left to others.
    fn united(sets: Vec<Set<'a>>) -> Option<Set<'a>> {
        let mut all = Set::none();
        let mut items = Vec::new();
        for set in sets {
            all.words |= set.words;
            all.structured |= set.structured;
            items.extend(set.items);
        }
        all.items = largest(items)?;
        Some(all)
    }

    /// Whether no value is in both for certain.
    fn is_apart_from(&self, other: &Set<'a>) -> bool {
        let are_apart = |one: &Item<'a>| other.items.iter().all(|other| matches!(one.met(other), Some(None)));
        self.words & other.words == 0 && self.items.iter().all(are_apart)
    }

    /// A schema that says the same with types alone, if there is one.
    #[inline(never)]
    fn types(&self) -> Option<String> {
        let (mut integers, mut numbers, mut strings) = (false, false, false);
        for item in &self.items {
            match item {
                Item::Numbers(Numbers::Between(interval)) if !interval.is_bounded() && !integers && !numbers => {
                    integers = interval.whole;
                    numbers = !interval.whole;
                }
                Item::Strings(each) if each.is_any() => strings = true,
                _ => return None,
            }
        }
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

/// A union without alternatives that are obviously inside others; None if there are too many.
fn largest(union: Vec<Item>) -> Option<Vec<Item>> {
    let mut found: Vec<Item> = Vec::new();
    for item in union {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    (found.len() <= MOST_ALTERNATIVES).then_some(())?;
    let is_inside = |place: usize| {
        let mut others = found.iter().enumerate().filter(|other| other.0 != place);
        others.any(|(other_place, other)| found[place].lies_within(other, other_place < place))
    };
    let mut are_kept = (0..found.len())
        .map(|place| !is_inside(place))
        .collect::<Vec<_>>()
        .into_iter();
    found.retain(|_| are_kept.next() == Some(true));
    Some(found)
}
