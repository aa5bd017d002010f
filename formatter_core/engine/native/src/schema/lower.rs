//! Plain schemas as rules. What it makes is, byte for byte, what the schema algebra in Python makes of them.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use crate::hash::FastMap;
use crate::schema::locations::{Array, Goal, Kind, Locations, Object, Types, LONGEST_CHAIN, LONGEST_TEXT};
use crate::schema::nodes::{any_of, in_order, Node, OPTIONAL, REPEATED, REQUIRED};
use crate::schema::scalars::{Scalars, Strings};

/// How many properties are gone through for each node that a grammar may have.
const WORK_PER_NODE: u64 = 4;
/// The most alternatives for arrays, and for objects.
const MOST_ALTERNATIVES: usize = 100;
/// Steps to read what one schema says: unions of unions may read the same ones again and again.
const READING: usize = 16;

/// The fixed tokens of JSON, in the order in which they are given.
#[derive(Clone, Copy)]
pub enum Token {
    Comma,
    OpenArray,
    CloseArray,
    EmptyArray,
    OpenObject,
    CloseObject,
    EmptyObject,
    AnyName,
    AnyScalar,
}

pub const TOKENS: u32 = Token::AnyScalar as u32 + 1;

/// A terminal that depends on the schema.
pub enum Terminal {
    /// A name with the colon.
    Name(Box<str>),
    /// Any other name with the colon; these are terminals, in the order of their names.
    NameOtherThan(Vec<u32>),
    /// What a schema for scalars allows, by its text.
    Scalars(Box<str>),
    Some {
        strings: Strings,
        words: Vec<&'static [u8]>,
    },
}

/// The name that a terminal stands for, by its number.
pub fn name_of(terminals: &[Terminal], number: u32) -> &str {
    match &terminals[(number - TOKENS) as usize] {
        Terminal::Name(name) => name,
        _ => "",
    }
}

/// The sets that a value may be in; `scalars` is a schema for them.
#[derive(Clone, Default)]
struct Shape<'a> {
    /// It may be any value, and nothing else is said.
    is_anything: bool,
    scalars: Option<Cow<'a, str>>,
    arrays: Vec<Array>,
    objects: Vec<&'a Object>,
}

const ANY_SCALARS: &str = r#"{"type":["null","boolean","number","string"]}"#;
static ANY_OBJECT: Object = Object {
    part: None,
    properties: None,
    rest: Goal::Anything,
    required: Vec::new(),
};

impl Shape<'_> {
    /// The same, as a union even if it may be any value.
    fn by_type(self) -> Self {
        if !self.is_anything {
            return self;
        }
        Shape {
            is_anything: false,
            scalars: Some(ANY_SCALARS.into()),
            arrays: vec![Array::default()],
            objects: vec![&ANY_OBJECT],
        }
    }

    /// The values of certain types.
    fn of(self, types: Types) -> Self {
        let Types::Some { arrays, objects } = types else {
            return self;
        };
        let mut shape = Shape {
            scalars: None,
            ..self.by_type()
        };
        if !arrays {
            shape.arrays.clear();
        }
        if !objects {
            shape.objects.clear();
        }
        shape
    }
}

pub struct Lowering<'a> {
    locations: &'a Locations,
    pub rules: Vec<Node>,
    pub terminals: Vec<Terminal>,
    /// The number of the first rule of any value, where it is used.
    pub any: Option<u32>,
    names: HashMap<&'a str, u32>,
    others: HashMap<Vec<u32>, u32>,
    scalars: HashMap<Cow<'a, str>, u32>,
    goals: HashMap<u32, u32>,
    /// The schemas that are lowered elsewhere.
    holes: &'a FastMap<u32, u32>,
    pending: Vec<(u32, u32)>,
    work: Cell<u64>,
}

