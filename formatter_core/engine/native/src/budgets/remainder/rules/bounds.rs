//! Computes upper bounds of the number of tokens still missing after any next token.

use std::sync::Arc;

use super::{RuleRemainders, Tail};
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::MAX_BOUND_PASSES;
use crate::grammar::members::Memory;
use crate::grammar::network::{Network, Position};
use crate::regular::term::Term;
use crate::tokens::spelling::{add, IMPOSSIBLE, NEVER};

impl RuleRemainders {
    /// Return whether every region that a token opens can still be completed within its budget, whatever else is in the
    /// token.
    pub fn are_regions_roomy(&self) -> bool {
        self.farthest.as_ref().is_some_and(|bounds| {
            let mut regions = self.regions.iter();
            regions.all(|(start, budget)| bounds[*start as usize] <= *budget)
        })
    }

    /// Return whether upper bounds are known.
    pub fn has_bounds(&self) -> bool {
        self.farthest.is_some()
    }

    /// Return an upper bound of the number of tokens missing to the end of a position's rule, after any token that does
    /// not leave the rule, with this memory of its list of members. The token begins at the position, or in a terminal
    /// before it whose end is at most `own` away.
    pub fn farthest(&self, own: u32, position: u32, memory: Option<&Memory>) -> u32 {
        let Some(bounds) = &self.farthest else {
            return NEVER;
        };
        let inside = add(own, self.tokens_from(position)).max(bounds[position as usize]);
        match (self.tail(position), memory) {
            (None, _) => inside,
            (Some(Tail { list, .. }), Some(memory)) => {
                let others = bounds[self.lists[list as usize].start as usize];
                add(inside.max(others), self.most_tokens(list, memory))
            }
            (Some(_), None) => NEVER,
        }
    }

    /// Return an upper bound of the distance to the end of a thread's terminal, from its state and from every state
    /// that this leads to; 0 for a token thread. Values that must not come again are not considered here: the list's
    /// slack bounds what they add.
    pub fn farthest_inside(&mut self, state: Option<Term>, next: u32, meter: &mut Meter) -> Outcome<u32> {
        let Some(state) = state else {
            return Ok(0);
        };
        let way = self.tail(next).and_then(|tail| Some((tail.list, tail.way?)));
        let value = way.and_then(|(list, way)| self.lists[list as usize].distinct.by_way[way as usize]);
        let term = match value {
            Some((term, after)) if after == next => term,
            _ => state,
        };
        self.nearest.farthest(term, &self.lexicon, meter)
    }

    /// Return an upper bound of the number of tokens that complete a list, whichever member comes next.
    fn most_tokens(&self, list: u32, memory: &Memory) -> u32 {
        let (members, list) = (&self.members[list as usize], &self.lists[list as usize]);
        let (needed, more) = members.most_needed(memory);
        let mut all = more.saturating_mul(list.most_tokens).min(NEVER);
        let (mut count, mut distinct) = (more, more);
        for member in needed {
            all = add(all, list.tokens[member as usize]);
            count = count.saturating_add(1);
            distinct = distinct.saturating_add(u32::from(members.members[member as usize].distinct));
        }
        // Each value in a token takes at least two bytes, because strings have quotes.
        let in_token = self.lexicon.vocabulary.longest / 2 + 1;
        let values = memory.seen.count.saturating_add(in_token).saturating_add(count);
        add(
            all,
            distinct.saturating_mul(list.distinct.slack.beyond(values)).min(NEVER),
        )
    }

    /// Return for each position an upper bound of the number of tokens missing to the end of its rule, after any token
    /// from there. The bounds are computed byte by byte up to the longest token, because every byte may lead deeper.
    pub(super) fn find_farthest(
        &mut self,
        network: &Network,
        order: &[u32],
        meter: &mut Meter,
    ) -> Outcome<Option<Arc<[u32]>>> {
        let reachable = network.reachable();
        if (0..network.len()).any(|index| reachable[index] && self.shortest[index].text == IMPOSSIBLE) {
            return Ok(None);
        }
        let order: Vec<u32> = order
            .iter()
            .copied()
            .filter(|index| reachable[*index as usize])
            .collect();
        let mut own = vec![0; network.len()];
        for &index in &order {
            own[index as usize] = match network.position(index) {
                Position::Terminal { term, next, .. } | Position::Distinct { term, next } => {
                    let inside = self.nearest.farthest(*term, &self.lexicon, meter)?;
                    add(inside, self.tokens_from(*next))
                }
                Position::Choose(list) => match network.position(network.members[*list as usize].separator) {
                    Position::Terminal { term, .. } => self.nearest.farthest(*term, &self.lexicon, meter)?,
                    _ => 0,
                },
                _ => self.tokens_from(index),
            };
        }
        let mut bounds = vec![0; network.len()];
        for _ in 0..=self.lexicon.vocabulary.longest {
            let before = bounds.clone();
            let mut passes = 0;
            let mut has_changed = true;
            while has_changed {
                has_changed = false;
                passes += 1;
                meter.work(order.len())?;
                for &index in &order {
                    let bound = self
                        .farthest_at(index, network, &before, &bounds)
                        .max(own[index as usize]);
                    let grows = bound > bounds[index as usize];
                    has_changed |= grows;
                    bounds[index as usize] = if grows && passes > MAX_BOUND_PASSES {
                        NEVER
                    } else {
                        bound
                    };
                }
            }
            if bounds == before {
                break;
            }
        }
        Ok(Some(bounds.into()))
    }

    /// Return the bound of a position for one more byte; `before` has the bounds for one byte less.
    fn farthest_at(&self, index: u32, network: &Network, before: &[u32], bounds: &[u32]) -> u32 {
        let beyond = |next: u32, nullable: bool| match nullable {
            true => bounds[next as usize],
            false => before[next as usize],
        };
        let most = |places: &[u32]| places.iter().map(|place| bounds[*place as usize]).max().unwrap_or(0);
        match network.position(index) {
            Position::End | Position::Token { .. } | Position::Came { .. } => 0,
            Position::Choose(list) => most(&network.members[*list as usize].starts),
            Position::Distinct { next, .. } => before[*next as usize],
            Position::Value { next, .. } => bounds[*next as usize],
            Position::Terminal { nullable, next, .. } => beyond(*next, *nullable),
            Position::Call { rule, next } => {
                let rule = &network.rules[*rule as usize];
                let list = rule.members.map(|list| (list, &network.members[list as usize]));
                let list = list.map_or(0, |(list, members)| self.most_tokens(list, &members.first()));
                let inside = add(bounds[rule.start as usize], list);
                add(inside, self.tokens_from(*next)).max(beyond(*next, rule.nullable))
            }
            Position::Cut { next } => bounds[*next as usize],
            Position::Split(split) => {
                // Left recursion, for example in lists: what begins inside the call can also begin without it, and is
                // then nearer to the end. So only what comes after the call counts.
                let bound = |place: &u32| match network.position(*place) {
                    Position::Call { rule, next } if network.rules[*rule as usize].is_plain_from(index) => {
                        beyond(*next, network.rules[*rule as usize].nullable)
                    }
                    _ => bounds[*place as usize],
                };
                network.places(*split).iter().map(bound).max().unwrap_or(0)
            }
        }
    }
}
