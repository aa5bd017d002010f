//! Decides exactly whether a term matches anything, computes the distance to a match, and removes large counts from
//! terms.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Derivatives;
use crate::base::hash::{Blocks, FastMap, FastSet};
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::{
    MAX_DISTANCE_DEPTH, MAX_LIFE_DEPTH, MAX_SPLIT_INTERSECTIONS, MAX_TERMS_MADE_EARLY, MAX_UNCOUNTED_DEPTH,
    MAX_UNCOUNTED_WIDTH,
};
use crate::regular::term::{Kind, Term, NOTHING, UNBOUNDED};

/// Smaller counts are kept: removing them does not pay.
const COUNTS_REMOVED_FROM: u32 = 8;
/// A search that has met at most this many terms does not check whether a term lies within another.
const TERMS_BEFORE_CONTAINMENT: usize = 32;
/// A search that has met more terms than this also splits intersections of more than two terms into alternatives.
const TERMS_BEFORE_SPLITTING: usize = 128;
/// Extra steps that a search is charged for each term whose moves have to be computed: it may meet very many terms.
const MOVES_COST: usize = 16;
/// The lower bound that replaces any large one: no token is long enough to reach it.
const UNREACHED: u32 = 1 << 30;

/// The bound of a term that matches nothing.
pub(super) const NEVER: u32 = u32::MAX;

/// The question for a search: whether there is a match; in addition, the length of a way to one; or an upper bound of
/// that length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Life,
    Way,
    Bound,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Life {
    #[default]
    Unknown,
    Live,
    Dead,
}

/// Lengths by term. Each is stored plus one; 0 means unknown.
#[derive(Default)]
pub(super) struct Lengths(Blocks<u32>);

impl Lengths {
    /// Return the bytes on the heap, see `heap`.
    pub(super) fn heap(&self) -> usize {
        self.0.heap()
    }

    fn get(&self, term: Term) -> Option<u32> {
        self.0.get(term as usize)?.checked_sub(1)
    }

    /// Store a length; `NEVER` is stored as unknown.
    fn insert(&mut self, term: Term, length: u32) {
        self.0.set(term as usize, length.wrapping_add(1));
    }
}

impl Derivatives {
    /// Return whether a term matches any string.
    #[inline]
    pub fn live(&mut self, term: Term, meter: &mut Meter) -> Outcome<bool> {
        match self.known_life(term) {
            Some(known) => meter.work(1).map(|()| known),
            None => self.live_to(term, MAX_LIFE_DEPTH, meter),
        }
    }

    fn live_to(&mut self, mut term: Term, depth: u32, meter: &mut Meter) -> Outcome<bool> {
        loop {
            meter.work(1)?;
            if let Some(known) = self.known_life(term) {
                return Ok(known);
            }
            if self.terms.nullable(term) {
                return Ok(true);
            }
            match *self.terms.kind(term) {
                _ if depth == 0 => return self.search_life(term, meter),
                Kind::Concatenation(first, second) => {
                    if !self.live_to(first, depth - 1, meter)? {
                        return Ok(false);
                    }
                    term = second;
                }
                Kind::Repeat { item, .. } => term = item,
                Kind::Alternation(ref items) if items.iter().any(|item| self.known_life(*item) == Some(true)) => {
                    return Ok(true)
                }
                Kind::Alternation(ref items) => {
                    let items = items.clone();
                    let live = self.any_lives(&items, depth, meter)?;
                    self.set_life(term, if live { Life::Live } else { Life::Dead });
                    return Ok(live);
                }
                Kind::Intersection(ref items) => {
                    let items = items.clone();
                    if items.len() > 2 && self.contradicts(&items, depth, meter)? {
                        self.set_life(term, Life::Dead);
                        return Ok(false);
                    }
                    return self.search_life(term, meter);
                }
                _ => return self.search_life(term, meter),
            }
        }
    }

