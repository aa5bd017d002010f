//! Refusals: why a schema is not lowered, as codes with data. The sentences are Python's (`schema/report.py`).

use crate::schema::leaves;

/// Ends a text: no UTF-8 has this byte.
const END: u8 = 0xff;

/// The Python class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Invalid,
    Unsupported,
    Unsatisfiable,
    Limit,
}

/// What is wrong; each stands for a sentence, with the parts of a `Refusal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No schema, but a value.
    NotASchema,
    /// A keyword's value is null.
    IsNull,
    /// A value, and what the keyword takes.
    WrongValue,
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
    /// Of a leaf: which limit, and of what.
    Leaf,
}

/// An error with its facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub class: Class,
    pub why: Why,
    pub pointer: String,
    pub keyword: String,
    pub parts: Vec<String>,
}

/// Why lowering ended.
#[derive(Debug)]
pub enum Stop {
    /// The search for a contradiction reached a schema that is still being computed.
    InProgress,
    Refused(Box<Refusal>),
    /// What is left to others.
    Left,
}

pub type Outcome<T> = Result<T, Stop>;

impl Refusal {
    /// The class, what is wrong, the pointer, the keyword and the parts of the sentence, each ended by `END`.
    pub fn written(&self) -> Vec<u8> {
        let facts = [format!("{:?}", self.class), format!("{:?}", self.why)];
        let texts = facts.iter().chain([&self.pointer, &self.keyword]).chain(&self.parts);
        let mut written = Vec::new();
        for text in texts {
            written.extend(text.as_bytes());
            written.push(END);
        }
        written
    }
}

impl Stop {
    pub fn new(class: Class, why: Why, pointer: &str, keyword: &str, parts: &[&str]) -> Stop {
        Stop::Refused(Box::new(Refusal {
            class,
            why,
            pointer: pointer.into(),
            keyword: keyword.into(),
            parts: parts.iter().map(|part| String::from(*part)).collect(),
        }))
    }

    /// A keyword that is not enforced.
    pub fn unsupported(pointer: &str, keyword: &str, why: Why, parts: &[&str]) -> Stop {
        Stop::new(Class::Unsupported, why, pointer, keyword, parts)
    }

    pub fn limit(why: Why, parts: &[&str]) -> Stop {
        Stop::new(Class::Limit, why, "", "", parts)
    }

    /// The same; a limit is exceeded at a schema unless it is known where.
    pub fn at(mut self, pointer: &str) -> Stop {
        if let Stop::Refused(refusal) = &mut self {
            if refusal.class == Class::Limit && refusal.pointer.is_empty() {
                refusal.pointer = pointer.into();
            }
        }
        self
    }
}

impl From<leaves::Fault> for Stop {
    fn from(fault: leaves::Fault) -> Stop {
        match fault {
            leaves::Fault::LeftOut { format, pointer, text } => match text {
                Some(text) => Stop::unsupported(&pointer, "format", Why::ListedLeftOut, &[&format, &text]),
                None => Stop::unsupported(&pointer, "format", Why::OutsideFormat, &[&format]),
            },
            leaves::Fault::Limit { name, value, what } => Stop::limit(Why::Leaf, &[name, &value.to_string(), what]),
            leaves::Fault::Pattern(_) => Stop::Left,
        }
    }
}
