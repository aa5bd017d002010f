//! Plain schemas as rules. What it makes is, byte for byte, what the schema algebra in Python makes of them.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::iter;

use crate::hash::{FastMap, FastSet};
use crate::schema::common::Texts;
use crate::schema::json::escape;
use crate::schema::locations::{Array, Goal, Kind, Locations, Object, LONGEST_CHAIN};
use crate::schema::nodes::{any_of, in_order, Node, Regular, ANOTHER_WAY, OPTIONAL, REPEATED, REQUIRED, SEVERAL_WAYS};
use crate::schema::patterns::{Pattern, MOST_STEPS};
use crate::schema::scalars::Scalars;
use crate::schema::shapes::{Shaper, READING};
use crate::schema::titles::Title;

/// How many properties are gone through for each node that a grammar may have.
const WORK_PER_NODE: u64 = 4;
/// A character of a pattern has many spellings.
const WORK_PER_CHARACTER: usize = 16;
/// The deepest schemas whose names are read.
const DEEPEST_WALK: u32 = 250;

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

/// The first ones, which blanks belong to.
pub const PUNCTUATION: u32 = Token::EmptyObject as u32 + 1;
pub const TOKENS: u32 = Token::AnyScalar as u32 + 1;

/// A terminal that depends on the schema.
pub enum Terminal {
    /// A name with the colon.
    Name(Box<str>),
    /// Any other name with the colon; these are terminals, in the order of their names.
    NameOtherThan(Vec<u32>),
    /// The names that match the pattern of a schema, which is given as text, other than those of its properties, with the
    /// colon; and the names that do not. One stands behind the other.
    NameLike(Box<str>),
    NameUnlike,
    /// What a schema for scalars allows, by its text.
    Scalars(Box<str>),
    /// The same, made here.
    Made(Regular),
}

impl Token {
    /// What a terminal does to the depth.
    pub fn step(terminal: u32) -> i32 {
        const OPEN: [u32; 2] = [Token::OpenArray as u32, Token::OpenObject as u32];
        const CLOSE: [u32; 2] = [Token::CloseArray as u32, Token::CloseObject as u32];
        i32::from(OPEN.contains(&terminal)) - i32::from(CLOSE.contains(&terminal))
    }
}

/// The name that a terminal stands for, by its number.
pub fn name_of(terminals: &[Terminal], number: u32) -> &str {
    match &terminals[(number - TOKENS) as usize] {
        Terminal::Name(name) => name,
        _ => "",
    }
}

pub struct Lowering<'a> {
    locations: &'a Locations,
    pub rules: Vec<Node>,
    /// What each rule stands for.
    pub titles: Vec<Title>,
    /// What is being lowered.
    current: Title,
    pub terminals: Vec<Terminal>,
    /// The number of the first rule of any value, which would come next, where it is used.
    pub any: Option<u32>,
    names: HashMap<&'a str, u32>,
    others: FastMap<Vec<u32>, u32>,
    /// Those of scalars, and of names that match a pattern, by the texts of their schemas.
    scalars: HashMap<Cow<'a, str>, u32>,
    goals: FastMap<u32, u32>,
    /// The schemas that are lowered elsewhere.
    holes: &'a FastMap<u32, u32>,
    pending: Vec<(u32, u32)>,
    shaper: Shaper<'a>,
}

