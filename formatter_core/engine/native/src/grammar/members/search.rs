//! A search for ways that complete a list of members: any ways, or the cheapest ones.

use super::{has, set, Bits, Member, Members, Memory, Step};
use crate::base::limits::{Meter, Outcome};
use crate::base::order::{pair, places_by};
use crate::regular::term::UNBOUNDED;
use crate::tokens::spelling::{add, NEVER};

/// The cost of a member that comes in a certain way. Among equal lengths, the lowest rank is chosen.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    pub length: u32,
    pub rank: u32,
}

/// The length of a way that cannot be chosen.
pub const UNUSABLE: u32 = u32::MAX;

impl Cost {
    pub const UNUSABLE: Self = Cost {
        length: UNUSABLE,
        rank: 0,
    };

    fn key(self) -> u64 {
        pair(self.length, self.rank)
    }
}

/// The amounts that the values of distinct members add to the costs of their ways.
#[derive(Default)]
pub struct Prices {
    /// For each way, the amount that every value adds.
    all: Vec<u32>,
    /// For each way, the kind of its values, if their amounts differ.
    kind_of: Vec<Option<usize>>,
    /// For each kind, the amounts of the next values, in order; there are no further values.
    next: Vec<Vec<u32>>,
}

impl Prices {
    /// Make prices for `ways` ways, none of which has values.
    pub fn new(ways: usize) -> Self {
        Prices {
            all: vec![0; ways],
            kind_of: vec![None; ways],
            next: Vec::new(),
        }
    }

    /// Let every value of a way add this amount.
    pub fn set_all(&mut self, way: usize, more: u32) {
        self.all[way] = more;
    }

    /// Let the next values of a way, which are of this kind, add these amounts.
    pub fn set(&mut self, way: usize, kind: usize, next: &[u32]) {
        self.kind_of[way] = Some(kind);
        self.next.resize(self.next.len().max(kind + 1), Vec::new());
        self.next[kind] = next.to_vec();
    }

    /// Return the cost of a way whose shortest text has this length, without the amounts of a kind's values.
    pub fn cost(&self, way: usize, length: u32) -> Cost {
        match add(length, self.all[way]) {
            NEVER => Cost::UNUSABLE,
            length => Cost { length, rank: 0 },
        }
    }
}

/// Ways that complete a list, in no particular order.
pub struct Found {
    pub ways: Vec<u32>,
    pub length: u64,
    /// Tells whether the only choice was between members that fill up the minimum.
    pub is_forced: bool,
    /// Number of ways whose members come only to fill up the minimum.
    pub more: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The member has come, or was passed.
    Gone,
    Open,
    /// The member comes; its way is not chosen yet.
    Comes,
    /// The member comes in a chosen way.
    Chosen,
    Absent,
}

pub struct Search<'a> {
    members: &'a Members,
    /// The cost of each way. Without costs, all ways cost nothing, and the first completion found is taken.
    costs: Option<&'a [Cost]>,
    prices: Option<&'a Prices>,
    /// For each kind, the number of values taken.
    used: Vec<usize>,
    minimum: u32,
    fates: Vec<Fate>,
    met: Bits,
    ways: Vec<u32>,
    count: u32,
    /// `length`: the length of the ways taken. `coming`: the least length of the members that come in a way not chosen
    /// yet.
    length: u64,
    coming: u64,
    is_forced: bool,
    /// The number of times that distinct members can still come, if their values are counted.
    times: u32,
    best: Option<Found>,
}

impl<'a> Search<'a> {
    /// Prepare a search for a completion of a list with this memory; with `costs`, at least one more member comes.
    pub fn new(members: &'a Members, memory: &Memory, costs: Option<&'a [Cost]>, meter: &mut Meter) -> Outcome<Self> {
        let least = memory.count() + u32::from(costs.is_some());
        let mut search = Search {
            members,
            costs,
            prices: None,
            used: Vec::new(),
            minimum: members.minimum.max(least),
            fates: vec![Fate::Gone; members.members.len()],
            met: members.met(memory).into(),
            ways: Vec::new(),
            count: memory.count(),
            length: 0,
            coming: 0,
            is_forced: true,
            times: members.times(memory),
            best: None,
        };
        meter.work(members.members.len() + 1)?;
        for member in members.left(memory) {
            let required = members.members[member as usize].required;
            search.count += u32::from(required);
            search.fates[member as usize] = if required { Fate::Comes } else { Fate::Open };
            if required {
                search.coming += search.least(member);
            }
        }
        Ok(search)
    }

    /// Let values that must differ cost different amounts, in order.
    pub fn with_prices(mut self, prices: &'a Prices) -> Self {
        self.prices = Some(prices);
        self.used = vec![0; prices.next.len()];
        self
    }

    pub fn run(mut self, meter: &mut Meter) -> Outcome<Option<Found>> {
        self.solve(meter)?;
        Ok(self.best)
    }

