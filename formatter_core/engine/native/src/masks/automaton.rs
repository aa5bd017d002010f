//! A deterministic automaton of the parser's situations: each byte leads from one situation to another. Moves are
//! computed as far as texts and masks need them, and kept.
//!
//! Each computation has an automaton of its own, so that threads of the program do not wait for each other.

use std::mem::{size_of, size_of_val};
use std::sync::Arc;

use crate::base::byteset::{ByteSet, Kinds};
use crate::base::damage::Guarded;
use crate::base::hash::FastMap;
use crate::base::heap::{self, Counter};
use crate::base::limits::{Meter, Outcome};
use crate::base::order::{pair, sort_by};
use crate::base::tuning::MAX_SITUATIONS_FREED;
use crate::budgets::remainder::Remainders;
use crate::grammar::network::{Network, Position};
use crate::grammar::stack::{self, runs, sort, Frame, Frozen, State, Thread};
use crate::masks::cache::Cache;
use crate::masks::freeze::{freeze, with_memory};
use crate::masks::mask_parser::Chart;
use crate::regular::distinct::Value;
use crate::regular::term::{Term, EMPTY, NOTHING};
use crate::tokens::fitting::Reach;
use crate::tokens::lexicon::{LetGo, Lexicon, Row, Step};

/// The number for no situation: no byte leads on.
pub const DEAD: u32 = u32::MAX;
const UNKNOWN: u32 = DEAD - 1;

/// `stays` computes the unknown moves of runs with at least this many bytes.
const RUN_COMPUTED_FROM: usize = 8;

/// Situations with at least this many threads compute moves even if none is known, because masks have cached most of
/// the work.
const MOVES_COMPUTED_FROM_THREADS: usize = 64;

/// The objects from which the moves are computed.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub network: &'a Network,
    pub lexicon: &'a Lexicon,
    pub cache: &'a Guarded<Cache>,
    /// Counts the bytes of masks.
    pub masks: &'a Counter,
}

/// A situation of the parser, and its moves.
struct Situation {
    parts: Frozen,
    /// Runs of bytes that no active terminal distinguishes: the first byte of each run, and the situation that it leads
    /// to. The list is empty until a move is requested, because many situations are reached but never left.
    runs: Box<[(u8, u32)]>,
    /// The index of each byte's run, if there are many runs.
    run_of: Option<Box<[u8; 256]>>,
    /// The bytes that lead on; valid once there are runs.
    live: ByteSet,
    /// The shared state with the same parts, once it was requested.
    state: Option<Arc<State>>,
    same_hash: Option<u32>,
    known: Option<Box<Known>>,
}

/// Further facts about a situation, each computed when it was requested.
#[derive(Default)]
struct Known {
    /// If there are many threads: for each run, the index of the first thread of each terminal state that its bytes
    /// lead on from.
    alive: Box<[Vec<u32>]>,
    stays: Option<Kinds>,
    /// The number of tokens that complete the situation, see `Remainders::reach`.
    reach: Option<Option<Reach>>,
    /// See `Remainders::nearest_values`.
    nearest_values: Option<Arc<[Value]>>,
    /// The situation without the counts that are far from used up, see `uncounted`.
    uncounted: Option<Option<(u32, u32)>>,
}

/// Maximum number of runs that are searched one by one.
const LINEAR_RUNS: usize = 8;

impl Situation {
    #[inline]
    fn run(&self, byte: u8) -> usize {
        match &self.run_of {
            Some(run_of) => usize::from(run_of[usize::from(byte)]),
            None => (self.runs.iter().take_while(|run| run.0 <= byte).count()).saturating_sub(1),
        }
    }

    /// Return the situation that a byte leads to, or `UNKNOWN`.
    #[inline]
    fn target(&self, byte: u8) -> u32 {
        self.runs.get(self.run(byte)).map_or(UNKNOWN, |run| run.1)
    }

    #[inline]
    fn find<T>(&self, known: impl FnOnce(&Known) -> Option<T>) -> Option<T> {
        self.known.as_deref().and_then(known)
    }

    /// Return the bytes on the heap, see `heap`.
    fn heap(&self) -> usize {
        let known = self
            .known
            .as_deref()
            .map_or(0, |known| size_of::<Known>() + known.heap());
        heap::list(&self.parts.threads)
            + heap::list(&self.parts.tokens)
            + size_of_val(&*self.runs)
            + self.run_of.as_deref().map_or(0, size_of_val)
            + known
    }
}

