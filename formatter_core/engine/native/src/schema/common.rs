//! Data that schemas with the same options share: the tokens and their programs.

use std::borrow::Cow;
use std::mem::size_of;
use std::sync::{Mutex, OnceLock};

use crate::base::hash::FastMap;
use crate::base::heap::{self, Share};
use crate::base::stop;
use crate::base::tuning::MAX_TESTED_BYTES;
use crate::regular::program::write_number;
use crate::regular::term::Spelling;
use crate::schema::any_value::any_rules;
use crate::schema::leaves::{inside, largest_repeat, with_escapes, Markers, Scalars, Terminal, Tokens, Whitespace};
use crate::schema::nodes::{Regular, Writer};
use crate::schema::SCHEMAS;

/// The options for reading and writing schemas.
pub struct Options<'a> {
    pub spelling: Spelling,
    pub whitespace: Whitespace,
    /// True if the members of objects may come in any order instead of the schema's order only.
    pub in_any_order: bool,
    pub enforces_formats: bool,
    /// The characters that are escaped in listed texts.
    pub escaped: &'a str,
    /// The texts that must not occur.
    pub markers: &'a [&'a str],
}

/// The tokens for these options, as programs without markers.
pub struct Common {
    pub spelling: Spelling,
    pub in_any_order: bool,
    pub enforces_formats: bool,
    /// The tokens, and the names of properties.
    pub names: Tokens,
    pub tokens: Vec<Regular>,
    /// The punctuation of each depth, see `nodes::LEVELS`; empty if the depth does not matter.
    pub levels: Vec<Regular>,
    escaped: Vec<char>,
    pub markers: Option<Markers>,
    /// True if other grammars share the tokens; tokens of a user's own whitespace are not shared.
    pub is_shared: bool,
    any_value: OnceLock<(Vec<u8>, u64)>,
    tested: Mutex<Tested>,
    memory: Share,
}

/// The terminals of scalars with tests, and the memory of their programs in bytes. We keep them because the same
/// patterns occur in many schemas.
#[derive(Default)]
struct Tested {
    made: FastMap<(Scalars, u64), Regular>,
    bytes: usize,
    /// The heap memory inside the entries.
    inner: usize,
}

/// The memory of an entry apart from its program.
const ENTRY_BYTES: usize = 256;

impl Common {
    pub fn new(options: Options) -> Self {
        let names = Tokens::new(&options.whitespace, options.spelling);
        let is_shared = options.whitespace.is_named();
        let mut common = Common {
            spelling: options.spelling,
            in_any_order: options.in_any_order,
            enforces_formats: options.enforces_formats,
            tokens: Vec::new(),
            levels: Vec::new(),
            names,
            escaped: options.escaped.chars().collect(),
            markers: Markers::new(options.markers),
            is_shared,
            any_value: OnceLock::new(),
            tested: Mutex::default(),
            memory: Share::new(0, &SCHEMAS),
        };
        let (tokens, levels) = common.names.in_order();
        let inside = |terminal: &Terminal| common.inside(terminal, u64::MAX);
        let (tokens, levels) = (tokens.iter().map(inside).collect(), levels.map(inside).collect());
        (common.tokens, common.levels) = (tokens, levels);
        common.count_memory(&Tested::default());
        common
    }

    /// Count the memory, except that of nodes, which count themselves.
    fn count_memory(&self, tested: &Tested) {
        let regular =
            |all: &Vec<Regular>| heap::list(all) + all.iter().map(|made| heap::list(&made.program)).sum::<usize>();
        let any = self.any_value.get().map_or(0, |(rules, _)| heap::list(rules));
        let tested = heap::table(&tested.made) + tested.inner;
        let own = heap::COUNTS + size_of::<Self>();
        self.memory
            .set(own + regular(&self.tokens) + regular(&self.levels) + any + tested);
    }

    /// Return the inside of a terminal without markers and with escaped characters, for a grammar of at most `most`
    /// nodes.
    pub fn inside(&self, terminal: &Terminal, most: u64) -> Regular {
        let mut made = Cow::Borrowed(terminal);
        if let Some(markers) = &self.markers {
            made = Cow::Owned(markers.free(&made));
        }
        if !self.escaped.is_empty() {
            made = Cow::Owned(with_escapes(&made, &self.escaped));
        }
        let item = made.item();
        let size = item.size();
        Regular {
            program: if size > most { Vec::new() } else { inside(item) },
            size,
            height: item.height(),
            repeat: largest_repeat(item),
        }
    }

    /// Return the rules of any value as a program, and the number of their nodes.
    pub fn any_value(&self) -> &(Vec<u8>, u64) {
        self.any_value.get_or_init(|| {
            let tokens: Vec<Cow<Regular>> = self.tokens.iter().map(Cow::Borrowed).collect();
            let (rules, mut programs) = (any_rules(), Vec::new());
            write_number(&mut programs, rules.len() as u32);
            let mut writer = Writer::new(&mut programs, 0, 0, &tokens, None);
            rules.iter().for_each(|rule| writer.rule(rule, 0));
            let nodes = writer.nodes;
            (programs, nodes)
        })
    }

    /// Return the inside of a terminal of scalars with tests, if another schema made it for a grammar with the same
    /// limit of nodes.
    pub fn tested(&self, key: &(Scalars, u64)) -> Option<Regular> {
        self.tested.lock().ok()?.made.get(key).cloned()
    }

    /// Keep such a terminal for other schemas.
    pub fn keep_tested(&self, key: (Scalars, u64), made: &Regular) {
        if stop::is_stopping() {
            return;
        }
        let size = ENTRY_BYTES + 2 * made.program.len();
        if let Ok(mut kept) = self.tested.lock() {
            if kept.bytes + size > MAX_TESTED_BYTES {
                *kept = Tested::default();
            }
            if size <= MAX_TESTED_BYTES {
                kept.bytes += size;
                kept.inner += made.program.len() + key.0.heap();
                kept.made.insert(key, made.clone());
                self.count_memory(&kept);
            }
        }
    }
}

// Threads share this type, so it must be `Sync`.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Common>();
};
