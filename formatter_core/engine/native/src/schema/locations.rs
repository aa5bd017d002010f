//! Which schemas of a text are plain: what they say of a value, and what those say that they refer to, needs no algebra.
//! What their items and properties are may need it.

mod said;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::hash::FastMap;
use crate::schema::common::Common;
use crate::schema::json::{Text, Tree, Value};
use crate::schema::shapes::Shaper;

pub use said::{about, about_of, INTEGER, LONGEST_TEXT, NUMBER, OF_NUMBERS, OF_STRINGS};

/// What a value must satisfy.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Goal {
    #[default]
    Anything,
    Nothing,
    /// A schema, by the number of its value in the text, or of a pair of them.
    Schema(u32),
}

/// Pairs of schemas that a value must satisfy both, numbered behind the values of the text.
#[derive(Default)]
pub struct Pairs {
    pub schemas: Vec<[u32; 2]>,
    /// The number of each; none if it needs the algebra.
    pub numbers: FastMap<[u32; 2], Option<u32>>,
    /// The schemas of pairs that nobody has asked for yet.
    pub undecided: Vec<u32>,
}

/// The lists that a schema without keywords for arrays allows are those of `Array::default()`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Array {
    /// The schema that speaks about items, and what it wants of them.
    pub items: Option<(u32, Goal)>,
    pub minimum: u32,
    pub maximum: Option<u32>,
}

/// What a schema says of properties.
#[derive(Clone)]
pub struct Part {
    pub schema: u32,
    /// Its `properties`: names by their places in that object.
    properties: Option<u32>,
    pub rest: Goal,
    /// Its `patternProperties`, if these tell names apart that it does not name.
    pub patterns: Option<u32>,
    /// By the schemas of properties that it names, in their order, what a pattern that the name matches wants besides.
    pub matched: Option<Arc<[(u32, Goal)]>>,
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
    }
}

/// The objects that a schema without keywords for objects allows are those of `Object::default()`.
#[derive(Clone, Default, PartialEq)]
pub struct Object {
    pub parts: Vec<Part>,
    /// Each name once.
    pub required: Vec<Box<str>>,
    pub absent: Vec<Box<str>>,
    /// Whether some property is required, whatever it is.
    pub nonempty: bool,
}

impl Object {
    pub fn is_any(&self) -> bool {
        self.parts.is_empty() && self.required.is_empty() && self.absent.is_empty() && !self.nonempty
    }
}

/// Of which types a value may be: any, or no scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Types {
    Any,
    Some { arrays: bool, objects: bool },
}

/// What a plain schema says.
pub enum Kind {
    /// Nothing.
    Silent,
    /// Scalars, by a schema that says what it says of scalars.
    Scalars(Box<str>),
    Typed {
        scalars: Option<Box<str>>,
        array: Option<Array>,
        object: Option<Arc<Object>>,
    },
    Reference(Goal),
    /// One of several, of which no other holds if they are exclusive; of their values those of certain types.
    Branches {
        goals: Vec<Goal>,
        exclusive: bool,
        types: Types,
    },
    /// What it says itself, which is `Typed` or `Silent`, and what it applies to that, step by step.
    Combined {
        own: Box<Kind>,
        steps: Vec<Step>,
    },
    /// It needs the algebra.
    Other,
}

/// Schemas whose values a schema's own must be, too: of one, of any of several, or of just one of them.
pub enum Step {
    All(Goal),
    Any(Vec<Goal>),
    One(Vec<Goal>),
    /// The same, which needs the algebra if there are several kinds of objects so far.
    OneOfSome(Vec<Goal>),
}

