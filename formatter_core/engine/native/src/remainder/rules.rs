//! What is missing at each position of a grammar to the end of its rule, or of its way of a list of members.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::{Sized, LONGEST, NONE};
use crate::hash::FastMap;
use crate::lexicon::Lexicon;
use crate::limits::{Meter, Outcome};
use crate::members::{Cost, Members, Memory, Search, WayTexts, UNUSABLE};
use crate::nearest::Nearest;
use crate::network::{Network, Position, END};
use crate::spelling::{add, Text, Texts, CUT, FIRST_TOKEN, IMPOSSIBLE, NEVER, NIL};
use crate::term::{Term, NOTHING};

/// The passes over all positions after which an upper bound that still grows is given up.
const MOST_PASSES: usize = 64;
/// The text in front of another one is kept for one in this many symbols.
const KEPT_EVERY: u32 = 16;

/// What comes after the way of a list of members that a position is in, or after its separator.
#[derive(Clone, Copy)]
pub struct Tail {
    pub list: u32,
    pub way: Option<u32>,
}

/// A list of members, and the texts of its ways.
struct List {
    separator: Text,
    ways: WayTexts,
    /// By way, the first terminal of a distinct member, and what comes after it.
    distinct: Box<[Option<(Term, u32)>]>,
    /// The most tokens that each member takes, its separator included, and the most of all.
    tokens: Box<[u32]>,
    most_tokens: u32,
    /// Where the list begins.
    start: u32,
}

pub struct RuleRemainders {
    pub lexicon: Arc<Lexicon>,
    pub texts: Texts,
    pub nearest: Nearest,
    members: Arc<[Members]>,
    /// For each position, what is missing to the end of its rule or way.
    shortest: Vec<Sized>,
    /// For each position, an upper bound of the tokens missing to that end after whatever token from there that does not
    /// go beyond it; none if no such bound is known.
    farthest: Option<Arc<[u32]>>,
    lists: Vec<List>,
    /// Where regions begin, and their budgets.
    regions: Vec<(u32, u32)>,
    /// For each position in a list of members what comes then; empty if there are no lists.
    tails: Vec<Option<Tail>>,
    /// Texts in front of others.
    joined: FastMap<(Text, Text), Text>,
}

impl RuleRemainders {
    /// Along bytes that are tokens by themselves, or that occur in some token.
    pub fn new(
        alone: bool,
        avoided: &[u32],
        network: &Network,
        lexicon: &Arc<Lexicon>,
        meter: &mut Meter,
    ) -> Outcome<Self> {
        let texts = Texts::new(&lexicon.vocabulary, avoided);
        let mut new = RuleRemainders {
            nearest: Nearest::new(lexicon, &texts, alone),
            texts,
            lexicon: lexicon.clone(),
            members: network.members.clone(),
            shortest: Vec::new(),
            farthest: None,
            lists: Vec::new(),
            regions: Vec::new(),
            tails: Vec::new(),
            joined: FastMap::default(),
        };
        let order = new.find_lengths(network, meter)?;
        new.find_texts(network, &order, meter)?;
        new.find_lists(network, meter)?;
        new.find_regions(network);
        if alone && new.nearest.takes_every_byte() {
            new.farthest = new.find_farthest(network, &order, meter)?;
        }
        Ok(new)
    }

    /// An estimate of the bytes that they take.
    pub fn bytes(&self) -> usize {
        32 * (self.kept() + self.shortest.len())
    }

    /// How many things are kept.
    pub fn kept(&self) -> usize {
        let lists: usize = self.lists.iter().map(|list| list.ways.len()).sum();
        self.texts.len() + self.nearest.len() + self.joined.len() + lists
    }

    /// What is missing at a position to the end of its rule, or of its way.
    pub fn at(&self, position: u32) -> Sized {
        match self.tail(position) {
            Some(Tail { way: None, .. }) => Sized::EMPTY,
            _ => self.shortest[position as usize],
        }
    }

    /// What comes after the way of a list that a position is in.
    pub fn tail(&self, position: u32) -> Option<Tail> {
        self.tails.get(position as usize).copied().flatten()
    }

    /// Whether there are regions with budgets.
    pub fn has_regions(&self) -> bool {
        !self.regions.is_empty()
    }

