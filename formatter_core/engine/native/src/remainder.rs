//! The shortest remainder of a state: the shortest text that completes it, of several the first in byte order, and how
//! many tokens spell that. Symbols that are not bytes, tokens that come by their ids, are one long each.
//!
//! After the first token of the best spelling, what is left of the remainder is the shortest remainder again: a better
//! one would have made a better one before. So from every state some token leads to a distance of one less.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::hash::FastMap;
use crate::lexicon::Lexicon;
use crate::limits::{Meter, Outcome};
use crate::nearest::Nearest;
use crate::network::{Network, Position, END};
use crate::spelling::{add, Text, Texts, FIRST_TOKEN, IMPOSSIBLE, NEVER, NIL};
use crate::stack::{Edge, Frame, Frozen, Group, ROOT};

/// Longer remainders are not written out: a state that has no shorter one counts as one that cannot be completed.
const LONGEST: u32 = 1 << 18;
/// So many texts, ways and frames are kept beside those of the grammar's own positions.
const MOST_KEPT: usize = 1 << 20;
/// The passes over all positions after which an upper bound is given up.
const MOST_PASSES: usize = 64;
/// The text in front of a frame's is kept for one in so many symbols.
const KEPT_EVERY: u32 = 16;

/// A text, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sized {
    length: u32,
    text: Text,
}

const NONE: Sized = Sized {
    length: NEVER,
    text: IMPOSSIBLE,
};

/// What is known of a frame.
#[derive(Clone, Copy)]
struct Below {
    shortest: Sized,
    /// An upper bound of the tokens that are missing after whatever token that leaves the frame's rule.
    farthest: u32,
}

/// The remainders of one grammar's states, for one lexicon and one set of tokens that are avoided.
pub struct Remainders {
    /// Whether there are tokens that are avoided: then what is worked out goes for one sequence alone.
    pub avoid_tokens: bool,
    lexicon: Arc<Lexicon>,
    texts: Texts,
    nearest: Nearest,
    /// For each position, what is missing to the end of its rule.
    shortest: Vec<Sized>,
    /// For each position, an upper bound of the tokens missing to the end of its rule after whatever token from there that
    /// does not leave the rule; none if no such bound is known.
    farthest: Option<Arc<[u32]>>,
    frames: FastMap<(u64, u32), Below>,
    /// Texts of rules in front of those of frames.
    joined: FastMap<(Text, u64, u32), Text>,
    kept_at_first: usize,
}

impl Remainders {
    pub fn new(avoided: &[u32], network: &Network, lexicon: &Arc<Lexicon>, meter: &mut Meter) -> Outcome<Self> {
        // Where every byte is a token, every text can be spelt; elsewhere a text of other bytes is better than none.
        let alone = Self::along(true, avoided, network, lexicon, meter)?;
        match alone.tokens_from(network.start) {
            NEVER => Self::along(false, avoided, network, lexicon, meter),
            _ => Ok(alone),
        }
    }

    fn along(
        alone: bool,
        avoided: &[u32],
        network: &Network,
        lexicon: &Arc<Lexicon>,
        meter: &mut Meter,
    ) -> Outcome<Self> {
        let texts = Texts::new(&lexicon.vocabulary, avoided);
        let mut new = Remainders {
            avoid_tokens: !avoided.is_empty(),
            nearest: Nearest::new(lexicon, &texts, alone),
            texts,
            lexicon: lexicon.clone(),
            shortest: Vec::new(),
            farthest: None,
            frames: FastMap::default(),
            joined: FastMap::default(),
            kept_at_first: 0,
        };
        let order = new.find_lengths(network, meter)?;
        new.find_texts(network, &order, meter)?;
        if alone && new.nearest.takes_every_byte() {
            new.farthest = new.find_farthest(network, &order, meter)?;
        }
        new.kept_at_first = new.kept();
        Ok(new)
    }

    /// Whether these are for the states of this lexicon, and have room left.
    pub fn serve(&self, lexicon: &Arc<Lexicon>) -> bool {
        Arc::ptr_eq(&self.lexicon, lexicon) && self.kept() <= self.kept_at_first + MOST_KEPT
    }

    /// An estimate of the bytes that they take.
    pub fn bytes(&self) -> usize {
        32 * (self.kept() + self.shortest.len())
    }