const IDENTIFIERS: [&str; 5] = ["$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"];
/// Schemas that differ in these alone, and in identifiers, are the same.
const ANNOTATIONS: [&str; 13] = [
    "$schema",
    "$vocabulary",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Longer chains of references and unions are left to others.
pub const LONGEST_CHAIN: u32 = 50;
/// The most decisions that wait for others.
const MOST_WAITING: u32 = 16;
/// How much work it takes at most to find out what is plain, for each value of the text.
const WORK_PER_VALUE: u64 = 1024;

/// The schemas of one text; what they say is found out when it is first asked.
pub struct Locations {
    pub tree: Arc<Tree>,
    pub draft: u32,
    pub common: Arc<Common>,
    /// Whether it matters that a schema has a URI or an anchor.
    has_references: bool,
    kinds: Vec<Option<Kind>>,
    /// For each value whether it is a plain schema, where that is known.
    plain: Vec<Option<bool>>,
    pub pairs: RefCell<Pairs>,
    work: u64,
    /// How many decisions wait for others.
    waiting: u32,
}

impl Locations {
    /// `common` is for the draft of the whole text.
    pub fn new(tree: Arc<Tree>, common: Arc<Common>) -> Self {
        let mut kinds = Vec::new();
        kinds.resize_with(tree.len(), || None);
        let plain = vec![None; tree.len()];
        let has_references = (0..tree.len() as u32).any(|value| {
            let mut names = tree
                .entries(value)
                .unwrap_or(&[])
                .iter()
                .map(|(name, _)| tree.text(name));
            names.any(|name| REFERENCES.contains(&name) || value != tree.root && name == "$schema")
        });
        Locations {
            tree,
            draft: common.draft,
            common,
            has_references,
            kinds,
            work: WORK_PER_VALUE * plain.len() as u64,
            plain,
            pairs: RefCell::default(),
            waiting: 0,
        }
    }

    /// What a schema says; it has been found plain.
    pub fn kind(&self, schema: u32) -> &Kind {
        let known = self.kinds.get(schema as usize);
        known.and_then(Option::as_ref).unwrap_or(&Kind::Other)
    }

    /// Whether it is there before any schema what a schema of scalars, as text, allows.
    pub fn knows_scalars(&self, text: &str) -> bool {
        self.common.scalars(text).is_some()
    }

    /// The schema at a JSON Pointer, if nothing on the way there has a URI of its own.
    pub fn at(&self, pointer: &str) -> Option<u32> {
        let mut value = self.tree.root;
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            value = match self.tree.items(value) {
                Some(items) => *items.get(step.parse::<usize>().ok()?)?,
                None => self.tree.get(value, &step)?,
            };
            if self.is_identified(value) {
                return None;
            }
        }
        Some(value)
    }

    /// Whether a schema below the root has a URI or an anchor that matters.
    fn is_identified(&self, schema: u32) -> bool {
        // One that is a fragment changes no URI, and references to such names are left to others.
        let matters = |value| self.tree.string(value).is_some_and(|text| !text.starts_with('#'));
        let mut names = IDENTIFIERS.iter();
        self.has_references && names.any(|name| self.tree.get(schema, name).is_some_and(matters))
    }

    /// What a value that is a schema asks for.
    fn goal(&self, value: u32) -> Option<Goal> {
        match self.tree.value(value) {
            Value::Bool(true) => Some(Goal::Anything),
            Value::Bool(false) => Some(Goal::Nothing),
            _ if self.tree.entries(value)?.is_empty() => Some(Goal::Anything),
            _ => Some(Goal::Schema(value)),
        }
    }

    /// Whether a schema is plain: what it says of a value, and so do all that it refers to.
    pub fn is_plain(&mut self, schema: u32) -> bool {
        if self.plain[schema as usize].is_none() {
            self.decide(schema);
        }
        self.was_plain(schema)
    }

    /// The same of a schema that was asked for before.
    pub fn was_plain(&self, schema: u32) -> bool {
        self.decided(schema) == Some(true)
    }

    /// The same, if it was asked for.
    pub fn decided(&self, schema: u32) -> Option<bool> {
        self.plain[schema as usize]
    }

    /// The schemas of a pair.
    pub fn pair(&self, schema: u32) -> Option<[u32; 2]> {
        let place = (schema as usize).checked_sub(self.kinds.len())?;
        Some(self.pairs.borrow().schemas[place])
    }

    fn decide(&mut self, schema: u32) {
        let mut visited = vec![schema];
        let mut users: Vec<(u32, u32)> = Vec::new();
        let mut others = Vec::new();
        self.plain[schema as usize] = Some(true);
        let mut next = 0;
        while let Some(&user) = visited.get(next) {
            next += 1;
            let kind = self.read(user).unwrap_or(Kind::Other);
            for used in in_place(&kind) {
                users.push((used, user));
                match self.plain[used as usize] {
                    None => {
                        self.plain[used as usize] = Some(true);
                        visited.push(used);
                    }
                    Some(false) => others.push(used),
                    Some(true) => {}
                }
            }
            if let Kind::Other = kind {
                others.push(user);
            }
            self.kinds[user as usize] = Some(kind);
        }
        users.sort_unstable();
        self.mark_others(others, &users);
        let is_composed = |kind: &Kind| {
            matches!(kind, Kind::Combined { .. } | Kind::Branches { exclusive: true, .. }) || wants_both(kind)
        };
        if !visited.iter().any(|schema| is_composed(self.kind(*schema))) {
            return;
        }
        for schema in visited {
            let kind = self.kind(schema);
            let is_alone = in_place(kind).is_empty() && !wants_both(kind);
            if !is_alone && self.was_plain(schema) && !self.is_simple(schema) {
                self.mark_others(vec![schema], &users);
            }
        }
    }

    /// The number of a pair of plain schemas; None if it needs the algebra.
    pub fn both(&mut self, pair: [u32; 2]) -> Option<u32> {
        schema_of(self.ask(|shaper| shaper.both(pair))?)
    }

    /// What a shaper finds, with the work that is left.
    fn ask<T>(&mut self, find: impl FnOnce(&Shaper) -> Option<T>) -> Option<T> {
        let shaper = Shaper {
            locations: self,
            work: Cell::new(self.work),
        };
        let found = find(&shaper);
        self.work = shaper.work.get();
        found
    }

    /// Whether what the properties of a schema's values must satisfy is found without the algebra.
    fn is_simple(&mut self, schema: u32) -> bool {
        loop {
            let is_plain = self.ask(|shaper| shaper.is_plain(schema)).is_some();
            let undecided = std::mem::take(&mut self.pairs.get_mut().undecided);
            if is_plain || undecided.is_empty() || self.waiting == MOST_WAITING {
                return is_plain;
            }
            self.waiting += 1;
            for schema in undecided {
                self.is_plain(schema);
            }
            self.waiting -= 1;
        }
    }

    /// Mark schemas as not plain, and those that use them. The users are in order.
    fn mark_others(&mut self, mut others: Vec<u32>, users: &[(u32, u32)]) {
        while let Some(other) = others.pop() {
            self.plain[other as usize] = Some(false);
            let first = users.partition_point(|edge| edge.0 < other);
            for edge in users[first..].iter().take_while(|edge| edge.0 == other) {
                if self.plain[edge.1 as usize] == Some(true) {
                    others.push(edge.1);
                }
            }
        }
    }

    /// The schema that a chain of references ends at, of one that was asked for before.
    pub fn resolved(&self, schema: u32) -> u32 {
        let mut target = schema;
        for _ in 0..LONGEST_CHAIN {
            match self.kind(target) {
                Kind::Reference(Goal::Schema(next)) => target = *next,
                _ => return target,
            }
        }
        schema
    }

    /// The schemas that what a plain one says leads to: its references and branches, items and properties.
    pub fn uses(&self, schema: u32) -> Vec<u32> {
        let kind = self.kind(schema);
        let mut found = in_place(kind);
        if let Kind::Typed { array, object, .. } = own(kind) {
            found.extend(array.iter().filter_map(|array| schema_of(array.items?.1)));
            for part in object.iter().flat_map(|object| &object.parts) {
                found.extend(schema_of(part.rest));
                found.extend(self.patterns(part).filter_map(|(_, goal)| schema_of(goal)));
                found.extend(self.properties(part).filter_map(|(_, goal)| schema_of(goal)));
            }
        }
        found
    }

    /// The named properties with what a part wants of their values.
    pub fn properties<'a>(&'a self, part: &Part) -> impl Iterator<Item = (&'a str, Goal)> + 'a {
        self.goals_of(part.properties)
    }

    /// The patterns for names, with what a part wants of the values of those that match.
    pub fn patterns<'a>(&'a self, part: &Part) -> impl Iterator<Item = (&'a str, Goal)> + 'a {
        self.goals_of(part.patterns)
    }

    /// The schemas of an object, with their names.
    fn goals_of<'a>(&'a self, object: Option<u32>) -> impl Iterator<Item = (&'a str, Goal)> + 'a {
        let entries = object.and_then(|object| self.tree.entries(object));
        entries.unwrap_or(&[]).iter().map(|(name, value)| {
            let goal = self.goal(*value).unwrap_or(Goal::Nothing);
            (self.tree.text(name), goal)
        })
    }

    /// What a part wants of a property's value; its `matched` may want more.
    pub fn property_of(&self, part: &Part, name: &str) -> Goal {
        self.wanted_by(part, name)[0]
    }

    /// The one or two things that a part wants of a property's value.
    pub fn wanted_by(&self, part: &Part, name: &str) -> [Goal; 2] {
        let Some(value) = self.named(part, name) else {
            return [part.rest, Goal::Anything];
        };
        let goal = self.goal(value).unwrap_or(Goal::Nothing);
        let matched = part.matched.as_deref().unwrap_or(&[]);
        let found = matched.binary_search_by_key(&value, |(schema, _)| *schema);
        [goal, found.map_or(Goal::Anything, |place| matched[place].1)]
    }

    /// The schema of a property that a part names.
    pub fn named(&self, part: &Part, name: &str) -> Option<u32> {
        self.tree.get(part.properties?, name)
    }

    /// What objects want of the values of properties that no part names; None if that needs the algebra.
    pub fn rest(&self, object: &Object) -> Option<Goal> {
        let (rest, other) = self.all(object.parts.iter().map(|part| part.rest))?;
        (other == Goal::Anything).then_some(rest)
    }

    /// The one goal, or the two, that are all of these; None if there are more.
    pub fn all(&self, goals: impl Iterator<Item = Goal>) -> Option<(Goal, Goal)> {
        let (mut first, mut second, mut are_all) = (Goal::Anything, Goal::Anything, true);
        for goal in goals {
            match (first, goal) {
                (_, Goal::Nothing) => return Some((Goal::Nothing, Goal::Anything)),
                (Goal::Anything, _) => first = goal,
                (Goal::Schema(one), Goal::Schema(other)) => match second {
                    Goal::Anything if self.say_the_same(one, other) => {}
                    Goal::Anything => second = goal,
                    _ => are_all = false,
                },
                _ => {}
            }
        }
        are_all.then_some((first, second))
    }

    /// Whether two schemas are the same but for annotations.
    fn say_the_same(&self, one: u32, other: u32) -> bool {
        let said = |schema| self.tree.entries(schema).unwrap_or(&[]).iter();
        let says_nothing = |name: &str| ANNOTATIONS.contains(&name) || IDENTIFIERS.contains(&name);
        let says = |(name, _): &&(Text, u32)| !says_nothing(self.tree.text(name));
        let is_in = |(name, value): &(Text, u32)| {
            let found = self.tree.get(other, self.tree.text(name));
            found.is_some_and(|found| self.tree.source(found) == self.tree.source(*value))
        };
        self.tree.source(one) == self.tree.source(other)
            || said(one).filter(says).count() == said(other).filter(says).count() && said(one).filter(says).all(is_in)
    }
}

