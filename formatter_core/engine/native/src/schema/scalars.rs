//! Scalars that need no algebra: whole types, listed strings and numbers, strings of limited length, and bounded numbers.

use crate::program::operation;
use crate::schema::common::{Common, Texts};
use crate::schema::inside::{Inside, Part};
use crate::schema::json::{Tree, Value};
use crate::schema::locations::{OF_NUMBERS, OF_STRINGS};
use crate::schema::nodes::Regular;
use crate::schema::numbers::Decimal;
use crate::schema::patterns::Pattern;

const NULL: u8 = 1;
const BOOLEAN: u8 = 1 << 1;
const INTEGER: u8 = 1 << 2;
const STRING: u8 = 1 << 4;
const NUMBERS: u8 = 0b1100;
const ALL: u8 = 0b1_1111;
const TYPES: [&str; 5] = ["null", "boolean", "integer", "number", "string"];
/// In the order in which they are written; sets of them are bits.
const WORDS: [&str; 3] = ["false", "true", "null"];
/// The largest length; more is left to others.
const LONGEST: u32 = 100_000;
/// The most numbers that are listed; more are left to others.
const MOST_NUMBERS: usize = 100;

/// What a schema allows.
pub enum Scalars {
    /// All values of these types, by a schema that is the same however they were written.
    Types(Box<str>),
    /// What stands inside of its terminal.
    Made(Regular),
}

impl Scalars {
    /// What a schema says, which is given as text; None if that is left to others.
    pub fn read(text: &str, common: &Common) -> Option<Scalars> {
        let (tree, draft) = (Tree::read(text)?, common.draft);
        let root = tree.root;
        let entries = tree.entries(root)?;
        if let [(name, branches)] = entries {
            if let "anyOf" | "oneOf" = tree.text(name) {
                return union(&tree, *branches, tree.text(name) == "oneOf").map(of_types);
            }
        }
        let count = |names: &[&str]| names.iter().filter(|name| tree.get(root, name).is_some()).count();
        let (of_strings, of_numbers) = (count(&OF_STRINGS), count(&OF_NUMBERS));
        let others = entries.len() - count(&["type"]) - of_strings - of_numbers;
        let types = match tree.get(root, "type") {
            None if entries.len() > 1 => return None,
            None => ALL,
            Some(value) => types_of(&tree, value)?,
        };
        // Keywords of other types say nothing.
        let limits_strings = of_strings > 0 && types & STRING != 0;
        let limits_numbers = of_numbers > 0 && types & NUMBERS != 0;
        let mut inside = Inside::new(&common.parts);
        let of_types_alone = if types & BOOLEAN > 0 { 0b11 } else { 0 } | if types & NULL > 0 { 0b100 } else { 0 };
        let (words, mut options) = match (others, limits_strings || limits_numbers) {
            (0, false) => return Some(of_types(types)),
            (1, false) => inside.listed_scalars(&tree, types, draft)?,
            (0, true) => {
                let has_strings = types & STRING > 0;
                if has_strings && !inside.limited(&tree)? && types & NUMBERS == 0 {
                    return Some(of_types(types));
                }
                let mut options = usize::from(has_strings);
                if types & NUMBERS > 0 {
                    options += inside.bounded(&tree, types & NUMBERS == INTEGER, draft)?;
                }
                (u8::MAX, options)
            }
            _ => return None,
        };
        for (place, word) in WORDS.iter().enumerate() {
            if words & of_types_alone & 1 << place > 0 {
                inside.bytes(word.as_bytes());
                options += 1;
            }
        }
        if options > 1 {
            inside.list(operation::CHOICE, options);
        }
        Some(Scalars::Made(inside.regular))
    }
}

#[inline(never)]
fn types_of(tree: &Tree, value: u32) -> Option<u8> {
    let single = [value];
    let names = match tree.value(value) {
        Value::List(names) => &**names,
        _ => &single,
    };
    names.iter().try_fold(0, |types, name| {
        let name = tree.string(*name)?;
        Some(types | 1 << TYPES.iter().position(|each| *each == name)?)
    })
}

fn of_types(types: u8) -> Scalars {
    let mut text = String::from("{\"type\":[");
    for (place, name) in TYPES.iter().enumerate() {
        if types >> place & 1 == 1 {
            text.push_str(if text.ends_with('[') { "\"" } else { ",\"" });
            text.push_str(name);
            text.push('"');
        }
    }
    text.push_str("]}");
    Scalars::Types(text.into())
}

