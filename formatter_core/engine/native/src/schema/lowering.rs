//! Lowering: makes the rules of a grammar from a schema's normal form.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Meter, Usage};
use crate::base::tuning::{MAX_MULTIPLE_STATES, MAX_SCHEMA_DEPTH};
use crate::regular::regex;
use crate::schema::any_value::{any_rules, ANY_NAMES};
use crate::schema::cells::{Cell, Question};
use crate::schema::common::Common;
use crate::schema::goals::Goal;
use crate::schema::keywords::is_known;
use crate::schema::leaves::{Leaves, Scalars, StringSet, Terminal};
use crate::schema::load::{Literal, Loader, FALSE, TRUE};
use crate::schema::nodes::{any_of, Node, Regular};
use crate::schema::normal::Normalizer;
use crate::schema::productive::{derived, reachable};
use crate::schema::report::{Class, Outcome, Refusals, Stop, Why};
use crate::schema::rules::Rules;
use crate::schema::shapes::{ArraySet, Name, ObjectSet, Shape};
use crate::schema::tokens::{Token, TOKENS};
use crate::schema::Document;

/// The limits of a schema's grammar.
#[derive(Clone, Copy)]
pub struct Most {
    pub nodes: u64,
    pub work: u64,
    /// The largest count of repeats and of members.
    pub repeat: u32,
    /// Maximum nesting of nodes, and of schemas that apply to one value.
    pub depth: u32,
}

/// The rules of a schema; the first rule is the start.
pub struct Made {
    pub rules: Vec<Node>,
    pub titles: Vec<Rc<str>>,
    pub terminals: Vec<Regular>,
    /// True if the rules of any value come after these rules.
    pub uses_any: bool,
    /// For each rule, whether it is a rule of any value, whose tokens are the same at every depth.
    pub fixed: Vec<bool>,
}

impl Made {
    /// Return the heap memory in bytes, see `heap`.
    pub fn heap(&self) -> usize {
        heap::list(&self.rules)
            + self.rules.iter().map(Node::heap).sum::<usize>()
            + heap::list(&self.titles)
            + self
                .titles
                .iter()
                .map(|title| heap::COUNTS + title.len())
                .sum::<usize>()
            + heap::list(&self.terminals)
            + self
                .terminals
                .iter()
                .map(|made| heap::list(&made.program))
                .sum::<usize>()
            + heap::list(&self.fixed)
    }
}

/// The terminals of a schema; their numbers follow those of the tokens.
struct Terminals<'a> {
    common: &'a Common,
    made: Vec<Regular>,
    names: FastMap<Arc<str>, u32>,
    /// The terminals of scalars; terminals of whole types are keyed by bits.
    scalars: FastMap<Scalars, Option<u32>>,
    types: FastMap<u8, Option<u32>>,
    /// Maximum nodes of a grammar.
    most: u64,
}

impl Terminals<'_> {
    fn add(&mut self, terminal: &Terminal) -> u32 {
        let made = self.common.inside(terminal, self.most);
        self.push(made)
    }

    fn push(&mut self, made: Regular) -> u32 {
        self.made.push(made);
        TOKENS + self.made.len() as u32 - 1
    }

    /// Return the terminal of some scalars; None if there are none.
    fn scalars(&mut self, scalars: &Scalars, leaves: &Leaves) -> Option<u32> {
        let common = self.common;
        let key = scalars.take_tests().then(|| (scalars.clone(), self.most));
        if let Some(made) = key.as_ref().and_then(|key| common.tested(key)) {
            return Some(self.push(made));
        }
        let terminal = leaves.scalar_terminal(scalars)?;
        let made = common.inside(&terminal, self.most);
        if let Some(key) = key {
            common.keep_tested(key, &made);
        }
        Some(self.push(made))
    }
}

