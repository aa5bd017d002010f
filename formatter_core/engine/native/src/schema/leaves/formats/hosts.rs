//! Host names, in ASCII and in Unicode.

use super::super::digits::repeat;
use super::{format_node, whole, WITHOUT_PUNYCODE};
use crate::regular::regex::Node;

/// The outer characters of a label (RFC 1123, section 2.1: letters, digits and inner hyphens).
const OUTER: &str = "[A-Za-z0-9]";
const INNER: &str = "[A-Za-z0-9-]";
const LONGEST_HOSTNAME: usize = 253;

/// Letters of international labels. RFC 5892 has no contextual rules for these; they are written from left to right, in
/// scripts up to U+D7A3.
const IDN_LETTERS: &str = "ß-öø-ÿāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįıĵķĺļľłńņňōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷźżžά-ώа-џぁ-ゖァ-ヺ一-龥가-힣";
/// A label of this many such characters never exceeds 63 bytes in Punycode.
const LONGEST_IDN_LABEL: usize = 12;

/// Return the pattern of host names whose labels match a pattern.
pub fn labels(label: &str) -> String {
    format!(r"{label}(?:\.{label})*")
}

/// Make the host names whose labels may be Punycode.
pub fn hostname() -> Node {
    no_longer_than(
        LONGEST_HOSTNAME,
        &labels(&format!("{OUTER}(?:{INNER}{{0,61}}{OUTER})?")),
    )
}

/// Make the host names without Punycode labels.
pub fn without_punycode() -> Node {
    no_longer_than(LONGEST_HOSTNAME, &labels(&plain_label()))
}

/// Make the host names without Punycode labels, and those of up to three labels with other letters; the latter are
/// never too long.
pub fn idn_hostname() -> Node {
    let outer = format!("[a-z0-9{IDN_LETTERS}]");
    let label = no_longer_than(LONGEST_IDN_LABEL, &format!("{outer}(?:-?{outer})*"));
    let either = Node::choice(vec![whole(&plain_label()), label]);
    let further = Node::sequence(vec![Node::text("."), either.clone()]);
    Node::choice(vec![
        format_node(WITHOUT_PUNYCODE),
        Node::sequence(vec![either, repeat(further, 0, Some(2))]),
    ])
}

/// Return the pattern of plain labels (RFC 5890, section 2.3.1): labels with hyphens in the third and fourth place are
/// Punycode, or reserved. This pattern matches all other labels: of up to three characters, of four, and of more.
fn plain_label() -> String {
    format!(
        "{OUTER}(?:{INNER}?{OUTER}|{INNER}{{2}}{OUTER}\
         |{INNER}(?:{OUTER}{INNER}|-{OUTER}){INNER}{{0,58}}{OUTER})?"
    )
}

fn no_longer_than(most: usize, pattern: &str) -> Node {
    Node::intersection(vec![whole(pattern), repeat(Node::any_char(), 1, Some(most))])
}
