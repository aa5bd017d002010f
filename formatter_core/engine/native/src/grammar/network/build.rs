//! Builds positions from the items of a grammar, each body from its end.

use super::draft::{Draft, Task};
use super::{Position, END};
use crate::base::hash::hash_of;
use crate::base::limits::{Fault, Limit, Limits, Meter, Outcome};
use crate::base::span::Span;
use crate::grammar::decode::Item;
use crate::grammar::members::{Members, Rest};
use crate::regular::derive::Derivatives;
use crate::regular::term::{Term, EMPTY, UNBOUNDED};

pub struct Builder<'a, 'm> {
    pub draft: &'a mut Draft,
    /// The program from which the source was read.
    data: &'a [u8],
    pub limits: &'a Limits,
    pub meter: &'a mut Meter<'m>,
    pub derivatives: &'a mut Derivatives,
}

impl<'a, 'm> Builder<'a, 'm> {
    /// Start with the source of a draft.
    pub fn new(
        draft: &'a mut Draft,
        data: &'a [u8],
        derivatives: &'a mut Derivatives,
        limits: &'a Limits,
        meter: &'a mut Meter<'m>,
    ) -> Self {
        draft.clear();
        Builder {
            draft,
            data,
            limits,
            meter,
            derivatives,
        }
    }

    /// Build all rules.
    pub fn build(&mut self) -> Outcome<()> {
        let mut shared = 0;
        while let Some(&body) = self.draft.source.bodies.get(self.draft.starts.len()) {
            match self.draft.source.shared.get(shared) {
                Some((first, programs)) if *first as usize == self.draft.starts.len() => {
                    let data = self.data;
                    let programs = &data[programs.clone()];
                    self.add_shared(programs)?;
                    shared += 1;
                    continue;
                }
                _ => {}
            }
            self.draft.begins.push(self.draft.positions.len() as u32);
            let start = self.body(body)?;
            self.draft.starts.push(start);
        }
        for rule in 0..self.draft.entries.len() {
            if self.draft.entries[rule] != END {
                self.set_split(self.draft.entries[rule], [self.draft.starts[rule]]);
            }
        }
        Ok(())
    }

    fn body(&mut self, body: u32) -> Outcome<u32> {
        match self.draft.source.items[body as usize] {
            Item::Members {
                number,
                separator,
                ways,
            } => self.list_of_members(number, separator, ways),
            Item::Region { item, .. } => self.before(item, END),
            _ => self.before(body, END),
        }
    }

    /// Build a list of members, which is a rule of its own; return its first position.
    fn list_of_members(&mut self, number: u32, separator: Term, ways: Span) -> Outcome<u32> {
        let choose = self.new_place(Position::Choose(number))?;
        let mut values = Vec::new();
        for way in 0..self.members(number).ways.len() as u32 {
            let item = ways.of(&self.draft.source.parts)[way as usize];
            let came = self.new_place(Position::Came { members: number, way })?;
            let members = self.members(number);
            let start = match members.members[members.ways[way as usize].member as usize].distinct {
                true => self.distinct(item, came, &mut values)?,
                false => self.before(item, came)?,
            };
            self.members(number).starts.push(start);
        }
        if !values.is_empty() {
            let minimum = self.members(number).minimum;
            self.members(number).values = self.derivatives.count_values(&values, minimum, self.meter)?;
        }
        if self.derivatives.live(separator, self.meter)? {
            self.members(number).separator = self.terminal(separator, choose)?;
        } else {
            self.members(number).maximum = 1;
        }
        Ok(choose)
    }

    fn members(&mut self, number: u32) -> &mut Members {
        &mut self.draft.source.members[number as usize]
    }

