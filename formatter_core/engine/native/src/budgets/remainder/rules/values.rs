//! Lists that may need several members with different values: the length of a text that is enough to complete one.
//!
//! Each value that is still needed is counted as the shortest one that can be left. Only the number of values that have
//! come matters, not the values themselves: each is counted as if it had been the shortest one left. So no value makes
//! the length grow: after it, one more value has come and one less is needed.

use std::mem::size_of_val;
use std::sync::Arc;

use super::shortest_values::Values;
use super::slack::{Slack, EXCLUDED_VALUES_BOUNDED};
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
    /// Return a text of this length followed by another one; its contents are unknown and make no difference.
    pub(super) fn some_text(&mut self, length: u32, rest: Text, meter: &mut Meter) -> Outcome<Text> {
        self.after_symbols(&vec![SOME_BYTE; length as usize], rest, meter)
    }

    /// Return an upper bound of the length needed to complete a list after one of its members, or after a separator; it
    /// is not always the shortest length.
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
        // The value is unknown, and so is the best way for it: take the maximum over all candidates.
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

    /// Return the values of a list's distinct members that change what completes the list if they come; a value of the
    /// list is in progress in a thread. Return None if any value may change it.
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
        // The first byte of a value determines the values of no known kind with which it is counted.
        let begins = match memory.text().is_empty() {
            true => first_kinds(thread.state, &self.lexicon, meter)?,
            false => 1,
        };
        let few = kinds.iter().filter_map(|kind| kind.few.as_ref());
        Ok((begins.count_ones() == 1).then(|| few.flat_map(|few| few.iter().cloned()).collect()))
    }

    /// Add the value that the shortest way leads to from a state of a distinct member's first terminal. After a
    /// separator, if just one more member is needed, add the values that this member may have.
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

    /// Return the length of a text that completes a list after `came` values of each kind.
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

    /// Return the number of values of each kind that have come.
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

    /// Return the prices of a list's values after `came` values of each kind; at most `needed` more values are needed.
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
            if last > EXCLUDED_VALUES_BOUNDED {
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

    /// Return the shortest values of a term, `number` of them if there are that many.
    pub(super) fn values(&mut self, term: Term, number: usize, meter: &mut Meter) -> Outcome<&Values> {
        let values = self.values.entry(term).or_default();
        values.find(number, term, &mut self.nearest, &self.lexicon, meter)?;
        Ok(values)
    }

    /// Return the first terminals of a list's distinct members; `with_slack` also computes bounds of the lengths of
    /// values.
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

/// Return whether a list may need several members with different values, or other members in addition to one.
pub fn needs_several_values(list: &Members) -> bool {
    let must_come = || list.members.iter().any(|member| member.required);
    list.are_distinct() && (list.minimum > 1 || list.conditions > 0 || must_come())
}
