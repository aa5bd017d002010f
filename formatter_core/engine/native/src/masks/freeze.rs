//! Turns the last column of a chart into the parts of a state. Frames become shared and unique; tail calls disappear.

use std::sync::Arc;

use crate::base::hash::{FastMap, FastSet};
use crate::base::limits::{Meter, Outcome};
use crate::base::order::{pair, sort_by};
use crate::grammar::members::Memory;
use crate::grammar::network::END;
use crate::grammar::regions::{Deadline, Deadlines};
use crate::grammar::stack::{sort, Called, Edge, Frame, Frozen, Key, Thread, TokenThread, ROOT};
use crate::masks::cache::Cache;
use crate::masks::mask_parser::{Chart, FrameRef};

/// The target of an edge of a frame that is being frozen.
#[derive(Clone)]
enum Target {
    Frame(Frame),
    /// A frame of the same column, by its number.
    Local(u32),
}

/// From `THREADS_MERGED_FROM` threads on, threads that differ only in their frames are merged if there are at least
/// `ALIKE_FRAMES` of them and their frames have at most `EDGES_OF_MERGED` edges on average. With this, the slowest mask
/// of a large `oneOf` took two thirds of the time.
const THREADS_MERGED_FROM: usize = 512;
const ALIKE_FRAMES: usize = 4;
const EDGES_OF_MERGED: usize = 8;

/// From this many edges on, a frame is first looked up with its edges in the order in which they come. With this, the
/// worst mask of one schema took 40 instead of 45 million instructions.
const LOOKED_UP_UNSORTED_FROM: usize = 64;

type Edges = Vec<(u32, Target)>;

/// Compute the parts of a state from the chart's last column.
pub fn freeze(chart: &Chart, cache: &mut Cache, meter: &mut Meter) -> Outcome<Frozen> {
    let mut freezer = Freezer {
        chart,
        frozen: Vec::new(),
        needed: Vec::new(),
    };
    freezer.find_needed(meter)?;
    for column in chart.frames_by_column() {
        freezer.freeze_column(column, cache, meter)?;
    }
    let mut threads: Vec<Thread> = chart
        .actives()
        .iter()
        .map(|active| Thread {
            state: active.state,
            next: active.next,
            frame: freezer.frame(active.frame),
        })
        .collect();
    let mut tokens: Vec<TokenThread> = chart
        .active_tokens()
        .iter()
        .map(|active| TokenThread {
            token: active.token,
            next: active.next,
            frame: freezer.frame(active.frame),
        })
        .collect();
    sort(&mut threads);
    if threads.len() >= THREADS_MERGED_FROM {
        threads = merged(threads, cache, meter)?;
    }
    let key_of = |thread: &TokenThread| (pair(thread.token, thread.next), thread.frame.key());
    sort_by(&mut tokens, key_of);
    tokens.dedup_by_key(|thread| key_of(thread));
    meter.work(threads.len() + tokens.len())?;
    Ok(Frozen {
        threads,
        tokens,
        can_stop: chart.can_stop(),
    })
}

/// Merge threads that differ only in their frames: one new frame gets the edges of all of them.
fn merged(threads: Vec<Thread>, cache: &mut Cache, meter: &mut Meter) -> Outcome<Vec<Thread>> {
    let is_plain = |frame: &Frame| frame.group.memory(frame.member).is_none() && frame.deadlines().is_none();
    let mut merged: Vec<Thread> = Vec::new();
    let mut rest = &threads[..];
    while let Some(first) = rest.first() {
        let is_alike = |thread: &&Thread| (thread.state, thread.next) == (first.state, first.next);
        let (alike, others) = rest.split_at(rest.iter().take_while(is_alike).count());
        rest = others;
        let (plain, remembering): (Vec<&Thread>, Vec<&Thread>) =
            alike.iter().partition(|thread| is_plain(&thread.frame));
        let edges_of = |thread: &&Thread| thread.frame.group.edges(thread.frame.member).len();
        let count: usize = plain.iter().map(edges_of).sum();
        if plain.len() < ALIKE_FRAMES || count > EDGES_OF_MERGED * plain.len() {
            merged.extend_from_slice(alike);
            continue;
        }
        let mut edges = Edges::new();
        for thread in plain {
            add_edges_of(&thread.frame, &mut edges, meter)?;
        }
        let frame = alone(edges, None, None, cache)?;
        merged.push(Thread { frame, ..first.clone() });
        merged.extend(remembering.into_iter().cloned());
    }
    sort(&mut merged);
    Ok(merged)
}

struct Freezer<'c, 'a> {
    chart: &'c Chart<'a>,
    /// For each fresh frame, its frozen form, once it has one.
    frozen: Vec<Option<Frame>>,
    /// For each fresh frame, whether it can be reached from the last column.
    needed: Vec<bool>,
}

impl Freezer<'_, '_> {
    fn frame(&self, frame: FrameRef) -> Frame {
        match frame {
            FrameRef::Frozen(group, member) => Frame {
                group: group.clone(),
                member,
            },
            FrameRef::Fresh(number) => match &self.frozen[number as usize] {
                Some(frame) => frame.clone(),
                None => unreachable!("columns are frozen from the first to the last"),
            },
        }
    }