impl Known {
    /// Return the bytes on the heap, see `heap`.
    fn heap(&self) -> usize {
        let alive = self.alive.iter().map(heap::list).sum::<usize>();
        size_of_val(&*self.alive) + alive
    }
}

pub struct Automaton {
    situations: Vec<Situation>,
    /// The latest situation for each hash of its parts; `same_hash` links it to earlier ones with that hash.
    by_hash: FastMap<u64, u32>,
    by_state: FastMap<u64, u32>,
    /// The situations that begin at given places.
    by_places: FastMap<Box<[[u64; 2]]>, u32>,
    /// Situations that are still needed: they survive `make_room`.
    pub held: Vec<u32>,
    /// Dropped situations that are freed bit by bit: freeing all of them at once would delay one mask for long.
    let_go: Vec<Situation>,
    bytes: usize,
    /// `inner`: heap bytes of the situations and keys. `freed`: heap bytes of the dropped situations.
    inner: usize,
    freed: usize,
    maximum: usize,
}

impl Automaton {
    /// Make an automaton that takes about `maximum` bytes.
    pub fn new(maximum: usize) -> Self {
        Automaton {
            situations: Vec::new(),
            by_hash: FastMap::default(),
            by_state: FastMap::default(),
            by_places: FastMap::default(),
            held: Vec::new(),
            let_go: Vec::new(),
            bytes: 0,
            inner: 0,
            freed: 0,
            maximum,
        }
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        heap::list(&self.situations)
            + heap::table(&self.by_hash)
            + heap::table(&self.by_state)
            + heap::table(&self.by_places)
            + heap::list(&self.held)
            + self.inner
            + heap::list(&self.let_go)
            + self.freed
    }

    /// Return all contents, to be freed piece by piece.
    pub fn let_go(self) -> LetGo {
        let lists = heap::list(&self.situations) + heap::list(&self.let_go);
        let bytes = lists + heap::table(&self.by_hash) + heap::table(&self.by_state) + heap::table(&self.by_places);
        let tables = std::iter::once((self.by_hash, self.by_state, self.by_places)).map(move |_| bytes);
        let situations = self.situations.into_iter().chain(self.let_go);
        Box::new(situations.map(|situation| situation.heap()).chain(tables))
    }

    /// If the automaton takes too much memory, drop all situations except the held ones, which get new numbers.
    pub fn make_room(&mut self) {
        let freed = self
            .let_go
            .drain(self.let_go.len().saturating_sub(MAX_SITUATIONS_FREED)..);
        self.freed -= freed.map(|situation| situation.heap()).sum::<usize>();
        if self.bytes <= self.maximum {
            return;
        }
        self.let_go = std::mem::take(&mut self.situations);
        self.freed = self.let_go.iter().map(Situation::heap).sum();
        self.inner = 0;
        self.by_hash = FastMap::default();
        self.by_state = FastMap::default();
        self.by_places = FastMap::default();
        self.bytes = 0;
        for index in 0..self.held.len() {
            let parts = self.let_go[self.held[index] as usize].parts.clone();
            self.held[index] = self.intern(parts);
        }
    }

    /// Return the situation of a state.
    pub fn situation(&mut self, state: &Arc<State>) -> u32 {
        if let Some(known) = self.by_state.get(&state.id) {
            return *known;
        }
        let number = self.intern(state.parts());
        self.situations[number as usize].state = Some(state.clone());
        self.by_state.insert(state.id, number);
        number
    }

    /// Return the situation with these parts.
    pub fn of_parts(&mut self, parts: Frozen) -> u32 {
        self.intern(parts)
    }

    /// Return the situation with these threads only, which must be sorted.
    pub fn of_threads(&mut self, threads: Vec<Thread>) -> u32 {
        let parts = Frozen {
            threads,
            tokens: Vec::new(),
            can_stop: false,
        };
        self.intern(parts)
    }

    /// Return a situation that differs from `number` only in its threads.
    pub fn with_threads(&mut self, number: u32, mut threads: Vec<Thread>) -> u32 {
        sort(&mut threads);
        let parts = &self.situations[number as usize].parts;
        self.intern(Frozen {
            tokens: parts.tokens.clone(),
            can_stop: parts.can_stop,
            ..Frozen::of_threads(threads)
        })
    }