    fn kept(&self) -> usize {
        self.texts.len() + self.nearest.len() + self.frames.len() + self.joined.len()
    }

    /// The fewest tokens known to complete a state, the end id included; `NEVER` if none are known.
    pub fn distance(&mut self, parts: &Frozen, meter: &mut Meter) -> Outcome<u32> {
        if parts.can_stop {
            return Ok(1);
        }
        meter.work(parts.threads.len() + parts.tokens.len())?;
        let mut lengths = Vec::with_capacity(parts.threads.len() + parts.tokens.len());
        for thread in &parts.threads {
            let own = self.nearest.distance(thread.state, &self.lexicon, meter)?;
            lengths.push(self.length(own, thread.next, &thread.frame, meter)?);
        }
        for thread in &parts.tokens {
            let own = self.token_length(thread.token);
            lengths.push(self.length(own, thread.next, &thread.frame, meter)?);
        }
        let least = lengths.iter().copied().min().unwrap_or(NEVER);
        if least == NEVER {
            return Ok(NEVER);
        }
        let mut best = IMPOSSIBLE;
        for (index, _) in lengths.iter().enumerate().filter(|(_, length)| **length == least) {
            let text = match parts.threads.get(index) {
                Some(thread) => {
                    let rest = self.join(thread.next, &thread.frame, meter)?;
                    let bytes = self.nearest.bytes(thread.state, &self.lexicon, meter)?;
                    self.after_bytes(&bytes, rest, meter)?
                }
                None => {
                    let thread = &parts.tokens[index - parts.threads.len()];
                    let rest = self.join(thread.next, &thread.frame, meter)?;
                    self.texts
                        .cons(FIRST_TOKEN + thread.token, rest, &self.lexicon.vocabulary)
                }
            };
            best = self.texts.first(best, text);
        }
        Ok(add(1, self.texts.fewest(best)))
    }

    /// An upper bound of the distance after whatever token, the end id included; `NEVER` if none is known.
    pub fn farthest(&mut self, parts: &Frozen, meter: &mut Meter) -> Outcome<u32> {
        let Some(bounds) = self.farthest.clone() else {
            return Ok(NEVER);
        };
        let mut farthest = 0;
        let threads = parts.threads.iter();
        let threads = threads.map(|thread| (Some(thread.state), thread.next, &thread.frame));
        let tokens = parts.tokens.iter().map(|thread| (None, thread.next, &thread.frame));
        for (state, next, frame) in threads.chain(tokens) {
            let below = self.below(frame, meter)?;
            let mut inside = bounds[next as usize];
            if let Some(state) = state {
                let own = self.nearest.farthest(state, &self.lexicon, meter)?;
                inside = inside.max(add(own, self.tokens_from(next)));
            }
            let after = add(inside, self.texts.fewest(below.shortest.text));
            farthest = farthest.max(after).max(below.farthest);
        }
        Ok(add(1, farthest))
    }

    fn length(&mut self, own: u32, next: u32, frame: &Frame, meter: &mut Meter) -> Outcome<u32> {
        let below = self.below(frame, meter)?.shortest.length;
        let length = add(add(own, self.shortest[next as usize].length), below);
        Ok(if length > LONGEST { NEVER } else { length })
    }

    fn token_length(&self, token: u32) -> u32 {
        match (token as usize) < self.lexicon.vocabulary.len() && self.texts.is_usable(token) {
            true => 1,
            false => NEVER,
        }
    }

    /// How many tokens spell what is missing at a position to the end of its rule.
    fn tokens_from(&self, position: u32) -> u32 {
        self.texts.fewest(self.shortest[position as usize].text)
    }

    // --- frames

    /// What is missing after a frame's rule; those that it goes back to are worked out first, on a stack of our own.
    fn below(&mut self, frame: &Frame, meter: &mut Meter) -> Outcome<Below> {
        if let Some(known) = self.known_below(&frame.group, frame.member) {
            return Ok(known);
        }
        let mut stack: Vec<Arc<Group>> = vec![frame.group.clone()];
        while let Some(group) = stack.last().cloned() {
            let before = stack.len();
            for edge in (0..group.len()).flat_map(|member| group.edges(member)) {
                meter.work(1)?;
                if let Some(other) = edge.group.as_ref().filter(|other| self.known_below(other, 0).is_none()) {
                    stack.push(other.clone());
                }
            }
            if stack.len() == before {
                self.find_below(&group, meter)?;
                stack.pop();
            }
        }
        Ok(self.known_below(&frame.group, frame.member).unwrap_or(Below {
            shortest: NONE,
            farthest: NEVER,
        }))
    }