/// A schema that is being lowered to rules. The modules `arrays`, `objects` and `keys` lower what their names say.
pub struct Lowering<'a> {
    pub normalizer: Normalizer<'a>,
    pub common: &'a Common,
    pub rules: Rules,
    terminals: Terminals<'a>,
    pub most: Most,
    pub machines: FastMap<(Rc<ArraySet>, Vec<Goal>, bool), Option<Node>>,
    pub lowered: FastMap<(Rc<ObjectSet>, Vec<Name>), Option<Node>>,
    pub members_made: u64,
    pub cells: FastMap<Vec<Question>, Rc<[Cell]>>,
    /// The terminals of classes of keys, by their strings and the names that are excluded from them.
    pub keys: HashMap<(Vec<Rc<StringSet>>, Vec<Name>), u32>,
    pub told_apart: u64,
}

/// Make the rules of a schema's valid documents; keywords may be dropped as `refusals` allow.
pub fn lower(document: &Document, common: &Common, most: Most, refusals: &mut Refusals) -> Outcome<Made> {
    let tree = &document.tree;
    let leaves = &Leaves::new(common.spelling);
    let usage = Usage::default();
    let meter = Meter::new(most.work, &usage, u64::MAX);
    // An object without any known keyword may be an example that was given in place of a schema.
    let says_something = |entry: &(_, _)| is_known(tree.text(&entry.0));
    let entries = tree.entries(tree.root).unwrap_or(&[]);
    if !entries.is_empty() && !entries.iter().any(says_something) {
        return Err(Stop::new(Class::Invalid, Why::NoKeyword, "", "", &[]));
    }
    let loader = Loader::new(document, most.nodes)?;
    let deepest = most.depth.min(MAX_SCHEMA_DEPTH) as usize;
    let normalizer = Normalizer::new(loader, leaves, common.enforces_formats, refusals, deepest, meter);
    Lowering {
        normalizer,
        common,
        rules: Rules::new(most.nodes),
        terminals: Terminals {
            common,
            made: Vec::new(),
            names: FastMap::default(),
            scalars: FastMap::default(),
            types: FastMap::default(),
            most: most.nodes,
        },
        most,
        machines: FastMap::default(),
        lowered: FastMap::default(),
        members_made: 0,
        cells: FastMap::default(),
        keys: HashMap::new(),
        told_apart: 0,
    }
    .made()
}

