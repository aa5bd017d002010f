//! Lists that may need several members whose values differ: how long a text is that is enough to complete one.
//!
//! The values that are still needed are counted as the shortest ones that can be left. Which values have come does not
//! matter, only how many of a kind: each is counted as if it had been the shortest that was left. So the length does not
//! grow with a value, whatever it was: one more has come then, and one less is needed.

use std::mem::size_of_val;
use std::sync::Arc;

use super::shortest_values::Values;
use super::slack::{Slack, MOST_VALUES};
use super::value_groups::{first_kinds, DistinctTerms, Kind};
use super::{RuleRemainders, Tail};
use crate::base::limits::{Meter, Outcome};
use crate::grammar::members::{Cost, Members, Memory, Prices, Search};
use crate::grammar::network::{Network, Position};
use crate::grammar::stack::Thread;
use crate::regular::distinct::Value;
use crate::regular::term::Term;
use crate::tokens::spelling::{add, Text, NEVER, SOME_BYTE};

impl RuleRemainders {
    /// A text of this length in front of another one: what it says is not known, and does not matter.
    pub(super) fn some_text(&mut self, length: u32, rest: Text, meter: &mut Meter) -> Outcome<Text> {
        self.after_symbols(&vec![SOME_BYTE; length as usize], rest, meter)
    }

    /// How long a text is that completes a list after one of its members, or after a separator; not always the shortest.
    pub(super) fn length_of_values(&mut self, tail: Tail, memory: &Memory, meter: &mut Meter) -> Outcome<u32> {
        let members = self.members.clone();
        let members = &members[tail.list as usize];
        let terms = self.lists[tail.list as usize].distinct.clone();
        let came = self.came(&terms, memory);
        let source = tail
            .way
            .and_then(|way| Some((way, terms.sources[way as usize].as_ref()?)));
        let Some((way, source)) = source.filter(|_| tail.in_value) else {
            let after = tail.way.map(|way| members.after(memory, way));
            return self.length_after(tail, &terms, after.as_ref().unwrap_or(memory), &came, meter);
        };
        // What the value will be is not known, but which way is the best one for it.
        let mut most = 0;
        for way in source.better.iter().chain([&way]) {
            let mut came = came.clone();
            if let Some(source) = &terms.sources[*way as usize] {
                came[source.kind] += 1;
            }
            most = most.max(self.length_after(tail, &terms, &members.after(memory, *way), &came, meter)?);
        }
        Ok(most)
    }

    /// Of the values of a list's distinct members, one of which is under way in a thread, those of which it matters for
    /// what completes the list whether they come; none if it may matter of every value.
    pub fn values_that_matter(
        &self,
        thread: &Thread,
        memory: Option<&Memory>,
        meter: &mut Meter,
    ) -> Outcome<Option<Vec<Value>>> {
        let (Some(tail), Some(memory)) = (self.tail(thread.next), memory) else {
            return Ok(None);
        };
        let kinds = &self.lists[tail.list as usize].distinct.kinds;
        if kinds.len() < 2 {
            return Ok(Some(Vec::new()));
        }
        // What a value begins with tells which values of no known kind it is counted with.
        let begins = match memory.text().is_empty() {
            true => first_kinds(thread.state, &self.lexicon, meter)?,
            false => 1,
        };
        let few = kinds.iter().filter_map(|kind| kind.few.as_ref());
        Ok((begins.count_ones() == 1).then(|| few.flat_map(|few| few.iter().cloned()).collect()))
    }

    /// The value that the shortest way ends in from a state of a distinct member's first terminal; or those that the next
    /// member may be, where just one more is needed.
    pub fn add_nearest(
        &mut self,
        values: &mut Vec<Value>,
        state: Option<Term>,
        tail: Tail,
        memory: &Memory,
        meter: &mut Meter,
    ) -> Outcome<()> {
        if let (true, Some(state)) = (tail.in_value, state) {
            if memory.takes_anything() {
                return Ok(());
            }
            let rest = self.nearest.bytes(state, &self.lexicon, meter)?;
            values.extend(rest.map(|rest| Value::of(&[memory.text(), &rest].concat())));
        } else if tail.way.is_none() && !needs_several_values(&self.members[tail.list as usize]) {
            let terms = self.lists[tail.list as usize].distinct.clone();
            for (term, _) in terms.by_way.iter().flatten() {
                let left = self.lexicon.without(*term, &memory.seen, meter)?;
                let text = self.nearest.bytes(left, &self.lexicon, meter)?;
                values.extend(text.map(|text| Value::of(&text)));
            }
        }
        Ok(())
    }

