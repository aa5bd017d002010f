//! Lists of members in any order, or in the written order. The members that may come next depend on those that have
//! come.
//!
//! A frame's memory records the members that have come. A member is offered only if the list can be completed after it.
//! With conditions this takes a search, which meets the hardest conditions first.

mod search;
mod shortest;

use std::hash::{Hash, Hasher};
use std::mem::{size_of, size_of_val};
use std::sync::{Arc, OnceLock};

use crate::base::heap::{self, Counted};
use crate::base::limits::{Meter, Outcome};
use crate::regular::distinct::{Seen, Value};
use crate::regular::term::UNBOUNDED;
pub use search::{Cost, Prices, Search, UNUSABLE};
pub use shortest::{Required, WayTexts};

/// A set of small numbers.
type Bits = Box<[u64]>;

/// A way: one of the alternative texts of a member.
#[derive(Clone, Debug)]
pub struct Way {
    pub member: u32,
    /// The conditions that this way meets.
    pub meets: Vec<u32>,
}

#[derive(Clone, Debug)]
pub struct Member {
    pub required: bool,
    pub repeated: bool,
    /// Tells whether the member's first value must differ from those of all other distinct members.
    pub distinct: bool,
    /// The conditions that are met if the member does not come.
    pub absent: Vec<u32>,
    /// The range of its ways: from `first_way` up to, but not including, `last_way`.
    pub first_way: u32,
    pub last_way: u32,
}

/// The continuation after one of the members in order, while they are built from the last one backwards.
#[derive(Clone, Copy)]
pub struct Rest {
    /// The position at which further members may come.
    pub further: Option<u32>,
    /// Tells whether `next` may follow directly: none of the further members is required.
    pub may_end: bool,
    pub next: u32,
}

impl Rest {
    /// Return the continuation after the last member.
    pub fn new(next: u32) -> Self {
        Rest {
            further: None,
            may_end: true,
            next,
        }
    }

    /// Change this into the continuation after the previous member. Return the position at which parsing continues if
    /// this member is left out, or None if the member is required.
    pub fn leave_out(&mut self, required: bool) -> Option<u32> {
        if required {
            self.may_end = false;
            return None;
        }
        self.further
    }
}

/// A decision: a member comes in a certain way, or it does not come.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Way(u32),
    Leave(u32),
}

/// A list of members of a grammar.
#[derive(Clone, Debug)]
pub struct Members {
    /// Distinguishes the memories of this list from those of other lists.
    pub id: u32,
    pub ordered: bool,
    pub minimum: u32,
    pub maximum: u32,
    pub conditions: u32,
    /// The conditions that only one member may meet.
    pub once: Vec<u32>,
    pub members: Vec<Member>,
    pub ways: Vec<Way>,
    /// For each condition, the steps that meet it.
    pub meeting: Vec<Vec<Step>>,
    /// For each way, whether it can be completed; other ways never come.
    pub live: Vec<bool>,
    /// Number of required members that have no live way.
    pub lacking: usize,
    /// Tells whether the list can be completed at all.
    pub may_come: bool,
    /// Number of values that distinct members can begin with, if it is below `minimum`; otherwise `UNBOUNDED`.
    pub values: u32,
    /// The network positions at which the ways begin, and that of the separator.
    pub starts: Vec<u32>,
    pub separator: u32,
    /// The empty set of values. All lists of a grammar share it; it counts the bytes of all memories.
    pub none_seen: Arc<Seen>,
}

/// The members that have come, as words: the id and a position; a count; the members that came, as bits; the conditions
/// met, as bits.
///
/// Ordered lists use the position, other lists the bits. The count stops at the point where a higher one makes no
/// difference.
#[derive(Debug)]
pub struct Memory {
    words: Bits,
    /// The values that distinct members began with.
    pub seen: Arc<Seen>,
    text: Option<Written>,
    choices: OnceLock<Box<[u32]>>,
    memory: Counted,
}

