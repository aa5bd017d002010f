//! Refusals: why a schema is not lowered, or which keywords are dropped, as codes with data. The sentences are Python's
//! (`schema/refusals.py`).

use crate::base::hash::FastSet;
use crate::schema::leaves;

/// End a text and a refusal: no UTF-8 has these bytes.
const END: u8 = 0xff;
const END_OF_REFUSAL: u8 = 0xfe;

/// The Python class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Invalid,
    /// A keyword that is not enforced: one that may be dropped, and another one.
    Droppable,
    Unsupported,
    Unsatisfiable,
    Limit,
}

/// What is wrong; each stands for a sentence, with the parts of a `Refusal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// No keyword of JSON Schema.
    NoKeyword,
    /// No schema, but a value.
    NotASchema,
    /// A keyword's value is null.
    IsNull,
    /// A value, and what the keyword takes.
    WrongValue,
    /// A number of too many digits.
    LongNumber,
    /// A reference to an anchor that nothing has.
    NoSuchAnchor,
    /// A reference, and the URI that it means, which nothing has.
    PointsOutside,
    /// A dialect that nobody knows.
    UnknownDialect,
    /// A reference to nothing.
    PointsAtNothing,
    /// A schema refers to itself for the same value.
    Cycle,
    /// A name that is no type.
    NoType,
    /// Too many branches beside `unevaluatedProperties` or `unevaluatedItems`; how many are taken.
    TooManyBranches,
    /// A dynamic anchor that several schemas declare.
    SeveralAnchors,
    /// A pattern that cannot be read.
    Pattern,
    /// A text with half of a surrogate pair, as JSON.
    LoneSurrogate,
    /// A format of which texts are left out, and a listed text that may be one of these.
    ListedLeftOut,
    /// What is outside such a format cannot be told.
    OutsideFormat,
    /// `unevaluatedItems` beside `contains`.
    BesideContains,
    /// Items that repeat are not context-free.
    Repeated,
    /// `uniqueItems` of multiples of large steps, or of arrays or objects.
    UniqueSteps,
    UniqueStructures,
    /// `uniqueItems` beside counted items.
    UniqueCounted,
    /// Steps with too many states.
    LargeSteps,
    /// Another refusal, of a keyword inside one that is refused as a whole: its keyword, pointer, code and parts.
    Within,
    /// No value is left.
    Contradiction,
    False,
    /// Limits, by name.
    Depth,
    Nodes,
    GrammarNodes,
    Work,
    CountStates,
    KeyClasses,
    NamedKeys,
    Combinations,
    Branches,
    MemberSteps,
    /// Of a repeat or a list of members: which, and the rule's name.
    Repeat,
    /// Of the nesting of a rule, by its name.
    RuleDepth,
    /// Of a leaf: which limit, and of what.
    Leaf,
}

/// An error with its facts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    pub class: Class,
    pub why: Why,
    /// None where a limit is not that of one schema.
    pub pointer: Option<String>,
    pub keyword: String,
    pub parts: Vec<String>,
}

/// Why lowering ended.
#[derive(Debug)]
pub enum Stop {
    /// The search for a contradiction reached a schema that is still being computed.
    InProgress,
    Refused(Box<Refusal>),
}

pub type Outcome<T> = Result<T, Stop>;

/// Refuses keywords, or, if `lenient`, records and ignores them.
#[derive(Default)]
pub struct Refusals {
    pub lenient: bool,
    pub dropped: Vec<Refusal>,
    known: FastSet<Refusal>,
    /// Below how many negations we are: there, dropping a keyword would narrow the format.
    strict: u32,
}

impl Refusals {
    pub fn lenient() -> Self {
        Refusals {
            lenient: true,
            ..Refusals::default()
        }
    }

    /// Whether keywords that could otherwise be dropped must be refused here.
    pub fn is_strict(&self) -> bool {
        self.lenient && self.strict > 0
    }

