//! What all parses of an unfinished text agree on: Earley's algorithm, in which each item keeps what the parses that lead
//! to it from the beginning of its call agree on, as far as captures go.
//!
//! All derivations count in which no round of a repeat beyond its minimum is empty. A call keeps what those agree on that
//! lead to it from the beginning of the text: nobody calls it later on, so that this is known for ever.

use std::hash::Hash;

use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Fault, Limit, Meter, Outcome};
use crate::captures::items::NO_BYTE;
use crate::captures::memories::Memories;
use crate::captures::positions::{Position, END, START};
use crate::captures::preference::Source;
use crate::captures::trails::{Mark, Trail, Trails, NEVER};
use crate::regular::term::{Term, EMPTY, NOTHING, UNBOUNDED};

/// What an item, a call or a thread costs, for the bytes that it takes.
const COST: usize = 4;

/// A place in the body of a call, reached in a column.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    position: u32,
    /// How many rounds of a repeat came before, as far as it matters; or the number of what has come of a list of members.
    count: u32,
    call: u32,
}

struct Call {
    rule: u32,
    column: u32,
    /// The last one of those who called, plus one.
    callers: u32,
    /// What leads to it from the beginning of the text; None until its column is closed.
    context: Option<Trail>,
}

#[derive(Clone, Copy)]
struct Caller {
    place: Place,
    trail: Trail,
    previous: u32,
}

/// A terminal under way.
#[derive(Clone, Copy)]
struct Thread {
    state: Term,
    place: Place,
    trail: Trail,
}

/// What there is before a column, to go back to; and its offset in bytes.
#[derive(Clone, Copy)]
struct Column {
    offset: u32,
    /// The byte that led here, or `NO_BYTE`.
    step: u16,
    calls: usize,
    callers: usize,
    threads: usize,
    tokens: usize,
    complete: Option<Trail>,
}

pub struct Agreement {
    trails: Trails,
    columns: Vec<Column>,
    calls: Vec<Call>,
    callers: Vec<Caller>,
    /// The terminals under way in each column, and the places that wait for a token.
    threads: Vec<Thread>,
    tokens: Vec<(Place, Trail)>,
    /// For each rule its latest call.
    latest: Vec<u32>,
    memories: Memories,
    last: Last,
}

/// The column that is being worked out.
#[derive(Default)]
struct Last {
    places: Index<Place>,
    trails: Vec<Trail>,
    /// Places still to be followed, and whether each is among them.
    agenda: Vec<u32>,
    waits: Vec<bool>,
    /// Which call is called from which place.
    calling: Index<(u32, u32)>,
    /// Calls that begin and end here.
    empty: Vec<(u32, Trail)>,
    threads: Index<(Term, Place)>,
}

impl Agreement {
    /// The empty text.
    pub fn new(source: Source, meter: &mut Meter) -> Outcome<Self> {
        let mut agreement = Agreement {
            trails: Trails::new(),
            columns: Vec::new(),
            calls: Vec::new(),
            callers: Vec::new(),
            threads: Vec::new(),
            tokens: Vec::new(),
            latest: vec![NEVER; source.plan.rules.len()],
            memories: Memories::new(),
            last: Last::default(),
        };
        agreement.open(0, NO_BYTE);
        agreement.call(START, source, meter)?;
        agreement.calls[0].context = Some(Trail::EMPTY);
        agreement.close(source, meter)?;
        Ok(agreement)
    }

    /// See `heap`.
    pub fn heap(&self) -> usize {
        let last = &self.last;
        self.trails.heap()
            + heap::list(&self.columns)
            + heap::list(&self.calls)
            + heap::list(&self.callers)
            + heap::list(&self.threads)
            + heap::list(&self.tokens)
            + heap::list(&self.latest)
            + self.memories.heap()
            + last.places.heap()
            + heap::list(&last.trails)
            + heap::list(&last.agenda)
            + heap::list(&last.waits)
            + last.calling.heap()
            + heap::list(&last.empty)
            + last.threads.heap()
    }

    /// How many bytes and tokens there are.
    pub fn length(&self) -> usize {
        self.columns.len() - 1
    }

