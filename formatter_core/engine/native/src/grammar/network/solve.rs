//! Computes facts about positions: whether a text can be completed from there, and whether the empty text completes it.

use super::{Draft, Position, END};
use crate::base::hash::FastMap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::MAX_FACT_PASSES;
use crate::grammar::members::Members;

/// Some text completes the rule.
pub const PRODUCTIVE: u8 = 1;
/// The empty text completes the rule; then it is productive, too.
pub const NULLABLE: u8 = 2;
/// It is known that the rule is not nullable.
pub const NOT_NULLABLE: u8 = 4;

/// Compute the facts of each position. A list of members is productive once its productive ways can complete it.
pub fn solve(draft: &mut Draft, meter: &mut Meter) -> Outcome<()> {
    meter.work(4 * draft.positions.len())?;
    if draft.source.members.is_empty() && (0..MAX_FACT_PASSES).any(|_| !pass(draft)) {
        return Ok(());
    }
    spread(draft, meter)
}

/// Compute the facts of all positions by propagation.
fn spread(draft: &mut Draft, meter: &mut Meter) -> Outcome<()> {
    let (positions, members) = (&draft.positions, &mut draft.source.members);
    let spread = Spread::new(positions, &draft.places, &draft.starts);
    let productive = spread.solve(positions, members, meter, |position| match position {
        Position::End | Position::Came { .. } => Some(0),
        Position::Call { .. } => Some(2),
        Position::Choose(_) => None,
        _ => Some(1),
    })?;
    let nullable = spread.solve(positions, &mut [], meter, |position| match position {
        Position::End | Position::Came { .. } => Some(0),
        Position::Call { .. } => Some(2),
        Position::Terminal { nullable: true, .. } | Position::Split(_) | Position::Cut { .. } => Some(1),
        _ => None,
    })?;
    let both = productive.into_iter().zip(nullable);
    draft.facts.clear();
    let facts = both.map(|(productive, nullable)| PRODUCTIVE * u8::from(productive) + NULLABLE * u8::from(nullable));
    draft.facts.extend(facts);
    Ok(())
}

/// Derive new facts in one pass, without lists of members; return whether more may follow. Mostly rules are called by
/// earlier rules, and within a rule the next position was built earlier.
fn pass(draft: &mut Draft) -> bool {
    let (mut is_new, mut is_done) = (false, true);
    let mut end = draft.positions.len();
    for rule in (0..draft.begins.len()).rev() {
        for index in draft.begins[rule] as usize..end {
            let known = draft.facts[index];
            if !is_all(known) {
                let found = known | draft.facts_of(draft.positions[index]);
                draft.facts[index] = found;
                is_new |= found != known;
                is_done &= is_all(found);
            }
        }
        end = draft.begins[rule] as usize;
        // In earlier rules, the entry represents the rule.
        if let Some(&entry) = draft.entries.get(rule).filter(|entry| **entry != END) {
            let known = draft.facts[entry as usize];
            let found = known | draft.facts[draft.starts[rule] as usize];
            draft.facts[entry as usize] = found;
            is_new |= found != known;
        }
    }
    is_new && !is_done
}

/// Return whether these facts determine everything about a position.
#[inline]
pub fn is_all(facts: u8) -> bool {
    facts & PRODUCTIVE != 0 && facts & (NULLABLE | NOT_NULLABLE) != 0
}

impl Draft {
    /// Return the facts of a position, derived from the facts of the positions after it.
    #[inline(always)]
    pub fn facts_of(&self, position: Position) -> u8 {
        const POSITIVE: u8 = PRODUCTIVE | NULLABLE;
        let at = |place: u32| self.facts[place as usize];
        match position {
            Position::End => POSITIVE,
            Position::Terminal {
                nullable: true, next, ..
            }
            | Position::Cut { next } => at(next),
            Position::Terminal { next, .. } | Position::Token { next, .. } => at(next) & PRODUCTIVE | NOT_NULLABLE,
            Position::Call { rule, next } => {
                let (rule, next) = (self.starts.get(rule as usize).map_or(0, |start| at(*start)), at(next));
                rule & next & POSITIVE | (rule | next) & NOT_NULLABLE
            }
            Position::Split(span) => {
                let all = span.of(&self.places).iter().map(|place| at(*place));
                let (any, each) = all.fold((0, NOT_NULLABLE), |(any, each), facts| (any | facts, each & facts));
                any & POSITIVE | each
            }
            // The facts of these positions depend on what the list needs.
            Position::Choose(_) | Position::Came { .. } | Position::Distinct { .. } | Position::Value { .. } => 0,
        }
    }
}

/// Lists of numbers, one for each place, in one block of memory.
struct Lists {
    /// The newest entry of each list, or `NO_ENTRY`.
    newest: Vec<u32>,
    /// Numbers, each with the previous entry of its list.
    entries: Vec<(u32, u32)>,
}

