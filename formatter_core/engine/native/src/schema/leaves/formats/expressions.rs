//! Texts that are certainly regular expressions of ECMA 262.
//!
//! Groups nest and the names of groups must differ, so the set of all regular expressions is not a regular language; we
//! allow a subset. Each text in it is valid with and without the flag `u`, and for Python's `re`, with which many
//! validators check the format.

use super::super::digits::{optional, repeat};
use super::whole;
use crate::base::tuning::MAX_EXPRESSION_DEPTH;
use crate::regular::regex::Node;

const CHAR: &str = r"[^$\\.*+?()[\]{}|^]";
const HEX: &str = "[0-9A-Fa-f]";

/// The parts of a character class: characters that represent themselves in it, and ranges.
const OWN: &str = r"[^\\\[\]^-]|\\-";
const RANGES: [&str; 4] = [
    "a-[a-z]|[b-y]-z|A-[A-Z]|[B-Y]-Z|[ !]-~",
    "À-Ö|Ø-ö|ø-ÿ|À-ÿ|à-ÿ|α-ω|Α-Ω|а-я|А-Я|ぁ-ん|ァ-ヶ|一-龥|一-鿿|가-힣",
    r"\\x00-\\x(?:1[fF]|7[fF])|\\x20-\\x7[eE]|\\u0000-\\u(?:001[fF]|007[fF])|\\u4[eE]00-\\u9(?:[fF]{2}|fa5|FA5)",
    r"\\u0(?:0[cC]0-\\u00|400-\\u04|600-\\u06)[fF]{2}",
];

/// Make the node of these texts.
pub fn expression() -> Node {
    let (escaped, ranges, counts) = (escaped(), ranges(), counts());
    let quantifier = whole(&format!(r"(?:(?:[*+?]|\{{(?:{counts})\}})\??)?"));
    let one_in_class = format!("(?:{OWN}|{escaped}|{ranges})");
    let atom = whole(&format!(
        r"\.|{CHAR}|{escaped}|\[\^?(?:-|{one_in_class})(?:{one_in_class}|\^)*-?\]"
    ));
    let assertion = whole(r"[$^|]|\\[bB]");
    let quantified = |item: Node| Node::sequence(vec![item, quantifier.clone()]);
    // An empty alternative is valid, too: `|` may occur anywhere.
    let mut inside = any_number(vec![assertion.clone(), quantified(atom.clone())]);
    let (mut before, mut with_group) = (inside.clone(), atom.clone());
    for _ in 0..MAX_EXPRESSION_DEPTH {
        let group = vec![
            Node::text("("),
            optional(Node::text("?:")),
            inside.clone(),
            Node::text(")"),
        ];
        with_group = Node::choice(vec![atom.clone(), Node::sequence(group)]);
        before = inside;
        inside = any_number(vec![assertion.clone(), quantified(with_group.clone())]);
    }
    let ahead = Node::sequence(vec![whole(r"\(\?[=!]"), before, Node::text(")")]);
    any_number(vec![assertion, ahead, quantified(with_group)])
}

fn any_number(options: Vec<Node>) -> Node {
    repeat(Node::choice(options), 0, None)
}

fn escaped() -> String {
    format!(r"\\(?:[dDsSwWtnvfr^$\\.*+?()[\]{{}}|/]|x{HEX}{{2}}|u(?:[0-9A-CEFa-cef]{HEX}|[Dd][0-7]){HEX}{{2}})")
}

fn ranges() -> String {
    let digits = (0..10).map(|low| format!("{low}-[{low}-9]"));
    joined(digits.chain(RANGES.map(String::from)))
}

/// Make one count, or two counts in order: they are ordered if the second has more digits or more tens, or if both have
/// one digit.
fn counts() -> String {
    let one_digit = (0..10).map(|low| format!("{low},[{low}-9]"));
    let two_digits = (1..9).map(|tens| format!("{tens}[0-9],[{}-9][0-9]", tens + 1));
    let more_digits = "[0-9],[1-9][0-9]{1,3}|[1-9][0-9],[1-9][0-9]{2,3}|[1-9][0-9]{2},[1-9][0-9]{3}";
    let single = ["(?:0|[1-9][0-9]{0,3}),?".to_owned()].into_iter();
    joined(
        single
            .chain(one_digit)
            .chain(two_digits)
            .chain([more_digits.to_owned()]),
    )
}

fn joined(options: impl Iterator<Item = String>) -> String {
    options.collect::<Vec<_>>().join("|")
}
