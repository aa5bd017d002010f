//! Scalars that need no algebra: whole types, listed strings, and strings of limited length.

use std::collections::HashSet;

use crate::schema::json::{Tree, Value};
use crate::schema::locations::{OF_NUMBERS, OF_STRINGS};

const STRING: u8 = 1 << 4;
const NUMBERS: u8 = 0b1100;
const TYPES: [&str; 5] = ["null", "boolean", "integer", "number", "string"];
/// The largest length; more is left to others.
const LONGEST: u32 = 100_000;

/// What a schema allows, as a rule in the order in which it is written.
pub enum Scalars {
    /// All values of these types, by a schema that is the same however they were written.
    Types(Box<str>),
    /// These strings, and of `false`, `true` and `null` these.
    Some {
        strings: Strings,
        words: Vec<&'static [u8]>,
    },
}

pub enum Strings {
    Listed(Vec<String>),
    Long(u32, Option<u32>),
}

impl Scalars {
    /// What a schema says, which is given as text; None if that is left to others.
    pub fn read(text: &str, draft: u32) -> Option<Scalars> {
        let tree = Tree::read(text)?;
        let root = tree.root;
        let entries = tree.entries(root)?;
        if let [(name, branches)] = entries {
            if let "anyOf" | "oneOf" = tree.text(name) {
                return union(&tree, *branches, tree.text(name) == "oneOf").map(of_types);
            }
        }
        let types = match tree.get(root, "type") {
            None => None,
            Some(value) => Some(types_of(&tree, value)?),
        };
        let has = |name: &&str| tree.get(root, name).is_some();
        // Keywords of other types say nothing.
        let silent = |names: &[&str], kinds: u8| match types {
            Some(types) if types & kinds == 0 => names.iter().filter(|name| has(name)).count(),
            _ => 0,
        };
        let silent = silent(&OF_STRINGS, STRING) + silent(&OF_NUMBERS, NUMBERS);
        let others = entries.len() - usize::from(types.is_some()) - silent;
        match types {
            Some(types) if others == 0 => Some(of_types(types)),
            Some(types) if types & NUMBERS == 0 && types & STRING != 0 => {
                let bounds = usize::from(has(&"minLength")) + usize::from(has(&"maxLength"));
                if bounds == others {
                    return long(&tree, types);
                }
                listed(&tree, types, draft)
            }
            None => listed(&tree, 0b1_1111, draft),
            _ => None,
        }
    }
}

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
    let names: Vec<String> = (0..TYPES.len())
        .filter(|place| types >> place & 1 == 1)
        .map(|place| format!("\"{}\"", TYPES[place]))
        .collect();
    Scalars::Types(format!("{{\"type\":[{}]}}", names.join(",")).into())
}

/// The types of branches that say nothing else.
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

fn long(tree: &Tree, types: u8) -> Option<Scalars> {
    let count = |name| match tree.get(tree.root, name) {
        None => Some(None),
        Some(value) => tree.source(value).parse::<u32>().ok().map(Some),
    };
    let (minimum, maximum) = (count("minLength")?.unwrap_or(0), count("maxLength")?);
    let fits = minimum <= maximum.unwrap_or(LONGEST) && maximum.unwrap_or(0) <= LONGEST;
    (fits && (minimum > 0 || maximum > Some(0))).then_some(())?;
    Some(Scalars::Some {
        strings: Strings::Long(minimum, maximum),
        words: words(types, |_| true),
    })
}

fn listed(tree: &Tree, types: u8, draft: u32) -> Option<Scalars> {
    let keyword = if tree.get(tree.root, "enum").is_some() {
        "enum"
    } else {
        "const"
    };
    let others = tree.entries(tree.root)?.len() - usize::from(tree.get(tree.root, "type").is_some());
    (others == 1 && (keyword == "enum" || draft > 4)).then_some(())?;
    let value = tree.get(tree.root, keyword)?;
    let single = [value];
    let values = match tree.value(value) {
        Value::List(values) if keyword == "enum" => &**values,
        _ if keyword == "const" => &single,
        _ => return None,
    };
    let (mut strings, mut known, mut said) = (Vec::new(), HashSet::new(), HashSet::new());
    for value in values {
        match tree.value(*value) {
            Value::String(text) => {
                if known.insert(tree.text(text)) {
                    strings.push(tree.text(text).to_string());
                }
            }
            Value::Null | Value::Bool(_) => {
                said.insert(tree.source(*value));
            }
            _ => return None,
        }
    }
    (!strings.is_empty()).then(|| Scalars::Some {
        strings: Strings::Listed(strings),
        words: words(types, |word| said.contains(word)),
    })
}

/// Those of the three words that are of the types, and wanted.
fn words(types: u8, wanted: impl Fn(&str) -> bool) -> Vec<&'static [u8]> {
    [("false", 2), ("true", 2), ("null", 1)]
        .into_iter()
        .filter(|(word, kind)| types & kind != 0 && wanted(word))
        .map(|(word, _)| word.as_bytes())
        .collect()
}
