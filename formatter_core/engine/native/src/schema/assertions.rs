//! Reads the keywords for values of one JSON type, and `enum` and `const`, as shapes.

use std::rc::Rc;
use std::sync::Arc;

use crate::schema::json::{Text, Value};
use crate::schema::leaves::{formats, Decimal, NumberSet, StringSet, Test};
use crate::schema::load::{Literal, Location, Said, FALSE, TRUE};
use crate::schema::normal::Normalizer;
use crate::schema::report::{Class, Outcome, Stop, Why};
use crate::schema::shapes::{
    each_once, ArrayPart, ArraySet, Contains, Name, Named, ObjectPart, ObjectSet, Same, Shape, BOOLEANS, IS_FALSE,
    IS_TRUE,
};
use crate::schema::single::{Scalar, Single};

/// The JSON types; each is a bit of a set.
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
const NULL: u8 = 1;
const BOOLEAN: u8 = 1 << 1;
const INTEGER: u8 = 1 << 2;
const NUMBER: u8 = 1 << 3;
const STRING: u8 = 1 << 4;
const ARRAY: u8 = 1 << 5;
const OBJECT: u8 = 1 << 6;
const ALL: u8 = u8::MAX;

/// Return the types to which a keyword applies, as bits.
fn spoken_of(keyword: &str) -> u8 {
    match keyword {
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => NUMBER,
        "minLength" | "maxLength" | "pattern" | "format" => STRING,
        "items" | "prefixItems" | "additionalItems" | "minItems" | "maxItems" | "contains" | "uniqueItems" => ARRAY,
        "properties"
        | "patternProperties"
        | "additionalProperties"
        | "propertyNames"
        | "required"
        | "minProperties"
        | "maxProperties" => OBJECT,
        _ => 0,
    }
}

