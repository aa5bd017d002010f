//! What stands inside of the terminals of property names, and of most scalars.

use std::collections::HashMap;

use crate::program::operation;
use crate::schema::nodes::{write_counted, write_number, Regular};
use crate::schema::scalars::Strings;

/// Maximum nesting of alternatives with shared beginnings.
const TRIE_DEPTH: u32 = 12;

/// Room for the programs of most names.
const USUAL_LENGTH: usize = 64;

/// Writes the inside of one terminal. What is made there is numbered, and what was made before is not written again.
struct Inside {
    regular: Regular,
    made: u32,
    /// The number of the empty text.
    empty: Option<u32>,
}

/// The parts that come from outside: the colon after a name, the body of any string, and any of its characters.
pub struct Parts {
    pub colon: Regular,
    pub any_body: Regular,
    pub any_char: Regular,
}

impl Parts {
    /// A name in quotes, in every spelling, and the colon.
    pub fn name(&self, name: &str) -> Regular {
        self.quoted(|inside| inside.text(name))
    }

    /// Any other name than these.
    pub fn name_other_than(&self, names: Vec<&str>) -> Regular {
        self.quoted(|inside| {
            inside.kept(&self.any_body);
            inside.trie(names, TRIE_DEPTH);
            inside.operation(operation::COMPLEMENT);
            inside.list(operation::INTERSECTION, 2);
        })
    }

    fn quoted(&self, body: impl FnOnce(&mut Inside)) -> Regular {
        let mut inside = Inside::new();
        inside.bytes(b"\"");
        body(&mut inside);
        inside.again(0);
        inside.kept(&self.colon);
        inside.list(operation::SEQUENCE, 4);
        inside.regular
    }

    /// Strings in quotes, in every spelling, and words.
    pub fn some(&self, strings: &Strings, words: &[&[u8]]) -> Regular {
        let mut inside = Inside::new();
        inside.bytes(b"\"");
        match strings {
            Strings::Listed(texts) => inside.trie(texts.iter().map(String::as_str).collect(), TRIE_DEPTH),
            Strings::Long(minimum, maximum) => {
                inside.kept(&self.any_char);
                inside.operation(operation::REPEAT);
                write_number(&mut inside.regular.program, *minimum);
                write_number(&mut inside.regular.program, maximum.map_or(0, |maximum| maximum + 1));
            }
        }
        inside.again(0);
        inside.list(operation::SEQUENCE, 3);
        for word in words {
            inside.bytes(word);
        }
        if !words.is_empty() {
            inside.list(operation::CHOICE, 1 + words.len());
        }
        inside.regular
    }
}

impl Inside {
    fn new() -> Self {
        Inside {
            regular: Regular {
                program: Vec::with_capacity(USUAL_LENGTH),
                size: 0,
            },
            made: 0,
            empty: None,
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        write_counted(&mut self.regular.program, operation::BYTES, bytes);
        self.add(1);
    }

    fn add(&mut self, size: u64) {
        self.regular.size += size;
        self.made += 1;
    }

    fn again(&mut self, number: u32) {
        self.regular.program.push(operation::AGAIN);
        write_number(&mut self.regular.program, number);
        self.regular.size += 1;
    }

    fn kept(&mut self, part: &Regular) {
        self.regular.program.extend_from_slice(&part.program);
        self.add(part.size);
    }

    fn text(&mut self, text: &str) {
        write_counted(&mut self.regular.program, operation::JSON_TEXT, text.as_bytes());
        self.add(1 + text.chars().count() as u64);
    }

    fn operation(&mut self, operation: u8) {
        self.regular.program.push(operation);
        self.add(1);
    }

    fn list(&mut self, operation: u8, count: usize) {
        self.regular.program.push(operation);
        write_number(&mut self.regular.program, count as u32);
        self.add(1);
    }

    /// One of the texts, which differ; equal beginnings are shared.
    fn trie(&mut self, texts: Vec<&str>, depth: u32) {
        if let [text] = texts[..] {
            return self.text_or_empty(text);
        }
        if depth == 0 {
            for text in &texts {
                self.text(text);
            }
            return self.list(operation::CHOICE, texts.len());
        }
        let (least, greatest) = (texts.iter().min(), texts.iter().max());
        let length = shared_length(least.unwrap_or(&""), greatest.unwrap_or(&""));
        if length > 0 {
            self.text(&texts[0][..length]);
        }
        let mut groups: Vec<Vec<&str>> = Vec::new();
        let mut known: HashMap<Option<char>, usize> = HashMap::new();
        for text in texts {
            let rest = &text[length..];
            let group = *known.entry(rest.chars().next()).or_insert(groups.len());
            if group == groups.len() {
                groups.push(Vec::new());
            }
            groups[group].push(rest);
        }
        let count = groups.len();
        for group in groups {
            self.trie(group, depth - 1);
        }
        self.list(operation::CHOICE, count);
        if length > 0 {
            self.list(operation::SEQUENCE, 2);
        }
    }

    fn text_or_empty(&mut self, text: &str) {
        if !text.is_empty() {
            self.text(text);
        } else if let Some(number) = self.empty {
            self.again(number);
        } else {
            self.empty = Some(self.made);
            self.list(operation::SEQUENCE, 0);
        }
    }
}

/// How many bytes at the beginning two texts share, in whole characters.
fn shared_length(a: &str, b: &str) -> usize {
    let shared = a.chars().zip(b.chars()).take_while(|(one, other)| one == other);
    shared.map(|(char, _)| char.len_utf8()).sum()
}
