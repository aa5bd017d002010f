//! The shortest texts that complete lists of members.

use std::mem::size_of_val;
use std::sync::Arc;

use super::value_groups::DistinctTerms;
use super::values::needs_several_values;
use super::{RuleRemainders, Tail};
use crate::base::hash::FastMap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::MAX_REMAINDER;
use crate::budgets::remainder::remaining_members::Rest;
use crate::budgets::remainder::{Sized, NONE};
use crate::grammar::members::{Cost, Members, Memory, Prices, Required, Search, WayTexts};
use crate::grammar::network::{Network, Position, END};
use crate::tokens::spelling::{add, Text, IMPOSSIBLE, NEVER, NIL};

/// A list of members, and the texts of its ways.
pub struct List {
    pub(super) separator: Text,
    pub(super) ways: WayTexts,
    pub(super) distinct: Arc<DistinctTerms>,
    /// The maximum number of tokens of each member with its separator; `most_tokens` is the maximum over all members.
    pub(super) tokens: Box<[u32]>,
    pub(super) most_tokens: u32,
    /// The position at which the list begins.
    pub(super) start: u32,
}

impl List {
    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        self.ways.heap() + size_of_val(&*self.tokens) + self.distinct.heap()
    }
}

impl RuleRemainders {
    /// Return the length of the shortest text that completes a list after one of its members, or after a separator.
    pub fn length_of_rest(&mut self, tail: Tail, memory: &Memory, meter: &mut Meter) -> Outcome<u32> {
        let is_counted = needs_several_values(&self.members[tail.list as usize]);
        if is_counted && !self.counts_values {
            // The beginning of such a list has no known length, so the rest must not get a lower one.
            return Ok(NEVER);
        }
        if self.needs_value(tail, memory) {
            return match is_counted {
                true => self.length_of_values(tail, memory, meter),
                false => Ok(self.one_value(tail, memory, Sized::EMPTY, meter)?.length),
            };
        }
        let whole = match self.required(tail, memory, meter)? {
            Some(required) => {
                let members = &self.members[tail.list as usize];
                let place = tail.way.and_then(|way| required.place(members, way));
                required.length - place.map_or(0, |place| self.way_length(tail.list, required.ways[place as usize]))
            }
            None => match self.ways_of_rest(tail, memory, meter)? {
                Some(ways) => ways.iter().map(|way| self.way_length(tail.list, *way)).fold(0, add),
                None => return Ok(NEVER),
            },
        };
        Ok(match tail.way {
            Some(_) => whole,
            None => whole - self.length_of(self.lists[tail.list as usize].separator),
        })
    }

    /// Return the members that complete a list whichever member comes next, see `Required`.
    pub fn required(&mut self, tail: Tail, memory: &Memory, meter: &mut Meter) -> Outcome<Option<Arc<Required>>> {
        let list = &mut self.lists[tail.list as usize];
        list.ways.required(&self.members[tail.list as usize], memory, meter)
    }

    /// Return the symbols of a separator and a way.
    pub fn way_symbols(&self, list: u32, way: u32) -> &[u32] {
        self.lists[list as usize].ways.symbols(way)
    }

    pub fn separator_length(&self, list: u32) -> usize {
        self.symbols(self.lists[list as usize].separator).count()
    }

    fn way_length(&self, list: u32, way: u32) -> u32 {
        self.way_symbols(list, way).len() as u32
    }

    /// Return the rest of a list after the way or separator of a tail.
    pub fn rest_of(&self, tail: Tail, required: &Required) -> Rest {
        match tail.way {
            None => Rest::AfterSeparator,
            Some(way) => required
                .place(&self.members[tail.list as usize], way)
                .map_or(Rest::All, Rest::Without),
        }
    }

    /// Return the shortest text that completes a list, followed by the text after the list.
    pub fn complete(&mut self, tail: Tail, memory: &Memory, rest: Sized, meter: &mut Meter) -> Outcome<Sized> {
        if self.needs_value(tail, memory) {
            if !needs_several_values(&self.members[tail.list as usize]) {
                return self.one_value(tail, memory, rest, meter);
            }
            let own = self.length_of_rest(tail, memory, meter)?;
            return Ok(match add(own, rest.length) {
                length if length > MAX_REMAINDER => NONE,
                length => Sized {
                    length,
                    text: self.some_text(own, rest.text, meter)?,
                },
            });
        }
        let length = add(self.length_of_rest(tail, memory, meter)?, rest.length);
        let ways = self.ways_of_rest(tail, memory, meter)?.unwrap_or_default();
        if length > MAX_REMAINDER {
            return Ok(NONE);
        }
        let separator = self.lists[tail.list as usize].separator;
        let members = self.members.clone();
        let mut text = rest.text;
        for (index, way) in ways.iter().enumerate().rev() {
            let start = members[tail.list as usize].starts[*way as usize];
            text = self.join(self.shortest[start as usize].text, text, meter)?;
            if index > 0 || tail.way.is_some() {
                text = self.join(separator, text, meter)?;
            }
        }
        Ok(Sized { length, text })
    }