    fn find_needed(&mut self, meter: &mut Meter) -> Outcome<()> {
        let count = self
            .chart
            .frames_by_column()
            .last()
            .map_or(0, |column| column.end as usize);
        self.frozen.resize(count, None);
        self.needed.resize(count, false);
        let actives = self.chart.actives().iter().map(|active| active.frame);
        let tokens = self.chart.active_tokens().iter().map(|active| active.frame);
        let mut waiting: Vec<FrameRef> = actives.chain(tokens).collect();
        while let Some(frame) = waiting.pop() {
            let FrameRef::Fresh(number) = frame else {
                continue;
            };
            if std::mem::replace(&mut self.needed[number as usize], true) {
                continue;
            }
            let before = waiting.len();
            waiting.extend(self.chart.edges_of(number).map(|(_, frame)| frame));
            meter.work(waiting.len() - before + 1)?;
        }
        Ok(())
    }

    fn freeze_column(&mut self, column: std::ops::Range<u32>, cache: &mut Cache, meter: &mut Meter) -> Outcome<()> {
        let mut open: Vec<(u32, Edges)> = Vec::new();
        for number in column.clone() {
            if self.needed[number as usize] {
                open.push((number, self.edges(number, &column, meter)?));
            }
        }
        // A frame whose edges lead only to finished frames can be finished by itself; callers mostly come before the
        // frames that they call.
        loop {
            let before = open.len();
            let mut waiting = Vec::new();
            for (number, edges) in open {
                meter.work(edges.len() + 1)?;
                let edges: Edges = edges
                    .into_iter()
                    .map(|(position, target)| (position, self.settled(target)))
                    .collect();
                if edges.iter().all(|(_, target)| matches!(target, Target::Frame(_))) {
                    let frame = self.single(number, edges, cache)?;
                    self.frozen[number as usize] = Some(frame);
                } else {
                    waiting.push((number, edges));
                }
            }
            open = waiting;
            if open.is_empty() {
                return Ok(());
            }
            if open.len() == before {
                return self.circle(open, cache);
            }
        }
    }

    fn settled(&self, target: Target) -> Target {
        match target {
            Target::Local(number) => match &self.frozen[number as usize] {
                Some(frame) => Target::Frame(frame.clone()),
                None => target,
            },
            Target::Frame(_) => target,
        }
    }

    /// Return the edges of a fresh frame; a tail call is replaced by the edges of the frame that it would return to.
    fn edges(&self, number: u32, column: &std::ops::Range<u32>, meter: &mut Meter) -> Outcome<Edges> {
        let mut edges = Edges::new();
        let mut waiting = vec![FrameRef::Fresh(number)];
        let mut seen: FastSet<(u64, u32)> = FastSet::default();
        while let Some(frame) = waiting.pop() {
            if !seen.insert(frame.key()) {
                continue;
            }
            meter.work(1)?;
            match frame {
                FrameRef::Fresh(number) if column.contains(&number) => {
                    for (position, frame) in self.chart.edges_of(number) {
                        meter.work(1)?;
                        if position == END {
                            waiting.push(frame);
                            continue;
                        }
                        let target = match frame {
                            FrameRef::Fresh(number) if column.contains(&number) => Target::Local(number),
                            _ => Target::Frame(self.frame(frame)),
                        };
                        edges.push((position, target));
                    }
                }
                _ => {
                    let frame = self.frame(frame);
                    add_edges_of(&frame, &mut edges, meter)?;
                }
            }
        }
        Ok(edges)
    }

    /// Return the frozen form of a frame whose edges are settled. If its only edge is a tail call, this is the caller's
    /// frame.
    fn single(&self, number: u32, edges: Edges, cache: &mut Cache) -> Outcome<Frame> {
        let mut raw = self.chart.edges_of(number);
        let memory = self.chart.memory_of(number).cloned();
        let deadlines = self.chart.deadlines_of(number).cloned();
        if let (Some((END, frame)), None, None) = (raw.next(), raw.next(), &memory) {
            let target = match frame {
                FrameRef::Fresh(number) => self.frozen[number as usize].clone(),
                FrameRef::Frozen(..) => Some(self.frame(frame)),
            };
            if let Some(frame) = target.filter(|frame| *frame.deadlines() == deadlines) {
                return Ok(frame);
            }
        }
        alone(edges, memory, deadlines, cache)
    }