impl Normalizer<'_> {
    /// Return the values that `type` and the keywords for single types allow; keywords of excluded types are not read.
    pub fn typed(&mut self, location: &Location) -> Outcome<Rc<Shape>> {
        let said = location
            .entries()
            .fold(0, |said, (keyword, _)| said | spoken_of(keyword));
        let types = types_of(location)?;
        if types.is_none() && said == 0 {
            return Ok(Rc::clone(&self.any));
        }
        let allowed = types.unwrap_or(ALL);
        let mut shape = Shape::default();
        if allowed & NULL > 0 {
            shape.null = true;
        }
        if allowed & BOOLEAN > 0 {
            shape.booleans = BOOLEANS;
        }
        if allowed & (NUMBER | INTEGER) > 0 {
            let is_draft_4 = location.draft == 4;
            let all = match allowed & NUMBER {
                0 if is_draft_4 => NumberSet {
                    pointed: Some(false),
                    ..NumberSet::any_integer()
                },
                0 => NumberSet::any_integer(),
                _ => NumberSet::any(),
            };
            if said & NUMBER == 0 {
                shape.numbers.push(Rc::new(all));
            } else if let Some(bounded) = self.numbers(location)?.narrowed() {
                shape.numbers.extend(all.meet(&bounded).map(Rc::new));
            }
        }
        if allowed & STRING > 0 {
            let strings = match said & STRING {
                0 => Some(StringSet::any()),
                _ => self.strings(location)?,
            };
            shape.strings.extend(strings.map(Rc::new));
        }
        if allowed & ARRAY > 0 {
            let arrays = match said & ARRAY {
                0 => None,
                _ => Some(self.arrays(location)?),
            };
            shape.arrays.extend(arrays.unwrap_or_else(|| Some(ArraySet::any())));
        }
        if allowed & OBJECT > 0 {
            let objects = match said & OBJECT {
                0 => None,
                _ => Some(self.objects(location)?),
            };
            shape.objects.extend(objects.unwrap_or_else(|| Some(ObjectSet::any())));
        }
        let says_nothing = shape.numbers.first().is_some_and(|numbers| numbers.is_any())
            && shape.strings.first().is_some_and(|strings| strings.is_any())
            && shape
                .arrays
                .first()
                .is_some_and(|arrays| **arrays == ArraySet::default())
            && shape
                .objects
                .first()
                .is_some_and(|objects| **objects == ObjectSet::default());
        if types.is_none() && says_nothing {
            return Ok(Rc::clone(&self.any));
        }
        Ok(Rc::new(shape))
    }

    /// Return the values that `enum` or `const` lists.
    pub fn listed_by(&mut self, location: &Location, keyword: &str) -> Outcome<Rc<Shape>> {
        let tree = location.tree();
        let mut shape = Shape::default();
        let (mut numbers, mut strings) = (Vec::new(), Vec::new());
        let (mut values, mut is_one) = (Vec::new(), keyword == "const");
        match &location.said {
            Said::Single(single) => match single {
                Single::Scalar(Scalar::Null) => shape.null = true,
                Single::Scalar(Scalar::Bool(value)) => shape.booleans = if *value { IS_TRUE } else { IS_FALSE },
                Single::Scalar(Scalar::Number(number)) => numbers.push(number.clone()),
                Single::Scalar(Scalar::Text(text)) => strings.push(Arc::clone(text)),
                Single::List(items) => {
                    let mut prefix = Vec::with_capacity(items.len());
                    for (step, item) in items.iter().enumerate() {
                        prefix.push(self.single_of(location, item, &step.to_string())?);
                    }
                    shape.arrays.push(just_these(prefix));
                }
                Single::Object(entries) => {
                    let mut named = Named::default();
                    for (text, item) in entries {
                        let literal = self.single_of(location, item, text)?;
                        named.set(self.names.number(text), literal);
                    }
                    shape.objects.push(just_those(named));
                }
            },
            Said::Value(value) => values.push(*value),
            Said::Schema(_) => {
                let value = location.said_value(keyword);
                match tree.items(value) {
                    _ if is_one => values.push(value),
                    Some(items) => values.extend(items),
                    None => return Err(location.invalid("enum", "a list of values")),
                }
            }
        }
        is_one &= !location.is_synthetic();
        for (index, value) in values.into_iter().enumerate() {
            let pointer = || match is_one {
                true => format!("{}/{keyword}", location.pointer),
                false => location.below(keyword, &index.to_string()),
            };
            match tree.value(value) {
                Value::Null => shape.null = true,
                Value::Bool(value) => shape.booleans |= if *value { IS_TRUE } else { IS_FALSE },
                Value::String(text) => {
                    if self.is_spelt(location, keyword, text)? {
                        strings.push(tree.text(text).into());
                    }
                }
                Value::Number => numbers.push(decimal(location, keyword, value)?),
                Value::List(_) => {
                    let (items, pointer) = (tree.items(value).unwrap_or(&[]), pointer());
                    let mut prefix = Vec::with_capacity(items.len());
                    for (step, item) in items.iter().enumerate() {
                        prefix.push(self.value_of(location, *item, format!("{pointer}/{step}"))?);
                    }
                    shape.arrays.push(just_these(prefix));
                }
                Value::Object(_) => {
                    let (entries, pointer) = (tree.entries(value).unwrap_or(&[]), pointer());
                    let mut are_spelt = true;
                    for (name, _) in entries {
                        are_spelt = are_spelt && self.is_spelt(location, keyword, name)?;
                    }
                    if !are_spelt {
                        continue;
                    }
                    let mut named = Named::default();
                    for (text, item) in entries {
                        let text = tree.text(text);
                        let literal = self.value_of(location, *item, format!("{pointer}/{text}"))?;
                        named.set(self.names.number(text), literal);
                    }
                    shape.objects.push(just_those(named));
                }
            }
        }
        if !numbers.is_empty() {
            shape.numbers.push(Rc::new(NumberSet {
                values: Some(each_once(numbers)),
                ..NumberSet::any()
            }));
        }
        if !strings.is_empty() {
            shape.strings.push(Rc::new(StringSet::of_values(each_once(strings))));
        }
        Ok(Rc::new(shape))
    }

    fn value_of(&mut self, location: &Location, value: u32, pointer: String) -> Outcome<Literal> {
        self.loader.synthetic(Said::Value(value), pointer, Some(location))
    }

    fn single_of(&mut self, location: &Location, value: &Single, step: &str) -> Outcome<Literal> {
        let pointer = location.below("enum", "0");
        self.loader
            .synthetic(Said::Single(value.clone()), format!("{pointer}/{step}"), None)
    }

    fn numbers(&mut self, location: &Location) -> Outcome<NumberSet> {
        let bound = |value_keyword, strict_keyword, is_nearer: fn(&Decimal, &Decimal) -> bool| {
            let value = number(location, value_keyword)?;
            let Some(strict) = location.get(strict_keyword) else {
                return Ok((value, false));
            };
            if let Value::Bool(strict) = location.tree().value(strict) {
                let is_open = *strict && value.is_some();
                return Ok((value, is_open));
            }
            if location.draft == 4 {
                let expected = "true or false (draft 4), or name a later draft";
                return Err(location.invalid(strict_keyword, expected));
            }
            let other = number(location, strict_keyword)?;
            Ok(match (value, other) {
                (Some(value), Some(other)) if !is_nearer(&other, &value) => (Some(value), false),
                (_, other) => (other, true),
            })
        };
        let (low, low_open) = bound("minimum", "exclusiveMinimum", |other, value| other >= value)?;
        let (high, high_open) = bound("maximum", "exclusiveMaximum", |other, value| other <= value)?;
        let multiple = number(location, "multipleOf")?;
        if multiple
            .as_ref()
            .is_some_and(|step| step.is_zero() || step.is_negative())
        {
            return Err(location.invalid("multipleOf", "a number above 0"));
        }
        Ok(NumberSet {
            low,
            high,
            low_open,
            high_open,
            multiple,
            ..NumberSet::any()
        })
    }

    fn strings(&mut self, location: &Location) -> Outcome<Option<StringSet>> {
        let (minimum, maximum) = (
            count(location, "minLength")?.unwrap_or(0),
            count(location, "maxLength")?,
        );
        let mut tests = Vec::new();
        if let Some(pattern) = location.get("pattern") {
            let Some(pattern) = location.tree().string(pattern) else {
                return Err(location.invalid("pattern", "a regular expression as a string"));
            };
            if self.is_readable(location, "pattern", pattern)? {
                tests.push(Test::Pattern(pattern.into()));
            }
        }
        if let Some(name) = location.get("format").filter(|_| self.enforce_formats) {
            let Some(name) = location.tree().string(name) else {
                return Err(location.invalid("format", "the name of a format"));
            };
            if formats::is_defined(name) {
                let own = formats::name_in(name, location.draft);
                tests.push(Test::Format {
                    name: own.into(),
                    narrowed: formats::leaves_out(own).then(|| Arc::clone(&location.pointer)),
                });
            }
        }
        if maximum.is_some_and(|maximum| minimum > maximum) {
            return Ok(None);
        }
        Ok(Some(StringSet {
            minimum,
            maximum,
            passed: tests,
            ..StringSet::any()
        }))
    }

    /// Return whether a pattern can be read; otherwise refuse or drop its keyword.
    fn is_readable(&mut self, location: &Location, keyword: &str, pattern: &str) -> Outcome<bool> {
        let is_readable = self.leaves.read_pattern(pattern).is_ok();
        if !is_readable {
            self.refusals
                .refuse_at(&location.pointer, keyword, Why::Pattern, &[pattern])?;
        }
        Ok(is_readable)
    }

    /// Return whether UTF-8 can encode a text; otherwise refuse or drop its keyword.
    pub fn is_spelt(&mut self, location: &Location, keyword: &str, text: &Text) -> Outcome<bool> {
        let lone = location.tree().lone_surrogate(text);
        if let Some(json) = lone {
            self.refusals
                .refuse_at(&location.pointer, keyword, Why::LoneSurrogate, &[json])?;
        }
        Ok(lone.is_none())
    }

    /// Return the arrays that the keywords allow; None if there are certainly none.
    fn arrays(&mut self, location: &Location) -> Outcome<Option<Rc<ArraySet>>> {
        let (minimum, maximum) = (count(location, "minItems")?.unwrap_or(0), count(location, "maxItems")?);
        let tree = location.tree();
        let items = location.get("items");
        let is_prefix = location.get("prefixItems").is_none() && items.is_some_and(|items| tree.items(items).is_some());
        let (keyword, others) = match is_prefix {
            true => ("items", "additionalItems"),
            false => ("prefixItems", "items"),
        };
        let mut prefix = Vec::new();
        if let Some(listed) = location.get(keyword) {
            if tree.items(listed).is_none() {
                return Err(location.invalid(keyword, "a list of schemas"));
            }
            prefix = self.loader.children(location, keyword)?;
        }
        let (mut rest, mut evaluates) = (TRUE, false);
        if location.get(others).is_some() {
            (rest, evaluates) = (self.loader.child(location, others)?, true);
        }
        let mut parts = Vec::new();
        if !prefix.is_empty() || evaluates {
            parts.push(Same::new(ArrayPart {
                prefix,
                rest,
                evaluates,
                silent: false,
            }));
        }
        let unique = match location.get("uniqueItems").map(|unique| tree.value(unique)) {
            None => false,
            Some(Value::Bool(unique)) => *unique,
            Some(_) => return Err(location.invalid("uniqueItems", "true or false")),
        };
        if maximum.is_some_and(|maximum| minimum > maximum) {
            return Ok(None);
        }
        let contains = self.contains(location)?;
        if parts.is_empty() && minimum == 0 && maximum.is_none() && contains.is_empty() && !unique {
            return Ok(Some(ArraySet::any()));
        }
        let least = contains.iter().map(|wanted| wanted.minimum).max();
        Ok(Some(Rc::new(ArraySet {
            parts,
            minimum: minimum.max(least.unwrap_or(0)),
            maximum,
            contains,
            unique: unique.then(|| Arc::clone(&location.pointer)),
            ..ArraySet::default()
        })))
    }

    fn contains(&mut self, location: &Location) -> Outcome<Vec<Contains>> {
        if location.get("contains").is_none() {
            return Ok(Vec::new());
        }
        let (least, most) = (count(location, "minContains")?, count(location, "maxContains")?);
        Ok(vec![Contains {
            literal: self.loader.child(location, "contains")?,
            minimum: least.unwrap_or(1),
            maximum: most,
            start: 0,
            pointer: Arc::clone(&location.pointer),
        }])
    }

    /// Return the names of a list that UTF-8 can encode.
    pub fn names_of(&mut self, location: &Location, keyword: &str, items: &[u32]) -> Outcome<Vec<Name>> {
        let (tree, mut names) = (location.tree(), Vec::with_capacity(items.len()));
        for item in items {
            if let Value::String(text) = tree.value(*item) {
                if self.is_spelt(location, keyword, text)? {
                    names.push(self.names.number(tree.text(text)));
                }
            }
        }
        Ok(each_once(names))
    }

    /// Return the objects that the keywords allow; None if there are certainly none.
    fn objects(&mut self, location: &Location) -> Outcome<Option<Rc<ObjectSet>>> {
        let tree = location.tree();
        let entries = |keyword| match location.get(keyword) {
            None => Ok(&[][..]),
            Some(value) => tree
                .entries(value)
                .ok_or_else(|| location.invalid(keyword, "an object")),
        };
        let mut named = Named::default();
        for (name, value) in entries("properties")? {
            if !self.is_spelt(location, "properties", name)? {
                continue;
            }
            let name = tree.text(name);
            let literal = self.loader.child_at(location, "properties", name, *value)?;
            named.set(self.names.number(name), literal);
        }
        let mut patterns = Vec::new();
        for (pattern, value) in entries("patternProperties")? {
            let pattern = tree.text(pattern);
            if !self.is_readable(location, "patternProperties", pattern)? {
                continue;
            }
            let literal = self.loader.child_at(location, "patternProperties", pattern, *value)?;
            patterns.push((self.names.number(pattern), literal));
        }
        let mut child = |keyword| match location.get(keyword) {
            None => Ok(None),
            Some(_) => self.loader.child(location, keyword).map(Some),
        };
        let rest = child("additionalProperties")?;
        let names = child("propertyNames")?.unwrap_or(TRUE);
        let mut required = Vec::new();
        if let Some(value) = location.get("required") {
            let is_name = |item: &u32| tree.string(*item).is_some();
            let Some(items) = tree.items(value).filter(|items| items.iter().all(is_name)) else {
                return Err(location.invalid("required", "a list of names"));
            };
            required = self.names_of(location, "required", items)?;
        }
        let (minimum, maximum) = (
            count(location, "minProperties")?.unwrap_or(0),
            count(location, "maxProperties")?,
        );
        let minimum = minimum.max(required.len() as u64);
        if maximum.is_some_and(|maximum| minimum > maximum) {
            return Ok(None);
        }
        let mut parts = Vec::new();
        if !named.entries().is_empty() || !patterns.is_empty() || rest.is_some() || names != TRUE {
            parts.push(Same::new(ObjectPart {
                named,
                patterns,
                rest: rest.unwrap_or(TRUE),
                names,
                evaluates: rest.is_some(),
                silent: false,
                origin: match location.said {
                    Said::Schema(schema) => Some((location.document, schema)),
                    _ => None,
                },
            }));
        }
        if parts.is_empty() && minimum == 0 && maximum.is_none() {
            return Ok(Some(ObjectSet::any()));
        }
        Ok(Some(Rc::new(ObjectSet {
            parts,
            required,
            minimum,
            maximum,
            ..ObjectSet::default()
        })))
    }
}

