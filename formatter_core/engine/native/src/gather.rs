//! The tokens that may come next, by how many more tokens the text then needs.
//!
//! Of those that stay inside a terminal it is known where they lead, see `targets`; what crosses its end, or belongs to
//! another terminal, is followed through the grammar's situations.

use std::sync::Arc;

use crate::allowed::runs;
use crate::automaton::{after_any_value, frame_after, Automaton, Source, DEAD};
use crate::class::Targets;
use crate::classify::class;
use crate::fitting::Gathered;
use crate::limits::{Meter, Outcome};
use crate::remainder::Remainders;
use crate::stack::{Frame, Frozen, State, Thread};
use crate::targets::targets;
use crate::term::EMPTY;
use crate::trie::Node;

/// Gather the tokens that may come after `state` as text.
pub fn gather(
    state: &Arc<State>,
    automaton: &mut Automaton,
    remainders: &mut Remainders,
    source: &Source,
    meter: &mut Meter,
) -> Outcome<Gathered> {
    let number = automaton.situation(state);
    automaton.held.clear();
    automaton.held.push(number);
    let mut gatherer = Gatherer {
        gathered: Gathered::default(),
        automaton,
        remainders,
        source: *source,
    };
    match gatherer.wide(state, meter)? {
        Some((threads, targets)) => {
            gatherer.stay_inside(threads, &targets, meter)?;
            gatherer.cross(state, threads, meter)?;
            gatherer.follow_others(state, threads[0].state, meter)?;
        }
        None => {
            gatherer.automaton.held.extend([number, number]);
            gatherer.walk(0..source.lexicon.vocabulary.trie.nodes().len(), 0, meter)?;
        }
    }
    gatherer.automaton.held.clear();
    Ok(gatherer.gathered)
}

struct Gatherer<'a> {
    gathered: Gathered,
    automaton: &'a mut Automaton,
    remainders: &'a mut Remainders,
    source: Source<'a>,
}

