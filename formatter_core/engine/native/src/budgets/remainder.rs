//! The shortest remainder of a state: the shortest text that completes it (among equal lengths, the first in byte
//! order), and the number of tokens that spell it. A token that the grammar names by id is one symbol.
//!
//! After the first token of the best spelling, the rest of the remainder is again a shortest remainder: a better one
//! would have made a better one before. So from every state, some token reduces the distance by one.

mod plans;
mod remaining_members;
mod rules;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::{MAX_KEPT_REMAINDERS, MAX_REMAINDER, MAX_SPELT_LISTS};
use crate::grammar::members::{Memory, Required};
use crate::grammar::network::Network;
use crate::grammar::regions::Deadline;
use crate::grammar::stack::{Edge, Frame, Frozen, Group, Thread, ROOT};
use crate::regular::distinct::Value;
use crate::regular::term::Term;
use crate::tokens::lexicon::Lexicon;
use crate::tokens::spelling::{add, Text, FIRST_TOKEN, IMPOSSIBLE, NEVER, NIL, SOME_BYTE};
pub use plans::Kept;
use remaining_members::{LeftOut, Rest};
use rules::{RuleRemainders, Tail};

/// From this many required members on, the rest of a list is spelled once; fewer are spelled one by one, which is fast
/// enough.
const SPELT_TOGETHER_FROM: usize = 2;

/// A text, and its length.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sized {
    length: u32,
    text: Text,
}

impl Sized {
    const EMPTY: Self = Sized { length: 0, text: NIL };
}

const NONE: Sized = Sized {
    length: NEVER,
    text: IMPOSSIBLE,
};

/// The remainder after a frame.
#[derive(Clone)]
struct Below {
    shortest: Sized,
    /// An upper bound of the number of tokens missing after any token that leaves the frame's rule.
    farthest: u32,
    /// The ends of the regions that the frame is in, the innermost first; None if it is in no region.
    ends: Option<Arc<[End]>>,
}

/// The end of a region.
#[derive(Clone, PartialEq, Eq)]
struct End {
    deadline: Deadline,
    /// The length of the shortest remainder up to this end.
    after: u32,
    /// An upper bound of the number of tokens missing up to this end after any token that leaves the frame's rule.
    farthest: u32,
}

/// Intermediate results for a frame.
#[derive(Clone, PartialEq, Eq)]
struct Found {
    shortest: Sized,
    ends: Vec<End>,
}

/// The remainders of one grammar's states, for one lexicon and one set of tokens to avoid.
pub struct Remainders {
    /// Tells whether there are tokens to avoid: then the results apply to one sequence only.
    pub avoid_tokens: bool,
    rules: RuleRemainders,
    frames: FastMap<(u64, u32), Below>,
    /// The remainder after a way of a list with this frame, or after a separator.
    after_ways: FastMap<(u64, u32, Option<u32>), Sized>,
    /// The length of that remainder, which is often all that is needed.
    lengths: FastMap<(u64, u32, Option<u32>), u32>,
    /// For frames of lists whose remaining members must all come: the rest of the list, or None if it cannot be spelled
    /// once for all requests.
    left_out: Vec<((u64, u32), Option<LeftOut>)>,
    kept_at_first: usize,
}

impl Remainders {
    pub fn new(avoided: &[u32], network: &Network, lexicon: &Arc<Lexicon>, meter: &mut Meter) -> Outcome<Self> {
        // If every byte is a token, every text can be spelled. Otherwise a text that uses other bytes is better than
        // none.
        let alone = RuleRemainders::new(true, avoided, network, lexicon, meter)?;
        let rules = match alone.tokens_from(network.start) {
            NEVER => {
                let others = RuleRemainders::new(false, avoided, network, lexicon, meter)?;
                // Lengths of different values are only known with bytes that are tokens by themselves.
                let is_too_small = others.tokens_from(network.start) == NEVER && alone.too_small().is_some();
                if is_too_small {
                    alone
                } else {
                    others
                }
            }
            _ => alone,
        };
        let mut new = Remainders {
            avoid_tokens: !avoided.is_empty(),
            rules,
            frames: FastMap::default(),
            after_ways: FastMap::default(),
            lengths: FastMap::default(),
            left_out: Vec::new(),
            kept_at_first: 0,
        };
        new.kept_at_first = new.len();
        Ok(new)
    }