    /// Append a byte, with which the text goes on. After a fault nothing has changed.
    pub fn push_byte(&mut self, byte: u8, source: Source, meter: &mut Meter) -> Outcome<()> {
        let before = self.last_column();
        self.open(before.offset + 1, u16::from(byte));
        let outcome = self.step(before.threads, byte, source, meter);
        self.settle(outcome)
    }

    /// Append a token that the grammar names, with which the text goes on. After a fault nothing has changed.
    pub fn push_token(&mut self, token: u32, source: Source, meter: &mut Meter) -> Outcome<()> {
        let before = self.last_column();
        let end = self.tokens.len();
        self.open(before.offset, NO_BYTE);
        let outcome = (before.tokens..end).try_for_each(|index| {
            let (place, trail) = self.tokens[index];
            match *source.plan.position(place.position) {
                Position::Token { token: own, next } if own == token => {
                    self.reach(next, 0, place.call, trail, source, meter)
                }
                _ => Ok(()),
            }
        });
        let outcome = outcome.and_then(|()| self.close(source, meter));
        self.settle(outcome)
    }

    /// Undo the last steps; there are that many.
    pub fn pop(&mut self, steps: usize) {
        let length = self.columns.len() - steps.min(self.length());
        if let Some(column) = self.columns.get(length).copied() {
            self.columns.truncate(length);
            self.calls.truncate(column.calls);
            self.callers.truncate(column.callers);
            self.threads.truncate(column.threads);
            self.tokens.truncate(column.tokens);
        }
    }

    /// The list of marks that every parse begins with, and the offset in bytes up to which there are no others.
    pub fn agreed(&mut self, source: Source, meter: &mut Meter) -> Outcome<(u32, u32)> {
        let column = self.last_column();
        let mut total = column.complete;
        for index in column.threads..self.threads.len() {
            let Thread { state, place, trail } = self.threads[index];
            if !source.lexicon.row(state, meter)?.live_bytes().is_empty() {
                total = Some(self.with_parse(total, place.call, trail, meter)?);
            }
        }
        for index in column.tokens..self.tokens.len() {
            let (place, trail) = self.tokens[index];
            total = Some(self.with_parse(total, place.call, trail, meter)?);
        }
        Ok(match total {
            None => (Trail::EMPTY.marks, 0),
            Some(trail) => (trail.marks, self.offset(trail.parted)),
        })
    }

    /// The marks of a list after those that it shares with another one, with their offsets in bytes; and how many it shares.
    pub fn marks_after(&mut self, known: u32, list: u32, meter: &mut Meter) -> Outcome<(usize, Vec<(u32, u32)>)> {
        let (shared, marks) = self.trails.after(known, list, meter)?;
        let offsets = marks.iter().map(|mark| (mark.symbol, self.offset(mark.column)));
        Ok((shared, offsets.collect()))
    }

    fn offset(&self, column: u32) -> u32 {
        self.columns.get(column as usize).unwrap_or(&self.last_column()).offset
    }

    fn with_parse(&mut self, total: Option<Trail>, call: u32, trail: Trail, meter: &mut Meter) -> Outcome<Trail> {
        meter.work(1)?;
        let call = &self.calls[call as usize];
        let context = call.context.unwrap_or(Trail::EMPTY);
        let whole = self.trails.joined(context, trail, call.column, meter)?;
        match total {
            None => Ok(whole),
            Some(total) => self.trails.either(total, whole, meter),
        }
    }

    // --- one column ---------------------------------------------------------------------------------------------

    fn column(&self) -> u32 {
        self.columns.len() as u32 - 1
    }

    fn last_column(&self) -> Column {
        self.columns[self.columns.len() - 1]
    }

    fn open(&mut self, offset: u32, step: u16) {
        self.columns.push(Column {
            offset,
            step,
            calls: self.calls.len(),
            callers: self.callers.len(),
            threads: self.threads.len(),
            tokens: self.tokens.len(),
            complete: None,
        });
        self.last.clear();
    }