    /// The budget of a region that is too small for its shortest text, and how many tokens that takes.
    pub fn too_small(&self) -> Option<(u32, u32)> {
        let needed = |(start, budget): &(u32, u32)| (*budget, self.texts.fewest(self.shortest[*start as usize].text));
        self.regions
            .iter()
            .map(needed)
            .find(|(budget, needed)| budget < needed && *needed < NEVER)
    }

    /// Whether every region that a token opens can still be completed within its budget, whatever else the token holds.
    pub fn are_regions_roomy(&self) -> bool {
        self.farthest.as_ref().is_some_and(|bounds| {
            let mut regions = self.regions.iter();
            regions.all(|(start, budget)| bounds[*start as usize] <= *budget)
        })
    }

    /// Whether upper bounds are known.
    pub fn has_bounds(&self) -> bool {
        self.farthest.is_some()
    }

    /// An upper bound of the tokens missing to the end of a position's rule after whatever token that does not leave the
    /// rule, where this has come of the members that it is among: from the position, or from a terminal before it whose
    /// end is at most `own` away.
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

    /// An upper bound of the tokens of what completes a list, whatever comes next.
    fn most_tokens(&self, list: u32, memory: &Memory) -> u32 {
        let (members, list) = (&self.members[list as usize], &self.lists[list as usize]);
        let (needed, more) = members.most_needed(memory);
        let needed = needed.map(|member| list.tokens[member as usize]);
        add(needed.fold(0, add), more.saturating_mul(list.most_tokens).min(NEVER))
    }

    /// How long the shortest text is that completes a list after one of its members, or after a separator.
    pub fn length_of_rest(&mut self, tail: Tail, memory: &Memory, meter: &mut Meter) -> Outcome<u32> {
        if self.needs_value(tail, memory) {
            return Ok(self.one_value(tail, memory, Sized::EMPTY, meter)?.length);
        }
        let Some(ways) = self.ways_of_rest(tail, memory, meter)? else {
            return Ok(NEVER);
        };
        let list = &self.lists[tail.list as usize];
        let whole = ways.iter().map(|way| list.ways.symbols(*way).len() as u32).fold(0, add);
        Ok(match tail.way {
            Some(_) => whole,
            None => whole - self.length_of(list.separator),
        })
    }