    /// Return whether these remainders are for states of this lexicon and have room left.
    pub fn serve(&self, lexicon: &Arc<Lexicon>) -> bool {
        Arc::ptr_eq(&self.rules.lexicon, lexicon) && self.len() <= self.kept_at_first + MAX_KEPT_REMAINDERS
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        let left_out = self.left_out.iter().filter_map(|(_, known)| known.as_ref());
        self.rules.heap()
            + heap::table(&self.frames)
            + heap::table(&self.after_ways)
            + heap::table(&self.lengths)
            + heap::list(&self.left_out)
            + left_out.map(LeftOut::heap).sum::<usize>()
    }

    /// Return the budget of a region that is too small for its shortest text, and the number of tokens of that text.
    pub fn too_small(&self) -> Option<(u32, u32)> {
        self.rules.too_small()
    }

    fn len(&self) -> usize {
        self.rules.kept() + self.frames.len() + self.after_ways.len() + self.lengths.len()
    }

    /// Return the values that change the distance if they come, in addition to those of `nearest_values`, for a thread
    /// in the first terminal of a distinct member. Return None if any value may change it.
    pub fn values_that_matter(&self, thread: &Thread, meter: &mut Meter) -> Outcome<Option<Vec<Value>>> {
        self.rules.values_that_matter(thread, memory_of(&thread.frame), meter)
    }

    /// Return the values that the shortest ways from a state include: if other values have come, the distance is the
    /// same.
    pub fn nearest_values(&mut self, parts: &Frozen, meter: &mut Meter) -> Outcome<Arc<[Value]>> {
        let mut values = Vec::new();
        let lengths = self.lengths_of(parts, meter)?;
        let least = lengths.iter().map(|(length, _)| *length).min();
        let at_end = parts.can_stop && !self.rules.has_regions();
        for (length, index) in lengths {
            let index = index as usize;
            let (next, frame) = place_of(parts, index);
            if Some(length) != least && !self.rules.has_regions() || at_end {
                continue;
            }
            if let (Some(memory), Some(tail)) = (memory_of(frame), self.rules.tail(next)) {
                let state = parts.threads.get(index).map(|thread| thread.state);
                self.rules.add_nearest(&mut values, state, tail, memory, meter)?;
            }
        }
        Ok(values.into())
    }

    /// Return the number of bytes that complete a state of a terminal; `NEVER` if there is no way.
    pub fn way_out(&mut self, state: Term, meter: &mut Meter) -> Outcome<u32> {
        self.rules.nearest.distance(state, &self.rules.lexicon, meter)
    }

    /// Return the fewest tokens known to complete a state, the end id included; `NEVER` if none are known.
    pub fn distance(&mut self, parts: &Frozen, meter: &mut Meter) -> Outcome<u32> {
        if parts.can_stop {
            return Ok(1);
        }
        meter.work(parts.threads.len() + parts.tokens.len())?;
        let mut lengths = Vec::with_capacity(parts.threads.len() + parts.tokens.len());
        for thread in &parts.threads {
            let own = self.rules.nearest.distance(thread.state, &self.rules.lexicon, meter)?;
            lengths.push(self.length(own, thread.next, &thread.frame, meter)?);
        }
        for thread in &parts.tokens {
            let own = self.rules.token_length(thread.token);
            lengths.push(self.length(own, thread.next, &thread.frame, meter)?);
        }
        let least = lengths.iter().copied().min().unwrap_or(NEVER);
        if least == NEVER {
            return Ok(NEVER);
        }
        let shortest = (0..lengths.len()).filter(|index| lengths[*index] == least).collect();
        let mut best = IMPOSSIBLE;
        let candidates = self.first_beginnings(parts, shortest, meter)?;
        if let Some(fewest) = self.fewest_in_list(parts, &candidates, meter)? {
            return Ok(add(1, fewest));
        }
        let is_one = candidates.len() == 1;
        for (index, beginning) in candidates {
            let (next, frame) = place_of(parts, index);
            let beyond = self.beyond(next, frame, meter)?.text;
            let inside = self.rules.join(self.rules.at(next).text, beyond, meter)?;
            if is_one {
                return Ok(add(1, self.rules.fewest_before(&beginning, inside, meter)?));
            }
            let text = self.rules.after_symbols(&beginning, inside, meter)?;
            best = self.rules.first(best, text);
        }
        Ok(add(1, self.rules.texts.fewest(best)))
    }

