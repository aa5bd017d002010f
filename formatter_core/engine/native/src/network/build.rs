//! Positions made of the items of a grammar, each body from its end.

use super::{Position, END};
use crate::decode::{Item, OneInOrder, Source, Span, FEW};
use crate::derive::Derivatives;
use crate::hash::{hash_of, FastMap};
use crate::limits::{Fault, Limit, Limits, Meter, Outcome};
use crate::members::{Members, Rest};
use crate::term::{Term, EMPTY, UNBOUNDED};

pub struct Builder<'a, 'm> {
    pub items: Vec<Item>,
    pub parts: Vec<u32>,
    ordered: Vec<OneInOrder>,
    /// The items of the rules' bodies, and of helper rules that stand for the items of counted repeats.
    pub bodies: Vec<u32>,
    pub members: Vec<Members>,
    limits: &'a Limits,
    pub meter: &'a mut Meter<'m>,
    pub derivatives: &'a mut Derivatives,
    pub positions: Vec<Position>,
    /// Positions that are made once, by their hashes: of two with the same one, the later is found again.
    known: FastMap<u64, u32>,
    /// What is left of the item that is being built.
    tasks: Vec<Task>,
    /// Memory for the places of one split.
    places: Vec<u32>,
    helpers: FastMap<u32, u32>,
    /// Where rules begin that are called in last place, by rule.
    pub entries: FastMap<u32, u32>,
    /// The items of members in order.
    pub in_order: Vec<u32>,
}

/// What is left to build. Bodies are built from their end: each task turns the place after it into the place before.
enum Task {
    Item(u32),
    /// Alternatives: those from `index` on are to be built in front of `next`.
    Choice {
        items: Span,
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
        separator: Term,
        members: Span,
        index: usize,
        round: Option<u32>,
        rest: Rest,
    },
}

impl<'a, 'm> Builder<'a, 'm> {
    pub fn new(source: Source, derivatives: &'a mut Derivatives, limits: &'a Limits, meter: &'a mut Meter<'m>) -> Self {
        let mut known = FastMap::default();
        known.reserve(source.items.len());
        let mut positions = Vec::with_capacity(source.items.len());
        positions.push(Position::End);
        Builder {
            items: source.items,
            parts: source.parts,
            ordered: source.in_order,
            bodies: source.bodies,
            members: source.members,
            limits,
            meter,
            derivatives,
            positions,
            known,
            tasks: Vec::with_capacity(FEW),
            places: Vec::with_capacity(FEW),
            helpers: FastMap::default(),
            entries: FastMap::default(),
            in_order: Vec::new(),
        }
    }

    pub fn body(&mut self, body: u32) -> Outcome<u32> {
        match self.items[body as usize] {
            Item::Members {
                number,
                separator,
                ways,
            } => self.list_of_members(number, separator, ways),
            Item::Region { item, .. } => self.before(item, END),
            _ => self.before(body, END),
        }
    }

    /// Where a list of members begins, which is a rule of its own.
    fn list_of_members(&mut self, number: u32, separator: Term, ways: Span) -> Outcome<u32> {
        let choose = self.new_place(Position::Choose(number))?;
        let mut values = Vec::new();
        for way in 0..self.members[number as usize].ways.len() as u32 {
            let item = ways.of(&self.parts)[way as usize];
            let came = self.new_place(Position::Came { members: number, way })?;
            let members = &self.members[number as usize];
            let start = match members.members[members.ways[way as usize].member as usize].distinct {
                true => self.distinct(item, came, &mut values)?,
                false => self.before(item, came)?,
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
        while let Item::Sequence(items) = self.items[item as usize] {
            for place in (1..items.of(&self.parts).len()).rev() {
                rest = self.before(items.of(&self.parts)[place], rest)?;
            }
            item = *items.of(&self.parts).first().ok_or(Fault::Malformed)?;
        }
        let Item::Terminal { term, .. } = self.items[item as usize] else {
            return Err(Fault::Malformed);
        };
        if !self.derivatives.live(term, self.meter)? {
            return self.split([]);
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
                items,
                index,
                next,
                mut built,
            } => {
                if index > 0 {
                    built.push(place);
                }
                let Some(&alternative) = items.of(&self.parts).get(index) else {
                    return self.split(built);
                };
                tasks.push(Task::Choice {
                    items,
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
                    self.split([place, next])?
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
                separator,
                members,
                index,
                round,
                mut rest,
            } => {
                let further = rest.leave_out(members.of(&self.ordered)[index].required);
                let places = [place].into_iter().chain(further);
                rest.further = match round {
                    Some(round) => {
                        self.positions[round as usize] = Position::Split(places.collect());
                        Some(round)
                    }
                    None => Some(self.split(places)?),
                };
                self.member(separator, members, index, rest, tasks)
            }
        }
    }

    /// Build members in order, of which those from `count` on are built.
    fn member(
        &mut self,
        separator: Term,
        members: Span,
        count: usize,
        rest: Rest,
        tasks: &mut Vec<Task>,
    ) -> Outcome<u32> {
        let Some(index) = count.checked_sub(1) else {
            return rest.further.map_or_else(|| self.split([]), Ok);
        };
        let member = members.of(&self.ordered)[index];
        self.in_order.push(member.item);
        let round = match member.repeated {
            true => Some(self.new_place(Position::Split(Box::default()))?),
            false => None,
        };
        let further = match round.or(rest.further) {
            Some(further) => Some(self.terminal(separator, further)?),
            None => None,
        };
        tasks.push(Task::Member {
            separator,
            members,
            index,
            round,
            rest,
        });
        tasks.push(Task::Item(member.item));
        let end = rest.may_end.then_some(rest.next);
        self.split(end.into_iter().chain(further))
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
            Item::Sequence(items) => tasks.extend(items.of(&self.parts).iter().map(|item| Task::Item(*item))),
            Item::Choice(items) => tasks.push(Task::Choice {
                items,
                index: 0,
                next,
                built: Vec::new(),
            }),
            Item::InOrder { separator, members } => {
                let count = members.of(&self.ordered).len();
                return self.member(separator, members, count, Rest::new(next), tasks);
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
            return self.split([]);
        }
        let nullable = self.derivatives.terms.nullable(term);
        self.place(Position::Terminal { term, nullable, next })
    }

    /// A rule that is one terminal is put in place of its calls.
    pub fn call(&mut self, rule: u32, next: u32) -> Outcome<u32> {
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

    fn split(&mut self, places: impl IntoIterator<Item = u32>) -> Outcome<u32> {
        let mut sorted = std::mem::take(&mut self.places);
        sorted.clear();
        sorted.extend(places);
        self.meter.work(sorted.len())?;
        sorted.sort_unstable();
        sorted.dedup();
        let place = match sorted[..] {
            [only] => only,
            _ => self.place(Position::Split(sorted[..].into()))?,
        };
        self.places = sorted;
        Ok(place)
    }

    fn place(&mut self, position: Position) -> Outcome<u32> {
        let new = self.positions.len() as u32;
        let known = self.known.entry(hash_of(&position)).or_insert(new);
        if *known != new && self.positions[*known as usize] == position {
            return Ok(*known);
        }
        *known = new;
        self.new_place(position)
    }

    fn new_place(&mut self, position: Position) -> Outcome<u32> {
        if self.positions.len() as u64 > self.limits.nodes {
            return Err(Fault::Limit(Limit::Nodes));
        }
        self.positions.push(position);
        Ok(self.positions.len() as u32 - 1)
    }
}