    /// Make one group of the frames that refer to each other, or to such frames.
    fn circle(&mut self, mut open: Vec<(u32, Edges)>, cache: &mut Cache) -> Outcome<()> {
        sort_by(&mut open, |(number, _)| {
            let (rule, regions) = self.chart.call_of(*number);
            (pair(rule, regions), (0, 0))
        });
        let numbers: Vec<u32> = open.iter().map(|(number, _)| *number).collect();
        let members: FastMap<u32, u32> = numbers.iter().copied().zip(0..).collect();
        let member_of = |number: u32| members.get(&number).copied().unwrap_or(0);
        let mut key = vec![open.len() as u64];
        let mut called = Vec::with_capacity(open.len());
        for (number, edges) in open {
            key.push(u64::from(self.chart.call_of(number).0));
            // A frame in a cycle was called at its position, so its rule determines its memory.
            let memory = self.chart.memory_of(number).cloned();
            let edges = sorted(edges, &member_of, &mut key);
            let deadlines = self.chart.deadlines_of(number).cloned();
            add_deadlines(&deadlines, &mut key);
            called.push(Called {
                edges,
                memory,
                deadlines,
            });
        }
        let group = cache.group(Key(key.into()), called)?;
        for (member, number) in (0..).zip(numbers) {
            let group = group.clone();
            self.frozen[number as usize] = Some(Frame { group, member });
        }
        Ok(())
    }
}

/// Return a frame that differs only in its memory.
pub fn with_memory(frame: &Frame, memory: Arc<Memory>, cache: &mut Cache, meter: &mut Meter) -> Outcome<Frame> {
    let mut edges = Edges::new();
    add_edges_of(frame, &mut edges, meter)?;
    alone(edges, Some(memory), frame.deadlines().clone(), cache)
}

/// Return a frame that is in no cycle.
fn alone(edges: Edges, memory: Option<Arc<Memory>>, deadlines: Option<Deadlines>, cache: &mut Cache) -> Outcome<Frame> {
    let mut key = vec![1, 0];
    if let Some(memory) = &memory {
        // The key of a cycle begins with its number of members, which is never 0.
        key[0] = 0;
        memory.add_to(&mut key);
    }
    // Many edges most likely come in the same order again; then we need not sort them.
    let met = (edges.len() >= LOOKED_UP_UNSORTED_FROM).then(|| {
        let mut met = key.clone();
        add_to_key(&edges, &|_| 0, &mut met);
        add_deadlines(&deadlines, &mut met);
        Key(met.into())
    });
    if let Some(group) = met.as_ref().and_then(|met| cache.known_group(met)) {
        return Ok(Frame { group, member: 0 });
    }
    let edges = sorted(edges, &|_| 0, &mut key);
    add_deadlines(&deadlines, &mut key);
    let called = Called {
        edges,
        memory,
        deadlines,
    };
    let group = cache.group(Key(key.into()), vec![called])?;
    if let Some(met) = met {
        cache.keep_group(met, &group);
    }
    Ok(Frame { group, member: 0 })
}

/// Add to `key` the part that identifies the deadlines.
fn add_deadlines(deadlines: &Option<Deadlines>, key: &mut Vec<u64>) {
    for deadline in deadlines.iter().flat_map(|open| open.iter()) {
        // No rule has a number this large.
        key.push(match deadline {
            Deadline::In(more) => 2 << 32 | u64::from(*more),
            Deadline::At(at) => 3 << 32 | u64::from(*at),
        });
    }
}

fn add_edges_of(frame: &Frame, edges: &mut Edges, meter: &mut Meter) -> Outcome<()> {
    if frame.group.id == ROOT {
        edges.push((END, Target::Frame(frame.clone())));
        return Ok(());
    }
    let theirs = frame.group.edges(frame.member);
    meter.work(theirs.len())?;
    edges.extend(theirs.iter().map(|edge| {
        let group = edge.group.as_ref().unwrap_or(&frame.group).clone();
        let member = edge.member;
        (edge.position, Target::Frame(Frame { group, member }))
    }));
    Ok(())
}

/// Return a key that identifies an edge and gives its order.
fn edge_key((position, target): &(u32, Target), member_of: &dyn Fn(u32) -> u32) -> (u64, (u64, u32)) {
    match target {
        Target::Frame(frame) => (u64::from(*position), frame.key()),
        Target::Local(number) => (u64::from(*position), (u64::MAX, member_of(*number))),
    }
}

fn add_to_key(edges: &Edges, member_of: &dyn Fn(u32) -> u32, key: &mut Vec<u64>) {
    key.reserve(2 * edges.len() + 1);
    key.push(edges.len() as u64);
    for edge in edges {
        let (position, (group, member)) = edge_key(edge, member_of);
        key.extend([position << 32 | u64::from(member), group]);
    }
}

/// Return the edges sorted and without duplicates, and add to `key` the part that identifies them.
fn sorted(mut edges: Edges, member_of: &dyn Fn(u32) -> u32, key: &mut Vec<u64>) -> Box<[Edge]> {
    sort_by(&mut edges, |edge| edge_key(edge, member_of));
    edges.dedup_by_key(|edge| edge_key(edge, member_of));
    add_to_key(&edges, member_of, key);
    edges
        .into_iter()
        .map(|(position, target)| match target {
            Target::Frame(frame) => Edge {
                position,
                member: frame.member,
                group: Some(frame.group),
            },
            Target::Local(number) => Edge {
                position,
                member: member_of(number),
                group: None,
            },
        })
        .collect()
}
