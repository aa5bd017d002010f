//! A grammar as a network of positions: what may come at a place, and which place is next.
//!
//! Choices and repeats are edges of the network, so that only calls of rules need a frame on the stack.

use std::sync::Arc;

use crate::decode::{Item, Source};
use crate::derive::Derivatives;
use crate::hash::FastMap;
use crate::lexicon::Lexicon;
use crate::limits::{Fault, Limit, Limits, Meter, Outcome};
use crate::members::Members;
use crate::term::{Term, Terms, EMPTY, UNBOUNDED};

/// A place in a rule's body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The rule is complete.
    End,
    /// A terminal; `nullable` says whether it may be empty.
    Terminal {
        term: Term,
        nullable: bool,
        next: u32,
    },
    Token {
        token: u32,
        next: u32,
    },
    Call {
        rule: u32,
        next: u32,
    },
    /// Behind a region with a budget: nothing comes here.
    Cut {
        next: u32,
    },
    /// Any of these places.
    Split(Box<[u32]>),
    /// The ways of the next member, of the list with this number.
    Choose(u32),
    /// The first terminal of a distinct member, which does not match what begins with a value that has come.
    Distinct {
        term: Term,
        next: u32,
    },
    /// That terminal is complete.
    Value {
        next: u32,
        /// See `Derivatives::strings_are_free`.
        is_free: bool,
    },
    /// A member has come in a way.
    Came {
        members: u32,
        way: u32,
    },
}

impl Position {
    /// The places that come next in the same body.
    pub fn following(&self) -> &[u32] {
        match self {
            Position::Terminal { next, .. }
            | Position::Token { next, .. }
            | Position::Call { next, .. }
            | Position::Cut { next }
            | Position::Distinct { next, .. }
            | Position::Value { next, .. } => std::slice::from_ref(next),
            Position::Split(places) => places,
            Position::End | Position::Choose(_) | Position::Came { .. } => &[],
        }
    }
}

/// The position at which every rule ends.
pub const END: u32 = 0;

#[derive(Clone)]
pub struct Rule {
    pub start: u32,
    pub nullable: bool,
    /// The list of members that it is, if it is one: its frames remember what has come.
    pub members: Option<u32>,
    /// How many tokens may begin in it, where that is limited.
    pub budget: Option<u32>,
}

impl Rule {
    /// Whether it begins at a position and is neither a list of members nor limited in its tokens.
    pub fn is_plain_from(&self, start: u32) -> bool {
        self.start == start && self.members.is_none() && self.budget.is_none()
    }
}

pub struct Network {
    positions: Vec<Position>,
    pub rules: Vec<Rule>,
    pub members: Arc<[Members]>,
    pub start: u32,
}

