//! Loading: numbers the schemas of a text as locations, and resolves references to locations.
//!
//! The number of a location, its *literal*, represents its schema everywhere else; the negative number represents its
//! negation.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::base::hash::FastSet;
use crate::schema::json::{Tree, Value};
use crate::schema::keywords::{
    draft_named, in_place, is_identifier, is_reference, of_lists, of_objects, of_one, since, LATEST,
};
use crate::schema::report::{Class, Outcome, Stop, Why};
use crate::schema::single::Single;
use crate::schema::uris::{joined, without_fragment};
use crate::schema::Document;

pub type Literal = i32;

/// The literals of the schemas `true` and `false`.
pub const TRUE: Literal = 1;
pub const FALSE: Literal = -1;

/// The content of a location.
pub enum Said {
    /// A schema in the text.
    Schema(u32),
    /// A schema that lists one value: a value of the text, or (`Single`) another one.
    Value(u32),
    Single(Single),
}

/// A schema and its JSON Pointer.
pub struct Location {
    pub said: Said,
    pub pointer: Arc<str>,
    pub draft: u32,
    pub document: usize,
    pub resource: usize,
    tree: Arc<Tree>,
}

impl Location {
    /// Return the value of a keyword in any draft.
    pub fn written(&self, keyword: &str) -> Option<u32> {
        match self.said {
            Said::Schema(schema) => self.tree.get(schema, keyword),
            _ => None,
        }
    }

    /// Return the value of a keyword that the schema must have.
    pub fn said_value(&self, keyword: &str) -> u32 {
        self.written(keyword).expect("the schema has the keyword")
    }

    /// Return the value of a keyword; None if it is absent, null or newer than the location's draft.
    pub fn get(&self, keyword: &str) -> Option<u32> {
        let value = self.written(keyword)?;
        let is_there = !matches!(self.tree.value(value), Value::Null) && since(keyword).unwrap_or(0) <= self.draft;
        is_there.then_some(value)
    }

    pub fn has(&self, keyword: &str) -> bool {
        self.written(keyword).is_some()
    }

    /// Return the keywords with their values.
    pub fn entries(&self) -> impl Iterator<Item = (&str, u32)> {
        let entries = match self.said {
            Said::Schema(schema) => self.tree.entries(schema),
            _ => None,
        };
        let named = entries.unwrap_or(&[]).iter();
        named.map(|(name, value)| (self.tree.text(name), *value))
    }

    /// Return whether the location lists one value that is not in the text.
    pub fn is_synthetic(&self) -> bool {
        !matches!(self.said, Said::Schema(_))
    }

    /// Return the keywords of the schema that apply schemas to the same value, as indices in the order of application.
    pub fn in_place(&self) -> Vec<usize> {
        if self.is_synthetic() {
            return in_place("enum").into_iter().collect();
        }
        let mut found: Vec<usize> = self.entries().filter_map(|(keyword, _)| in_place(keyword)).collect();
        found.sort_unstable();
        found
    }

    /// Return whether the schema consists only of a reference.
    fn refers_only(&self) -> bool {
        let beside = |keyword: &str| {
            since(keyword).is_some()
                && !matches!(
                    keyword,
                    "$ref" | "$defs" | "definitions" | "maxContains" | "minContains"
                )
        };
        self.has("$ref") && (self.draft <= 7 || !self.entries().any(|(keyword, _)| beside(keyword)))
    }

    /// Make the error for a value that a keyword does not take.
    pub fn invalid(&self, keyword: &str, expected: &str) -> Stop {
        let found = self.written(keyword).map_or("", |value| self.tree.source(value));
        Stop::new(
            Class::Invalid,
            Why::WrongValue,
            &self.pointer,
            keyword,
            &[found, expected],
        )
    }

    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Return the pointer of something below this schema.
    pub fn below(&self, keyword: &str, step: &str) -> String {
        format!("{}/{}/{}", self.pointer, escaped(keyword), escaped(step))
    }
}

/// A schema with a base URI of its own.
struct Resource {
    document: usize,
    schema: u32,
    uri: String,
    pointer: Arc<str>,
    draft: u32,
    /// Schemas by their anchors, including dynamic ones, with their pointers.
    anchors: HashMap<String, (u32, Arc<str>)>,
    dynamic: HashSet<String>,
}