/// Of a schema that is combined with others, what it says itself.
fn own(kind: &Kind) -> &Kind {
    match kind {
        Kind::Combined { own, .. } => own,
        _ => kind,
    }
}

/// Whether what is said of a property may be said by two schemas at once: of its name, and of a pattern.
fn wants_both(kind: &Kind) -> bool {
    let Kind::Typed {
        object: Some(object), ..
    } = own(kind)
    else {
        return false;
    };
    object.parts.iter().any(|part| part.matched.is_some())
}

/// The schemas whose values a schema's own are.
fn in_place(kind: &Kind) -> Vec<u32> {
    match kind {
        Kind::Reference(goal) => schema_of(*goal).into_iter().collect(),
        Kind::Branches { goals, .. } => goals.iter().copied().filter_map(schema_of).collect(),
        Kind::Combined { steps, .. } => {
            let goals = steps.iter().flat_map(|step| match step {
                Step::All(goal) => std::slice::from_ref(goal),
                Step::Any(goals) | Step::One(goals) | Step::OneOfSome(goals) => goals,
            });
            goals.copied().filter_map(schema_of).collect()
        }
        _ => Vec::new(),
    }
}

pub fn schema_of(goal: Goal) -> Option<u32> {
    match goal {
        Goal::Schema(schema) => Some(schema),
        _ => None,
    }
}
