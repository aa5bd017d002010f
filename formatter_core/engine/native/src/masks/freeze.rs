//! From the last column of a chart to what a state consists of: frames become shared and unique, calls in last place vanish.

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

/// Where an edge of a frame leads that is being frozen.
#[derive(Clone)]
enum Target {
    Frame(Frame),
    /// A frame of the same column, by its number.
    Local(u32),
}

/// Of so many threads those that are alike but for their frames become one, where they are at least so many, and their
/// frames have at most so many edges for each.
const MANY_THREADS: usize = 512;
const SEVERAL_FRAMES: usize = 4;
const FEW_EDGES: usize = 8;

/// So many edges are looked for as they are before they are put in order.
const MANY_EDGES: usize = 64;

type Edges = Vec<(u32, Target)>;

/// Make what a state consists of from the chart's last column.
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
    if threads.len() >= MANY_THREADS {
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

/// Let one frame stand for those of threads that are alike but for their frames: it returns to where they do.
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
        if plain.len() < SEVERAL_FRAMES || count > FEW_EDGES * plain.len() {
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
    /// What each fresh frame has become.
    frozen: Vec<Option<Frame>>,
    /// Whether each fresh frame can be reached from the last column.
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
        // Frames that refer to finished ones alone stand by themselves; callers mostly come before the called.
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

    /// The edges of a fresh frame, calls in last place replaced by the edges of what they would return to.
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

    /// A frame whose edges are settled. One that returns to a single frame's callers is that frame.
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

    /// Frames that refer to each other, or to such frames, become one group.
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
            // What is in a circle was called where it stands, so that its rule tells what its memory is.
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

/// The same frame with another memory.
pub fn with_memory(frame: &Frame, memory: Arc<Memory>, cache: &mut Cache, meter: &mut Meter) -> Outcome<Frame> {
    let mut edges = Edges::new();
    add_edges_of(frame, &mut edges, meter)?;
    alone(edges, Some(memory), frame.deadlines().clone(), cache)
}

/// A frame in no circle.
fn alone(edges: Edges, memory: Option<Arc<Memory>>, deadlines: Option<Deadlines>, cache: &mut Cache) -> Outcome<Frame> {
    let mut key = vec![1, 0];
    if let Some(memory) = &memory {
        // No circle has no members.
        key[0] = 0;
        memory.add_to(&mut key);
    }
    // Many edges are most likely met in the same order again, and then need not be put in order.
    let met = (edges.len() >= MANY_EDGES).then(|| {
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

/// What makes deadlines equal is added to `key`.
fn add_deadlines(deadlines: &Option<Deadlines>, key: &mut Vec<u64>) {
    for deadline in deadlines.iter().flat_map(|open| open.iter()) {
        // No rule has such a number.
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

/// What makes an edge equal to others, and puts it in order.
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

/// The edges in an order of their own, each once; what makes them equal to others is added to `key`.
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
