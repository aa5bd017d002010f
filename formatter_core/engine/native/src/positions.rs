//! The bodies of rules as positions, in the order of preference: what the parser follows.
//!
//! A repeat whose rounds may be empty, or are counted, becomes a rule of its own, and so do its rounds: the count then
//! belongs to one call.

use crate::derive::Derivatives;
use crate::hash::FastMap;
use crate::limits::{Fault, Limit, Limits, Meter, Outcome};
use crate::term::{Term, UNBOUNDED};
use crate::written::{Node, Written};

/// A place in a rule's body.
pub enum Position {
    /// The rule is complete.
    End,
    /// The node of a terminal.
    Terminal {
        node: u32,
        nullable: bool,
        next: u32,
    },
    Token {
        token: u32,
        next: u32,
    },
    /// A rule, and where to go on after it.
    Call {
        rule: u32,
        next: u32,
    },
    /// The beginning of a rule that is called in last place: there is nothing to come back to.
    Jump(u32),
    /// Any of these places, the preferred one first.
    Split(Box<[u32]>),
    Open {
        name: u32,
        next: u32,
    },
    Close {
        next: u32,
    },
    /// Rounds of a rule, of which the item that stands here has a count; then the rule that stands for them is complete.
    Rounds {
        rule: u32,
        minimum: u32,
        maximum: u32,
        greedy: bool,
    },
}

/// The position at which every rule ends.
pub const END: u32 = 0;

pub struct Rule {
    pub start: u32,
    pub nullable: bool,
    /// Whether a parse of it may hold captures.
    pub captures: bool,
    /// Whether a derivation of itself, over the same text, may stand in it or around it.
    pub cyclic: bool,
    /// Whether it is a rule of the grammar, and not one that stands for a part of one.
    pub named: bool,
    /// Where its end stands in the order in which a column is worked out, see `Plan::ranks`.
    pub end_rank: u32,
}

pub struct Plan {
    pub positions: Vec<Position>,
    pub rules: Vec<Rule>,
    /// For each position: in a column, what leads to it without a byte mostly has a lower one.
    pub ranks: Vec<u32>,
}

/// The rule that derives the whole text: a call of the grammar's own start.
pub const START: u32 = 0;

impl Plan {
    pub fn new(written: &Written, derivatives: &mut Derivatives, limits: &Limits, meter: &mut Meter) -> Outcome<Self> {
        let facts = Facts::of(written, derivatives, meter)?;
        if !facts.productive[written.rules[written.start as usize] as usize] {
            return Err(Fault::EmptyLanguage);
        }
        let mut builder = Builder {
            written,
            facts: &facts,
            limits,
            meter,
            positions: vec![Position::End],
            owners: vec![START],
            sources: Vec::new(),
            known: FastMap::default(),
        };
        builder.rule(Origin::Start);
        let mut starts = Vec::new();
        while let Some(&source) = builder.sources.get(starts.len()) {
            let rule = starts.len() as u32;
            starts.push(builder.body(source, rule)?);
        }
        let (positions, owners, sources) = (builder.positions, builder.owners, builder.sources);
        let rules: Vec<Rule> = starts
            .iter()
            .zip(&sources)
            .map(|(start, source)| {
                let node = source.node(written) as usize;
                Rule {
                    start: *start,
                    nullable: facts.nullable[node],
                    captures: facts.captures[node],
                    cyclic: facts.cyclic[node] && *source != Origin::Start,
                    named: matches!(source, Origin::Rule(_)),
                    end_rank: 0,
                }
            })
            .collect();
        let mut plan = Plan {
            ranks: Vec::new(),
            positions,
            rules,
        };
        plan.rank(&owners, meter)?;
        Ok(plan)
    }

    pub fn position(&self, position: u32) -> &Position {
        &self.positions[position as usize]
    }

