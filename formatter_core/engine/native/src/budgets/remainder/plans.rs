//! Plans for completing a state with regions that have budgets: the shortest text of each thread, and the last token
//! number at which that text still leaves every region in time.
//!
//! A thread that could leave a region at once represents the texts that continue in the region; leaving it is the text
//! of another thread. Threads with the same text are kept or dropped together. A thread whose regions cannot end in
//! time is dropped from the state: the plans of the remaining threads already include their continuations, so no token
//! makes the way longer.

use std::cmp::Ordering;

use super::{memory_of, place_of, Remainders, Sized};
use crate::base::limits::{Meter, Outcome};
use crate::grammar::regions::Deadline;
use crate::grammar::stack::Frozen;
use crate::tokens::fitting::Reach;
use crate::tokens::spelling::{add, FIRST_TOKEN, NEVER};

/// Threads with the same shortest text.
#[derive(Default)]
struct Plan {
    threads: Vec<usize>,
    text: Sized,
    /// The length of that text up to the end of each region.
    ends: Vec<(Deadline, u32)>,
    /// Threads with this text that could leave regions at once, with the deadlines of these regions.
    leaving: Vec<(usize, Vec<Deadline>)>,
}

/// A state without the threads whose regions cannot end in time.
pub struct Kept {
    /// The remaining parts; None if all parts remain.
    pub parts: Option<Frozen>,
    /// Number of tokens that complete it, the end id included.
    pub distance: u32,
}

impl Remainders {
    /// Return the number of tokens that complete a state, over time: it depends on the first text that leaves all
    /// regions in time.
    pub fn reach(&mut self, parts: &Frozen, meter: &mut Meter) -> Outcome<Option<Reach>> {
        if parts.can_stop || !self.rules.has_regions() {
            return Ok(Some(Reach::always(self.distance(parts, meter)?)));
        }
        let mut found = Vec::new();
        let mut latest = None;
        self.each_plan(parts, meter, |own, plan| {
            let until = own.until(plan);
            if until > latest {
                latest = until;
                found.extend(until.map(|until| (until, own.distance_of(plan))));
            }
            latest == Some(u32::MAX)
        })?;
        if latest != Some(u32::MAX) && self.has_free_threads(parts) {
            found.push((u32::MAX, NEVER));
        }
        Ok(Reach::of(found))
    }

    /// Return what is kept of a state after this many tokens; None if nothing is.
    pub fn kept(&mut self, parts: &Frozen, tokens: u32, meter: &mut Meter) -> Outcome<Option<Kept>> {
        let mut keeps = vec![false; parts.threads.len() + parts.tokens.len()];
        let mut distance = parts.can_stop.then_some(1);
        self.each_plan(parts, meter, |own, plan| {
            if own.until(plan).is_some_and(|until| tokens <= until) {
                plan.threads.iter().for_each(|index| keeps[*index] = true);
                let may_stay = |deadline: &Deadline| !matches!(deadline, Deadline::At(at) if *at <= tokens);
                let leaving = plan.leaving.iter().filter(|(_, ends)| ends.iter().all(may_stay));
                leaving.for_each(|(index, _)| keeps[*index] = true);
                distance.get_or_insert(own.distance_of(plan));
            }
            false
        })?;
        // No region's budget applies to threads outside regions.
        for (index, keeps) in keeps.iter_mut().enumerate() {
            if place_of(parts, index).1.deadlines().is_none() {
                *keeps = true;
                distance.get_or_insert(NEVER);
            }
        }
        let Some(distance) = distance else {
            return Ok(None);
        };
        if keeps.iter().all(|keeps| *keeps) {
            return Ok(Some(Kept { parts: None, distance }));
        }
        let mut keeps = keeps.into_iter();
        let mut parts = parts.clone();
        parts.threads.retain(|_| keeps.next().unwrap_or(false));
        parts.tokens.retain(|_| keeps.next().unwrap_or(false));
        Ok(Some(Kept {
            parts: Some(parts),
            distance,
        }))
    }

    /// Return the maximum number of tokens up to which any next token leaves all regions enough tokens to end.
    pub fn quiet_until(&mut self, parts: &Frozen, meter: &mut Meter) -> Outcome<u32> {
        if !self.rules.are_regions_roomy() {
            return Ok(0);
        }
        let mut until = u32::MAX;
        let threads = parts.threads.iter();
        let threads = threads.map(|thread| (Some(thread.state), thread.next, &thread.frame));
        let tokens = parts.tokens.iter().map(|thread| (None, thread.next, &thread.frame));
        for (state, next, frame) in threads.chain(tokens) {
            let below = self.below(frame, meter)?;
            for end in below.ends.iter().flat_map(|ends| ends.iter()) {
                let own = self.rules.farthest_inside(state, next, meter)?;
                let inside = self.rules.farthest(own, next, memory_of(frame));
                let beyond = self.rules.texts.fewest_up_to(below.shortest.text, end.after);
                let most = add(inside, beyond).max(end.farthest).max(1);
                until = until.min(match end.deadline {
                    Deadline::At(at) => at.saturating_sub(most),
                    Deadline::In(_) => 0,
                });
            }
        }
        Ok(until)
    }

