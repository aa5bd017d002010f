//! Finds the shortest text that completes a list of members; among equal lengths, the first in order of symbols.

use std::cmp::Ordering;
use std::mem::size_of_val;
use std::sync::Arc;

use super::{Bits, Cost, Members, Memory, Search, UNUSABLE};
use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Fault, Limit, Meter, Outcome};
use crate::base::tuning::MAX_COMPLETION_CHOICES;
use crate::tokens::spelling::NEVER;

/// The shortest text of each way of a list, after a separator, and the costs of the ways.
pub struct WayTexts {
    symbols: Vec<Option<Box<[u32]>>>,
    costs: Vec<Cost>,
    /// The position of each way in the order that makes the whole text the first one.
    places: Vec<u32>,
    /// The ways that complete a list, by its memory, if they take a longer search.
    known: FastMap<Box<[u64]>, Option<Arc<[u32]>>>,
    /// Tells whether the required members, each once, may be the completion of the list.
    may_be_required: bool,
    /// The last request: the memory, and the required members that complete the list then.
    latest: Option<(Bits, Option<Arc<Required>>)>,
    /// Heap bytes of the texts, and of the entries of `known`.
    inner: usize,
}

/// The required members of a list, if they alone complete it in any case. After one of them the others complete it, and
/// after another member all of them.
pub struct Required {
    /// The ways, in the order that makes their text the first one.
    pub ways: Box<[u32]>,
    /// The place of each member among them.
    places: Box<[Option<u32>]>,
    pub length: u32,
}

impl Required {
    /// Return the place of the member with this way; None if the member is not required.
    pub fn place(&self, list: &Members, way: u32) -> Option<u32> {
        self.places[list.ways[way as usize].member as usize]
    }
}

impl WayTexts {
    /// Make the texts of a list. `symbols` has the text of each way, or None if it cannot be spelled.
    pub fn new(list: &Members, symbols: Vec<Option<Box<[u32]>>>, meter: &mut Meter) -> Outcome<Self> {
        let mut order: Vec<u32> = (0..symbols.len() as u32).collect();
        meter.work(2 * order.len())?;
        let text = |way: &u32| symbols[*way as usize].as_deref().unwrap_or_default();
        sort(&mut order, &|one, other| {
            text(one).cmp(text(other)).then(one.cmp(other))
        });
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
        sort(&mut order, &|one, other| {
            let together = |first, second| text(first).iter().chain(text(second));
            let texts = || together(one, other).cmp(together(other, one));
            let ranks = || rank(one).cmp(&rank(other));
            member(one).cmp(&member(other)).then_with(texts).then_with(ranks)
        });
        let mut places = vec![0; order.len()];
        for (place, way) in (0..).zip(order) {
            places[way as usize] = place;
        }
        let inner = symbols.iter().flatten().map(|text| size_of_val(&**text)).sum();
        Ok(WayTexts {
            symbols,
            costs,
            places,
            known: FastMap::default(),
            may_be_required: !list.ordered
                && list.conditions == 0
                && !list.are_distinct()
                && !list.members.iter().any(|member| member.required && member.repeated),
            latest: None,
            inner,
        })
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        let required = |known: &Arc<Required>| {
            heap::COUNTS + size_of_val(&**known) + size_of_val(&*known.ways) + size_of_val(&*known.places)
        };
        let latest =
            |(words, known): &(Bits, Option<Arc<Required>>)| size_of_val(&**words) + known.as_ref().map_or(0, required);
        heap::list(&self.symbols)
            + heap::list(&self.costs)
            + heap::list(&self.places)
            + heap::table(&self.known)
            + self.latest.as_ref().map_or(0, latest)
            + self.inner
    }

    /// Return the number of cached results.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Return the symbols of a separator and a way.
    pub fn symbols(&self, way: u32) -> &[u32] {
        self.symbols[way as usize].as_deref().unwrap_or_default()
    }

    /// Return the ways, at least one and in order, that complete the list; None if none can be spelled.
    pub fn completion(&mut self, list: &Members, memory: &Memory, meter: &mut Meter) -> Outcome<Option<Arc<[u32]>>> {
        self.find(list, memory, MAX_COMPLETION_CHOICES, meter)
    }

    /// Return the required members, if they alone complete the list.
    pub fn required(&mut self, list: &Members, memory: &Memory, meter: &mut Meter) -> Outcome<Option<Arc<Required>>> {
        if !self.may_be_required {
            return Ok(None);
        }
        if let Some((_, known)) = self.latest.as_ref().filter(|(words, _)| *words == memory.words) {
            return Ok(known.clone());
        }
        let found = self.cheapest(list, memory, meter)?;
        let found = found.filter(|found| found.is_forced && found.more == 0 && found.length < u64::from(NEVER));
        let found = found.map(|found| {
            let ways = self.in_order(&found.ways);
            let mut places = vec![None; list.members.len()];
            for (place, way) in (0..).zip(&ways) {
                places[list.ways[*way as usize].member as usize] = Some(place);
            }
            Arc::new(Required {
                ways: ways.into(),
                places: places.into(),
                length: found.length as u32,
            })
        });
        self.latest = Some((memory.words.clone(), found.clone()));
        Ok(found)
    }

    /// Return the ways in the order that makes their text the first one.
    fn in_order(&self, ways: &[u32]) -> Vec<u32> {
        sorted(ways, |way| self.places[way as usize])
    }

    fn find(&mut self, list: &Members, memory: &Memory, depth: u32, meter: &mut Meter) -> Outcome<Option<Arc<[u32]>>> {
        if let Some(known) = self.known.get(&memory.words) {
            return Ok(known.clone());
        }
        let Some(found) = self.cheapest(list, memory, meter)? else {
            return Ok(None);
        };
        if found.is_forced && (found.more == 0 || !list.ordered) {
            return Ok(Some(self.in_order(&found.ways).into()));
        }
        let depth = depth.checked_sub(1).ok_or(Fault::Limit(Limit::Work))?;
        let ways = self.find_first(list, memory, found.length, depth, meter)?;
        let found = ways.as_ref().map_or(0, |ways| heap::COUNTS + size_of_val(&**ways));
        self.inner += size_of_val(&*memory.words) + found;
        self.known.insert(memory.words.clone(), ways.clone());
        Ok(ways)
    }

    /// Choose one way after the other: among those that begin a shortest text, the one whose text is the first.
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

    /// Return the ways that begin a completion of this length, sorted by rank, each with the memory after it and the
    /// length that is left.
    fn beginnings(
        &self,
        list: &Members,
        memory: &Memory,
        length: u64,
        meter: &mut Meter,
    ) -> Outcome<Vec<(u32, Memory, u64)>> {
        let mut found = Vec::new();
        for way in &sorted(list.choices(memory, meter)?, |way| self.costs[way as usize].rank) {
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

/// Sort ways. All orders share this one function, which keeps the library smaller.
fn sort(ways: &mut [u32], compare: &dyn Fn(&u32, &u32) -> Ordering) {
    ways.sort_unstable_by(compare);
}

/// Return ways sorted by a number.
fn sorted(ways: &[u32], number: impl Fn(u32) -> u32) -> Vec<u32> {
    let mut sorted = ways.to_vec();
    sort(&mut sorted, &|one, other| {
        number(*one).cmp(&number(*other)).then(one.cmp(other))
    });
    sorted
}