    /// Build a way of a distinct member; return its first position. The way begins with a terminal, which is added to
    /// `values`.
    fn distinct(&mut self, mut item: u32, next: u32, values: &mut Vec<Term>) -> Outcome<u32> {
        let mut rest = next;
        while let Item::Sequence(mut items) = self.draft.source.items[item as usize] {
            item = items.pop_first(&self.draft.source.parts).ok_or(Fault::Malformed)?;
            while let Some(last) = items.pop_last(&self.draft.source.parts) {
                rest = self.before(last, rest)?;
            }
        }
        let Item::Terminal { term, .. } = self.draft.source.items[item as usize] else {
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

    /// Build an item that is followed by `next`; return its first position.
    fn before(&mut self, item: u32, next: u32) -> Outcome<u32> {
        let mut place = self.item(item, next)?;
        while let Some(task) = self.draft.tasks.pop() {
            self.meter.work(1)?;
            place = self.perform(task, place)?;
        }
        Ok(place)
    }

    fn perform(&mut self, task: Task, place: u32) -> Outcome<u32> {
        match task {
            Task::Item(item) => self.item(item, place),
            Task::Sequence(items) => self.sequence(items, place),
            Task::Choice { left, next, built } => {
                self.draft.built.push(place);
                self.choice(left, next, built)
            }
            Task::Loop { start, next, minimum } => {
                self.set_split(start, [place, next]);
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
                if let Some(rounds) = rounds.checked_sub(1) {
                    self.draft.tasks.push(Task::Rounds {
                        item,
                        rounds,
                        minimum,
                        next,
                    });
                    self.draft.tasks.push(Task::Item(item));
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
                let required = members.of(&self.draft.source.in_order)[index as usize].required;
                let places = [place].into_iter().chain(rest.leave_out(required));
                rest.further = match round {
                    Some(round) => {
                        self.set_split(round, places);
                        Some(round)
                    }
                    None => Some(self.split(places)?),
                };
                self.member(separator, members, index, rest)
            }
        }
    }

    /// Build members in order, of which those from `count` on are already built.
    fn member(&mut self, separator: Term, members: Span, count: u32, rest: Rest) -> Outcome<u32> {
        let Some(index) = count.checked_sub(1) else {
            return rest.further.map_or_else(|| self.split([]), Ok);
        };
        let member = members.of(&self.draft.source.in_order)[index as usize];
        self.draft.in_order.push(member.item);
        let round = match member.repeated {
            true => Some(self.no_place_yet()?),
            false => None,
        };
        let further = match round.or(rest.further) {
            Some(further) => Some(self.terminal(separator, further)?),
            None => None,
        };
        self.draft.tasks.push(Task::Member {
            separator,
            members,
            index,
            round,
            rest,
        });
        self.draft.tasks.push(Task::Item(member.item));
        let end = rest.may_end.then_some(rest.next);
        self.split(end.into_iter().chain(further))
    }

    fn item(&mut self, item: u32, next: u32) -> Outcome<u32> {
        match self.draft.source.items[item as usize] {
            Item::Sequence(items) => return self.sequence(items, next),
            Item::Choice(items) => return self.choice(items, next, self.draft.built.len()),
            Item::InOrder { separator, members } => {
                return self.member(separator, members, members.len(), Rest::new(next))
            }
            Item::Repeat {
                item,
                minimum,
                maximum: UNBOUNDED,
            } => {
                let item = if minimum > 1 { self.helper(item) } else { item };
                let start = self.no_place_yet()?;
                self.meter.work(minimum as usize)?;
                self.draft.tasks.extend((1..minimum).map(|_| Task::Item(item)));
                self.draft.tasks.push(Task::Loop { start, next, minimum });
                self.draft.tasks.push(Task::Item(item));
                return Ok(start);
            }
            Item::Repeat { item, minimum, maximum } => {
                let item = if maximum > 1 { self.helper(item) } else { item };
                self.draft.tasks.push(Task::Rounds {
                    item,
                    rounds: maximum,
                    minimum,
                    next,
                });
            }
            Item::Members { .. } | Item::Region { .. } => {
                let helper = self.helper(item);
                self.draft.tasks.push(Task::Item(helper));
            }
            _ => return self.leaf(item, next).map(|place| place.unwrap_or(next)),
        }
        Ok(next)
    }

    /// Build an item without child items; return its first position. Return None for other items.
    #[inline]
    fn leaf(&mut self, item: u32, next: u32) -> Outcome<Option<u32>> {
        self.meter.work(1)?;
        match self.draft.source.items[item as usize] {
            Item::Terminal { term, .. } => self.terminal(term, next).map(Some),
            Item::Reference(rule) => self.call(rule, next).map(Some),
            Item::Token(token) => self.place(Position::Token { token, next }).map(Some),
            _ => Ok(None),
        }
    }

    fn sequence(&mut self, mut items: Span, mut place: u32) -> Outcome<u32> {
        while let Some(last) = items.pop_last(&self.draft.source.parts) {
            let Some(before) = self.leaf(last, place)? else {
                self.draft.tasks.extend([Task::Sequence(items), Task::Item(last)]);
                break;
            };
            place = before;
        }
        Ok(place)
    }

    fn choice(&mut self, mut left: Span, next: u32, built: usize) -> Outcome<u32> {
        while let Some(first) = left.pop_first(&self.draft.source.parts) {
            let Some(place) = self.leaf(first, next)? else {
                self.draft
                    .tasks
                    .extend([Task::Choice { left, next, built }, Task::Item(first)]);
                return Ok(next);
            };
            self.draft.built.push(place);
        }
        let mut all = std::mem::take(&mut self.draft.built);
        let place = self.split(all.drain(built..))?;
        self.draft.built = all;
        Ok(place)
    }

    /// Return an item that is equivalent to `item` and takes one position wherever it is repeated.
    fn helper(&mut self, item: u32) -> u32 {
        let source = &mut self.draft.source;
        if matches!(
            source.items[item as usize],
            Item::Terminal { .. } | Item::Token(_) | Item::Reference(_)
        ) {
            return item;
        }
        if let Some(&helper) = self.draft.helpers.get(&item) {
            return helper;
        }
        let helper = source.items.len() as u32;
        source.items.push(Item::Reference(source.bodies.len() as u32));
        source.bodies.push(item);
        self.draft.helpers.insert(item, helper);
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

    /// Build a call. A rule that is a single terminal replaces its call.
    pub fn call(&mut self, rule: u32, next: u32) -> Outcome<u32> {
        match self.draft.source.body(rule) {
            Item::Terminal { term, .. } => self.terminal(term, next),
            // A list of members needs a frame for its memory, and a region for its deadline.
            Item::Members { .. } => self.place(Position::Call { rule, next }),
            Item::Region { .. } => {
                let next = self.place(Position::Cut { next })?;
                self.place(Position::Call { rule, next })
            }
            _ if next == END => self.entry(rule as usize),
            _ => self.place(Position::Call { rule, next }),
        }
    }

    /// Return the first position of a rule for a tail call: there is nothing to return to, so the call needs no frame.
    fn entry(&mut self, rule: usize) -> Outcome<u32> {
        if self.draft.entries.len() <= rule {
            self.draft.entries.resize(rule + 1, END);
        }
        if self.draft.entries[rule] == END {
            self.draft.entries[rule] = self.no_place_yet()?;
        }
        Ok(self.draft.entries[rule])
    }

    fn set_split(&mut self, place: u32, places: impl IntoIterator<Item = u32>) {
        let first = self.draft.places.len();
        self.draft.places.extend(places);
        self.draft.positions[place as usize] = Position::Split(Span::from(first, &self.draft.places));
    }

    fn split(&mut self, places: impl IntoIterator<Item = u32>) -> Outcome<u32> {
        let draft = &mut *self.draft;
        let first = draft.places.len();
        draft.places.extend(places);
        self.meter.work(draft.places.len() - first)?;
        draft.places[first..].sort_unstable();
        let mut end = first;
        for index in first..draft.places.len() {
            if end == first || draft.places[index] != draft.places[end - 1] {
                draft.places[end] = draft.places[index];
                end += 1;
            }
        }
        draft.places.truncate(end);
        let (span, new) = (Span::from(first, &draft.places), draft.positions.len() as u32);
        let (places, positions) = (&draft.places, &draft.positions);
        let place = match *span.of(places) {
            [only] => only,
            ref several => draft
                .known
                .find(hash_of(&several), new, |known| match positions[known as usize] {
                    Position::Split(other) => other.of(places) == several,
                    _ => false,
                }),
        };
        if place == new {
            return self.new_place(Position::Split(span));
        }
        draft.places.truncate(first);
        Ok(place)
    }

    fn place(&mut self, position: Position) -> Outcome<u32> {
        let positions = &self.draft.positions;
        let key = position.key();
        let is_equal = |known: u32| positions[known as usize].key() == key;
        let new = positions.len() as u32;
        match self.draft.known.find(hash_of(&key), new, is_equal) {
            known if known != new => Ok(known),
            _ => self.new_place(position),
        }
    }

    /// Add a split whose places are not known yet.
    fn no_place_yet(&mut self) -> Outcome<u32> {
        self.new_place_with(Position::Split(Span::EMPTY), 0)
    }

    #[inline]
    fn new_place(&mut self, position: Position) -> Outcome<u32> {
        self.new_place_with(position, self.draft.facts_of(position))
    }

    #[inline]
    fn new_place_with(&mut self, position: Position, facts: u8) -> Outcome<u32> {
        let count = self.draft.positions.len();
        if count as u64 > self.limits.nodes {
            return Err(Fault::Limit(Limit::Nodes));
        }
        self.draft.add(position, facts);
        Ok(count as u32)
    }
}
