//! What schemas say of scalars, as sets.

use super::{Item, Set, BOOLEANS, FALSE, MOST_ALTERNATIVES, NULL, TRUE};
use crate::schema::common::Common;
use crate::schema::json::{Tree, Value};
use crate::schema::locations::{about, about_of, OF_NUMBERS, OF_STRINGS};
use crate::schema::numbers::{Decimal, Interval, Numbers};
use crate::schema::patterns::Pattern;
use crate::schema::strings::{each_once, Strings, Test};

/// The largest length; more is left to others.
const LONGEST: u32 = 100_000;
/// The most numbers that are listed; more are left to others.
const MOST_NUMBERS: usize = 100;
/// Deeper schemas are left to others.
const DEEPEST: u32 = 16;

pub struct Reader<'a> {
    tree: &'a Tree,
    common: &'a Common,
    /// By their texts.
    pub patterns: Vec<(&'a str, Pattern)>,
}

impl<'a> Reader<'a> {
    pub fn new(tree: &'a Tree, common: &'a Common) -> Self {
        Reader {
            tree,
            common,
            patterns: Vec::new(),
        }
    }

    /// The values that a schema allows; None if that is left to others.
    pub fn set(&mut self, schema: u32, depth: u32) -> Option<Set<'a>> {
        (depth <= DEEPEST).then_some(())?;
        let (tree, draft) = (self.tree, self.common.draft);
        let entries = match tree.value(schema) {
            Value::Bool(true) if draft > 4 => return Some(Set::any()),
            Value::Bool(false) if draft > 4 => return Some(Set::none()),
            _ => tree.entries(schema)?,
        };
        for (name, value) in entries {
            let name = tree.text(name);
            let understood = about::NUMBERS | about::STRINGS | about::LISTED | about::COMBINED;
            let is_null = matches!(tree.value(*value), Value::Null) && name != "const";
            let said = if name == "type" { 0 } else { about_of(name) };
            (said & !understood == 0 && !(is_null && about_of(name) > 0)).then_some(())?;
        }
        let get = |name| tree.get(schema, name);
        ["not", "if", "then", "else"]
            .into_iter()
            .all(|name| get(name).is_none())
            .then_some(())?;
        let mut set = self.typed(schema)?;
        if let Some(values) = get("enum") {
            set = set.met(&self.listed(tree.items(values)?)?)?;
        }
        if let Some(value) = get("const").filter(|_| draft > 4) {
            set = set.met(&self.listed(&[value])?)?;
        }
        if let Some(branches) = get("allOf") {
            for branch in self.list(branches)? {
                // One that only says `oneOf` comes last.
                tree.get(*branch, "oneOf").is_none().then_some(())?;
                set = set.met(&self.set(*branch, depth + 1)?)?;
            }
        }
        if let Some(branches) = get("anyOf") {
            let branches = self.sets(branches, depth)?;
            set = set.met(&Set::united(branches)?)?;
        }
        if let Some(branches) = get("oneOf") {
            let branches = self.sets(branches, depth)?;
            let met: Option<Vec<Set>> = branches.iter().map(|branch| set.met(branch)).collect();
            let met = met?;
            let mut pairs = met.iter().enumerate().flat_map(|(place, one)| {
                let others = branches.iter().enumerate().filter(move |other| other.0 != place);
                others.map(move |(_, other)| (one, other))
            });
            pairs.all(|(one, other)| one.is_apart_from(other)).then_some(())?;
            set = Set::united(met)?;
        }
        Some(set)
    }

    fn list(&self, value: u32) -> Option<&'a [u32]> {
        let items = self.tree.items(value)?;
        (1..=MOST_ALTERNATIVES).contains(&items.len()).then_some(items)
    }

    fn sets(&mut self, branches: u32, depth: u32) -> Option<Vec<Set<'a>>> {
        let branches = self.list(branches)?.iter();
        branches.map(|branch| self.set(*branch, depth + 1)).collect()
    }

    /// What `type` and the keywords for single types say; those for other types say nothing.
    fn typed(&mut self, schema: u32) -> Option<Set<'a>> {
        let (tree, draft) = (self.tree, self.common.draft);
        let mut set = Set::none();
        let (mut numbers, mut integers, mut strings) = (true, false, true);
        match tree.get(schema, "type") {
            None => {
                set.words = BOOLEANS | NULL;
                set.structured = true;
            }
            Some(value) => {
                (numbers, strings) = (false, false);
                let single = [value];
                let names = tree.items(value).filter(|names| !names.is_empty()).unwrap_or(&single);
                for name in names {
                    match tree.string(*name)? {
                        "null" => set.words |= NULL,
                        "boolean" => set.words |= BOOLEANS,
                        "integer" => integers = true,
                        "number" => numbers = true,
                        "string" => strings = true,
                        "array" | "object" => set.structured = true,
                        _ => return None,
                    }
                }
            }
        }
        let has = |names: &[&str]| names.iter().any(|name| tree.get(schema, name).is_some());
        if numbers || integers {
            let of_type = if numbers {
                Interval::ALL
            } else {
                Interval::whole(draft == 4)
            };
            let mut of_type = Some(Numbers::Between(of_type));
            if has(&OF_NUMBERS) {
                tree.get(schema, "multipleOf").is_none().then_some(())?;
                let bounded = Interval::read(tree, schema, draft)?.narrowed();
                of_type = bounded.and_then(|bounded| of_type?.met(&bounded));
            }
            set.items.extend(of_type.map(Item::Numbers));
        }
        if strings {
            let limited = if has(&OF_STRINGS) {
                self.limited(schema)?
            } else {
                Some(Strings::ANY)
            };
            set.items.extend(limited.map(Item::Strings));
        }
        Some(set)
    }

    /// The strings of a limited length, with a pattern or a format; None within if there are none.
    #[inline(never)]
    fn limited(&mut self, schema: u32) -> Option<Option<Strings<'a>>> {
        let tree = self.tree;
        let count = |name| match tree.get(schema, name) {
            None => Some(None),
            Some(value) => tree.source(value).parse().ok().map(Some),
        };
        let (minimum, maximum) = (count("minLength")?.unwrap_or(0), count("maxLength")?);
        (minimum.max(maximum.unwrap_or(0)) <= LONGEST).then_some(())?;
        let mut tests = Vec::new();
        if let Some(pattern) = tree.get(schema, "pattern") {
            let pattern = tree.string(pattern)?;
            let known = self.patterns.iter().position(|known| known.0 == pattern);
            if known.is_none() {
                self.patterns.push((pattern, Pattern::read(pattern)?));
            }
            tests.push(Test::Pattern(known.unwrap_or(self.patterns.len() - 1)));
        }
        if let Some(format) = tree.get(schema, "format") {
            let format = tree.string(format)?;
            if let Some(number) = self.common.parts.format(format) {
                self.common.parts.formats[number].given.as_ref()?;
                tests.push(Test::Format(number));
            }
        }
        let is_some = maximum.map_or(true, |maximum| minimum <= maximum);
        Some(is_some.then_some(Strings::Limited {
            minimum,
            maximum,
            tests,
        }))
    }

    /// The values of a list.
    fn listed(&self, values: &[u32]) -> Option<Set<'a>> {
        let tree = self.tree;
        let mut set = Set::none();
        let mut numbers = Vec::new();
        let mut strings = Vec::new();
        for value in values {
            match tree.value(*value) {
                Value::String(text) => strings.push(tree.text(text)),
                Value::Bool(false) => set.words |= FALSE,
                Value::Bool(true) => set.words |= TRUE,
                Value::Null => set.words |= NULL,
                Value::Number => {
                    let number = Decimal::read(tree.source(*value))?;
                    if !numbers.contains(&number) {
                        numbers.push(number);
                        (numbers.len() <= MOST_NUMBERS).then_some(())?;
                    }
                }
                _ => set.structured = true,
            }
        }
        if !numbers.is_empty() {
            let plain = false;
            set.items
                .push(Item::Numbers(Numbers::Listed { values: numbers, plain }));
        }
        if !strings.is_empty() {
            set.items.push(Item::Strings(Strings::Listed(each_once(strings))));
        }
        Some(set)
    }
}
