//! Lists that may need several members whose values differ: how long a text is that is enough to complete one.
//!
//! Each value that is still needed counts as long as the longest of as many shortest ones as have come and are needed:
//! whichever those are, one that has not come is no longer. So the length does not grow with a value, whatever it was:
//! one more has come then, and one less is needed.

use super::{RuleRemainders, Tail};
use crate::distinct::{Seen, Value};
use crate::limits::{Meter, Outcome};
use crate::members::{Cost, Members, Memory, Search, UNUSABLE};
use crate::network::{Network, Position};
use crate::spelling::{add, Text, NEVER};
use crate::term::{Term, NOTHING};

/// Up to this many values of a term are tried.
const MOST_VALUES: u32 = 64;

/// The first terminals of the distinct members of a list.
#[derive(Clone)]
pub struct DistinctTerms {
    /// By way, with what comes after it.
    pub by_way: Box<[Option<(Term, u32)>]>,
    /// How long a value is at most that is left, see `beyond`; no such number is known if the first one is `NEVER`.
    pub slack: (u32, u32),
}

/// The values of a term, the shortest first, as far as they were asked for.
#[derive(Default)]
pub struct Values {
    lengths: Vec<u32>,
    seen: Seen,
}

impl RuleRemainders {
    /// A text of this length in front of another one: what it says is not known, and does not matter.
    pub(super) fn some_text(&mut self, length: u32, rest: Text, meter: &mut Meter) -> Outcome<Text> {
        self.after_symbols(&vec![0; length as usize], rest, meter)
    }

    /// How long a text is that completes a list after one of its members, or after a separator; not always the shortest.
    pub(super) fn length_of_values(&mut self, tail: Tail, memory: &Memory, meter: &mut Meter) -> Outcome<u32> {
        if !self.counts_values {
            return Ok(NEVER);
        }
        let members = self.members.clone();
        let members = &members[tail.list as usize];
        let after = tail.way.map(|way| members.after(memory, way));
        let memory = after.as_ref().unwrap_or(memory);
        let separator = self.length_of(self.lists[tail.list as usize].separator);
        let values = memory.seen.count + u32::from(tail.in_value);
        let terms = self.lists[tail.list as usize].distinct.clone();
        let more = self.added_by_values(&terms, values.saturating_add(members.still_needed(memory)), meter)?;
        let mut costs = Vec::with_capacity(more.len());
        for (start, more) in members.starts.iter().zip(more) {
            let length = add(add(separator, self.shortest[*start as usize].length), more);
            let length = if length == NEVER { UNUSABLE } else { length };
            costs.push(Cost { length, rank: 0 });
        }
        let found = Search::new(members, memory, Some(&costs), meter)?.run(meter)?;
        let length = found.map_or(NEVER, |found| u32::try_from(found.length).unwrap_or(NEVER).min(NEVER));
        Ok(match tail.way {
            None if length < NEVER => length - separator,
            _ => length,
        })
    }

    /// By way of a list, what a value adds to the shortest one where this many may have come or are needed.
    pub(super) fn added_by_values(
        &mut self,
        terms: &DistinctTerms,
        number: u32,
        meter: &mut Meter,
    ) -> Outcome<Vec<u32>> {
        let mut added = Vec::with_capacity(terms.by_way.len());
        for term in terms.by_way.iter() {
            added.push(match term {
                None => 0,
                Some((term, _)) => match self.length_of_value(*term, number, terms.slack, meter)? {
                    NEVER => NEVER,
                    length => length - self.nearest.distance(*term, &self.lexicon, meter)?,
                },
            });
        }
        Ok(added)
    }

    /// How long the longest of this many shortest values of a term is; more than that where they are many.
    fn length_of_value(&mut self, term: Term, number: u32, slack: (u32, u32), meter: &mut Meter) -> Outcome<u32> {
        if number > MOST_VALUES {
            return Ok(beyond(slack, number));
        }
        let mut values = self.values.remove(&term).unwrap_or_default();
        while values.lengths.len() < number as usize {
            let left = self.lexicon.without(term, &values.seen, meter)?;
            let length = match left {
                NOTHING => NEVER,
                _ => self.nearest.distance(left, &self.lexicon, meter)?,
            };
            if length == NEVER {
                values.lengths.resize(MOST_VALUES as usize, NEVER);
                break;
            }
            let bytes = self.nearest.bytes(left, &self.lexicon, meter)?;
            values.seen = values.seen.with(&Value::of(&bytes));
            values.lengths.push(length);
        }
        let length = values.lengths[number as usize - 1];
        self.values.insert(term, values);
        Ok(length)
    }

    /// The first terminals of a list's distinct members.
    pub(super) fn distinct_terms(
        &mut self,
        list: &Members,
        network: &Network,
        meter: &mut Meter,
    ) -> Outcome<DistinctTerms> {
        let (mut by_way, mut slack) = (Vec::with_capacity(list.starts.len()), (0, 0));
        for start in &list.starts {
            let Position::Distinct { term, next } = *network.position(*start) else {
                by_way.push(None);
                continue;
            };
            let own = match network.is_free(next) {
                true => self.nearest.farthest_free(term, &self.lexicon, meter)?,
                false => (NEVER, 0),
            };
            slack = (own.0.max(slack.0), own.1.max(slack.1));
            by_way.push(Some((term, next)));
        }
        Ok(DistinctTerms {
            by_way: by_way.into(),
            slack,
        })
    }
}

/// How long a value is at most that is none of this many, see `Nearest::farthest_free`.
pub fn beyond(slack: (u32, u32), values: u32) -> u32 {
    add(slack.0, values.saturating_mul(slack.1).min(NEVER))
}
