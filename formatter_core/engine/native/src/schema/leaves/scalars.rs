//! Makes one terminal from the scalars of a shape.

use std::sync::OnceLock;

use super::numbers::NumberSet;
use super::numerals::number_node;
use super::strings::StringSet;
use super::{kept, Leaves, Terminal};
use crate::base::heap;
use crate::base::tuning::MAX_STRINGS_DECIDED;
use crate::regular::regex::{Kind, Node};

/// The data on which a terminal of scalars depends, apart from the spelling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scalars {
    pub null: bool,
    /// A set of bits: 1 for false, 2 for true.
    pub booleans: u8,
    pub numbers: Vec<NumberSet>,
    pub strings: Vec<StringSet>,
    /// True if all numbers must be plain decimals.
    pub plain: bool,
}

impl Scalars {
    /// Estimate the heap memory, see `heap`; the memory of numbers and of excluded texts is approximate.
    pub fn heap(&self) -> usize {
        let strings = self.strings.iter().map(StringSet::heap).sum::<usize>();
        heap::list(&self.numbers) + heap::list(&self.strings) + strings
    }

    /// Return whether these are all values of some types; only booleans may be restricted. Such terminals are made once
    /// for all schemas.
    fn are_types(&self) -> bool {
        let are_numbers = match &self.numbers[..] {
            [] => true,
            [numbers] => numbers.is_any() || numbers.is_any_integer(),
            _ => false,
        };
        let are_strings = match &self.strings[..] {
            [] => true,
            [strings] => strings.is_any(),
            _ => false,
        };
        are_numbers && are_strings && !self.plain
    }

    /// Return whether texts must pass or fail tests and are not listed. Such terminals take long to make.
    pub fn take_tests(&self) -> bool {
        let is_tested = |strings: &StringSet| !(strings.passed.is_empty() && strings.failed.is_empty());
        let are_listed = |strings: &StringSet| strings.values.is_some() || !strings.excluded.is_empty();
        self.strings.iter().any(is_tested) && !self.strings.iter().any(are_listed)
    }
}

impl Leaves {
    /// Return the terminal of some scalars; None if there are none. Equal scalars have one terminal, so that engines
    /// build it once.
    pub fn scalar_terminal(&self, scalars: &Scalars) -> Option<Terminal> {
        let make = || match scalars.are_types() {
            true => self.types(scalars),
            false => self.scalar_node(scalars).map(Terminal::new),
        };
        kept(&self.scalars, scalars, make)
    }

    /// Return the terminal of whole types, which all schemas share.
    fn types(&self, scalars: &Scalars) -> Option<Terminal> {
        static KNOWN: OnceLock<Vec<OnceLock<Option<Node>>>> = OnceLock::new();
        let number = scalars
            .numbers
            .first()
            .map_or(0, |numbers| 1 + usize::from(numbers.is_any()));
        let parts = [
            (usize::from(scalars.null), 2),
            (usize::from(scalars.booleans), 4),
            (number, 3),
            (scalars.strings.len(), 2),
            (self.spelling() as usize, 2),
        ];
        let (place, count) = parts.iter().fold((0, 1), |(place, count), (part, most)| {
            (place * most + part, count * most)
        });
        let known = KNOWN.get_or_init(|| (0..count).map(|_| OnceLock::new()).collect());
        let make = || self.scalar_node(scalars).map(Node::kept);
        known.get(place)?.get_or_init(make).clone().map(Terminal::new)
    }

    fn scalar_node(&self, scalars: &Scalars) -> Option<Node> {
        let are_many = scalars.strings.len() > MAX_STRINGS_DECIDED;
        let strings = scalars
            .strings
            .iter()
            .filter(|each| are_many || !self.decide_no_string(each).0);
        let mut found = self.string_nodes(strings);
        let numbers = scalars.numbers.iter().filter(|each| !self.decide_no_number(each).0);
        found.extend(numbers.map(|each| number_node(each, self.spelling(), scalars.plain)));
        for (bit, word) in [(1, "false"), (2, "true")] {
            if scalars.booleans & bit > 0 {
                found.push(Node::text(word));
            }
        }
        if scalars.null {
            found.push(Node::text("null"));
        }
        (!found.is_empty()).then(|| any_of(found))
    }
}

/// Make a choice of the items; alternatives of an item become alternatives of the choice.
fn any_of(items: Vec<Node>) -> Node {
    let mut options = Vec::new();
    for item in items {
        match item.kind() {
            Kind::Choice(items) => options.extend(items.iter().cloned()),
            _ => options.push(item),
        }
    }
    match options.len() {
        1 => options.remove(0),
        _ => Node::choice(options),
    }
}
