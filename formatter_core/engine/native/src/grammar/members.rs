//! Members in any order, or in the written one: what may come next is worked out from what has come.
//!
//! What has come is the memory of a frame. A member is offered only if the rest can be completed after it; with
//! conditions that is a search, in which those that are hardest to meet are met first.

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

/// One way to write a member.
#[derive(Clone, Debug)]
pub struct Way {
    pub member: u32,
    /// Conditions that it meets.
    pub meets: Vec<u32>,
}

#[derive(Clone, Debug)]
pub struct Member {
    pub required: bool,
    pub repeated: bool,
    /// Whether the value that it begins with differs from those of all other such members.
    pub distinct: bool,
    /// Conditions that are met if it does not come.
    pub absent: Vec<u32>,
    /// Its ways: from the first one up to, not including, the last one.
    pub first_way: u32,
    pub last_way: u32,
}

/// What may come after one of members in order, while these are built from their end.
#[derive(Clone, Copy)]
pub struct Rest {
    /// Where further ones may come.
    pub further: Option<u32>,
    /// Whether `next` may come at once: none of the further ones is required.
    pub may_end: bool,
    pub next: u32,
}

impl Rest {
    /// After the last one.
    pub fn new(next: u32) -> Self {
        Rest {
            further: None,
            may_end: true,
            next,
        }
    }

    /// Be what may come after the member before: where that goes on if this one is left out.
    pub fn leave_out(&mut self, required: bool) -> Option<u32> {
        if required {
            self.may_end = false;
            return None;
        }
        self.further
    }
}

/// A member comes in a way, or stays away.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Way(u32),
    Leave(u32),
}

/// Members, as a grammar has them.
#[derive(Clone, Debug)]
pub struct Members {
    /// Tells the memories of one list of members from those of others.
    pub id: u32,
    pub ordered: bool,
    pub minimum: u32,
    pub maximum: u32,
    pub conditions: u32,
    /// The conditions that just one member may meet.
    pub once: Vec<u32>,
    pub members: Vec<Member>,
    pub ways: Vec<Way>,
    /// What meets each condition.
    pub meeting: Vec<Vec<Step>>,
    /// Whether each way can be completed: the others never come.
    pub live: Vec<bool>,
    /// How many required members have no such way.
    pub lacking: usize,
    /// Whether the list can be completed at all.
    pub may_come: bool,
    /// How many values distinct members can begin with, where they are fewer than `minimum`; else `UNBOUNDED`.
    pub values: u32,
    /// Where each way, and the separator, begins in the network.
    pub starts: Vec<u32>,
    pub separator: u32,
    /// That no value has come: all lists of a grammar have this one, which counts the bytes of all memories.
    pub none_seen: Arc<Seen>,
}

/// What has come, as words: the id and a position; a count; the members that came, as bits; the conditions met, as bits.
///
/// The position is for ordered members, the bits for others. The count stops where more is the same.
#[derive(Debug)]
pub struct Memory {
    words: Bits,
    /// The values that distinct members began with.
    pub seen: Arc<Seen>,
    text: Option<Written>,
    choices: OnceLock<Box<[u32]>>,
    memory: Counted,
}

