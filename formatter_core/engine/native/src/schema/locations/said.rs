//! What one schema says.

use std::sync::Arc;

use super::{schema_of, Array, Goal, Kind, Locations, Object, Part, Step, Types, IDENTIFIERS};
use crate::schema::common::Texts;
use crate::schema::json::Value;
use crate::schema::patterns::{Pattern, MOST_STEPS};

const SCALARS: [&str; 5] = ["null", "boolean", "integer", "number", "string"];
pub const INTEGER: u8 = 1 << 2;
pub const NUMBER: u8 = 1 << 3;
const ARRAY: u8 = 1 << 5;
const OBJECT: u8 = 1 << 6;
const ALL_SCALARS: u8 = ARRAY - 1;
/// What no `type` allows: an integer is a number.
const UNTYPED: u8 = 0b1_1011;
/// Keywords whose values are read together with those of the schema that stands for a scalar.
pub const OF_NUMBERS: [&str; 5] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];
pub const OF_STRINGS: [&str; 4] = ["minLength", "maxLength", "pattern", "format"];
const LISTED: [&str; 2] = ["enum", "const"];
const COMBINATORS: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];
/// Without a list of `items` there are no additional ones.
const OF_ARRAYS: [&str; 4] = ["items", "minItems", "maxItems", "additionalItems"];
const OF_OBJECTS: [&str; 5] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "minProperties",
];
/// Patterns that every name matches.
const MATCHED_BY_ALL: [&str; 4] = ["", "^", ".*", "^.*"];
/// Keywords that need the algebra.
const OTHERS: [&str; 11] = [
    "prefixItems",
    "contains",
    "propertyNames",
    "maxProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
    "$recursiveRef",
];
/// What no schema that stands for a scalar may have anywhere inside.
const FAR_REACHING: [&str; 6] = ["$ref", "$dynamicRef", "$recursiveRef", "$id", "id", "$schema"];
/// The largest count; more is left to others.
const MOST_REPEATS: u32 = 100_000;
/// Room for the schema of most scalars.
const USUAL_TEXT: usize = 128;
/// Texts of scalars may grow where unions hold unions.
pub const LONGEST_TEXT: usize = 1 << 14;

/// What keywords are about, as bits.
pub mod about {
    pub const NUMBERS: u16 = 1;
    pub const STRINGS: u16 = 1 << 1;
    pub const ARRAYS: u16 = 1 << 2;
    pub const OBJECTS: u16 = 1 << 3;
    pub const LISTED: u16 = 1 << 4;
    pub const COMBINED: u16 = 1 << 5;
    pub const IDENTIFIED: u16 = 1 << 6;
    pub const OTHER: u16 = 1 << 7;
    pub const UNIQUE: u16 = 1 << 8;
    pub const REFERENCE: u16 = 1 << 9;
    /// What is read where others mean it.
    pub const ELSEWHERE: u16 = 1 << 10;
    /// A format that says nothing.
    pub const ANNOTATED: u16 = 1 << 11;
}

const KEYWORDS: [(&[&str], u16); 11] = [
    (&["$ref"], about::REFERENCE),
    (&OF_NUMBERS, about::NUMBERS),
    (&OF_STRINGS, about::STRINGS),
    (&OF_ARRAYS, about::ARRAYS),
    (&OF_OBJECTS, about::OBJECTS),
    (&LISTED, about::LISTED),
    (&COMBINATORS, about::COMBINED),
    (&IDENTIFIERS, about::IDENTIFIED),
    (&OTHERS, about::OTHER),
    (&["uniqueItems"], about::UNIQUE),
    (
        &["type", "definitions", "$defs", "minContains", "maxContains"],
        about::ELSEWHERE,
    ),
];

/// What a keyword is about; 0 if it is none.
pub fn about_of(name: &str) -> u16 {
    let found = KEYWORDS.iter().find(|(names, _)| names.contains(&name));
    found.map_or(0, |(_, bit)| *bit)
}