    /// Return the indices of the threads that may have the first text, each with the rest of its terminal. Most texts
    /// differ before the end of their rules, so the text after the rules is rarely needed.
    fn first_beginnings(
        &mut self,
        parts: &Frozen,
        threads: Vec<usize>,
        meter: &mut Meter,
    ) -> Outcome<Vec<(usize, Vec<u32>)>> {
        let is_one = threads.len() == 1;
        let mut found = Vec::with_capacity(threads.len());
        for index in threads {
            let mut beginning = Vec::new();
            match parts.threads.get(index) {
                Some(thread) => {
                    let bytes = self.rules.nearest.bytes(thread.state, &self.rules.lexicon, meter)?;
                    beginning.extend(bytes.into_iter().flatten().map(u32::from));
                }
                None => beginning.push(FIRST_TOKEN + parts.tokens[index - parts.threads.len()].token),
            }
            let own = beginning.len();
            if !is_one {
                let (next, _) = place_of(parts, index);
                beginning.extend(self.rules.symbols(self.rules.at(next).text));
                self.add_first_member(&mut beginning, parts, index, meter)?;
            }
            meter.work(beginning.len() + 1)?;
            found.push((index, own, beginning));
        }
        let first = found
            .iter()
            .map(|(.., beginning)| beginning)
            .min()
            .cloned()
            .unwrap_or_default();
        found.retain(|(.., beginning)| beginning.starts_with(&first));
        let own_alone = |(index, own, mut beginning): (usize, usize, Vec<u32>)| {
            beginning.truncate(own);
            (index, beginning)
        };
        Ok(found.into_iter().map(own_alone).collect())
    }

    /// Add the first of the required members after a separator, if the required members alone complete the list.
    fn add_first_member(
        &mut self,
        beginning: &mut Vec<u32>,
        parts: &Frozen,
        index: usize,
        meter: &mut Meter,
    ) -> Outcome<()> {
        let (next, frame) = place_of(parts, index);
        if let (Some(memory), Some(tail @ Tail { way: None, .. })) = (memory_of(frame), self.rules.tail(next)) {
            if let Some(required) = self.rules.required(tail, memory, meter)? {
                let symbols = self.rules.way_symbols(tail.list, required.ways[0]);
                beginning.extend(&symbols[self.rules.separator_length(tail.list)..]);
            }
        }
        Ok(())
    }

    /// Return the fewest tokens that complete these threads (in the form of `first_beginnings`), if all are in one list
    /// whose remaining members must all come.
    fn fewest_in_list(
        &mut self,
        parts: &Frozen,
        threads: &[(usize, Vec<u32>)],
        meter: &mut Meter,
    ) -> Outcome<Option<u32>> {
        let Some((_, frame)) = threads.first().map(|(index, _)| place_of(parts, *index)) else {
            return Ok(None);
        };
        let key = (frame.group.id, frame.member);
        let Some(memory) = memory_of(frame).filter(|_| !self.rules.has_regions() && !self.rules.texts.is_plain())
        else {
            return Ok(None);
        };
        let mut found: Option<(usize, Vec<u32>, Rest)> = None;
        for (index, beginning) in threads {
            let (next, other) = place_of(parts, *index);
            let Some(tail) = self.rules.tail(next).filter(|_| key == (other.group.id, other.member)) else {
                return Ok(None);
            };
            let required = self.rules.required(tail, memory, meter)?;
            let Some(required) = required.filter(|required| required.ways.len() >= SPELT_TOGETHER_FROM) else {
                return Ok(None);
            };
            let number = self.find_left_out(frame, tail.list, &required, meter)?;
            let mut text = beginning.clone();
            text.extend(self.rules.symbols(self.rules.at(next).text));
            meter.work(text.len())?;
            let has_texts = text.iter().all(|symbol| *symbol < SOME_BYTE);
            let Some(left_out) = self.left_out[number].1.as_ref().filter(|_| has_texts) else {
                return Ok(None);
            };
            let rest = self.rules.rest_of(tail, &required);
            let is_first = match &found {
                Some((_, known, after)) => {
                    let whole = left_out.text(&text, rest);
                    meter.work(whole.len())?;
                    whole < left_out.text(known, *after)
                }
                None => true,
            };
            if is_first {
                found = Some((number, text, rest));
            }
        }
        let Some((number, text, rest)) = found else {
            return Ok(None);
        };
        let left_out = self.left_out[number].1.as_mut();
        left_out
            .map(|left_out| left_out.fewest(&text, rest, &self.rules, meter))
            .transpose()
    }

