//! Parsing with captures: Earley's algorithm, in which each item keeps the preferred one of its derivations.
//!
//! A derivation is the list of its choices, read from the left; of two the one that comes first in the order of the
//! alternatives is preferred. An item stands for a position in the body of a call, and what it may go on with depends
//! neither on who called nor on how it was reached: so the derivation that is preferred from the beginning of the call up
//! to the item is part of the preferred parse, if the item is. The items of one call form a tree, in which each hangs on
//! the one before it; two derivations are compared where their ways in the tree part.
//!
//! Where a rule may derive itself over the same text, only derivations count in which it does not: an item then also
//! stands for the rules that have derived, alone, all that there is of the call so far.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::hash::{FastMap, Interner};
use crate::lexicon::Lexicon;
use crate::limits::{Fault, Limit, Meter, Outcome};
use crate::positions::{Plan, Position, END, START};
use crate::term::{Term, EMPTY, NOTHING, UNBOUNDED};
use crate::terminal_order::{Orders, Preferred, Question};
use crate::written::Written;

/// What texts are parsed with.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub written: &'a Written,
    pub plan: &'a Plan,
    pub lexicon: &'a Lexicon,
    pub preferred: &'a [Preferred],
}

const NONE: u32 = u32::MAX;
/// In the place of an item that ends a call: the call of this number, over no text at all.
const OVER_NOTHING: u32 = 1 << 31;
/// What the making of an item, a call or a thread costs, for the bytes that it takes.
const COST: usize = 4;
/// A step that is no byte.
const NO_BYTE: u16 = u16::MAX;
/// The items of a column are searched one by one up to so many.
const FEW: usize = 12;

/// A place in the body of a call, reached in a column.
#[derive(Clone, Copy)]
struct Item {
    position: u32,
    /// How many rounds of a repeat came before, as far as it matters.
    count: u32,
    call: u32,
    column: u32,
    /// The item before it in the preferred derivation, by whose position it is known how it was reached.
    parent: u32,
    /// The item that ended a call; the index of an alternative.
    detail: u32,
    /// How many items come before, and one of them further ahead.
    depth: u32,
    jump: u32,
    /// The set of rules that have derived all of the call so far, as far as they may derive themselves.
    whole: u32,
    /// Whether a better one has taken its place.
    is_replaced: bool,
}

/// A call of a rule in a column.
struct Call {
    rule: u32,
    column: u32,
    /// The last one of those who called, plus one.
    callers: u32,
    /// The item that ends it in its own column, unless there may be several.
    empty: u32,
}

struct Caller {
    item: u32,
    previous: u32,
}

/// A terminal under way since an item.
#[derive(Clone, Copy)]
struct Thread {
    state: Term,
    item: u32,
    /// The one before it that agrees in all but the item, plus one.
    previous: u32,
}

/// A way to reach an item.
#[derive(Clone, Copy)]
struct Edge {
    position: u32,
    count: u32,
    column: u32,
    parent: u32,
    detail: u32,
    whole: u32,
}

/// A capture that opens, by its name's number, or closes; in steps, then in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    pub name: Option<u32>,
    pub offset: u32,
}

pub struct Derivations {
    steps: Vec<u16>,
    items: Vec<Item>,
    calls: Vec<Call>,
    callers: Vec<Caller>,
    /// The terminals under way in the last column, and the items that wait for a token.
    threads: Vec<Thread>,
    tokens: Vec<u32>,
    /// The first item of the last column, and its items where they are many.
    first: usize,
    known: FastMap<(u32, u32, u32, u32), u32>,
    items_in_map: usize,
    /// The same of the threads, as many as are in it.
    known_threads: FastMap<(Term, u32, u32), usize>,
    threads_in_map: usize,
    /// For each rule the column of its latest call, and that call.
    latest: Vec<(u32, u32)>,
    /// Items still to be followed: those of late calls first, then in the order of ranks and counts.
    agenda: BinaryHeap<(u32, u32, u32, u32)>,
    begun: Vec<u32>,
    /// The calls of rules that may derive themselves, with the items that end them in the last column, where they began.
    empties: Vec<(u32, u32)>,
    sets: Sets,
    /// Which of two items that end a call is preferred.
    compared: FastMap<(u32, u32), Ordering>,
    orders: Orders,
    /// The item that ends the whole text, in the last column.
    complete: u32,
}