/// The types of branches that say nothing else.
#[inline(never)]
fn union(tree: &Tree, branches: u32, exclusive: bool) -> Option<u8> {
    let Value::List(branches) = tree.value(branches) else {
        return None;
    };
    let mut all = 0;
    for branch in branches.iter() {
        let [(name, value)] = tree.entries(*branch)? else {
            return None;
        };
        (tree.text(name) == "type").then_some(())?;
        let types = types_of(tree, *value)?;
        // An integer is a number.
        let shared = all & types != 0 || (all | types) & NUMBERS == NUMBERS;
        (!(exclusive && shared)).then_some(())?;
        all |= types;
    }
    (all & NUMBERS != NUMBERS).then_some(all)
}

impl Inside<'_> {
    /// Strings with a pattern, or a limited length; whether they are limited. None if that is left to others.
    fn limited(&mut self, tree: &Tree) -> Option<bool> {
        let get = |name| tree.get(tree.root, name);
        let count = |name, other| get(name).map_or(Some(other), |value| tree.source(value).parse().ok());
        let (minimum, maximum) = (count("minLength", 0)?, count("maxLength", u32::MAX)?);
        let most = if get("maxLength").is_some() { maximum } else { minimum };
        (get("format").is_none() && minimum <= maximum && most <= LONGEST).then_some(())?;
        self.part(Part::Quote);
        let has_pattern = get("pattern").is_some();
        if let Some(pattern) = get("pattern") {
            let pattern = Pattern::read(tree.string(pattern)?)?;
            // It must be certain that there is one.
            let (least, greatest, all) = pattern.lengths(pattern.whole);
            let is_some = |length| (minimum..=maximum).contains(&length);
            (is_some(least) || is_some(greatest) || all && least <= maximum && greatest >= minimum).then_some(())?;
            self.spelled(&pattern, pattern.whole);
        }
        let is_limited = minimum > 0 || get("maxLength").is_some();
        if is_limited {
            self.part(Part::AnyChar);
            self.repeat_by(operation::REPEAT, minimum, maximum.wrapping_add(1));
        } else if !has_pattern {
            self.any_body();
        }
        if is_limited && has_pattern {
            self.list(operation::INTERSECTION, 2);
        }
        self.part(Part::Quote);
        self.list(operation::SEQUENCE, 3);
        Some(is_limited || has_pattern)
    }

    /// Listed strings and numbers of some types: which words are listed, too, and how many alternatives the others are. None
    /// if that is left to others.
    fn listed_scalars(&mut self, tree: &Tree, types: u8, draft: u32) -> Option<(u8, usize)> {
        let (list, constant) = (tree.get(tree.root, "enum"), tree.get(tree.root, "const"));
        let single = [constant.filter(|_| draft > 4 || list.is_some()).or(list)?];
        let values = match list.map(|list| tree.value(list)) {
            Some(Value::List(values)) => &**values,
            Some(_) => return None,
            None => &single,
        };
        let (mut strings, mut numbers) = (Vec::new(), Vec::new());
        let (mut known, mut words) = (Texts::default(), 0);
        for value in values {
            match tree.value(*value) {
                Value::String(text) => {
                    if types & STRING > 0 && known.add(tree.text(text)) {
                        strings.push(tree.text(text));
                    }
                }
                Value::Bool(false) => words |= 1,
                Value::Bool(true) => words |= 1 << 1,
                Value::Null => words |= 1 << 2,
                Value::Number => {
                    let number = Decimal::read(tree.source(*value))?;
                    let kinds = if number.is_whole() { NUMBERS } else { NUMBERS & !INTEGER };
                    if types & kinds > 0 && !numbers.contains(&number) {
                        numbers.push(number);
                    }
                }
                _ => return None,
            }
        }
        let mut options = numbers.len();
        (options <= MOST_NUMBERS && options + strings.len() > 0).then_some(())?;
        if !strings.is_empty() {
            self.listed(strings);
            options += 1;
        }
        self.listed_numbers(&numbers, draft == 4 && types & NUMBERS == INTEGER);
        Some((words, options))
    }
}