impl<'a> Lowering<'a> {
    /// The rules of plain schemas, in their order, and of those that they need, but for `holes`; None where one has no
    /// value, or takes too much.
    pub fn of(
        locations: &'a Locations,
        roots: &[u32],
        holes: &'a FastMap<u32, u32>,
        wants_any: bool,
        maximum_nodes: u64,
    ) -> Option<Self> {
        let mut made = Lowering {
            locations,
            rules: Vec::new(),
            terminals: Vec::new(),
            any: wants_any.then_some(0),
            names: HashMap::new(),
            others: HashMap::new(),
            scalars: HashMap::new(),
            goals: HashMap::new(),
            holes,
            pending: Vec::new(),
            work: Cell::new(maximum_nodes.saturating_mul(WORK_PER_NODE)),
        };
        for root in roots {
            made.goal(Goal::Schema(*root));
        }
        while let Some((schema, rule)) = made.pending.pop() {
            let body = made.lower(schema)?;
            made.define(rule, body);
            made.spend(1)?;
        }
        if made.any.is_some() {
            made.add_any();
        }
        Some(made)
    }

    fn spend(&self, steps: usize) -> Option<()> {
        self.work.set(self.work.get().checked_sub(steps as u64)?);
        Some(())
    }

    fn lower(&mut self, schema: u32) -> Option<Node> {
        let shape = self.shape(Goal::Schema(schema), LONGEST_CHAIN)?;
        if shape.is_anything {
            return Some(self.goal(Goal::Anything));
        }
        let mut options = Vec::new();
        if let Some(text) = shape.scalars {
            options.push(self.scalars(text));
        }
        let several = shape.arrays.len() + shape.objects.len() > 1;
        for array in &shape.arrays {
            let body = self.array(array);
            options.push(if several { self.add(body) } else { body });
        }
        if !shape.objects.is_empty() {
            let mut names = Names::default();
            self.walk(&mut names, Goal::Schema(schema))?;
            let names = names.in_order();
            for object in &shape.objects {
                let body = self.object(object, &names)?;
                options.push(if several { self.add(body) } else { body });
            }
        }
        (!options.is_empty()).then(|| any_of(options))
    }