/// The text so far of a distinct member's first terminal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Written {
    Text(Box<[u8]>),
    /// Any value that begins with this byte.
    Anything(u8),
}

impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        (&self.words, &self.seen.fingerprint, &self.text) == (&other.words, &other.seen.fingerprint, &other.text)
    }
}

impl Eq for Memory {}

impl Hash for Memory {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.words, &self.seen.fingerprint, &self.text).hash(state);
    }
}

impl Memory {
    fn new(words: Bits, seen: Arc<Seen>) -> Self {
        let bytes = heap::COUNTS + size_of::<Memory>() + size_of_val(&*words);
        Memory {
            memory: Counted::new(bytes, seen.counter()),
            words,
            seen,
            text: None,
            choices: OnceLock::new(),
        }
    }

    /// Return an estimate of the memory's bytes.
    pub fn bytes(&self) -> usize {
        let choices = self.choices.get().map_or(0, |choices| 4 * choices.len());
        96 + 16 * self.words.len() + 2 * self.text().len() + choices + self.seen.grown
    }

    /// Add to `key` the part that identifies the memory.
    pub fn add_to(&self, key: &mut Vec<u64>) {
        key.extend(self.words.iter());
        if self.seen.count > 0 {
            key.extend(self.seen.fingerprint);
        }
        match &self.text {
            None => {}
            Some(Written::Text(text)) => {
                let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
                key.extend(text.chunks(8).map(word));
                key.push(text.len() as u64);
            }
            // No text is that long.
            Some(Written::Anything(first)) => key.push(u64::MAX - u64::from(*first)),
        }
    }

    /// Return the words that identify the memory, except for its values.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Return the memory after more text of a distinct member's first terminal.
    pub fn with_text(&self, more: &[u8]) -> Self {
        let text = match &self.text {
            Some(Written::Anything(first)) => Written::Anything(*first),
            _ => Written::Text([self.text(), more].concat().into()),
        };
        self.with_written(text)
    }

    /// Return the memory with "any value" that begins with this byte, in place of the text so far.
    pub fn with_anything(&self, first: u8) -> Self {
        self.with_written(Written::Anything(first))
    }

    fn with_written(&self, text: Written) -> Self {
        let mut memory = Memory::new(self.words.clone(), self.seen.clone());
        if let Written::Text(text) = &text {
            memory.memory.grow(text.len());
        }
        memory.text = Some(text);
        memory
    }

    /// Return the memory after the value that the text so far spells.
    pub fn with_value(&self) -> Self {
        let seen = match &self.text {
            Some(Written::Anything(first)) => self.seen.with_unknown(*first),
            _ => self.seen.with(&Value::of(self.text())),
        };
        Memory::new(self.words.clone(), Arc::new(seen))
    }

    /// Return the text so far of a distinct member's first terminal; empty if any value is allowed.
    pub fn text(&self) -> &[u8] {
        match &self.text {
            Some(Written::Text(text)) => text,
            _ => &[],
        }
    }

    /// Return whether any value is allowed.
    pub fn takes_anything(&self) -> bool {
        matches!(self.text, Some(Written::Anything(_)))
    }

    /// Return the memory without the text so far.
    pub fn without_text(&self) -> Self {
        Memory::new(self.words.clone(), self.seen.clone())
    }

    fn place(&self) -> usize {
        (self.words[0] & u64::from(u32::MAX)) as usize
    }

    fn count(&self) -> u32 {
        self.words[1] as u32
    }
}

const COUNT: usize = 1;
const HEAD: usize = 2;

fn has(bits: &[u64], bit: u32) -> bool {
    bits[bit as usize / 64] >> (bit % 64) & 1 == 1
}

fn set(bits: &mut [u64], bit: u32) {
    bits[bit as usize / 64] |= 1 << (bit % 64);
}