/// A text with the literals of its values; 0 for values that have none.
struct Numbered {
    tree: Arc<Tree>,
    numbers: Vec<Literal>,
}

/// A loader that numbers the locations of one schema on first use.
pub struct Loader {
    documents: Vec<Numbered>,
    most: u64,
    locations: Vec<Rc<Location>>,
    resources: Vec<Resource>,
    /// The resources by their URIs.
    by_uri: HashMap<String, usize>,
    /// The documents to which references may lead, by their URIs.
    registry: HashMap<String, Arc<Tree>>,
    pub root: Literal,
}

/// The resource of the whole schema.
const ROOT: usize = 0;

impl Loader {
    pub fn new(document: &Document, most: u64) -> Outcome<Loader> {
        let mut loader = Loader {
            documents: Vec::new(),
            most,
            locations: Vec::new(),
            resources: Vec::new(),
            by_uri: HashMap::new(),
            registry: document.registry.clone(),
            root: TRUE,
        };
        let schema = document.tree.root;
        loader.add_document(Arc::clone(&document.tree), "", "", LATEST)?;
        loader.root = loader.number(ROOT, schema, String::new)?;
        Ok(loader)
    }

    /// Return the location of a literal other than `TRUE` and `FALSE`.
    pub fn location(&self, literal: Literal) -> Rc<Location> {
        Rc::clone(&self.locations[literal.unsigned_abs() as usize - 2])
    }

    /// Return the literal of the subschema that is a keyword's value.
    pub fn child(&mut self, location: &Location, keyword: &str) -> Outcome<Literal> {
        let value = location.said_value(keyword);
        self.number(location.resource, value, || {
            format!("{}/{}", location.pointer, escaped(keyword))
        })
    }

    /// Return the literal of a subschema in a keyword's list or object.
    pub fn child_at(&mut self, location: &Location, keyword: &str, step: &str, value: u32) -> Outcome<Literal> {
        self.number(location.resource, value, || location.below(keyword, step))
    }

    /// Return the literals of the subschemas in a keyword's list.
    pub fn children(&mut self, location: &Location, keyword: &str) -> Outcome<Vec<Literal>> {
        let value = location.written(keyword);
        let items = value.and_then(|value| location.tree.items(value)).unwrap_or(&[]);
        let numbered = |(place, item): (usize, &u32)| self.child_at(location, keyword, &place.to_string(), *item);
        items.iter().enumerate().map(numbered).collect()
    }

    /// Return the literal of a schema in a resource; it is numbered on first use.
    fn number(&mut self, resource: usize, value: u32, pointer: impl FnOnce() -> String) -> Outcome<Literal> {
        let document = self.resources[resource].document;
        let known = self.documents[document].numbers[value as usize];
        if known != 0 {
            return Ok(known);
        }
        let tree = Arc::clone(&self.documents[document].tree);
        match tree.value(value) {
            Value::Bool(true) => return Ok(TRUE),
            Value::Bool(false) => return Ok(FALSE),
            _ => {}
        }
        let Some(entries) = tree.entries(value) else {
            let found = tree.source(value);
            return Err(Stop::new(Class::Invalid, Why::NotASchema, &pointer(), "", &[found]));
        };
        if entries.is_empty() {
            return Ok(TRUE);
        }
        for (keyword, value) in entries {
            let keyword = tree.text(keyword);
            if matches!(tree.value(*value), Value::Null) && since(keyword).is_some() && keyword != "const" {
                return Err(Stop::new(Class::Invalid, Why::IsNull, &pointer(), keyword, &[]));
            }
        }
        let resource = match value == self.resources[resource].schema {
            true => resource,
            false => self.resource_of(&tree, value, resource),
        };
        let number = self.add(Said::Schema(value), pointer().into(), resource)?;
        self.documents[document].numbers[value as usize] = number;
        Ok(number)
    }

