//! The remainder from each position of a grammar to the end of its rule, or of its way in a list of members.

mod bounds;
mod lists;
mod shortest_values;
mod slack;
mod value_groups;
mod values;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem::size_of_val;
use std::sync::Arc;

use self::lists::{List, WayLengths};
use self::shortest_values::Values;
use self::values::needs_several_values;
use super::{Sized, NONE};
use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::MAX_REMAINDER;
use crate::budgets::nearest::Nearest;
use crate::grammar::members::{Members, Prices};
use crate::grammar::network::{Network, Position, END};
use crate::regular::term::Term;
use crate::tokens::lexicon::Lexicon;
use crate::tokens::spelling::{add, Text, Texts, CUT, FIRST_TOKEN, IMPOSSIBLE, NEVER, NIL};

/// One in this many symbols of a joined text is cached.
const KEPT_EVERY: u32 = 16;

/// The list, and the way in it, that a position is in; a `way` of None means a position after a separator.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tail {
    pub list: u32,
    pub way: Option<u32>,
    /// Tells whether a distinct value is in progress that the memory does not count yet.
    pub in_value: bool,
}

pub struct RuleRemainders {
    pub lexicon: Arc<Lexicon>,
    pub texts: Texts,
    pub nearest: Nearest,
    members: Arc<[Members]>,
    /// For each position, the shortest text to the end of its rule or way.
    shortest: Vec<Sized>,
    /// For each position, an upper bound of the number of tokens missing to that end after any token from there that
    /// does not cross it; None if no bounds are known.
    farthest: Option<Arc<[u32]>>,
    lists: Vec<List>,
    /// The regions' first positions, and their budgets.
    regions: Vec<(u32, u32)>,
    /// For each position in a list of members, its tail; empty if there are no lists.
    tails: Vec<Option<Tail>>,
    /// A cache of joined texts.
    joined: FastMap<(Text, Text), Text>,
    /// Tells whether lists may need several different values: then only a sufficient length of their completion is
    /// known, not the text.
    counts_values: bool,
    /// The shortest values of terms.
    values: FastMap<Term, Values>,
    /// The lengths that complete lists of such values, by their memory.
    of_values: FastMap<Box<[u64]>, u32>,
    /// Heap bytes of the keys of `of_values`.
    keys: usize,
}

impl RuleRemainders {
    /// Compute the remainders. They use bytes that are tokens by themselves (`alone`), or bytes that occur in some
    /// token.
    pub fn new(
        alone: bool,
        avoided: &[u32],
        network: &Network,
        lexicon: &Arc<Lexicon>,
        meter: &mut Meter,
    ) -> Outcome<Self> {
        let mut texts = Texts::new(&lexicon.vocabulary, avoided);
        let counts_values = alone && network.members.iter().any(needs_several_values);
        if counts_values {
            texts.spell_plainly(network.has_regions() && !are_values_in_regions(network));
        }
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
            counts_values,
            values: FastMap::default(),
            of_values: FastMap::default(),
            keys: 0,
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

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        let farthest = self
            .farthest
            .as_ref()
            .map_or(0, |all| heap::COUNTS + size_of_val(&**all));
        self.texts.heap()
            + self.nearest.heap()
            + heap::list(&self.shortest)
            + farthest
            + heap::list(&self.lists)
            + self.lists.iter().map(List::heap).sum::<usize>()
            + heap::list(&self.regions)
            + heap::list(&self.tails)
            + heap::table(&self.joined)
            + heap::table(&self.values)
            + self.values.values().map(Values::heap).sum::<usize>()
            + heap::table(&self.of_values)
            + self.keys
    }

    /// Return the number of cached results.
    pub fn kept(&self) -> usize {
        let lists: usize = self.lists.iter().map(|list| list.ways.len()).sum();
        self.texts.len() + self.nearest.len() + self.joined.len() + lists + self.of_values.len()
    }

    /// Return the shortest text from a position to the end of its rule or way.
    pub fn at(&self, position: u32) -> Sized {
        match self.tail(position) {
            Some(Tail { way: None, .. }) => Sized::EMPTY,
            _ => self.shortest[position as usize],
        }
    }

    /// Return the tail of a position in a list.
    pub fn tail(&self, position: u32) -> Option<Tail> {
        self.tails.get(position as usize).copied().flatten()
    }

    /// Return whether there are regions with budgets.
    pub fn has_regions(&self) -> bool {
        !self.regions.is_empty()
    }

    /// Return the budget of a region that is too small for its shortest text, and the number of tokens of that text.
    pub fn too_small(&self) -> Option<(u32, u32)> {
        let needed = |start: u32| self.texts.fewest_in_region(self.shortest[start as usize].text);
        let needed = |(start, budget): &(u32, u32)| (*budget, needed(*start));
        self.regions
            .iter()
            .map(needed)
            .find(|(budget, needed)| budget < needed && *needed < NEVER)
    }