    /// Return the situation that begins at these places.
    pub fn at_places(&mut self, places: &[(u32, Frame)], source: &Source, meter: &mut Meter) -> Outcome<u32> {
        let mut key = Vec::with_capacity(2 * places.len());
        for (next, frame) in places {
            let (group, member) = frame.key();
            key.push([pair(*next, member), group]);
        }
        sort_by(&mut key, |[first, second]| (*first, (*second, 0)));
        key.dedup();
        if let Some(known) = self.by_places.get(&key[..]) {
            return Ok(*known);
        }
        let mut chart = Chart::new(source.network, source.lexicon);
        chart.push_places(places.iter().map(|(next, frame)| (*next, frame.as_ref())), meter)?;
        let parts = freeze(&chart, &mut *source.cache.lock()?, meter)?;
        let number = self.intern(parts);
        self.bytes += 16 * key.len() + 48;
        self.inner += size_of_val(&key[..]);
        self.by_places.insert(key.into(), number);
        Ok(number)
    }

    /// Return the shared state with the same parts as a situation.
    pub fn state(&mut self, number: u32, source: &Source) -> Outcome<Arc<State>> {
        let situation = &mut self.situations[number as usize];
        if let Some(state) = &situation.state {
            return Ok(state.clone());
        }
        let state = source.cache.lock()?.state(situation.parts.clone())?;
        situation.state = Some(state.clone());
        self.by_state.insert(state.id, number);
        self.bytes += 16;
        Ok(state)
    }

    /// Return the situation without the counts that are far from used up, and the number of bytes for which they stay
    /// so, with a shortest completion included. Return None if there are no such counts, or if removing them would
    /// change a shortest completion.
    pub fn uncounted(&mut self, number: u32, source: &Source, meter: &mut Meter) -> Outcome<Option<(u32, u32)>> {
        if let Some(known) = self.situations[number as usize].find(|known| known.uncounted) {
            return Ok(known);
        }
        let found = self.find_uncounted(number, source, meter)?;
        self.keep(number).uncounted = Some(found);
        Ok(found)
    }

    fn find_uncounted(&mut self, number: u32, source: &Source, meter: &mut Meter) -> Outcome<Option<(u32, u32)>> {
        let mut parts = self.situations[number as usize].parts.clone();
        let mut bytes = u32::MAX;
        meter.work(parts.threads.len())?;
        let mut derivatives = source.lexicon.derivatives()?;
        for thread in &mut parts.threads {
            let (uncounted, most) = derivatives.uncounted(thread.state, meter)?;
            if uncounted == thread.state {
                continue;
            }
            if derivatives.terms.uncertain(thread.state) {
                return Ok(None);
            }
            let end = derivatives.shortest_match(thread.state, meter)?;
            if end != derivatives.shortest_match(uncounted, meter)? {
                return Ok(None);
            }
            bytes = bytes.min(most.saturating_sub(end));
            thread.state = uncounted;
        }
        drop(derivatives);
        if bytes == u32::MAX {
            return Ok(None);
        }
        sort(&mut parts.threads);
        Ok(Some((self.intern(parts), bytes)))
    }

    /// Return the number of tokens that complete a situation.
    #[inline]
    pub fn reach(&mut self, number: u32, remainders: &mut Remainders, meter: &mut Meter) -> Outcome<Option<Reach>> {
        let situation = &mut self.situations[number as usize];
        // The cached reach does not apply if some tokens must be avoided.
        if remainders.avoid_tokens {
            return remainders.reach(&situation.parts, meter);
        }
        if let Some(reach) = situation.find(|known| known.reach.clone()) {
            return Ok(reach);
        }
        let reach = remainders.reach(&situation.parts, meter)?;
        self.keep(number).reach = Some(reach.clone());
        Ok(reach)
    }

    /// Return the values that the reach of a situation may depend on.
    pub fn nearest_values(
        &mut self,
        number: u32,
        remainders: &mut Remainders,
        meter: &mut Meter,
    ) -> Outcome<Arc<[Value]>> {
        let situation = &mut self.situations[number as usize];
        // The cached values do not apply if some tokens must be avoided.
        if remainders.avoid_tokens {
            return remainders.nearest_values(&situation.parts, meter);
        }
        if let Some(known) = situation.find(|known| known.nearest_values.clone()) {
            return Ok(known);
        }
        let found = remainders.nearest_values(&situation.parts, meter)?;
        self.keep(number).nearest_values = Some(found.clone());
        Ok(found)
    }