    /// Return the index in `left_out` of the completion of a frame's list.
    fn find_left_out(&mut self, frame: &Frame, list: u32, required: &Required, meter: &mut Meter) -> Outcome<usize> {
        let key = (frame.group.id, frame.member);
        if let Some(number) = self.left_out.iter().position(|(known, _)| *known == key) {
            return Ok(number);
        }
        let beyond = self.below(frame, meter)?.shortest.text;
        let left_out = LeftOut::new(&self.rules, list, required, beyond, meter)?;
        if self.left_out.len() == MAX_SPELT_LISTS {
            self.left_out.remove(0);
        }
        self.left_out.push((key, left_out));
        Ok(self.left_out.len() - 1)
    }

    /// Return an upper bound of the distance after any next token, the end id included; `NEVER` if none is known.
    pub fn farthest(&mut self, parts: &Frozen, meter: &mut Meter) -> Outcome<u32> {
        if !self.rules.has_bounds() {
            return Ok(NEVER);
        }
        let mut farthest = 0;
        let threads = parts.threads.iter();
        let threads = threads.map(|thread| (Some(thread.state), thread.next, &thread.frame));
        let tokens = parts.tokens.iter().map(|thread| (None, thread.next, &thread.frame));
        for (state, next, frame) in threads.chain(tokens) {
            let below = self.below(frame, meter)?;
            let own = self.rules.farthest_inside(state, next, meter)?;
            let inside = self.rules.farthest(own, next, memory_of(frame));
            let after = add(inside, self.rules.texts.fewest(below.shortest.text));
            farthest = farthest.max(after).max(below.farthest);
        }
        Ok(add(1, farthest))
    }

    fn length(&mut self, own: u32, next: u32, frame: &Frame, meter: &mut Meter) -> Outcome<u32> {
        let below = self.below(frame, meter)?.shortest.length;
        let beyond = match (self.rules.tail(next), memory_of(frame)) {
            (None, _) => below,
            (Some(_), None) => NEVER,
            (Some(tail), Some(memory)) => {
                let key = (frame.group.id, frame.member, tail.way);
                match self.lengths.get(&key) {
                    Some(known) => *known,
                    None => {
                        let found = add(self.rules.length_of_rest(tail, memory, meter)?, below);
                        self.lengths.insert(key, found);
                        found
                    }
                }
            }
        };
        let length = add(add(own, self.rules.at(next).length), beyond);
        Ok(if length > MAX_REMAINDER { NEVER } else { length })
    }

    /// Return the remainder after the rule that a position is in, or after its way in a list.
    fn beyond(&mut self, position: u32, frame: &Frame, meter: &mut Meter) -> Outcome<Sized> {
        let below = self.below(frame, meter)?.shortest;
        let Some(tail) = self.rules.tail(position) else {
            return Ok(below);
        };
        let key = (frame.group.id, frame.member, tail.way);
        if let Some(known) = self.after_ways.get(&key) {
            return Ok(*known);
        }
        let found = match memory_of(frame) {
            Some(memory) => self.rules.complete(tail, memory, below, meter)?,
            None => NONE,
        };
        self.after_ways.insert(key, found);
        Ok(found)
    }

    // --- frames