    fn solve(&mut self, meter: &mut Meter) -> Outcome<()> {
        if self.count > self.members.maximum || self.is_hopeless(0) {
            return Ok(());
        }
        let Some(steps) = self.next_steps(meter)? else {
            return self.fill(meter);
        };
        self.is_forced &= steps.len() < 2;
        for step in steps {
            let (met, ways, count) = (self.met.clone(), self.ways.len(), self.count);
            let (length, coming, times, used) = (self.length, self.coming, self.times, self.used.clone());
            let member = self.members.member_of(step) as usize;
            let fate = self.fates[member];
            self.take(step);
            self.solve(meter)?;
            self.fates[member] = fate;
            self.met = met;
            self.ways.truncate(ways);
            (self.count, self.length, self.coming, self.times) = (count, length, coming, times);
            self.used = used;
        }
        Ok(())
    }

    /// Return whether no better result is possible with the ways taken and at least `more` in addition.
    fn is_hopeless(&self, more: u64) -> bool {
        let length = self.length + self.coming + more;
        self.best.as_ref().is_some_and(|best| length >= best.length)
    }

    /// Return steps of which every completion takes one, the cheapest first. Return None if all conditions are met.
    fn next_steps(&self, meter: &mut Meter) -> Outcome<Option<Vec<Step>>> {
        let mut fewest: Option<Vec<Step>> = None;
        let mut more = 0;
        let mut counted: Vec<u32> = Vec::new();
        for bit in 0..self.members.conditions {
            if has(&self.met, bit) {
                continue;
            }
            let steps = self.steps_to_meet(bit, meter)?;
            if steps.len() < 2 {
                return Ok(Some(steps));
            }
            // The costs of conditions add up if they have no member in common.
            let members = steps.iter().map(|step| self.members.member_of(*step));
            if self.costs.is_some() && !members.clone().any(|member| counted.contains(&member)) {
                counted.extend(members);
                meter.work(counted.len())?;
                more += steps.iter().map(|step| self.cost_of(*step)).min().unwrap_or(0);
            }
            if !fewest.as_ref().is_some_and(|fewest| fewest.len() <= steps.len()) {
                fewest = Some(steps);
            }
        }
        if self.is_hopeless(more) {
            return Ok(Some(Vec::new()));
        }
        if let Some(steps) = &mut fewest {
            let places = places_by(steps.iter().map(|step| self.cost_of(*step)));
            *steps = places.map(|place| steps[place]).collect();
        }
        Ok(fewest)
    }

    /// All conditions are met: choose ways for the members that come, and add members up to the minimum.
    fn fill(&mut self, meter: &mut Meter) -> Outcome<()> {
        let members = self.members;
        let mut ways = self.ways.clone();
        let mut open: Vec<(&Member, u32)> = Vec::new();
        for (member, fate) in (0..).zip(&self.fates) {
            meter.work(1)?;
            if !matches!(fate, Fate::Open | Fate::Comes) {
                continue;
            }
            let own = &members.members[member as usize];
            let free = self.usable_ways(member).filter(|way| !self.clashes(*way));
            if *fate == Fate::Open && own.repeated && self.prices.is_some() {
                open.extend(free.map(|way| (own, way)));
                continue;
            }
            match (free.min_by_key(|way| self.cost(*way)), fate) {
                (Some(way), Fate::Comes) => ways.push(way),
                (Some(way), _) => open.push((own, way)),
                (None, Fate::Comes) => return Ok(()),
                (None, _) => {}
            }
        }
        let more = self.minimum.saturating_sub(self.count);
        if self.count.saturating_add(more) > members.maximum {
            return Ok(());
        }
        let before = ways.len();
        let mut used = vec![0; self.used.len()];
        let mut length = 0;
        for way in &ways {
            let Some(cost) = self.cost_after(*way, &mut used) else {
                return Ok(());
            };
            length += cost;
        }
        let mut left = more as usize;
        meter.work(left + open.len())?;
        if left > 0 {
            let (once, again): (Vec<_>, Vec<_>) = open.iter().partition(|(member, _)| !member.repeated);
            open = [once, again].concat();
            let places = places_by(open.iter().map(|(_, way)| self.cost(*way).key()));
            open = places.map(|place| open[place]).collect();
        }
        while left > 0 {
            let mut next = 0;
            if self.prices.is_some() {
                meter.work(open.len())?;
                open.retain(|(_, way)| self.price(*way, &used).is_some());
                let costs = open
                    .iter()
                    .map(|(_, way)| self.base(*way) + self.price(*way, &used).unwrap_or(0));
                next = costs
                    .enumerate()
                    .min_by_key(|(_, cost)| *cost)
                    .map_or(0, |(index, _)| index);
            }
            let Some(&(member, way)) = open.get(next) else {
                return Ok(());
            };
            let is_priced = self.kind_of(way).is_some();
            let times = match (member.repeated, member.distinct) {
                (false, _) => 1,
                (true, _) if is_priced => 1,
                (true, true) => left.min(self.times as usize),
                (true, false) => left,
            };
            for _ in 0..times {
                length += self.cost_after(way, &mut used).unwrap_or(0);
                ways.push(way);
            }
            left -= times;
            if !(member.repeated && is_priced) {
                open.remove(next);
            }
        }
        if !self.best.as_ref().is_some_and(|best| length >= best.length) {
            self.best = Some(Found {
                more: ways.len() - before,
                ways,
                length,
                is_forced: self.is_forced,
            });
        }
        Ok(())
    }