    pub fn threads(&self, number: u32) -> &[Thread] {
        &self.situations[number as usize].parts.threads
    }

    /// Return the bytes that lead on from a situation.
    pub fn live(&mut self, number: u32, source: &Source, meter: &mut Meter) -> Outcome<ByteSet> {
        let situation = &self.situations[number as usize];
        match situation.runs.is_empty() {
            false => Ok(situation.live),
            true => self.open(number, source, meter),
        }
    }

    /// Return the situation after one more byte, or `DEAD`.
    #[inline]
    pub fn step(&mut self, from: u32, byte: u8, source: &Source, meter: &mut Meter) -> Outcome<u32> {
        match self.situations[from as usize].target(byte) {
            UNKNOWN => self.find_move(from, byte, source, meter),
            target => Ok(target),
        }
    }

    /// Return the state after some bytes, or Some(None) if they are not allowed. Return None if some move is not known.
    /// A situation with many threads computes the move instead: masks have already followed most of its threads.
    pub fn known_state_after(
        &mut self,
        state: &State,
        text: &[u8],
        source: &Source,
        meter: &mut Meter,
    ) -> Outcome<Option<Option<Arc<State>>>> {
        self.held.clear();
        self.make_room();
        let mut number = match self.by_state.get(&state.id) {
            Some(number) => *number,
            None if state.threads.len() < MOVES_COMPUTED_FROM_THREADS => return Ok(None),
            None => self.intern(state.parts()),
        };
        for &byte in text {
            let situation = &self.situations[number as usize];
            number = match situation.target(byte) {
                UNKNOWN if situation.parts.threads.len() < MOVES_COMPUTED_FROM_THREADS => return Ok(None),
                UNKNOWN => self.find_move(number, byte, source, meter)?,
                target => target,
            };
            if number == DEAD {
                return Ok(Some(None));
            }
        }
        let state = self.state(number, source)?;
        Ok(Some((!text.is_empty()).then_some(state)))
    }

    /// Return kinds of bytes that lead from a situation to itself; some may be missing.
    #[inline]
    pub fn stays(&mut self, number: u32, source: &Source, meter: &mut Meter) -> Outcome<Kinds> {
        match self.situations[number as usize].find(|known| known.stays) {
            Some(stays) => Ok(stays),
            None => self.find_stays(number, source, meter),
        }
    }

    #[cold]
    fn find_stays(&mut self, number: u32, source: &Source, meter: &mut Meter) -> Outcome<Kinds> {
        self.live(number, source, meter)?;
        let mut own = ByteSet::default();
        for index in 0..self.situations[number as usize].runs.len() {
            let runs = &self.situations[number as usize].runs;
            let (low, mut target) = runs[index];
            let high = runs.get(index + 1).map_or(255, |next| next.0 - 1);
            if target == UNKNOWN && usize::from(high - low) >= RUN_COMPUTED_FROM {
                target = self.step(number, low, source, meter)?;
            }
            if target == number {
                own.insert_range(low, high);
            }
        }
        let stays = Kinds::within(&own);
        self.keep(number).stays = Some(stays);
        Ok(stays)
    }