impl Members {
    /// Return whether the position in the written order is all that has to be remembered.
    pub fn are_places(&self) -> bool {
        let is_plain = |member: &Member| !(member.distinct || member.repeated && member.required);
        self.ordered
            && self.minimum == 1
            && self.maximum == UNBOUNDED
            && self.conditions == 0
            && self.members.iter().all(is_plain)
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        let inner = self
            .members
            .iter()
            .map(|member| heap::list(&member.absent))
            .sum::<usize>()
            + self.ways.iter().map(|way| heap::list(&way.meets)).sum::<usize>()
            + self.meeting.iter().map(heap::list).sum::<usize>();
        inner
            + heap::list(&self.once)
            + heap::list(&self.members)
            + heap::list(&self.ways)
            + heap::list(&self.meeting)
            + heap::list(&self.live)
            + heap::list(&self.starts)
    }

    /// Record that a way can be completed; return whether the list can now be completed for the first time.
    pub fn revive(&mut self, way: u32, meter: &mut Meter) -> Outcome<bool> {
        meter.work(1)?;
        let member = self.ways[way as usize].member;
        if self.members[member as usize].required && self.live_ways(member).next().is_none() {
            self.lacking -= 1;
        }
        self.live[way as usize] = true;
        if self.lacking > 0 || self.may_come {
            return Ok(false);
        }
        self.may_come = self.completion(&self.first(), false, meter)?.is_some();
        Ok(self.may_come)
    }

    /// Return the memory before any member has come.
    pub fn first(&self) -> Memory {
        let mut words = vec![0; HEAD + self.used_words() + self.conditions.div_ceil(64) as usize];
        words[0] = u64::from(self.id) << 32;
        Memory::new(words.into(), self.none_seen.clone())
    }

    fn used_words(&self) -> usize {
        if self.ordered {
            0
        } else {
            self.members.len().div_ceil(64)
        }
    }