    fn any_lives(&mut self, items: &[Term], depth: u32, meter: &mut Meter) -> Outcome<bool> {
        for &item in items {
            if self.live_to(item, depth - 1, meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Return whether an item and a complement among `items` have no string in common. This is much faster than finding
    /// out whether all items have one in common.
    fn contradicts(&mut self, items: &[Term], depth: u32, meter: &mut Meter) -> Outcome<bool> {
        let is_complement = |item: &Term| matches!(self.terms.kind(*item), Kind::Complement(_));
        let (complements, others): (Vec<Term>, Vec<Term>) = items.iter().partition(|item| is_complement(item));
        for &item in &others {
            for &complement in &complements {
                meter.work(1)?;
                let both = self.terms.intersection(vec![item, complement]);
                if !self.live_to(both, depth - 1, meter)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Return an upper bound of the number of bytes that lead from a live term to a match. The bound is mostly close,
    /// and faster to compute than `way_to_match`.
    pub fn bound_to_match(&mut self, term: Term, meter: &mut Meter) -> Outcome<u32> {
        let (mut before, mut rest) = (0u32, term);
        loop {
            if let Some(known) = self.known_way(rest, meter)?.or(self.bounds.get(rest)) {
                return Ok(before.saturating_add(known));
            }
            let Kind::Concatenation(first, second) = *self.terms.kind(rest) else {
                break;
            };
            meter.work(1)?;
            before = before.saturating_add(self.bound_to_match(first, meter)?);
            rest = second;
        }
        self.search(rest, Asked::Bound, meter)?;
        let way = self.known_way(rest, meter)?;
        Ok(before.saturating_add(way.or(self.bounds.get(rest)).unwrap_or(NEVER)))
    }

    /// Search for a match over derivatives.
    fn search_life(&mut self, term: Term, meter: &mut Meter) -> Outcome<bool> {
        // While no count can be used up, the result for the term without counts is also the result for the term.
        let (uncounted, bytes) = self.uncounted(term, meter)?;
        if uncounted != term && self.live(uncounted, meter)? && self.bound_to_match(uncounted, meter)? < bytes {
            self.set_life(term, Life::Live);
            if let Some(way) = self.known_way(uncounted, meter)? {
                self.ways.insert(term, way);
            }
            return Ok(true);
        }
        // Over letters, a bound needs the way sooner or later.
        let asked = if self.characters.in_letters {
            Asked::Way
        } else {
            Asked::Life
        };
        self.search(term, asked, meter)
    }

    /// Return the number of bytes on some way from a live term to a match; it need not be the shortest way.
    pub fn way_to_match(&mut self, term: Term, meter: &mut Meter) -> Outcome<u32> {
        if self.known_way(term, meter)?.is_none() {
            self.search(term, Asked::Way, meter)?;
        }
        Ok(self.known_way(term, meter)?.unwrap_or(NEVER))
    }

    fn known_way(&mut self, term: Term, meter: &mut Meter) -> Outcome<Option<u32>> {
        if self.terms.nullable(term) {
            return Ok(Some(0));
        }
        if !self.terms.uncertain(term) {
            return self.shortest_match(term, meter).map(Some);
        }
        Ok(self.ways.get(term))
    }

    /// Search for a match; return whether there is one. The way is stored if it was asked for, and otherwise if it
    /// happens to be known.
    fn search(&mut self, term: Term, asked: Asked, meter: &mut Meter) -> Outcome<bool> {
        // For each term met: the term from which it was met, and the number of bytes between them.
        let mut came_from: FastMap<Term, (Term, u32)> = FastMap::from_iter([(term, (term, 0))]);
        // Terms that seem nearest to a match come first; among equals, those that were found first.
        let mut queue = BinaryHeap::new();
        let mut met = vec![term];
        // `narrower`: terms that lie within others that were met, and need no search. `counts`: the counted items of
        // the terms met.
        let mut narrower = Vec::new();
        let mut counts: FastMap<Vec<Term>, Vec<Term>> = FastMap::default();
        let made_early = if self.terms.tangled(term) {
            MAX_TERMS_MADE_EARLY
        } else {
            0
        };
        // The term itself is the first one met.
        let mut is_asked = made_early > 0;
        loop {
            while let Some(next) = met.pop() {
                let way = self.known_way(next, meter)?;
                if way.is_some() || asked == Asked::Life && self.known_life(next) == Some(true) {
                    self.keep_way(next, &came_from, way);
                    return Ok(true);
                }
                // There are fewer characters than bytes, but meeting a few terms is faster than making them over
                // characters.
                let most = if came_from.len() > TERMS_BEFORE_CONTAINMENT {
                    usize::MAX
                } else {
                    made_early
                };
                if most > 0 && asked != Asked::Way {
                    if !std::mem::replace(&mut is_asked, true) {
                        if let Some(bound) = self.bound_in_characters(term, asked, most, meter)? {
                            return Ok(self.keep_bound(term, bound, asked));
                        }
                    }
                    match self.bound_in_characters(next, asked, most, meter)? {
                        None => {}
                        Some(NEVER) => {
                            self.set_life(next, Life::Dead);
                            continue;
                        }
                        Some(bound) => {
                            self.keep_way(next, &came_from, None);
                            let before = bytes_before(next, &came_from);
                            return Ok(self.keep_bound(term, before.saturating_add(bound), asked));
                        }
                    }
                }
                let parts = self.alternatives(next, came_from.len() > TERMS_BEFORE_SPLITTING, meter)?;
                if parts.is_empty() {
                    if came_from.len() > TERMS_BEFORE_CONTAINMENT && self.is_within_one(next, &mut counts, meter)? {
                        narrower.push(next);
                        continue;
                    }
                    let distance = self.distance(next, MAX_DISTANCE_DEPTH, meter)?;
                    queue.push((Reverse((distance, came_from.len())), next));
                }
                for part in parts {
                    self.meet(part, (next, 0), &mut came_from, &mut met);
                }
            }
            let Some((_, current)) = queue.pop() else {
                break;
            };
            if !self.has_moves(current) {
                meter.work(MOVES_COST)?;
            }
            let moves = self.moves(current, meter)?;
            meter.work(moves.len() + 1)?;
            for step in self.steps(moves) {
                self.meet(step.target, (current, 1), &mut came_from, &mut met);
            }
        }
        for dead in came_from.into_keys().chain(narrower) {
            self.set_life(dead, Life::Dead);
        }
        Ok(false)
    }

    /// Store whether a term is live, and its bound if that was asked for; return whether it is live.
    fn keep_bound(&mut self, term: Term, bound: u32, asked: Asked) -> bool {
        let life = if bound == NEVER { Life::Dead } else { Life::Live };
        self.set_life(term, life);
        if asked == Asked::Bound {
            self.bounds.insert(term, bound);
        }
        life == Life::Live
    }

    /// Record from which term a term was met, unless it is known to be dead or was met before.
    #[inline]
    fn meet(&self, term: Term, from: (Term, u32), came_from: &mut FastMap<Term, (Term, u32)>, met: &mut Vec<Term>) {
        if self.known_life(term) != Some(false) {
            came_from.entry(term).or_insert_with(|| {
                met.push(term);
                from
            });
        }
    }

    /// Return whether a term lies within a term met before that differs only in one count; if not, add the term.
    /// `counts` maps the other items of an intersection to its counted items.
    fn is_within_one(
        &self,
        term: Term,
        counts: &mut FastMap<Vec<Term>, Vec<Term>>,
        meter: &mut Meter,
    ) -> Outcome<bool> {
        let Kind::Intersection(items) = self.terms.kind(term) else {
            return Ok(false);
        };
        let mut counted = items.iter().copied().filter(|item| self.terms.counted(*item));
        let (Some(counted), None) = (counted.next(), counted.next()) else {
            return Ok(false);
        };
        let mut others = items.to_vec();
        others.retain(|item| *item != counted);
        let same = counts.entry(others).or_default();
        meter.work(same.len() + 1)?;
        if same.iter().any(|other| self.terms.is_within(counted, *other)) {
            return Ok(true);
        }
        same.push(counted);
        Ok(false)
    }

    /// Return terms whose union is this term: the alternatives of an alternation, or their intersections with one other
    /// item (with several, if `with_several` is set). Return an empty list for other terms.
    ///
    /// An automaton has far fewer single paths than sets of paths that can be active at once.
    fn alternatives(&mut self, term: Term, with_several: bool, meter: &mut Meter) -> Outcome<Vec<Term>> {
        let items = match self.terms.kind(term) {
            Kind::Alternation(items) => return Ok(items.to_vec()),
            Kind::Intersection(items) if items.len() == 2 || with_several => items.clone(),
            _ => return Ok(Vec::new()),
        };
        for index in 0..items.len() {
            let ways = match self.terms.kind(items[index]) {
                Kind::Alternation(ways) if ways.len() <= MAX_SPLIT_INTERSECTIONS => ways.clone(),
                _ => continue,
            };
            meter.work(ways.len())?;
            let with = |way: &Term| {
                let mut all = items.to_vec();
                all[index] = *way;
                self.terms.intersection(all)
            };
            return Ok(ways.iter().map(with).collect());
        }
        Ok(Vec::new())
    }

    /// Store that all terms on the way to `last` are live; if `way` is given, `way` bytes lead on from `last`.
    fn keep_way(&mut self, last: Term, came_from: &FastMap<Term, (Term, u32)>, mut way: Option<u32>) {
        let mut step = last;
        loop {
            self.set_life(step, Life::Live);
            if let Some(way) = way {
                self.ways.insert(step, way);
                self.bytes += 16;
            }
            match came_from.get(&step) {
                Some(&(before, bytes)) if before != step => {
                    way = way.map(|way| way.saturating_add(bytes));
                    step = before;
                }
                _ => return,
            }
        }
    }

    /// Estimate the number of bytes to a match; the estimate is never too high. It counts nothing for complements, and
    /// only the longer part of a sequence.
    fn distance(&mut self, term: Term, depth: usize, meter: &mut Meter) -> Outcome<u32> {
        if !self.terms.uncertain(term) {
            return match self.shortest.get(term) {
                Some(known) => Ok(known),
                None => self.shortest_match(term, meter),
            };
        }
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(0);
        };
        if let Some(known) = self.distances[depth].get(term) {
            return Ok(known);
        }
        let (items, all) = match self.terms.kind(term) {
            Kind::Intersection(items) => (items.clone(), true),
            Kind::Alternation(items) => (items.clone(), false),
            Kind::Concatenation(first, second) => ([*first, *second].into(), true),
            _ => return Ok(0),
        };
        meter.work(items.len())?;
        let mut distance = None;
        for &item in items.iter() {
            let one = self.distance(item, depth, meter)?;
            distance = Some(distance.map_or(one, |other: u32| if all { other.max(one) } else { other.min(one) }));
        }
        let found = distance.unwrap_or(0);
        self.distances[depth].insert(term, found);
        self.bytes += 4;
        Ok(found)
    }

    pub(super) fn known_life(&self, term: Term) -> Option<bool> {
        if !self.terms.uncertain(term) {
            return Some(term != NOTHING);
        }
        match self.life.get(term as usize) {
            None | Some(Life::Unknown) => None,
            Some(life) => Some(*life == Life::Live),
        }
    }

    pub(super) fn set_life(&mut self, term: Term, life: Life) {
        self.life.set(term as usize, life);
    }

    /// Return a term without the larger counts of `term`, and the least number of bytes that can use up one of them.
    ///
    /// Only counts near the front are changed, and none in a complement or where matches end early. Upper bounds become
    /// unbounded. Lower bounds become unreachable, except where an intersection lets them decide about emptiness.
    pub fn uncounted(&mut self, term: Term, meter: &mut Meter) -> Outcome<(Term, u32)> {
        let lower = !self.terms.uncertain(term);
        self.uncounted_to(term, MAX_UNCOUNTED_DEPTH, lower, meter)
    }

    fn uncounted_to(&mut self, term: Term, depth: u32, lower: bool, meter: &mut Meter) -> Outcome<(Term, u32)> {
        meter.work(1)?;
        if depth == 0 || !self.terms.has_counts(term) {
            return Ok((term, u32::MAX));
        }
        match *self.terms.kind(term) {
            Kind::Repeat { item, minimum, maximum } => {
                return self.uncounted_repeat(term, item, (minimum, maximum), lower, meter);
            }
            Kind::Concatenation(..) => {}
            Kind::Alternation(ref items) | Kind::Intersection(ref items) if items.len() <= MAX_UNCOUNTED_WIDTH => {}
            _ => return Ok((term, u32::MAX)),
        }
        // Cache the result: while a count is being used up, the terms after it and most of those beside it stay the
        // same.
        let (number, is_new) = self.counted.intern((term, 2 * depth + u32::from(lower)));
        let number = number as usize;
        if !is_new {
            return Ok(self.uncounted[number]);
        }
        self.uncounted.push((term, 0));
        let kind = self.terms.kind(term).clone();
        let mut bytes = u32::MAX;
        let mut without = |item: Term| {
            let (changed, least) = self.uncounted_to(item, depth - 1, lower, meter)?;
            bytes = bytes.min(least);
            Ok(changed)
        };
        let uncounted = match kind {
            Kind::Concatenation(first, second) => {
                let (first, second) = (without(first)?, without(second)?);
                self.terms.concatenation(first, second)
            }
            Kind::Alternation(items) | Kind::Intersection(items) => {
                let changed = items.iter().copied().map(without).collect::<Outcome<Vec<Term>>>()?;
                match *self.terms.kind(term) {
                    _ if changed[..] == items[..] => term,
                    Kind::Alternation(_) => self.terms.alternation(changed),
                    _ => self.terms.intersection(changed),
                }
            }
            _ => term,
        };
        self.uncounted[number] = (uncounted, bytes);
        self.bytes += 32;
        Ok((uncounted, bytes))
    }

    fn uncounted_repeat(
        &mut self,
        term: Term,
        item: Term,
        (minimum, maximum): (u32, u32),
        lower: bool,
        meter: &mut Meter,
    ) -> Outcome<(Term, u32)> {
        let large = |count: u32, changed: u32| count != changed && count >= COUNTS_REMOVED_FROM;
        let (upper, lower) = (large(maximum, UNBOUNDED), lower && large(minimum, UNREACHED));
        if !(upper || lower) {
            return Ok((term, u32::MAX));
        }
        let rounds = match (upper, lower) {
            (true, true) => minimum.min(maximum),
            (true, false) => maximum,
            _ => minimum,
        };
        let round = if self.terms.nullable(item) {
            1
        } else {
            self.shortest_match(item, meter)?.max(1)
        };
        let minimum = if lower { UNREACHED } else { minimum };
        let maximum = if upper { UNBOUNDED } else { maximum };
        Ok((self.terms.repeat(item, minimum, maximum), rounds.saturating_mul(round)))
    }

    /// Return the length of the shortest match of a live term, in bytes.
    pub fn shortest_match(&mut self, term: Term, meter: &mut Meter) -> Outcome<u32> {
        if let Some(known) = self.plain_shortest_match(term, meter)? {
            return Ok(known);
        }
        let mut seen: FastSet<Term> = FastSet::default();
        let mut level = vec![term];
        let mut length = 0;
        while !level.iter().any(|item| self.terms.nullable(*item)) {
            let mut next = Vec::new();
            for item in level {
                let moves = self.moves(item, meter)?;
                meter.work(moves.len() + 1)?;
                let targets = self.steps(moves).iter().map(|step| step.target);
                next.extend(targets.filter(|target| seen.insert(*target)));
            }
            level = next;
            length += 1;
            if level.is_empty() {
                return Ok(u32::MAX);
            }
        }
        self.shortest.insert(term, length);
        self.bytes += 16;
        Ok(length)
    }

    /// Return the length of the shortest match if the form of the term shows it; without this, a count of a million
    /// takes a million steps.
    pub fn plain_shortest_match(&mut self, term: Term, meter: &mut Meter) -> Outcome<Option<u32>> {
        self.plain_shortest(term, MAX_LIFE_DEPTH, meter)
    }

    /// Return the first byte that leads to a shortest match of this length, and its target. Return None if the forms of
    /// the targets do not show their lengths.
    pub fn step_to_shortest(&mut self, term: Term, length: u32, meter: &mut Meter) -> Outcome<Option<(u8, Term)>> {
        if let Some(step) = self.terms.first_of_chain(term) {
            return Ok(Some(step));
        }
        let moves = self.moves(term, meter)?;
        for place in 0..moves.len() {
            let step = self.steps(moves)[place];
            match self.plain_shortest_match(step.target, meter)? {
                Some(left) if left == length - 1 => return Ok(Some((step.low, step.target))),
                Some(_) => {}
                None => break,
            }
        }
        Ok(None)
    }

    fn plain_shortest(&mut self, term: Term, depth: u32, meter: &mut Meter) -> Outcome<Option<u32>> {
        let mut length = 0u32;
        let mut rest = term;
        loop {
            meter.work(1)?;
            if let Some(known) = self.shortest.get(rest) {
                length = length.saturating_add(known);
                if rest != term {
                    self.shortest.insert(term, length);
                    self.bytes += 16;
                }
                return Ok(Some(length));
            }
            if depth == 0 || self.terms.uncertain(rest) {
                return Ok(None);
            }
            let last = match *self.terms.kind(rest) {
                _ if self.terms.nullable(rest) => Some(0),
                Kind::Set(_) => Some(1),
                Kind::Multiples(state) => state.missing(),
                Kind::Concatenation(first, second) => {
                    let Some(head) = self.plain_shortest(first, depth - 1, meter)? else {
                        return Ok(None);
                    };
                    length = length.saturating_add(head);
                    rest = second;
                    continue;
                }
                Kind::Repeat { item, minimum, .. } => {
                    let round = self.plain_shortest(item, depth - 1, meter)?;
                    round.map(|round| round.saturating_mul(minimum))
                }
                Kind::Alternation(ref items) => {
                    let items = items.clone();
                    let mut least = Some(u32::MAX);
                    for &item in items.iter() {
                        let one = self.plain_shortest(item, depth - 1, meter)?;
                        least = least.zip(one).map(|(least, one)| least.min(one));
                    }
                    least
                }
                _ => None,
            };
            let Some(last) = last else {
                return Ok(None);
            };
            self.shortest.insert(rest, last);
            self.bytes += 16;
            if rest == term {
                return Ok(Some(last));
            }
            length = length.saturating_add(last);
            self.shortest.insert(term, length);
            self.bytes += 16;
            return Ok(Some(length));
        }
    }
}

/// Return the number of bytes on the way to a term that was met.
fn bytes_before(mut term: Term, came_from: &FastMap<Term, (Term, u32)>) -> u32 {
    let mut bytes = 0u32;
    while let Some(&(before, more)) = came_from.get(&term).filter(|(before, _)| *before != term) {
        bytes = bytes.saturating_add(more);
        term = before;
    }
    bytes
}
