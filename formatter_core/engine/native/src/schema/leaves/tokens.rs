//! The fixed tokens of JSON with their gaps, each as one terminal, and the names of properties.
//!
//! No token is nullable; blanks belong to the token next to them. The tokens of named whitespace are interned, because
//! all schemas share them; those of a user's own whitespace are not.

use super::numbers::NumberSet;
use super::numerals::number_node;
use super::spelling::{free_string, listed_text, quote};
use super::whitespace::Whitespace;
use super::{in_a_row, Terminal};
use crate::regular::regex::Node;
use crate::regular::term::Spelling;
use crate::schema::nodes::LEVELS;

/// A set of terminals: punctuation for any depth and for each depth, and names.
pub struct Tokens {
    spelling: Spelling,
    /// The tokens in the order of `Token`.
    tokens: Vec<Terminal>,
    /// The punctuation of each depth, in the same order; empty if the depth does not matter.
    levels: Vec<Vec<Terminal>>,
    colon: Node,
}

impl Tokens {
    pub fn new(whitespace: &Whitespace, spelling: Spelling) -> Self {
        let interned = |node: Node| match whitespace.is_named() {
            true => node.kept(),
            false => node,
        };
        let token = |items: Vec<Node>| {
            let kept = items.into_iter().filter(|item| !item.is_empty());
            Terminal::new(interned(in_a_row(kept.collect())))
        };
        let punctuation = |whitespace: &Whitespace| {
            let gap = whitespace.gap();
            let open = |bracket: &str| token(vec![Node::text(bracket), gap.clone()]);
            let close = |bracket: &str| token(vec![gap.clone(), Node::text(bracket)]);
            let empty = |open: &str, close: &str| token(vec![Node::text(open), gap.clone(), Node::text(close)]);
            vec![
                token(vec![whitespace.around(",", &gap)]),
                open("["),
                close("]"),
                empty("[", "]"),
                open("{"),
                close("}"),
                empty("{", "}"),
            ]
        };
        let levels = match whitespace.as_written {
            true => (0..LEVELS)
                .map(|level| punctuation(&whitespace.at(level.unsigned_abs())))
                .collect(),
            false => Vec::new(),
        };
        let mut tokens = punctuation(whitespace);
        let colon = interned(whitespace.around(":", &whitespace.gap()));
        tokens.push(token(vec![free_string(spelling), colon.clone()]));
        let any_number = number_node(&NumberSet::any(), spelling, false);
        let words = ["null", "true", "false"].map(Node::text);
        let scalars = [free_string(spelling), any_number].into_iter().chain(words);
        tokens.push(token(vec![Node::choice(scalars.collect())]));
        Tokens {
            spelling,
            tokens,
            levels,
            colon,
        }
    }

    /// Return all tokens for any depth, and the punctuation of each level.
    pub fn in_order(&self) -> (&[Terminal], impl Iterator<Item = &Terminal>) {
        (&self.tokens, self.levels.iter().flatten())
    }

    /// Make the terminal of a property's name with its colon.
    pub fn name(&self, name: &str) -> Terminal {
        self.names(listed_text(name, self.spelling))
    }

    /// Make the terminal of any of the names that `body` spells without quotes, with the colon.
    pub fn names(&self, body: Node) -> Terminal {
        Terminal::new(Node::sequence(vec![quote(), body, quote(), self.colon.clone()]))
    }
}
