//! The moves of a grammar's situations, byte by byte: a deterministic automaton, worked out as far as texts and masks
//! lead, and kept.
//!
//! Whoever works something out has an automaton to itself, so that threads do not wait for each other.

use std::sync::Arc;

use crate::byteset::{ByteSet, Kinds};
use crate::cache::Cache;
use crate::chart::{Active, Chart};
use crate::damage::Guarded;
use crate::freeze::freeze;
use crate::hash::FastMap;
use crate::lexicon::Lexicon;
use crate::limits::{Meter, Outcome};
use crate::network::Network;
use crate::stack::{Frame, Frozen, State, Thread};
use crate::term::{EMPTY, NOTHING};

/// No situation: nothing goes on.
pub const DEAD: u32 = u32::MAX;
const UNKNOWN: u32 = DEAD - 1;

/// Runs of so many bytes are looked at when it is asked with which bytes a situation leads to itself.
const LONG_RUN: usize = 8;

/// What the moves are worked out from.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub network: &'a Network,
    pub lexicon: &'a Lexicon,
    pub cache: &'a Guarded<Cache>,
}

/// A situation of the parser, and where each byte leads from it.
struct Situation {
    parts: Frozen,
    /// The shared state that is the same, once it was asked for.
    state: Option<Arc<State>>,
    /// The bytes that do not lead to nothing.
    live: ByteSet,
    /// Bytes fall into runs that no terminal under way tells apart: the first byte of each, and where they lead.
    runs: Box<[(u8, u32)]>,
    /// The number of each byte's run, where there are many.
    run_of: Option<Box<[u8; 256]>>,
    stays: Option<Kinds>,
    same_hash: Option<u32>,
}

/// Up to how many runs are searched one by one.
const FEW_RUNS: usize = 8;

impl Situation {
    #[inline]
    fn run(&self, byte: u8) -> usize {
        match &self.run_of {
            Some(run_of) => usize::from(run_of[usize::from(byte)]),
            None => self.runs.iter().take_while(|run| run.0 <= byte).count() - 1,
        }
    }
}

pub struct Automaton {
    situations: Vec<Situation>,
    /// The latest situation with each hash of what it consists of; those before it follow by `same_hash`.
    by_hash: FastMap<u64, u32>,
    by_state: FastMap<u64, u32>,
    /// The situation after a move, by what the move leaves of the terminals under way.
    by_kernel: FastMap<Box<[u64]>, u32>,
    /// Situations that are still needed, whatever is let go.
    pub held: Vec<u32>,
    key: Vec<u64>,
    bytes: usize,
    maximum: usize,
}