    /// That text, in front of what is missing after the list.
    pub fn complete(&mut self, tail: Tail, memory: &Memory, rest: Sized, meter: &mut Meter) -> Outcome<Sized> {
        if self.needs_value(tail, memory) {
            return self.one_value(tail, memory, rest, meter);
        }
        let length = add(self.length_of_rest(tail, memory, meter)?, rest.length);
        let ways = self.ways_of_rest(tail, memory, meter)?.unwrap_or_default();
        if length > LONGEST {
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

    /// The ways that are missing of a list, in order.
    fn ways_of_rest(&mut self, tail: Tail, memory: &Memory, meter: &mut Meter) -> Outcome<Option<Arc<[u32]>>> {
        let members = &self.members[tail.list as usize];
        let after = tail.way.map(|way| members.after(memory, way));
        if after.as_ref().is_some_and(|after| members.may_end(after)) {
            return Ok(Some(Arc::default()));
        }
        let list = &mut self.lists[tail.list as usize];
        list.ways.completion(members, after.as_ref().unwrap_or(memory), meter)
    }

    /// Whether more members must come of a list of distinct ones.
    fn needs_value(&self, tail: Tail, memory: &Memory) -> bool {
        let members = &self.members[tail.list as usize];
        let may_end = |way| members.may_end(&members.after(memory, way));
        members.are_distinct() && !tail.way.is_some_and(may_end)
    }

    /// What completes a list of distinct members after a separator: one more, whose value has not come.
    fn one_value(&mut self, tail: Tail, memory: &Memory, rest: Sized, meter: &mut Meter) -> Outcome<Sized> {
        let members = self.members.clone();
        let members = &members[tail.list as usize];
        let mut best = NONE;
        if tail.way.is_some() || needs_several_values(members) {
            return Ok(best);
        }
        for way in members.choices(memory, meter)? {
            let Some((term, next)) = self.lists[tail.list as usize].distinct[*way as usize] else {
                continue;
            };
            let left = self.lexicon.without(term, &memory.seen, meter)?;
            if left == NOTHING || !members.may_end(&members.after(memory, *way)) {
                continue;
            }
            let after = self.shortest[next as usize];
            let bytes = self.nearest.bytes(left, &self.lexicon, meter)?;
            let length = add(add(bytes.len() as u32, after.length), rest.length);
            if length <= LONGEST && length < best.length {
                let text = self.join(after.text, rest.text, meter)?;
                let text = self.after_bytes(&bytes, text, meter)?;
                best = Sized { length, text };
            }
        }
        Ok(best)
    }

    fn length_of(&self, text: Text) -> u32 {
        self.symbols(text).count() as u32
    }

    /// The symbols of a text.
    pub fn symbols(&self, text: Text) -> impl Iterator<Item = u32> + '_ {
        let mut rest = text;
        std::iter::from_fn(move || {
            let (symbol, after) = self.texts.split(rest)?;
            rest = after;
            Some(symbol)
        })
    }

    /// How many tokens spell what is missing at a position to the end of its rule or way.
    pub fn tokens_from(&self, position: u32) -> u32 {
        self.texts.fewest(self.at(position).text)
    }

    pub fn token_length(&self, token: u32) -> u32 {
        match (token as usize) < self.lexicon.vocabulary.len() && self.texts.is_usable(token) {
            true => 1,
            false => NEVER,
        }
    }

    // --- texts

    /// A text in front of another one.
    pub fn join(&mut self, text: Text, rest: Text, meter: &mut Meter) -> Outcome<Text> {
        if text == IMPOSSIBLE || rest == IMPOSSIBLE {
            return Ok(IMPOSSIBLE);
        }
        let mut symbols = Vec::new();
        let mut left = text;
        let mut joined = rest;
        while let Some((symbol, after)) = self.texts.split(left) {
            if let Some(known) = self.joined.get(&(left, rest)) {
                joined = *known;
                break;
            }
            symbols.push((symbol, left));
            left = after;
        }
        meter.work(symbols.len() + 1)?;
        for (index, (symbol, text)) in symbols.into_iter().enumerate().rev() {
            joined = self.texts.cons(symbol, joined, &self.lexicon.vocabulary);
            if index == 0 || text % KEPT_EVERY == 0 {
                self.joined.insert((text, rest), joined);
            }
        }
        Ok(joined)
    }

    /// Bytes in front of a text.
    pub fn after_bytes(&mut self, bytes: &[u8], rest: Text, meter: &mut Meter) -> Outcome<Text> {
        let symbols: Vec<u32> = bytes.iter().map(|byte| u32::from(*byte)).collect();
        self.after_symbols(&symbols, rest, meter)
    }

    /// Symbols in front of a text.
    pub fn after_symbols(&mut self, symbols: &[u32], rest: Text, meter: &mut Meter) -> Outcome<Text> {
        if rest == IMPOSSIBLE {
            return Ok(IMPOSSIBLE);
        }
        meter.work(symbols.len() + 1)?;
        let vocabulary = &self.lexicon.vocabulary;
        let texts = &mut self.texts;
        Ok(symbols
            .iter()
            .rev()
            .fold(rest, |rest, symbol| texts.cons(*symbol, rest, vocabulary)))
    }

    /// See `Texts::first`.
    pub fn first(&mut self, one: Text, other: Text) -> Text {
        self.texts.first(one, other, &self.lexicon.vocabulary)
    }

    // --- positions

    /// How long each position's shortest text is (Knuth 1977); the positions, those with shorter ones first.
    fn find_lengths(&mut self, network: &Network, meter: &mut Meter) -> Outcome<Vec<u32>> {
        let count = network.len();
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut callers: Vec<Vec<u32>> = vec![Vec::new(); network.rules.len()];
        let mut rules_at: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut own = vec![0; count];
        let mut queue = BinaryHeap::from([Reverse((0, END))]);
        let mut lists = WayLengths::default();
        for index in 0..count as u32 {
            meter.work(1)?;
            match network.position(index) {
                Position::End => {}
                Position::Came { .. } => queue.push(Reverse((0, index))),
                // No shortest text is known of several members that differ.
                Position::Choose(list) if needs_several_values(&network.members[*list as usize]) => {}
                Position::Choose(list) => {
                    let list = &network.members[*list as usize];
                    lists.add(index, list, self.separator(list, network, meter)?.length);
                }
                Position::Terminal { term, next, .. } | Position::Distinct { term, next } => {
                    own[index as usize] = self.nearest.distance(*term, &self.lexicon, meter)?;
                    before[*next as usize].push(index);
                }
                Position::Value { next, .. } | Position::Cut { next } => before[*next as usize].push(index),
                Position::Token { token, next } => {
                    own[index as usize] = self.token_length(*token);
                    before[*next as usize].push(index);
                }
                Position::Call { rule, next } => {
                    before[*next as usize].push(index);
                    callers[*rule as usize].push(index);
                }
                Position::Split(next) => {
                    meter.work(next.len())?;
                    next.iter().for_each(|place| before[*place as usize].push(index));
                }
            }
        }
        for (rule, entry) in network.rules.iter().enumerate() {
            rules_at[entry.start as usize].push(rule as u32);
        }
        self.shortest = vec![NONE; count];
        let mut order = Vec::with_capacity(count);
        while let Some(Reverse((length, index))) = queue.pop() {
            if self.shortest[index as usize].length != NEVER {
                continue;
            }
            self.shortest[index as usize].length = length;
            order.push(index);
            if let Some((place, length)) = lists.arrive(index, length, network, meter)? {
                queue.push(Reverse((length, place)));
            }
            let called = rules_at[index as usize]
                .iter()
                .flat_map(|rule| &callers[*rule as usize]);
            let waiting: Vec<u32> = before[index as usize].iter().chain(called).copied().collect();
            meter.work(waiting.len() + 1)?;
            for place in waiting {
                let length = match network.position(place) {
                    Position::Call { rule, next } => {
                        let start = network.rules[*rule as usize].start;
                        add(
                            self.shortest[start as usize].length,
                            self.shortest[*next as usize].length,
                        )
                    }
                    _ => add(own[place as usize], length),
                };
                if length <= LONGEST {
                    queue.push(Reverse((length, place)));
                }
            }
        }
        Ok(order)
    }

    /// The shortest separator of a list.
    fn separator(&mut self, list: &Members, network: &Network, meter: &mut Meter) -> Outcome<Sized> {
        let Position::Terminal { term, .. } = network.position(list.separator) else {
            return Ok(Sized::EMPTY);
        };
        let length = self.nearest.distance(*term, &self.lexicon, meter)?;
        if length > LONGEST {
            return Ok(NONE);
        }
        let bytes = self.nearest.bytes(*term, &self.lexicon, meter)?;
        let text = self.after_bytes(&bytes, NIL, meter)?;
        Ok(Sized { length, text })
    }

    /// The shortest text of each position: those of one length until nothing changes.
    fn find_texts(&mut self, network: &Network, order: &[u32], meter: &mut Meter) -> Outcome<()> {
        let mut rest = order;
        while let Some(first) = rest.first() {
            let length = self.shortest[*first as usize].length;
            let is_same = |index: &&u32| self.shortest[**index as usize].length == length;
            let (same, longer) = rest.split_at(rest.iter().take_while(is_same).count());
            rest = longer;
            let mut has_changed = true;
            while has_changed {
                has_changed = false;
                for &index in same {
                    let text = self.text_at(index, network, meter)?;
                    has_changed |= text != self.shortest[index as usize].text;
                    self.shortest[index as usize].text = text;
                }
            }
        }
        Ok(())
    }

    fn text_at(&mut self, index: u32, network: &Network, meter: &mut Meter) -> Outcome<Text> {
        meter.work(1)?;
        let text_of = |place: u32, own: &Self| own.shortest[place as usize].text;
        match network.position(index) {
            Position::End | Position::Came { .. } => Ok(NIL),
            Position::Choose(number) => self.list_text(*number, network, meter),
            Position::Value { next, .. } => Ok(text_of(*next, self)),
            Position::Cut { next } => {
                let rest = text_of(*next, self);
                self.after_symbols(&[CUT], rest, meter)
            }
            Position::Terminal { term, next, .. } | Position::Distinct { term, next } => {
                let rest = text_of(*next, self);
                let bytes = self.nearest.bytes(*term, &self.lexicon, meter)?;
                self.after_bytes(&bytes, rest, meter)
            }
            Position::Token { token, next } => match text_of(*next, self) {
                IMPOSSIBLE => Ok(IMPOSSIBLE),
                rest => Ok(self.texts.cons(FIRST_TOKEN + token, rest, &self.lexicon.vocabulary)),
            },
            Position::Call { rule, next } => {
                let rule = &network.rules[*rule as usize];
                let (text, rest) = (text_of(rule.start, self), text_of(*next, self));
                let Some(budget) = rule.budget.filter(|_| text != IMPOSSIBLE && rest != IMPOSSIBLE) else {
                    return self.join(text, rest, meter);
                };
                let barrier = self.texts.span(self.shortest[rule.start as usize].length, budget);
                let joined = self.join(text, rest, meter)?;
                self.after_symbols(&[barrier], joined, meter)
            }
            Position::Split(places) => {
                meter.work(places.len())?;
                let length = self.shortest[index as usize].length;
                let mut best = text_of(index, self);
                for place in places.iter() {
                    let place = self.shortest[*place as usize];
                    if place.length == length {
                        best = self.first(best, place.text);
                    }
                }
                Ok(best)
            }
        }
    }

    // --- lists of members

    /// The shortest text of a whole list, from what is known of its ways.
    fn list_text(&mut self, number: u32, network: &Network, meter: &mut Meter) -> Outcome<Text> {
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
        let separator = self.separator(list, network, meter)?.text;
        let mut symbols: Vec<Option<Box<[u32]>>> = vec![None; list.ways.len()];
        for (known, start) in symbols.iter_mut().zip(&list.starts) {
            let Sized { length, text } = self.shortest[*start as usize];
            if text != IMPOSSIBLE && separator != IMPOSSIBLE {
                meter.work(length as usize)?;
                *known = Some(self.symbols(separator).chain(self.symbols(text)).collect());
            }
        }
        Ok((separator, WayTexts::new(list, symbols, meter)?))
    }

    /// The lists of members, once the texts of their ways are known, and the positions in them.
    fn find_lists(&mut self, network: &Network, meter: &mut Meter) -> Outcome<()> {
        if network.members.is_empty() {
            return Ok(());
        }
        self.tails = vec![None; network.len()];
        let mut beginnings = vec![END; network.members.len()];
        for index in 0..network.len() as u32 {
            if let Position::Choose(list) = network.position(index) {
                self.tails[index as usize] = Some(Tail { list: *list, way: None });
                beginnings[*list as usize] = index;
            }
        }
        for (number, list) in (0..).zip(network.members.iter()) {
            let (separator, ways) = self.way_texts(list, network, meter)?;
            let mut tokens = vec![0; list.members.len()];
            for (way, start) in (0..).zip(&list.starts) {
                self.mark_way(number, way, *start, network, meter)?;
                let text = self.shortest[*start as usize].text;
                let own = add(self.texts.fewest(separator), self.texts.fewest(text));
                let most = &mut tokens[list.ways[way as usize].member as usize];
                if text != IMPOSSIBLE {
                    *most = own.max(*most);
                }
            }
            let distinct = list.starts.iter().map(|start| match *network.position(*start) {
                Position::Distinct { term, next } => Some((term, next)),
                _ => None,
            });
            self.lists.push(List {
                distinct: distinct.collect(),
                separator,
                ways,
                most_tokens: tokens.iter().copied().max().unwrap_or(0),
                tokens: tokens.into(),
                start: beginnings[number as usize],
            });
        }
        Ok(())
    }

    /// Note the positions of a way.
    fn mark_way(&mut self, list: u32, way: u32, start: u32, network: &Network, meter: &mut Meter) -> Outcome<()> {
        let mut waiting = vec![start];
        while let Some(index) = waiting.pop() {
            meter.work(1)?;
            if self.tails[index as usize].is_some() {
                continue;
            }
            self.tails[index as usize] = Some(Tail { list, way: Some(way) });
            match network.position(index) {
                Position::Terminal { next, .. }
                | Position::Token { next, .. }
                | Position::Call { next, .. }
                | Position::Distinct { next, .. }
                | Position::Value { next, .. }
                | Position::Cut { next } => waiting.push(*next),
                Position::Split(places) => waiting.extend(places),
                Position::End | Position::Choose(_) | Position::Came { .. } => {}
            }
        }
        Ok(())
    }

    /// The regions that can be come to.
    fn find_regions(&mut self, network: &Network) {
        if !network.has_regions() {
            return;
        }
        let reachable = network.reachable();
        for index in (0..network.len()).filter(|index| reachable[*index]) {
            if let Position::Call { rule, .. } = network.position(index as u32) {
                let rule = &network.rules[*rule as usize];
                self.regions.extend(rule.budget.map(|budget| (rule.start, budget)));
            }
        }
        self.regions.sort_unstable();
        self.regions.dedup();
    }

    // --- upper bounds

    /// For each position an upper bound of the tokens that are missing to the end of its rule after whatever token from
    /// there: byte for byte of the longest token, because every byte may lead deeper.
    fn find_farthest(&mut self, network: &Network, order: &[u32], meter: &mut Meter) -> Outcome<Option<Arc<[u32]>>> {
        // What is left of values that must differ has no bound.
        if network.members.iter().any(Members::are_distinct) {
            return Ok(None);
        }
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
                Position::Terminal { term, next, .. } => {
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
                    bounds[index as usize] = if grows && passes > MOST_PASSES { NEVER } else { bound };
                }
            }
            if bounds == before {
                break;
            }
        }
        Ok(Some(bounds.into()))
    }

    /// One step of that: `before` is for one byte less.
    fn farthest_at(&self, index: u32, network: &Network, before: &[u32], bounds: &[u32]) -> u32 {
        let beyond = |next: u32, nullable: bool| match nullable {
            true => bounds[next as usize],
            false => before[next as usize],
        };
        let most = |places: &[u32]| places.iter().map(|place| bounds[*place as usize]).max().unwrap_or(0);
        match network.position(index) {
            Position::End | Position::Token { .. } | Position::Came { .. } => 0,
            Position::Choose(list) => most(&network.members[*list as usize].starts),
            Position::Distinct { .. } | Position::Value { .. } => NEVER,
            Position::Terminal { nullable, next, .. } => beyond(*next, *nullable),
            Position::Call { rule, next } => {
                let rule = &network.rules[*rule as usize];
                let list = rule.members.map(|list| (list, &network.members[list as usize]));
                let list = list.map_or(0, |(list, members)| self.most_tokens(list, &members.first()));
                let inside = add(bounds[rule.start as usize], list);
                add(inside, self.tokens_from(*next)).max(beyond(*next, rule.nullable))
            }
            Position::Cut { next } => bounds[*next as usize],
            Position::Split(places) => most(places),
        }
    }
}

