//! Refusals: the reason why a schema is not lowered, or which keywords are dropped, as codes with data. Python makes
//! the sentences (`schema/refusals.py`).

use crate::base::hash::FastSet;
use crate::schema::leaves;

/// These bytes end a text and a refusal; they do not occur in UTF-8.
const END: u8 = 0xff;
const END_OF_REFUSAL: u8 = 0xfe;

/// The Python class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Invalid,
    /// A keyword that is not enforced: `Droppable` may be dropped, the other may not.
    Droppable,
    Unsupported,
    Unsatisfiable,
    Limit,
}

/// The code of a refusal; each code has a sentence with the parts of the `Refusal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The keyword is not a keyword of JSON Schema.
    NoKeyword,
    /// The value is not a schema.
    NotASchema,
    /// The value of a keyword is null.
    IsNull,
    /// The value is not one that the keyword takes; parts: the value, and what the keyword takes.
    WrongValue,
    /// A number has too many digits.
    LongNumber,
    /// A reference to an anchor that no schema has.
    NoSuchAnchor,
    /// A reference to a URI that no document has; parts: the reference, and the URI.
    PointsOutside,
    /// An unknown dialect.
    UnknownDialect,
    /// A reference points to nothing.
    PointsAtNothing,
    /// A schema refers to itself for the same value.
    Cycle,
    /// A name is not the name of a type.
    NoType,
    /// There are too many branches beside `unevaluatedProperties` or `unevaluatedItems`; part: the maximum.
    TooManyBranches,
    /// Several schemas declare a dynamic anchor.
    SeveralAnchors,
    /// A pattern that cannot be read.
    Pattern,
    /// A text contains half of a surrogate pair; part: the text as JSON.
    LoneSurrogate,
    /// A listed text may be one of those that we leave out of a format; parts: the format and the text.
    ListedLeftOut,
    /// The complement of such a format is unknown.
    OutsideFormat,
    /// `unevaluatedItems` occurs beside `contains`.
    BesideContains,
    /// Items that must repeat are not context-free.
    Repeated,
    /// `uniqueItems` applies to multiples of large steps, or to arrays or objects.
    UniqueSteps,
    UniqueStructures,
    /// `uniqueItems` occurs beside counted items.
    UniqueCounted,
    /// Steps need too many states.
    LargeSteps,
    /// A keyword is refused as a whole because of a refusal inside it; parts: the keyword, pointer, code and parts of
    /// that refusal.
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
    /// The count of a repeat or of a list of members; parts: which of the two, and the rule's name.
    Repeat,
    /// The nesting of a rule; part: the rule's name.
    RuleDepth,
    /// A limit of a leaf; parts: the limit, and the kind of leaf.
    Leaf,
}

/// An error with its facts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    pub class: Class,
    pub why: Why,
    /// None if a limit is not that of one schema.
    pub pointer: Option<String>,
    pub keyword: String,
    pub parts: Vec<String>,
}

/// The reason why lowering ended.
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
    /// The number of enclosing negations; inside a negation, dropping a keyword would narrow the format.
    strict: u32,
}

impl Refusals {
    pub fn lenient() -> Self {
        Refusals {
            lenient: true,
            ..Refusals::default()
        }
    }

    /// Return whether keywords that could otherwise be dropped must be refused here.
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

    /// Make the refusal for a limit that is not that of one schema, or whose schema is not known yet.
    pub fn limit(why: Why, parts: &[&str]) -> Refusal {
        Refusal {
            pointer: None,
            ..Refusal::new(Class::Limit, why, "", "", parts)
        }
    }

    /// Return whether the refusal is about a keyword that is not enforced.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.class, Class::Droppable | Class::Unsupported)
    }

    /// Make the refusal of a keyword because of this refusal inside it.
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

    /// Write the class, the code, "at" if there is a pointer, the pointer, the keyword and the parts of the sentence.
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

/// Write some refusals, one after the other.
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

    /// Add the pointer of a schema to a refusal for a limit that has none.
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