    /// Return the remainder after a frame's rule. The frame's parents are computed first, with an explicit stack.
    fn below(&mut self, frame: &Frame, meter: &mut Meter) -> Outcome<Below> {
        if let Some(known) = self.known_below(&frame.group, frame.member) {
            return Ok(known);
        }
        let mut stack: Vec<Arc<Group>> = vec![frame.group.clone()];
        while let Some(group) = stack.last().cloned() {
            let before = stack.len();
            for edge in (0..group.len()).flat_map(|member| group.edges(member)) {
                meter.work(1)?;
                if let Some(other) = edge.group.as_ref().filter(|other| self.known_below(other, 0).is_none()) {
                    stack.push(other.clone());
                }
            }
            if stack.len() == before {
                self.find_below(&group, meter)?;
                stack.pop();
            }
        }
        Ok(self.known_below(&frame.group, frame.member).unwrap_or(Below {
            shortest: NONE,
            farthest: NEVER,
            ends: None,
        }))
    }

    fn known_below(&self, group: &Group, member: u32) -> Option<Below> {
        if group.id == ROOT {
            return Some(Below {
                shortest: Sized::EMPTY,
                farthest: 0,
                ends: None,
            });
        }
        self.frames.get(&(group.id, member)).cloned()
    }

    /// Compute the frames of a group until nothing changes, because they may refer to each other.
    fn find_below(&mut self, group: &Arc<Group>, meter: &mut Meter) -> Outcome<()> {
        let nothing = Found {
            shortest: NONE,
            ends: Vec::new(),
        };
        let mut found = vec![nothing; group.len() as usize];
        loop {
            let before = found.clone();
            for member in 0..group.len() {
                let mut best = found[member as usize].clone();
                for edge in group.edges(member) {
                    meter.work(1)?;
                    self.improve(&mut best, group, member, edge, &found, meter)?;
                }
                found[member as usize] = best;
            }
            if found == before {
                break;
            }
        }
        let farthest = self.farthest_below(group, &found);
        if group.has_deadlines() {
            self.find_farthest_ends(group, &mut found);
        }
        for (member, Found { shortest, ends }) in (0..).zip(found) {
            let below = Below {
                shortest,
                farthest,
                ends: (!ends.is_empty()).then(|| ends.into()),
            };
            self.frames.insert((group.id, member), below);
        }
        Ok(())
    }

    /// Take the way along an edge of a group if it is better than the known one; if both are equally good, merge them.
    fn improve(
        &mut self,
        best: &mut Found,
        group: &Arc<Group>,
        member: u32,
        edge: &Edge,
        found: &[Found],
        meter: &mut Meter,
    ) -> Outcome<()> {
        let (beyond, outer) = match (&edge.group, self.rules.tail(edge.position)) {
            (Some(_), _) => {
                let frame = frame_of(group, edge);
                let beyond = self.beyond(edge.position, &frame, meter)?;
                (beyond, self.outer(edge, found))
            }
            (None, None) => (
                found[edge.member as usize].shortest,
                found[edge.member as usize].clone(),
            ),
            (None, Some(tail)) => {
                let outer = found[edge.member as usize].clone();
                let beyond = match group.memory(edge.member) {
                    Some(memory) => self.rules.complete(tail, memory, outer.shortest, meter)?,
                    None => NONE,
                };
                (beyond, outer)
            }
        };
        let inside = self.rules.at(edge.position);
        let length = add(inside.length, beyond.length);
        if length > MAX_REMAINDER || length > best.shortest.length {
            return Ok(());
        }
        let text = self.rules.join(inside.text, beyond.text, meter)?;
        let mut ends = Vec::new();
        if let Some(open) = group.deadlines(member) {
            // The regions that the outer frame is not in end here.
            let ended = open.len() - outer.ends.len();
            let here = open[..ended].iter().map(|deadline| (*deadline, 0));
            let before = length - outer.shortest.length;
            let beyond = outer.ends.iter().map(|end| (end.deadline, before + end.after));
            ends.extend(here.chain(beyond).map(|(deadline, after)| End {
                deadline,
                after,
                farthest: 0,
            }));
        }
        let order = length
            .cmp(&best.shortest.length)
            .then_with(|| self.rules.texts.compare(text, best.shortest.text));
        match order {
            Ordering::Less => {
                best.shortest = Sized { length, text };
                best.ends = ends;
            }
            Ordering::Equal => {
                best.shortest.text = self.rules.first(best.shortest.text, text);
                for (known, end) in best.ends.iter_mut().zip(ends) {
                    known.after = known.after.max(end.after);
                }
            }
            Ordering::Greater => {}
        }
        Ok(())
    }

