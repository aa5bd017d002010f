//! Collects the tokens that may come next, grouped by the number of further tokens that the text then needs.
//!
//! For tokens that stay inside a terminal, `targets` gives the states that they lead to. Tokens that cross its end, or
//! belong to another terminal, are followed through the grammar's situations.

use std::sync::Arc;

use crate::base::limits::{Meter, Outcome};
use crate::budgets::remainder::Remainders;
use crate::grammar::stack::{runs, Frame, Frozen, State, Thread};
use crate::masks::automaton::{after_any_value, frame_after, keeps_text, with_any_value, Automaton, Source, DEAD};
use crate::regular::distinct::Value;
use crate::regular::term::{EMPTY, NOTHING};
use crate::tokens::class::{Targets, TokenSet};
use crate::tokens::classify::class;
use crate::tokens::fitting::{Gathered, Reach};
use crate::tokens::spelling::NEVER;
use crate::tokens::targets::targets;
use crate::tokens::trie::LONG;

/// If more than one part in this many of the vocabulary's trie would be followed twice, all of it is followed once
/// instead.
const FOLLOWED_TWICE_SHARE: usize = 16;

/// Collect the tokens that may come after `state` as text.
pub fn gather(
    state: &Arc<State>,
    automaton: &mut Automaton,
    remainders: &mut Remainders,
    source: &Source,
    meter: &mut Meter,
) -> Outcome<Gathered> {
    let mut threads = state.threads.to_vec();
    let (mut in_values, mut matter) = (Vec::new(), Vec::new());
    for thread in threads.iter_mut().filter(|thread| keeps_text(thread, source)) {
        // Replace the thread by one that takes any value, so that all texts lead to the same situations.
        if let Some(few) = remainders.values_that_matter(thread, meter)? {
            let some = with_any_value(thread, source, meter)?;
            in_values.push((std::mem::replace(thread, some.clone()), some));
            matter.extend(few);
        }
    }
    let parts = Frozen {
        tokens: state.tokens.to_vec(),
        can_stop: state.can_stop,
        ..Frozen::of_threads(threads)
    };
    let number = match in_values.is_empty() {
        true => automaton.situation(state),
        false => automaton.of_parts(parts.clone()),
    };
    automaton.held.clear();
    automaton.held.push(number);
    let mut gatherer = Gatherer {
        gathered: Gathered::default(),
        automaton,
        remainders,
        source: *source,
        any_value: (!in_values.is_empty()).then_some(AnyValue {
            threads: in_values,
            matter,
            state,
            may_begin: false,
        }),
    };
    match gatherer.wide(&parts, meter)? {
        Some((threads, targets)) => {
            gatherer.stay_inside(threads, &targets, meter)?;
            gatherer.cross(&parts, threads, &targets, meter)?;
            gatherer.follow_early(&targets, meter)?;
            gatherer.follow_others(&parts, threads[0].state, meter)?;
        }
        None => {
            gatherer.automaton.held.extend([number, number]);
            if let Some(value) = &mut gatherer.any_value {
                value.may_begin = true;
            }
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
    any_value: Option<AnyValue<'a>>,
}

/// Values in progress that are replaced by "any value".
struct AnyValue<'a> {
    /// The threads inside these values, each with its replacement.
    threads: Vec<(Thread, Thread)>,
    /// The values that do have an effect.
    matter: Vec<Value>,
    /// The state that the threads belong to.
    state: &'a Arc<State>,
    /// Tells whether such a value may begin later in a token.
    may_begin: bool,
}

impl Gatherer<'_> {
    /// Return the threads of the only terminal that many tokens stay inside, and its targets. Return None if there is
    /// no such terminal or more than one, or if the targets alone do not determine the reach.
    fn wide<'s>(&mut self, state: &'s Frozen, meter: &mut Meter) -> Outcome<Option<(&'s [Thread], Arc<Targets>)>> {
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
        let main = lexicon.row(state, meter)?.main_target().unwrap_or(state);
        let (uncounted, bytes) = match lexicon.row(main, meter)?.main_target() == Some(main) {
            // Counts have an effect only in later parts of the text, if at all.
            true => (state, u32::MAX),
            false => lexicon.derivatives()?.uncounted(state, meter)?,
        };
        let most = bytes.saturating_sub(lexicon.vocabulary.longest);
        if uncounted != state && lexicon.derivatives()?.shortest_match(uncounted, meter)? >= most {
            return Ok(None);
        }
        let targets = targets(lexicon, uncounted, meter)?;
        if uncounted != state {
            // The same texts complete both terms while no count is used up.
            for (target, _) in &targets.all {
                let is_near = lexicon.derivatives()?.shortest_match(*target, meter)? < most;
                if !is_near || self.remainders.way_out(*target, meter)? >= most {
                    return Ok(None);
                }
            }
        }
        let nodes = lexicon.vocabulary.trie.nodes();
        let early = targets.early.iter().map(|(node, _)| nodes[*node as usize].end - node);
        Ok((early.sum::<u32>() as usize <= nodes.len() / FOLLOWED_TWICE_SHARE).then_some((threads, targets)))
    }

    /// Add the tokens that stay inside the terminal of these threads.
    fn stay_inside(&mut self, threads: &[Thread], targets: &Targets, meter: &mut Meter) -> Outcome<()> {
        let source = self.source;
        let vocabulary = &source.lexicon.vocabulary;
        let start = self.automaton.of_threads(threads.to_vec());
        let mut parts = Frozen::of_threads(threads.to_vec());
        for (target, tokens) in &targets.all {
            let reach = if *target == EMPTY {
                // All of these tokens end the terminal and lead to the same situation.
                let first = tokens.ids().next().unwrap_or(u32::MAX);
                match self.after(start, vocabulary.token(first), meter)? {
                    DEAD => None,
                    ended => {
                        self.stay_at(ended, tokens, meter)?;
                        self.automaton.reach(ended, self.remainders, meter)?
                    }
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

    /// Follow the tokens that cross the end of the terminal of these threads.
    fn cross(&mut self, state: &Frozen, threads: &[Thread], targets: &Targets, meter: &mut Meter) -> Outcome<()> {
        let source = self.source;
        let vocabulary = &source.lexicon.vocabulary;
        let class = class(source.lexicon, threads[0].state, meter)?;
        if !class.has_rests() {
            return Ok(());
        }
        let mut places: Vec<(u32, Frame)> = Vec::with_capacity(threads.len());
        for thread in threads {
            // The value may exclude some continuations, but it never adds any.
            let any = after_any_value(thread, &source, meter)?;
            places.push(any.map_or((thread.next, thread.frame.clone()), |(next, _, frame)| (next, frame)));
        }
        let beyond = self.automaton.at_places(&places, &source, meter)?;
        if beyond == DEAD {
            return Ok(());
        }
        // If nothing else can continue, the text determines the value, and we need not follow it byte by byte.
        let value = match threads {
            [thread] if state.threads.len() == 1 && keeps_text(thread, &source) => {
                Some(thread).filter(|_| targets.early.is_empty())
            }
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
            let end = vocabulary.trie.nodes()[rest.node as usize].end;
            let [all, beyond, ..] = self.automaton.held[..] else {
                break;
            };
            if self.ends_value_in(beyond, &text[rest.depth as usize..], meter)? {
                self.walk_exactly(rest.node as usize..end as usize, text.len() as u32, meter)?;
                continue;
            }
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
                self.walk(rest.node as usize..end as usize, text.len() as u32, meter)?;
                self.automaton.held.truncate(2);
            }
        }
        self.automaton.held.truncate(1);
        Ok(())
    }

    /// Follow the tokens that pass through a point at which the terminal may either end or continue.
    fn follow_early(&mut self, targets: &Targets, meter: &mut Meter) -> Outcome<()> {
        let vocabulary = &self.source.lexicon.vocabulary;
        for &(node, depth) in targets.early.iter() {
            let before = &vocabulary.token_at(node)[..depth as usize - 1];
            let start = self.after(self.automaton.held[0], before, meter)?;
            if start != DEAD {
                self.automaton.held.extend([start, start]);
                let end = vocabulary.trie.nodes()[node as usize].end;
                self.walk(node as usize..end as usize, depth - 1, meter)?;
                self.automaton.held.truncate(1);
            }
        }
        Ok(())
    }

    /// Follow the tokens that lead on from the threads whose terminal is not in state `but`.
    fn follow_others(&mut self, state: &Frozen, but: u32, meter: &mut Meter) -> Outcome<()> {
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

    /// Return whether `byte` may end another distinct value, which may be equal to the one replaced by "any value".
    fn ends_value(&mut self, number: u32, byte: u8, meter: &mut Meter) -> Outcome<bool> {
        if self.any_value.is_none() {
            return Ok(false);
        }
        for thread in self.automaton.threads(number) {
            if keeps_text(thread, &self.source) && self.source.lexicon.step(thread.state, byte, meter)?.accepts {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn ends_value_in(&mut self, mut number: u32, text: &[u8], meter: &mut Meter) -> Outcome<bool> {
        for &byte in text {
            if number == DEAD || self.any_value.is_none() {
                break;
            }
            if self.ends_value(number, byte, meter)? {
                return Ok(true);
            }
            number = self.automaton.step(number, byte, &self.source, meter)?;
        }
        Ok(false)
    }

    /// Walk through nodes below a prefix of `depth` bytes with the exact value that the prefix includes.
    fn walk_exactly(&mut self, range: std::ops::Range<usize>, depth: u32, meter: &mut Meter) -> Outcome<()> {
        let Some(value) = self.any_value.take() else {
            return Ok(());
        };
        let text = &self.source.lexicon.vocabulary.token_at(range.start as u32)[..depth as usize];
        let start = self.automaton.situation(value.state);
        let number = self.after(start, text, meter)?;
        if number != DEAD {
            self.automaton.held.extend([number, number]);
            self.walk(range, depth, meter)?;
            self.automaton.held.truncate(self.automaton.held.len() - 2);
        }
        self.any_value = Some(value);
        Ok(())
    }

    /// Return the number of tokens that complete the text up to a node. The exact value is used where "any value" would
    /// make a difference.
    fn reach(&mut self, number: u32, node: u32, depth: u32, meter: &mut Meter) -> Outcome<Option<Reach>> {
        if let Some(nearest) = self.values_that_matter(number, meter)? {
            let text = &self.source.lexicon.vocabulary.token_at(node)[..depth as usize];
            if self.matters(&nearest, text, meter)? {
                return self.exact(text, meter);
            }
        }
        self.automaton.reach(number, self.remainders, meter)
    }

    fn exact(&mut self, text: &[u8], meter: &mut Meter) -> Outcome<Option<Reach>> {
        let Some(value) = &self.any_value else {
            return Ok(None);
        };
        let start = self.automaton.situation(value.state);
        match self.after(start, text, meter)? {
            DEAD => Ok(None),
            number => self.automaton.reach(number, self.remainders, meter),
        }
    }

    /// Return the nearest values after a situation; None if the value that came has no effect there.
    fn values_that_matter(&mut self, number: u32, meter: &mut Meter) -> Outcome<Option<Arc<[Value]>>> {
        let Some(any) = &self.any_value else {
            return Ok(None);
        };
        let nearest = self.automaton.nearest_values(number, self.remainders, meter)?;
        Ok((!nearest.is_empty() || !any.matter.is_empty()).then_some(nearest))
    }

    /// Return whether a text may end a value that has an effect: one of the nearest, or one in `matter`.
    fn matters(&self, nearest: &[Value], text: &[u8], meter: &mut Meter) -> Outcome<bool> {
        let Some(any) = &self.any_value else {
            return Ok(false);
        };
        for (thread, _) in &any.threads {
            let memory = thread.frame.group.memory(thread.frame.member);
            let before = memory.map_or(&[][..], |memory| memory.text());
            let last = if any.may_begin && before.is_empty() {
                text.len()
            } else {
                1
            };
            for start in 0..last {
                let mut value = before.to_vec();
                let mut term = thread.state;
                for &byte in &text[start..] {
                    let step = self.source.lexicon.step(term, byte, meter)?;
                    if step.state == NOTHING {
                        break;
                    }
                    value.push(byte);
                    term = step.state;
                    if step.accepts && nearest.iter().chain(&any.matter).any(|matters| matters.begins(&value)) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// For tokens that end a value and lead to `number`: add those whose value has an effect, each with its own reach.
    fn stay_at(&mut self, number: u32, tokens: &TokenSet, meter: &mut Meter) -> Outcome<()> {
        let Some(nearest) = self.values_that_matter(number, meter)? else {
            return Ok(());
        };
        let vocabulary = &self.source.lexicon.vocabulary;
        for id in tokens.ids() {
            let text = vocabulary.token(id);
            if self.matters(&nearest, text, meter)? {
                match self.exact(text, meter)? {
                    Some(reach) => self.gathered.add(&[id], reach),
                    None => self.gathered.add(&[id], Reach::always(NEVER)),
                }
            }
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

    /// Return a situation in which "any value" replaces each value that begins there.
    fn with_any_value(&mut self, number: u32) -> Outcome<u32> {
        let Some(any) = self.any_value.as_ref().filter(|any| any.may_begin && number != DEAD) else {
            return Ok(number);
        };
        let some = |thread: &Thread| any.threads.iter().find(|(known, _)| known.key() == thread.key());
        let threads = self.automaton.threads(number);
        if !threads.iter().any(|thread| some(thread).is_some()) {
            return Ok(number);
        }
        let threads = threads
            .iter()
            .map(|thread| some(thread).map_or(thread, |(_, some)| some).clone());
        Ok(self.automaton.with_threads(number, threads.collect()))
    }

    /// Add the tokens at and below sibling nodes, whose parent has `depth` bytes, that lead on from the last but one of
    /// the held situations. The last held situation is the complete one: it gives the reach.
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
            if self.ends_value(part, node.byte, meter)? {
                self.walk_exactly(index..below, depth + open.len() as u32, meter)?;
                index = below;
                continue;
            }
            let next = self.automaton.step(part, node.byte, &source, meter)?;
            let next = self.with_any_value(next)?;
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
                && (trie.below(index).is_within(self.automaton.stays(to, &source, meter)?)
                    || self.is_same_uncounted(index, depth, to, meter)?);
            let ids = if is_same {
                trie.all_ids_below(index)
            } else {
                trie.ids(index)
            };
            if !ids.is_empty() {
                if let Some(reach) = self.reach(to, index as u32, depth, meter)? {
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

    /// Return whether every token below a node has the same reach as `number`, the situation at the node, which has
    /// `depth` bytes. This holds if each token leads to a situation that differs only in counts that are far from used
    /// up.
    fn is_same_uncounted(&mut self, node: usize, depth: u32, number: u32, meter: &mut Meter) -> Outcome<bool> {
        let (automaton, source) = (&mut *self.automaton, &self.source);
        let Some((uncounted, bytes)) = automaton.uncounted(number, source, meter)? else {
            return Ok(false);
        };
        let trie = &source.lexicon.vocabulary.trie;
        let longest = trie.nodes()[node].longest;
        Ok(longest < LONG
            && u32::from(longest) - depth < bytes
            && trie.below(node).is_within(automaton.stays(uncounted, source, meter)?)
            && automaton.reach(uncounted, self.remainders, meter)?
                == automaton.reach(number, self.remainders, meter)?)
    }
}