    /// After a fault the last column goes.
    fn settle(&mut self, outcome: Outcome<()>) -> Outcome<()> {
        if outcome.is_err() {
            self.pop(1);
        }
        outcome
    }

    fn step(&mut self, first: usize, byte: u8, source: Source, meter: &mut Meter) -> Outcome<()> {
        let end = self.threads.len();
        meter.work(end - first + 1)?;
        for index in first..end {
            let Thread { state, place, trail } = self.threads[index];
            let step = source.lexicon.step(state, byte, meter)?;
            if step.state == NOTHING {
                continue;
            }
            if let (true, Position::Terminal { next, .. }) = (step.accepts, source.plan.position(place.position)) {
                self.reach(*next, place.count, place.call, trail, source, meter)?;
            }
            if step.state != EMPTY {
                let state = step.state;
                self.add_thread(Thread { state, place, trail }, meter)?;
            }
        }
        self.close(source, meter)
    }

    /// Follow everything that takes no byte.
    fn close(&mut self, source: Source, meter: &mut Meter) -> Outcome<()> {
        while let Some(number) = self.last.agenda.pop() {
            meter.work(1)?;
            self.last.waits[number as usize] = false;
            self.follow(number, source, meter)?;
        }
        for number in 0..self.last.trails.len() {
            let (place, trail) = (*self.last.places.get(number), self.last.trails[number]);
            match *source.plan.position(place.position) {
                Position::Terminal { node, .. } => {
                    let state = source.written.terms[node as usize];
                    if state != EMPTY {
                        self.add_thread(Thread { state, place, trail }, meter)?;
                    }
                }
                Position::Token { .. } => self.tokens.push((place, trail)),
                _ => {}
            }
        }
        for index in 0..self.last.calling.len() {
            let (call, number) = *self.last.calling.get(index);
            meter.work(COST)?;
            let call = &mut self.calls[call as usize];
            self.callers.push(Caller {
                place: *self.last.places.get(number as usize),
                trail: self.last.trails[number as usize],
                previous: call.callers,
            });
            call.callers = self.callers.len() as u32;
        }
        self.find_contexts(meter)
    }

    /// What leads to the calls that are new, until nothing changes: they may call one another.
    fn find_contexts(&mut self, meter: &mut Meter) -> Outcome<()> {
        let mut changes = true;
        while std::mem::take(&mut changes) {
            for index in 0..self.last.calling.len() {
                let (call, number) = *self.last.calling.get(index);
                let (place, trail) = (self.last.places.get(number as usize), self.last.trails[number as usize]);
                let around = &self.calls[place.call as usize];
                meter.work(1)?;
                let Some(context) = around.context else {
                    continue;
                };
                let whole = self.trails.joined(context, trail, around.column, meter)?;
                let known = self.calls[call as usize].context;
                let both = match known {
                    None => whole,
                    Some(known) => self.trails.either(known, whole, meter)?,
                };
                if known != Some(both) {
                    self.calls[call as usize].context = Some(both);
                    changes = true;
                }
            }
        }
        Ok(())
    }

    fn follow(&mut self, number: u32, source: Source, meter: &mut Meter) -> Outcome<()> {
        let place = *self.last.places.get(number as usize);
        let trail = self.last.trails[number as usize];
        let call = place.call;
        match source.plan.position(place.position) {
            Position::End => self.end(call, trail, source, meter),
            Position::Terminal { nullable, next, .. } => match nullable {
                true => self.reach(*next, place.count, call, trail, source, meter),
                false => Ok(()),
            },
            Position::Token { .. } => Ok(()),
            Position::Call { rule, .. } => self.called(*rule, number, source, meter),
            Position::Split(places) => places
                .iter()
                .try_for_each(|next| self.reach(*next, 0, call, trail, source, meter)),
            Position::Jump(rule) => {
                let start = source.plan.rules[*rule as usize].start;
                self.reach(start, 0, call, trail, source, meter)
            }
            // No item stands at these, see `Plan::past_marks`.
            Position::Open { .. } | Position::Close { .. } => Ok(()),
            Position::Rounds {
                rule, minimum, maximum, ..
            } => {
                if place.count < *maximum || *maximum == UNBOUNDED {
                    self.called(*rule, number, source, meter)?;
                }
                match place.count >= *minimum {
                    true => self.reach(END, 0, call, trail, source, meter),
                    false => Ok(()),
                }
            }
            Position::Choose { list, first, .. } => {
                let list = &source.plan.members[*list as usize];
                let ways = self.memories.choices(list, place.count, meter)?.to_vec();
                ways.into_iter()
                    .try_for_each(|way| self.called(first + way, number, source, meter))
            }
            Position::Came { list, separator } => {
                let list = &source.plan.members[*list as usize];
                if !self.memories.choices(list, place.count, meter)?.is_empty() {
                    self.reach(*separator, place.count, call, trail, source, meter)?;
                }
                match self.memories.may_end(list, place.count, meter)? {
                    true => self.reach(END, 0, call, trail, source, meter),
                    false => Ok(()),
                }
            }
        }
    }

