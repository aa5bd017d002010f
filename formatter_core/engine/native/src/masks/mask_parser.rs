//! The parser: Earley's algorithm (1970) over bytes, with calls on a graph-structured stack.
//!
//! A column is the situation after a byte: the active terminals. It needs no items of earlier columns, because the
//! return points of a call are the edges of its frame. A frame is fresh if the call was made in this chart, and frozen
//! if it was made before the chart began. Nullable rules are skipped at once (Aycock & Horspool 2002), so that no call
//! returns in the column in which it was made.

use std::hash::Hash;
use std::sync::Arc;

use crate::base::hash::{FastMap, FastSet};
use crate::base::limits::{Meter, Outcome};
use crate::base::order::{pair, sort_by};
use crate::grammar::members::{Members, Memory};
use crate::grammar::network::{Network, Position, END};
use crate::grammar::regions::{entered, Deadlines};
use crate::grammar::stack::{Frame, Group, State, Thread, ROOT};
use crate::regular::term::{Term, EMPTY, NOTHING};
use crate::tokens::lexicon::Lexicon;

/// A reference to a frame, as charts use it.
#[derive(Clone, Copy)]
pub enum FrameRef<'a> {
    Frozen(&'a Arc<Group>, u32),
    /// The number of a frame of this chart.
    Fresh(u32),
}

impl FrameRef<'_> {
    #[inline]
    pub fn key(self) -> (u64, u32) {
        match self {
            FrameRef::Frozen(group, member) => (group.id, member),
            FrameRef::Fresh(number) => (u64::MAX, number),
        }
    }
}

impl Frame {
    /// Return a reference to the frame for charts.
    pub fn as_ref(&self) -> FrameRef<'_> {
        FrameRef::Frozen(&self.group, self.member)
    }
}

/// An active terminal.
#[derive(Clone, Copy)]
pub struct Active<'a> {
    pub state: Term,
    pub next: u32,
    pub frame: FrameRef<'a>,
}

/// A token that may come by its id.
#[derive(Clone, Copy)]
pub struct ActiveToken<'a> {
    pub token: u32,
    pub next: u32,
    pub frame: FrameRef<'a>,
}

/// An edge of a fresh frame; `previous` is the number of the edge before it plus one, or 0.
struct FreshEdge<'a> {
    position: u32,
    frame: FrameRef<'a>,
    previous: u32,
}

/// A frame made in this chart: for a call, for a list of members after one more member, or to merge several frames.
struct Fresh {
    rule: u32,
    last_edge: u32,
    memory: Option<Arc<Memory>>,
    /// The number of the frame's deadlines, see `Chart::deadlines`.
    regions: u32,
}

/// The number that means no deadlines.
const NO_REGIONS: u32 = 0;

/// The value of `rule` for a frame that no call has made.
const NO_RULE: u32 = u32::MAX;

/// If a column begins at this many places or more, `ALIKE_FRAMES` or more frames at the same position are merged.
const FRAMES_MERGED_FROM_PLACES: usize = 32;
const ALIKE_FRAMES: usize = 4;

/// The indices at which a column's parts begin; they end where the next column's parts begin.
#[derive(Clone, Copy, Default)]
struct Column {
    actives: usize,
    tokens: usize,
    frames: usize,
    edges: usize,
    can_stop: bool,
}