impl<'a> Lowering<'a> {
    /// The rules of plain schemas, in their order, and of those that they need, but for `holes`; None where one needs the
    /// algebra after all, or takes too much.
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
            titles: Vec::new(),
            current: Title::of(0),
            terminals: Vec::new(),
            any: wants_any.then_some(0),
            names: HashMap::new(),
            others: FastMap::default(),
            scalars: HashMap::new(),
            goals: FastMap::default(),
            holes,
            pending: Vec::new(),
            shaper: Shaper {
                locations,
                work: Cell::new(maximum_nodes.saturating_mul(WORK_PER_NODE)),
            },
        };
        for root in roots {
            made.goal(Goal::Schema(*root));
        }
        while let Some((schema, rule)) = made.pending.pop() {
            made.current = Title::of(schema);
            let body = made.lower(schema)?;
            made.define(rule, body);
            made.spend(1)?;
        }
        made.any = made.any.map(|_| made.rules.len() as u32);
        Some(made)
    }

    fn spend(&self, steps: usize) -> Option<()> {
        self.shaper.spend(steps)
    }

    fn lower(&mut self, schema: u32) -> Option<Node> {
        let shape = self.shaper.shape(Goal::Schema(schema), LONGEST_CHAIN)?;
        if shape.is_anything {
            return Some(self.goal(Goal::Anything));
        }
        let mut options = Vec::new();
        if let Some(text) = shape.scalars {
            let Some(terminal) = self.scalars(text) else {
                let is_all = shape.arrays.is_empty() && shape.objects.is_empty();
                return is_all.then_some(Node::NOTHING);
            };
            options.push(terminal);
        }
        let several = shape.arrays.len() + shape.objects.len() > 1;
        for (array, place) in shape.arrays.iter().zip(1..) {
            self.current.array = if several { place } else { 0 };
            let body = self.array(array);
            options.push(if several { self.add(body) } else { body });
        }
        if !shape.objects.is_empty() {
            let mut names = Names::default();
            for schema in self.locations.pair(schema).as_ref().map_or(&[schema][..], |pair| pair) {
                self.walk(&mut names, *schema, false, DEEPEST_WALK)?;
            }
            self.current.array = 0;
            for (object, place) in shape.objects.iter().zip(1..) {
                self.current.object = if several { place } else { 0 };
                self.spend(names.said.len() * (1 + object.parts.len()))?;
                let names = names.of((!self.locations.common.in_any_order).then_some(object));
                if let Some(body) = self.object(object, &names)? {
                    options.push(if several { self.add(body) } else { body });
                }
            }
        }
        Some(any_of(options))
    }

    /// Add the names of a schema, which is in a branch of a union or not, in the order of a walk. Those of listed objects
    /// are left to others.
    fn walk(&self, names: &mut Names<'a>, schema: u32, in_branch: bool, room: u32) -> Option<()> {
        let (locations, tree) = (self.locations, &self.locations.tree);
        let room = room.checked_sub(1)?;
        let entries = tree.entries(schema).unwrap_or(&[]);
        if !names.walked.insert((schema, in_branch)) {
            return Some(());
        }
        self.spend(READING + entries.len())?;
        let refers = locations.draft <= 7 && tree.get(schema, "$ref").is_some();
        if let Some(properties) = tree.get(schema, "properties").filter(|_| !refers) {
            let named = tree.entries(properties)?;
            let found = named.iter().map(|(name, _)| tree.text(name)).collect();
            names.said.push((schema, in_branch, found));
            self.spend(named.len())?;
        }
        for (name, value) in entries {
            match (tree.text(name), tree.items(*value)) {
                ("$ref", _) => {
                    if let Kind::Reference(Goal::Schema(target)) = locations.reference(*value)? {
                        self.walk(names, target, in_branch, room)?;
                    }
                }
                _ if refers => {}
                ("required", Some(required)) => {
                    names.late.extend(required.iter().filter_map(|name| tree.string(*name)));
                    self.spend(required.len())?;
                }
                (keyword @ ("allOf" | "anyOf" | "oneOf"), Some(branches)) => {
                    for branch in branches {
                        self.walk(names, *branch, in_branch || keyword != "allOf", room)?;
                    }
                }
                ("not", _) => self.walk(names, *value, in_branch, room)?,
                (keyword @ ("if" | "then" | "else"), _) if locations.draft >= 7 => {
                    self.walk(names, *value, in_branch || keyword != "if", room)?;
                }
                ("enum", Some(values)) => {
                    let is_object = |value: &u32| tree.entries(*value).is_some();
                    (!values.iter().any(is_object)).then_some(())?;
                }
                ("const", _) if tree.entries(*value).is_some() => return None,
                ("required", _) => return None,
                ("dependencies" | "dependentRequired" | "dependentSchemas", _) => return None,
                _ => {}
            }
        }
        Some(())
    }

    #[inline(never)]
    fn array(&mut self, array: &Array) -> Node {
        let mut options = Vec::new();
        if array.minimum == 0 {
            options.push(token(Token::EmptyArray));
        }
        if array.maximum != Some(0) {
            let item = self.goal(array.items.map_or(Goal::Anything, |items| items.1));
            let further = in_order(vec![token(Token::Comma), item.clone()]);
            let list = match array.maximum {
                None if array.minimum <= 1 => {
                    let list = self.reserve(Title {
                        items: true,
                        ..self.current
                    });
                    let body = any_of(vec![item, in_order(vec![Node::Rule(list), further])]);
                    self.define(list, body);
                    Node::Rule(list)
                }
                Some(1) => item,
                maximum => {
                    let minimum = array.minimum.saturating_sub(1);
                    let further = Node::Repeat(Box::new(further), minimum, maximum.map(|maximum| maximum - 1));
                    in_order(vec![item, further])
                }
            };
            options.push(in_order(vec![token(Token::OpenArray), list, token(Token::CloseArray)]));
        }
        any_of(options)
    }

    /// None if that needs the algebra or takes too much, None within if there are no such objects.
    #[inline(never)]
    fn object(&mut self, object: &Object, names: &[&'a str]) -> Option<Option<Node>> {
        let locations = self.locations;
        self.spend(names.len() * (1 + object.parts.len()))?;
        let mut required = Texts::default();
        let count = object.required.iter().filter(|name| required.add(name)).count();
        let mut properties = Vec::new();
        for name in names {
            let goal = self.shaper.property(object, name)?;
            if goal != Goal::Nothing {
                properties.push((self.name(name), goal, required.contains(name)));
            }
        }
        if properties.iter().filter(|property| property.2).count() < count {
            return Some(None);
        }
        let may_be_empty = count == 0 && !object.nonempty;
        let mut members = Vec::with_capacity(properties.len() + 1);
        for (key, goal, required) in properties {
            let item = in_order(vec![Node::Terminal(key), self.goal(goal)]);
            members.push((if required { REQUIRED } else { OPTIONAL }, item));
        }
        let mut others = Vec::new();
        let rest = locations.rest(object)?;
        let patterns = object.parts.iter().flat_map(|part| locations.patterns(part));
        let (patterns, mut goals): (Vec<&str>, Vec<Goal>) = patterns.unzip();
        let is_named = |name: &&str| object.parts.iter().any(|part| locations.named(part, name).is_some());
        goals.push(rest);
        let first = if patterns.is_empty() {
            self.name_other_than(names.to_vec())
        } else {
            let unnamed = names.iter().copied().filter(|name| !is_named(name));
            self.names_like(&patterns, names, unnamed)?
        };
        for (key, goal) in (first..).zip(goals) {
            if goal != Goal::Nothing {
                others.push(in_order(vec![Node::Terminal(key), self.goal(goal)]));
            }
        }
        let flags = REPEATED | if others.len() > 1 { SEVERAL_WAYS } else { 0 };
        members.extend(iter::once(flags).chain(iter::repeat(ANOTHER_WAY)).zip(others));
        let mut options = Vec::new();
        if may_be_empty {
            options.push(token(Token::EmptyObject));
        }
        if !members.is_empty() {
            let is_one = members.iter().filter(|(flags, _)| *flags != ANOTHER_WAY).count() == 1;
            let members = Node::Members {
                separator: Box::new(token(Token::Comma)),
                members,
                in_any_order: locations.common.in_any_order && !is_one,
            };
            options.push(in_order(vec![
                token(Token::OpenObject),
                members,
                token(Token::CloseObject),
            ]));
        }
        Some((!options.is_empty()).then(|| any_of(options)))
    }

    #[inline(never)]
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
        let rule = self.reserve(Title::of(schema));
        self.goals.insert(schema, rule);
        self.pending.push((schema, rule));
        Node::Rule(rule)
    }

    fn reserve(&mut self, title: Title) -> u32 {
        self.rules.push(Node::NOTHING);
        self.titles.push(title);
        self.rules.len() as u32 - 1
    }

    fn define(&mut self, rule: u32, body: Node) {
        self.rules[rule as usize] = body;
    }

    fn add(&mut self, body: Node) -> Node {
        let rule = self.reserve(self.current);
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

    fn name_other_than(&mut self, names: Vec<&'a str>) -> u32 {
        if names.is_empty() {
            return Token::AnyName as u32;
        }
        let mut order: Vec<(&[u8], u32)> = names.iter().map(|name| name.as_bytes()).zip(0..).collect();
        order.sort_unstable();
        let in_order = order.iter().map(|(_, place)| names[*place as usize]);
        let names: Vec<u32> = in_order.map(|name| self.name(name)).collect();
        if let Some(number) = self.others.get(&names) {
            return *number;
        }
        let number = self.terminal(Terminal::NameOtherThan(names.clone()));
        self.others.insert(names, number);
        number
    }

    /// The first of the terminals of names that match a pattern, one for each, and then of those that match none; none of
    /// these are the given ones. None if that needs the algebra, also because an unnamed one matches.
    fn names_like<'b>(
        &mut self,
        patterns: &[&'a str],
        names: &[&str],
        mut unnamed: impl Iterator<Item = &'b str>,
    ) -> Option<u32> {
        let length: usize = patterns.iter().map(|pattern| pattern.len()).sum();
        self.spend((1 + patterns.len()) * length * WORK_PER_CHARACTER)?;
        let read = Pattern::all_apart(patterns);
        if let Some(read) = &read {
            let mut steps = MOST_STEPS;
            let matches = |name| !matches!(Pattern::first_match(read, name, &mut steps), Some(None));
            (!unnamed.any(matches)).then_some(())?;
        }
        let mut text = String::from("{\"patternProperties\":{");
        add_all(&mut text, patterns, ":{\"type\":\"null\"}");
        text.push_str("},\"properties\":{");
        add_all(&mut text, names, ":{}");
        text.push_str("}}");
        if let Some(number) = self.scalars.get(&*text) {
            return Some(*number);
        }
        let made = match read {
            Some(patterns) => {
                let made = self.locations.common.parts.names_like(&patterns, names);
                made.into_iter().map(Terminal::Made).collect()
            }
            None if patterns.len() == 1 => vec![Terminal::NameLike(text.as_str().into()), Terminal::NameUnlike],
            None => return None,
        };
        let first = TOKENS + self.terminals.len() as u32;
        self.terminals.extend(made);
        self.scalars.insert(text.into(), first);
        Some(first)
    }

    /// None if there are none.
    fn scalars(&mut self, text: Cow<'a, str>) -> Option<Node> {
        if let Some(number) = self.scalars.get(&text) {
            return Some(Node::Terminal(*number));
        }
        let number = self.terminal(match Scalars::read(&text, &self.locations.common) {
            Some(Scalars::Made(inside)) => Terminal::Made(inside),
            Some(Scalars::Types(text)) => Terminal::Scalars(text),
            Some(Scalars::Nothing) => return None,
            None => Terminal::Scalars(text.as_ref().into()),
        });
        self.scalars.insert(text, number);
        Some(Node::Terminal(number))
    }
}

