//! Parsing with captures: Earley's algorithm, in which each item keeps its preferred derivation.
//!
//! A derivation is the list of its choices from left to right. Of two derivations, we prefer the one that comes first
//! in the order of the alternatives. An item is a position in the body of a call. How an item may continue depends
//! neither on its caller nor on how it was reached. So if an item is part of the preferred parse, its preferred
//! derivation from the beginning of the call is part of that parse too. The items of one call form a tree, in which the
//! parent of an item is the item before it. We compare two derivations at the node where their paths in the tree
//! diverge.
//!
//! No item has a position at which a capture opens or closes: each item stores the position through which it was
//! reached. If the next byte is known, we create no item that cannot continue with it.
//!
//! If a rule may derive itself over the same text, only derivations count in which it does not do so. For this an item
//! also stores the set of rules that each derived the whole call so far by themselves.

mod agenda;
mod expected;

use std::cmp::Ordering;

use self::agenda::{Agenda, Priority};
use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::base::number_sets::NumberSets;
use crate::captures::items::{number_of, Call, Edge, Item, Tree, ITEM_COST, NONE, NO_BYTE, OVER_NOTHING};
use crate::captures::memories::Memories;
use crate::captures::positions::{Position, END, START};
use crate::captures::preference::{Preference, Source};
use crate::captures::preferred_captures::{captures, Capture};
use crate::regular::term::{Term, EMPTY, NOTHING, UNBOUNDED};

pub use expected::{Expected, What};

/// We search a column with at most this many items one by one.
const LINEAR_ITEMS: usize = 12;

struct Caller {
    item: u32,
    previous: u32,
}

/// A terminal that began at an item and may still continue.
#[derive(Clone, Copy)]
struct Thread {
    state: Term,
    item: u32,
    /// The index plus one of the previous thread that agrees in everything but the item.
    previous: u32,
}

pub struct Derivations {
    tree: Tree,
    callers: Vec<Caller>,
    /// The terminals in progress in the last column; `tokens` has the items that wait for a token.
    threads: Vec<Thread>,
    tokens: Vec<u32>,
    /// A spare list for the threads of the next column.
    room: Vec<Thread>,
    /// Index of the items of the last column, used if there are many.
    known: FastMap<(u32, u32, u32, u32), u32>,
    items_in_map: usize,
    /// Index of the threads, used in the same way; it contains the first `threads_in_map` of them.
    known_threads: FastMap<(Term, u32, u32, u32), usize>,
    threads_in_map: usize,
    /// For each rule, the column of its latest call and the number of that call.
    latest: Vec<(u32, u32)>,
    /// Items whose successors are still to be computed.
    agenda: Agenda,
    begun: Vec<u32>,
    /// The calls of rules that may derive themselves, with the items that end them in the column where they began.
    empties: Vec<(u32, u32)>,
    sets: NumberSets,
    preference: Preference,
    memories: Memories,
    /// The item that completes the whole text in the last column.
    complete: u32,
    /// The next byte, if it is known; `left_out` tells whether we skipped a position that cannot continue with it.
    ahead: Option<u8>,
    left_out: bool,
}

impl Derivations {
    /// Make the parser of the empty text.
    pub fn new(source: Source, meter: &mut Meter) -> Outcome<Self> {
        let mut derivations = Derivations {
            tree: Tree::default(),
            callers: Vec::new(),
            threads: Vec::new(),
            tokens: Vec::new(),
            room: Vec::new(),
            known: FastMap::default(),
            items_in_map: 0,
            known_threads: FastMap::default(),
            threads_in_map: 0,
            latest: vec![(NONE, NONE); source.plan.rules.len()],
            agenda: Agenda::default(),
            begun: Vec::new(),
            empties: Vec::new(),
            sets: NumberSets::new(),
            preference: Preference::new(),
            memories: Memories::new(),
            complete: NONE,
            ahead: None,
            left_out: false,
        };
        derivations.call(START, source, meter)?;
        derivations.close(source, meter)?;
        Ok(derivations)
    }