impl Locations {
    /// What a schema says, whether it has been found plain or not.
    pub fn read(&self, schema: u32) -> Option<Kind> {
        let mut said = 0;
        for (name, value) in self.tree.entries(schema)? {
            let name = self.tree.text(name);
            let about = match name {
                "const" if self.draft == 4 => 0,
                _ if self.is_annotation(name, *value) => about::ANNOTATED,
                _ => about_of(name),
            };
            // That is an error, which is found elsewhere.
            if about != 0 && name != "const" && matches!(self.tree.value(*value), Value::Null) {
                return None;
            }
            said |= about;
        }
        let says = |what: u16| said & what != 0;
        if says(about::IDENTIFIED) {
            let is_root = schema == self.tree.root;
            let anchors = &IDENTIFIERS[2..];
            let is_anchored = anchors.iter().any(|name| self.tree.get(schema, name).is_some());
            if !is_root && self.is_identified(schema) || is_root && self.has_references && is_anchored {
                return None;
            }
        }
        let types = match self.tree.get(schema, "type") {
            Some(value) => Some(self.types(value)?),
            None => None,
        };
        let of_scalars = says(about::NUMBERS | about::STRINGS);
        let of_others = says(about::ARRAYS | about::OBJECTS);
        if says(about::REFERENCE) {
            let reference = self.tree.get(schema, "$ref")?;
            let more = about::LISTED | about::COMBINED | about::OTHER | about::UNIQUE | about::ANNOTATED;
            let alone = types.is_none() && !of_scalars && !of_others && !says(more);
            if alone || self.draft <= 7 {
                return self.reference(reference);
            }
            let others = about::LISTED | about::ANNOTATED;
            (!types.is_some_and(|types| types & !ALL_SCALARS == 0) && !says(others)).then_some(())?;
        }
        let unique = || self.tree.get(schema, "uniqueItems").map(|value| self.tree.value(value));
        if says(about::OTHER) || says(about::UNIQUE) && !matches!(unique(), Some(Value::Bool(false))) {
            return None;
        }
        if types.is_some_and(|types| types & !ALL_SCALARS == 0) {
            let plain = !says(about::LISTED) || self.lists_scalars(schema)?;
            return plain.then(|| self.scalars(schema, &COMBINATORS))?;
        }
        if says(about::LISTED) {
            let plain = !of_others && self.lists_scalars(schema)?;
            return plain.then(|| self.scalars(schema, &COMBINATORS))?;
        }
        if says(about::COMBINED) && !says(about::REFERENCE) && !of_others && self.has_scalars_in_all(schema) {
            return self.scalars(schema, &COMBINATORS);
        }
        if says(about::COMBINED) && !says(about::REFERENCE) && !of_scalars && !of_others {
            let types = match types {
                None => Some(Types::Any),
                Some(types) if types & ALL_SCALARS == 0 => Some(Types::Some {
                    arrays: types & ARRAY != 0,
                    objects: types & OBJECT != 0,
                }),
                Some(_) => None,
            };
            if let Some(branches) = types.and_then(|types| self.branches(schema, types)) {
                return Some(branches);
            }
        }
        let own = self.typed(schema, types, of_scalars, of_others)?;
        if !says(about::COMBINED | about::REFERENCE) {
            return Some(own);
        }
        let (own, steps) = (Box::new(own), self.steps(schema)?);
        Some(Kind::Combined { own, steps })
    }

    /// The types as bits.
    pub fn types(&self, value: u32) -> Option<u8> {
        let single = [value];
        let names = self.tree.items(value).unwrap_or(&single);
        let mut types = 0;
        for name in names {
            let name = self.tree.string(*name)?;
            types |= match SCALARS.iter().position(|scalar| *scalar == name) {
                Some(place) => 1 << place,
                None if name == "array" => ARRAY,
                None if name == "object" => OBJECT,
                None => return None,
            };
        }
        (types != 0).then_some(types)
    }