pub struct Chart<'a> {
    network: &'a Network,
    lexicon: &'a Lexicon,
    columns: Vec<Column>,
    actives: Vec<Active<'a>>,
    tokens: Vec<ActiveToken<'a>>,
    frames: Vec<Fresh>,
    edges: Vec<FreshEdge<'a>>,
    /// Places of the current column that are not processed yet.
    agenda: Vec<(u32, FrameRef<'a>)>,
    seen: SeenPlaces,
    /// The terminals that continue with the byte of the current column.
    seen_active: Seen<[u64; 3]>,
    /// `calls`: the calls of the current column by rule and regions, used if the column has many frames.
    /// `frames_in_map`: the number of its frames that are already in the map.
    calls: FastMap<(u32, u32), u32>,
    frames_in_map: usize,
    /// The deadlines of frames; the number of an entry is its index plus one.
    deadlines: Vec<Deadlines>,
    /// For frames that store a text: the frame before the byte of the current column, and the frame after it.
    written: Vec<((u64, u32), FrameRef<'a>)>,
}

impl<'a> Chart<'a> {
    /// Make a chart without columns.
    pub fn new(network: &'a Network, lexicon: &'a Lexicon) -> Self {
        Chart {
            network,
            lexicon,
            columns: Vec::with_capacity(SHORT_LIST),
            actives: Vec::with_capacity(SHORT_LIST),
            tokens: Vec::new(),
            frames: Vec::new(),
            edges: Vec::new(),
            agenda: Vec::with_capacity(SHORT_LIST),
            seen: SeenPlaces::default(),
            seen_active: Seen::default(),
            calls: FastMap::default(),
            frames_in_map: 0,
            deadlines: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Push a state as the first column.
    pub fn push_state(&mut self, state: &'a State) {
        self.push_threads(state.threads.iter());
        let tokens = state.tokens.iter().map(|thread| ActiveToken {
            token: thread.token,
            next: thread.next,
            frame: thread.frame.as_ref(),
        });
        self.tokens.extend(tokens);
        self.current().can_stop = state.can_stop;
    }

    /// Push some threads of a state as the first column.
    pub fn push_threads(&mut self, threads: impl Iterator<Item = &'a Thread>) {
        self.open_column();
        self.actives.extend(threads.map(|thread| Active {
            state: thread.state,
            next: thread.next,
            frame: thread.frame.as_ref(),
        }));
    }

    /// Push a column that begins at these places.
    pub fn push_places(
        &mut self,
        places: impl Iterator<Item = (u32, FrameRef<'a>)>,
        meter: &mut Meter,
    ) -> Outcome<bool> {
        self.open_column();
        self.agenda.extend(places);
        self.close(meter)?;
        Ok(self.is_alive())
    }

    /// Push a column for one more byte; return false if the byte is not allowed.
    pub fn push_byte(&mut self, byte: u8, meter: &mut Meter) -> Outcome<bool> {
        let range = self.column_actives();
        self.open_column();
        meter.work(range.len() + 1)?;
        for index in range {
            let mut active = self.actives[index];
            let step = self.lexicon.step(active.state, byte, meter)?;
            if step.state == NOTHING {
                continue;
            }
            if self.network.keeps_text(active.next) {
                active.frame = self.with_byte(active.frame, byte, meter)?;
            }
            if step.state != EMPTY {
                self.add_active(Active {
                    state: step.state,
                    ..active
                });
            }
            if step.accepts {
                self.agenda.push((active.next, active.frame));
            }
        }
        self.close(meter)?;
        Ok(self.is_alive())
    }

    /// Add to the last column what may begin at these places.
    pub fn extend_places(
        &mut self,
        places: impl Iterator<Item = (u32, FrameRef<'a>)>,
        meter: &mut Meter,
    ) -> Outcome<()> {
        self.agenda.extend(places);
        self.close(meter)
    }

    /// Remove all but the first `columns` columns.
    pub fn truncate(&mut self, columns: usize) {
        if let Some(first) = self.columns.get(columns) {
            self.actives.truncate(first.actives);
            self.tokens.truncate(first.tokens);
            self.frames.truncate(first.frames);
            self.edges.truncate(first.edges);
            self.columns.truncate(columns);
        }
    }

    /// Return whether the text so far is a prefix of a complete text.
    pub fn is_alive(&self) -> bool {
        self.can_stop() || !self.column_actives().is_empty() || !self.column_tokens().is_empty()
    }

    pub fn can_stop(&self) -> bool {
        self.columns.last().is_some_and(|column| column.can_stop)
    }

    /// Return the active terminals of the last column.
    pub fn actives(&self) -> &[Active<'a>] {
        &self.actives[self.column_actives()]
    }

    /// Return the tokens that may come by id after the last column.
    pub fn active_tokens(&self) -> &[ActiveToken<'a>] {
        &self.tokens[self.column_tokens()]
    }

    /// Return the rule that a fresh frame is a call of, and the number of its deadlines.
    pub fn call_of(&self, fresh: u32) -> (u32, u32) {
        let fresh = &self.frames[fresh as usize];
        (fresh.rule, fresh.regions)
    }

    /// Return the deadlines of the regions that a fresh frame is in.
    pub fn deadlines_of(&self, fresh: u32) -> Option<&Deadlines> {
        self.deadlines
            .get((self.frames[fresh as usize].regions as usize).checked_sub(1)?)
    }

    /// Return the memory of a fresh frame, if it is a list of members.
    pub fn memory_of(&self, fresh: u32) -> Option<&Arc<Memory>> {
        self.frames[fresh as usize].memory.as_ref()
    }

    /// Return the edges of a fresh frame.
    pub fn edges_of(&self, fresh: u32) -> impl Iterator<Item = (u32, FrameRef<'a>)> + '_ {
        let mut next = self.frames[fresh as usize].last_edge;
        std::iter::from_fn(move || {
            let edge = self.edges.get(next.checked_sub(1)? as usize)?;
            next = edge.previous;
            Some((edge.position, edge.frame))
        })
    }

    /// Return the range of the frames made in each column, from the first column on.
    pub fn frames_by_column(&self) -> impl Iterator<Item = std::ops::Range<u32>> + '_ {
        let ends = self
            .columns
            .iter()
            .skip(1)
            .map(|column| column.frames)
            .chain([self.frames.len()]);
        self.columns
            .iter()
            .zip(ends)
            .map(|(column, end)| column.frames as u32..end as u32)
    }

    fn column_actives(&self) -> std::ops::Range<usize> {
        self.columns.last().map_or(0, |column| column.actives)..self.actives.len()
    }

    fn column_tokens(&self) -> std::ops::Range<usize> {
        self.columns.last().map_or(0, |column| column.tokens)..self.tokens.len()
    }

    fn open_column(&mut self) {
        self.columns.push(Column {
            actives: self.actives.len(),
            tokens: self.tokens.len(),
            frames: self.frames.len(),
            edges: self.edges.len(),
            can_stop: false,
        });
        self.agenda.clear();
        self.written.clear();
        self.seen.clear();
        self.seen_active.clear();
        if self.frames_in_map > 0 {
            self.calls = FastMap::default();
            self.frames_in_map = 0;
        }
    }

    fn current(&mut self) -> &mut Column {
        if self.columns.is_empty() {
            self.columns.push(Column::default());
        }
        let last = self.columns.len() - 1;
        &mut self.columns[last]
    }

    /// Add a terminal that continues with a byte, unless it is already there: several threads may become equal.
    fn add_active(&mut self, active: Active<'a>) {
        let (group, member) = active.frame.key();
        if self
            .seen_active
            .insert([pair(active.state, active.next), group, u64::from(member)])
        {
            self.actives.push(active);
        }
    }

    /// Merge frames at the same position if there are many places: one new frame returns to all of them.
    fn merge_places(&mut self, meter: &mut Meter) -> Outcome<()> {
        let mut places = std::mem::take(&mut self.agenda);
        meter.work(places.len())?;
        sort_by(&mut places, |(position, frame)| (u64::from(*position), frame.key()));
        places.dedup_by_key(|(position, frame)| (*position, frame.key()));
        let mut rest = &places[..];
        while let Some((position, _)) = rest.first() {
            let same = rest.iter().take_while(|(other, _)| other == position).count();
            let (run, others) = rest.split_at(same);
            rest = others;
            let number = self.frames.len() as u32;
            for place in run {
                let is_plain = self.memory(place.1).is_none() && self.regions_of(place.1) == NO_REGIONS;
                if same < ALIKE_FRAMES || !is_plain {
                    self.agenda.push(*place);
                    continue;
                }
                if self.frames.len() as u32 == number {
                    self.frames.push(Fresh {
                        rule: NO_RULE,
                        last_edge: 0,
                        memory: None,
                        regions: NO_REGIONS,
                    });
                    self.agenda.push((*position, FrameRef::Fresh(number)));
                }
                self.add_edge(number, END, place.1);
            }
        }
        Ok(())
    }

    /// Process all places, until only terminals and tokens remain.
    fn close(&mut self, meter: &mut Meter) -> Outcome<()> {
        if self.agenda.len() >= FRAMES_MERGED_FROM_PLACES {
            self.merge_places(meter)?;
        }
        while let Some((position, frame)) = self.agenda.pop() {
            if !self.seen.insert(position, frame) {
                continue;
            }
            meter.work(1)?;
            match *self.network.position(position) {
                Position::End => self.leave(frame, meter)?,
                Position::Terminal { term, nullable, next } => {
                    let state = term;
                    self.actives.push(Active { state, next, frame });
                    if nullable {
                        self.agenda.push((next, frame));
                    }
                }
                Position::Token { token, next } => self.tokens.push(ActiveToken { token, next, frame }),
                Position::Cut { next } => self.agenda.push((next, frame)),
                Position::Split(split) => {
                    let places = self.network.places(split);
                    meter.work(places.len())?;
                    self.agenda.extend(places.iter().map(|place| (*place, frame)));
                }
                Position::Distinct { term, next } => {
                    if let Some(memory) = self.memory(frame) {
                        let state = self.lexicon.without(term, &memory.seen, meter)?;
                        if state != NOTHING {
                            self.actives.push(Active { state, next, frame });
                        }
                    }
                }
                Position::Value { next, .. } => {
                    if let Some(memory) = self.memory(frame) {
                        let memory = Arc::new(memory.with_value());
                        let frame = self.with_memory(frame, memory, meter)?;
                        self.agenda.push((next, frame));
                    }
                }
                Position::Call { rule, next } => self.call(rule, next, frame),
                Position::Choose(members) => self.choose(members, frame, meter)?,
                Position::Came { members, way } => self.remember(members, way, frame, meter)?,
            }
        }
        Ok(())
    }

    /// Continue after a complete rule.
    fn leave(&mut self, frame: FrameRef<'a>, meter: &mut Meter) -> Outcome<()> {
        match frame {
            FrameRef::Frozen(group, _) if group.id == ROOT => self.current().can_stop = true,
            FrameRef::Frozen(group, member) => {
                let edges = group.edges(member);
                meter.work(edges.len())?;
                let place = |edge: &'a crate::grammar::stack::Edge| {
                    let group = edge.group.as_ref().unwrap_or(group);
                    (edge.position, FrameRef::Frozen(group, edge.member))
                };
                self.agenda.extend(edges.iter().map(place));
            }
            // The frame was made in this column, so the rule matched the empty string; its callers have already
            // continued after it. A member is never empty.
            FrameRef::Fresh(number)
                if number as usize >= self.current().frames && self.frames[number as usize].rule != NO_RULE => {}
            FrameRef::Fresh(number) => {
                let mut next = self.frames[number as usize].last_edge;
                while let Some(edge) = next.checked_sub(1).map(|index| &self.edges[index as usize]) {
                    meter.work(1)?;
                    self.agenda.push((edge.position, edge.frame));
                    next = edge.previous;
                }
            }
        }
        Ok(())
    }

    /// Return the memory of a frame, if it is a list of members.
    fn memory(&self, frame: FrameRef<'a>) -> Option<&Arc<Memory>> {
        match frame {
            FrameRef::Frozen(group, member) => group.memory(member),
            FrameRef::Fresh(number) => self.memory_of(number),
        }
    }

    /// Start the members that may come next.
    fn choose(&mut self, members: u32, frame: FrameRef<'a>, meter: &mut Meter) -> Outcome<()> {
        let list = &self.network.members[members as usize];
        let Some(memory) = self.memory(frame).cloned() else {
            return Ok(());
        };
        let choices = list.choices(&memory, meter)?;
        meter.work(choices.len())?;
        self.agenda
            .extend(choices.iter().map(|way| (list.starts[*way as usize], frame)));
        Ok(())
    }

    /// Record a complete member: the list may end, or continue with a frame that remembers the member.
    fn remember(&mut self, members: u32, way: u32, frame: FrameRef<'a>, meter: &mut Meter) -> Outcome<()> {
        let list = &self.network.members[members as usize];
        let Some(memory) = self.memory(frame) else {
            return Ok(());
        };
        let memory = Arc::new(list.after(memory, way));
        if list.may_end(&memory) {
            self.leave(frame, meter)?;
        }
        if self.may_go_on(list, &memory, meter)? {
            let frame = self.with_memory(frame, memory, meter)?;
            self.agenda.push((list.separator, frame));
        }
        Ok(())
    }

    /// Return whether another member may come.
    fn may_go_on(&self, list: &Members, memory: &Memory, meter: &mut Meter) -> Outcome<bool> {
        for way in list.choices(memory, meter)? {
            let is_possible = match *self.network.position(list.starts[*way as usize]) {
                Position::Distinct { next, .. } if self.network.is_free(next) => true,
                Position::Distinct { term, .. } => self.lexicon.without(term, &memory.seen, meter)? != NOTHING,
                _ => true,
            };
            if is_possible {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Make a frame that differs only in its memory.
    fn with_memory(&mut self, frame: FrameRef<'a>, memory: Arc<Memory>, meter: &mut Meter) -> Outcome<FrameRef<'a>> {
        let number = self.frames.len() as u32;
        let last_edge = match frame {
            FrameRef::Frozen(..) => 0,
            FrameRef::Fresh(number) => self.frames[number as usize].last_edge,
        };
        let regions = self.regions_of(frame);
        self.frames.push(Fresh {
            rule: NO_RULE,
            last_edge,
            memory: Some(memory),
            regions,
        });
        if let FrameRef::Frozen(group, member) = frame {
            let edges = group.edges(member);
            meter.work(edges.len())?;
            for edge in edges {
                let group = edge.group.as_ref().unwrap_or(group);
                self.add_edge(number, edge.position, FrameRef::Frozen(group, edge.member));
            }
        }
        Ok(FrameRef::Fresh(number))
    }

    /// Return the frame after one more byte of the text that it stores. All active terminals with the same frame share
    /// the new one.
    fn with_byte(&mut self, frame: FrameRef<'a>, byte: u8, meter: &mut Meter) -> Outcome<FrameRef<'a>> {
        let key = frame.key();
        if let Some((_, next)) = self.written.iter().find(|(known, _)| *known == key) {
            return Ok(*next);
        }
        let Some(memory) = self.memory(frame) else {
            return Ok(frame);
        };
        let memory = Arc::new(memory.with_text(&[byte]));
        let next = self.with_memory(frame, memory, meter)?;
        self.written.push((key, next));
        Ok(next)
    }

    fn add_edge(&mut self, fresh: u32, position: u32, frame: FrameRef<'a>) {
        let fresh = &mut self.frames[fresh as usize];
        self.edges.push(FreshEdge {
            position,
            frame,
            previous: fresh.last_edge,
        });
        fresh.last_edge = self.edges.len() as u32;
    }

    fn call(&mut self, rule: u32, next: u32, frame: FrameRef<'a>) {
        let entry = &self.network.rules[rule as usize];
        let mut regions = self.regions_of(frame);
        if let Some(budget) = entry.budget {
            let open = regions.checked_sub(1).map(|number| &self.deadlines[number as usize]);
            let open = entered(open.map_or(&[][..], |open| open), budget);
            regions = self.number_of(&open);
        }
        let number = match self.called(rule, regions) {
            Some(number) => number,
            None => {
                let number = self.frames.len();
                let first = |members: u32| Arc::new(self.network.members[members as usize].first());
                self.frames.push(Fresh {
                    rule,
                    last_edge: 0,
                    memory: entry.members.map(first),
                    regions,
                });
                self.agenda.push((entry.start, FrameRef::Fresh(number as u32)));
                number
            }
        };
        self.add_edge(number as u32, next, frame);
        if entry.nullable {
            self.agenda.push((next, frame));
        }
    }

    /// Return the number of the deadlines of a frame.
    fn regions_of(&mut self, frame: FrameRef<'a>) -> u32 {
        match frame {
            FrameRef::Fresh(number) => self.frames[number as usize].regions,
            FrameRef::Frozen(group, member) => match group.deadlines(member) {
                Some(open) => self.number_of(open),
                None => NO_REGIONS,
            },
        }
    }

    fn number_of(&mut self, open: &Deadlines) -> u32 {
        let known = self.deadlines.iter().position(|other| other == open);
        let index = known.unwrap_or_else(|| {
            self.deadlines.push(open.clone());
            self.deadlines.len() - 1
        });
        index as u32 + 1
    }

    /// Return the current column's frame for a call of `rule` in these regions, if there is one.
    fn called(&mut self, rule: u32, regions: u32) -> Option<usize> {
        let first = self.current().frames;
        let frames = &self.frames[first..];
        if frames.len() < SHORT_LIST {
            return frames
                .iter()
                .position(|fresh| fresh.rule == rule && fresh.regions == regions)
                .map(|index| first + index);
        }
        // The map is filled only when it is needed: add the frames that it lacks.
        for number in first + self.frames_in_map..self.frames.len() {
            let fresh = &self.frames[number];
            self.calls.insert((fresh.rule, fresh.regions), number as u32);
        }
        self.frames_in_map = self.frames.len() - first;
        self.calls.get(&(rule, regions)).map(|number| *number as usize)
    }
}

/// The places that were processed.
#[derive(Default)]
struct SeenPlaces {
    /// Places with frames of this chart, of which there may be many; position and number are packed into one value.
    fresh: Seen<u64>,
    frozen: Seen<(u64, u32, u32)>,
}

impl SeenPlaces {
    fn clear(&mut self) {
        self.fresh.clear();
        self.frozen.clear();
    }

    /// Add a place; return whether it is new.
    fn insert(&mut self, position: u32, frame: FrameRef) -> bool {
        match frame {
            FrameRef::Fresh(number) => self.fresh.insert(pair(position, number)),
            FrameRef::Frozen(group, member) => self.frozen.insert((group.id, member, position)),
        }
    }
}

/// A set of keys: a list while it is short, then a hash set.
struct Seen<K> {
    list: Vec<K>,
    set: FastSet<K>,
}

/// A list of at most this many keys is searched one by one; it is also the first capacity of a chart's lists.
const SHORT_LIST: usize = 16;

impl<K> Default for Seen<K> {
    fn default() -> Self {
        Seen {
            list: Vec::new(),
            set: FastSet::default(),
        }
    }
}

impl<K: Copy + Eq + Hash> Seen<K> {
    fn clear(&mut self) {
        self.list.clear();
        if !self.set.is_empty() {
            self.set = FastSet::default();
        }
    }

    /// Add a key; return whether it is new.
    fn insert(&mut self, key: K) -> bool {
        if !self.set.is_empty() {
            return self.set.insert(key);
        }
        if self.list.contains(&key) {
            return false;
        }
        self.list.push(key);
        if self.list.len() > SHORT_LIST {
            self.set.reserve(FIRST_SET_CAPACITY);
            self.set.extend(self.list.drain(..));
        }
        true
    }
}

/// Initial capacity of the hash set: a set that is not short mostly becomes large, and growing is expensive.
const FIRST_SET_CAPACITY: usize = 16 * SHORT_LIST;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::heap::Counter;
    use crate::base::limits::{Limits, Usage};
    use crate::grammar::network::Draft;
    use crate::grammar::stack::Called;
    use crate::regular::program::tests::NESTED;
    use crate::tokens::trie::tests::vocabulary;

    #[test]
    fn example_columns_of_a_text() {
        let (limits, usage) = (Limits::default(), Usage::default());
        let mut meter = Meter::new(limits.work, &usage, limits.states);
        let lexicon = Lexicon::new(vocabulary(&[]));
        let network = {
            let mut derivatives = lexicon.derivatives().unwrap();
            Network::new(NESTED, &mut Draft::default(), &mut derivatives, &limits, &mut meter).unwrap()
        };
        let called = Called {
            edges: Box::default(),
            memory: None,
            deadlines: None,
        };
        let root = Group::new(ROOT, vec![called], &Counter::default());
        let mut chart = Chart::new(&network, &lexicon);
        chart
            .push_places([(network.start, FrameRef::Frozen(&root, 0))].into_iter(), &mut meter)
            .unwrap();
        assert!(b"(x)".iter().all(|byte| chart.push_byte(*byte, &mut meter).unwrap()));
        assert!(chart.can_stop());
        assert_eq!(chart.push_byte(b')', &mut meter), Ok(false));
    }
}