    /// Return the literal of a schema that lists one value; a value in the text belongs to the location's text.
    pub fn synthetic(&mut self, said: Said, pointer: String, location: Option<&Location>) -> Outcome<Literal> {
        let number = self.add(said, pointer.into(), ROOT)?;
        if let Some(tree) = location.map(|location| &location.tree) {
            if !Arc::ptr_eq(tree, &self.documents[0].tree) {
                let last = self.locations.len() - 1;
                let made = Rc::get_mut(&mut self.locations[last]);
                made.into_iter().for_each(|made| made.tree = Arc::clone(tree));
            }
        }
        Ok(number)
    }

    fn add(&mut self, said: Said, pointer: Arc<str>, resource: usize) -> Outcome<Literal> {
        let number = self.locations.len() as Literal + 2;
        let Resource { document, draft, .. } = self.resources[resource];
        self.locations.push(Rc::new(Location {
            said,
            pointer,
            draft,
            document,
            resource,
            tree: Arc::clone(&self.documents[document].tree),
        }));
        if number as u64 > self.most {
            return Err(Stop::limit(Why::Nodes, &["the schema"]));
        }
        Ok(number)
    }

    /// Return the literal that a reference denotes.
    pub fn resolve(&mut self, location: &Location, keyword: &str) -> Outcome<Literal> {
        let value = location.said_value(keyword);
        let Some(reference) = location.tree.string(value) else {
            return Err(location.invalid(keyword, "the URI of a schema, or a pointer such as '#/$defs/name'"));
        };
        let (uri, fragment) = without_fragment(reference);
        let mut resource = location.resource;
        if !uri.is_empty() {
            let uri = joined(&self.resources[resource].uri, &uri);
            resource = self.find_resource(location, keyword, &uri, reference)?;
        }
        let fragment = unquoted(fragment);
        if fragment.is_empty() {
            let (schema, pointer) = (
                self.resources[resource].schema,
                Arc::clone(&self.resources[resource].pointer),
            );
            return self.number(resource, schema, || pointer.as_ref().into());
        }
        if fragment.starts_with('/') {
            return self.follow(resource, &fragment, !uri.is_empty(), location, keyword);
        }
        let Some((schema, pointer)) = self.resources[resource].anchors.get(&fragment).cloned() else {
            let (class, why) = (Class::Invalid, Why::NoSuchAnchor);
            return Err(Stop::new(class, why, &location.pointer, keyword, &[reference]));
        };
        self.number(resource, schema, || pointer.as_ref().into())
    }

    fn find_resource(&mut self, location: &Location, keyword: &str, uri: &str, reference: &str) -> Outcome<usize> {
        if !self.by_uri.contains_key(uri) {
            if let Some(tree) = self.registry.get(uri).cloned() {
                self.add_document(tree, uri, &format!("{uri}#"), location.draft)?;
            }
        }
        self.by_uri.get(uri).copied().ok_or_else(|| {
            let (class, why) = (Class::Unsupported, Why::PointsOutside);
            Stop::new(class, why, &location.pointer, keyword, &[reference, uri])
        })
    }