    /// Number positions and the ends of rules so that what follows without a byte comes later, as far as there is such
    /// an order.
    fn rank(&mut self, owners: &[u32], meter: &mut Meter) -> Outcome<()> {
        let count = self.positions.len();
        let end_of = |rule: u32| count + rule as usize;
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); count + self.rules.len()];
        meter.work(4 * after.len())?;
        for (number, position) in self.positions.iter().enumerate().skip(1) {
            let owner = owners[number];
            let place = |next: u32| if next == END { end_of(owner) } else { next as usize };
            match position {
                Position::End => {}
                Position::Terminal { nullable, next, .. } => {
                    if *nullable {
                        after[number].push(place(*next));
                    }
                }
                Position::Token { .. } => {}
                Position::Call { rule, next } => {
                    after[number].push(self.rules[*rule as usize].start as usize);
                    after[number].push(place(*next));
                    after[end_of(*rule)].push(place(*next));
                }
                Position::Jump(rule) => {
                    after[number].push(self.rules[*rule as usize].start as usize);
                    after[end_of(*rule)].push(end_of(owner));
                }
                Position::Split(places) => after[number].extend(places.iter().map(|next| place(*next))),
                Position::Open { next, .. } | Position::Close { next } => after[number].push(place(*next)),
                Position::Rounds { rule, .. } => {
                    after[number].push(end_of(owner));
                    after[end_of(*rule)].push(number);
                }
            }
        }
        // A walk in depth: what is finished last comes first.
        let mut ranks = vec![u32::MAX; after.len()];
        let mut seen = vec![false; after.len()];
        let mut next = after.len() as u32;
        for root in 0..after.len() {
            let mut stack = vec![(root, 0)];
            while let Some((place, index)) = stack.pop() {
                if index == 0 && std::mem::replace(&mut seen[place], true) {
                    continue;
                }
                meter.work(1)?;
                match after[place].get(index) {
                    Some(&following) => stack.extend([(place, index + 1), (following, 0)]),
                    None => {
                        next -= 1;
                        ranks[place] = next;
                    }
                }
            }
        }
        for (rule, rank) in self.rules.iter_mut().zip(ranks.split_off(count)) {
            rule.end_rank = rank;
        }
        self.ranks = ranks;
        Ok(())
    }
}

/// What is known of nodes before any text is read.
struct Facts {
    productive: Vec<bool>,
    nullable: Vec<bool>,
    captures: Vec<bool>,
    /// What may derive itself alone, and what stands between such nodes.
    cyclic: Vec<bool>,
    /// The size of what each rule derives, written out: `HUGE` where it is recursive, or calls a rule that is.
    sizes: Vec<u32>,
}

const HUGE: u32 = u32::MAX;
/// Rules up to this size are put in place of their calls: then equal positions after calls of different columns are one.
const SMALL: u32 = 24;

/// When something holds of a node that spreads from those below it.
enum Needs {
    All,
    Any,
    Always,
    Never,
}

impl Facts {
    fn of(written: &Written, derivatives: &mut Derivatives, meter: &mut Meter) -> Outcome<Self> {
        let mut live = vec![false; written.nodes.len()];
        let mut empty = vec![false; written.nodes.len()];
        for (number, node) in written.nodes.iter().enumerate() {
            if node.is_leaf() {
                let term: Term = written.terms[number];
                live[number] = derivatives.live(term, meter)?;
                empty[number] = derivatives.terms.nullable(term);
            }
        }
        let always = |holds: bool| if holds { Needs::Always } else { Needs::Never };
        let productive = solve(written, meter, |number, node| match node {
            Node::Token(_) => Needs::Always,
            Node::Choice(_) => Needs::Any,
            Node::Repeat { minimum: 0, .. } => Needs::Always,
            _ if node.is_leaf() => always(live[number]),
            _ => Needs::All,
        })?;
        let nullable = solve(written, meter, |number, node| match node {
            Node::Token(_) => Needs::Never,
            Node::Choice(_) => Needs::Any,
            Node::Repeat { minimum: 0, .. } => Needs::Always,
            _ if node.is_leaf() => always(empty[number]),
            _ => Needs::All,
        })?;
        let captures = solve(written, meter, |_, node| match node {
            Node::Capture { .. } => Needs::Always,
            _ if node.is_leaf() => Needs::Never,
            _ => Needs::Any,
        })?;
        let mut facts = Facts {
            cyclic: Vec::new(),
            sizes: sizes(written, meter)?,
            productive,
            nullable,
            captures,
        };
        facts.cyclic = facts.find_cyclic(written, meter)?;
        Ok(facts)
    }

