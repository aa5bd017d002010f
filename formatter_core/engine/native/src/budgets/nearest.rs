//! The shortest way from a state of a terminal to its end, and how long such a way is after whatever token.

use crate::base::hash::{FastMap, FastSet};
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::regular::term::{Kind, Term};
use crate::tokens::lexicon::Lexicon;
use crate::tokens::spelling::{add, Texts, NEVER};

/// How far the end is, and the first step of the way there that is the first in byte order.
#[derive(Clone, Copy)]
struct Way {
    distance: u32,
    byte: u8,
    target: Term,
}

/// Terms whose form does not say how far their states are from an end are walked if they have at most this many states.
const MOST_STATES: usize = 256;
/// How deep forms are followed.
const DEEPEST: u32 = 64;

/// The ways through the terminals of one lexicon, along bytes that are tokens.
pub struct Nearest {
    /// For each byte the first usable one from there on.
    usable: Box<[Option<u8>; 256]>,
    takes_every_byte: bool,
    ways: FastMap<Term, Way>,
    farthest: FastMap<Term, u32>,
    /// Distances of alternatives by their form, which several states may share.
    branches: FastMap<Term, u32>,
}

impl Nearest {
    /// Along bytes that are tokens by themselves, or that occur in some token.
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

    /// Whether every byte can be used: then what a term's form says of lengths is exact.
    pub fn takes_every_byte(&self) -> bool {
        self.takes_every_byte
    }

    /// Whether some byte from the first up to the last one can be used.
    pub fn takes_any(&self, low: u8, high: u8) -> bool {
        self.first_usable(low, high).is_some()
    }

    /// See `heap`.
    pub fn heap(&self) -> usize {
        let tables = heap::table(&self.ways) + heap::table(&self.farthest) + heap::table(&self.branches);
        std::mem::size_of_val(&*self.usable) + tables
    }

    /// How many things are kept.
    pub fn len(&self) -> usize {
        self.ways.len() + self.farthest.len() + self.branches.len()
    }

    /// How many bytes lead from `state` to an end of its terminal; `NEVER` if none do.
    pub fn distance(&mut self, state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<u32> {
        Ok(self.way(state, lexicon, meter)?.distance)
    }

    /// The shortest way from `state` to an end, the first in byte order; none if there is no way.
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

    /// Read the distance to the end off the form of a state's term; None where the form does not tell.
    fn distance_by_form(&self, state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<Option<u32>> {
        if !self.takes_every_byte {
            return Ok(None);
        }
        lexicon.derivatives()?.plain_shortest_match(state, meter)
    }

    /// Go to the end by states whose forms say how far it is: of many texts none is walked but the shortest.
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

    /// Look for the nearest end layer by layer, then go back and note every state on some shortest way.
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
            // All that can be reached was seen, and none of it ends.
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

    /// The first byte that leads on a way of `wanted` bytes.
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

    /// An upper bound of the distance from `state` and from every state that it leads to, or `NEVER` where none is known.
    pub fn farthest(&mut self, state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<u32> {
        if let Some(known) = self.farthest.get(&state) {
            return Ok(*known);
        }
        let own = self.distance(state, lexicon, meter)?;
        let found = match lexicon.uncertain(state)? {
            true => self.farthest_seen(state, lexicon, meter)?,
            false => self.farthest_by_form(state, DEEPEST, lexicon, meter)?,
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
            if seen.len() > MOST_STATES {
                return Ok(NEVER);
            }
        }
        Ok(farthest)
    }

    /// An upper bound of the distance from every state that a term without intersections and complements leads to.
    fn farthest_by_form(&mut self, term: Term, depth: u32, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<u32> {
        meter.work(1)?;
        if depth == 0 {
            return Ok(NEVER);
        }
        let kind = lexicon.derivatives()?.terms.kind(term).clone();
        Ok(match kind {
            Kind::Nothing | Kind::Empty | Kind::Set(_) => 0,
            // The rest of a character.
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