impl Network {
    /// Lower a grammar; what can never be completed is left out.
    pub fn new(source: Source, derivatives: &mut Derivatives, limits: &Limits, meter: &mut Meter) -> Outcome<Self> {
        let start = source.start as usize;
        let mut known = FastMap::default();
        known.reserve(source.items.len());
        let mut positions = Vec::with_capacity(source.items.len());
        positions.push(Position::End);
        let mut builder = Builder {
            items: source.items,
            bodies: source.bodies,
            members: source.members,
            limits,
            meter,
            derivatives,
            positions,
            known,
            tasks: Vec::new(),
            helpers: FastMap::default(),
            entries: FastMap::default(),
            in_order: Vec::new(),
        };
        let mut starts = Vec::new();
        while let Some(&body) = builder.bodies.get(starts.len()) {
            starts.push(builder.body(body)?);
        }
        // The whole text is not called by a rule, but a list of members, or a region with a budget, needs one.
        let first = match builder.items[builder.bodies[start] as usize] {
            Item::Members { .. } | Item::Region { .. } => builder.call(source.start, END)?,
            _ => starts[start],
        };
        for (rule, entry) in &builder.entries {
            builder.positions[*entry as usize] = Position::Split([starts[*rule as usize]].into());
        }
        let kind_of = |body: &u32| match builder.items[*body as usize] {
            Item::Members { number, .. } => (Some(number), None),
            Item::Region { budget, .. } => (None, Some(budget)),
            _ => (None, None),
        };
        let kinds: Vec<(Option<u32>, Option<u32>)> = builder.bodies.iter().map(kind_of).collect();
        let (mut positions, mut members, meter) = (builder.positions, builder.members, builder.meter);
        let (items, terms) = (builder.items, &builder.derivatives.terms);
        meter.work(4 * positions.len())?;
        let spread = Spread::new(&positions, &starts);
        let (productive, _) = spread.solve(&positions, &mut members, meter, |position| match position {
            Position::End | Position::Came { .. } => Some(0),
            Position::Call { .. } => Some(2),
            Position::Choose(_) => None,
            _ => Some(1),
        })?;
        if !productive[starts[start] as usize] {
            return Err(Fault::EmptyLanguage);
        }
        for position in &mut positions {
            if let Position::Split(next) = position {
                if !next.iter().all(|place| productive[*place as usize]) {
                    let kept = next.iter().copied().filter(|place| productive[*place as usize]);
                    *next = kept.collect();
                }
            }
        }
        // What was left out is not nullable, so that it makes no difference that `spread` has it.
        let (nullable, nullable_rules) = spread.solve(&positions, &mut [], meter, |position| match position {
            Position::End | Position::Came { .. } => Some(0),
            Position::Call { .. } => Some(2),
            Position::Terminal { nullable: true, .. } | Position::Split(_) | Position::Cut { .. } => Some(1),
            _ => None,
        })?;
        let mut ways = members.iter().flat_map(|list| &list.starts);
        let empty = nullable_items(&items, &nullable_rules, terms);
        let mut in_order = builder.in_order.iter();
        if ways.any(|start| nullable[*start as usize]) || in_order.any(|item| empty[*item as usize]) {
            return Err(Fault::EmptyMember);
        }
        let rules = starts.into_iter().zip(nullable_rules).zip(kinds);
        let rules = rules.map(|((start, nullable), (members, budget))| Rule {
            start,
            nullable,
            members,
            budget,
        });
        Ok(Network {
            start: first,
            rules: rules.collect(),
            members: members.into(),
            positions,
        })
    }

    /// The same network with its terms copied from an older lexicon.
    pub fn with_terms(&self, lexicon: &Lexicon, older: &Lexicon, meter: &mut Meter) -> Outcome<Self> {
        let mut positions = self.positions.clone();
        let mut places: Vec<&mut Term> = positions
            .iter_mut()
            .filter_map(|position| match position {
                Position::Terminal { term, .. } | Position::Distinct { term, .. } => Some(term),
                _ => None,
            })
            .collect();
        let terms: Vec<Term> = places.iter().map(|term| **term).collect();
        let copied = lexicon.copy(&terms, older, meter)?;
        places.iter_mut().zip(copied).for_each(|(place, term)| **place = term);
        Ok(Network {
            positions,
            rules: self.rules.clone(),
            members: self.members.clone(),
            start: self.start,
        })
    }

    #[inline]
    pub fn position(&self, position: u32) -> &Position {
        &self.positions[position as usize]
    }

    /// Whether the terminal before a position is one of whose text a frame keeps what is written.
    #[inline]
    pub fn keeps_text(&self, next: u32) -> bool {
        matches!(self.position(next), Position::Value { .. })
    }

    /// Whether that text is mostly that of a string which can go on whatever values have come.
    pub fn is_free(&self, next: u32) -> bool {
        matches!(self.position(next), Position::Value { is_free: true, .. })
    }

    /// Whether there are regions with budgets.
    pub fn has_regions(&self) -> bool {
        self.rules.iter().any(|rule| rule.budget.is_some())
    }

    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether each position can be come to.
    pub fn reachable(&self) -> Vec<bool> {
        self.reachable_from(vec![self.start])
    }

    /// The same from other positions.
    pub fn reachable_from(&self, mut waiting: Vec<u32>) -> Vec<bool> {
        let mut reachable = vec![false; self.positions.len()];
        while let Some(index) = waiting.pop() {
            if std::mem::replace(&mut reachable[index as usize], true) {
                continue;
            }
            let position = self.position(index);
            waiting.extend(position.following());
            match position {
                Position::Call { rule, .. } => waiting.push(self.rules[*rule as usize].start),
                Position::Choose(list) => {
                    let list = &self.members[*list as usize];
                    waiting.extend(list.starts.iter().chain([&list.separator]));
                }
                _ => {}
            }
        }
        reachable
    }

