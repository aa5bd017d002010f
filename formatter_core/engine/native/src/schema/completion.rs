//! Decides whether a list of members can be completed: searches for members that meet all counts and conditions.

use crate::base::tuning::{MAX_COMPLETION_DEPTH, MAX_COMPLETION_STEPS};
use crate::schema::bits::Bits;
use crate::schema::nodes::Members;
use crate::schema::report::{Outcome, Stop, Why};

/// Return whether some members meet the counts and conditions, whatever their items derive.
pub fn can_be_complete(members: &Members) -> Outcome<bool> {
    if members.maximum.is_none() && members.minimum <= 1 && members.conditions == 0 {
        return Ok(!members.members.is_empty());
    }
    if members.maximum.is_some_and(|maximum| maximum < members.minimum.max(1)) {
        return Ok(false);
    }
    let fate = |required| if required { Fate::Required } else { Fate::Open };
    let fates: Vec<Fate> = members.members.iter().map(|member| fate(member.required)).collect();
    let count = fates.iter().filter(|fate| **fate == Fate::Required).count() as u64;
    Search::new(members).solve(&fates, &Bits::default(), count, MAX_COMPLETION_DEPTH)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Required,
    Decided,
}

/// A member with the bits that an alternative meets, or None for its absence.
type Step<'a> = (usize, Option<&'a Bits>);

/// A search that first meets the conditions that the fewest steps can meet.
struct Search<'a> {
    members: &'a Members,
    steps: u32,
    meeting: Vec<Vec<Step<'a>>>,
}

impl<'a> Search<'a> {
    fn new(members: &'a Members) -> Self {
        let mut meeting: Vec<Vec<Step>> = vec![Vec::new(); members.conditions as usize];
        for (index, member) in members.members.iter().enumerate() {
            for (bit, steps) in meeting.iter_mut().enumerate() {
                let ways = member.ways.iter().filter(|way| way.meets.has(bit));
                steps.extend(ways.map(|way| (index, Some(&way.meets))));
                steps.extend(member.absent.has(bit).then_some((index, None)));
            }
        }
        Search {
            members,
            steps: 0,
            meeting,
        }
    }

    /// Return whether the open members can complete the decided and required ones, of which there are `count`.
    fn solve(&mut self, fates: &[Fate], met: &Bits, count: u64, room: u32) -> Outcome<bool> {
        let too_deep = || {
            Stop::limit(
                Why::Depth,
                &["the search for members", &MAX_COMPLETION_DEPTH.to_string()],
            )
        };
        let room = room.checked_sub(1).ok_or_else(too_deep)?;
        if self.members.maximum.is_some_and(|maximum| count > u64::from(maximum)) {
            return Ok(false);
        }
        self.steps += 1;
        if self.steps > MAX_COMPLETION_STEPS {
            return Err(Stop::limit(Why::MemberSteps, &[&MAX_COMPLETION_STEPS.to_string()]));
        }
        let Some(steps) = self.next_steps(fates, met, count) else {
            return Ok(true);
        };
        for (index, meets) in steps {
            let member = &self.members.members[index];
            let mut after = fates.to_vec();
            after[index] = if member.repeated { Fate::Open } else { Fate::Decided };
            let more = met.with(meets.unwrap_or(&member.absent));
            let is_new = meets.is_some() && fates[index] == Fate::Open;
            if self.solve(&after, &more, count + u64::from(is_new), room)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Return steps of which every completion contains one; None if no more are needed.
    fn next_steps(&self, fates: &[Fate], met: &Bits, count: u64) -> Option<Vec<Step<'a>>> {
        let unmet = self.meeting.iter().enumerate().filter(|(bit, _)| !met.has(*bit));
        let unmet = unmet.map(|(_, steps)| self.possible(steps, fates, met));
        // Takes the first of the shortest lists.
        if let Some(steps) = unmet.min_by_key(Vec::len) {
            return Some(steps);
        }
        let (members, mut free, mut counted) = (self.members, 0, Vec::new());
        let least = u64::from(members.minimum.max(1));
        for (index, member) in members.members.iter().enumerate() {
            if fates[index] == Fate::Decided {
                continue;
            }
            let ways = member.ways.iter().map(|way| &way.meets);
            let mut ways = ways.filter(|meets| !meets.meet(met, &members.once));
            let ways: Vec<&Bits> = ways.by_ref().collect();
            let steps = ways.iter().map(|meets| (index, Some(*meets)));
            if ways.iter().any(|meets| !meets.meet(&members.once, &members.once)) {
                free += if member.repeated {
                    least
                } else {
                    u64::from(fates[index] == Fate::Open)
                };
            } else if fates[index] == Fate::Required {
                return Some(steps.collect());
            } else {
                counted.extend(steps);
            }
        }
        (count + free < least).then_some(counted)
    }

    fn possible(&self, steps: &[Step<'a>], fates: &[Fate], met: &Bits) -> Vec<Step<'a>> {
        let is_possible = |(index, meets): &&Step| match meets {
            Some(meets) => fates[*index] != Fate::Decided && !meets.meet(met, &self.members.once),
            None => fates[*index] == Fate::Open,
        };
        steps.iter().filter(is_possible).copied().collect()
    }
}