    fn follow(
        &mut self,
        mut resource: usize,
        fragment: &str,
        is_elsewhere: bool,
        location: &Location,
        keyword: &str,
    ) -> Outcome<Literal> {
        let tree = Arc::clone(&self.documents[self.resources[resource].document].tree);
        let mut value = self.resources[resource].schema;
        for step in fragment[1..].split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            let found = match tree.items(value) {
                Some(items) => {
                    let is_number = step.bytes().all(|byte| byte.is_ascii_digit());
                    let step = if is_number { &step } else { "" };
                    step.parse::<usize>().ok().and_then(|place| items.get(place).copied())
                }
                None => tree.get(value, &step),
            };
            value = found.ok_or_else(|| {
                let (class, why) = (Class::Invalid, Why::PointsAtNothing);
                let reference = location.written(keyword).and_then(|value| location.tree.string(value));
                Stop::new(class, why, &location.pointer, keyword, &[reference.unwrap_or("")])
            })?;
            if value != self.resources[resource].schema && tree.entries(value).is_some() {
                resource = self.resource_of(&tree, value, resource);
            }
        }
        let of_target = Arc::clone(&self.resources[resource].pointer);
        let of_own = Arc::clone(&self.resources[location.resource].pointer);
        let is_named = is_elsewhere && !of_target.is_empty();
        self.number(resource, value, || {
            format!("{}{fragment}", if is_named { of_target } else { of_own })
        })
    }

    /// Return the resource of a schema inside another one.
    fn resource_of(&self, tree: &Tree, schema: u32, resource: usize) -> usize {
        let own = own_uri(
            tree,
            schema,
            &self.resources[resource].uri,
            self.resources[resource].draft,
        );
        let found = own.and_then(|uri| self.by_uri.get(&uri).copied());
        found.unwrap_or(resource)
    }

    /// Follow a chain of schemas that are only references, and return the literal at its end; return `literal` itself
    /// if the chain has no valid end.
    pub fn resolved(&mut self, literal: Literal) -> Literal {
        let mut passed = FastSet::default();
        passed.insert(literal);
        let mut target = literal;
        while target > TRUE {
            let location = self.location(target);
            if !location.refers_only() {
                break;
            }
            match self.resolve(&location, "$ref") {
                Ok(next) if passed.insert(next) => target = next,
                _ => return literal, // lowering reports what is wrong
            }
        }
        match target.abs() {
            TRUE => literal,
            _ => target,
        }
    }

    /// Count the resources that have a dynamic anchor.
    pub fn dynamic_resources(&self, anchor: &str) -> usize {
        self.by_uri
            .values()
            .filter(|resource| self.resources[**resource].dynamic.contains(anchor))
            .count()
    }

    /// Add a document and every schema inside it that has a URI of its own, with their anchors.
    fn add_document(&mut self, tree: Arc<Tree>, uri: &str, pointer: &str, draft: u32) -> Outcome<()> {
        let document = self.documents.len();
        let root = tree.root;
        self.documents.push(Numbered {
            numbers: vec![0; tree.len()],
            tree: Arc::clone(&tree),
        });
        let first = self.add_resource(document, root, uri.into(), pointer.into(), draft)?;
        let look_below = has_identifiers_below(&tree, !uri.is_empty());
        let mut stack: Vec<(u32, String, usize)> = vec![(root, pointer.into(), first)];
        while let Some((schema, pointer, mut resource)) = stack.pop() {
            if tree.entries(schema).is_none() {
                continue;
            }
            let (base, draft) = (self.resources[resource].uri.clone(), self.resources[resource].draft);
            if let Some(own) = own_uri(&tree, schema, &base, draft) {
                if !self.by_uri.contains_key(&own) {
                    if schema == self.resources[resource].schema {
                        self.resources[resource].uri.clone_from(&own);
                        self.by_uri.insert(own, resource);
                    } else {
                        resource = self.add_resource(document, schema, own, pointer.as_str().into(), draft)?;
                    }
                }
            }
            self.add_anchors(&tree, schema, &pointer, resource);
            if look_below {
                stack.extend(
                    subschemas(&tree, schema, &pointer)
                        .into_iter()
                        .map(|(child, path)| (child, path, resource)),
                );
            }
        }
        Ok(())
    }

    fn add_resource(
        &mut self,
        document: usize,
        schema: u32,
        uri: String,
        pointer: Arc<str>,
        draft: u32,
    ) -> Outcome<usize> {
        let number = self.resources.len();
        let draft = draft_of(&self.documents[document].tree, schema, draft, &pointer)?;
        self.by_uri.insert(uri.clone(), number);
        self.resources.push(Resource {
            document,
            schema,
            uri,
            pointer,
            draft,
            anchors: HashMap::new(),
            dynamic: HashSet::new(),
        });
        Ok(number)
    }

    fn add_anchors(&mut self, tree: &Tree, schema: u32, pointer: &str, resource: usize) {
        let resource = &mut self.resources[resource];
        let text = |keyword| tree.get(schema, keyword).and_then(|value| tree.string(value));
        let mut add = |anchor: &str| {
            resource.anchors.insert(anchor.into(), (schema, pointer.into()));
        };
        if resource.draft <= 7 {
            let own = text(if resource.draft == 4 { "id" } else { "$id" });
            if let Some((_, anchor)) = own.and_then(|own| own.split_once('#')) {
                if tree.get(schema, "$ref").is_none() && !anchor.is_empty() {
                    add(anchor);
                }
            }
            return;
        }
        text("$anchor").into_iter().for_each(&mut add);
        let dynamic = text("$dynamicAnchor");
        dynamic.into_iter().for_each(&mut add);
        resource.dynamic.extend(dynamic.map(String::from));
        let is_recursive = tree.get(schema, "$recursiveAnchor");
        let is_recursive = is_recursive.is_some_and(|value| matches!(tree.value(value), Value::Bool(true)));
        if is_recursive && schema == resource.schema {
            resource.dynamic.insert(String::new());
        }
    }
}