    fn known_below(&self, group: &Group, member: u32) -> Option<Below> {
        if group.id == ROOT {
            let text = NIL;
            let shortest = Sized { length: 0, text };
            return Some(Below { shortest, farthest: 0 });
        }
        self.frames.get(&(group.id, member)).copied()
    }

    /// Work out the frames of a group: until nothing changes, because they may refer to each other.
    fn find_below(&mut self, group: &Arc<Group>, meter: &mut Meter) -> Outcome<()> {
        let mut found = vec![NONE; group.len() as usize];
        loop {
            let before = found.clone();
            for member in 0..group.len() {
                let mut best = found[member as usize];
                for edge in group.edges(member) {
                    meter.work(1)?;
                    best = self.nearer(best, edge, &found, meter)?;
                }
                found[member as usize] = best;
            }
            if found == before {
                break;
            }
        }
        let farthest = self.farthest_below(group, &found);
        for (member, shortest) in (0..).zip(found) {
            self.frames.insert((group.id, member), Below { shortest, farthest });
        }
        Ok(())
    }

    /// The better one of what is known and the way along an edge.
    fn nearer(&mut self, best: Sized, edge: &Edge, found: &[Sized], meter: &mut Meter) -> Outcome<Sized> {
        let target = self.target(edge, found);
        let length = add(self.shortest[edge.position as usize].length, target.length);
        if length > LONGEST || length > best.length {
            return Ok(best);
        }
        let text = match &edge.group {
            Some(group) => {
                let (group, member) = (group.clone(), edge.member);
                self.join(edge.position, &Frame { group, member }, meter)?
            }
            None => self.before(self.shortest[edge.position as usize].text, target.text, meter)?,
        };
        match length < best.length {
            true => Ok(Sized { length, text }),
            false => Ok(Sized {
                length,
                text: self.texts.first(best.text, text),
            }),
        }
    }

    fn target(&self, edge: &Edge, found: &[Sized]) -> Sized {
        match &edge.group {
            Some(group) => self
                .known_below(group, edge.member)
                .map_or(NONE, |below| below.shortest),
            None => found[edge.member as usize],
        }
    }

    fn farthest_below(&self, group: &Group, found: &[Sized]) -> u32 {
        let Some(bounds) = &self.farthest else {
            return NEVER;
        };
        let mut farthest = 0;
        for edge in (0..group.len()).flat_map(|member| group.edges(member)) {
            let after = add(
                bounds[edge.position as usize],
                self.texts.fewest(self.target(edge, found).text),
            );
            let outer = edge
                .group
                .as_ref()
                .and_then(|group| self.known_below(group, edge.member));
            farthest = farthest.max(after).max(outer.map_or(0, |below| below.farthest));
        }
        farthest
    }

    // --- texts

    /// What is missing from a position in a frame to the end of everything.
    fn join(&mut self, position: u32, frame: &Frame, meter: &mut Meter) -> Outcome<Text> {
        let rest = self.below(frame, meter)?.shortest.text;
        let (group, member) = frame.key();
        let mut symbols = Vec::new();
        let mut text = self.shortest[position as usize].text;
        let mut joined = rest;
        while let Some((symbol, after)) = self.texts.split(text) {
            if let Some(known) = self.joined.get(&(text, group, member)) {
                joined = *known;
                break;
            }
            symbols.push((symbol, text));
            text = after;
        }
        meter.work(symbols.len() + 1)?;
        for (index, (symbol, text)) in symbols.into_iter().enumerate().rev() {
            joined = self.texts.cons(symbol, joined, &self.lexicon.vocabulary);
            if index == 0 || text % KEPT_EVERY == 0 {
                self.joined.insert((text, group, member), joined);
            }
        }
        Ok(joined)
    }

