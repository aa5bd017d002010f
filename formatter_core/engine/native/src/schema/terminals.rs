//! What stands inside of the terminals of property names, and of most scalars.

use crate::hash::FastMap;
use crate::program::operation;
use crate::schema::inside::{Inside, Part};
use crate::schema::nodes::Regular;
use crate::schema::patterns::Pattern;
use crate::term::Spelling;

/// Maximum nesting of alternatives with shared beginnings.
const TRIE_DEPTH: u32 = 12;

/// The parts that come from outside: the colon after a name, the body of any string, and any of its characters.
pub struct Parts {
    pub spelling: Spelling,
    pub colon: Regular,
    pub any_body: Regular,
    pub any_char: Regular,
    /// All numbers, and all whole ones.
    pub numbers: [Regular; 2],
    pub formats: Vec<Format>,
    /// What texts must not hold, if there is anything.
    pub markers: Option<Markers>,
}

/// Texts that must not occur in a terminal. See `grammar/markers.py`.
pub struct Markers {
    /// The characters that they begin with.
    pub firsts: Vec<char>,
    /// Those of these that may be escaped, and their escapes.
    pub escapes: Vec<(char, Regular)>,
    /// What a terminal that may hold a marker must match, too.
    pub demands: Vec<Regular>,
}

/// A format that says something, and if they are given the spellings of the texts that have it, and one such text.
pub struct Format {
    pub name: Box<str>,
    pub given: Option<(Regular, Box<str>)>,
}

impl Parts {
    /// A name in quotes, and the colon.
    pub fn name(&self, name: &str) -> Regular {
        self.quoted(|inside| inside.listed_text(name.as_bytes()))
    }

    /// Any other name than these.
    pub fn name_other_than(&self, names: Vec<&str>) -> Regular {
        self.quoted(|inside| inside.other_than(names))
    }

    /// The names that one of the patterns matches and no other, by the pattern, and those that none matches; without the
    /// given names.
    pub fn names_like(&self, patterns: &[Pattern], names: &[&str]) -> Vec<Regular> {
        let mut excluded = names.to_vec();
        excluded.sort_unstable();
        let class = |matched: usize| {
            self.quoted(|inside| {
                let mut demands = patterns.len();
                if let Some(pattern) = patterns.get(matched) {
                    inside.spelled(&pattern.whole);
                } else if names.is_empty() {
                    inside.part(Part::AnyBody);
                    demands += 1;
                }
                if !names.is_empty() {
                    inside.other_than(excluded.clone());
                    demands += 1;
                }
                for (_, pattern) in patterns.iter().enumerate().filter(|(place, _)| *place != matched) {
                    inside.spelled(&pattern.whole);
                    inside.operation(operation::COMPLEMENT);
                }
                if demands > 1 {
                    inside.list(operation::INTERSECTION, demands);
                }
            })
        };
        (0..=patterns.len()).map(class).collect()
    }

    /// The number of a format that says something.
    pub fn format(&self, name: &str) -> Option<usize> {
        self.formats.iter().position(|known| *known.name == *name)
    }

    fn quoted(&self, body: impl FnOnce(&mut Inside)) -> Regular {
        let mut inside = Inside::new(self);
        inside.part(Part::Quote);
        body(&mut inside);
        inside.part(Part::Quote);
        inside.kept(&self.colon);
        inside.list(operation::SEQUENCE, 4);
        inside.finished()
    }
}

impl Inside<'_> {
    /// Every other text than these.
    fn other_than(&mut self, texts: Vec<&str>) {
        self.part(Part::AnyBody);
        self.trie(texts, TRIE_DEPTH, Inside::text);
        self.operation(operation::COMPLEMENT);
        self.list(operation::INTERSECTION, 2);
    }

    /// One of some texts in quotes.
    pub fn listed(&mut self, texts: Vec<&str>) {
        self.part(Part::Quote);
        self.trie(texts, TRIE_DEPTH, Inside::listed_text);
        self.part(Part::Quote);
        self.list(operation::SEQUENCE, 3);
    }

    /// One of the texts, which differ; equal beginnings are shared.
    fn trie(&mut self, texts: Vec<&str>, depth: u32, write: fn(&mut Self, &[u8])) {
        if let [text] = texts[..] {
            return match text {
                "" => self.part(Part::Empty),
                _ => write(self, text.as_bytes()),
            };
        }
        if depth == 0 {
            for text in &texts {
                write(self, text.as_bytes());
            }
            return self.list(operation::CHOICE, texts.len());
        }
        let (least, greatest) = (texts.iter().min(), texts.iter().max());
        let length = shared_length(least.unwrap_or(&""), greatest.unwrap_or(&""));
        if length > 0 {
            write(self, &texts[0].as_bytes()[..length]);
        }
        let mut groups: Vec<Vec<&str>> = Vec::new();
        let mut known: FastMap<u32, usize> = FastMap::default();
        for text in texts {
            let rest = &text[length..];
            let first = rest.chars().next().map_or(u32::MAX, u32::from);
            let group = *known.entry(first).or_insert(groups.len());
            if group == groups.len() {
                groups.push(Vec::new());
            }
            groups[group].push(rest);
        }
        let count = groups.len();
        for group in groups {
            self.trie(group, depth - 1, write);
        }
        self.list(operation::CHOICE, count);
        if length > 0 {
            self.list(operation::SEQUENCE, 2);
        }
    }
}

/// How many bytes at the beginning two texts share, in whole characters.
fn shared_length(a: &str, b: &str) -> usize {
    let shared = a.chars().zip(b.chars()).take_while(|(one, other)| one == other);
    shared.map(|(char, _)| char.len_utf8()).sum()
}
