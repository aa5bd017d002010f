//! The keywords of JSON Schema: where their subschemas are, which draft introduced them, and their kinds.

use crate::schema::leaves::formats::defined as defined_formats;

pub const LATEST: u32 = 2020;

/// The URIs of dialects without a "#" at the end, and their drafts. 2019 and 2020 denote 2019-09 and 2020-12.
const DIALECTS: [(&str, u32); 5] = [
    ("http://json-schema.org/draft-04/schema", 4),
    ("http://json-schema.org/draft-06/schema", 6),
    ("http://json-schema.org/draft-07/schema", 7),
    ("https://json-schema.org/draft/2019-09/schema", 2019),
    ("https://json-schema.org/draft/2020-12/schema", 2020),
];

/// Return the draft of a dialect's URI.
pub fn draft_named(name: &str) -> Option<u32> {
    let name = name.trim_end_matches('#');
    let mut known = DIALECTS.iter();
    known.find(|dialect| dialect.0 == name).map(|dialect| dialect.1)
}

/// Defines a predicate for some words, and the list of the words.
macro_rules! words {
    ($(#[$doc:meta])* $is:ident, $all:ident: $($word:literal)|+) => {
        pub const $all: &[&str] = &[$($word),+];
        $(#[$doc])*
        pub fn $is(keyword: &str) -> bool {
            matches!(keyword, $($word)|+)
        }
    };
}

/// Defines a function that returns the draft of a word, and the lists of words by draft.
macro_rules! drafts {
    ($(#[$doc:meta])* $since:ident, $all:ident: $($draft:literal: $($word:literal)|+);+) => {
        pub const $all: &[(u32, &[&str])] = &[$(($draft, &[$($word),+])),+];
        $(#[$doc])*
        pub fn $since(keyword: &str) -> Option<u32> {
            match keyword {
                $($($word)|+ => Some($draft),)+
                _ => None,
            }
        }
    };
}

drafts!(
    /// Return the first draft that has a constraint or a reference. Drafts from 2019-09 on keep the older spellings.
    since, SINCE:
    4: "$ref" | "additionalItems" | "additionalProperties" | "allOf" | "anyOf" | "definitions" | "dependencies" | "enum"
        | "exclusiveMaximum" | "exclusiveMinimum" | "format" | "items" | "maxItems" | "maxLength" | "maxProperties"
        | "maximum" | "minItems" | "minLength" | "minProperties" | "minimum" | "multipleOf" | "not" | "oneOf" | "pattern"
        | "patternProperties" | "properties" | "required" | "type" | "uniqueItems";
    6: "const" | "contains" | "propertyNames";
    7: "if" | "then" | "else";
    2019: "$defs" | "dependentRequired" | "dependentSchemas" | "maxContains" | "minContains" | "unevaluatedItems"
        | "unevaluatedProperties" | "$recursiveRef";
    2020: "prefixItems" | "$dynamicRef"
);

words!(
    /// Return whether a keyword has no effect on which values are valid.
    is_annotation, ANNOTATIONS:
    "$schema" | "$id" | "id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" | "$vocabulary" | "$comment" | "title"
        | "description" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly" | "contentEncoding"
        | "contentMediaType" | "contentSchema"
);

/// Return whether the specifications define a keyword.
pub fn is_known(keyword: &str) -> bool {
    since(keyword).is_some() || is_annotation(keyword)
}

/// Return whether a keyword gives a schema a URI or an anchor.
pub fn is_identifier(keyword: &str) -> bool {
    matches!(
        keyword,
        "$id" | "id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor"
    )
}

pub fn is_reference(keyword: &str) -> bool {
    matches!(keyword, "$ref" | "$dynamicRef" | "$recursiveRef")
}

words!(
    /// Return whether a keyword's value may be a schema.
    of_one, OF_ONE:
    "additionalItems" | "additionalProperties" | "contains" | "contentSchema" | "else" | "if" | "items" | "not"
        | "propertyNames" | "then" | "unevaluatedItems" | "unevaluatedProperties"
);

words!(
    /// Return whether a keyword's value may be a list of schemas.
    of_lists, OF_LISTS: "allOf" | "anyOf" | "items" | "oneOf" | "prefixItems"
);

words!(
    /// Return whether a keyword's value may be an object of schemas.
    of_objects, OF_OBJECTS:
    "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" | "properties"
);

/// Return all lists as text, one list on each line, after its name: with drafts for keywords and dialects, and string
/// formats.
pub fn all() -> String {
    let lists = [
        ("annotations", ANNOTATIONS),
        ("one", OF_ONE),
        ("lists", OF_LISTS),
        ("objects", OF_OBJECTS),
    ];
    let line = |name: &str, words: &[&str]| format!("{name} {}\n", words.join(" "));
    let formats = line("formats", &defined_formats());
    let named = lists.iter().map(|(name, words)| line(name, words));
    let since = SINCE
        .iter()
        .map(|(draft, words)| line(&format!("since {draft}"), words));
    let dialects = DIALECTS
        .iter()
        .map(|(name, draft)| line(&format!("dialect {draft}"), &[name]));
    named.chain(since).chain(dialects).chain([formats]).collect()
}

/// Keywords that apply further schemas to the same value, in the order of application. Keywords that need differences
/// come last, because earlier results keep the differences small.
pub const IN_PLACE: [&str; 17] = [
    "enum",
    "const",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "anyOf",
    "not",
    "if",
    "then",
    "else",
    "oneOf",
    "unevaluatedProperties",
    "unevaluatedItems",
];

/// Return the index of such a keyword in their order.
pub fn in_place(keyword: &str) -> Option<usize> {
    IN_PLACE.iter().position(|each| *each == keyword)
}