pub const ANY_RULES: usize = 5;

/// The rules of any value, numbered from 0 on: scalars, objects and arrays, with their entries and items.
pub fn any_rules() -> [Node; ANY_RULES] {
    let pair = || in_order(vec![token(Token::AnyName), Node::Any]);
    let whole = |open, content, close| in_order(vec![token(open), Node::Rule(content), token(close)]);
    [
        Node::Choice(vec![token(Token::AnyScalar), Node::Rule(1), Node::Rule(3)]),
        Node::Choice(vec![
            token(Token::EmptyObject),
            whole(Token::OpenObject, 2, Token::CloseObject),
        ]),
        Node::Choice(vec![pair(), in_order(vec![Node::Rule(2), token(Token::Comma), pair()])]),
        Node::Choice(vec![
            token(Token::EmptyArray),
            whole(Token::OpenArray, 4, Token::CloseArray),
        ]),
        Node::Choice(vec![
            Node::Any,
            in_order(vec![Node::Rule(4), token(Token::Comma), Node::Any]),
        ]),
    ]
}

fn token(token: Token) -> Node {
    Node::Terminal(token as u32)
}

/// Add the entries of an object in JSON: names, and what stands behind each.
fn add_all(found: &mut String, names: &[&str], value: &str) {
    for (place, name) in names.iter().enumerate() {
        found.push_str(if place > 0 { ",\"" } else { "\"" });
        escape(name, found);
        found.push('"');
        found.push_str(value);
    }
}

/// The named keys of a schema, in the order of a walk: those of `properties`, then those of `required`.
#[derive(Default)]
struct Names<'a> {
    walked: FastSet<(u32, bool)>,
    /// Those of the `properties` of a schema, which is in a branch of a union or not.
    said: Vec<(u32, bool, Vec<&'a str>)>,
    late: Vec<&'a str>,
}

impl<'a> Names<'a> {
    /// Each name once: before those of other branches, the ones of the branches that objects are in, if their order matters.
    fn of(&self, object: Option<&Object>) -> Vec<&'a str> {
        let is_part = |schema| object.map_or(true, |object| object.parts.iter().any(|part| part.schema == schema));
        let is_own = |said: &&(u32, bool, Vec<&str>)| !said.1 || is_part(said.0);
        let own = self.said.iter().filter(is_own);
        let others = self.said.iter().filter(|said| !is_own(said));
        let named = own.chain(others).flat_map(|said| &said.2);
        let mut known = Texts::default();
        named
            .chain(&self.late)
            .copied()
            .filter(|name| known.add(name))
            .collect()
    }
}