    /// Return the ways that are missing in a list, in order.
    fn ways_of_rest(&mut self, tail: Tail, memory: &Memory, meter: &mut Meter) -> Outcome<Option<Arc<[u32]>>> {
        if let Some(required) = self.required(tail, memory, meter)? {
            let members = &self.members[tail.list as usize];
            let left_out = tail.way.and_then(|way| required.place(members, way));
            meter.work(required.ways.len())?;
            let ways = (0..).zip(&required.ways);
            let ways = ways.filter(|(place, _)| Some(*place) != left_out).map(|(_, way)| *way);
            return Ok(Some(ways.collect()));
        }
        let members = &self.members[tail.list as usize];
        let after = tail.way.map(|way| members.after(memory, way));
        if after.as_ref().is_some_and(|after| members.may_end(after)) {
            return Ok(Some(Arc::default()));
        }
        let list = &mut self.lists[tail.list as usize];
        list.ways.completion(members, after.as_ref().unwrap_or(memory), meter)
    }

    /// Return whether a list of distinct members needs further members.
    fn needs_value(&self, tail: Tail, memory: &Memory) -> bool {
        let members = &self.members[tail.list as usize];
        let may_end = |way| members.may_end(&members.after(memory, way));
        members.are_distinct() && !tail.way.is_some_and(may_end)
    }

    /// Complete a list of distinct members after a separator with one more member, whose value must not have come
    /// before.
    fn one_value(&mut self, tail: Tail, memory: &Memory, rest: Sized, meter: &mut Meter) -> Outcome<Sized> {
        let members = self.members.clone();
        let members = &members[tail.list as usize];
        let mut best = NONE;
        if tail.way.is_some() {
            return Ok(best);
        }
        for way in members.choices(memory, meter)? {
            let Some((term, next)) = self.lists[tail.list as usize].distinct.by_way[*way as usize] else {
                continue;
            };
            let left = self.lexicon.without(term, &memory.seen, meter)?;
            let bytes = self.nearest.bytes(left, &self.lexicon, meter)?;
            let ends = |_: &Vec<u8>| members.may_end(&members.after(memory, *way));
            let Some(bytes) = bytes.filter(ends) else {
                continue;
            };
            let after = self.shortest[next as usize];
            let length = add(add(bytes.len() as u32, after.length), rest.length);
            if length <= MAX_REMAINDER && length < best.length {
                let text = self.join(after.text, rest.text, meter)?;
                let text = self.after_bytes(&bytes, text, meter)?;
                best = Sized { length, text };
            }
        }
        Ok(best)
    }

    /// Return the shortest separator of a list.
    pub(super) fn separator(&mut self, list: &Members, network: &Network, meter: &mut Meter) -> Outcome<Sized> {
        let Position::Terminal { term, .. } = network.position(list.separator) else {
            return Ok(Sized::EMPTY);
        };
        let Some(bytes) = self.nearest.bytes(*term, &self.lexicon, meter)? else {
            return Ok(NONE);
        };
        Ok(Sized {
            length: bytes.len() as u32,
            text: self.after_bytes(&bytes, NIL, meter)?,
        })
    }

    /// Return the shortest text of a whole list, from the known texts of its ways.
    pub(super) fn list_text(&mut self, number: u32, network: &Network, meter: &mut Meter) -> Outcome<Text> {
        let list = &network.members[number as usize];
        let (separator, mut ways) = self.way_texts(list, network, meter)?;
        let Some(ways) = ways.completion(list, &list.first(), meter)? else {
            return Ok(IMPOSSIBLE);
        };
        let mut text = NIL;
        for (index, way) in ways.iter().enumerate().rev() {
            text = self.join(self.shortest[list.starts[*way as usize] as usize].text, text, meter)?;
            if index > 0 {
                text = self.join(separator, text, meter)?;
            }
        }
        Ok(text)
    }