/// Return the URI that a schema declares, relative to that of the schema around it; None if it declares none.
fn own_uri(tree: &Tree, schema: u32, base: &str, draft: u32) -> Option<String> {
    let value = tree.get(schema, if draft == 4 { "id" } else { "$id" });
    let own = value.and_then(|value| tree.string(value))?;
    if own.starts_with('#') || draft <= 7 && tree.get(schema, "$ref").is_some() {
        return None;
    }
    let uri = joined(base, &without_fragment(own).0);
    Some(without_fragment(&uri).0)
}

/// Return the draft that a schema declares, or the default.
fn draft_of(tree: &Tree, schema: u32, default: u32, pointer: &str) -> Outcome<u32> {
    let Some(value) = tree.get(schema, "$schema") else {
        return Ok(default);
    };
    let Some(name) = tree.string(value) else {
        let (class, why) = (Class::Invalid, Why::WrongValue);
        return Err(Stop::new(
            class,
            why,
            pointer,
            "$schema",
            &[tree.source(value), "a URI"],
        ));
    };
    draft_named(name).ok_or_else(|| {
        let (class, why) = (Class::Unsupported, Why::UnknownDialect);
        Stop::new(class, why, pointer, "$schema", &[name])
    })
}

/// Return the direct subschemas of a schema, with their pointers.
fn subschemas(tree: &Tree, schema: u32, pointer: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for (keyword, value) in tree.entries(schema).unwrap_or(&[]) {
        let keyword = tree.text(keyword);
        if let Some(entries) = tree.entries(*value) {
            if of_objects(keyword) {
                let named = entries.iter().map(|(name, child)| (*child, escaped(tree.text(name))));
                found.extend(named.map(|(child, name)| (child, format!("{pointer}/{keyword}/{name}"))));
            } else if of_one(keyword) {
                found.push((*value, format!("{pointer}/{keyword}")));
            }
        } else if let Some(items) = tree.items(*value).filter(|_| of_lists(keyword)) {
            let items = items.iter().enumerate();
            found.extend(items.map(|(index, child)| (*child, format!("{pointer}/{keyword}/{index}"))));
        }
    }
    found
}

/// Return whether some schema below the root may have a URI or an anchor that matters, because a schema has another
/// draft or contains a reference.
///
/// This check is quick, because most texts have no identifiers. `referred` tells that other documents may refer to
/// them.
fn has_identifiers_below(tree: &Tree, mut referred: bool) -> bool {
    let mut stack = vec![tree.root];
    let mut identified = false;
    while let Some(value) = stack.pop() {
        let is_below = value != tree.root;
        for (keyword, child) in tree.entries(value).unwrap_or(&[]) {
            let keyword = tree.text(keyword);
            referred |= is_reference(keyword) || is_below && keyword == "$schema";
            identified |= is_below && is_identifier(keyword);
            if let Some(items) = tree.items(*child) {
                if of_one(keyword) || of_lists(keyword) || of_objects(keyword) {
                    stack.extend(items);
                }
            } else if let Some(entries) = tree.entries(*child) {
                if of_objects(keyword) {
                    stack.extend(entries.iter().map(|entry| entry.1));
                } else if of_one(keyword) || of_lists(keyword) {
                    stack.push(*child);
                }
            }
        }
        if identified && referred {
            return true;
        }
    }
    false
}

/// Escape a step of a JSON Pointer.
fn escaped(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

/// Decode the percent-encoding of a fragment.
fn unquoted(fragment: &str) -> String {
    if !fragment.contains('%') {
        return fragment.into();
    }
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (bytes, mut found, mut at) = (fragment.as_bytes(), Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                found.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                found.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}