    /// The terms of the terminals; some may be there twice.
    pub fn terms(&self) -> impl Iterator<Item = Term> + '_ {
        self.positions.iter().filter_map(|position| match position {
            Position::Terminal { term, .. } | Position::Distinct { term, .. } => Some(*term),
            _ => None,
        })
    }

    /// How many different terminals there are, at least.
    pub fn terminals(&self) -> usize {
        self.terms().count()
    }

    /// An estimate of the bytes that the network takes.
    pub fn bytes(&self) -> usize {
        let list = |position: &Position| match position {
            Position::Split(next) => 4 * next.len(),
            _ => 0,
        };
        let positions = self
            .positions
            .iter()
            .map(|position| std::mem::size_of::<Position>() + list(position));
        let members: usize = self.members.iter().map(Members::bytes).sum();
        positions.sum::<usize>() + std::mem::size_of::<Rule>() * self.rules.len() + members
    }
}

/// Lists of numbers, one for each of some places, in one piece of memory.
struct Lists {
    /// The newest entry of each list, or `NO_ENTRY`.
    newest: Vec<u32>,
    /// Numbers, each with the entry before it in its list.
    entries: Vec<(u32, u32)>,
}

const NO_ENTRY: u32 = u32::MAX;

impl Lists {
    fn new(count: usize, entries: usize) -> Self {
        Lists {
            newest: vec![NO_ENTRY; count],
            entries: Vec::with_capacity(entries),
        }
    }

    fn add(&mut self, list: u32, number: u32) {
        let newest = std::mem::replace(&mut self.newest[list as usize], self.entries.len() as u32);
        self.entries.push((number, newest));
    }

    fn of(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        let entry = |entry: u32| self.entries.get(entry as usize);
        let newest = entry(self.newest[list as usize]);
        std::iter::successors(newest, move |(_, earlier)| entry(*earlier)).map(|(number, _)| *number)
    }
}

/// How what holds of positions spreads: to those before them, and from rules to their callers.
struct Spread {
    before: Lists,
    callers: Lists,
    /// The rules that begin at a position.
    rules_at: Lists,
}

impl Spread {
    fn new(positions: &[Position], starts: &[u32]) -> Self {
        let mut spread = Spread {
            before: Lists::new(positions.len(), positions.len()),
            callers: Lists::new(starts.len(), 0),
            rules_at: Lists::new(positions.len(), starts.len()),
        };
        for (index, position) in (0..).zip(positions) {
            for place in position.following() {
                spread.before.add(*place, index);
            }
            if let Position::Call { rule, .. } = position {
                spread.callers.add(*rule, index);
            }
        }
        for (rule, start) in (0..).zip(starts) {
            spread.rules_at.add(*start, rule);
        }
        spread
    }

    /// The positions and rules of which something holds: `needs` says how many conditions a position has (None: it never
    /// holds) out of: one of its next places holds; the rule that it calls holds. A rule holds with its start. Lists of
    /// `members` hold once the ways that hold can complete them.
    fn solve(
        &self,
        positions: &[Position],
        members: &mut [Members],
        meter: &mut Meter,
        needs: impl Fn(&Position) -> Option<u8>,
    ) -> Outcome<(Vec<bool>, Vec<bool>)> {
        let mut missing: Vec<u8> = Vec::with_capacity(positions.len());
        let mut holds = vec![false; positions.len()];
        let mut rule_holds = vec![false; self.callers.newest.len()];
        let mut queue: Vec<u32> = Vec::new();
        // The ways that begin at positions: where they are chosen, the list and the way.
        let mut ways_at: FastMap<u32, (u32, u32, u32)> = FastMap::default();
        for (index, position) in (0..).zip(positions) {
            if let Position::Choose(list) = position {
                let starts = members.get(*list as usize).map_or(&[][..], |list| &list.starts);
                ways_at.extend((0..).zip(starts).map(|(way, start)| (*start, (index, *list, way))));
            }
            let need = needs(position);
            missing.push(need.unwrap_or(u8::MAX));
            if need == Some(0) {
                queue.push(index);
            }
        }
        while let Some(index) = queue.pop() {
            if std::mem::replace(&mut holds[index as usize], true) {
                continue;
            }
            if let Some(&(place, list, way)) = ways_at.get(&index) {
                if members[list as usize].revive(way, meter)? {
                    queue.push(place);
                }
            }
            let rules = self.rules_at.of(index);
            let callers = rules.flat_map(|rule| {
                rule_holds[rule as usize] = true;
                self.callers.of(rule)
            });
            for place in self.before.of(index).chain(callers) {
                let left = &mut missing[place as usize];
                if *left != u8::MAX {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        queue.push(place);
                    }
                }
            }
        }
        Ok((holds, rule_holds))
    }
}