impl Lowering<'_> {
    fn made(mut self) -> Outcome<Made> {
        self.lower_all()?;
        let common = self.common;
        let Rules {
            mut bodies,
            mut titles,
            mut uses_any,
            ..
        } = self.rules;
        let mut fixed = Vec::new();
        if derived(&bodies).contains(&false) {
            let own = bodies.len();
            if uses_any {
                add_any_rules(&mut bodies, &mut titles);
                uses_any = false;
            }
            let (kept, places) = reachable(&bodies, &derived(&bodies));
            if kept[0].is_nothing() {
                return Err(Stop::new(Class::Unsatisfiable, Why::Contradiction, "", "", &[]));
            }
            titles = places.iter().map(|place| Rc::clone(&titles[*place])).collect();
            fixed = places.iter().map(|place| *place >= own).collect();
            bodies = kept;
        }
        if uses_any && !common.is_shared {
            add_any_rules(&mut bodies, &mut titles);
            uses_any = false;
        }
        Ok(Made {
            rules: bodies,
            titles,
            terminals: self.terminals.made,
            uses_any,
            fixed,
        })
    }

    /// Make all rules except those of any value.
    fn lower_all(&mut self) -> Outcome<()> {
        let root = self.normalizer.loader.root;
        match root {
            FALSE => return Err(Stop::new(Class::Unsatisfiable, Why::False, "", "", &[])),
            TRUE => self.goal(&[].into())?,
            _ => self.goal(&[root].into())?,
        };
        while let Some((goal, rule)) = self.rules.pending.pop() {
            let body = self.lower_goal(&goal, rule).map_err(|stop| match goal.first() {
                Some(first) => stop.at(&self.normalizer.loader.location(*first).pointer),
                None => stop,
            })?;
            self.rules.define(rule, body)?;
        }
        Ok(())
    }

    /// Return a reference to the rule of a goal.
    pub fn goal(&mut self, goal: &Goal) -> Outcome<Node> {
        if goal.is_empty() {
            self.rules.uses_any = true;
            return Ok(Node::Any);
        }
        if let Some(known) = self.rules.goals.get(goal) {
            return Ok(known.clone());
        }
        if let [literal] = goal[..] {
            let resolved = self.normalizer.loader.resolved(literal);
            if resolved != literal {
                let node = self.goal(&[resolved].into())?;
                self.rules.goals.insert(Rc::clone(goal), node.clone());
                return Ok(node);
            }
        }
        let title = self.title(goal);
        let rule = self.rules.reserve(&title);
        self.rules.goals.insert(Rc::clone(goal), Node::Rule(rule));
        self.rules.pending.push((Rc::clone(goal), rule));
        Ok(Node::Rule(rule))
    }

    /// Refuse a keyword of the schema at a pointer, or drop the keyword.
    pub fn refuse(&mut self, pointer: &str, keyword: &str, why: Why, parts: &[&str]) -> Outcome<()> {
        self.normalizer.refusals.refuse_at(pointer, keyword, why, parts)
    }

    fn title(&self, goal: &Goal) -> String {
        let pointer = |literal: &Literal| {
            let pointer = &self.normalizer.loader.location(*literal).pointer;
            let mark = if pointer.contains('#') || pointer.starts_with('=') {
                ""
            } else {
                "#"
            };
            format!("{}{mark}{pointer}", if *literal < 0 { "not " } else { "" })
        };
        let mut shown: Vec<String> = goal.iter().take(3).map(pointer).collect();
        if goal.len() > 3 {
            shown.push("…".into());
        }
        shown.join(" and ")
    }

    fn lower_goal(&mut self, goal: &Goal, rule: u32) -> Outcome<Node> {
        let shape = self.normalizer.goal(goal)?;
        if shape.is_any() {
            return self.goal(&[].into());
        }
        if shape.numbers.iter().any(|numbers| numbers.has_large_steps()) {
            let pointer = Arc::clone(&self.normalizer.loader.location(goal[0]).pointer);
            let most = MAX_MULTIPLE_STATES.to_string();
            self.refuse(&pointer, "multipleOf", Why::LargeSteps, &[&most])?;
        }
        let mut options: Vec<Node> = self.scalars(&shape, false)?.into_iter().collect();
        let title = Rc::clone(&self.rules.titles[rule as usize]);
        let several = shape.arrays.len() + shape.objects.len() > 1;
        for (arrays, index) in shape.arrays.iter().zip(1..) {
            let title = titled(&title, several, "array", index);
            let body = self.arrays(arrays, &title)?;
            options.extend(self.option(body, &title, several)?);
        }
        if !shape.objects.is_empty() {
            let order = self.normalizer.key_order(goal)?;
            for (objects, index) in shape.objects.iter().zip(1..) {
                let title = titled(&title, several, "object", index);
                let names = match self.common.in_any_order {
                    true => order.names.clone(),
                    false => order.of(objects),
                };
                let body = self.objects(objects, names)?;
                options.extend(self.option(body, &title, several)?);
            }
        }
        Ok(any_of(options))
    }

    fn option(&mut self, body: Option<Node>, title: &str, several: bool) -> Outcome<Option<Node>> {
        match body {
            Some(body) if several => self.rules.add(title, body).map(Some),
            body => Ok(body),
        }
    }

    /// Return the terminal of a shape's scalars; None if there are none.
    pub fn scalars(&mut self, shape: &Shape, plain: bool) -> Outcome<Option<Node>> {
        let types = (!plain).then(|| types_of(shape)).flatten();
        if let Some(known) = types.and_then(|types| self.terminals.types.get(&types)) {
            return Ok(known.map(Node::Terminal));
        }
        let numbers: Vec<_> = shape.numbers.iter().map(|numbers| (**numbers).clone()).collect();
        let strings: Vec<_> = shape.strings.iter().map(|strings| (**strings).clone()).collect();
        let leaves = self.normalizer.leaves;
        let scalars = Scalars {
            null: shape.null,
            booleans: shape.booleans,
            numbers,
            strings,
            plain,
        };
        if let Some(known) = self.terminals.scalars.get(&scalars) {
            return Ok(known.map(Node::Terminal));
        }
        let number = self.terminals.scalars(&scalars, leaves);
        match types {
            Some(types) => self.terminals.types.insert(types, number),
            None => self.terminals.scalars.insert(scalars, number),
        };
        Ok(number.map(Node::Terminal))
    }

    /// Return the terminal of a name with its colon.
    pub fn name(&mut self, name: Name) -> Outcome<u32> {
        let text = self.normalizer.names.text(name);
        if let Some(known) = self.terminals.names.get(text) {
            return Ok(*known);
        }
        let number = self.terminals.add(&self.common.names.name(text));
        self.terminals.names.insert(Arc::clone(text), number);
        Ok(number)
    }

    /// Return the terminal, with the colon, of a class of keys that excludes the names.
    pub fn key(&mut self, strings: &[Rc<StringSet>], names: &[Name]) -> Outcome<u32> {
        let are_any = matches!(strings, [only] if only.is_any());
        if are_any && names.is_empty() {
            return Ok(Token::AnyName as u32);
        }
        let mut key = (strings.to_vec(), names.to_vec());
        if are_any {
            // Branches may have the same names in different orders; sorted, they share the terminal of all other keys.
            key.1.sort_unstable();
        }
        if let Some(known) = self.keys.get(&key) {
            return Ok(*known);
        }
        let leaves = self.normalizer.leaves;
        let others = self.other_than(names);
        let mut bodies = Vec::with_capacity(strings.len());
        for each in strings {
            let kept = leaves.meet_strings(each, &others)?;
            bodies.extend(kept.map(|strings| leaves.string_body(&strings)));
        }
        let body = match bodies.len() {
            1 => bodies.remove(0),
            _ => regex::Node::choice(bodies),
        };
        let number = self.terminals.add(&self.common.names.names(body));
        self.keys.insert(key, number);
        Ok(number)
    }
}