    /// Take nodes away that nothing left derives alone, or that derive nothing left alone, until there are none.
    fn find_cyclic(&self, written: &Written, meter: &mut Meter) -> Outcome<Vec<bool>> {
        let count = written.nodes.len();
        let mut after: Vec<Vec<u32>> = Vec::with_capacity(count);
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); count];
        for node in 0..count as u32 {
            let mut alone = self.alone(written, node);
            alone.sort_unstable();
            alone.dedup();
            meter.work(1 + alone.len())?;
            alone.iter().for_each(|other| before[*other as usize].push(node));
            after.push(alone);
        }
        let mut cyclic = vec![true; count];
        let mut left: Vec<(usize, usize)> = (0..count).map(|node| (before[node].len(), after[node].len())).collect();
        let mut loose: Vec<u32> = (0..count as u32)
            .filter(|node| left[*node as usize].0 == 0 || left[*node as usize].1 == 0)
            .collect();
        while let Some(node) = loose.pop() {
            if !std::mem::replace(&mut cyclic[node as usize], false) {
                continue;
            }
            for &other in &after[node as usize] {
                left[other as usize].0 -= 1;
                if left[other as usize].0 == 0 {
                    loose.push(other);
                }
            }
            for &other in &before[node as usize] {
                left[other as usize].1 -= 1;
                if left[other as usize].1 == 0 {
                    loose.push(other);
                }
            }
        }
        Ok(cyclic)
    }

    /// The nodes that may derive all that `node` derives, with nothing beside them.
    fn alone(&self, written: &Written, node: u32) -> Vec<u32> {
        let solid = |item: &&u32| !self.nullable[**item as usize];
        let mut found: Vec<u32> = match &written.nodes[node as usize] {
            Node::Reference(rule) => vec![written.rules[*rule as usize]],
            Node::Choice(items) => items.to_vec(),
            Node::Capture { item, .. } => vec![*item],
            Node::Repeat {
                item, minimum, maximum, ..
            } if *maximum != 0 && (*minimum < 2 || self.nullable[*item as usize]) => vec![*item],
            Node::Sequence(items) => match items.iter().filter(solid).count() {
                0 => items.to_vec(),
                1 => items.iter().filter(solid).copied().collect(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        found.retain(|item| self.productive[*item as usize]);
        found
    }
}

/// The sizes of rules, see `Facts`: from those that call none up, as far as that goes.
fn sizes(written: &Written, meter: &mut Meter) -> Outcome<Vec<u32>> {
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); written.rules.len()];
    let mut missing = vec![0usize; written.rules.len()];
    for (rule, body) in written.rules.iter().enumerate() {
        walk(written, *body, meter, |reference| {
            users[reference as usize].push(rule as u32);
            missing[rule] += 1;
        })?;
    }
    let mut sizes = vec![HUGE; written.rules.len()];
    let mut ready: Vec<u32> = (0..missing.len() as u32)
        .filter(|rule| missing[*rule as usize] == 0)
        .collect();
    while let Some(rule) = ready.pop() {
        let mut inner = 0u32;
        let own = walk(written, written.rules[rule as usize], meter, |reference| {
            inner = inner.saturating_add(sizes[reference as usize]);
        })?;
        sizes[rule as usize] = own.saturating_add(inner).min(HUGE - 1);
        for user in std::mem::take(&mut users[rule as usize]) {
            missing[user as usize] -= 1;
            if missing[user as usize] == 0 {
                ready.push(user);
            }
        }
    }
    Ok(sizes)
}

/// How many nodes there are at and below a node outside of terminals, as a tree; each rule that is referred to is told.
fn walk(written: &Written, node: u32, meter: &mut Meter, mut refers: impl FnMut(u32)) -> Outcome<u32> {
    let mut count = 0u32;
    let mut stack = vec![node];
    while let Some(node) = stack.pop() {
        meter.work(1)?;
        count = count.saturating_add(1);
        match &written.nodes[node as usize] {
            Node::Reference(rule) => refers(*rule),
            leaf if leaf.is_leaf() => {}
            node => stack.extend_from_slice(node.children()),
        }
    }
    Ok(count)
}

