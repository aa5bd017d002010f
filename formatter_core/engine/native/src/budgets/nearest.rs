//! Finds the shortest way from a state of a terminal to its end, and bounds the length of that way after any token.

use crate::base::hash::{FastMap, FastSet};
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::{MAX_FARTHEST_DEPTH, MAX_FARTHEST_STATES};
use crate::regular::term::{Kind, Term};
use crate::tokens::lexicon::Lexicon;
use crate::tokens::spelling::{add, Texts, NEVER};

/// The distance to the end, and the first step of the shortest way that is first in byte order.
#[derive(Clone, Copy)]
struct Way {
    distance: u32,
    byte: u8,
    target: Term,
}

/// The ways through the terminals of one lexicon, along usable bytes.
pub struct Nearest {
    /// For each byte, the first usable byte that is not lower.
    usable: Box<[Option<u8>; 256]>,
    takes_every_byte: bool,
    ways: FastMap<Term, Way>,
    farthest: FastMap<Term, u32>,
    /// Distances of alternations by their form, which several states may share.
    branches: FastMap<Term, u32>,
}

impl Nearest {
    /// Make a table for one lexicon. The usable bytes are those that are tokens by themselves (`alone`), or those that
    /// occur in some token.
    pub fn new(lexicon: &Lexicon, texts: &Texts, alone: bool) -> Self {
        let trie = &lexicon.vocabulary.trie;
        let mut usable = Box::new([None; 256]);
        if alone {
            for byte in 0..=255 {
                let ends_token = texts.root(byte).is_some_and(|node| texts.ends_token(trie, node));
                usable[usize::from(byte)] = ends_token.then_some(byte);
            }
        } else {
            for node in trie.nodes() {
                usable[usize::from(node.byte)] = Some(node.byte);
            }
        }
        for byte in (0..255).rev() {
            usable[byte] = usable[byte].or(usable[byte + 1]);
        }
        Nearest {
            takes_every_byte: (0..=255).all(|byte| usable[usize::from(byte)] == Some(byte)),
            usable,
            ways: FastMap::default(),
            farthest: FastMap::default(),
            branches: FastMap::default(),
        }
    }

    /// Return whether every byte is usable: then the lengths that a term's form shows are exact.
    pub fn takes_every_byte(&self) -> bool {
        self.takes_every_byte
    }

    /// Return whether any byte from `low` to `high` is usable.
    pub fn takes_any(&self, low: u8, high: u8) -> bool {
        self.first_usable(low, high).is_some()
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        let tables = heap::table(&self.ways) + heap::table(&self.farthest) + heap::table(&self.branches);
        std::mem::size_of_val(&*self.usable) + tables
    }

    /// Return the number of cached results.
    pub fn len(&self) -> usize {
        self.ways.len() + self.farthest.len() + self.branches.len()
    }