    /// Compute the runs of a situation, and the bytes that lead on from it.
    #[cold]
    fn open(&mut self, number: u32, source: &Source, meter: &mut Meter) -> Outcome<ByteSet> {
        let situation = &mut self.situations[number as usize];
        let mut cuts = ByteSet::single(0);
        let mut live = ByteSet::default();
        let mut add = |row: &Row| {
            cuts = cuts.union(row.cuts());
            live = live.union(row.live_bytes());
        };
        let threads = &situation.parts.threads;
        let mut heads = Vec::new();
        if threads.len() < MOVES_COMPUTED_FROM_THREADS {
            for same in stack::runs(threads) {
                add(source.lexicon.first_row(same[0].state, meter)?.0);
            }
        } else {
            let states: Vec<Term> = stack::runs(threads).map(|same| same[0].state).collect();
            heads = source.lexicon.first_parts(&states)?;
            let mut latest = None;
            for (head, _) in &heads {
                if latest.replace(*head) != Some(*head) {
                    add(source.lexicon.row(*head, meter)?);
                }
            }
        }
        if threads.iter().any(|thread| keeps_text(thread, source)) {
            // The frame stores every byte, so each byte is a run of its own.
            cuts = ByteSet::range(0, 255);
        }
        meter.work(threads.len() + 1)?;
        let target = |start| if live.contains(start) { UNKNOWN } else { DEAD };
        let mut runs = Vec::with_capacity(cuts.len());
        runs.extend(cuts.iter().map(|start| (start, target(start))));
        let run_of = (runs.len() > LINEAR_RUNS).then(|| {
            let mut run_of = Box::new([0; 256]);
            for (index, (start, _)) in runs.iter().enumerate() {
                run_of[usize::from(*start)..].fill(index as u8);
            }
            run_of
        });
        self.bytes += 8 * runs.len() + run_of.as_ref().map_or(0, |_| 256);
        situation.runs = runs.into();
        situation.run_of = run_of;
        self.inner += size_of_val(&*situation.runs) + situation.run_of.as_deref().map_or(0, size_of_val);
        situation.live = live;
        if !heads.is_empty() {
            let mut alive = vec![Vec::new(); situation.runs.len()];
            let (mut firsts, mut next) = (Vec::with_capacity(heads.len()), 0);
            for same in stack::runs(threads) {
                firsts.push(next);
                next += same.len() as u32;
            }
            let mut begin = 0;
            while let Some((head, _)) = heads.get(begin) {
                let end = begin + heads[begin..].iter().take_while(|(other, _)| other == head).count();
                for (low, high, _) in source.lexicon.row(*head, meter)?.live() {
                    let lists = &mut alive[situation.run(low)..=situation.run(high)];
                    lists
                        .iter_mut()
                        .for_each(|list| list.extend_from_slice(&firsts[begin..end]));
                }
                begin = end;
            }
            self.bytes += alive.iter().map(|list| 4 * list.len() + 24).sum::<usize>();
            let known = self.keep(number);
            known.alive = alive.into();
            self.inner += self.situations[number as usize].known.as_deref().map_or(0, Known::heap);
        }
        Ok(live)
    }

    #[cold]
    fn find_move(&mut self, from: u32, byte: u8, source: &Source, meter: &mut Meter) -> Outcome<u32> {
        let target = match self.live(from, source, meter)?.contains(byte) {
            true => self.make_move(from, byte, source, meter)?,
            false => DEAD,
        };
        let situation = &mut self.situations[from as usize];
        let run = situation.run(byte);
        situation.runs[run].1 = target;
        Ok(target)
    }

    fn make_move(&mut self, from: u32, byte: u8, source: &Source, meter: &mut Meter) -> Outcome<u32> {
        let situation = &self.situations[from as usize];
        let threads = &situation.parts.threads;
        meter.work(1)?;
        if let [thread] = &threads[..] {
            let step = source.lexicon.step(thread.state, byte, meter)?;
            if step.state == NOTHING {
                return Ok(DEAD);
            }
            if !step.accepts {
                let thread = Thread {
                    state: step.state,
                    next: thread.next,
                    frame: frame_after(thread, &[byte], source, meter)?,
                };
                return Ok(self.of_threads(vec![thread]));
            }
        }
        let alive = situation
            .known
            .as_ref()
            .and_then(|known| known.alive.get(situation.run(byte)));
        let (mut advanced, mut places) = (Vec::with_capacity(alive.map_or(0, Vec::len)), Vec::new());
        let mut go_on = |same: &[Thread], step: Step, meter: &mut Meter| -> Outcome<()> {
            if step.state == NOTHING {
                return Ok(());
            }
            for thread in same {
                let frame = frame_after(thread, &[byte], source, meter)?;
                if step.accepts {
                    places.push((thread.next, frame.clone()));
                }
                if step.state != EMPTY {
                    advanced.push(Thread {
                        state: step.state,
                        next: thread.next,
                        frame,
                    });
                }
            }
            Ok(())
        };
        if let Some(firsts) = alive {
            meter.work(firsts.len())?;
            let from_first = |first: &u32| runs(&threads[*first as usize..]).next();
            let alive: Vec<&[Thread]> = firsts.iter().filter_map(from_first).collect();
            let states: Vec<Term> = alive.iter().map(|same| same[0].state).collect();
            for (same, step) in alive.into_iter().zip(source.lexicon.steps(&states, byte, meter)?) {
                go_on(same, step, meter)?;
            }
        } else {
            meter.work(threads.len())?;
            for same in runs(threads) {
                go_on(same, source.lexicon.step(same[0].state, byte, meter)?, meter)?;
            }
        }
        if places.is_empty() {
            return Ok(self.intern(Frozen::of_threads(advanced)));
        }
        // The situation at these places does not depend on the terminals that continue, for example a gap that may end
        // or go on.
        let number = self.at_places(&places, source, meter)?;
        if number == DEAD {
            return Ok(self.intern(Frozen::of_threads(advanced)));
        }
        if advanced.is_empty() {
            return Ok(number);
        }
        let beyond = &self.situations[number as usize].parts;
        meter.work(advanced.len() + beyond.threads.len())?;
        advanced.extend_from_slice(&beyond.threads);
        let parts = Frozen {
            tokens: beyond.tokens.clone(),
            can_stop: beyond.can_stop,
            ..Frozen::of_threads(advanced)
        };
        Ok(self.intern(parts))
    }

