//! Agreement of parses: computes the captures on which all parses of an unfinished text agree. This is Earley's
//! algorithm, in which each item has a trail: the marks on which the parses agree that lead to it from the beginning of
//! its call.
//!
//! All derivations count in which no round of a repeat beyond its minimum is empty. A call stores the trail of the
//! parses that lead to it from the beginning of the text. Nothing can call it in a later column, so this trail is
//! final.

use std::hash::Hash;

use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Fault, Limit, Meter, Outcome};
use crate::captures::items::{ITEM_COST, NO_BYTE};
use crate::captures::memories::Memories;
use crate::captures::positions::{Position, END, START};
use crate::captures::preference::Source;
use crate::captures::trails::{Mark, Trail, Trails, NEVER};
use crate::regular::term::{Term, EMPTY, NOTHING, UNBOUNDED};

/// A position in the body of a call, reached in a column.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    position: u32,
    /// The number of earlier rounds of a repeat, as far as it matters; or the number of the memory of a list of
    /// members.
    count: u32,
    call: u32,
}

struct Call {
    rule: u32,
    column: u32,
    /// The index plus one of the last caller.
    callers: u32,
    /// The trail from the beginning of the text to the call; None until its column is closed.
    context: Option<Trail>,
}

#[derive(Clone, Copy)]
struct Caller {
    place: Place,
    trail: Trail,
    previous: u32,
}

/// A terminal in progress.
#[derive(Clone, Copy)]
struct Thread {
    state: Term,
    place: Place,
    trail: Trail,
}

/// The sizes of all lists before a column, so that we can go back to it; and its offset in bytes.
#[derive(Clone, Copy)]
struct Column {
    offset: u32,
    /// The byte that led to this column, or `NO_BYTE`.
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
    /// The terminals in progress in each column, and the places that wait for a token.
    threads: Vec<Thread>,
    tokens: Vec<(Place, Trail)>,
    /// For each rule, its latest call.
    latest: Vec<u32>,
    memories: Memories,
    last: Last,
}

/// The column that is being computed.
#[derive(Default)]
struct Last {
    places: Index<Place>,
    trails: Vec<Trail>,
    /// Places whose successors are still to be computed, and whether each place is among them.
    agenda: Vec<u32>,
    waits: Vec<bool>,
    /// Pairs of a call and a place that makes it.
    calling: Index<(u32, u32)>,
    /// Calls that begin and end in this column.
    empty: Vec<(u32, Trail)>,
    threads: Index<(Term, Place)>,
}

impl Agreement {
    /// Make the parser of the empty text.
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

    /// Return the heap memory in bytes, see `heap`.
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

    /// Return how many bytes and tokens there are.
    pub fn length(&self) -> usize {
        self.columns.len() - 1
    }

    /// Append a byte that continues the text. After a fault nothing has changed.
    pub fn push_byte(&mut self, byte: u8, source: Source, meter: &mut Meter) -> Outcome<()> {
        let before = self.last_column();
        self.open(before.offset + 1, u16::from(byte));
        let outcome = self.step(before.threads, byte, source, meter);
        self.settle(outcome)
    }

    /// Append a token that the grammar names and that continues the text. After a fault nothing has changed.
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

    /// Undo the last steps; there must be that many.
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

    /// Return the list of marks with which every parse begins, and the offset in bytes up to which there are no other
    /// marks.
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

    /// Return how many marks a list shares with a known list, and its marks after those, with their offsets in bytes.
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

    /// Remove the last column after a fault.
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

    /// Compute all places that are reached without taking a byte.
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
            meter.work(ITEM_COST)?;
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

    /// Compute the trails that lead to the new calls, until nothing changes: the calls may call one another.
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
            // No place has these positions, see `Plan::past_marks`.
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

    /// Call a rule in the last column, from one of its places.
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
        meter.work(ITEM_COST)?;
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

    /// End a call that is complete: its callers continue.
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

    /// Continue a caller after a call that began and ended in the last column.
    fn go_back(&mut self, number: u32, call: u32, ended: Trail, source: Source, meter: &mut Meter) -> Outcome<()> {
        let (place, trail) = (
            *self.last.places.get(number as usize),
            self.last.trails[number as usize],
        );
        let Call { rule, column, .. } = self.calls[call as usize];
        let trail = self.trails.joined(trail, ended, column, meter)?;
        self.go_on(place, (rule, column), trail, source, meter)
    }

    /// Continue after a call of a rule that a place in a column made.
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

    /// Add a place of the last column, or extend its trail.
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
            meter.work(ITEM_COST)?;
            trail = self.trails.with(trail, Mark { symbol, column }, meter)?;
        }
        let position = source.plan.past_marks(entry);
        let last = &mut self.last;
        let (number, is_new) = last.places.find_or_add(Place { position, count, call });
        let index = number as usize;
        if is_new {
            meter.work(ITEM_COST)?;
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
            meter.work(ITEM_COST)?;
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

/// We search up to this many values one by one.
const LINEAR_VALUES: usize = 12;

/// An index that numbers values, each value once; it is fast for few values.
struct Index<K> {
    values: Vec<K>,
    numbers: FastMap<K, u32>,
}

impl<K: Copy + Eq + Hash> Index<K> {
    /// Return the heap memory in bytes, see `heap`.
    fn heap(&self) -> usize {
        heap::list(&self.values) + heap::table(&self.numbers)
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    fn get(&self, number: usize) -> &K {
        &self.values[number]
    }

    /// Return the number of a value, and whether the value is new.
    fn find_or_add(&mut self, value: K) -> (u32, bool) {
        let number = self.values.len() as u32;
        let known = match self.values.len() <= LINEAR_VALUES {
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