    /// Return the results for the frame that an edge of a group leads to.
    fn outer(&self, edge: &Edge, found: &[Found]) -> Found {
        let Some(outer) = &edge.group else {
            return found[edge.member as usize].clone();
        };
        let known = self.known_below(outer, edge.member);
        known.map_or_else(
            || Found {
                shortest: NONE,
                ends: Vec::new(),
            },
            |below| Found {
                shortest: below.shortest,
                ends: below.ends.map_or_else(Vec::new, |ends| ends.to_vec()),
            },
        )
    }

    fn farthest_below(&self, group: &Arc<Group>, found: &[Found]) -> u32 {
        let mut farthest = 0;
        for edge in (0..group.len()).flat_map(|member| group.edges(member)) {
            let frame = frame_of(group, edge);
            let (shortest, beyond) = match edge.group {
                Some(_) => match self.known_below(&frame.group, frame.member) {
                    Some(outer) => (outer.shortest, outer.farthest),
                    None => return NEVER,
                },
                None => (found[edge.member as usize].shortest, 0),
            };
            let inside = self.rules.farthest(0, edge.position, memory_of(&frame));
            let after = add(inside, self.rules.texts.fewest(shortest.text));
            farthest = farthest.max(after).max(beyond);
        }
        farthest
    }

    /// Compute the upper bounds up to the end of each region that frames of a group are in.
    fn find_farthest_ends(&self, group: &Arc<Group>, found: &mut [Found]) {
        let mut farthest: Vec<(Deadline, u32)> = Vec::new();
        for edge in (0..group.len()).flat_map(|member| group.edges(member)) {
            let outer = self.outer(edge, found);
            let inside = self.rules.farthest(0, edge.position, memory_of(&frame_of(group, edge)));
            for end in &outer.ends {
                let beyond = self.rules.texts.fewest_up_to(outer.shortest.text, end.after);
                farthest.push((end.deadline, add(inside, beyond).max(end.farthest)));
            }
        }
        for end in found.iter_mut().flat_map(|found| &mut found.ends) {
            let same = farthest.iter().filter(|(deadline, _)| *deadline == end.deadline);
            end.farthest = same.map(|(_, farthest)| *farthest).max().unwrap_or(0);
        }
    }
}

/// Return the place at which a thread continues, by its index.
fn place_of(parts: &Frozen, index: usize) -> (u32, &Frame) {
    match parts.threads.get(index) {
        Some(thread) => (thread.next, &thread.frame),
        None => {
            let thread = &parts.tokens[index - parts.threads.len()];
            (thread.next, &thread.frame)
        }
    }
}

fn frame_of(group: &Arc<Group>, edge: &Edge) -> Frame {
    Frame {
        group: edge.group.as_ref().unwrap_or(group).clone(),
        member: edge.member,
    }
}

fn memory_of(frame: &Frame) -> Option<&Memory> {
    frame.group.memory(frame.member).map(Arc::as_ref)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::{Limits, Usage};
    use crate::grammar::network::Draft;
    use crate::regular::program::tests::NESTED;
    use crate::tokens::trie::tests::vocabulary;

    #[test]
    fn example_remainder_of_a_start() {
        let (limits, usage) = (Limits::default(), Usage::default());
        let mut meter = Meter::new(limits.work, &usage, limits.states);
        let lexicon = Arc::new(Lexicon::new(vocabulary(&["(", ")", "x"])));
        let mut draft = Draft::default();
        let network = {
            let mut derivatives = lexicon.derivatives().unwrap();
            Network::new(NESTED, &mut draft, &mut derivatives, &limits, &mut meter).unwrap()
        };
        let remainders = Remainders::new(&[], &network, &lexicon, &mut meter).unwrap();
        // The shortest text is "x", which is one token.
        assert_eq!(remainders.rules.tokens_from(network.start), 1);
    }
}