    fn way_texts(&mut self, list: &Members, network: &Network, meter: &mut Meter) -> Outcome<(Text, WayTexts)> {
        let before = self.separator(list, network, meter)?;
        let separator = before.text;
        let mut symbols: Vec<Option<Box<[u32]>>> = vec![None; list.ways.len()];
        for (known, start) in symbols.iter_mut().zip(&list.starts) {
            let Sized { length, text } = self.shortest[*start as usize];
            if text != IMPOSSIBLE && separator != IMPOSSIBLE {
                meter.work(add(before.length, length) as usize)?;
                *known = Some(self.symbols(separator).chain(self.symbols(text)).collect());
            }
        }
        Ok((separator, WayTexts::new(list, symbols, meter)?))
    }

    /// Compute the lists of members and the positions in them, once the texts of their ways are known.
    pub(super) fn find_lists(&mut self, network: &Network, meter: &mut Meter) -> Outcome<()> {
        if network.members.is_empty() {
            return Ok(());
        }
        self.tails = vec![None; network.len()];
        let mut beginnings = vec![END; network.members.len()];
        for index in 0..network.len() as u32 {
            if let Position::Choose(list) = network.position(index) {
                self.tails[index as usize] = Some(Tail {
                    list: *list,
                    way: None,
                    in_value: false,
                });
                beginnings[*list as usize] = index;
            }
        }
        for (number, list) in (0..).zip(network.members.iter()) {
            let (separator, ways) = self.way_texts(list, network, meter)?;
            let mut tokens = vec![0; list.members.len()];
            for (way, start) in (0..).zip(&list.starts) {
                self.mark_way(number, way, *start, network, meter)?;
                let text = self.shortest[*start as usize].text;
                let after_separator = self.join(separator, text, meter)?;
                if text != IMPOSSIBLE {
                    let own = self.texts.fewest(text).max(self.texts.fewest(after_separator));
                    let most = &mut tokens[list.ways[way as usize].member as usize];
                    *most = own.max(*most);
                }
            }
            let distinct = self.distinct_terms(list, network, true, meter)?;
            self.lists.push(List {
                distinct,
                separator,
                ways,
                most_tokens: tokens.iter().copied().max().unwrap_or(0),
                tokens: tokens.into(),
                start: beginnings[number as usize],
            });
        }
        Ok(())
    }

    /// Mark the positions of a way.
    fn mark_way(&mut self, list: u32, way: u32, start: u32, network: &Network, meter: &mut Meter) -> Outcome<()> {
        let mut waiting = vec![start];
        while let Some(index) = waiting.pop() {
            meter.work(1)?;
            if self.tails[index as usize].is_some() {
                continue;
            }
            let position = network.position(index);
            self.tails[index as usize] = Some(Tail {
                list,
                way: Some(way),
                in_value: matches!(position, Position::Distinct { .. } | Position::Value { .. }),
            });
            waiting.extend(network.following(index));
        }
        Ok(())
    }
}

/// The lengths of the ways of lists, while they are being computed.
#[derive(Default)]
pub struct WayLengths {
    /// The position of each list, with the length of its separator, the prices of its values, and the costs of the ways
    /// known so far.
    lists: Vec<(u32, u32, Prices, Vec<Cost>)>,
    /// The list and the way that begin at a position.
    ways: FastMap<u32, (usize, u32)>,
}

impl WayLengths {
    pub fn add(&mut self, place: u32, list: &Members, separator: u32, prices: Prices) {
        let ways = (0..)
            .zip(&list.starts)
            .map(|(way, start)| (*start, (self.lists.len(), way)));
        self.ways.extend(ways);
        let unknown = vec![Cost::UNUSABLE; list.ways.len()];
        self.lists.push((place, separator, prices, unknown));
    }

    /// Record the length of a position. If a way that completes a list begins there, return the position and the length
    /// of the list.
    pub fn arrive(
        &mut self,
        index: u32,
        length: u32,
        network: &Network,
        meter: &mut Meter,
    ) -> Outcome<Option<(u32, u32)>> {
        let Some(&(list, way)) = self.ways.get(&index) else {
            return Ok(None);
        };
        let (place, separator, prices, costs) = &mut self.lists[list];
        costs[way as usize] = prices.cost(way as usize, add(length, *separator));
        let Position::Choose(number) = network.position(*place) else {
            return Ok(None);
        };
        let members = &network.members[*number as usize];
        let search = Search::new(members, &members.first(), Some(costs), meter)?;
        let found = search.with_prices(prices).run(meter)?;
        let length = found.map_or(u64::from(NEVER), |found| found.length - u64::from(*separator));
        Ok((length <= u64::from(MAX_REMAINDER)).then_some((*place, length as u32)))
    }
}