    fn shape(&self, goal: Goal, room: u32) -> Option<Shape<'a>> {
        let schema = match goal {
            Goal::Anything => {
                return Some(Shape {
                    is_anything: true,
                    ..Shape::default()
                })
            }
            Goal::Nothing => return None,
            Goal::Schema(schema) => schema,
        };
        let room = room.checked_sub(1)?;
        self.spend(READING)?;
        Some(match self.locations.kind(schema) {
            Kind::Silent => self.shape(Goal::Anything, room)?,
            Kind::Scalars(text) => Shape {
                scalars: Some(Cow::Borrowed(text)),
                ..Shape::default()
            },
            Kind::Typed { scalars, array, object } => Shape {
                is_anything: false,
                scalars: scalars.as_deref().map(Cow::Borrowed),
                arrays: array.iter().copied().collect(),
                objects: object.iter().collect(),
            },
            Kind::Reference(goal) => self.shape(*goal, room)?,
            Kind::Branches {
                goals,
                exclusive,
                types,
            } => {
                let branches: Option<Vec<Shape<'a>>> = goals.iter().map(|goal| self.shape(*goal, room)).collect();
                self.united(branches?, *exclusive)?.of(*types)
            }
            Kind::Other => return None,
        })
    }

    fn united(&self, mut branches: Vec<Shape<'a>>, exclusive: bool) -> Option<Shape<'a>> {
        if branches.len() == 1 {
            return branches.pop();
        }
        let mut union = Shape::default();
        let mut scalars = Vec::new();
        for branch in branches.into_iter().map(Shape::by_type) {
            scalars.extend(branch.scalars);
            add_new(&mut union.arrays, branch.arrays)?;
            add_new(&mut union.objects, branch.objects)?;
        }
        if union.arrays.contains(&Array::default()) {
            union.arrays = vec![Array::default()];
        }
        if union.objects.contains(&&ANY_OBJECT) {
            union.objects = vec![&ANY_OBJECT];
        }
        union.scalars = union_of(scalars, exclusive)?;
        Some(union)
    }

    /// Add the names of a schema, in the order of a walk.
    fn walk(&self, names: &mut Names<'a>, goal: Goal) -> Option<()> {
        let Goal::Schema(schema) = goal else {
            return Some(());
        };
        self.spend(READING)?;
        match self.locations.kind(schema) {
            Kind::Typed {
                object: Some(object), ..
            } => {
                names
                    .named
                    .extend(self.locations.properties(object).map(|(name, _)| name));
                names.late.extend(self.locations.required(schema));
                self.spend(names.named.len() + names.late.len())?;
            }
            Kind::Reference(goal) => self.walk(names, *goal)?,
            Kind::Branches { goals, .. } => {
                for goal in goals {
                    self.walk(names, *goal)?;
                }
            }
            _ => {}
        }
        Some(())
    }

    fn array(&mut self, array: &Array) -> Node {
        let mut options = Vec::new();
        if array.minimum == 0 {
            options.push(token(Token::EmptyArray));
        }
        if array.maximum != Some(0) {
            let item = self.goal(array.items.map_or(Goal::Anything, |items| items.1));
            let further = in_order([token(Token::Comma), item.clone()]);
            let list = match array.maximum {
                None if array.minimum <= 1 => {
                    let list = self.reserve();
                    let body = any_of([item, in_order([Node::Rule(list), further])]);
                    self.define(list, body);
                    Node::Rule(list)
                }
                Some(1) => item,
                maximum => {
                    let minimum = array.minimum.saturating_sub(1);
                    let further = Node::Repeat(Box::new(further), minimum, maximum.map(|maximum| maximum - 1));
                    in_order([item, further])
                }
            };
            options.push(in_order([token(Token::OpenArray), list, token(Token::CloseArray)]));
        }
        any_of(options)
    }

    fn object(&mut self, object: &'a Object, names: &[&'a str]) -> Option<Node> {
        let locations = self.locations;
        let mut known: HashSet<&str> = names.iter().copied().collect();
        let mut names: Vec<&'a str> = names.to_vec();
        let own = locations.properties(object).map(|(name, _)| name);
        names.extend(
            own.chain(object.required.iter().map(|name| &**name))
                .filter(|name| known.insert(name)),
        );
        self.spend(names.len())?;
        let required: HashSet<&str> = object.required.iter().map(|name| &**name).collect();
        let mut properties = Vec::new();
        for name in &names {
            let goal = locations.property(object, name);
            if goal != Goal::Nothing {
                properties.push((self.name(name), goal, required.contains(name)));
            }
        }
        if properties.iter().filter(|property| property.2).count() < required.len() {
            return None;
        }
        let may_be_empty = required.is_empty();
        let mut members = Vec::with_capacity(properties.len() + 1);
        for (key, goal, required) in properties {
            let item = in_order([Node::Terminal(key), self.goal(goal)]);
            members.push((if required { REQUIRED } else { OPTIONAL }, item));
        }
        if object.rest != Goal::Nothing {
            let item = in_order([self.name_other_than(names), self.goal(object.rest)]);
            members.push((REPEATED, item));
        }
        let mut options = Vec::new();
        if may_be_empty {
            options.push(token(Token::EmptyObject));
        }
        if !members.is_empty() {
            let members = Node::Members(Box::new(token(Token::Comma)), members);
            options.push(in_order([token(Token::OpenObject), members, token(Token::CloseObject)]));
        }
        Some(any_of(options))
    }

    fn goal(&mut self, goal: Goal) -> Node {
        let Goal::Schema(schema) = goal else {
            self.any = Some(0);
            return Node::Any;
        };
        let schema = self.locations.resolved(schema);
        if let Some(hole) = self.holes.get(&schema) {
            return Node::Hole(*hole);
        }
        if let Some(rule) = self.goals.get(&schema) {
            return Node::Rule(*rule);
        }
        let rule = self.reserve();
        self.goals.insert(schema, rule);
        self.pending.push((schema, rule));
        Node::Rule(rule)
    }

    fn reserve(&mut self) -> u32 {
        self.rules.push(Node::Choice(Vec::new()));
        self.rules.len() as u32 - 1
    }

    fn define(&mut self, rule: u32, body: Node) {
        self.rules[rule as usize] = body;
    }

    fn add(&mut self, body: Node) -> Node {
        let rule = self.reserve();
        self.define(rule, body);
        Node::Rule(rule)
    }

    fn terminal(&mut self, terminal: Terminal) -> u32 {
        self.terminals.push(terminal);
        TOKENS + self.terminals.len() as u32 - 1
    }

    fn name(&mut self, name: &'a str) -> u32 {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let number = self.terminal(Terminal::Name(name.into()));
        self.names.insert(name, number);
        number
    }

    fn name_other_than(&mut self, mut names: Vec<&'a str>) -> Node {
        if names.is_empty() {
            return token(Token::AnyName);
        }
        names.sort_unstable();
        let names: Vec<u32> = names.into_iter().map(|name| self.name(name)).collect();
        if let Some(number) = self.others.get(&names) {
            return Node::Terminal(*number);
        }
        let number = self.terminal(Terminal::NameOtherThan(names.clone()));
        self.others.insert(names, number);
        Node::Terminal(number)
    }

    fn scalars(&mut self, text: Cow<'a, str>) -> Node {
        if let Some(number) = self.scalars.get(&text) {
            return Node::Terminal(*number);
        }
        let number = self.terminal(match Scalars::read(&text, self.locations.draft) {
            Some(Scalars::Some { strings, words }) => Terminal::Some { strings, words },
            Some(Scalars::Types(text)) => Terminal::Scalars(text),
            None => Terminal::Scalars(text.as_ref().into()),
        });
        self.scalars.insert(text, number);
        Node::Terminal(number)
    }

    /// The rules of any value: scalars, objects and arrays, with their entries and items.
    fn add_any(&mut self) {
        let first = self.rules.len() as u32;
        self.any = Some(first);
        let rule = |place| Node::Rule(first + place);
        let pair = || in_order([token(Token::AnyName), Node::Any]);
        let whole = |open, content, close| in_order([token(open), content, token(close)]);
        self.rules.extend([
            Node::Choice(vec![token(Token::AnyScalar), rule(1), rule(3)]),
            Node::Choice(vec![
                token(Token::EmptyObject),
                whole(Token::OpenObject, rule(2), Token::CloseObject),
            ]),
            Node::Choice(vec![pair(), in_order([rule(2), token(Token::Comma), pair()])]),
            Node::Choice(vec![
                token(Token::EmptyArray),
                whole(Token::OpenArray, rule(4), Token::CloseArray),
            ]),
            Node::Choice(vec![Node::Any, in_order([rule(4), token(Token::Comma), Node::Any])]),
        ]);
    }
}