    /// Refuse a keyword, unless it may be dropped here.
    pub fn refuse(&mut self, mut refusal: Refusal) -> Outcome<()> {
        refusal.class = Class::Droppable;
        if !self.lenient || self.strict > 0 {
            return Err(refusal.into());
        }
        if self.known.insert(refusal.clone()) {
            self.dropped.push(refusal);
        }
        Ok(())
    }

    /// Refuse a keyword of the schema at a pointer.
    pub fn refuse_at(&mut self, pointer: &str, keyword: &str, why: Why, parts: &[&str]) -> Outcome<()> {
        self.refuse(Refusal::new(Class::Droppable, why, pointer, keyword, parts))
    }

    /// Drop nothing until `end_strict`.
    pub fn begin_strict(&mut self) {
        self.strict += 1;
    }

    pub fn end_strict(&mut self) {
        self.strict -= 1;
    }
}

impl Refusal {
    pub fn new(class: Class, why: Why, pointer: &str, keyword: &str, parts: &[&str]) -> Refusal {
        Refusal {
            class,
            why,
            pointer: Some(pointer.into()),
            keyword: keyword.into(),
            parts: parts.iter().map(|part| String::from(*part)).collect(),
        }
    }

    /// A limit that is not that of one schema, or not yet.
    pub fn limit(why: Why, parts: &[&str]) -> Refusal {
        Refusal {
            pointer: None,
            ..Refusal::new(Class::Limit, why, "", "", parts)
        }
    }

    /// Whether a keyword is not enforced.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.class, Class::Droppable | Class::Unsupported)
    }

    /// The refusal of a keyword, because of this one inside it.
    pub fn within(self, pointer: &str, keyword: &str) -> Refusal {
        let own = [
            self.keyword,
            self.pointer.unwrap_or_default(),
            format!("{:?}", self.why),
        ];
        Refusal {
            parts: own.into_iter().chain(self.parts).collect(),
            ..Refusal::new(Class::Droppable, Why::Within, pointer, keyword, &[])
        }
    }

    /// Write the class, what is wrong, "at" if there is a pointer, the pointer, the keyword and the parts of the sentence.
    fn write(&self, written: &mut Vec<u8>) {
        let facts = [format!("{:?}", self.class), format!("{:?}", self.why)];
        let (at, pointer) = match &self.pointer {
            Some(pointer) => ("at", &**pointer),
            None => ("", ""),
        };
        let facts = facts.iter().map(String::as_str).chain([at, pointer, &self.keyword]);
        for text in facts.chain(self.parts.iter().map(String::as_str)) {
            written.extend(text.as_bytes());
            written.push(END);
        }
        written.push(END_OF_REFUSAL);
    }
}

/// Some refusals, one after the other.
pub fn written<'a>(refusals: impl IntoIterator<Item = &'a Refusal>) -> Vec<u8> {
    let mut written = Vec::new();
    refusals.into_iter().for_each(|refusal| refusal.write(&mut written));
    written
}

impl Stop {
    pub fn new(class: Class, why: Why, pointer: &str, keyword: &str, parts: &[&str]) -> Stop {
        Refusal::new(class, why, pointer, keyword, parts).into()
    }

    pub fn limit(why: Why, parts: &[&str]) -> Stop {
        Refusal::limit(why, parts).into()
    }

    /// The same; a limit is exceeded at a schema unless it is known where.
    pub fn at(mut self, pointer: &str) -> Stop {
        if let Stop::Refused(refusal) = &mut self {
            if refusal.class == Class::Limit {
                refusal.pointer.get_or_insert_with(|| pointer.into());
            }
        }
        self
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(Box::new(refusal))
    }
}

impl From<leaves::Fault> for Stop {
    fn from(fault: leaves::Fault) -> Stop {
        match fault {
            leaves::Fault::LeftOut { format, pointer, text } => match text {
                Some(text) => {
                    let why = Why::ListedLeftOut;
                    Stop::new(Class::Unsupported, why, &pointer, "format", &[&format, &text])
                }
                None => Stop::new(Class::Unsupported, Why::OutsideFormat, &pointer, "format", &[&format]),
            },
            leaves::Fault::Limit { name, value, what } => Stop::limit(Why::Leaf, &[name, &value.to_string(), what]),
        }
    }
}