    /// Return the heap memory in bytes, see `heap`.
    pub fn heap(&self) -> usize {
        self.tree.heap()
            + heap::list(&self.callers)
            + heap::list(&self.threads)
            + heap::list(&self.tokens)
            + heap::list(&self.room)
            + heap::table(&self.known)
            + heap::table(&self.known_threads)
            + heap::list(&self.latest)
            + self.agenda.heap()
            + heap::list(&self.begun)
            + heap::list(&self.empties)
            + self.sets.heap()
            + self.preference.heap()
            + self.memories.heap()
    }

    /// Append a byte; return false if no parse continues with it. `ahead` is the byte that will be appended next, if
    /// the caller knows it. Positions that cannot continue with `ahead` are skipped, so until then only another byte
    /// may be appended.
    pub fn push_byte(&mut self, byte: u8, ahead: Option<u8>, source: Source, meter: &mut Meter) -> Outcome<bool> {
        debug_assert!(self.ahead.map_or(true, |ahead| ahead == byte));
        let threads = self.open_column(u16::from(byte), ahead);
        meter.work(threads.len() + 1)?;
        for &thread in &threads {
            let step = source.lexicon.step(thread.state, byte, meter)?;
            if step.state == NOTHING {
                continue;
            }
            if step.accepts {
                self.end_terminal(thread.item, source, meter)?;
            }
            if step.state != EMPTY {
                let state = step.state;
                self.add_thread(Thread { state, ..thread }, source, meter)?;
            }
        }
        self.room = threads;
        self.close(source, meter)?;
        Ok(self.is_alive())
    }

    /// Append a token that the grammar names; return false if no parse continues with it.
    pub fn push_token(&mut self, token: u32, source: Source, meter: &mut Meter) -> Outcome<bool> {
        let waiting = std::mem::take(&mut self.tokens);
        self.open_column(NO_BYTE, None);
        for item in waiting {
            meter.work(1)?;
            if let Position::Token { token: own, next } = *source.plan.position(self.tree.items[item as usize].position)
            {
                if own == token {
                    self.reach(Edge::new(next, item, NONE, 0), source, meter)?;
                }
            }
        }
        self.close(source, meter)?;
        Ok(self.is_alive())
    }

    /// Return whether the text is complete.
    pub fn is_complete(&self) -> bool {
        self.complete != NONE
    }

    /// Return how many bytes and tokens were appended.
    pub fn length(&self) -> usize {
        self.tree.steps.len()
    }

    /// Return whether anything may follow the text.
    pub fn may_go_on(&self) -> bool {
        !self.threads.is_empty() || !self.tokens.is_empty()
    }

    fn is_alive(&self) -> bool {
        self.is_complete() || self.may_go_on() || self.left_out
    }

    /// Return the captures of the preferred parse of the text, which must be complete; offsets count bytes.
    pub fn captures(&self, source: Source, meter: &mut Meter) -> Outcome<Vec<Capture>> {
        captures(&self.tree, self.complete, source, meter)
    }

    // --- one column ---------------------------------------------------------------------------------------------

    fn open_column(&mut self, step: u16, ahead: Option<u8>) -> Vec<Thread> {
        (self.ahead, self.left_out) = (ahead, false);
        self.tree.steps.push(step);
        self.tree.first = self.tree.items.len();
        if self.items_in_map > 0 {
            self.known = FastMap::default();
            self.items_in_map = 0;
        }
        if self.threads_in_map > 0 {
            self.known_threads = FastMap::default();
            self.threads_in_map = 0;
        }
        self.tokens.clear();
        self.empties.clear();
        self.complete = NONE;
        self.room.clear();
        std::mem::replace(&mut self.threads, std::mem::take(&mut self.room))
    }

    /// Compute all items that are reached without taking a byte.
    fn close(&mut self, source: Source, meter: &mut Meter) -> Outcome<()> {
        while let Some((_, _, _, number)) = self.agenda.pop() {
            meter.work(1)?;
            self.follow(number, source, meter)?;
        }
        for index in 0..self.begun.len() {
            let number = self.begun[index];
            let item = self.tree.items[number as usize];
            if item.is_replaced {
                continue;
            }
            match *source.plan.position(item.position) {
                Position::Terminal { node, .. } => {
                    let state = source.written.terms[node as usize];
                    if state != EMPTY {
                        self.add_thread(
                            Thread {
                                state,
                                item: number,
                                previous: 0,
                            },
                            source,
                            meter,
                        )?;
                    }
                }
                _ => self.tokens.push(number),
            }
        }
        self.begun.clear();
        Ok(())
    }