impl Gatherer<'_> {
    /// The threads of the one terminal that many tokens stay inside, and where those lead; None if there is no such
    /// terminal, or if more than that matters.
    fn wide<'s>(&mut self, state: &'s State, meter: &mut Meter) -> Outcome<Option<(&'s [Thread], Arc<Targets>)>> {
        let lexicon = self.source.lexicon;
        let mut found: Option<&[Thread]> = None;
        for same in runs(&state.threads) {
            if lexicon.first_row(same[0].state, meter)?.0.main_target().is_some() && found.replace(same).is_some() {
                return Ok(None);
            }
        }
        let Some(threads) = found.filter(|_| !self.source.network.has_regions()) else {
            return Ok(None);
        };
        let state = threads[0].state;
        let (uncounted, bytes) = lexicon.derivatives()?.uncounted(state, meter)?;
        let most = bytes.saturating_sub(lexicon.vocabulary.longest);
        if uncounted != state && lexicon.derivatives()?.shortest_match(uncounted, meter)? >= most {
            return Ok(None);
        }
        let targets = targets(lexicon, uncounted, meter)?;
        if uncounted != state {
            // The same texts complete both while no count is used up.
            for (target, _) in &targets.all {
                let is_near = lexicon.derivatives()?.shortest_match(*target, meter)? < most;
                if !is_near || self.remainders.way_out(*target, meter)? >= most {
                    return Ok(None);
                }
            }
        }
        Ok((!targets.end_early).then_some((threads, targets)))
    }

    /// Add the tokens that stay inside the terminal of some threads.
    fn stay_inside(&mut self, threads: &[Thread], targets: &Targets, meter: &mut Meter) -> Outcome<()> {
        let source = self.source;
        let vocabulary = &source.lexicon.vocabulary;
        let start = self.automaton.of_threads(threads.to_vec());
        let mut parts = Frozen::of_threads(threads.to_vec());
        for (target, tokens) in &targets.all {
            let reach = if *target == EMPTY {
                // All of them end it, and lead to whatever comes then.
                let first = tokens.ids().next().unwrap_or(u32::MAX);
                match self.after(start, vocabulary.token(first), meter)? {
                    DEAD => None,
                    ended => self.automaton.reach(ended, self.remainders, meter)?,
                }
            } else {
                parts.threads.iter_mut().for_each(|thread| thread.state = *target);
                self.remainders.reach(&parts, meter)?
            };
            if let Some(reach) = reach {
                self.gathered.add_inside(tokens, reach, vocabulary.words());
            }
        }
        Ok(())
    }

    /// Follow the tokens that cross the end of the terminal of some threads.
    fn cross(&mut self, state: &State, threads: &[Thread], meter: &mut Meter) -> Outcome<()> {
        let source = self.source;
        let vocabulary = &source.lexicon.vocabulary;
        let class = class(source.lexicon, threads[0].state, meter)?;
        if !class.has_rests() {
            return Ok(());
        }
        let mut places: Vec<(u32, Frame)> = Vec::with_capacity(threads.len());
        for thread in threads {
            // Which value it was may rule out what comes then, but adds nothing.
            let any = after_any_value(thread, &source, meter)?;
            places.push(any.map_or((thread.next, thread.frame.clone()), |(next, _, frame)| (next, frame)));
        }
        let beyond = self.automaton.at_places(&places, &source, meter)?;
        if beyond == DEAD {
            return Ok(());
        }
        // A value is known by its text: no need to follow that byte by byte if nothing else goes on.
        let value = match threads {
            [thread] if state.threads.len() == 1 && source.network.keeps_text(thread.next) => Some(thread),
            _ => None,
        };
        let firsts = self.automaton.live(beyond, &source, meter)?;
        self.automaton.held.push(beyond);
        for rest in class
            .rests(&vocabulary.trie, &firsts, meter)?
            .iter()
            .flat_map(|rests| &rests.all)
        {
            let text = &vocabulary.token_at(rest.node)[..rest.node_depth as usize - 1];
            let [all, beyond, ..] = self.automaton.held[..] else {
                break;
            };
            let beyond = self.after(beyond, &text[rest.depth as usize..], meter)?;
            if beyond != DEAD {
                let all = match value {
                    Some(thread) => {
                        let (value, rest) = text.split_at(rest.depth as usize);
                        let place = (thread.next, frame_after(thread, value, &source, meter)?);
                        let ended = self.automaton.at_places(&[place], &source, meter)?;
                        self.after(ended, rest, meter)?
                    }
                    None => self.after(all, text, meter)?,
                };
                if all == DEAD {
                    continue;
                }
                self.automaton.held.extend([beyond, all]);
                let end = vocabulary.trie.nodes()[rest.node as usize].end;
                self.walk(rest.node as usize..end as usize, text.len() as u32, meter)?;
                self.automaton.held.truncate(2);
            }
        }
        self.automaton.held.truncate(1);
        Ok(())
    }

    /// Follow the tokens that go on in the threads whose terminals are not in state `but`.
    fn follow_others(&mut self, state: &State, but: u32, meter: &mut Meter) -> Outcome<()> {
        let others: Vec<Thread> = state
            .threads
            .iter()
            .filter(|thread| thread.state != but)
            .cloned()
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        let others = self.automaton.of_threads(others);
        self.automaton.held.extend([others, self.automaton.held[0]]);
        let firsts = self.automaton.live(others, &self.source, meter)?;
        for (low, high) in firsts.ranges() {
            self.walk(self.source.lexicon.vocabulary.trie.beginning_with(low, high), 0, meter)?;
        }
        Ok(())
    }

    fn after(&mut self, mut number: u32, text: &[u8], meter: &mut Meter) -> Outcome<u32> {
        for &byte in text {
            if number == DEAD {
                break;
            }
            number = self.automaton.step(number, byte, &self.source, meter)?;
        }
        Ok(number)
    }

    /// Add the tokens at and below some nodes of the trie, which stand side by side, `depth` bytes deep, that go on from
    /// the last but one of the situations that are held. The last one, which goes on with them too, is the whole one.
    fn walk(&mut self, range: std::ops::Range<usize>, depth: u32, meter: &mut Meter) -> Outcome<()> {
        let source = self.source;
        let trie = &source.lexicon.vocabulary.trie;
        let nodes = trie.nodes();
        let mut open: Vec<usize> = Vec::new();
        let mut visited = 0;
        let mut index = range.start;
        while index < range.end {
            while open.last().is_some_and(|last| *last <= index) {
                open.pop();
                self.automaton.held.truncate(self.automaton.held.len() - 2);
            }
            self.automaton.make_room();
            visited += 1;
            let node = &nodes[index];
            let below = node.end as usize;
            let [.., part, whole] = self.automaton.held[..] else {
                break;
            };
            let next = self.automaton.step(part, node.byte, &source, meter)?;
            if next == DEAD {
                index = below;
                continue;
            }
            let to = match part == whole {
                true => next,
                false => self.automaton.step(whole, node.byte, &source, meter)?,
            };
            if to == DEAD {
                index = below;
                continue;
            }
            let is_leaf = index + 1 == below;
            let depth = depth + open.len() as u32 + 1;
            let is_same = !is_leaf
                && (node.below.is_within(self.automaton.stays(to, &source, meter)?)
                    || self.is_same_uncounted(node, depth, to, meter)?);
            let ids = if is_same {
                trie.all_ids_below(index)
            } else {
                trie.ids(index)
            };
            if !ids.is_empty() {
                if let Some(reach) = self.automaton.reach(to, self.remainders, meter)? {
                    self.gathered.add(ids, reach);
                }
            }
            if is_same || is_leaf {
                index = below;
            } else {
                open.push(below);
                self.automaton.held.extend([next, to]);
                index += 1;
            }
        }
        let held = self.automaton.held.len() - 2 * open.len();
        self.automaton.held.truncate(held);
        meter.work(visited / 16 + 1)
    }

    /// Whether every token below a node of the trie, `depth` bytes deep, leads from the situation there to one like it but
    /// for counts that are far from used up, so that all of them may come and have the same distance after them.
    fn is_same_uncounted(&mut self, node: &Node, depth: u32, number: u32, meter: &mut Meter) -> Outcome<bool> {
        let (automaton, source) = (&mut *self.automaton, &self.source);
        let Some((uncounted, bytes)) = automaton.uncounted(number, source, meter)? else {
            return Ok(false);
        };
        Ok(node.longest < u16::MAX
            && u32::from(node.longest) - depth < bytes
            && node.below.is_within(automaton.stays(uncounted, source, meter)?)
            && automaton.reach(uncounted, self.remainders, meter)?
                == automaton.reach(number, self.remainders, meter)?)
    }
}