    fn used<'m>(&self, memory: &'m Memory) -> &'m [u64] {
        &memory.words[HEAD..HEAD + self.used_words()]
    }

    fn met<'m>(&self, memory: &'m Memory) -> &'m [u64] {
        &memory.words[HEAD + self.used_words()..]
    }

    /// Return the members that have neither come nor been passed.
    fn left<'m>(&'m self, memory: &'m Memory) -> impl Iterator<Item = u32> + 'm {
        let first = if self.ordered { memory.place() as u32 } else { 0 };
        let used = self.used(memory);
        (first..self.members.len() as u32).filter(move |member| self.ordered || !has(used, *member))
    }

    fn live_ways(&self, member: u32) -> impl Iterator<Item = u32> + '_ {
        let member = &self.members[member as usize];
        (member.first_way..member.last_way).filter(|way| self.live[*way as usize])
    }

    /// Return the memory after one more member, which must be allowed to come.
    pub fn after(&self, memory: &Memory, way: u32) -> Memory {
        let mut words = memory.words.clone();
        let member = self.ways[way as usize].member;
        let repeated = self.members[member as usize].repeated;
        let most = if self.maximum == u32::MAX {
            self.minimum
        } else {
            self.maximum
        };
        words[COUNT] = (words[COUNT] + 1).min(u64::from(most));
        let (used, met) = words[HEAD..].split_at_mut(self.used_words());
        if self.ordered {
            for passed in memory.place() as u32..member {
                self.members[passed as usize]
                    .absent
                    .iter()
                    .for_each(|bit| set(met, *bit));
            }
        } else if !repeated {
            set(used, member);
        }
        self.ways[way as usize].meets.iter().for_each(|bit| set(met, *bit));
        if self.ordered {
            words[0] = words[0] >> 32 << 32 | u64::from(member + u32::from(!repeated));
        }
        Memory::new(words, memory.seen.clone())
    }

    /// Return the memory after one more member with this text; None if the value that the text begins with has come
    /// before.
    pub fn after_text(&self, memory: &Memory, way: u32, text: impl Iterator<Item = u8>) -> Option<Memory> {
        let mut after = self.after(memory, way);
        if self.members[self.ways[way as usize].member as usize].distinct {
            let value = Value::of(&text.collect::<Vec<u8>>());
            if after.seen.contains(&value) {
                return None;
            }
            after.seen = Arc::new(after.seen.with(&value));
        }
        Some(after)
    }

    /// Return whether any members are distinct.
    pub fn are_distinct(&self) -> bool {
        self.members.iter().any(|member| member.distinct)
    }

    /// Return the number of times that distinct members can still come.
    fn times(&self, memory: &Memory) -> u32 {
        match self.values {
            UNBOUNDED => UNBOUNDED,
            values => values.saturating_sub(memory.seen.count),
        }
    }

    /// Return whether the list may end now.
    pub fn may_end(&self, memory: &Memory) -> bool {
        let mut met: Bits = self.met(memory).into();
        for member in self.left(memory) {
            let member = &self.members[member as usize];
            if member.required {
                return false;
            }
            member.absent.iter().for_each(|bit| set(&mut met, *bit));
        }
        memory.count() >= self.minimum && (0..self.conditions).all(|bit| has(&met, bit))
    }

    /// Return the ways that may come next, in order of preference.
    pub fn choices<'m>(&self, memory: &'m Memory, meter: &mut Meter) -> Outcome<&'m [u32]> {
        if let Some(choices) = memory.choices.get() {
            return Ok(choices);
        }
        let mut choices = if memory.count() >= self.maximum {
            Vec::new()
        } else if self.conditions == 0 {
            self.choices_by_counts(memory, meter)?
        } else {
            self.choices_by_search(memory, meter)?
        };
        choices.sort_unstable();
        Ok(memory.choices.get_or_init(|| {
            memory.memory.grow(size_of_val(&*choices));
            choices.into()
        }))
    }

    /// Return the members that may come next: all that are left, or in an ordered list those up to the first required
    /// one.
    fn next_members<'m>(&'m self, memory: &'m Memory) -> impl Iterator<Item = u32> + 'm {
        let mut is_last = false;
        self.left(memory).take_while(move |member| {
            let passed = is_last;
            is_last |= self.ordered && self.members[*member as usize].required;
            !passed
        })
    }

    fn choices_by_counts(&self, memory: &Memory, meter: &mut Meter) -> Outcome<Vec<u32>> {
        let mut choices = Vec::new();
        let mut counts = Counts::of(self, memory);
        for member in self.next_members(memory) {
            meter.work(1)?;
            let own = &self.members[member as usize];
            if self.live_ways(member).next().is_none() {
                continue;
            }
            if counts.allow(self, own) {
                choices.extend(self.live_ways(member));
            }
            if self.ordered {
                *counts.of_kind(own) -= 1;
            }
        }
        Ok(choices)
    }

    /// Compute the choices from the last member to the first. What completes the list after one way often does so after
    /// another way; together with that way, it often completes the list after an earlier member.
    fn choices_by_search(&self, memory: &Memory, meter: &mut Meter) -> Outcome<Vec<u32>> {
        let mut choices = Vec::new();
        let mut plans = vec![Plan::of(self, memory, &[], meter)?];
        let next: Vec<u32> = self.next_members(memory).collect();
        // The conditions that later members may meet; in a list without order, those of all members.
        let mut later: Bits = vec![0; self.met(memory).len()].into();
        let is_after_all = |member: &u32| !self.ordered || !next.contains(member);
        let others = self.left(memory).filter(is_after_all);
        others.for_each(|member| self.add_met(member, &mut later));
        for member in next.into_iter().rev() {
            let own = &self.members[member as usize];
            if own.repeated {
                self.add_met(member, &mut later);
            }
            for way in self.live_ways(member) {
                meter.work(1)?;
                if self.clashes(way, self.met(memory)) || plans[0].is_hopeless(self, way, &later) {
                    continue;
                }
                if !plans.iter().any(|plan| plan.fits(self, way)) {
                    let Some(mut ways) = self.completion(&self.after(memory, way), own.distinct, meter)? else {
                        continue;
                    };
                    plans.truncate(1);
                    plans.push(Plan::of(self, memory, &ways, meter)?);
                    ways.push(way);
                    plans.push(Plan::of(self, memory, &ways, meter)?);
                }
                choices.push(way);
            }
            self.add_met(member, &mut later);
        }
        Ok(choices)
    }

    /// Add the conditions that a member may meet if it comes.
    fn add_met(&self, member: u32, met: &mut [u64]) {
        let ways = self.live_ways(member).map(|way| &self.ways[way as usize]);
        ways.for_each(|way| way.meets.iter().for_each(|bit| set(met, *bit)));
    }

    /// Return an upper bound of what a completion needs, whichever member comes next: members, and a number of further
    /// members.
    pub fn most_needed<'m>(&'m self, memory: &'m Memory) -> (impl Iterator<Item = u32> + 'm, u32) {
        // With conditions, any member may be needed, and a repeated member once for each condition.
        let is_needed = |member: &u32| self.conditions > 0 || self.members[*member as usize].required;
        let more = self
            .minimum
            .saturating_sub(memory.count())
            .saturating_add(1 + self.conditions);
        (self.left(memory).filter(is_needed), more)
    }

    /// Return an upper bound, at least 1, of the number of members still needed. Each needed member that comes lowers
    /// it by one.
    pub fn still_needed(&self, memory: &Memory) -> u32 {
        let required = self
            .left(memory)
            .filter(|member| self.members[*member as usize].required);
        let met = self.met(memory);
        let unmet = (0..self.conditions).filter(|bit| !has(met, *bit));
        let more = self.minimum.saturating_sub(memory.count());
        more.saturating_add((required.count() + unmet.count()) as u32).max(1)
    }

    fn member_of(&self, step: Step) -> u32 {
        match step {
            Step::Way(way) => self.ways[way as usize].member,
            Step::Leave(member) => member,
        }
    }

    /// Return whether a way meets a condition again that only one member may meet.
    fn clashes(&self, way: u32, met: &[u64]) -> bool {
        let meets = &self.ways[way as usize].meets;
        meets.iter().any(|bit| self.once.contains(bit) && has(met, *bit))
    }

    /// Return ways that complete the list after this memory (and after one more distinct value, if set), in no
    /// particular order. Return None if it cannot be completed.
    fn completion(&self, memory: &Memory, one_more_value: bool, meter: &mut Meter) -> Outcome<Option<Vec<u32>>> {
        let mut search = Search::new(self, memory, None, meter)?;
        if one_more_value {
            search.use_value();
        }
        Ok(search.run(meter)?.map(|found| found.ways))
    }
}

