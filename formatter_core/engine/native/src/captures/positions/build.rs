//! Builds positions from a written grammar, rule by rule, and each body from its end.

use std::sync::OnceLock;

use super::facts::{Facts, INLINED_RULE_SIZE};
use super::{Plan, Position, Rule, END, START};
use crate::base::hash::FastMap;
use crate::base::limits::{Fault, Limit, Limits, Meter, Outcome};
use crate::captures::grammar_tree::{Node, Written};
use crate::grammar::members::{Member, Members, Rest};
use crate::regular::derive::Derivatives;
use crate::regular::term::UNBOUNDED;

impl Plan {
    pub fn new(written: &Written, derivatives: &mut Derivatives, limits: &Limits, meter: &mut Meter) -> Outcome<Self> {
        let mut facts = Facts::of(written, derivatives, meter)?;
        let members = std::mem::take(&mut facts.members);
        if !facts.productive[written.rules[written.start as usize] as usize] {
            return Err(Fault::EmptyLanguage);
        }
        let mut builder = Builder {
            written,
            facts: &facts,
            limits,
            meter,
            positions: vec![Position::End],
            past_marks: vec![END],
            owners: vec![START],
            homes: vec![written.start],
            home: written.start,
            sources: Vec::new(),
            home_of: Vec::new(),
            known: FastMap::default(),
        };
        builder.rule(Origin::Start);
        let mut starts = Vec::new();
        while let Some(&source) = builder.sources.get(starts.len()) {
            let rule = starts.len() as u32;
            builder.home = builder.home_of[starts.len()];
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
            past_marks: builder.past_marks,
            first_bytes: written.nodes.iter().map(|_| OnceLock::new()).collect(),
            homes: builder.homes,
            positions,
            rules,
            members,
        };
        plan.rank(&owners, meter)?;
        Ok(plan)
    }
}

/// The origin of a rule: a node, or the rounds of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    Start,
    /// A rule of the grammar.
    Rule(u32),
    Node(u32),
    Rounds(u32),
    Members(u32),
    /// An alternative of a list of members: the node, the number of the alternative and its item.
    Way(u32, u32, u32),
}

impl Origin {
    fn node(self, written: &Written) -> u32 {
        match self {
            Origin::Start => written.rules[written.start as usize],
            Origin::Rule(rule) => written.rules[rule as usize],
            Origin::Node(node) | Origin::Rounds(node) | Origin::Members(node) | Origin::Way(.., node) => node,
        }
    }
}

struct Builder<'w, 'a, 'm> {
    written: &'w Written,
    facts: &'a Facts,
    limits: &'a Limits,
    meter: &'a mut Meter<'m>,
    positions: Vec<Position>,
    /// The positions after the marks, see `Plan`.
    past_marks: Vec<u32>,
    /// The rule that each position belongs to.
    owners: Vec<u32>,
    /// The rule of the grammar that contains each position; `home` is the one that is being built.
    homes: Vec<u32>,
    home: u32,
    sources: Vec<Origin>,
    /// The rule of the grammar that contains each source; if several contain it, one of them.
    home_of: Vec<u32>,
    known: FastMap<Origin, u32>,
}

/// A task that is still to be done. We build bodies from their end: each task turns the position after it into the
/// position before it.
enum Task {
    Node(u32),
    /// The following tasks belong to this rule of the grammar.
    Home(u32),
    Open(u32),
    /// Alternatives: those from `index` on are still to be built in front of `next`.
    Choice {
        node: u32,
        index: usize,
        next: u32,
        built: Vec<u32>,
    },
    /// An optional item has been built in front of `next`.
    Optional {
        next: u32,
        greedy: bool,
    },
    /// The body of an unbounded repeat has been built: close the loop at `start`.
    Loop {
        start: u32,
        next: u32,
        minimum: u32,
        greedy: bool,
    },
    /// For members in order: an alternative of the member at `index` has been built in front of `after`; `built`
    /// contains the earlier ones. If the member is repeated, `round` is the position before the next round.
    Member {
        node: u32,
        index: usize,
        after: u32,
        built: Vec<u32>,
        round: Option<u32>,
        rest: Rest,
    },
}