    fn follow(&mut self, number: u32, source: Source, meter: &mut Meter) -> Outcome<()> {
        let item = self.tree.items[number as usize];
        if item.is_replaced {
            return Ok(());
        }
        match source.plan.position(item.position) {
            Position::End => return self.end(number, source, meter),
            Position::Terminal { nullable, next, .. } => {
                self.begun.push(number);
                if *nullable {
                    let edge = Edge::new(*next, number, NONE, item.whole).after(item.count);
                    self.reach(edge, source, meter)?;
                }
            }
            Position::Token { .. } => self.begun.push(number),
            Position::Call { rule, next } => {
                let call = self.called(*rule, number, source, meter)?;
                let rule = &source.plan.rules[*rule as usize];
                if rule.nullable && !rule.cyclic {
                    self.reach(Edge::new(*next, number, OVER_NOTHING | call, item.whole), source, meter)?;
                }
            }
            Position::Split(places) => {
                for (index, place) in places.iter().enumerate() {
                    self.reach(Edge::new(*place, number, index as u32, item.whole), source, meter)?;
                }
            }
            Position::Jump(rule) => {
                let start = source.plan.rules[*rule as usize].start;
                self.reach(Edge::new(start, number, NONE, item.whole), source, meter)?;
            }
            // No item has these positions, see `Plan::past_marks`.
            Position::Open { .. } | Position::Close { .. } => {}
            Position::Rounds {
                rule, minimum, maximum, ..
            } => {
                if item.count < *maximum || *maximum == UNBOUNDED {
                    let call = self.called(*rule, number, source, meter)?;
                    let rule = &source.plan.rules[*rule as usize];
                    if item.count < *minimum && rule.nullable && !rule.cyclic {
                        let (count, detail) = (item.count + 1, OVER_NOTHING | call);
                        self.reach(
                            Edge::new(item.position, number, detail, item.whole).after(count),
                            source,
                            meter,
                        )?;
                    }
                }
                if item.count >= *minimum {
                    self.reach(Edge::new(END, number, NONE, item.whole), source, meter)?;
                }
            }
            Position::Choose { list, first, .. } => {
                let list = &source.plan.members[*list as usize];
                for way in self.memories.choices(list, item.count, meter)?.to_vec() {
                    self.called(first + way, number, source, meter)?;
                }
            }
            Position::Came { list, separator } => {
                let list = &source.plan.members[*list as usize];
                if !self.memories.choices(list, item.count, meter)?.is_empty() {
                    let edge = Edge::new(*separator, number, 0, item.whole).after(item.count);
                    self.reach(edge, source, meter)?;
                }
                if self.memories.may_end(list, item.count, meter)? {
                    self.reach(Edge::new(END, number, 1, item.whole), source, meter)?;
                }
            }
        }
        Ok(())
    }

    /// Return the call of a rule that an item makes in the last column.
    fn called(&mut self, rule: u32, caller: u32, source: Source, meter: &mut Meter) -> Outcome<u32> {
        let (column, known) = self.latest[rule as usize];
        let call = match column == self.tree.column() {
            true => known,
            false => self.call(rule, source, meter)?,
        };
        self.callers.push(Caller {
            item: caller,
            previous: self.tree.calls[call as usize].callers,
        });
        self.tree.calls[call as usize].callers = self.callers.len() as u32;
        for index in 0..self.empties.len() {
            let (ended, number) = self.empties[index];
            if ended == call && !self.tree.items[number as usize].is_replaced {
                self.go_back(caller, number, source, meter)?;
            }
            meter.work(1)?;
        }
        Ok(call)
    }

    fn call(&mut self, rule: u32, source: Source, meter: &mut Meter) -> Outcome<u32> {
        meter.work(ITEM_COST)?;
        let number = number_of(self.tree.calls.len())?;
        self.tree.calls.push(Call {
            rule,
            column: self.tree.column(),
            callers: 0,
            empty: NONE,
        });
        self.latest[rule as usize] = (self.tree.column(), number);
        let edge = Edge::new(source.plan.rules[rule as usize].start, NONE, NONE, 0);
        let edge = edge.in_column(self.tree.column(), source.plan);
        if self.goes_on(number, edge.position, source, meter)? {
            self.add(number, edge, source, meter)?;
        }
        Ok(number)
    }