impl Derivations {
    /// The empty text.
    pub fn new(source: Source, meter: &mut Meter) -> Outcome<Self> {
        let mut derivations = Derivations {
            steps: Vec::new(),
            items: Vec::new(),
            calls: Vec::new(),
            callers: Vec::new(),
            threads: Vec::new(),
            tokens: Vec::new(),
            first: 0,
            known: FastMap::default(),
            items_in_map: 0,
            known_threads: FastMap::default(),
            threads_in_map: 0,
            latest: vec![(NONE, NONE); source.plan.rules.len()],
            agenda: BinaryHeap::new(),
            begun: Vec::new(),
            empties: Vec::new(),
            sets: Sets::new(),
            compared: FastMap::default(),
            orders: Orders::new(),
            complete: NONE,
        };
        derivations.call(START, source, meter)?;
        derivations.close(source, meter)?;
        Ok(derivations)
    }

    /// Append a byte; false if nothing goes on with it.
    pub fn push_byte(&mut self, byte: u8, source: Source, meter: &mut Meter) -> Outcome<bool> {
        let threads = self.open_column(u16::from(byte));
        meter.work(threads.len() + 1)?;
        for thread in threads {
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
        self.close(source, meter)?;
        Ok(self.is_alive())
    }

    /// Append a token that the grammar names; false if nothing goes on with it.
    pub fn push_token(&mut self, token: u32, source: Source, meter: &mut Meter) -> Outcome<bool> {
        let waiting = std::mem::take(&mut self.tokens);
        self.open_column(NO_BYTE);
        for item in waiting {
            meter.work(1)?;
            if let Position::Token { token: own, next } = *source.plan.position(self.items[item as usize].position) {
                if own == token {
                    self.reach(Edge::new(next, item, NONE, 0), source, meter)?;
                }
            }
        }
        self.close(source, meter)?;
        Ok(self.is_alive())
    }

    /// Whether the text is complete.
    pub fn is_complete(&self) -> bool {
        self.complete != NONE
    }

    /// Whether anything may follow.
    pub fn may_go_on(&self) -> bool {
        !self.threads.is_empty() || !self.tokens.is_empty()
    }

    fn is_alive(&self) -> bool {
        self.is_complete() || self.may_go_on()
    }

    /// The captures of the preferred parse of the text, which is complete; offsets count bytes.
    pub fn marks(&self, source: Source, meter: &mut Meter) -> Outcome<Vec<Mark>> {
        let mut marks = Vec::new();
        let mut stack = vec![self.complete];
        // From the end to the beginning, and in a call that is met there before what comes before it.
        while let Some(number) = stack.pop() {
            meter.work(1)?;
            let Some(item) = self.items.get(number as usize) else {
                continue;
            };
            let Some(parent) = self.items.get(item.parent as usize) else {
                continue;
            };
            stack.push(item.parent);
            match source.plan.position(parent.position) {
                Position::Open { name, .. } => marks.push(Mark {
                    name: Some(*name),
                    offset: parent.column,
                }),
                Position::Close { .. } => marks.push(Mark {
                    name: None,
                    offset: parent.column,
                }),
                Position::Call { rule, .. } | Position::Rounds { rule, .. }
                    if item.detail != NONE && source.plan.rules[*rule as usize].captures =>
                {
                    stack.push(self.end_of(item.detail));
                }
                _ => {}
            }
        }
        marks.reverse();
        self.count_bytes(&mut marks);
        Ok(marks)
    }

    /// From steps to bytes.
    fn count_bytes(&self, marks: &mut [Mark]) {
        if !self.steps.contains(&NO_BYTE) {
            return;
        }
        let mut offsets = vec![0];
        for step in &self.steps {
            offsets.push(offsets[offsets.len() - 1] + u32::from(*step != NO_BYTE));
        }
        marks
            .iter_mut()
            .for_each(|mark| mark.offset = offsets[mark.offset as usize]);
    }

    // --- one column ---------------------------------------------------------------------------------------------

    fn column(&self) -> u32 {
        self.steps.len() as u32
    }

    fn open_column(&mut self, step: u16) -> Vec<Thread> {
        self.steps.push(step);
        self.first = self.items.len();
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
        std::mem::take(&mut self.threads)
    }

    /// Follow everything that takes no byte.
    fn close(&mut self, source: Source, meter: &mut Meter) -> Outcome<()> {
        while let Some((_, _, _, number)) = self.agenda.pop() {
            meter.work(1)?;
            self.follow(number, source, meter)?;
        }
        for number in std::mem::take(&mut self.begun) {
            let item = self.items[number as usize];
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
        Ok(())
    }

    fn follow(&mut self, number: u32, source: Source, meter: &mut Meter) -> Outcome<()> {
        let item = self.items[number as usize];
        if item.is_replaced {
            return Ok(());
        }
        match source.plan.position(item.position) {
            Position::End => return self.end(number, source, meter),
            Position::Terminal { nullable, next, .. } => {
                self.begun.push(number);
                if *nullable {
                    self.reach(Edge::new(*next, number, NONE, item.whole), source, meter)?;
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
            Position::Jump(rule) => {
                let start = source.plan.rules[*rule as usize].start;
                self.reach(Edge::new(start, number, NONE, item.whole), source, meter)?;
            }
            Position::Split(places) => {
                for (index, place) in places.iter().enumerate() {
                    self.reach(Edge::new(*place, number, index as u32, item.whole), source, meter)?;
                }
            }
            Position::Open { next, .. } | Position::Close { next } => {
                self.reach(Edge::new(*next, number, NONE, item.whole), source, meter)?;
            }
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
        }
        Ok(())
    }

    /// The call of a rule in the last column by an item.
    fn called(&mut self, rule: u32, caller: u32, source: Source, meter: &mut Meter) -> Outcome<u32> {
        let (column, known) = self.latest[rule as usize];
        let call = match column == self.column() {
            true => known,
            false => self.call(rule, source, meter)?,
        };
        self.callers.push(Caller {
            item: caller,
            previous: self.calls[call as usize].callers,
        });
        self.calls[call as usize].callers = self.callers.len() as u32;
        for index in 0..self.empties.len() {
            let (ended, number) = self.empties[index];
            if ended == call && !self.items[number as usize].is_replaced {
                self.go_back(caller, number, source, meter)?;
            }
            meter.work(1)?;
        }
        Ok(call)
    }

    fn call(&mut self, rule: u32, source: Source, meter: &mut Meter) -> Outcome<u32> {
        meter.work(COST)?;
        let number = number_of(self.calls.len())?;
        self.calls.push(Call {
            rule,
            column: self.column(),
            callers: 0,
            empty: NONE,
        });
        self.latest[rule as usize] = (self.column(), number);
        let mut edge = Edge::new(source.plan.rules[rule as usize].start, NONE, NONE, 0);
        edge.column = self.column();
        self.add(number, edge, source, meter)?;
        Ok(number)
    }

    /// A call is complete: go on where it was made.
    fn end(&mut self, number: u32, source: Source, meter: &mut Meter) -> Outcome<()> {
        let call_number = self.items[number as usize].call;
        let call = &mut self.calls[call_number as usize];
        if call_number == 0 {
            self.complete = number;
        }
        if call.column == self.steps.len() as u32 {
            if !source.plan.rules[call.rule as usize].cyclic {
                // Its callers have passed over it already.
                call.empty = number;
                return Ok(());
            }
            self.empties.push((call_number, number));
        }
        let mut next = self.calls[call_number as usize].callers;
        while let Some(edge) = next.checked_sub(1).map(|index| &self.callers[index as usize]) {
            next = edge.previous;
            self.go_back(edge.item, number, source, meter)?;
        }
        Ok(())
    }

    /// Go on after a call that has ended.
    fn go_back(&mut self, caller: u32, ended: u32, source: Source, meter: &mut Meter) -> Outcome<()> {
        meter.work(1)?;
        let item = self.items[caller as usize];
        if item.is_replaced {
            return Ok(());
        }
        let around = &self.calls[item.call as usize];
        let inner = self.items[ended as usize].whole;
        let is_first = item.column == around.column;
        let is_empty = item.column == self.column();
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
            _ => Ok(()),
        }
    }

    /// The terminal that an item began ends in the last column.
    fn end_terminal(&mut self, item: u32, source: Source, meter: &mut Meter) -> Outcome<()> {
        match *source.plan.position(self.items[item as usize].position) {
            Position::Terminal { next, .. } => self.reach(Edge::new(next, item, NONE, 0), source, meter),
            _ => Ok(()),
        }
    }

    /// A position is reached in the last column, from an item of the same call.
    fn reach(&mut self, mut edge: Edge, source: Source, meter: &mut Meter) -> Outcome<()> {
        let call = self.items[edge.parent as usize].call;
        edge.column = self.column();
        if edge.position == END {
            let number = self.calls[call as usize].rule;
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
        let known = self.items[number as usize];
        if (known.parent, known.detail) == (edge.parent, edge.detail)
            || self.compare_edges(edge, known.edge(), source, meter)? != Ordering::Less
        {
            return Ok(());
        }
        // What hangs on the other one will be replaced when it is reached from here.
        self.items[number as usize].is_replaced = true;
        self.add(call, edge, source, meter)
    }

    fn add(&mut self, call: u32, edge: Edge, source: Source, meter: &mut Meter) -> Outcome<()> {
        meter.work(COST)?;
        let number = number_of(self.items.len())?;
        let item = self.item(call, edge);
        self.items.push(item);
        self.agenda.push(self.priority(number, source));
        Ok(())
    }

    fn item(&self, call: u32, edge: Edge) -> Item {
        // Jumps are as in a skew-binary list (Myers 1983): the ways to any ancestor are short.
        let (depth, jump) = match self.items.get(edge.parent as usize) {
            None => (0, NONE),
            Some(parent) => {
                let far = self.items.get(parent.jump as usize);
                let depth_of = |item: Option<&Item>| item.map_or(0, |item| item.depth);
                let farther = far.map_or(NONE, |far| far.jump);
                let even = far.is_some()
                    && parent.depth - depth_of(far) == depth_of(far) - depth_of(self.items.get(farther as usize));
                (
                    parent.depth + 1,
                    if even && farther != NONE { farther } else { edge.parent },
                )
            }
        };
        Item {
            position: edge.position,
            count: edge.count,
            call,
            column: edge.column,
            parent: edge.parent,
            detail: edge.detail,
            depth,
            jump,
            whole: edge.whole,
            is_replaced: false,
        }
    }

    fn priority(&self, number: u32, source: Source) -> (u32, u32, u32, u32) {
        let item = self.items[number as usize];
        let call = &self.calls[item.call as usize];
        let rank = match item.position {
            END => source.plan.rules[call.rule as usize].end_rank,
            position => source.plan.ranks[position as usize],
        };
        (call.column, u32::MAX - rank, u32::MAX - item.count, number)
    }

    /// The item of the last column at a place.
    fn find(&mut self, edge: Edge, call: u32, meter: &mut Meter) -> Outcome<Option<u32>> {
        let items = &self.items[self.first..];
        if items.len() <= FEW {
            let key = edge.key(call);
            let same = |item: &Item| !item.is_replaced && item.edge().key(item.call) == key;
            return Ok(items.iter().position(same).map(|index| (self.first + index) as u32));
        }
        // The map lags behind the items: those that are not in it yet are put in now.
        for (index, item) in items.iter().enumerate().skip(self.items_in_map) {
            meter.work(1)?;
            self.known
                .insert(item.edge().key(item.call), (self.first + index) as u32);
        }
        self.items_in_map = items.len();
        Ok(self.known.get(&edge.key(call)).copied())
    }

    /// A terminal goes on. Of two that agree in all but their beginning, the preferred one stays.
    fn add_thread(&mut self, thread: Thread, source: Source, meter: &mut Meter) -> Outcome<()> {
        meter.work(1)?;
        let own = self.items[thread.item as usize];
        let key = (thread.state, own.position, own.call);
        let mut same = self.latest_thread(key);
        while let Some(index) = same {
            let other = self.threads[index];
            meter.work(1)?;
            match self.compare_threads(thread.item, other.item, source, meter)? {
                Some(Ordering::Less) => {
                    self.threads[index].item = thread.item;
                    return Ok(());
                }
                Some(_) => return Ok(()),
                None => same = other.previous.checked_sub(1).map(|index| index as usize),
            }
        }
        meter.work(COST)?;
        let previous = self.latest_thread(key).map_or(0, |index| index as u32 + 1);
        self.threads.push(Thread { previous, ..thread });
        Ok(())
    }

    /// The last one of the threads that agree in state, position and call.
    fn latest_thread(&mut self, key: (Term, u32, u32)) -> Option<usize> {
        let key_of = |thread: &Thread| {
            let item = self.items[thread.item as usize];
            (thread.state, item.position, item.call)
        };
        if self.threads.len() <= FEW {
            return self.threads.iter().rposition(|thread| key_of(thread) == key);
        }
        for (index, thread) in self.threads.iter().enumerate().skip(self.threads_in_map) {
            self.known_threads.insert(key_of(thread), index);
        }
        self.threads_in_map = self.threads.len();
        self.known_threads.get(&key).copied()
    }

    // --- comparing derivations ----------------------------------------------------------------------------------

    /// The item that ends a call.
    fn end_of(&self, detail: u32) -> u32 {
        match detail & OVER_NOTHING {
            0 => detail,
            _ => self.calls[(detail ^ OVER_NOTHING) as usize].empty,
        }
    }

    /// Which of two terminals under way is preferred, whatever follows; None where that depends on where they end.
    fn compare_threads(
        &mut self,
        one: u32,
        other: u32,
        source: Source,
        meter: &mut Meter,
    ) -> Outcome<Option<Ordering>> {
        if one == other {
            return Ok(Some(Ordering::Equal));
        }
        let (parent, first, second) = self.parting(one, other, meter)?;
        if let (Some(first), Some(second)) = (first, second) {
            let (first, second) = (self.items[first as usize].edge(), self.items[second as usize].edge());
            return self.compare_steps(parent, first, second, source, meter).map(Some);
        }
        // One began earlier, and the other one after an earlier end of the same terminal.
        let Position::Terminal { node, .. } = *source.plan.position(self.items[parent as usize].position) else {
            return Ok(None);
        };
        Ok(match (source.preferred[node as usize], first.is_none()) {
            (Preferred::Longest, true) | (Preferred::Shortest, false) => Some(Ordering::Less),
            (Preferred::Longest, false) | (Preferred::Shortest, true) => Some(Ordering::Greater),
            (Preferred::Ordered, _) => None,
        })
    }

    /// Which of two ways to one item is preferred.
    fn compare_edges(&mut self, one: Edge, other: Edge, source: Source, meter: &mut Meter) -> Outcome<Ordering> {
        if one.parent == other.parent {
            return self.compare_steps(one.parent, one, other, source, meter);
        }
        let (parent, first, second) = self.parting(one.parent, other.parent, meter)?;
        let first = first.map_or(one, |item| self.items[item as usize].edge());
        let second = second.map_or(other, |item| self.items[item as usize].edge());
        self.compare_steps(parent, first, second, source, meter)
    }

    /// Which of two steps from one item is preferred.
    fn compare_steps(
        &mut self,
        mut parent: u32,
        mut one: Edge,
        mut other: Edge,
        source: Source,
        meter: &mut Meter,
    ) -> Outcome<Ordering> {
        let mut asked = Vec::new();
        let order = loop {
            meter.work(1)?;
            let from = self.items[parent as usize];
            match *source.plan.position(from.position) {
                Position::Split(_) => break one.detail.cmp(&other.detail),
                Position::Terminal { node, .. } => {
                    break match source.preferred[node as usize] {
                        Preferred::Longest => other.column.cmp(&one.column),
                        Preferred::Shortest => one.column.cmp(&other.column),
                        Preferred::Ordered => {
                            let asked = Question {
                                node,
                                start: from.column,
                                one: one.column,
                                other: other.column,
                            };
                            let (written, lexicon) = (source.written, source.lexicon);
                            self.orders.compare(&asked, &self.steps, written, lexicon, meter)?
                        }
                    };
                }
                Position::Rounds { greedy, .. } if (one.detail == NONE) != (other.detail == NONE) => {
                    break match (one.detail == NONE) == greedy {
                        true => Ordering::Greater,
                        false => Ordering::Less,
                    };
                }
                Position::Call { .. } | Position::Rounds { .. } => {
                    let (first, second) = (self.end_of(one.detail), self.end_of(other.detail));
                    if first == second || first == NONE || second == NONE {
                        break Ordering::Equal;
                    }
                    if let Some(known) = self.compared.get(&(first, second)) {
                        break *known;
                    }
                    // Items of the last column may still become better.
                    if first.max(second) < self.first as u32 {
                        asked.push((first, second));
                    }
                    let (above, first, second) = self.parting(first, second, meter)?;
                    let (Some(first), Some(second)) = (first, second) else {
                        break Ordering::Equal;
                    };
                    parent = above;
                    one = self.items[first as usize].edge();
                    other = self.items[second as usize].edge();
                }
                _ => break Ordering::Equal,
            }
        };
        meter.work(4 * COST * asked.len())?;
        self.compared.extend(asked.into_iter().map(|pair| (pair, order)));
        Ok(order)
    }

    /// Where the ways to two items of one call part: the last item that they share, and the next one on each way, unless
    /// that item is the end of the way.
    fn parting(&self, one: u32, other: u32, meter: &mut Meter) -> Outcome<(u32, Option<u32>, Option<u32>)> {
        let (one_depth, other_depth) = (self.items[one as usize].depth, self.items[other as usize].depth);
        let depth = one_depth.min(other_depth);
        let (mut first, mut second) = (self.ancestor(one, depth, meter)?, self.ancestor(other, depth, meter)?);
        if first == second {
            let mut next = |item: u32, own: u32| match own > depth {
                true => self.ancestor(item, depth + 1, meter).map(Some),
                false => Ok(None),
            };
            return Ok((first, next(one, one_depth)?, next(other, other_depth)?));
        }
        loop {
            meter.work(1)?;
            let (left, right) = (self.items[first as usize], self.items[second as usize]);
            if left.parent == right.parent {
                return Ok((left.parent, Some(first), Some(second)));
            }
            (first, second) = match left.jump == right.jump {
                true => (left.parent, right.parent),
                false => (left.jump, right.jump),
            };
        }
    }

    fn ancestor(&self, mut item: u32, depth: u32, meter: &mut Meter) -> Outcome<u32> {
        loop {
            let here = self.items[item as usize];
            if here.depth <= depth {
                return Ok(item);
            }
            meter.work(1)?;
            let jump_depth = self.items[here.jump as usize].depth;
            item = if jump_depth >= depth { here.jump } else { here.parent };
        }
    }
}

impl Item {
    fn edge(&self) -> Edge {
        Edge {
            position: self.position,
            count: self.count,
            column: self.column,
            parent: self.parent,
            detail: self.detail,
            whole: self.whole,
        }
    }
}

impl Edge {
    /// To a position in the last column, without a count.
    fn new(position: u32, parent: u32, detail: u32, whole: u32) -> Self {
        Edge {
            position,
            count: 0,
            column: NONE,
            parent,
            detail,
            whole,
        }
    }

    /// The same after so many rounds.
    fn after(self, count: u32) -> Self {
        Edge { count, ..self }
    }

    /// What makes the items of one column different.
    fn key(&self, call: u32) -> (u32, u32, u32, u32) {
        (self.position, call, self.count, self.whole)
    }
}

/// Sets of rules by number; the empty one is 0.
struct Sets {
    sets: Interner<Box<[u32]>>,
}

impl Sets {
    fn new() -> Self {
        let mut sets = Interner::new();
        sets.intern(Box::default());
        Sets { sets }
    }

    /// A set with one more rule; None if it is there already.
    fn with(&mut self, set: u32, rule: u32) -> Option<u32> {
        let rules = self.sets.get(set);
        let place = rules.binary_search(&rule).err()?;
        let mut more = rules.to_vec();
        more.insert(place, rule);
        Some(self.sets.intern(more.into()).0)
    }

    fn union(&mut self, one: u32, other: u32) -> u32 {
        if one == other || other == 0 {
            return one;
        }
        let mut rules = [self.sets.get(one).as_ref(), self.sets.get(other).as_ref()].concat();
        rules.sort_unstable();
        rules.dedup();
        self.sets.intern(rules.into()).0
    }
}

/// The number of a new item or call.
fn number_of(count: usize) -> Outcome<u32> {
    match u32::try_from(count) {
        Ok(number) if number < OVER_NOTHING => Ok(number),
        _ => Err(Fault::Limit(Limit::Work)),
    }
}