impl<'w> Builder<'w, '_, '_> {
    /// Return the number of a rule; the body of a new rule is built later.
    fn rule(&mut self, origin: Origin) -> u32 {
        let next = self.sources.len() as u32;
        let rule = *self.known.entry(origin).or_insert(next);
        if rule == next {
            self.sources.push(origin);
            self.home_of.push(match origin {
                Origin::Rule(own) => own,
                _ => self.home,
            });
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
        if let Origin::Members(node) = source {
            return self.list_of_members(node, rule);
        }
        let mut tasks = vec![Task::Node(source.node(self.written))];
        let mut place = END;
        while let Some(task) = tasks.pop() {
            self.meter.work(1)?;
            place = self.perform(rule, task, place, &mut tasks)?;
        }
        Ok(place)
    }

    fn list_of_members(&mut self, node: u32, owner: u32) -> Outcome<u32> {
        let Node::Members { list, ref items } = self.written.nodes[node as usize] else {
            return Err(Fault::Malformed);
        };
        let first = self.sources.len() as u32;
        for (way, item) in (0..).zip(&items[1..]) {
            self.meter.work(1)?;
            self.rule(Origin::Way(node, way, *item));
        }
        let choose = self.place(owner, Position::Split(Box::default()))?;
        let separator = self.node(owner, items[0], choose, &mut Vec::new())?;
        let next = self.place(owner, Position::Came { list, separator })?;
        self.positions[choose as usize] = Position::Choose { list, first, next };
        Ok(choose)
    }

    /// Return the rule that has a node as its body; for a reference this is the rule that it names.
    fn rule_of(&mut self, node: u32) -> u32 {
        match self.written.nodes[node as usize] {
            Node::Reference(rule) => self.rule(Origin::Rule(rule)),
            _ => self.rule(Origin::Node(node)),
        }
    }

    fn perform(&mut self, owner: u32, task: Task, place: u32, tasks: &mut Vec<Task>) -> Outcome<u32> {
        match task {
            Task::Node(node) => self.node(owner, node, place, tasks),
            Task::Home(rule) => {
                self.home = rule;
                Ok(place)
            }
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
            Task::Member {
                node,
                index,
                after,
                mut built,
                round,
                mut rest,
            } => {
                let (list, items) = self.members_of(node)?;
                let member = &list.members[index];
                built.push(place);
                if let Some(way) = (member.first_way..member.last_way).nth(built.len()) {
                    tasks.push(Task::Member {
                        node,
                        index,
                        after,
                        built,
                        round,
                        rest,
                    });
                    tasks.push(Task::Node(items[1 + way as usize]));
                    return Ok(after);
                }
                built.extend(rest.leave_out(member.required));
                rest.further = match round {
                    Some(round) => {
                        self.positions[round as usize] = Position::Split(built.into());
                        Some(round)
                    }
                    None => Some(self.split(owner, built)?),
                };
                self.member(owner, node, index, rest, tasks)
            }
        }
    }

    fn members_of(&self, node: u32) -> Outcome<(&'w Members, &'w [u32])> {
        match &self.written.nodes[node as usize] {
            Node::Members { list, items } => Ok((&self.written.members[*list as usize], items)),
            _ => Err(Fault::Malformed),
        }
    }

    /// Build members in order, from the last to the first; those from `count` on have been built.
    fn member(&mut self, owner: u32, node: u32, count: usize, rest: Rest, tasks: &mut Vec<Task>) -> Outcome<u32> {
        let (list, items) = self.members_of(node)?;
        // An optional member that has no alternative that can be completed never comes, nor does a separator before it.
        let may_come = |member: &Member| {
            let mut ways = member.first_way..member.last_way;
            member.required || ways.any(|way| self.facts.productive[items[1 + way as usize] as usize])
        };
        let Some(index) = list.members[..count].iter().rposition(may_come) else {
            return rest.further.map_or_else(|| self.split(owner, Vec::new()), Ok);
        };
        let member = &list.members[index];
        let round = match member.repeated {
            true => Some(self.place(owner, Position::Split(Box::default()))?),
            false => None,
        };
        let mut places = Vec::new();
        if let Some(further) = round.or(rest.further) {
            places.push(self.node(owner, items[0], further, &mut Vec::new())?);
        }
        if rest.may_end {
            places.push(rest.next);
        }
        let after = self.split(owner, places)?;
        tasks.push(Task::Member {
            node,
            index,
            after,
            built: Vec::new(),
            round,
            rest,
        });
        if member.first_way == member.last_way {
            return self.split(owner, Vec::new());
        }
        tasks.push(Task::Node(items[1 + member.first_way as usize]));
        Ok(after)
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
            Node::Reference(rule) if self.facts.sizes[*rule as usize] <= INLINED_RULE_SIZE => {
                tasks.extend([Task::Home(self.home), Task::Node(self.written.rules[*rule as usize])]);
                self.home = *rule;
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
                return self.place(owner, Position::Close { name: *name, next });
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
            Node::Members { list, .. } if self.written.members[*list as usize].are_places() => {
                let count = self.written.members[*list as usize].members.len();
                return self.member(owner, node, count, Rest::new(next), tasks);
            }
            Node::Members { .. } => {
                let rule = self.rule(Origin::Members(node));
                return self.call(owner, rule, next);
            }
            _ => return Err(Fault::Malformed),
        }
        Ok(next)
    }

    fn call(&mut self, owner: u32, rule: u32, next: u32) -> Outcome<u32> {
        let source = self.sources[rule as usize];
        // If a rule may derive itself, it matters which calls are open.
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
        self.past_marks.push(match position {
            Position::Open { next, .. } | Position::Close { next, .. } => self.past_marks[next as usize],
            _ => self.positions.len() as u32,
        });
        self.positions.push(position);
        self.owners.push(owner);
        self.homes.push(self.home);
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