/// The nodes of which something holds; a reference is made of its rule.
fn solve(written: &Written, meter: &mut Meter, needs: impl Fn(usize, &Node) -> Needs) -> Outcome<Vec<bool>> {
    let count = written.nodes.len();
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); count];
    let mut missing: Vec<usize> = Vec::with_capacity(count);
    let mut queue: Vec<u32> = Vec::new();
    for (number, node) in written.nodes.iter().enumerate() {
        let below = match node {
            Node::Reference(rule) => std::slice::from_ref(&written.rules[*rule as usize]),
            _ => node.children(),
        };
        meter.work(1 + below.len())?;
        missing.push(match needs(number, node) {
            Needs::Always => 0,
            Needs::Never => usize::MAX,
            Needs::Any => 1,
            Needs::All => below.len(),
        });
        if missing[number] == 0 {
            queue.push(number as u32);
        } else {
            below
                .iter()
                .for_each(|child| users[*child as usize].push(number as u32));
        }
    }
    let mut holds = vec![false; count];
    while let Some(number) = queue.pop() {
        if std::mem::replace(&mut holds[number as usize], true) {
            continue;
        }
        for user in std::mem::take(&mut users[number as usize]) {
            let left = &mut missing[user as usize];
            if *left != usize::MAX && *left > 0 {
                *left -= 1;
                if *left == 0 {
                    queue.push(user);
                }
            }
        }
    }
    Ok(holds)
}

/// What a rule stands for: a node, or the rounds of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    Start,
    /// A rule of the grammar.
    Rule(u32),
    Node(u32),
    Rounds(u32),
}

impl Origin {
    fn node(self, written: &Written) -> u32 {
        match self {
            Origin::Start => written.rules[written.start as usize],
            Origin::Rule(rule) => written.rules[rule as usize],
            Origin::Node(node) | Origin::Rounds(node) => node,
        }
    }
}

struct Builder<'a, 'm> {
    written: &'a Written,
    facts: &'a Facts,
    limits: &'a Limits,
    meter: &'a mut Meter<'m>,
    positions: Vec<Position>,
    /// The rule that each position belongs to.
    owners: Vec<u32>,
    sources: Vec<Origin>,
    known: FastMap<Origin, u32>,
}

/// What is left to build. Bodies are built from their end: each task turns the place after it into the place before.
enum Task {
    Node(u32),
    Open(u32),
    /// Alternatives: those from `index` on are to be built in front of `next`.
    Choice {
        node: u32,
        index: usize,
        next: u32,
        built: Vec<u32>,
    },
    /// What may be left out is built in front of `next`.
    Optional {
        next: u32,
        greedy: bool,
    },
    /// The body of an unbounded repeat is built: close the circle at `start`.
    Loop {
        start: u32,
        next: u32,
        minimum: u32,
        greedy: bool,
    },
}

impl Builder<'_, '_> {
    /// The number of a rule, which is built when it is its turn.
    fn rule(&mut self, origin: Origin) -> u32 {
        let next = self.sources.len() as u32;
        let rule = *self.known.entry(origin).or_insert(next);
        if rule == next {
            self.sources.push(origin);
        }
        rule
    }

    fn body(&mut self, source: Origin, rule: u32) -> Outcome<u32> {
        if source == Origin::Start {
            let start = self.rule(Origin::Rule(self.written.start));
            return self.call(rule, start, END);
        }
        if let Origin::Rounds(node) = source {
            if let Node::Repeat {
                item,
                minimum,
                maximum,
                greedy,
            } = self.written.nodes[node as usize]
            {
                let round = self.rule_of(item);
                return self.place(
                    rule,
                    Position::Rounds {
                        rule: round,
                        minimum,
                        maximum,
                        greedy,
                    },
                );
            }
        }
        let mut tasks = vec![Task::Node(source.node(self.written))];
        let mut place = END;
        while let Some(task) = tasks.pop() {
            self.meter.work(1)?;
            place = self.perform(rule, task, place, &mut tasks)?;
        }
        Ok(place)
    }

    /// The rule that a node is the body of; a reference stands for its rule.
    fn rule_of(&mut self, node: u32) -> u32 {
        match self.written.nodes[node as usize] {
            Node::Reference(rule) => self.rule(Origin::Rule(rule)),
            _ => self.rule(Origin::Node(node)),
        }
    }