    /// Visit the plans of a state, the shortest texts first (among equal lengths, the first in byte order), until
    /// `take` returns true.
    fn each_plan(
        &mut self,
        parts: &Frozen,
        meter: &mut Meter,
        mut take: impl FnMut(&Self, &Plan) -> bool,
    ) -> Outcome<()> {
        let mut lengths = self.lengths_of(parts, meter)?;
        lengths.sort_unstable();
        let mut rest = &lengths[..];
        while let Some((length, _)) = rest.first() {
            let same = rest.iter().take_while(|(other, _)| other == length).count();
            let (these, longer) = rest.split_at(same);
            rest = longer;
            let mut plans: Vec<Plan> = Vec::new();
            if parts.can_stop && *length == 0 {
                plans.push(Plan::default());
            }
            let mut leaving = Vec::new();
            for index in these.iter().map(|(_, index)| *index as usize) {
                let mut plan = self.plan_of(parts, index, meter)?;
                let at_once = plan.ends.iter().filter(|(_, length)| *length == 0);
                let at_once: Vec<Deadline> = at_once.map(|(deadline, _)| *deadline).collect();
                if at_once.is_empty() {
                    self.add_plan(&mut plans, plan, meter)?;
                } else {
                    plan.leaving = vec![(index, at_once)];
                    leaving.push(plan);
                }
            }
            for Plan { text, mut leaving, .. } in leaving {
                let same = |plan: &&mut Plan| self.rules.texts.compare(text.text, plan.text.text).is_eq();
                if let Some(plan) = plans.iter_mut().find(same) {
                    plan.leaving.append(&mut leaving);
                }
            }
            if plans.iter().any(|plan| take(self, plan)) {
                break;
            }
        }
        Ok(())
    }

    /// Return the lengths of the shortest texts of the threads, for those that have one.
    pub(super) fn lengths_of(&mut self, parts: &Frozen, meter: &mut Meter) -> Outcome<Vec<(u32, u32)>> {
        let mut lengths = Vec::new();
        for index in 0..parts.threads.len() + parts.tokens.len() {
            let (next, frame) = place_of(parts, index);
            let own = match parts.threads.get(index) {
                Some(thread) => self.rules.nearest.distance(thread.state, &self.rules.lexicon, meter)?,
                None => self.rules.token_length(parts.tokens[index - parts.threads.len()].token),
            };
            let length = self.length(own, next, frame, meter)?;
            if length < NEVER {
                lengths.push((length, index as u32));
            }
        }
        Ok(lengths)
    }

    fn plan_of(&mut self, parts: &Frozen, index: usize, meter: &mut Meter) -> Outcome<Plan> {
        let symbols = match parts.threads.get(index) {
            Some(thread) => {
                let bytes = self.rules.nearest.bytes(thread.state, &self.rules.lexicon, meter)?;
                bytes.into_iter().flatten().map(u32::from).collect()
            }
            None => vec![FIRST_TOKEN + parts.tokens[index - parts.threads.len()].token],
        };
        let (next, frame) = place_of(parts, index);
        let below = self.below(frame, meter)?;
        let beyond = self.beyond(next, frame, meter)?;
        let inside = self.rules.at(next);
        let text = self.rules.join(inside.text, beyond.text, meter)?;
        let length = symbols.len() as u32 + inside.length + beyond.length;
        let before = length - below.shortest.length;
        let ends = below.ends.iter().flat_map(|ends| ends.iter());
        Ok(Plan {
            threads: vec![index],
            text: Sized {
                length,
                text: self.rules.after_symbols(&symbols, text, meter)?,
            },
            ends: ends.map(|end| (end.deadline, before + end.after)).collect(),
            leaving: Vec::new(),
        })
    }

    /// Insert a plan among others of the same length, or merge it with the one that has the same text.
    fn add_plan(&mut self, plans: &mut Vec<Plan>, mut plan: Plan, meter: &mut Meter) -> Outcome<()> {
        for index in 0..plans.len() {
            meter.work(plan.text.length as usize + 1)?;
            match self.rules.texts.compare(plan.text.text, plans[index].text.text) {
                Ordering::Less => {
                    plans.insert(index, plan);
                    return Ok(());
                }
                Ordering::Equal => {
                    let known = &mut plans[index];
                    known.text.text = self.rules.first(known.text.text, plan.text.text);
                    known.threads.append(&mut plan.threads);
                    known.ends.append(&mut plan.ends);
                    return Ok(());
                }
                Ordering::Greater => {}
            }
        }
        plans.push(plan);
        Ok(())
    }

    /// Return the maximum number of tokens after which a plan still leaves all regions in time; None if it never does.
    fn until(&self, plan: &Plan) -> Option<u32> {
        let mut until = u32::MAX;
        for (deadline, length) in &plan.ends {
            let tokens = self.rules.texts.fewest_up_to(plan.text.text, *length);
            until = match *deadline {
                Deadline::At(at) => until.min(at.checked_sub(tokens)?),
                Deadline::In(most) if tokens <= most => until,
                Deadline::In(_) => return None,
            };
        }
        Some(until)
    }

    fn distance_of(&self, plan: &Plan) -> u32 {
        add(1, self.rules.texts.fewest(plan.text.text))
    }

    /// Return whether a state has threads that are in no region.
    fn has_free_threads(&self, parts: &Frozen) -> bool {
        let count = parts.threads.len() + parts.tokens.len();
        (0..count).any(|index| place_of(parts, index).1.deadlines().is_none())
    }
}