const NO_ENTRY: u32 = u32::MAX;

impl Lists {
    fn new(count: usize, entries: usize) -> Self {
        Lists {
            newest: vec![NO_ENTRY; count],
            entries: Vec::with_capacity(entries),
        }
    }

    fn add(&mut self, list: u32, number: u32) {
        let newest = std::mem::replace(&mut self.newest[list as usize], self.entries.len() as u32);
        self.entries.push((number, newest));
    }

    fn of(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        let entry = |entry: u32| self.entries.get(entry as usize);
        let newest = entry(self.newest[list as usize]);
        std::iter::successors(newest, move |(_, earlier)| entry(*earlier)).map(|(number, _)| *number)
    }
}

/// The edges along which facts spread: to the positions before, and from rules to their callers.
struct Spread {
    before: Lists,
    callers: Lists,
    /// The rules that begin at each position.
    rules_at: Lists,
}

impl Spread {
    fn new(positions: &[Position], places: &[u32], starts: &[u32]) -> Self {
        let mut spread = Spread {
            before: Lists::new(positions.len(), positions.len()),
            callers: Lists::new(starts.len(), 0),
            rules_at: Lists::new(positions.len(), starts.len()),
        };
        for (index, position) in (0..).zip(positions) {
            for place in position.following(places) {
                spread.before.add(*place, index);
            }
            if let Position::Call { rule, .. } = position {
                spread.callers.add(*rule, index);
            }
        }
        for (rule, start) in (0..).zip(starts) {
            spread.rules_at.add(*start, rule);
        }
        spread
    }

    /// Return for each position whether a fact holds. A position needs `needs` of two conditions (None: the fact never
    /// holds): the fact holds for one of its next positions, and for the rule that it calls. It holds for a rule if it
    /// holds for its start.
    fn solve(
        &self,
        positions: &[Position],
        members: &mut [Members],
        meter: &mut Meter,
        needs: impl Fn(&Position) -> Option<u8>,
    ) -> Outcome<Vec<bool>> {
        let mut missing: Vec<u8> = Vec::with_capacity(positions.len());
        let mut holds = vec![false; positions.len()];
        let mut queue: Vec<u32> = Vec::new();
        // For the first position of each way: the position of the choice, the list, and the way.
        let mut ways_at: FastMap<u32, (u32, u32, u32)> = FastMap::default();
        for (index, position) in (0..).zip(positions) {
            if let Position::Choose(list) = position {
                let starts = members.get(*list as usize).map_or(&[][..], |list| &list.starts);
                ways_at.extend((0..).zip(starts).map(|(way, start)| (*start, (index, *list, way))));
            }
            let need = needs(position);
            missing.push(need.unwrap_or(u8::MAX));
            if need == Some(0) {
                queue.push(index);
            }
        }
        while let Some(index) = queue.pop() {
            if std::mem::replace(&mut holds[index as usize], true) {
                continue;
            }
            if let Some(&(place, list, way)) = ways_at.get(&index) {
                if members[list as usize].revive(way, meter)? {
                    queue.push(place);
                }
            }
            let rules = self.rules_at.of(index);
            let callers = rules.flat_map(|rule| self.callers.of(rule));
            for place in self.before.of(index).chain(callers) {
                let left = &mut missing[place as usize];
                if *left != u8::MAX {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        queue.push(place);
                    }
                }
            }
        }
        Ok(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Builder;
    use super::*;
    use crate::api::interface_tests::{sound_program, Random};
    use crate::base::limits::{Limits, Usage};
    use crate::regular::derive::Derivatives;

    #[test]
    fn passes_find_what_spreads() {
        let (mut random, mut found) = (Random(0x9e37_79b9_7f4a_7c15), 0);
        let (mut derivatives, mut draft) = (Derivatives::new(), Draft::default());
        let (limits, usage) = (Limits::default(), Usage::default());
        for _ in 0..3000 {
            let data = sound_program(&mut random);
            let mut meter = Meter::new(limits.work, &usage, limits.states);
            let read = draft.source.read(&data, &mut derivatives.terms, &limits, &mut meter);
            let mut builder = Builder::new(&mut draft, &data, &mut derivatives, &limits, &mut meter);
            if read.is_err() || builder.build().is_err() || !draft.source.members.is_empty() {
                continue;
            }
            solve(&mut draft, &mut meter).unwrap();
            let positive = |draft: &Draft| {
                draft
                    .facts
                    .iter()
                    .map(|facts| facts & !NOT_NULLABLE)
                    .collect::<Vec<u8>>()
            };
            let soon = positive(&draft);
            spread(&mut draft, &mut meter).unwrap();
            assert_eq!(soon, positive(&draft), "{data:?}");
            found += usize::from(soon.contains(&0));
        }
        assert!(found > 100, "{found} programs with what is never completed");
    }
}