struct Builder<'a, 'm> {
    items: Vec<Item>,
    /// The items of the rules' bodies, and of helper rules that stand for the items of counted repeats.
    bodies: Vec<u32>,
    members: Vec<Members>,
    limits: &'a Limits,
    meter: &'a mut Meter<'m>,
    derivatives: &'a mut Derivatives,
    positions: Vec<Position>,
    known: FastMap<Position, u32>,
    /// What is left of the item that is being built.
    tasks: Vec<Task>,
    helpers: FastMap<u32, u32>,
    /// Where rules begin that are called in last place, by rule.
    entries: FastMap<u32, u32>,
    /// The items of members in order.
    in_order: Vec<u32>,
}

/// What is left to build. Bodies are built from their end: each task turns the place after it into the place before.
enum Task {
    Item(u32),
    /// Alternatives: those from `index` on are to be built in front of `next`.
    Choice {
        item: u32,
        index: usize,
        next: u32,
        built: Vec<u32>,
    },
    /// The body of an unbounded repeat is built: close the circle at `start`.
    Loop {
        start: u32,
        next: u32,
        minimum: u32,
    },
    /// What follows round number `rounds` of a bounded repeat is built, but for the way out of it.
    Rounds {
        item: u32,
        rounds: u32,
        minimum: u32,
        next: u32,
    },
    /// Of members in order the one at `index` is built. If it is repeated, `round` is where it or a further one may come.
    Member {
        item: u32,
        index: usize,
        round: Option<u32>,
        rest: Rest,
    },
}

/// What may come after a member: further ones from `further` on, or `next` if none of them is required.
#[derive(Clone, Copy)]
struct Rest {
    further: Option<u32>,
    may_end: bool,
    next: u32,
}

impl Builder<'_, '_> {
    fn body(&mut self, body: u32) -> Outcome<u32> {
        match self.items[body as usize] {
            Item::Members {
                number,
                separator,
                ref ways,
            } => {
                let ways = ways.clone();
                self.list_of_members(number, separator, &ways)
            }
            Item::Region { item, .. } => self.before(item, END),
            _ => self.before(body, END),
        }
    }

    /// Where a list of members begins, which is a rule of its own.
    fn list_of_members(&mut self, number: u32, separator: Term, ways: &[u32]) -> Outcome<u32> {
        let choose = self.new_place(Position::Choose(number))?;
        let mut values = Vec::new();
        for (way, item) in (0..).zip(ways) {
            let came = self.new_place(Position::Came { members: number, way })?;
            let members = &self.members[number as usize];
            let start = match members.members[members.ways[way as usize].member as usize].distinct {
                true => self.distinct(*item, came, &mut values)?,
                false => self.before(*item, came)?,
            };
            self.members[number as usize].starts.push(start);
        }
        let members = &mut self.members[number as usize];
        if !values.is_empty() {
            members.values = self.derivatives.count_values(&values, members.minimum, self.meter)?;
        }
        if self.derivatives.live(separator, self.meter)? {
            self.members[number as usize].separator = self.terminal(separator, choose)?;
        } else {
            self.members[number as usize].maximum = 1;
        }
        Ok(choose)
    }

    /// Where a way of a distinct member begins: with a terminal, which is added to `values`.
    fn distinct(&mut self, mut item: u32, next: u32, values: &mut Vec<Term>) -> Outcome<u32> {
        let mut rest = next;
        while let Item::Sequence(items) = &self.items[item as usize] {
            let (first, others) = items.split_first().ok_or(Fault::Malformed)?;
            item = *first;
            let others: Vec<u32> = others.iter().rev().copied().collect();
            for other in others {
                rest = self.before(other, rest)?;
            }
        }
        let Item::Terminal { term, .. } = self.items[item as usize] else {
            return Err(Fault::Malformed);
        };
        if !self.derivatives.live(term, self.meter)? {
            return self.split(Vec::new());
        }
        if self.derivatives.terms.nullable(term) {
            return Err(Fault::EmptyMember);
        }
        values.push(term);
        let is_free = self.derivatives.strings_are_free(term, self.meter)?;
        let next = self.place(Position::Value { next: rest, is_free })?;
        self.place(Position::Distinct { term, next })
    }