/// Numbers of members that are left and that have come. Without conditions, nothing else is relevant.
struct Counts {
    came: u32,
    required: u32,
    optional: u32,
    repeated: u32,
    distinct: u32,
    /// The number of times that distinct members can still come.
    times: u32,
}

impl Counts {
    fn of(members: &Members, memory: &Memory) -> Self {
        let mut counts = Counts {
            came: memory.count(),
            required: 0,
            optional: 0,
            repeated: 0,
            distinct: 0,
            times: members.times(memory),
        };
        for member in members.left(memory) {
            if members.live_ways(member).next().is_some() {
                *counts.of_kind(&members.members[member as usize]) += 1;
            }
        }
        counts
    }

    fn of_kind(&mut self, member: &Member) -> &mut u32 {
        match (member.required, member.repeated) {
            (true, _) => &mut self.required,
            (false, true) if member.distinct => &mut self.distinct,
            (false, true) => &mut self.repeated,
            (false, false) => &mut self.optional,
        }
    }

    /// Return whether the list can be completed after a member that is left.
    fn allow(&self, members: &Members, member: &Member) -> bool {
        let least = self.came + self.required + u32::from(!member.required);
        let optional = self.optional - u32::from(!member.required && !member.repeated);
        let repeated = match (self.repeated, self.distinct) {
            (0, 0) => 0,
            (0, _) if self.times != UNBOUNDED => self.times.saturating_sub(u32::from(member.distinct)),
            _ => UNBOUNDED,
        };
        let most = least.saturating_add(optional).saturating_add(repeated);
        least <= members.maximum && most >= members.minimum
    }
}

