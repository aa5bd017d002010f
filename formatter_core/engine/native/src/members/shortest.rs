//! The shortest text that completes a list of members; of several the first, symbol by symbol.

use std::sync::Arc;

use super::{Cost, Members, Memory, Search, UNUSABLE};
use crate::hash::FastMap;
use crate::limits::{Fault, Limit, Meter, Outcome};

/// Choices between texts of which one begins another are followed by recursion, up to this deep.
const DEEPEST: u32 = 256;

/// A separator and the shortest text of each way of a list, and what they cost.
pub struct WayTexts {
    symbols: Vec<Option<Box<[u32]>>>,
    costs: Vec<Cost>,
    /// Where each way comes among others: whatever the order, so that the whole is the first.
    places: Vec<u32>,
    /// The ways that complete a list by what has come, where they take a longer search.
    known: FastMap<Box<[u64]>, Option<Arc<[u32]>>>,
}

impl WayTexts {
    /// `symbols`: the texts of the ways that can be spelt.
    pub fn new(list: &Members, symbols: Vec<Option<Box<[u32]>>>, meter: &mut Meter) -> Outcome<Self> {
        let mut order: Vec<u32> = (0..symbols.len() as u32).collect();
        meter.work(2 * order.len())?;
        let text = |way: &u32| symbols[*way as usize].as_deref().unwrap_or_default();
        order.sort_unstable_by(|one, other| text(one).cmp(text(other)).then(one.cmp(other)));
        let mut costs = vec![Cost::default(); order.len()];
        for (rank, way) in (0..).zip(&order) {
            let length = match &symbols[*way as usize] {
                Some(symbols) => symbols.len() as u32,
                None => UNUSABLE,
            };
            costs[*way as usize] = Cost { length, rank };
        }
        let member = |way: &u32| {
            if list.ordered {
                list.ways[*way as usize].member
            } else {
                0
            }
        };
        let rank = |way: &u32| costs[*way as usize].rank;
        order.sort_unstable_by(|one, other| {
            let together = |first, second| text(first).iter().chain(text(second));
            let texts = || together(one, other).cmp(together(other, one));
            let ranks = || rank(one).cmp(&rank(other));
            member(one).cmp(&member(other)).then_with(texts).then_with(ranks)
        });
        let mut places = vec![0; order.len()];
        for (place, way) in (0..).zip(order) {
            places[way as usize] = place;
        }
        Ok(WayTexts {
            symbols,
            costs,
            places,
            known: FastMap::default(),
        })
    }

    /// How many things are kept.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// The symbols of a separator and a way.
    pub fn symbols(&self, way: u32) -> &[u32] {
        self.symbols[way as usize].as_deref().unwrap_or_default()
    }

    /// At least one more member, in order, so that the list is complete; none where that cannot be spelt.
    pub fn completion(&mut self, list: &Members, memory: &Memory, meter: &mut Meter) -> Outcome<Option<Arc<[u32]>>> {
        self.find(list, memory, DEEPEST, meter)
    }

    fn find(&mut self, list: &Members, memory: &Memory, depth: u32, meter: &mut Meter) -> Outcome<Option<Arc<[u32]>>> {
        if let Some(known) = self.known.get(&memory.words) {
            return Ok(known.clone());
        }
        let Some(mut found) = self.cheapest(list, memory, meter)? else {
            return Ok(None);
        };
        if found.is_forced && (found.more == 0 || !list.ordered) {
            found.ways.sort_unstable_by_key(|way| self.places[*way as usize]);
            return Ok(Some(found.ways.into()));
        }
        let depth = depth.checked_sub(1).ok_or(Fault::Limit(Limit::Work))?;
        let ways = self.find_first(list, memory, found.length, depth, meter)?;
        self.known.insert(memory.words.clone(), ways.clone());
        Ok(ways)
    }

    /// Way after way: of those that begin a shortest text, the one with the first.
    fn find_first(
        &mut self,
        list: &Members,
        memory: &Memory,
        mut length: u64,
        depth: u32,
        meter: &mut Meter,
    ) -> Outcome<Option<Arc<[u32]>>> {
        let mut ways: Vec<u32> = Vec::new();
        let mut latest: Option<Memory> = None;
        loop {
            let mut candidates = self.beginnings(list, latest.as_ref().unwrap_or(memory), length, meter)?;
            candidates.sort_unstable_by_key(|(way, ..)| self.costs[*way as usize].rank);
            let Some((first, ..)) = candidates.first() else {
                return Ok(None);
            };
            let first = self.symbols(*first);
            candidates.retain(|(way, ..)| self.symbols(*way).starts_with(first));
            if candidates.len() > 1 {
                let mut best: Option<Vec<u32>> = None;
                for (way, after, rest) in candidates {
                    let mut text = vec![way];
                    if rest > 0 {
                        match self.find(list, &after, depth, meter)? {
                            Some(more) => text.extend_from_slice(&more),
                            None => continue,
                        }
                    }
                    meter.work(text.len())?;
                    if !best.as_ref().is_some_and(|best| self.text(best).le(self.text(&text))) {
                        best = Some(text);
                    }
                }
                return Ok(best.map(|best| ways.into_iter().chain(best).collect()));
            }
            let Some((way, after, rest)) = candidates.pop() else {
                return Ok(None);
            };
            ways.push(way);
            if rest == 0 {
                return Ok(Some(ways.into()));
            }
            length = rest;
            latest = Some(after);
        }
    }

    /// The ways that begin a completion of this length, with what has come then, and the length that is left.
    fn beginnings(
        &self,
        list: &Members,
        memory: &Memory,
        length: u64,
        meter: &mut Meter,
    ) -> Outcome<Vec<(u32, Memory, u64)>> {
        let mut found = Vec::new();
        for way in list.choices(memory, meter)? {
            let own = self.costs[*way as usize].length;
            if own == UNUSABLE || u64::from(own) > length {
                continue;
            }
            let after = list.after(memory, *way);
            let rest = match list.may_end(&after) {
                true => 0,
                false => match self.cheapest(list, &after, meter)? {
                    Some(found) => found.length,
                    None => continue,
                },
            };
            if u64::from(own) + rest == length {
                found.push((*way, after, rest));
            }
        }
        Ok(found)
    }

    fn cheapest(&self, list: &Members, memory: &Memory, meter: &mut Meter) -> Outcome<Option<super::search::Found>> {
        Search::new(list, memory, Some(&self.costs), meter)?.run(meter)
    }

    fn text<'a>(&'a self, ways: &'a [u32]) -> impl Iterator<Item = &'a u32> {
        ways.iter().flat_map(|way| self.symbols(*way))
    }
}