    fn lists_scalars(&self, schema: u32) -> Option<bool> {
        let is_scalar = |value: u32| !matches!(self.tree.value(value), Value::List(_) | Value::Object(_));
        let constant = self.tree.get(schema, "const").map_or(true, is_scalar);
        match self.tree.get(schema, "enum") {
            None => Some(constant),
            Some(values) => Some(constant && self.tree.items(values)?.iter().copied().all(is_scalar)),
        }
    }

    /// Whether a part of `allOf` allows scalars only.
    fn has_scalars_in_all(&self, schema: u32) -> bool {
        let Some(parts) = self.tree.get(schema, "allOf").and_then(|value| self.tree.items(value)) else {
            return false;
        };
        parts.iter().any(|part| match self.tree.get(*part, "type") {
            Some(value) => self.types(value).is_some_and(|types| types & !ALL_SCALARS == 0),
            None => self.tree.get(*part, "enum").is_some() && self.lists_scalars(*part) == Some(true),
        })
    }

    pub fn reference(&self, value: u32) -> Option<Kind> {
        let pointer = self.tree.string(value)?.strip_prefix('#')?;
        if pointer.contains('%') || !(pointer.is_empty() || pointer.starts_with('/')) {
            return None;
        }
        let target = self.at(pointer)?;
        Some(Kind::Reference(self.goal(target)?))
    }

    fn branches(&self, schema: u32, types: Types) -> Option<Kind> {
        let mut keywords = COMBINATORS.iter().filter(|name| self.tree.get(schema, name).is_some());
        let keyword = keywords.next().filter(|_| keywords.next().is_none())?;
        let exclusive = *keyword == "oneOf";
        let goals = self.goals(self.tree.get(schema, keyword)?)?;
        (exclusive || *keyword == "anyOf" || goals.len() == 1 && *keyword == "allOf").then_some(())?;
        if goals.contains(&Goal::Nothing) {
            return None;
        }
        Some(Kind::Branches {
            goals,
            exclusive,
            types,
        })
    }

    /// The references and combinators of a schema, in the order in which they are applied.
    fn steps(&self, schema: u32) -> Option<Vec<Step>> {
        let get = |name| self.tree.get(schema, name);
        let others = &COMBINATORS[3..];
        others.iter().all(|name| get(name).is_none()).then_some(())?;
        let mut steps = Vec::new();
        if let Some(reference) = get("$ref") {
            let Kind::Reference(goal) = self.reference(reference)? else {
                return None;
            };
            steps.push(Step::All(goal));
        }
        if let Some(parts) = get("allOf") {
            // A part that only says `oneOf` comes last.
            let mut last = None;
            for part in self.goals(parts)? {
                match schema_of(part).and_then(|part| Some((part, self.tree.get(part, "oneOf")?))) {
                    None => steps.push(Step::All(part)),
                    Some((part, branches)) => {
                        let says_more = self.tree.entries(part).is_some_and(|entries| entries.len() > 1);
                        (last.is_none() && !says_more).then_some(())?;
                        last = Some(branches);
                    }
                }
            }
            if let Some(branches) = last {
                steps.push(Step::OneOfSome(self.goals(branches)?));
            }
        }
        if let Some(branches) = get("anyOf") {
            steps.push(Step::Any(self.goals(branches)?));
        }
        if let Some(branches) = get("oneOf") {
            steps.push(Step::One(self.goals(branches)?));
        }
        Some(steps)
    }

    fn goals(&self, schemas: u32) -> Option<Vec<Goal>> {
        let goals: Option<Vec<Goal>> = self
            .tree
            .items(schemas)?
            .iter()
            .map(|schema| self.goal(*schema))
            .collect();
        goals.filter(|goals| !goals.is_empty())
    }