    /// Return the further facts about a situation, to add to them.
    fn keep(&mut self, number: u32) -> &mut Known {
        let known = &mut self.situations[number as usize].known;
        if known.is_none() {
            self.inner += size_of::<Known>();
        }
        known.get_or_insert_with(Box::default)
    }

    fn intern(&mut self, parts: Frozen) -> u32 {
        if parts.is_empty() {
            return DEAD;
        }
        let hash = parts.hash();
        let latest = self.by_hash.get(&hash).copied();
        let mut candidate = latest;
        while let Some(number) = candidate {
            let situation = &self.situations[number as usize];
            if situation.parts == parts {
                return number;
            }
            candidate = situation.same_hash;
        }
        self.bytes += 256 + 8 + parts.bytes();
        self.inner += heap::list(&parts.threads) + heap::list(&parts.tokens);
        let number = self.situations.len() as u32;
        self.situations.push(Situation {
            parts,
            runs: Box::default(),
            run_of: None,
            live: ByteSet::default(),
            state: None,
            same_hash: latest,
            known: None,
        });
        self.by_hash.insert(hash, number);
        number
    }
}

/// Return the frame of a thread after more bytes of its terminal; it differs if the frame stores the terminal's text.
pub fn frame_after(thread: &Thread, text: &[u8], source: &Source, meter: &mut Meter) -> Outcome<Frame> {
    let frame = &thread.frame;
    match frame.group.memory(frame.member) {
        Some(memory) if keeps_text(thread, source) => {
            let memory = Arc::new(memory.with_text(text));
            with_memory(frame, memory, &mut *source.cache.lock()?, meter)
        }
        _ => Ok(frame.clone()),
    }
}

/// Return a thread in the first terminal of a distinct member that takes any value, as if the value had no effect.
pub fn with_any_value(thread: &Thread, source: &Source, meter: &mut Meter) -> Outcome<Thread> {
    let frame = &thread.frame;
    let Some(memory) = frame.group.memory(frame.member) else {
        return Ok(thread.clone());
    };
    let firsts = source.lexicon.row(thread.state, meter)?.live_bytes();
    let first = memory.text().first().copied().or_else(|| firsts.iter().next());
    let memory = Arc::new(memory.with_anything(first.unwrap_or_default()));
    Ok(Thread {
        frame: with_memory(frame, memory, &mut *source.cache.lock()?, meter)?,
        ..thread.clone()
    })
}

/// Return whether a thread's frame stores the text of its terminal.
pub fn keeps_text(thread: &Thread, source: &Source) -> bool {
    let memory = || thread.frame.group.memory(thread.frame.member);
    source.network.keeps_text(thread.next) && memory().is_some_and(|memory| !memory.takes_anything())
}

/// Return the position and frame after a thread in the first terminal of a distinct member, as if it had no value, and
/// whether its strings are free. Return None for other threads.
pub fn after_any_value(thread: &Thread, source: &Source, meter: &mut Meter) -> Outcome<Option<(u32, bool, Frame)>> {
    let frame = &thread.frame;
    match (source.network.position(thread.next), frame.group.memory(frame.member)) {
        (Position::Value { next, is_free }, Some(memory)) => {
            let memory = Arc::new(memory.without_text());
            let frame = with_memory(frame, memory, &mut *source.cache.lock()?, meter)?;
            Ok(Some((*next, *is_free, frame)))
        }
        _ => Ok(None),
    }
}