/// What is written of a distinct member's first terminal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Written {
    Text(Box<[u8]>),
    /// Whatever begins with this byte.
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

    /// An estimate of the bytes that it takes.
    pub fn bytes(&self) -> usize {
        let choices = self.choices.get().map_or(0, |choices| 4 * choices.len());
        96 + 16 * self.words.len() + 2 * self.text().len() + choices + self.seen.grown
    }

    /// What makes two memories equal is added to `key`.
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
            // No text is as long.
            Some(Written::Anything(first)) => key.push(u64::MAX - u64::from(*first)),
        }
    }

    /// What tells what has come, but for values.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The same with more of a distinct member's first terminal.
    pub fn with_text(&self, more: &[u8]) -> Self {
        let text = match &self.text {
            Some(Written::Anything(first)) => Written::Anything(*first),
            _ => Written::Text([self.text(), more].concat().into()),
        };
        self.with_written(text)
    }

    /// The same as if it did not matter what is written: some value that begins with this byte.
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

    /// The same with the value that has been written.
    pub fn with_value(&self) -> Self {
        let seen = match &self.text {
            Some(Written::Anything(first)) => self.seen.with_unknown(*first),
            _ => self.seen.with(&Value::of(self.text())),
        };
        Memory::new(self.words.clone(), Arc::new(seen))
    }

    /// What has been written of a distinct member's first terminal, if that matters.
    pub fn text(&self) -> &[u8] {
        match &self.text {
            Some(Written::Text(text)) => text,
            _ => &[],
        }
    }

    /// Whether it does not matter what is written.
    pub fn takes_anything(&self) -> bool {
        matches!(self.text, Some(Written::Anything(_)))
    }

    /// The same as if no value were being written.
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
    /// Whether all that matters of what has come is the place in the written order.
    pub fn are_places(&self) -> bool {
        let is_plain = |member: &Member| !(member.distinct || member.repeated && member.required);
        self.ordered
            && self.minimum == 1
            && self.maximum == UNBOUNDED
            && self.conditions == 0
            && self.members.iter().all(is_plain)
    }

    /// See `heap`.
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

    /// A way can be completed; whether the list can be from now on.
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

    /// Nothing has come.
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

    /// The members that have not come, and were not passed by.
    fn left<'m>(&'m self, memory: &'m Memory) -> impl Iterator<Item = u32> + 'm {
        let first = if self.ordered { memory.place() as u32 } else { 0 };
        let used = self.used(memory);
        (first..self.members.len() as u32).filter(move |member| self.ordered || !has(used, *member))
    }

    fn live_ways(&self, member: u32) -> impl Iterator<Item = u32> + '_ {
        let member = &self.members[member as usize];
        (member.first_way..member.last_way).filter(|way| self.live[*way as usize])
    }

    /// What has come with one more member, which may come.
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

    /// The same, for a text of the member; none if the value that it begins with has come.
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

    /// Whether any members are distinct.
    pub fn are_distinct(&self) -> bool {
        self.members.iter().any(|member| member.distinct)
    }

    /// How often distinct members can come.
    fn times(&self, memory: &Memory) -> u32 {
        match self.values {
            UNBOUNDED => UNBOUNDED,
            values => values.saturating_sub(memory.seen.count),
        }
    }

    /// Whether nothing more need come.
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

    /// The ways that may come next, in the order of preference.
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

    /// The members that may come next before one of those that must have come: all that are left, or those up to it.
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

    /// From the last member to the first: what completes a list after one way often does so after another one, and
    /// together with that way, after an earlier member.
    fn choices_by_search(&self, memory: &Memory, meter: &mut Meter) -> Outcome<Vec<u32>> {
        let mut choices = Vec::new();
        let mut plans = vec![Plan::of(self, memory, &[], meter)?];
        let next: Vec<u32> = self.next_members(memory).collect();
        // The conditions that members after one may meet: in any order, all of them.
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

    /// Add the conditions that a member may meet where it comes.
    fn add_met(&self, member: u32, met: &mut [u64]) {
        let ways = self.live_ways(member).map(|way| &self.ways[way as usize]);
        ways.for_each(|way| way.meets.iter().for_each(|bit| set(met, *bit)));
    }

    /// At most what completes a list, whatever comes next: members, and how many more.
    pub fn most_needed<'m>(&'m self, memory: &'m Memory) -> (impl Iterator<Item = u32> + 'm, u32) {
        // With conditions any member may be needed, and one that is repeated for each of them.
        let is_needed = |member: &u32| self.conditions > 0 || self.members[*member as usize].required;
        let more = self
            .minimum
            .saturating_sub(memory.count())
            .saturating_add(1 + self.conditions);
        (self.left(memory).filter(is_needed), more)
    }

    /// At most how many members are still needed, one at least: with every one that comes of those it is one less.
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

    /// Whether a way meets a condition a second time that just one may meet.
    fn clashes(&self, way: u32, met: &[u64]) -> bool {
        let meets = &self.ways[way as usize].meets;
        meets.iter().any(|bit| self.once.contains(bit) && has(met, *bit))
    }

    /// Ways that complete what has come, and one more distinct value, in no order; none where it cannot be completed.
    fn completion(&self, memory: &Memory, one_more_value: bool, meter: &mut Meter) -> Outcome<Option<Vec<u32>>> {
        let mut search = Search::new(self, memory, None, meter)?;
        if one_more_value {
            search.use_value();
        }
        Ok(search.run(meter)?.map(|found| found.ways))
    }
}

/// How many members are left, and how many came: without conditions, all that matters.
struct Counts {
    came: u32,
    required: u32,
    optional: u32,
    repeated: u32,
    distinct: u32,
    /// How often distinct members can come.
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

    /// Whether the rest can be completed after a member that is left.
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

/// Members that come, where all others that are left stay away.
struct Plan {
    /// How often each condition is met.
    met: Vec<u32>,
    /// The conditions that are not met.
    unmet: Vec<u32>,
    comes: Vec<bool>,
    /// Required members that do not come.
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

    /// Whether a way leaves a condition that is met neither where all others stay away nor by any of `later`.
    fn is_hopeless(&self, members: &Members, way: u32, later: &[u64]) -> bool {
        let Way { member, ref meets } = members.ways[way as usize];
        let own = &members.members[member as usize];
        let is_met = |bit: &u32| meets.contains(bit) || has(later, *bit);
        let is_lost = |bit: &u32| !own.repeated && self.met[*bit as usize] == 1 && !is_met(bit);
        !self.unmet.iter().all(is_met) || own.absent.iter().any(is_lost)
    }

    /// Whether the list is complete with a way of one member more; it may be where the answer is no.
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
