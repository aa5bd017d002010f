//! Members in any order, or in the written one: what may come next is worked out from what has come.
//!
//! What has come is the memory of a frame. A member is offered only if the rest can be completed after it; with
//! conditions that is a search, in which those that are hardest to meet are met first.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use crate::limits::{Meter, Outcome};

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
    /// Conditions that are met if it does not come.
    pub absent: Vec<u32>,
    /// Its ways: from the first one up to, not including, the last one.
    pub first_way: u32,
    pub last_way: u32,
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
    /// Where each way, and the separator, begins in the network.
    pub starts: Vec<u32>,
    pub separator: u32,
}

/// What has come, as words: the id and a position; a count; the members that came, as bits; the conditions met, as bits.
///
/// The position is for ordered members, the bits for others. The count stops where more is the same.
#[derive(Debug)]
pub struct Memory {
    pub words: Bits,
    choices: OnceLock<Box<[u32]>>,
}

impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for Memory {}

impl Hash for Memory {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words.hash(state);
    }
}

impl Memory {
    pub fn bytes(&self) -> usize {
        64 + 16 * self.words.len()
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
    /// An estimate of the bytes that they take.
    pub fn bytes(&self) -> usize {
        64 * (self.members.len() + self.ways.len()) + 8 * self.conditions as usize
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
        self.may_come = self.completion(&self.first(), meter)?.is_some();
        Ok(self.may_come)
    }

    /// Nothing has come.
    pub fn first(&self) -> Memory {
        let mut words = vec![0; HEAD + self.used_words() + self.conditions.div_ceil(64) as usize];
        words[0] = u64::from(self.id) << 32;
        Memory {
            words: words.into(),
            choices: OnceLock::new(),
        }
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
        Memory {
            words,
            choices: OnceLock::new(),
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
        Ok(memory.choices.get_or_init(|| choices.into()))
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

    /// From the last member to the first: what completes a list after a later one often does so after an earlier one.
    fn choices_by_search(&self, memory: &Memory, meter: &mut Meter) -> Outcome<Vec<u32>> {
        let mut choices = Vec::new();
        let mut plans = vec![Plan::of(self, memory, &[], meter)?];
        let next: Vec<u32> = self.next_members(memory).collect();
        for way in next.into_iter().rev().flat_map(|member| self.live_ways(member)) {
            meter.work(1)?;
            if self.clashes(way, self.met(memory)) {
                continue;
            }
            if !plans.iter().any(|plan| plan.fits(self, way)) {
                let Some(mut ways) = self.completion(&self.after(memory, way), meter)? else {
                    continue;
                };
                ways.push(way);
                plans.truncate(1);
                plans.push(Plan::of(self, memory, &ways, meter)?);
            }
            choices.push(way);
        }
        Ok(choices)
    }

    /// Whether a way meets a condition a second time that just one may meet.
    fn clashes(&self, way: u32, met: &[u64]) -> bool {
        let meets = &self.ways[way as usize].meets;
        meets.iter().any(|bit| self.once.contains(bit) && has(met, *bit))
    }

    /// Ways that complete what has come, in no order; none where it cannot be completed.
    pub fn completion(&self, memory: &Memory, meter: &mut Meter) -> Outcome<Option<Vec<u32>>> {
        let mut search = Search {
            members: self,
            fates: vec![Fate::Gone; self.members.len()],
            met: self.met(memory).into(),
            ways: Vec::new(),
            count: memory.count(),
        };
        meter.work(self.members.len() + 1)?;
        for member in self.left(memory) {
            let required = self.members[member as usize].required;
            search.count += u32::from(required);
            search.fates[member as usize] = if required { Fate::Comes } else { Fate::Open };
        }
        Ok(search.solve(meter)?.then_some(search.ways))
    }
}

/// How many members are left, and how many came: without conditions, all that matters.
struct Counts {
    came: u32,
    required: u32,
    optional: u32,
    repeated: u32,
}

impl Counts {
    fn of(members: &Members, memory: &Memory) -> Self {
        let mut counts = Counts {
            came: memory.count(),
            required: 0,
            optional: 0,
            repeated: 0,
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
            (false, true) => &mut self.repeated,
            (false, false) => &mut self.optional,
        }
    }

    /// Whether the rest can be completed after a member that is left.
    fn allow(&self, members: &Members, member: &Member) -> bool {
        let least = self.came + self.required + u32::from(!member.required);
        let optional = self.optional - u32::from(!member.required && !member.repeated);
        least <= members.maximum && (self.repeated > 0 || least.saturating_add(optional) >= members.minimum)
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It came, or was passed by.
    Gone,
    Open,
    /// It comes, in a way that is still open.
    Comes,
    /// It comes in a way that is chosen.
    Chosen,
    Absent,
}

/// A member comes in a way, or stays away.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Way(u32),
    Leave(u32),
}

/// A search for what completes a list of members.
struct Search<'a> {
    members: &'a Members,
    fates: Vec<Fate>,
    met: Bits,
    ways: Vec<u32>,
    count: u32,
}

impl Search<'_> {
    fn solve(&mut self, meter: &mut Meter) -> Outcome<bool> {
        if self.count > self.members.maximum {
            return Ok(false);
        }
        let Some(steps) = self.next_steps(meter)? else {
            return Ok(true);
        };
        for step in steps {
            let (met, ways, count) = (self.met.clone(), self.ways.len(), self.count);
            let member = self.member_of(step);
            let fate = self.fates[member];
            self.take(step);
            if self.solve(meter)? {
                return Ok(true);
            }
            self.fates[member] = fate;
            self.met = met;
            self.ways.truncate(ways);
            self.count = count;
        }
        Ok(false)
    }

    /// Steps of which one is taken in every completion; none if what was taken is one.
    fn next_steps(&mut self, meter: &mut Meter) -> Outcome<Option<Vec<Step>>> {
        let mut fewest: Option<Vec<Step>> = None;
        for bit in 0..self.members.conditions {
            if !has(&self.met, bit) {
                let steps = self.steps_to_meet(bit, meter)?;
                if steps.len() < 2 {
                    return Ok(Some(steps));
                }
                if !fewest.as_ref().is_some_and(|fewest| fewest.len() <= steps.len()) {
                    fewest = Some(steps);
                }
            }
        }
        if fewest.is_some() {
            return Ok(fewest);
        }
        self.fill(meter)
    }

    /// All conditions are met: choose ways of the members that come, and as many more as must.
    fn fill(&mut self, meter: &mut Meter) -> Outcome<Option<Vec<Step>>> {
        let mut chosen = Vec::new();
        let mut free = Vec::new();
        let mut counting = Vec::new();
        let mut repeated = None;
        for index in 0..self.fates.len() {
            meter.work(1)?;
            let member = &self.members.members[index];
            let open = match self.fates[index] {
                Fate::Open => true,
                Fate::Comes => false,
                _ => continue,
            };
            let (harmless, others): (Vec<u32>, Vec<u32>) = self
                .members
                .live_ways(index as u32)
                .filter(|way| !self.clashes(*way))
                .partition(|way| !self.counts_once(*way));
            match harmless.first() {
                Some(way) if open && member.repeated => repeated = Some(*way),
                Some(way) if open => free.push(*way),
                Some(way) => chosen.push(*way),
                None if !open => return Ok(Some(others.into_iter().map(Step::Way).collect())),
                None => counting.extend(others.into_iter().map(Step::Way)),
            }
        }
        let missing = self.members.minimum.saturating_sub(self.count) as usize;
        if free.len() >= missing || repeated.is_some() {
            let more = missing - free.len().min(missing);
            meter.work(more)?;
            self.ways.extend(chosen);
            self.ways.extend(free.into_iter().take(missing));
            self.ways.extend(repeated.into_iter().cycle().take(more));
            return Ok(None);
        }
        Ok(Some(counting))
    }

    fn steps_to_meet(&self, bit: u32, meter: &mut Meter) -> Outcome<Vec<Step>> {
        let steps = &self.members.meeting[bit as usize];
        meter.work(steps.len())?;
        let may_be_taken = |step: &&Step| {
            let fate = self.fates[self.member_of(**step)];
            match **step {
                Step::Leave(_) => fate == Fate::Open,
                Step::Way(way) => {
                    let comes = matches!(fate, Fate::Open | Fate::Comes);
                    comes && self.members.live[way as usize] && !self.clashes(way)
                }
            }
        };
        Ok(steps.iter().filter(may_be_taken).copied().collect())
    }

    fn counts_once(&self, way: u32) -> bool {
        let meets = &self.members.ways[way as usize].meets;
        meets.iter().any(|bit| self.members.once.contains(bit))
    }

    fn clashes(&self, way: u32) -> bool {
        self.members.clashes(way, &self.met)
    }

    fn member_of(&self, step: Step) -> usize {
        match step {
            Step::Way(way) => self.members.ways[way as usize].member as usize,
            Step::Leave(member) => member as usize,
        }
    }

    fn take(&mut self, step: Step) {
        let index = self.member_of(step);
        let member = &self.members.members[index];
        let met = match step {
            Step::Leave(_) => {
                self.fates[index] = Fate::Absent;
                &member.absent
            }
            Step::Way(way) => {
                self.count += u32::from(self.fates[index] == Fate::Open);
                if !member.repeated {
                    self.fates[index] = Fate::Chosen;
                }
                self.ways.push(way);
                &self.members.ways[way as usize].meets
            }
        };
        met.iter().for_each(|bit| set(&mut self.met, *bit));
    }
}