fn token(token: Token) -> Node {
    Node::Terminal(token as u32)
}

/// One schema for the scalars of several; None within if there are none.
fn union_of(mut scalars: Vec<Cow<str>>, exclusive: bool) -> Option<Option<Cow<str>>> {
    if scalars.len() < 2 {
        return Some(scalars.pop());
    }
    let keyword = if exclusive { "oneOf" } else { "anyOf" };
    let text = format!("{{\"{keyword}\":[{}]}}", scalars.join(","));
    (text.len() <= LONGEST_TEXT).then(|| Some(text.into()))
}

/// Add what is not known yet; None if it becomes too much.
fn add_new<T: PartialEq>(known: &mut Vec<T>, others: Vec<T>) -> Option<()> {
    for other in others {
        if !known.contains(&other) {
            known.push(other);
        }
    }
    (known.len() <= MOST_ALTERNATIVES).then_some(())
}

/// The named keys of a schema, in the order of a walk: those of `properties`, then those of `required`.
#[derive(Default)]
struct Names<'a> {
    named: Vec<&'a str>,
    late: Vec<&'a str>,
}

impl<'a> Names<'a> {
    /// Each name once.
    fn in_order(self) -> Vec<&'a str> {
        let mut known = HashSet::new();
        let all = self.named.into_iter().chain(self.late);
        all.filter(|name| known.insert(*name)).collect()
    }
}