    /// Where an item begins that stands before `next`.
    fn before(&mut self, item: u32, next: u32) -> Outcome<u32> {
        let mut tasks = std::mem::take(&mut self.tasks);
        tasks.push(Task::Item(item));
        let mut place = next;
        while let Some(task) = tasks.pop() {
            self.meter.work(1)?;
            place = self.perform(task, place, &mut tasks)?;
        }
        self.tasks = tasks;
        Ok(place)
    }

    fn perform(&mut self, task: Task, place: u32, tasks: &mut Vec<Task>) -> Outcome<u32> {
        match task {
            Task::Item(item) => self.item(item, place, tasks),
            Task::Choice {
                item,
                index,
                next,
                mut built,
            } => {
                if index > 0 {
                    built.push(place);
                }
                let alternative = match &self.items[item as usize] {
                    Item::Choice(items) => items.get(index).copied(),
                    _ => None,
                };
                let Some(alternative) = alternative else {
                    return self.split(built);
                };
                tasks.push(Task::Choice {
                    item,
                    index: index + 1,
                    next,
                    built,
                });
                tasks.push(Task::Item(alternative));
                Ok(next)
            }
            Task::Loop { start, next, minimum } => {
                self.positions[start as usize] = Position::Split([place, next].into());
                Ok(if minimum == 0 { start } else { place })
            }
            Task::Rounds {
                item,
                rounds,
                minimum,
                next,
            } => {
                let after = if rounds >= minimum {
                    self.split(vec![place, next])?
                } else {
                    place
                };
                if rounds > 0 {
                    tasks.push(Task::Rounds {
                        item,
                        rounds: rounds - 1,
                        minimum,
                        next,
                    });
                    tasks.push(Task::Item(item));
                }
                Ok(after)
            }
            Task::Member {
                item,
                index,
                round,
                mut rest,
            } => {
                let Item::InOrder { ref members, .. } = self.items[item as usize] else {
                    return Err(Fault::Malformed);
                };
                let mut places = vec![place];
                if members[index].required {
                    rest.may_end = false;
                } else {
                    places.extend(rest.further);
                }
                rest.further = match round {
                    Some(round) => {
                        self.positions[round as usize] = Position::Split(places.into());
                        Some(round)
                    }
                    None => Some(self.split(places)?),
                };
                self.member(item, index, rest, tasks)
            }
        }
    }

    /// Build members in order, of which those from `count` on are built.
    fn member(&mut self, item: u32, count: usize, rest: Rest, tasks: &mut Vec<Task>) -> Outcome<u32> {
        let Item::InOrder { separator, ref members } = self.items[item as usize] else {
            return Err(Fault::Malformed);
        };
        let Some(index) = count.checked_sub(1) else {
            return rest.further.map_or_else(|| self.split(Vec::new()), Ok);
        };
        let member = members[index];
        self.in_order.push(member.item);
        let round = match member.repeated {
            true => Some(self.new_place(Position::Split(Box::default()))?),
            false => None,
        };
        let mut places = Vec::new();
        if rest.may_end {
            places.push(rest.next);
        }
        if let Some(further) = round.or(rest.further) {
            places.push(self.terminal(separator, further)?);
        }
        tasks.push(Task::Member {
            item,
            index,
            round,
            rest,
        });
        tasks.push(Task::Item(member.item));
        self.split(places)
    }

    fn item(&mut self, item: u32, next: u32, tasks: &mut Vec<Task>) -> Outcome<u32> {
        match self.items[item as usize] {
            Item::Terminal { term, .. } => return self.terminal(term, next),
            Item::Token(token) => return self.place(Position::Token { token, next }),
            Item::Reference(rule) => return self.call(rule, next),
            Item::Members { .. } | Item::Region { .. } => {
                let helper = self.helper(item);
                tasks.push(Task::Item(helper));
            }
            Item::Sequence(ref items) => tasks.extend(items.iter().map(|item| Task::Item(*item))),
            Item::Choice(_) => tasks.push(Task::Choice {
                item,
                index: 0,
                next,
                built: Vec::new(),
            }),
            Item::InOrder { ref members, .. } => {
                let rest = Rest {
                    further: None,
                    may_end: true,
                    next,
                };
                return self.member(item, members.len(), rest, tasks);
            }
            Item::Repeat {
                item,
                minimum,
                maximum: UNBOUNDED,
            } => {
                let item = if minimum > 1 { self.helper(item) } else { item };
                let start = self.new_place(Position::Split(Box::default()))?;
                self.meter.work(minimum as usize)?;
                tasks.extend((1..minimum).map(|_| Task::Item(item)));
                tasks.push(Task::Loop { start, next, minimum });
                tasks.push(Task::Item(item));
                return Ok(start);
            }
            Item::Repeat { item, minimum, maximum } => {
                let item = if maximum > 1 { self.helper(item) } else { item };
                tasks.push(Task::Rounds {
                    item,
                    rounds: maximum,
                    minimum,
                    next,
                });
            }
        }
        Ok(next)
    }