    /// How long a text is that completes a list, where this many values of each kind have come.
    fn length_after(
        &mut self,
        tail: Tail,
        terms: &DistinctTerms,
        memory: &Memory,
        came: &[u32],
        meter: &mut Meter,
    ) -> Outcome<u32> {
        let members = self.members.clone();
        let members = &members[tail.list as usize];
        if tail.way.is_some() && members.may_end(memory) {
            return Ok(0);
        }
        let numbers = came.iter().map(|number| u64::from(*number));
        let words = memory.words().iter().copied().chain(numbers);
        let key: Box<[u64]> = words.chain([u64::from(tail.way.is_some())]).collect();
        if let Some(known) = self.of_values.get(&key) {
            return Ok(*known);
        }
        let separator = self.length_of(self.lists[tail.list as usize].separator);
        let prices = self.prices(terms, came, members.still_needed(memory), meter)?;
        let lengths = members.starts.iter().map(|start| self.shortest[*start as usize].length);
        let costs = (0..)
            .zip(lengths)
            .map(|(way, length)| prices.cost(way, add(separator, length)));
        let costs: Vec<Cost> = costs.collect();
        let search = Search::new(members, memory, Some(&costs), meter)?;
        let found = search.with_prices(&prices).run(meter)?;
        let length = found.map_or(NEVER, |found| u32::try_from(found.length).unwrap_or(NEVER).min(NEVER));
        let length = match tail.way {
            None if length < NEVER => length - separator,
            _ => length,
        };
        self.keys += size_of_val(&*key);
        self.of_values.insert(key, length);
        Ok(length)
    }

    /// How many values of each kind have come.
    pub(super) fn came(&self, terms: &DistinctTerms, memory: &Memory) -> Vec<u32> {
        let seen = &memory.seen;
        if terms.kinds.len() < 2 {
            return vec![seen.count; terms.kinds.len()];
        }
        let known = |kind: &Kind| {
            let came = kind.few.as_ref()?.iter().filter(|value| seen.contains(value));
            Some(came.count() as u32)
        };
        let counts: Vec<Option<u32>> = terms.kinds.iter().map(known).collect();
        let others = |kind: &Kind| {
            let all = (0..3)
                .filter(|first| kind.begins >> first & 1 == 1)
                .map(|first| seen.counts[first]);
            let few = terms
                .kinds
                .iter()
                .zip(&counts)
                .filter(|(other, _)| other.begins & kind.begins != 0);
            all.sum::<u32>()
                .saturating_sub(few.filter_map(|(_, count)| *count).sum())
        };
        let kinds = terms.kinds.iter().zip(&counts);
        kinds
            .map(|(kind, count)| count.unwrap_or_else(|| others(kind)))
            .collect()
    }

    /// What values of a list cost where this many of each kind have come, and at most so many are needed.
    pub(super) fn prices(
        &mut self,
        terms: &DistinctTerms,
        came: &[u32],
        needed: u32,
        meter: &mut Meter,
    ) -> Outcome<Prices> {
        let mut prices = Prices::new(terms.by_way.len());
        for way in 0..terms.by_way.len() {
            let (Some((term, _)), Some(source)) = (terms.by_way[way], &terms.sources[way]) else {
                continue;
            };
            let (first, last) = (
                came[source.kind] as usize,
                came[source.kind].saturating_add(needed) as usize,
            );
            if last > MOST_VALUES {
                prices.set_all(way, NEVER);
                continue;
            }
            let shortest = self.nearest.distance(term, &self.lexicon, meter)?;
            let lengths = &self.values(source.term, last, meter)?.lengths;
            let more: Vec<u32> = lengths.iter().map(|length| length - shortest).take(last).collect();
            match terms.kinds[source.kind].is_flat {
                true => prices.set_all(way, more.get(last - 1).copied().unwrap_or(NEVER)),
                false => prices.set(way, source.kind, more.get(first..).unwrap_or_default()),
            }
        }
        Ok(prices)
    }

    /// The shortest values of a term, as many as this if there are as many.
    pub(super) fn values(&mut self, term: Term, number: usize, meter: &mut Meter) -> Outcome<&Values> {
        let values = self.values.entry(term).or_default();
        values.find(number, term, &mut self.nearest, &self.lexicon, meter)?;
        Ok(values)
    }

    /// The first terminals of a list's distinct members; with how long values are at most, where that is asked for.
    pub(super) fn distinct_terms(
        &mut self,
        list: &Members,
        network: &Network,
        with_slack: bool,
        meter: &mut Meter,
    ) -> Outcome<Arc<DistinctTerms>> {
        let by_way = list.starts.iter().map(|start| match *network.position(*start) {
            Position::Distinct { term, next } => Some((term, next)),
            _ => None,
        });
        let mut terms = DistinctTerms {
            by_way: by_way.collect(),
            kinds: Box::default(),
            sources: vec![None; list.starts.len()].into(),
            slack: Slack::NONE,
        };
        if needs_several_values(list) {
            self.find_kinds(&mut terms, list, network, meter)?;
        }
        if with_slack {
            let firsts = terms.by_way.iter().flatten().map(|(term, _)| (*term, 0));
            let lasts = terms.sources.iter().flatten();
            let lasts = lasts.map(|source| (source.term, u32::from(terms.kinds[source.kind].is_flat)));
            let mut all: Vec<(Term, u32)> = firsts.chain(lasts).collect();
            all.sort_unstable();
            all.dedup();
            for (term, is_flat) in all {
                let own = Slack::of(term, is_flat == 1, &mut self.nearest, &self.lexicon, meter)?;
                terms.slack = terms.slack.most(&own);
            }
        }
        Ok(Arc::new(terms))
    }
}

/// Whether a list may need several members that differ, or others beside them.
pub fn needs_several_values(list: &Members) -> bool {
    let must_come = || list.members.iter().any(|member| member.required);
    list.are_distinct() && (list.minimum > 1 || list.conditions > 0 || must_come())
}