    /// A rule is called in the last column, from one of its places.
    fn called(&mut self, rule: u32, number: u32, source: Source, meter: &mut Meter) -> Outcome<()> {
        let latest = self.latest[rule as usize];
        let is_latest = |call: &Call| call.rule == rule && call.column == self.column();
        let call = match self.calls.get(latest as usize).is_some_and(is_latest) {
            true => latest,
            false => self.call(rule, source, meter)?,
        };
        self.last.calling.find_or_add((call, number));
        match self.last.empty.iter().find(|(ended, _)| *ended == call) {
            Some(&(_, trail)) => self.go_back(number, call, trail, source, meter),
            None => Ok(()),
        }
    }

    fn call(&mut self, rule: u32, source: Source, meter: &mut Meter) -> Outcome<u32> {
        meter.work(COST)?;
        let call = u32::try_from(self.calls.len()).map_err(|_| Fault::Limit(Limit::Work))?;
        self.calls.push(Call {
            rule,
            column: self.column(),
            callers: 0,
            context: None,
        });
        self.latest[rule as usize] = call;
        self.reach(
            source.plan.rules[rule as usize].start,
            0,
            call,
            Trail::EMPTY,
            source,
            meter,
        )?;
        Ok(call)
    }

    /// A call is complete: go on where it was made.
    fn end(&mut self, call: u32, trail: Trail, source: Source, meter: &mut Meter) -> Outcome<()> {
        if call == 0 {
            let number = self.columns.len() - 1;
            self.columns[number].complete = Some(trail);
        }
        let ended = &self.calls[call as usize];
        let (rule, column) = (ended.rule, ended.column);
        if column == self.column() {
            match self.last.empty.iter_mut().find(|(other, _)| *other == call) {
                Some(known) => known.1 = trail,
                None => self.last.empty.push((call, trail)),
            }
            for index in 0..self.last.calling.len() {
                let (called, number) = *self.last.calling.get(index);
                meter.work(1)?;
                if called == call {
                    self.go_back(number, call, trail, source, meter)?;
                }
            }
            return Ok(());
        }
        let mut next = ended.callers;
        while let Some(caller) = next.checked_sub(1).map(|index| self.callers[index as usize]) {
            next = caller.previous;
            let trail = self.trails.joined(caller.trail, trail, column, meter)?;
            self.go_on(caller.place, (rule, column), trail, source, meter)?;
        }
        Ok(())
    }

    /// Go on after a call that has begun and ended in the last column.
    fn go_back(&mut self, number: u32, call: u32, ended: Trail, source: Source, meter: &mut Meter) -> Outcome<()> {
        let (place, trail) = (
            *self.last.places.get(number as usize),
            self.last.trails[number as usize],
        );
        let Call { rule, column, .. } = self.calls[call as usize];
        let trail = self.trails.joined(trail, ended, column, meter)?;
        self.go_on(place, (rule, column), trail, source, meter)
    }

