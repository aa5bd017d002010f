//! Reads a schema for notations that write texts without quotes: its texts as they are, and the other types that it
//! allows.

use crate::base::limits::{Meter, Usage};
use crate::base::tuning::MAX_SCHEMA_DEPTH;
use crate::regular::regex::Node;
use crate::regular::term::Spelling;
use crate::schema::leaves::{inside, Leaves};
use crate::schema::load::Loader;
use crate::schema::lowering::Most;
use crate::schema::normal::Normalizer;
use crate::schema::report::{written, Outcome, Refusals, Stop};
use crate::schema::Document;

/// The JSON types other than text; each is a bit of `Plain::others`.
const NULL: u32 = 1;
const BOOLEAN: u32 = 1 << 1;
const NUMBER: u32 = 1 << 2;
const ARRAY: u32 = 1 << 3;
const OBJECT: u32 = 1 << 4;

pub enum Texts {
    None,
    /// Some texts, as the program of a regular node.
    Some(Vec<u8>),
    All,
}

pub struct Plain {
    pub texts: Texts,
    pub others: u32,
    /// True if the text that the caller asked about is among the texts.
    pub holds: bool,
}

impl Plain {
    /// Read what a schema allows and whether `text` is among its texts; or return why the schema is refused, see
    /// `written`.
    pub fn new(document: &Document, enforces_formats: bool, most: Most, text: Option<&str>) -> Result<Plain, Vec<u8>> {
        read(document, enforces_formats, most, text).map_err(|stop| match stop {
            Stop::Refused(refusal) => written([&*refusal]),
            Stop::InProgress => unreachable!("a search ends with an answer"),
        })
    }
}

fn read(document: &Document, enforces_formats: bool, most: Most, text: Option<&str>) -> Outcome<Plain> {
    let leaves = &Leaves::new(Spelling::Any);
    let usage = Usage::default();
    let meter = Meter::new(most.work, &usage, u64::MAX);
    let loader = Loader::new(document, most.nodes)?;
    let (root, deepest) = (loader.root, most.depth.min(MAX_SCHEMA_DEPTH) as usize);
    let mut refusals = Refusals::default();
    let mut normalizer = Normalizer::new(loader, leaves, enforces_formats, &mut refusals, deepest, meter);
    let shape = normalizer.literal(root)?;
    let kinds = [
        (NULL, shape.null),
        (BOOLEAN, shape.booleans > 0),
        (NUMBER, !shape.numbers.is_empty()),
        (ARRAY, !shape.arrays.is_empty()),
        (OBJECT, !shape.objects.is_empty()),
    ];
    let others = kinds.iter().filter(|kind| kind.1).map(|kind| kind.0).sum();
    let mut holds = false;
    if let Some(text) = text {
        for strings in &shape.strings {
            holds = holds || leaves.is_in(text, strings)?;
        }
    }
    let texts = if shape.strings.is_empty() {
        Texts::None
    } else if shape.strings.iter().any(|strings| strings.is_any()) {
        Texts::All
    } else {
        let nodes = shape.strings.iter().map(|strings| leaves.text_node(strings));
        Texts::Some(inside(&Node::choice(nodes.collect())))
    };
    Ok(Plain { texts, others, holds })
}