    fn perform(&mut self, owner: u32, task: Task, place: u32, tasks: &mut Vec<Task>) -> Outcome<u32> {
        match task {
            Task::Node(node) => self.node(owner, node, place, tasks),
            Task::Open(name) => self.place(owner, Position::Open { name, next: place }),
            Task::Choice {
                node,
                index,
                next,
                mut built,
            } => {
                if index > 0 {
                    built.push(place);
                }
                let Some(alternative) = self.written.nodes[node as usize].children().get(index).copied() else {
                    return self.split(owner, built);
                };
                tasks.push(Task::Choice {
                    node,
                    index: index + 1,
                    next,
                    built,
                });
                tasks.push(Task::Node(alternative));
                Ok(next)
            }
            Task::Optional { next, greedy } => self.split(owner, ordered(place, next, greedy)),
            Task::Loop {
                start,
                next,
                minimum,
                greedy,
            } => {
                self.positions[start as usize] = Position::Split(ordered(place, next, greedy).into());
                Ok(if minimum == 0 { start } else { place })
            }
        }
    }

    fn node(&mut self, owner: u32, node: u32, next: u32, tasks: &mut Vec<Task>) -> Outcome<u32> {
        if !self.facts.productive[node as usize] {
            return self.place(owner, Position::Split(Box::default()));
        }
        match &self.written.nodes[node as usize] {
            leaf if leaf.is_leaf() => {
                let nullable = self.facts.nullable[node as usize];
                return self.place(owner, Position::Terminal { node, nullable, next });
            }
            Node::Token(token) => return self.place(owner, Position::Token { token: *token, next }),
            Node::Reference(rule) if self.facts.sizes[*rule as usize] <= SMALL => {
                tasks.push(Task::Node(self.written.rules[*rule as usize]));
            }
            Node::Reference(_) => {
                let rule = self.rule_of(node);
                return self.call(owner, rule, next);
            }
            Node::Sequence(items) => tasks.extend(items.iter().map(|item| Task::Node(*item))),
            Node::Choice(_) => tasks.push(Task::Choice {
                node,
                index: 0,
                next,
                built: Vec::new(),
            }),
            Node::Capture { name, item } => {
                tasks.extend([Task::Open(*name), Task::Node(*item)]);
                return self.place(owner, Position::Close { next });
            }
            Node::Repeat {
                item,
                minimum,
                maximum,
                greedy,
            } => {
                let (item, greedy) = (*item, *greedy);
                let empty_rounds = self.facts.nullable[item as usize];
                match (*minimum, *maximum) {
                    (_, 0) => {}
                    _ if !self.facts.productive[item as usize] => {}
                    (1, 1) => tasks.push(Task::Node(item)),
                    (0, 1) if !empty_rounds => tasks.extend([Task::Optional { next, greedy }, Task::Node(item)]),
                    (minimum @ (0 | 1), UNBOUNDED) if !empty_rounds => {
                        let start = self.place(owner, Position::Split(Box::default()))?;
                        tasks.push(Task::Loop {
                            start,
                            next,
                            minimum,
                            greedy,
                        });
                        tasks.push(Task::Node(item));
                        return Ok(start);
                    }
                    _ => {
                        let rule = self.rule(Origin::Rounds(node));
                        return self.call(owner, rule, next);
                    }
                }
            }
            _ => return Err(Fault::Malformed),
        }
        Ok(next)
    }

    fn call(&mut self, owner: u32, rule: u32, next: u32) -> Outcome<u32> {
        let source = self.sources[rule as usize];
        // Where a rule may derive itself, it matters which calls are open.
        if next == END && !self.facts.cyclic[source.node(self.written) as usize] {
            return self.place(owner, Position::Jump(rule));
        }
        self.place(owner, Position::Call { rule, next })
    }

    fn split(&mut self, owner: u32, places: Vec<u32>) -> Outcome<u32> {
        self.meter.work(places.len())?;
        match places[..] {
            [only] => Ok(only),
            _ => self.place(owner, Position::Split(places.into())),
        }
    }

    fn place(&mut self, owner: u32, position: Position) -> Outcome<u32> {
        if self.positions.len() as u64 > self.limits.nodes.saturating_mul(2) {
            return Err(Fault::Limit(Limit::Nodes));
        }
        self.positions.push(position);
        self.owners.push(owner);
        Ok(self.positions.len() as u32 - 1)
    }
}

fn ordered(round: u32, next: u32, greedy: bool) -> Vec<u32> {
    if greedy {
        vec![round, next]
    } else {
        vec![next, round]
    }
}