/// Make the set of the arrays with exactly these items.
fn just_these(prefix: Vec<Literal>) -> Rc<ArraySet> {
    let count = prefix.len() as u64;
    Rc::new(ArraySet {
        parts: vec![Same::new(ArrayPart {
            prefix,
            rest: FALSE,
            evaluates: false,
            silent: true,
        })],
        minimum: count,
        maximum: Some(count),
        ..ArraySet::default()
    })
}

/// Make the set of the objects with exactly these properties.
fn just_those(named: Named) -> Rc<ObjectSet> {
    let required: Vec<_> = named.names().collect();
    Rc::new(ObjectSet {
        minimum: required.len() as u64,
        required,
        parts: vec![Same::new(ObjectPart {
            named,
            rest: FALSE,
            silent: true,
            ..ObjectPart::default()
        })],
        ..ObjectSet::default()
    })
}

/// Return the types that `type` names, as bits; None if the keyword is absent.
fn types_of(location: &Location) -> Outcome<Option<u8>> {
    let Some(value) = location.written("type") else {
        return Ok(None);
    };
    let tree = location.tree();
    let (mut types, own) = (0, [value]);
    for value in tree.items(value).unwrap_or(&own) {
        let name = tree.string(*value);
        let Some(place) = TYPES.iter().position(|each| Some(*each) == name) else {
            let (class, why) = (Class::Invalid, Why::NoType);
            return Err(Stop::new(class, why, &location.pointer, "type", &[tree.source(*value)]));
        };
        types |= 1 << place;
    }
    Ok(Some(types))
}

fn number(location: &Location, keyword: &str) -> Outcome<Option<Decimal>> {
    let Some(value) = location.get(keyword) else {
        return Ok(None);
    };
    match location.tree().value(value) {
        Value::Number => decimal(location, keyword, value).map(Some),
        _ => Err(location.invalid(keyword, "a number")),
    }
}

fn count(location: &Location, keyword: &str) -> Outcome<Option<u64>> {
    let Some(value) = location.get(keyword) else {
        return Ok(None);
    };
    let number = match location.tree().value(value) {
        Value::Number => decimal(location, keyword, value)?,
        _ => return Err(location.invalid(keyword, "a whole number from 0")),
    };
    if number.is_negative() || !number.is_whole() {
        return Err(location.invalid(keyword, "a whole number from 0"));
    }
    Ok(number.to_u64())
}

/// Read a number of the text as an exact decimal.
fn decimal(location: &Location, keyword: &str, value: u32) -> Outcome<Decimal> {
    Decimal::read(location.tree().source(value)).ok_or_else(|| {
        let (class, why) = (Class::Invalid, Why::LongNumber);
        Stop::new(class, why, &location.pointer, keyword, &[])
    })
}