impl Automaton {
    /// An automaton that takes about `maximum` bytes.
    pub fn new(maximum: usize) -> Self {
        Automaton {
            situations: Vec::new(),
            by_hash: FastMap::default(),
            by_state: FastMap::default(),
            by_kernel: FastMap::default(),
            held: Vec::new(),
            key: Vec::new(),
            bytes: 0,
            maximum,
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Let go of all but the situations that are held, if there is too much: those get new numbers.
    pub fn make_room(&mut self, source: &Source, meter: &mut Meter) -> Outcome<()> {
        if self.bytes <= self.maximum {
            return Ok(());
        }
        let old = std::mem::take(&mut self.situations);
        self.by_hash = FastMap::default();
        self.by_state = FastMap::default();
        self.by_kernel = FastMap::default();
        self.bytes = 0;
        for index in 0..self.held.len() {
            let parts = old[self.held[index] as usize].parts.clone();
            self.held[index] = self.intern(parts, source, meter)?;
        }
        Ok(())
    }

    /// The situation of a state.
    pub fn situation(&mut self, state: &Arc<State>, source: &Source, meter: &mut Meter) -> Outcome<u32> {
        if let Some(known) = self.by_state.get(&state.id) {
            return Ok(*known);
        }
        let parts = Frozen {
            threads: state.threads.to_vec(),
            tokens: state.tokens.to_vec(),
            can_stop: state.can_stop,
        };
        let number = self.intern(parts, source, meter)?;
        self.situations[number as usize].state = Some(state.clone());
        self.by_state.insert(state.id, number);
        Ok(number)
    }

    /// The situation with these threads alone, which are sorted.
    pub fn of_threads(&mut self, threads: Vec<Thread>, source: &Source, meter: &mut Meter) -> Outcome<u32> {
        let parts = Frozen {
            threads,
            tokens: Vec::new(),
            can_stop: false,
        };
        self.intern(parts, source, meter)
    }

    /// What may come at these places.
    pub fn at_places(&mut self, places: &[(u32, Frame)], source: &Source, meter: &mut Meter) -> Outcome<u32> {
        self.key.clear();
        self.key.push(0);
        places
            .iter()
            .for_each(|(next, frame)| add_place(&mut self.key, *next, frame));
        if let Some(known) = self.by_kernel.get(&self.key[..]) {
            return Ok(*known);
        }
        let mut chart = Chart::new(source.network, source.lexicon);
        chart.push_places(places.iter().map(|(next, frame)| (*next, frame.as_ref())), meter)?;
        let parts = freeze(&chart, &mut *source.cache.lock()?, meter)?;
        self.keep(parts, source, meter)
    }

    /// The shared state that is the same as a situation.
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

    pub fn threads(&self, number: u32) -> &[Thread] {
        &self.situations[number as usize].parts.threads
    }

    /// The bytes with which a situation goes on.
    pub fn live(&self, number: u32) -> &ByteSet {
        &self.situations[number as usize].live
    }

    /// The situation after one more byte, or `DEAD`.
    #[inline]
    pub fn step(&mut self, from: u32, byte: u8, source: &Source, meter: &mut Meter) -> Outcome<u32> {
        let situation = &self.situations[from as usize];
        match situation.runs[situation.run(byte)].1 {
            UNKNOWN => self.find_move(from, byte, source, meter),
            target => Ok(target),
        }
    }

    /// The state after some bytes, or none where they are not allowed, if all of their moves have been worked out.
    pub fn known_state_after(
        &mut self,
        state: &State,
        text: &[u8],
        source: &Source,
    ) -> Outcome<Option<Option<Arc<State>>>> {
        let Some(&number) = self.by_state.get(&state.id) else {
            return Ok(None);
        };
        let mut number = number;
        for &byte in text {
            let situation = &self.situations[number as usize];
            number = match situation.runs[situation.run(byte)].1 {
                UNKNOWN => return Ok(None),
                DEAD => return Ok(Some(None)),
                target => target,
            };
        }
        let state = self.state(number, source)?;
        Ok(Some((!text.is_empty()).then_some(state)))
    }

    /// Bytes with which a situation leads to itself; not always all of them.
    #[inline]
    pub fn stays(&mut self, number: u32, source: &Source, meter: &mut Meter) -> Outcome<Kinds> {
        match self.situations[number as usize].stays {
            Some(stays) => Ok(stays),
            None => self.find_stays(number, source, meter),
        }
    }

    #[cold]
    fn find_stays(&mut self, number: u32, source: &Source, meter: &mut Meter) -> Outcome<Kinds> {
        let mut own = ByteSet::default();
        for index in 0..self.situations[number as usize].runs.len() {
            let runs = &self.situations[number as usize].runs;
            let (low, mut target) = runs[index];
            let high = runs.get(index + 1).map_or(255, |next| next.0 - 1);
            if target == UNKNOWN && usize::from(high - low) >= LONG_RUN {
                target = self.step(number, low, source, meter)?;
            }
            if target == number {
                own.insert_range(low, high);
            }
        }
        let stays = if own.is_empty() {
            Kinds::default()
        } else {
            Kinds::within(&own)
        };
        self.situations[number as usize].stays = Some(stays);
        Ok(stays)
    }

    #[cold]
    fn find_move(&mut self, from: u32, byte: u8, source: &Source, meter: &mut Meter) -> Outcome<u32> {
        let target = self.make_move(from, byte, source, meter)?;
        let situation = &mut self.situations[from as usize];
        let run = situation.run(byte);
        situation.runs[run].1 = target;
        Ok(target)
    }

    fn make_move(&mut self, from: u32, byte: u8, source: &Source, meter: &mut Meter) -> Outcome<u32> {
        let threads = &self.situations[from as usize].parts.threads;
        meter.work(threads.len() + 1)?;
        if let [thread] = &threads[..] {
            let step = source.lexicon.step(thread.state, byte, meter)?;
            if step.state == NOTHING {
                return Ok(DEAD);
            }
            if !step.accepts {
                let thread = Thread {
                    state: step.state,
                    ..thread.clone()
                };
                return self.of_threads(vec![thread], source, meter);
            }
        }
        let (mut advanced, mut places) = (Vec::new(), Vec::new());
        for thread in threads {
            let step = source.lexicon.step(thread.state, byte, meter)?;
            if step.state != NOTHING && step.state != EMPTY {
                advanced.push((step.state, thread));
            }
            if step.accepts {
                places.push(thread);
            }
        }
        if places.is_empty() {
            let threads = advanced.into_iter().map(|(state, thread)| Thread {
                state,
                ..thread.clone()
            });
            let parts = Frozen::of_threads(threads);
            return self.intern(parts, source, meter);
        }
        self.key.clear();
        self.key.push(advanced.len() as u64);
        for (state, thread) in &advanced {
            self.key.push(u64::from(*state));
            add_place(&mut self.key, thread.next, &thread.frame);
        }
        places
            .iter()
            .for_each(|thread| add_place(&mut self.key, thread.next, &thread.frame));
        if let Some(known) = self.by_kernel.get(&self.key[..]) {
            return Ok(*known);
        }
        let mut chart = Chart::new(source.network, source.lexicon);
        let actives = advanced.iter().map(|(state, thread)| Active {
            state: *state,
            next: thread.next,
            frame: thread.frame.as_ref(),
        });
        let places = places.iter().map(|thread| (thread.next, thread.frame.as_ref()));
        chart.push_move(actives, places, meter)?;
        let parts = freeze(&chart, &mut *source.cache.lock()?, meter)?;
        self.keep(parts, source, meter)
    }

    /// The situation for the kernel that stands in `key`.
    fn keep(&mut self, parts: Frozen, source: &Source, meter: &mut Meter) -> Outcome<u32> {
        let key: Box<[u64]> = self.key.as_slice().into();
        let number = self.intern(parts, source, meter)?;
        self.bytes += 8 * key.len() + 48;
        self.by_kernel.insert(key, number);
        Ok(number)
    }

    fn intern(&mut self, parts: Frozen, source: &Source, meter: &mut Meter) -> Outcome<u32> {
        if parts.is_empty() {
            return Ok(DEAD);
        }
        let hash = parts.hash();
        let latest = self.by_hash.get(&hash).copied();
        let mut candidate = latest;
        while let Some(number) = candidate {
            let situation = &self.situations[number as usize];
            if situation.parts == parts {
                return Ok(number);
            }
            candidate = situation.same_hash;
        }
        let mut cuts = ByteSet::single(0);
        let mut live = ByteSet::default();
        let mut previous = NOTHING;
        for thread in &parts.threads {
            if thread.state != previous {
                previous = thread.state;
                let row = source.lexicon.row(thread.state, meter)?;
                cuts = cuts.union(row.cuts());
                live = live.union(row.live_bytes());
            }
        }
        meter.work(parts.threads.len() + 1)?;
        let target = |start| if live.contains(start) { UNKNOWN } else { DEAD };
        let mut runs = Vec::with_capacity(cuts.len());
        runs.extend(cuts.iter().map(|start| (start, target(start))));
        let run_of = (runs.len() > FEW_RUNS).then(|| {
            let mut run_of = Box::new([0; 256]);
            for (index, (start, _)) in runs.iter().enumerate() {
                run_of[usize::from(*start)..].fill(index as u8);
            }
            run_of
        });
        self.bytes += 256 + 8 * runs.len() + parts.bytes() + run_of.as_ref().map_or(0, |_| 256);
        let number = self.situations.len() as u32;
        self.situations.push(Situation {
            parts,
            state: None,
            live,
            runs: runs.into(),
            run_of,
            stays: None,
            same_hash: latest,
        });
        self.by_hash.insert(hash, number);
        Ok(number)
    }
}

fn add_place(key: &mut Vec<u64>, next: u32, frame: &Frame) {
    let (group, member) = frame.key();
    key.extend([u64::from(next) << 32 | u64::from(member), group]);
}
