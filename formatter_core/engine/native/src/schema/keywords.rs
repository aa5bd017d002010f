//! The keywords of JSON Schema: where their subschemas are, since which draft they exist, and what else they are.

pub const LATEST: u32 = 2020;

/// `$schema` without a "#" at its end, and the draft. 2019 and 2020 stand for 2019-09 and 2020-12.
const DIALECTS: [(&str, u32); 5] = [
    ("http://json-schema.org/draft-04/schema", 4),
    ("http://json-schema.org/draft-06/schema", 6),
    ("http://json-schema.org/draft-07/schema", 7),
    ("https://json-schema.org/draft/2019-09/schema", 2019),
    ("https://json-schema.org/draft/2020-12/schema", 2020),
];

/// The draft that a dialect's name stands for.
pub fn draft_named(name: &str) -> Option<u32> {
    let name = name.trim_end_matches('#');
    let mut known = DIALECTS.iter();
    known.find(|dialect| dialect.0 == name).map(|dialect| dialect.1)
}

/// The first draft that has a constraint or a reference. Drafts from 2019-09 on keep the older spellings.
pub fn since(keyword: &str) -> Option<u32> {
    Some(match keyword {
        "$ref"
        | "additionalItems"
        | "additionalProperties"
        | "allOf"
        | "anyOf"
        | "definitions"
        | "dependencies"
        | "enum"
        | "exclusiveMaximum"
        | "exclusiveMinimum"
        | "format"
        | "items"
        | "maxItems"
        | "maxLength"
        | "maxProperties"
        | "maximum"
        | "minItems"
        | "minLength"
        | "minProperties"
        | "minimum"
        | "multipleOf"
        | "not"
        | "oneOf"
        | "pattern"
        | "patternProperties"
        | "properties"
        | "required"
        | "type"
        | "uniqueItems" => 4,
        "const" | "contains" | "propertyNames" => 6,
        "if" | "then" | "else" => 7,
        "$defs"
        | "dependentRequired"
        | "dependentSchemas"
        | "maxContains"
        | "minContains"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "$recursiveRef" => 2019,
        "prefixItems" | "$dynamicRef" => 2020,
        _ => return None,
    })
}

/// Whether a keyword says nothing about values.
pub fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "$schema"
            | "$id"
            | "id"
            | "$anchor"
            | "$dynamicAnchor"
            | "$recursiveAnchor"
            | "$vocabulary"
            | "$comment"
            | "title"
            | "description"
            | "default"
            | "examples"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "contentEncoding"
            | "contentMediaType"
            | "contentSchema"
    )
}

/// Whether the specifications define a keyword.
pub fn is_known(keyword: &str) -> bool {
    since(keyword).is_some() || is_annotation(keyword)
}

/// Whether a keyword gives a schema a URI or an anchor.
pub fn is_identifier(keyword: &str) -> bool {
    matches!(
        keyword,
        "$id" | "id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor"
    )
}

pub fn is_reference(keyword: &str) -> bool {
    matches!(keyword, "$ref" | "$dynamicRef" | "$recursiveRef")
}

/// Whether a keyword's value may be a schema.
pub fn of_one(keyword: &str) -> bool {
    matches!(
        keyword,
        "additionalItems"
            | "additionalProperties"
            | "contains"
            | "contentSchema"
            | "else"
            | "if"
            | "items"
            | "not"
            | "propertyNames"
            | "then"
            | "unevaluatedItems"
            | "unevaluatedProperties"
    )
}

/// Whether it may be a list of schemas.
pub fn of_lists(keyword: &str) -> bool {
    matches!(keyword, "allOf" | "anyOf" | "items" | "oneOf" | "prefixItems")
}

/// Whether it may be an object of schemas.
pub fn of_objects(keyword: &str) -> bool {
    matches!(
        keyword,
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" | "properties"
    )
}

/// Keywords that apply further schemas to the same value, in the order of application: differences last, so that what is
/// known by then keeps them small.
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

/// The place of such a keyword in their order.
pub fn in_place(keyword: &str) -> Option<usize> {
    IN_PLACE.iter().position(|each| *each == keyword)
}