/// A set of members that come, while all others that are left stay away.
struct Plan {
    /// For each condition, the number of times it is met.
    met: Vec<u32>,
    /// The conditions that are not met.
    unmet: Vec<u32>,
    comes: Vec<bool>,
    /// Number of required members that do not come.
    lacking: u32,
    first: u32,
    count: u32,
}

impl Plan {
    fn of(members: &Members, memory: &Memory, ways: &[u32], meter: &mut Meter) -> Outcome<Self> {
        meter.work(members.members.len() + members.conditions as usize)?;
        let known = members.met(memory);
        let mut plan = Plan {
            met: (0..members.conditions).map(|bit| u32::from(has(known, bit))).collect(),
            unmet: Vec::new(),
            comes: vec![false; members.members.len()],
            lacking: 0,
            first: u32::MAX,
            count: memory.count() + ways.len() as u32,
        };
        for way in ways {
            let way = &members.ways[*way as usize];
            plan.comes[way.member as usize] = true;
            plan.first = plan.first.min(way.member);
            way.meets.iter().for_each(|bit| plan.met[*bit as usize] += 1);
        }
        for member in members.left(memory).filter(|member| !plan.comes[*member as usize]) {
            let member = &members.members[member as usize];
            plan.lacking += u32::from(member.required);
            member.absent.iter().for_each(|bit| plan.met[*bit as usize] += 1);
        }
        plan.unmet = (0..members.conditions)
            .filter(|bit| plan.met[*bit as usize] == 0)
            .collect();
        Ok(plan)
    }

    /// Return whether a way makes it impossible to meet all conditions: some condition is met neither if all others
    /// stay away nor by any of `later`.
    fn is_hopeless(&self, members: &Members, way: u32, later: &[u64]) -> bool {
        let Way { member, ref meets } = members.ways[way as usize];
        let own = &members.members[member as usize];
        let is_met = |bit: &u32| meets.contains(bit) || has(later, *bit);
        let is_lost = |bit: &u32| !own.repeated && self.met[*bit as usize] == 1 && !is_met(bit);
        !self.unmet.iter().all(is_met) || own.absent.iter().any(is_lost)
    }

    /// Return whether the plan with one more member in this way completes the list. The result may be false although it
    /// does.
    fn fits(&self, members: &Members, way: u32) -> bool {
        let Way { member, ref meets } = members.ways[way as usize];
        let own = &members.members[member as usize];
        let is_met = |bit: &u32| meets.contains(bit);
        let is_new = !self.comes[member as usize] && (!members.ordered || self.first > member);
        is_new
            && self.lacking == u32::from(own.required)
            && (members.minimum..=members.maximum).contains(&self.count.saturating_add(1))
            && self.unmet.iter().all(is_met)
            && own.absent.iter().all(|bit| self.met[*bit as usize] > 1 || is_met(bit))
            && !meets
                .iter()
                .any(|bit| members.once.contains(bit) && self.met[*bit as usize] > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Usage;
    use crate::grammar::decode::read_members;
    use crate::regular::distinct::Seen;
    use crate::regular::program::Reader;

    #[test]
    fn example_list_of_members() {
        let usage = Usage::default();
        let mut meter = Meter::new(1_000, &usage, 1);
        // In any order, without bounds or conditions: two members, of which the first is required.
        let mut reader = Reader {
            data: &[0, 0, 0, 0, 0, 2, 1, 0],
        };
        let members = read_members(&mut reader, 0, &Arc::new(Seen::default()), &mut meter).unwrap();
        let none = members.first();
        let second = members.after(&none, 1);
        let both = members.after(&second, 0);
        assert_eq!(
            [&none, &second, &both].map(|memory| members.may_end(memory)),
            [false, false, true]
        );
        assert!(both == members.after(&members.after(&none, 0), 1));
    }
}