    /// Return the number of bytes from `state` to an end of its terminal; `NEVER` if there is no way.
    pub fn distance(&mut self, state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<u32> {
        Ok(self.way(state, lexicon, meter)?.distance)
    }

    /// Return the shortest way from `state` to an end, the first in byte order; None if there is no way.
    pub fn bytes(&mut self, mut state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        loop {
            let way = self.way(state, lexicon, meter)?;
            match way.distance {
                NEVER => return Ok(None),
                0 => return Ok(Some(bytes)),
                _ => bytes.push(way.byte),
            }
            state = way.target;
        }
    }

    fn way(&mut self, state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<Way> {
        if let Some(way) = self.ways.get(&state) {
            return Ok(*way);
        }
        match self.distance_by_form(state, lexicon, meter)? {
            Some(distance) => self.follow(state, distance, lexicon, meter),
            None => self.search(state, lexicon, meter),
        }
    }

    /// Return the distance to the end if the form of the state's term shows it.
    fn distance_by_form(&self, state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<Option<u32>> {
        if !self.takes_every_byte {
            return Ok(None);
        }
        lexicon.derivatives()?.plain_shortest_match(state, meter)
    }

    /// Follow states whose forms show their distance to the end. In a tree of many texts, this visits only the shortest
    /// one.
    fn follow(&mut self, state: Term, distance: u32, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<Way> {
        let mut passed: Vec<(Term, Way)> = Vec::new();
        let (mut current, mut left) = (state, distance);
        while left > 0 && !self.ways.contains_key(&current) {
            meter.work(1)?;
            let step = lexicon.derivatives()?.step_to_shortest(current, left, meter)?;
            let Some((byte, target)) = step else {
                return self.search(state, lexicon, meter);
            };
            let way = Way {
                distance: left,
                byte,
                target,
            };
            passed.push((current, way));
            (current, left) = (way.target, left - 1);
        }
        if left == 0 {
            self.ways.insert(current, Way::end());
        }
        self.ways.extend(passed);
        Ok(self.ways.get(&state).copied().unwrap_or(Way::none()))
    }

    /// Search for the nearest end layer by layer; then go back and store every state on a shortest way.
    #[cold]
    fn search(&mut self, state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<Way> {
        let mut layers: Vec<Vec<Term>> = Vec::new();
        let mut seen = FastSet::from_iter([state]);
        let mut layer = vec![state];
        let mut best = NEVER;
        while !layer.is_empty() && (layers.len() as u32) < best {
            meter.work(layer.len())?;
            let depth = layers.len() as u32;
            let mut next = Vec::new();
            for &state in &layer {
                if let Some(known) = self.ways.get(&state) {
                    best = best.min(add(depth, known.distance));
                } else if lexicon.derivatives()?.terms.nullable(state) {
                    best = best.min(depth);
                } else {
                    for (low, high, step) in lexicon.row(state, meter)?.live() {
                        if self.takes_any(low, high) && seen.insert(step.state) {
                            next.push(step.state);
                        }
                    }
                }
            }
            layers.push(std::mem::replace(&mut layer, next));
        }
        if best == NEVER {
            // All reachable states were seen, and none of them is an end.
            for dead in seen {
                self.ways.entry(dead).or_insert(Way::none());
            }
            return Ok(Way::none());
        }
        if layers.len() as u32 == best {
            layers.push(layer);
        }
        for (depth, layer) in layers.iter().enumerate().rev() {
            let wanted = best.saturating_sub(depth as u32);
            meter.work(layer.len())?;
            for &state in layer {
                if self.ways.contains_key(&state) {
                    continue;
                }
                if lexicon.derivatives()?.terms.nullable(state) {
                    self.ways.insert(state, Way::end());
                } else if let Some(way) = self.step_towards(state, wanted, lexicon, meter)? {
                    self.ways.insert(state, way);
                }
            }
        }
        Ok(self.ways.get(&state).copied().unwrap_or(Way::none()))
    }

    /// Return the first byte, in byte order, that begins a way of `wanted` bytes.
    fn step_towards(&self, state: Term, wanted: u32, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<Option<Way>> {
        let Some(rest) = wanted.checked_sub(1) else {
            return Ok(None);
        };
        for (low, high, step) in lexicon.row(state, meter)?.live() {
            let known = self.ways.get(&step.state).map(|way| way.distance);
            if let (Some(byte), true) = (self.first_usable(low, high), known == Some(rest)) {
                return Ok(Some(Way {
                    distance: wanted,
                    byte,
                    target: step.state,
                }));
            }
        }
        Ok(None)
    }

    fn first_usable(&self, low: u8, high: u8) -> Option<u8> {
        self.usable[usize::from(low)].filter(|byte| *byte <= high)
    }

    /// Return an upper bound of the distances from `state` and from every state that it leads to, or `NEVER` if none is
    /// known.
    pub fn farthest(&mut self, state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<u32> {
        if let Some(known) = self.farthest.get(&state) {
            return Ok(*known);
        }
        let own = self.distance(state, lexicon, meter)?;
        let found = match lexicon.uncertain(state)? {
            true => self.farthest_seen(state, lexicon, meter)?,
            false => self.farthest_by_form(state, MAX_FARTHEST_DEPTH, lexicon, meter)?,
        };
        self.farthest.insert(state, found.max(own));
        Ok(found.max(own))
    }

    fn farthest_seen(&mut self, state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<u32> {
        let mut seen = FastSet::from_iter([state]);
        let mut waiting = vec![state];
        let mut farthest = 0;
        while let Some(state) = waiting.pop() {
            farthest = farthest.max(self.distance(state, lexicon, meter)?);
            for (_, _, step) in lexicon.row(state, meter)?.live() {
                if seen.insert(step.state) {
                    waiting.push(step.state);
                }
            }
            if seen.len() > MAX_FARTHEST_STATES {
                return Ok(NEVER);
            }
        }
        Ok(farthest)
    }

    /// Return an upper bound of the distances from every state of a term without intersections and complements.
    fn farthest_by_form(&mut self, term: Term, depth: u32, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<u32> {
        meter.work(1)?;
        if depth == 0 {
            return Ok(NEVER);
        }
        let kind = lexicon.derivatives()?.terms.kind(term).clone();
        Ok(match kind {
            Kind::Nothing | Kind::Empty | Kind::Set(_) => 0,
            // At most the rest of a character is missing.
            Kind::Substring { .. } => 3,
            Kind::First(item) | Kind::Shortest(item) => self.farthest_by_form(item, depth - 1, lexicon, meter)?,
            Kind::Repeat { item, minimum, .. } => {
                let rounds = minimum.saturating_sub(1);
                let round = shortest(item, lexicon, meter)?;
                add(
                    self.farthest_by_form(item, depth - 1, lexicon, meter)?,
                    rounds.saturating_mul(round).min(NEVER),
                )
            }
            Kind::Alternation(items) => {
                if let Some(known) = self.branches.get(&term) {
                    return Ok(*known);
                }
                let mut farthest = 0;
                for item in items.iter() {
                    farthest = farthest.max(self.farthest_by_form(*item, depth - 1, lexicon, meter)?);
                }
                if farthest < NEVER {
                    self.branches.insert(term, farthest);
                }
                farthest
            }
            Kind::Concatenation(first, mut rest) => {
                let mut heads = vec![first];
                while let Kind::Concatenation(next, after) = *lexicon.derivatives()?.terms.kind(rest) {
                    meter.work(1)?;
                    heads.push(next);
                    rest = after;
                }
                let mut farthest = self.farthest_by_form(rest, depth - 1, lexicon, meter)?;
                let mut beyond = shortest(rest, lexicon, meter)?;
                for head in heads.into_iter().rev() {
                    farthest = farthest.max(add(self.farthest_by_form(head, depth - 1, lexicon, meter)?, beyond));
                    beyond = add(beyond, shortest(head, lexicon, meter)?);
                }
                farthest
            }
            Kind::Multiples(state) => state.farthest(),
            Kind::Intersection(_) | Kind::Complement(_) => NEVER,
        })
    }
}

impl Way {
    fn end() -> Self {
        Way {
            distance: 0,
            byte: 0,
            target: 0,
        }
    }

    fn none() -> Self {
        Way {
            distance: NEVER,
            ..Way::end()
        }
    }
}

fn shortest(term: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<u32> {
    Ok(lexicon.derivatives()?.shortest_match(term, meter)?.min(NEVER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Usage;
    use crate::tokens::trie::tests::vocabulary;

    #[test]
    fn example_shortest_way_through_a_terminal() {
        let usage = Usage::default();
        let mut meter = Meter::new(10_000, &usage, 1_000);
        let vocabulary = vocabulary(&["a", "b"]);
        let lexicon = Lexicon::new(vocabulary.clone());
        let mut nearest = Nearest::new(&lexicon, &Texts::new(&vocabulary, &[]), true);
        let term = {
            let terms = &mut lexicon.derivatives().unwrap().terms;
            let (long, short) = (terms.literal(b"aab"), terms.literal(b"ba"));
            terms.alternation(vec![long, short])
        };
        assert_eq!(nearest.bytes(term, &lexicon, &mut meter), Ok(Some(b"ba".to_vec())));
        assert_eq!(nearest.distance(term, &lexicon, &mut meter), Ok(2));
    }
}