    /// The schema's text with what it says of scalars, and nothing else; the other `keywords` are read, too.
    fn scalars(&self, schema: u32, keywords: &[&str]) -> Option<Kind> {
        let mut text = String::with_capacity(USUAL_TEXT);
        text.push('{');
        for name in ["type"]
            .iter()
            .chain(&LISTED)
            .chain(&OF_NUMBERS)
            .chain(&OF_STRINGS)
            .chain(keywords)
        {
            if let Some(value) = self.tree.get(schema, name) {
                if keywords.contains(name) && self.reaches_far(value) {
                    return None;
                }
                self.add(&mut text, name, value);
            }
        }
        text.push('}');
        (text.len() <= LONGEST_TEXT).then(|| Kind::Scalars(text.into()))
    }

    /// Whether a keyword is a format that says nothing.
    fn is_annotation(&self, name: &str, value: u32) -> bool {
        let says_nothing = |format| self.common.parts.format(format).is_none();
        name == "format" && self.tree.string(value).is_some_and(says_nothing)
    }

    fn add(&self, text: &mut String, name: &str, value: u32) {
        if self.is_annotation(name, value) {
            return;
        }
        text.push_str(if text.len() > 1 { ",\"" } else { "\"" });
        text.push_str(name);
        text.push_str("\":");
        text.push_str(self.tree.source(value));
    }

    fn reaches_far(&self, value: u32) -> bool {
        let mut stack = vec![value];
        while let Some(value) = stack.pop() {
            stack.extend(self.tree.items(value).unwrap_or_default());
            for (name, value) in self.tree.entries(value).unwrap_or_default() {
                if FAR_REACHING.contains(&self.tree.text(name)) {
                    return true;
                }
                stack.push(*value);
            }
        }
        false
    }

    fn typed(&self, schema: u32, types: Option<u8>, of_scalars: bool, of_others: bool) -> Option<Kind> {
        let allowed = types.unwrap_or(UNTYPED | ARRAY | OBJECT);
        let array = if allowed & ARRAY == 0 {
            None
        } else {
            Some(self.array(schema)?)
        };
        let object = if allowed & OBJECT == 0 {
            None
        } else {
            Some(Arc::new(self.object(schema)?))
        };
        if types.is_none() {
            let says_more =
                array.as_ref() != Some(&Array::default()) || object.as_ref().is_some_and(|object| !object.is_any());
            if !of_scalars && !says_more {
                return Some(Kind::Silent);
            }
            if !(of_others && says_more || self.restricts_scalars(schema)) {
                return None;
            }
        }
        let mut scalars = None;
        if allowed & ALL_SCALARS != 0 {
            let mut text = String::with_capacity(USUAL_TEXT);
            for (place, name) in SCALARS
                .iter()
                .enumerate()
                .filter(|(place, _)| allowed >> place & 1 == 1)
            {
                let is_first = allowed & ((1 << place) - 1) == 0;
                text.push_str(if is_first { "{\"type\":[\"" } else { ",\"" });
                text.push_str(name);
                text.push('"');
            }
            text.push(']');
            for name in OF_NUMBERS.iter().chain(&OF_STRINGS) {
                if let Some(value) = self.tree.get(schema, name) {
                    self.add(&mut text, name, value);
                }
            }
            text.push('}');
            scalars = Some(text.into());
        }
        Some(Kind::Typed { scalars, array, object })
    }

    /// Whether what a schema without a type says of scalars excludes some for certain.
    fn restricts_scalars(&self, schema: u32) -> bool {
        let has = |name| self.tree.get(schema, name).is_some();
        // Formats that are not enforced, or are unknown, say nothing.
        has("pattern")
            || has("minimum")
            || has("maximum")
            || self.tree.get(schema, "format").is_some_and(|value| {
                let number = self.tree.string(value).and_then(|name| self.common.parts.format(name));
                number.is_some_and(|number| self.common.parts.formats[number].given.is_some())
            })
    }

    fn count(&self, schema: u32, name: &str) -> Option<Option<u32>> {
        match self.tree.get(schema, name) {
            None => Some(None),
            Some(value) => self.tree.source(value).parse().ok().map(Some),
        }
    }