    /// Return the length of a text; `NEVER` if there is none.
    fn length_of(&self, text: Text) -> u32 {
        match text {
            IMPOSSIBLE => NEVER,
            _ => self.symbols(text).count() as u32,
        }
    }

    /// Return the symbols of a text.
    pub fn symbols(&self, text: Text) -> impl Iterator<Item = u32> + '_ {
        let mut rest = text;
        std::iter::from_fn(move || {
            let (symbol, after) = self.texts.split(rest)?;
            rest = after;
            Some(symbol)
        })
    }

    /// Return the number of tokens that spell the shortest text from a position to the end of its rule or way.
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

    /// Return a text followed by another one.
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

    /// Return bytes followed by a text.
    pub fn after_bytes(&mut self, bytes: &[u8], rest: Text, meter: &mut Meter) -> Outcome<Text> {
        let symbols: Vec<u32> = bytes.iter().map(|byte| u32::from(*byte)).collect();
        self.after_symbols(&symbols, rest, meter)
    }

    /// Return symbols followed by a text.
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

    /// Return the fewest tokens that spell symbols followed by a text, without storing the whole text.
    pub fn fewest_before(&self, symbols: &[u32], rest: Text, meter: &mut Meter) -> Outcome<u32> {
        meter.work(symbols.len() + 1)?;
        Ok(self.texts.fewest_before(symbols, rest, &self.lexicon.vocabulary))
    }

    /// Return the first of two texts, see `Texts::first`.
    pub fn first(&mut self, one: Text, other: Text) -> Text {
        self.texts.first(one, other, &self.lexicon.vocabulary)
    }

    /// Spell a symbol, see `Texts::spell`.
    pub fn spell(&self, symbol: u32, after: &mut dyn FnMut() -> Option<(Option<u32>, u32)>) -> (u32, usize) {
        self.texts.spell(symbol, after, &self.lexicon.vocabulary)
    }

    // --- positions

    /// Compute the length of each position's shortest text (Knuth 1977); return the positions in order of these
    /// lengths.
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
            for place in network.following(index) {
                before[*place as usize].push(index);
            }
            match network.position(index) {
                Position::End | Position::Value { .. } | Position::Cut { .. } => {}
                Position::Came { .. } => queue.push(Reverse((0, index))),
                Position::Choose(number) => {
                    let list = &network.members[*number as usize];
                    let separator = self.separator(list, network, meter)?.length;
                    if !needs_several_values(list) {
                        lists.add(index, list, separator, Prices::new(list.ways.len()));
                    } else if self.counts_values {
                        let terms = self.distinct_terms(list, network, false, meter)?;
                        let first = list.first();
                        let came = self.came(&terms, &first);
                        let prices = self.prices(&terms, &came, list.still_needed(&first), meter)?;
                        lists.add(index, list, separator, prices);
                    }
                }
                Position::Terminal { term, .. } | Position::Distinct { term, .. } => {
                    own[index as usize] = self.nearest.distance(*term, &self.lexicon, meter)?;
                }
                Position::Token { token, .. } => own[index as usize] = self.token_length(*token),
                Position::Call { rule, .. } => callers[*rule as usize].push(index),
                Position::Split(split) => meter.work(network.places(*split).len())?,
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
                if length <= MAX_REMAINDER {
                    queue.push(Reverse((length, place)));
                }
            }
        }
        Ok(order)
    }

    /// Compute the shortest text of each position; texts of one length are computed until nothing changes.
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
            Position::Choose(number) if needs_several_values(&network.members[*number as usize]) => {
                self.some_text(self.shortest[index as usize].length, NIL, meter)
            }
            Position::Choose(number) => self.list_text(*number, network, meter),
            Position::Value { next, .. } => Ok(text_of(*next, self)),
            Position::Cut { next } => {
                let rest = text_of(*next, self);
                self.after_symbols(&[CUT], rest, meter)
            }
            Position::Terminal { term, next, .. } | Position::Distinct { term, next } => {
                let rest = text_of(*next, self);
                match self.nearest.bytes(*term, &self.lexicon, meter)? {
                    Some(bytes) => self.after_bytes(&bytes, rest, meter),
                    None => Ok(IMPOSSIBLE),
                }
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
            Position::Split(split) => {
                let places = network.places(*split);
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

    /// Find the regions that can be reached.
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
}

/// Return whether a region may include a list that needs several different values.
fn are_values_in_regions(network: &Network) -> bool {
    let with_budget = network.rules.iter().filter(|rule| rule.budget.is_some());
    let inside = network.reachable_from(with_budget.map(|rule| rule.start).collect());
    let is_list = |position: &Position| match position {
        Position::Choose(list) => needs_several_values(&network.members[*list as usize]),
        _ => false,
    };
    (0..network.len()).any(|index| inside[index] && is_list(network.position(index as u32)))
}