/// Return the scalars of a shape as bits, if they are all values of some types.
fn types_of(shape: &Shape) -> Option<u8> {
    let number = match &shape.numbers[..] {
        [] => 0,
        [all] if all.is_any() => 1,
        [whole] if whole.is_any_integer() => 2,
        _ => return None,
    };
    let string = match &shape.strings[..] {
        [] => 0,
        [all] if all.is_any() => 1,
        _ => return None,
    };
    Some(number | string << 2 | shape.booleans << 3 | u8::from(shape.null) << 5)
}

/// Return the title of one of several alternatives, or of the only one.
fn titled(title: &Rc<str>, several: bool, kind: &str, index: u32) -> Rc<str> {
    match several {
        true => format!("{title}: {kind} {index}").into(),
        false => Rc::clone(title),
    }
}

/// Append the rules of any value to other rules.
fn add_any_rules(bodies: &mut Vec<Node>, titles: &mut Vec<Rc<str>>) {
    let first = bodies.len() as u32;
    for body in bodies.iter_mut() {
        place_any(body, first, 0);
    }
    for mut body in any_rules() {
        place_any(&mut body, first, first);
        bodies.push(body);
    }
    titles.extend(ANY_NAMES.map(Rc::from));
}

/// Replace references to any value by the rule `first`, and shift the numbers of other rules by `by`.
fn place_any(node: &mut Node, first: u32, by: u32) {
    match node {
        Node::Any => *node = Node::Rule(first),
        Node::Rule(rule) => *rule += by,
        Node::Sequence(items) | Node::Choice(items) => items.iter_mut().for_each(|item| place_any(item, first, by)),
        Node::Repeat(item, ..) => place_any(item, first, by),
        Node::Members(members) => {
            let ways = members.members.iter_mut().flat_map(|member| &mut member.ways);
            ways.for_each(|way| place_any(&mut way.item, first, by));
        }
        Node::Terminal(_) => {}
    }
}
