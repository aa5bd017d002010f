//! Sets of rules, each by its number.

use crate::hash::Interner;

/// Sets by number; the empty one is 0.
pub struct RuleSets {
    sets: Interner<Box<[u32]>>,
}

impl RuleSets {
    pub fn new() -> Self {
        let mut sets = Interner::new();
        sets.intern(Box::default());
        RuleSets { sets }
    }

    /// A set with one more rule; None if it is there already.
    pub fn with(&mut self, set: u32, rule: u32) -> Option<u32> {
        let rules = self.sets.get(set);
        let place = rules.binary_search(&rule).err()?;
        let mut more = rules.to_vec();
        more.insert(place, rule);
        Some(self.sets.intern(more.into()).0)
    }

    pub fn union(&mut self, one: u32, other: u32) -> u32 {
        if one == other || other == 0 {
            return one;
        }
        let mut rules = [self.sets.get(one).as_ref(), self.sets.get(other).as_ref()].concat();
        rules.sort_unstable();
        rules.dedup();
        self.sets.intern(rules.into()).0
    }
}