    /// Go on after a call of a rule that was made at a place in a column.
    fn go_on(
        &mut self,
        place: Place,
        (rule, column): (u32, u32),
        trail: Trail,
        source: Source,
        meter: &mut Meter,
    ) -> Outcome<()> {
        meter.work(1)?;
        let is_empty = column == self.column();
        match *source.plan.position(place.position) {
            Position::Call { next, .. } => self.reach(next, 0, place.call, trail, source, meter),
            Position::Rounds { minimum, maximum, .. } if !is_empty || place.count < minimum => {
                let count = match maximum {
                    UNBOUNDED => (place.count + 1).min(minimum),
                    _ => place.count + 1,
                };
                self.reach(place.position, count, place.call, trail, source, meter)
            }
            Position::Choose { list, first, next } => {
                let list = &source.plan.members[list as usize];
                let text = self.columns[column as usize + 1..].iter().map(|column| column.step);
                match self.memories.after(list, place.count, rule - first, text, meter)? {
                    Some(count) => self.reach(next, count, place.call, trail, source, meter),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// A place is reached in the last column.
    fn reach(
        &mut self,
        entry: u32,
        count: u32,
        call: u32,
        mut trail: Trail,
        source: Source,
        meter: &mut Meter,
    ) -> Outcome<()> {
        meter.work(1)?;
        let column = self.column();
        for (name, opens) in source.plan.marks(entry) {
            let symbol = 2 * name + u32::from(opens);
            meter.work(COST)?;
            trail = self.trails.with(trail, Mark { symbol, column }, meter)?;
        }
        let position = source.plan.past_marks(entry);
        let last = &mut self.last;
        let (number, is_new) = last.places.find_or_add(Place { position, count, call });
        let index = number as usize;
        if is_new {
            meter.work(COST)?;
            last.trails.push(trail);
            last.waits.push(false);
        } else {
            let both = self.trails.either(last.trails[index], trail, meter)?;
            if std::mem::replace(&mut last.trails[index], both) == both {
                return Ok(());
            }
        }
        if !std::mem::replace(&mut last.waits[index], true) {
            last.agenda.push(number);
        }
        Ok(())
    }

    fn add_thread(&mut self, thread: Thread, meter: &mut Meter) -> Outcome<()> {
        meter.work(1)?;
        let first = self.last_column().threads;
        let (number, is_new) = self.last.threads.find_or_add((thread.state, thread.place));
        if is_new {
            meter.work(COST)?;
            self.threads.push(thread);
            return Ok(());
        }
        let known = &mut self.threads[first + number as usize].trail;
        *known = self.trails.either(*known, thread.trail, meter)?;
        Ok(())
    }
}

impl Last {
    fn clear(&mut self) {
        self.places.clear();
        self.trails.clear();
        self.agenda.clear();
        self.waits.clear();
        self.calling.clear();
        self.empty.clear();
        self.threads.clear();
    }
}

/// Values are searched one by one up to this many.
const FEW: usize = 12;

/// Values by number, each value once; quick where there are few.
struct Index<K> {
    values: Vec<K>,
    numbers: FastMap<K, u32>,
}

impl<K: Copy + Eq + Hash> Index<K> {
    /// See `heap`.
    fn heap(&self) -> usize {
        heap::list(&self.values) + heap::table(&self.numbers)
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    fn get(&self, number: usize) -> &K {
        &self.values[number]
    }

    /// The number of a value, and whether it is new.
    fn find_or_add(&mut self, value: K) -> (u32, bool) {
        let number = self.values.len() as u32;
        let known = match self.values.len() <= FEW {
            true => self
                .values
                .iter()
                .position(|other| *other == value)
                .map(|index| index as u32),
            false => {
                if self.numbers.is_empty() {
                    self.numbers.extend(self.values.iter().copied().zip(0..));
                }
                self.numbers.get(&value).copied()
            }
        };
        if let Some(known) = known {
            return (known, false);
        }
        if !self.numbers.is_empty() {
            self.numbers.insert(value, number);
        }
        self.values.push(value);
        (number, true)
    }

    fn clear(&mut self) {
        self.values.clear();
        if !self.numbers.is_empty() {
            self.numbers = FastMap::default();
        }
    }
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Index {
            values: Vec::new(),
            numbers: FastMap::default(),
        }
    }
}