    fn steps_to_meet(&self, bit: u32, meter: &mut Meter) -> Outcome<Vec<Step>> {
        let steps = &self.members.meeting[bit as usize];
        meter.work(steps.len())?;
        let may_be_taken = |step: &&Step| {
            let fate = self.fates[self.members.member_of(**step) as usize];
            match **step {
                Step::Leave(_) => fate == Fate::Open,
                Step::Way(way) => matches!(fate, Fate::Open | Fate::Comes) && self.is_usable(way) && !self.clashes(way),
            }
        };
        Ok(steps.iter().filter(may_be_taken).copied().collect())
    }

    fn clashes(&self, way: u32) -> bool {
        self.members.clashes(way, &self.met)
    }

    /// Return the cost of a way with the next value of its kind.
    fn cost(&self, way: u32) -> Cost {
        let mut cost = self.costs.map_or(Cost::default(), |costs| costs[way as usize]);
        let more = self.price(way, &self.used).unwrap_or(UNUSABLE);
        cost.length = cost.length.saturating_add(more);
        cost
    }

    /// Return the length of a way with its cheapest value.
    fn base(&self, way: u32) -> u32 {
        self.costs.map_or(0, |costs| costs[way as usize].length)
    }

    /// Return the cost of one more value after `used` values of each kind, and count the value; None if no value is
    /// left.
    fn cost_after(&self, way: u32, used: &mut [usize]) -> Option<u64> {
        let more = self.price(way, used)?;
        if let Some(kind) = self.kind_of(way) {
            used[kind] += 1;
        }
        Some(u64::from(self.base(way)) + u64::from(more))
    }

    fn price(&self, way: u32, used: &[usize]) -> Option<u32> {
        match (self.prices, self.kind_of(way)) {
            (Some(prices), Some(kind)) => prices.next[kind].get(used[kind]).copied(),
            _ => Some(0),
        }
    }

    fn kind_of(&self, way: u32) -> Option<usize> {
        self.prices.and_then(|prices| prices.kind_of[way as usize])
    }

    fn is_usable(&self, way: u32) -> bool {
        let is_used_up =
            self.times == 0 && self.members.members[self.members.ways[way as usize].member as usize].distinct;
        self.members.live[way as usize] && !is_used_up && self.cost(way).length != UNUSABLE
    }

    fn usable_ways(&self, member: u32) -> impl Iterator<Item = u32> + '_ {
        let Member {
            first_way, last_way, ..
        } = self.members.members[member as usize];
        (first_way..last_way).filter(|way| self.is_usable(*way))
    }

    /// Return the least cost of a member in any way.
    fn least(&self, member: u32) -> u64 {
        let lengths = self.usable_ways(member).map(|way| u64::from(self.base(way)));
        lengths.min().unwrap_or(0)
    }

    /// Return the cost of a step beyond what is already counted for its member.
    fn cost_of(&self, step: Step) -> u64 {
        let Step::Way(way) = step else {
            return 0;
        };
        let member = self.members.member_of(step);
        let counted = match self.fates[member as usize] {
            Fate::Comes => self.least(member),
            _ => 0,
        };
        u64::from(self.cost(way).length).saturating_sub(counted)
    }

    fn take(&mut self, step: Step) {
        let member = self.members.member_of(step);
        let own = &self.members.members[member as usize];
        let fate = self.fates[member as usize];
        let met = match step {
            Step::Leave(_) => {
                self.fates[member as usize] = Fate::Absent;
                &own.absent
            }
            Step::Way(way) => {
                self.count += u32::from(fate == Fate::Open);
                self.length += u64::from(self.cost(way).length);
                if fate == Fate::Comes {
                    self.coming = self.coming.saturating_sub(self.least(member));
                }
                if !own.repeated {
                    self.fates[member as usize] = Fate::Chosen;
                }
                self.ways.push(way);
                if let Some(kind) = self.kind_of(way) {
                    self.used[kind] += 1;
                }
                if own.distinct {
                    self.use_value();
                }
                &self.members.ways[way as usize].meets
            }
        };
        met.iter().for_each(|bit| set(&mut self.met, *bit));
    }

    /// Count one more value of the distinct members.
    pub fn use_value(&mut self) {
        if self.times != UNBOUNDED {
            self.times = self.times.saturating_sub(1);
        }
    }
}