    /// An item that stands for `item` and takes one position wherever it is repeated.
    fn helper(&mut self, item: u32) -> u32 {
        if matches!(
            self.items[item as usize],
            Item::Terminal { .. } | Item::Token(_) | Item::Reference(_)
        ) {
            return item;
        }
        if let Some(&helper) = self.helpers.get(&item) {
            return helper;
        }
        let helper = self.items.len() as u32;
        self.items.push(Item::Reference(self.bodies.len() as u32));
        self.bodies.push(item);
        self.helpers.insert(item, helper);
        helper
    }

    fn terminal(&mut self, term: Term, next: u32) -> Outcome<u32> {
        if term == EMPTY {
            return Ok(next);
        }
        if !self.derivatives.live(term, self.meter)? {
            return self.split(Vec::new());
        }
        let nullable = self.derivatives.terms.nullable(term);
        self.place(Position::Terminal { term, nullable, next })
    }

    /// A rule that is one terminal is put in place of its calls.
    fn call(&mut self, rule: u32, next: u32) -> Outcome<u32> {
        match self.items[self.bodies[rule as usize] as usize] {
            Item::Terminal { term, .. } => self.terminal(term, next),
            // Lists of members need a frame for what has come, regions for their deadlines.
            Item::Members { .. } => self.place(Position::Call { rule, next }),
            Item::Region { .. } => {
                let next = self.place(Position::Cut { next })?;
                self.place(Position::Call { rule, next })
            }
            _ if next == END => self.entry(rule),
            _ => self.place(Position::Call { rule, next }),
        }
    }

    /// Where a rule begins that is called in last place: there is nothing to come back to, so that it needs no frame.
    fn entry(&mut self, rule: u32) -> Outcome<u32> {
        if let Some(&entry) = self.entries.get(&rule) {
            return Ok(entry);
        }
        let entry = self.new_place(Position::Split(Box::default()))?;
        self.entries.insert(rule, entry);
        Ok(entry)
    }

    fn split(&mut self, mut places: Vec<u32>) -> Outcome<u32> {
        self.meter.work(places.len())?;
        places.sort_unstable();
        places.dedup();
        match places[..] {
            [only] => Ok(only),
            _ => self.place(Position::Split(places.into())),
        }
    }

    fn place(&mut self, position: Position) -> Outcome<u32> {
        if let Some(&place) = self.known.get(&position) {
            return Ok(place);
        }
        let place = self.new_place(position.clone())?;
        self.known.insert(position, place);
        Ok(place)
    }

    fn new_place(&mut self, position: Position) -> Outcome<u32> {
        if self.positions.len() as u64 > self.limits.nodes {
            return Err(Fault::Limit(Limit::Nodes));
        }
        self.positions.push(position);
        Ok(self.positions.len() as u32 - 1)
    }
}

/// Of each item whether it may be empty, given which rules may.
fn nullable_items(items: &[Item], rules: &[bool], terms: &Terms) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(items.len());
    for item in items {
        found.push(match item {
            Item::Terminal { term, .. } => terms.nullable(*term),
            Item::Sequence(parts) => parts.iter().all(|part| found[*part as usize]),
            Item::Choice(parts) => parts.iter().any(|part| found[*part as usize]),
            Item::Repeat { item, minimum, .. } => *minimum == 0 || found[*item as usize],
            Item::Region { item, .. } => found[*item as usize],
            Item::Reference(rule) => rules[*rule as usize],
            Item::Token(_) | Item::Members { .. } | Item::InOrder { .. } => false,
        });
    }
    found
}
