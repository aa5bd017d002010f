//! The string formats of JSON Schema (2020-12 validation, section 7.3) as regular languages of texts.
//!
//! Three formats are not regular: `regex`, `idn-hostname`, and from draft 7 on `hostname`, whose labels may be
//! Punycode. For these we allow a regular subset; `leaves_out` recognises them. Each format is made once for the
//! process.

mod expressions;
mod grammars;
mod hosts;
mod times;

use std::sync::Mutex;

use super::spelling::Speller;
use crate::regular::regex::{read, Dialect, Limits, Node};
use crate::regular::term::Spelling;

/// The formats in the order of their nodes.
const NAMES: [&str; 20] = [
    "date",
    "duration",
    "email",
    "idn-email",
    "hostname",
    WITHOUT_PUNYCODE,
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uuid",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    TIME,
    DATE_TIME,
    IDN_HOSTNAME,
    REGEX,
];
const TIME: &str = "time";
const DATE_TIME: &str = "date-time";
const IDN_HOSTNAME: &str = "idn-hostname";
const REGEX: &str = "regex";

/// The format `hostname` from draft 7 on, without host names that have labels in Punycode.
pub const WITHOUT_PUNYCODE: &str = "hostname without Punycode";
const HOSTNAME: &str = "hostname";

/// Return whether JSON Schema defines a format in any draft; other formats are annotations. Schemas for older drafts
/// use `date` or `uuid` with the meaning that later drafts define.
pub fn is_defined(name: &str) -> bool {
    name != WITHOUT_PUNYCODE && NAMES.contains(&name)
}

/// Return all formats that JSON Schema defines.
pub fn defined() -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| is_defined(name)).collect()
}

/// Return the name by which `format_node` knows a format of a draft.
pub fn name_in(name: &str, draft: u32) -> &str {
    match name == HOSTNAME && draft >= 7 {
        true => WITHOUT_PUNYCODE,
        false => name,
    }
}

/// Return whether we allow only a subset of a format.
pub fn leaves_out(name: &str) -> bool {
    matches!(name, WITHOUT_PUNYCODE | IDN_HOSTNAME | REGEX)
}

/// Return the name of a format that contains all texts of a format, including those that we leave out; None if any text
/// may be one.
pub fn wide_name(name: &str) -> Option<&str> {
    match name {
        WITHOUT_PUNYCODE => Some(HOSTNAME),
        IDN_HOSTNAME | REGEX => None,
        _ => Some(name),
    }
}

/// Return the texts that have a format, except those that we leave out; every call returns the same node.
pub fn format_node(name: &str) -> Node {
    static KNOWN: Known<{ NAMES.len() }> = Mutex::new([NONE; NAMES.len()]);
    let make = || {
        let node = match name {
            TIME => times::time(),
            DATE_TIME => Node::sequence(vec![whole(&grammars::date()), times::letter(b'T'), format_node(TIME)]),
            HOSTNAME => hosts::hostname(),
            WITHOUT_PUNYCODE => hosts::without_punycode(),
            IDN_HOSTNAME => hosts::idn_hostname(),
            REGEX => expressions::expression(),
            _ => whole(&grammars::pattern(name)),
        };
        node.kept()
    };
    once(&KNOWN, place(name), make)
}

/// Return the JSON spellings of the texts that have a format, without quotes; every call returns the same node.
///
/// A time with a leap second is spelled without escapes, and its offset is a multiple of a quarter of an hour. Other
/// offsets and escapes would multiply the states of a terminal by the number of minutes in a day.
pub fn spelled_format(name: &str, spelling: Spelling) -> Node {
    static KNOWN: Known<{ 2 * NAMES.len() }> = Mutex::new([NONE; 2 * NAMES.len()]);
    let make = || {
        let node = match name {
            TIME => Node::choice(vec![
                spelled(&whole(times::TIME), spelling),
                times::common_leap_seconds(),
            ]),
            DATE_TIME => Node::sequence(vec![
                spelled(&whole(&grammars::date()), spelling),
                spelled(&times::letter(b'T'), spelling),
                spelled_format(TIME, spelling),
            ]),
            _ => spelled(&format_node(name), spelling),
        };
        node.kept()
    };
    once(&KNOWN, spelling as usize * NAMES.len() + place(name), make)
}

/// Return the spellings of a part of a format; parts that two formats share become one node.
fn spelled(node: &Node, spelling: Spelling) -> Node {
    static SPELLERS: [Mutex<Option<Speller>>; 2] = [Mutex::new(None), Mutex::new(None)];
    match SPELLERS[spelling as usize].lock() {
        Ok(mut speller) => speller.get_or_insert_with(|| Speller::new(spelling)).spell(node),
        Err(_) => Speller::new(spelling).spell(node),
    }
}

/// A table of nodes that are made on first use.
type Known<const COUNT: usize> = Mutex<[Option<Node>; COUNT]>;
const NONE: Option<Node> = None;

fn once<const COUNT: usize>(known: &Known<COUNT>, place: usize, make: impl FnOnce() -> Node) -> Node {
    let look = || known.lock().ok()?[place].clone();
    look().unwrap_or_else(|| {
        let node = make();
        match known.lock() {
            Ok(mut known) => known[place].get_or_insert(node).clone(),
            Err(_) => node,
        }
    })
}

fn place(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).unwrap_or_default()
}

/// Return the texts that one of our own patterns matches as a whole.
fn whole(pattern: &str) -> Node {
    read(&anchored(pattern), Dialect::Ecma, &Limits::default()).unwrap_or_else(|_| Node::no_text())
}

fn anchored(pattern: &str) -> Vec<u32> {
    format!("^(?:{pattern})$").chars().map(u32::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_a_format_can_be_read() {
        let others = [TIME, DATE_TIME, HOSTNAME, WITHOUT_PUNYCODE, IDN_HOSTNAME, REGEX];
        for name in NAMES.into_iter().filter(|name| !others.contains(name)) {
            let pattern = anchored(&grammars::pattern(name));
            assert!(read(&pattern, Dialect::Ecma, &Limits::default()).is_ok(), "{name}");
        }
    }
}