    /// A text in front of another one.
    fn before(&mut self, text: Text, rest: Text, meter: &mut Meter) -> Outcome<Text> {
        if text == IMPOSSIBLE || rest == IMPOSSIBLE {
            return Ok(IMPOSSIBLE);
        }
        let mut symbols = Vec::new();
        let mut left = text;
        while let Some((symbol, after)) = self.texts.split(left) {
            symbols.push(symbol);
            left = after;
        }
        meter.work(symbols.len() + 1)?;
        let vocabulary = &self.lexicon.vocabulary;
        let texts = &mut self.texts;
        Ok(symbols
            .into_iter()
            .rev()
            .fold(rest, |rest, symbol| texts.cons(symbol, rest, vocabulary)))
    }

    fn after_bytes(&mut self, bytes: &[u8], rest: Text, meter: &mut Meter) -> Outcome<Text> {
        meter.work(bytes.len() + 1)?;
        let vocabulary = &self.lexicon.vocabulary;
        let texts = &mut self.texts;
        let symbols = bytes.iter().rev().map(|byte| u32::from(*byte));
        Ok(symbols.fold(rest, |rest, symbol| texts.cons(symbol, rest, vocabulary)))
    }

    // --- positions

    /// How long each position's shortest text is (Knuth 1977); the positions, those with shorter ones first.
    fn find_lengths(&mut self, network: &Network, meter: &mut Meter) -> Outcome<Vec<u32>> {
        let count = network.len();
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut callers: Vec<Vec<u32>> = vec![Vec::new(); network.rules.len()];
        let mut rules_at: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut own = vec![0; count];
        for index in 0..count as u32 {
            meter.work(1)?;
            match network.position(index) {
                // What is missing of members is not counted: what needs some counts as what cannot be completed.
                Position::End | Position::Choose(_) | Position::Came { .. } => {}
                Position::Terminal { term, next, .. } => {
                    own[index as usize] = self.nearest.distance(*term, &self.lexicon, meter)?;
                    before[*next as usize].push(index);
                }
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
        let mut queue = BinaryHeap::from([Reverse((0, END))]);
        while let Some(Reverse((length, index))) = queue.pop() {
            if self.shortest[index as usize].length != NEVER {
                continue;
            }
            self.shortest[index as usize].length = length;
            order.push(index);
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
            Position::End => Ok(NIL),
            Position::Choose(_) | Position::Came { .. } => Ok(IMPOSSIBLE),
            Position::Terminal { term, next, .. } => {
                let rest = text_of(*next, self);
                let bytes = self.nearest.bytes(*term, &self.lexicon, meter)?;
                match rest {
                    IMPOSSIBLE => Ok(IMPOSSIBLE),
                    _ => self.after_bytes(&bytes, rest, meter),
                }
            }
            Position::Token { token, next } => match text_of(*next, self) {
                IMPOSSIBLE => Ok(IMPOSSIBLE),
                rest => Ok(self.texts.cons(FIRST_TOKEN + token, rest, &self.lexicon.vocabulary)),
            },
            Position::Call { rule, next } => {
                let start = network.rules[*rule as usize].start;
                self.before(text_of(start, self), text_of(*next, self), meter)
            }
            Position::Split(places) => {
                meter.work(places.len())?;
                let length = self.shortest[index as usize].length;
                let mut best = text_of(index, self);
                for place in places.iter().map(|place| self.shortest[*place as usize]) {
                    if place.length == length {
                        best = self.texts.first(best, place.text);
                    }
                }
                Ok(best)
            }
        }
    }

    /// For each position an upper bound of the tokens that are missing to the end of its rule after whatever token from
    /// there: byte for byte of the longest token, because every byte may lead deeper.
    fn find_farthest(&mut self, network: &Network, order: &[u32], meter: &mut Meter) -> Outcome<Option<Arc<[u32]>>> {
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
                    has_changed |= bound > bounds[index as usize];
                    bounds[index as usize] = bound;
                }
                if passes > MOST_PASSES {
                    return Ok(None);
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
        match network.position(index) {
            Position::End | Position::Token { .. } | Position::Choose(_) | Position::Came { .. } => 0,
            Position::Terminal { nullable, next, .. } => beyond(*next, *nullable),
            Position::Call { rule, next } => {
                let rule = &network.rules[*rule as usize];
                add(bounds[rule.start as usize], self.tokens_from(*next)).max(beyond(*next, rule.nullable))
            }
            Position::Split(places) => places.iter().map(|place| bounds[*place as usize]).max().unwrap_or(0),
        }
    }
}