/// Whether a list may need several members that differ.
fn needs_several_values(list: &Members) -> bool {
    list.are_distinct() && (list.minimum > 1 || list.conditions > 0)
}

/// The lengths of the ways of lists while they become known.
#[derive(Default)]
struct WayLengths {
    /// Where lists begin, with the length of the separator, and the costs of the ways that are known.
    lists: Vec<(u32, u32, Vec<Cost>)>,
    /// The list and the way that begin at a position.
    ways: FastMap<u32, (usize, u32)>,
}

impl WayLengths {
    fn add(&mut self, place: u32, list: &Members, separator: u32) {
        let ways = (0..)
            .zip(&list.starts)
            .map(|(way, start)| (*start, (self.lists.len(), way)));
        self.ways.extend(ways);
        let unknown = Cost {
            length: UNUSABLE,
            rank: 0,
        };
        self.lists.push((place, separator, vec![unknown; list.ways.len()]));
    }

    /// A position's length is known: if a way begins there that completes a list, the list's place and length.
    fn arrive(&mut self, index: u32, length: u32, network: &Network, meter: &mut Meter) -> Outcome<Option<(u32, u32)>> {
        let Some(&(list, way)) = self.ways.get(&index) else {
            return Ok(None);
        };
        let (place, separator, costs) = &mut self.lists[list];
        if *separator == NEVER {
            return Ok(None);
        }
        costs[way as usize].length = length + *separator;
        let Position::Choose(number) = network.position(*place) else {
            return Ok(None);
        };
        let members = &network.members[*number as usize];
        let found = Search::new(members, &members.first(), Some(costs), meter)?.run(meter)?;
        let length = found.map_or(u64::from(NEVER), |found| found.length - u64::from(*separator));
        Ok((length <= u64::from(LONGEST)).then_some((*place, length as u32)))
    }
}
