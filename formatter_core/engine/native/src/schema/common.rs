//! What stands inside of terminals that are there before any schema.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Mutex, OnceLock};

use crate::hash::FastMap;
use crate::limits::{Fault, Outcome};
use crate::program::{write_number, Reader};
use crate::schema::lower::{any_rules, PUNCTUATION, TOKENS};
use crate::schema::nodes::{Regular, Writer};
use crate::schema::terminals::{Format, Markers, Parts};
use crate::term::Spelling;

/// The tokens, parts of others, and the scalars that schemas often have, all for one draft.
pub struct Common {
    pub draft: u32,
    /// The members of objects may come in any order, and not in that of the schema alone.
    pub in_any_order: bool,
    pub tokens: Vec<Regular>,
    /// The punctuation of each depth, see `nodes::LEVELS`; nothing where the depth does not matter.
    pub levels: Vec<Regular>,
    pub parts: Parts,
    scalars: FastMap<Box<str>, Regular>,
    patterned: Mutex<Patterned>,
    any_value: OnceLock<(Vec<u8>, u64)>,
}

/// What was made of schemas with patterns, by their texts, and how many bytes that is.
#[derive(Default)]
struct Patterned {
    made: FastMap<Box<str>, Regular>,
    bytes: usize,
}

/// What one entry takes besides.
const ENTRY: usize = 64;
/// At most so many bytes of these are kept.
const MOST_PATTERNED: usize = 1 << 20;

impl Common {
    /// `given` are the programs of the tokens, of the colon, of any string's body and character, of all numbers and all
    /// whole ones, of the punctuation of so many levels, of the texts that have formats, of the scalars, of the escapes of
    /// characters, and of what else terminals must match where a marker may occur, each with its size before it. `texts`
    /// are the schemas of those scalars, each ended by a zero byte. So are the names of the `formats` that say something;
    /// with a space and one such text those whose programs are given. `firsts` are the characters that markers begin with,
    /// first those that have escapes, then a zero byte and the others.
    pub fn read(
        draft: u32,
        (spelling, levels, in_any_order): (Spelling, u32, bool),
        given: &[u8],
        texts: &str,
        formats: &str,
        firsts: &str,
    ) -> Outcome<Common> {
        let mut reader = Reader { data: given };
        let mut tokens = Vec::new();
        for _ in 0..TOKENS {
            tokens.push(Regular::read(&mut reader)?);
        }
        let mut parts = Parts {
            spelling,
            colon: Regular::read(&mut reader)?,
            any_body: Regular::read(&mut reader)?,
            any_char: Regular::read(&mut reader)?,
            numbers: [Regular::read(&mut reader)?, Regular::read(&mut reader)?],
            formats: Vec::new(),
            markers: None,
        };
        let levels = (0..levels * PUNCTUATION)
            .map(|_| Regular::read(&mut reader))
            .collect::<Outcome<Vec<Regular>>>()?;
        for entry in formats.split_terminator('\0') {
            let (name, given) = match entry.split_once(' ') {
                Some((name, example)) => (name, Some((Regular::read(&mut reader)?, example.into()))),
                None => (entry, None),
            };
            let name = name.into();
            parts.formats.push(Format { name, given });
        }
        let mut scalars = FastMap::default();
        for text in texts.split_terminator('\0') {
            scalars.insert(text.into(), Regular::read(&mut reader)?);
        }
        if let Some((escaped, others)) = firsts.split_once('\0') {
            let escapes = escaped.chars().map(|first| Ok((first, Regular::read(&mut reader)?)));
            let escapes = escapes.collect::<Outcome<Vec<_>>>()?;
            let mut demands = Vec::new();
            while !reader.data.is_empty() {
                demands.push(Regular::read(&mut reader)?);
            }
            let firsts = escaped.chars().chain(others.chars()).collect();
            parts.markers = Some(Markers {
                firsts,
                escapes,
                demands,
            });
        }
        let common = Common {
            draft,
            in_any_order,
            tokens,
            levels,
            parts,
            scalars,
            patterned: Mutex::default(),
            any_value: OnceLock::new(),
        };
        reader.data.is_empty().then_some(common).ok_or(Fault::Malformed)
    }

    /// The rules of any value as they stand in a program, and how many nodes they are.
    pub fn any_value(&self) -> &(Vec<u8>, u64) {
        self.any_value.get_or_init(|| {
            let tokens: Vec<Cow<Regular>> = self.tokens.iter().map(Cow::Borrowed).collect();
            let (rules, mut programs) = (any_rules(), Vec::new());
            write_number(&mut programs, rules.len() as u32);
            let mut writer = Writer::new(&mut programs, 0, 0, &[], &tokens, None);
            rules.iter().for_each(|rule| writer.rule(rule, 0));
            let nodes = writer.nodes;
            (programs, nodes)
        })
    }

    /// The scalars that a schema allows, by its text.
    pub fn scalars(&self, text: &str) -> Option<&Regular> {
        self.scalars.get(text)
    }

    /// What was made of a schema with a pattern, by its text.
    pub fn patterned(&self, text: &str) -> Option<Regular> {
        self.patterned.lock().ok()?.made.get(text).cloned()
    }

    /// Keep what was made of a schema with a pattern: the same ones come again in others.
    pub fn keep_patterned(&self, text: &str, made: &Regular) {
        let size = ENTRY + text.len() + made.program.len();
        if let Ok(mut kept) = self.patterned.lock() {
            if kept.bytes + size > MOST_PATTERNED {
                *kept = Patterned::default();
            }
            if size <= MOST_PATTERNED {
                kept.bytes += size;
                kept.made.insert(text.into(), made.clone());
            }
        }
    }
}

/// Texts, each once.
#[derive(Default)]
pub struct Texts<'a>(HashSet<&'a str>);

impl<'a> Texts<'a> {
    /// Whether a text is new, which is added then.
    #[inline(never)]
    pub fn add(&mut self, text: &'a str) -> bool {
        self.0.insert(text)
    }

    #[inline(never)]
    pub fn contains(&self, text: &str) -> bool {
        self.0.contains(text)
    }
}