    fn array(&self, schema: u32) -> Option<Array> {
        let (minimum, maximum) = (
            self.count(schema, "minItems")?.unwrap_or(0),
            self.count(schema, "maxItems")?,
        );
        if maximum.is_some_and(|maximum| maximum < minimum) || minimum.max(maximum.unwrap_or(0)) > MOST_REPEATS {
            return None;
        }
        let items = match self.tree.get(schema, "items") {
            None => None,
            Some(value) => Some((schema, self.goal(value).filter(|goal| *goal != Goal::Nothing)?)),
        };
        Some(Array {
            items,
            minimum,
            maximum,
        })
    }

    fn object(&self, schema: u32) -> Option<Object> {
        let properties = self.tree.get(schema, "properties");
        let named = match properties.map(|value| self.tree.entries(value)) {
            None => &[],
            Some(entries) => entries?,
        };
        for (_, value) in named {
            self.goal(*value)?;
        }
        let other = self.tree.get(schema, "additionalProperties");
        let mut rest = other.map_or(Some(Goal::Anything), |value| self.goal(value))?;
        let mut required: Vec<Box<str>> = Vec::new();
        if let Some(value) = self.tree.get(schema, "required") {
            let mut known = Texts::default();
            for name in self.tree.items(value)? {
                let name = self.tree.string(*name)?;
                if known.add(name) {
                    required.push(name.into());
                }
            }
        }
        let mut patterns = self.tree.get(schema, "patternProperties");
        let patterned = match patterns.map(|value| self.tree.entries(value)) {
            None => &[],
            Some(entries) => entries?,
        };
        let says_something = !named.is_empty() || other.is_some() || !patterned.is_empty();
        let texts: Vec<&str> = patterned.iter().map(|(pattern, _)| self.tree.text(pattern)).collect();
        let wanted = patterned
            .iter()
            .map(|(_, value)| self.goal(*value).filter(|goal| *goal != Goal::Nothing));
        let goals: Vec<Goal> = wanted.collect::<Option<_>>()?;
        let mut matched = Vec::new();
        match goals[..] {
            [] => patterns = None,
            [goal] if MATCHED_BY_ALL.contains(&texts[0]) => {
                (rest, patterns) = (goal, None);
                if goal != Goal::Anything {
                    matched.extend(named.iter().map(|(_, value)| (*value, goal)));
                }
            }
            [goal] if named.is_empty() && required.is_empty() => (goal != rest).then_some(())?,
            _ => {
                // Names whose values must satisfy the same are one class.
                let is_new = |(place, goal): (usize, &Goal)| *goal != rest && !goals[..place].contains(goal);
                goals.iter().enumerate().all(is_new).then_some(())?;
                let read = Pattern::all_apart(&texts)?;
                let mut steps = MOST_STEPS;
                for (name, value) in named {
                    if let Some(place) = Pattern::first_match(&read, self.tree.text(name), &mut steps)? {
                        // There are names that match it, and are not properties.
                        read[place].is_endless().then_some(())?;
                        matched.push((*value, goals[place]));
                    }
                }
                let is_named = |name: &str| properties.is_some_and(|object| self.tree.get(object, name).is_some());
                for name in required.iter().filter(|name| !is_named(name)) {
                    Pattern::first_match(&read, name, &mut steps)?.is_none().then_some(())?;
                }
            }
        }
        let minimum = self.count(schema, "minProperties")?.unwrap_or(0);
        (minimum as usize <= required.len().max(1)).then_some(())?;
        let part = says_something.then_some(Part {
            schema,
            properties,
            rest,
            patterns,
            matched: (!matched.is_empty()).then(|| matched.into()),
        });
        Some(Object {
            parts: part.into_iter().collect(),
            required,
            absent: Vec::new(),
            nonempty: minimum > 0,
        })
    }
}