    /// End a call that is complete: its callers continue.
    fn end(&mut self, number: u32, source: Source, meter: &mut Meter) -> Outcome<()> {
        let call_number = self.tree.items[number as usize].call;
        let column = self.tree.column();
        let call = &mut self.tree.calls[call_number as usize];
        if call_number == 0 {
            self.complete = number;
        }
        if call.column == column {
            if !source.plan.rules[call.rule as usize].cyclic {
                // The callers of this call have already skipped it.
                call.empty = number;
                return Ok(());
            }
            self.empties.push((call_number, number));
        }
        let mut next = self.tree.calls[call_number as usize].callers;
        while let Some(edge) = next.checked_sub(1).map(|index| &self.callers[index as usize]) {
            next = edge.previous;
            self.go_back(edge.item, number, source, meter)?;
        }
        Ok(())
    }

    /// Continue a caller after the call that it made has ended.
    fn go_back(&mut self, caller: u32, ended: u32, source: Source, meter: &mut Meter) -> Outcome<()> {
        meter.work(1)?;
        let item = self.tree.items[caller as usize];
        if item.is_replaced {
            return Ok(());
        }
        let around = &self.tree.calls[item.call as usize];
        let Item { whole: inner, call, .. } = self.tree.items[ended as usize];
        let is_first = item.column == around.column;
        let is_empty = item.column == self.tree.column();
        let whole = match (source.plan.rules[around.rule as usize].cyclic, is_first, is_empty) {
            (true, true, true) => self.sets.union(item.whole, inner),
            (true, false, true) => item.whole,
            (true, true, false) => inner,
            _ => 0,
        };
        match *source.plan.position(item.position) {
            Position::Call { next, .. } => self.reach(Edge::new(next, caller, ended, whole), source, meter),
            Position::Rounds { minimum, maximum, .. } => {
                if is_empty && item.count >= minimum {
                    return Ok(());
                }
                let count = match maximum {
                    UNBOUNDED => (item.count + 1).min(minimum),
                    _ => item.count + 1,
                };
                self.reach(
                    Edge::new(item.position, caller, ended, whole).after(count),
                    source,
                    meter,
                )
            }
            Position::Choose { list, first, next } => {
                let ended_call = &self.tree.calls[call as usize];
                let way = ended_call.rule - first;
                let text = self.tree.steps[ended_call.column as usize..].iter().copied();
                let list = &source.plan.members[list as usize];
                match self.memories.after(list, item.count, way, text, meter)? {
                    Some(count) => self.reach(Edge::new(next, caller, ended, whole).after(count), source, meter),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// End a terminal that an item began, in the last column.
    fn end_terminal(&mut self, item: u32, source: Source, meter: &mut Meter) -> Outcome<()> {
        let Item { position, count, .. } = self.tree.items[item as usize];
        match *source.plan.position(position) {
            Position::Terminal { next, .. } => self.reach(Edge::new(next, item, NONE, 0).after(count), source, meter),
            _ => Ok(()),
        }
    }

    /// Add or improve the item of a position that is reached in the last column from an item of the same call.
    fn reach(&mut self, edge: Edge, source: Source, meter: &mut Meter) -> Outcome<()> {
        let mut edge = edge.in_column(self.tree.column(), source.plan);
        let call = self.tree.items[edge.parent as usize].call;
        if !self.goes_on(call, edge.position, source, meter)? {
            return Ok(());
        }
        if edge.position == END {
            edge.count = 0;
            let number = self.tree.calls[call as usize].rule;
            let rule = &source.plan.rules[number as usize];
            if !rule.cyclic {
                edge.whole = 0;
            } else if rule.named {
                match self.sets.with(edge.whole, number) {
                    Some(more) => edge.whole = more,
                    None => return Ok(()),
                }
            }
        }
        let Some(number) = self.find(edge, call, meter)? else {
            return self.add(call, edge, source, meter);
        };
        let known = self.tree.items[number as usize];
        if (known.parent, known.detail) == (edge.parent, edge.detail) {
            return Ok(());
        }
        self.tree.complete_forest();
        let order = self
            .preference
            .of_edges(&self.tree, edge, known.edge(), source, meter)?;
        if order != Ordering::Less {
            return Ok(());
        }
        // Items that were derived from the replaced item are replaced in turn, when they are reached from this one.
        self.tree.items[number as usize].is_replaced = true;
        self.add(call, edge, source, meter)
    }

    /// Return whether a position in a call may continue with the next byte; record that we skip it otherwise.
    fn goes_on(&mut self, call: u32, position: u32, source: Source, meter: &mut Meter) -> Outcome<bool> {
        let Some(ahead) = self.ahead else {
            return Ok(true);
        };
        let goes_on = match *source.plan.position(position) {
            Position::Terminal {
                node, nullable: false, ..
            } => {
                meter.work(1)?;
                source.first_bytes(node, meter)?.contains(ahead)
            }
            Position::Token { .. } => false,
            Position::End => call != 0,
            _ => true,
        };
        self.left_out |= !goes_on;
        Ok(goes_on)
    }

    fn add(&mut self, call: u32, edge: Edge, source: Source, meter: &mut Meter) -> Outcome<()> {
        meter.work(ITEM_COST)?;
        let number = self.tree.add(call, edge)?;
        self.agenda.push(self.priority(number, source));
        Ok(())
    }

    fn priority(&self, number: u32, source: Source) -> Priority {
        let item = self.tree.items[number as usize];
        let call = &self.tree.calls[item.call as usize];
        let rank = match item.position {
            END => source.plan.rules[call.rule as usize].end_rank,
            position => source.plan.ranks[position as usize],
        };
        (call.column, u32::MAX - rank, u32::MAX - item.count, number)
    }

    /// Find the item of the last column that an edge leads to.
    fn find(&mut self, edge: Edge, call: u32, meter: &mut Meter) -> Outcome<Option<u32>> {
        let items = &self.tree.items[self.tree.first..];
        if items.len() <= LINEAR_ITEMS {
            let key = edge.key(call);
            let same = |item: &Item| !item.is_replaced && item.edge().key(item.call) == key;
            return Ok(items
                .iter()
                .position(same)
                .map(|index| (self.tree.first + index) as u32));
        }
        // The map lags behind the items; add the ones that it lacks.
        for (index, item) in items.iter().enumerate().skip(self.items_in_map) {
            meter.work(1)?;
            self.known
                .insert(item.edge().key(item.call), (self.tree.first + index) as u32);
        }
        self.items_in_map = items.len();
        Ok(self.known.get(&edge.key(call)).copied())
    }

    /// Add a terminal that continues. Of two threads that differ only in their beginning, keep the preferred one.
    fn add_thread(&mut self, thread: Thread, source: Source, meter: &mut Meter) -> Outcome<()> {
        meter.work(1)?;
        let own = self.tree.items[thread.item as usize];
        let key = (thread.state, own.position, own.call, own.count);
        let latest = self.latest_thread(key);
        let mut same = latest;
        if same.is_some() {
            self.tree.complete_forest();
        }
        while let Some(index) = same {
            let other = self.threads[index];
            meter.work(1)?;
            match self
                .preference
                .of_threads(&self.tree, thread.item, other.item, source, meter)?
            {
                Some(Ordering::Less) => {
                    self.threads[index].item = thread.item;
                    return Ok(());
                }
                Some(_) => return Ok(()),
                None => same = other.previous.checked_sub(1).map(|index| index as usize),
            }
        }
        meter.work(ITEM_COST)?;
        let previous = latest.map_or(0, |index| index as u32 + 1);
        self.threads.push(Thread { previous, ..thread });
        Ok(())
    }

    /// Return the index of the last of the threads that agree in state, position, call and count.
    fn latest_thread(&mut self, key: (Term, u32, u32, u32)) -> Option<usize> {
        let key_of = |thread: &Thread| {
            let item = self.tree.items[thread.item as usize];
            (thread.state, item.position, item.call, item.count)
        };
        if self.threads.len() <= LINEAR_ITEMS {
            return self.threads.iter().rposition(|thread| key_of(thread) == key);
        }
        for (index, thread) in self.threads.iter().enumerate().skip(self.threads_in_map) {
            self.known_threads.insert(key_of(thread), index);
        }
        self.threads_in_map = self.threads.len();
        self.known_threads.get(&key).copied()
    }
}
