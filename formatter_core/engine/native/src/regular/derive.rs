//! Derivatives of terms (Brzozowski 1964), for all bytes at once.

mod ahead;
mod characters;
mod count;
mod emptiness;
mod table;

use std::mem::size_of;
use std::sync::atomic::{AtomicU32, Ordering};

use self::characters::Characters;
use self::emptiness::{Lengths, Life};
use crate::base::byteset::ByteSet;
use crate::base::hash::{Blocks, FastMap, Interner, List, Lists};
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::{MAX_AFTER_DEPTH, MAX_DISTANCE_DEPTH};
use crate::regular::term::{Kind, Spelling, Term, Terms, EMPTY, NOTHING, UNBOUNDED};

/// A move: the bytes `low..=high` lead to `target`. The moves of a term are sorted and disjoint; bytes without a move
/// are dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub low: u8,
    pub high: u8,
    pub target: Term,
}

/// Number of earlier target lists with which a target list is compared before it is combined.
const TARGET_LISTS_COMPARED: usize = 8;

/// The next id; no terms have the id 0.
static NEXT_ID: AtomicU32 = AtomicU32::new(1);

/// Terms, with cached results about them.
pub struct Derivatives {
    pub terms: Terms,
    moves: Lists<Move>,
    moves_of: Blocks<Option<List>>,
    life: Blocks<Life>,
    shortest: Lengths,
    ways: Lengths,
    bounds: Lengths,
    /// The estimated distances, by the depth to which the term was examined.
    distances: [Lengths; MAX_DISTANCE_DEPTH],
    /// The terms for which `uncounted` is cached, each with its depth and flag; the list `uncounted` has the results.
    counted: Interner<(Term, u32)>,
    uncounted: Vec<(Term, u32)>,
    characters: Characters,
    /// The characters of terms with the other kind of spelling.
    other_characters: Characters,
    /// The results of `characters_ahead`.
    ahead: FastMap<Term, Term>,
    /// The results of `strings_are_free`.
    pub(crate) free: FastMap<Term, bool>,
    /// A number that no other `Derivatives` of the process has.
    pub(crate) id: u32,
    bytes: usize,
}

impl Derivatives {
    pub fn new() -> Self {
        Derivatives {
            terms: Terms::new(),
            moves: Lists::new(),
            moves_of: Blocks::new(),
            life: Blocks::new(),
            shortest: Lengths::default(),
            ways: Lengths::default(),
            bounds: Lengths::default(),
            distances: Default::default(),
            counted: Interner::new(),
            uncounted: Vec::new(),
            characters: Characters::of(Spelling::Canonical),
            other_characters: Characters::of(Spelling::Any),
            ahead: FastMap::default(),
            free: FastMap::default(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            bytes: 0,
        }
    }

    /// Reserve memory for many terms.
    pub fn make_room(&mut self) {
        self.terms.make_room();
        self.moves_of.make_room();
    }

    /// Return an estimate of the bytes that terms and moves take.
    pub fn bytes(&self) -> usize {
        self.terms.bytes() + self.bytes
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        let lengths = [&self.shortest, &self.ways, &self.bounds]
            .into_iter()
            .chain(&self.distances);
        self.terms.heap()
            + self.moves.heap()
            + self.moves_of.heap()
            + self.life.heap()
            + lengths.map(Lengths::heap).sum::<usize>()
            + self.counted.heap()
            + heap::list(&self.uncounted)
            + self.characters.heap()
            + self.other_characters.heap()
            + heap::table(&self.ahead)
            + heap::table(&self.free)
    }

    /// Return the moves of `term`, to be read with `step` or `steps`; targets may be dead.
    pub fn moves(&mut self, term: Term, meter: &mut Meter) -> Outcome<List> {
        if let Some(moves) = self.known(term) {
            return Ok(moves);
        }
        // Compute the moves of the term's parts first, with an explicit stack: terms can be deep.
        let mut stack = vec![term];
        while let Some(&current) = stack.last() {
            if self.has_moves(current) {
                stack.pop();
                continue;
            }
            let branches = self.branch(current, meter)?;
            let before = stack.len();
            if branches.is_none() {
                self.push_missing(current, &mut stack, meter)?;
            }
            if stack.len() > before {
                continue;
            }
            let bytes = self.bytes();
            let moves = match branches {
                Some(moves) => moves,
                None => self.derive(current, meter)?,
            };
            self.bytes += size_of::<Option<List>>() + size_of::<Move>() * moves.len();
            meter.grow(self.bytes() - bytes)?;
            self.moves_of.set(current as usize, Some(self.moves.add(&moves)));
            stack.pop();
        }
        Ok(self.known(term).unwrap_or_default())
    }

    /// Return one move.
    #[inline]
    pub fn step(&self, place: u32) -> Move {
        self.moves[place]
    }

    /// Return all moves of a list.
    #[inline]
    pub fn steps(&self, moves: List) -> &[Move] {
        self.moves.get(moves)
    }

    /// Return the target of one byte from `term`; it may be dead. This is much faster than computing all moves, for a
    /// term about which most likely nothing else is asked.
    pub fn after(&mut self, term: Term, byte: u8, meter: &mut Meter) -> Outcome<Term> {
        self.after_to(term, byte, MAX_AFTER_DEPTH, meter)
    }

    fn after_to(&mut self, term: Term, byte: u8, depth: u32, meter: &mut Meter) -> Outcome<Term> {
        meter.work(1)?;
        if depth == 0 || matches!(self.terms.kind(term), Kind::Substring { .. }) {
            self.moves(term, meter)?;
        }
        if let Some(moves) = self.known(term) {
            let found = self.steps(moves).iter().find(|step| byte <= step.high);
            return Ok(found
                .filter(|step| step.low <= byte)
                .map_or(NOTHING, |step| step.target));
        }
        let depth = depth - 1;
        Ok(match *self.terms.kind(term) {
            Kind::Nothing | Kind::Empty | Kind::Substring { .. } => NOTHING,
            Kind::Set(set) if self.terms.byte_set(set).contains(byte) => EMPTY,
            Kind::Set(_) => NOTHING,
            Kind::Multiples(state) => state.after(byte).map_or(NOTHING, |next| self.terms.multiples(next)),
            Kind::Concatenation(first, second) => {
                let target = self.after_to(first, byte, depth, meter)?;
                let through = self.terms.concatenation(target, second);
                if !self.terms.nullable(first) {
                    return Ok(through);
                }
                let beyond = self.after_to(second, byte, depth, meter)?;
                self.terms.alternation(vec![through, beyond])
            }
            Kind::Alternation(ref items) => {
                let items = items.clone();
                let mut targets = Vec::with_capacity(items.len());
                for &item in items.iter() {
                    targets.push(self.after_to(item, byte, depth, meter)?);
                }
                self.terms.alternation(targets)
            }
            Kind::Intersection(ref items) => {
                let items = items.clone();
                let mut targets = Vec::with_capacity(items.len());
                for &item in items.iter() {
                    match self.after_to(item, byte, depth, meter)? {
                        NOTHING => return Ok(NOTHING),
                        target => targets.push(target),
                    }
                }
                self.terms.intersection(targets)
            }
            Kind::Complement(item) => {
                let target = self.after_to(item, byte, depth, meter)?;
                self.terms.complement(target)
            }
            Kind::Repeat { item, minimum, maximum } => {
                let target = self.after_to(item, byte, depth, meter)?;
                let rest = self.round_later(item, minimum, maximum);
                self.terms.concatenation(target, rest)
            }
            Kind::First(item) | Kind::Shortest(item) => {
                let target = self.after_to(item, byte, depth, meter)?;
                self.terms.first(target)
            }
        })
    }

    /// Return the rest of a repetition after the current round.
    fn round_later(&mut self, item: Term, minimum: u32, maximum: u32) -> Term {
        let fewer = if maximum == UNBOUNDED { UNBOUNDED } else { maximum - 1 };
        self.terms.repeat(item, minimum.saturating_sub(1), fewer)
    }

    fn has_moves(&self, term: Term) -> bool {
        self.known(term).is_some()
    }

    #[inline]
    fn known(&self, term: Term) -> Option<List> {
        self.moves_of.get(term as usize).copied().flatten()
    }

    fn push_missing(&self, term: Term, stack: &mut Vec<Term>, meter: &mut Meter) -> Outcome<()> {
        let mut need = |item: Term| {
            if !self.has_moves(item) {
                stack.push(item);
            }
        };
        match self.terms.kind(term) {
            Kind::Nothing | Kind::Empty | Kind::Set(_) | Kind::Substring { .. } | Kind::Multiples(_) => {}
            Kind::Concatenation(first, second) => {
                need(*first);
                if self.terms.nullable(*first) {
                    need(*second);
                }
            }
            Kind::Alternation(items) | Kind::Intersection(items) => {
                meter.work(items.len())?;
                items.iter().copied().for_each(need);
            }
            Kind::Complement(item) | Kind::First(item) | Kind::Shortest(item) => need(*item),
            Kind::Repeat { item, .. } => need(*item),
        }
        meter.work(1)
    }

    /// Return the moves of an alternation in which the first byte determines the alternative, as in a tree of texts.
    /// The alternatives then need no moves of their own.
    fn branch(&self, term: Term, meter: &mut Meter) -> Outcome<Option<Vec<Move>>> {
        let Kind::Alternation(items) = self.terms.kind(term) else {
            return Ok(None);
        };
        meter.work(items.len())?;
        let mut moves = Vec::with_capacity(items.len());
        for &item in items.iter() {
            let (set, target) = match *self.terms.kind(item) {
                Kind::Set(set) => (set, EMPTY),
                Kind::Concatenation(first, second) => match *self.terms.kind(first) {
                    Kind::Set(set) => (set, second),
                    _ => return Ok(None),
                },
                _ => return Ok(None),
            };
            let ranges = self.terms.byte_set(set).ranges();
            moves.extend(ranges.into_iter().map(|(low, high)| Move { low, high, target }));
        }
        moves.sort_unstable_by_key(|step| step.low);
        let overlap = moves.windows(2).any(|pair| pair[0].high >= pair[1].low);
        let mut merged = Vec::with_capacity(moves.len());
        for step in moves.into_iter().filter(|_| !overlap) {
            push_move(&mut merged, step.low, step.high, step.target);
        }
        Ok((!overlap).then_some(merged))
    }

    fn derive(&mut self, term: Term, meter: &mut Meter) -> Outcome<Vec<Move>> {
        match self.terms.kind(term).clone() {
            Kind::Nothing | Kind::Empty => Ok(Vec::new()),
            Kind::Set(set) => {
                let to_move = |(low, high)| Move {
                    low,
                    high,
                    target: EMPTY,
                };
                Ok(self.terms.byte_set(set).ranges().into_iter().map(to_move).collect())
            }
            Kind::Substring { text, state } => self.derive_substring(text, state, meter),
            Kind::Multiples(state) => {
                meter.work(12)?;
                let mut moves = Vec::with_capacity(12);
                for byte in b'-'..=b'9' {
                    if let Some(next) = state.after(byte) {
                        push_move(&mut moves, byte, byte, self.terms.multiples(next));
                    }
                }
                Ok(moves)
            }
            Kind::Concatenation(first, second) => {
                let through = self.map(first, meter, |terms, target| terms.concatenation(target, second))?;
                if !self.terms.nullable(first) {
                    return Ok(through);
                }
                let beyond = self.moves(second, meter)?;
                let rows = [&through, self.moves.get(beyond)];
                merge(&mut self.terms, &rows, 1, Terms::alternation, meter)
            }
            Kind::Alternation(items) => self.merge_items(&items, 1, Terms::alternation, meter),
            Kind::Intersection(items) => self.merge_items(&items, items.len(), Terms::intersection, meter),
            Kind::Complement(item) => {
                let moves = self.moves(item, meter)?;
                let moves = fill_gaps(self.steps(moves));
                let before = self.terms.len();
                let mut changed = Vec::with_capacity(moves.len());
                for step in moves {
                    push_move(&mut changed, step.low, step.high, self.terms.complement(step.target));
                }
                meter.work(changed.len() + 1 + self.terms.len() - before)?;
                Ok(changed)
            }
            Kind::Repeat { item, minimum, maximum } => {
                let rest = self.round_later(item, minimum, maximum);
                self.map(item, meter, |terms, target| terms.concatenation(target, rest))
            }
            Kind::First(item) | Kind::Shortest(item) => self.map(item, meter, Terms::first),
        }
    }

    fn derive_substring(&mut self, text: u32, state: u32, meter: &mut Meter) -> Outcome<Vec<Move>> {
        let steps = self.terms.automaton(text).moves(state).to_vec();
        meter.work(4 * steps.len())?;
        let mut moves: Vec<Move> = Vec::new();
        let mut targets = Vec::new();
        for (index, (character, next)) in steps.iter().enumerate() {
            let mut buffer = [0; 4];
            let bytes = character.encode_utf8(&mut buffer).as_bytes();
            let rest = self.terms.substring_state(text, *next);
            targets.push(self.terms.literal_then(&bytes[1..], rest));
            // Characters are sorted, and so are their first bytes: characters with the same first byte are adjacent.
            let mut next_first = [0; 4];
            let following = steps
                .get(index + 1)
                .map(|(other, _)| other.encode_utf8(&mut next_first).as_bytes()[0]);
            if following != Some(bytes[0]) {
                moves.push(Move {
                    low: bytes[0],
                    high: bytes[0],
                    target: self.terms.alternation(std::mem::take(&mut targets)),
                });
            }
        }
        Ok(moves)
    }

    fn map(
        &mut self,
        item: Term,
        meter: &mut Meter,
        mut change: impl FnMut(&mut Terms, Term) -> Term,
    ) -> Outcome<Vec<Move>> {
        let moves = self.moves(item, meter)?;
        let mut changed = Vec::with_capacity(moves.len());
        for step in self.moves.get(moves) {
            let before = self.terms.len();
            push_move(&mut changed, step.low, step.high, change(&mut self.terms, step.target));
            meter.work(1 + self.terms.len() - before)?;
        }
        Ok(changed)
    }

    fn merge_items(
        &mut self,
        items: &[Term],
        at_least: usize,
        combine: fn(&mut Terms, Vec<Term>) -> Term,
        meter: &mut Meter,
    ) -> Outcome<Vec<Move>> {
        let mut rows = Vec::with_capacity(items.len());
        for &item in items {
            rows.push(self.moves(item, meter)?);
        }
        let rows: Vec<&[Move]> = rows.into_iter().map(|row| self.moves.get(row)).collect();
        merge(&mut self.terms, &rows, at_least, combine, meter)
    }

    /// Return whether `text` is matched, byte by byte.
    #[cfg(test)]
    pub fn matches(&mut self, term: Term, text: &[u8], meter: &mut Meter) -> bool {
        let mut state = term;
        for byte in text {
            let moves = self.moves(state, meter).unwrap();
            let step = self
                .steps(moves)
                .iter()
                .find(|step| step.low <= *byte && *byte <= step.high);
            state = step.map_or(NOTHING, |step| step.target);
        }
        self.terms.nullable(state)
    }
}

/// Cut the bytes at each change of a row's target, and combine the targets of each segment that has at least `at_least`
/// of them.
fn merge(
    terms: &mut Terms,
    rows: &[&[Move]],
    at_least: usize,
    combine: fn(&mut Terms, Vec<Term>) -> Term,
    meter: &mut Meter,
) -> Outcome<Vec<Move>> {
    let mut cuts = ByteSet::single(0);
    for step in rows.iter().copied().flatten() {
        cuts.insert(step.low);
        if let Some(after) = step.high.checked_add(1) {
            cuts.insert(after);
        }
    }
    let count = cuts.len();
    let mut starts = [0u8; 256];
    starts.iter_mut().zip(cuts.iter()).for_each(|(start, cut)| *start = cut);
    let starts = &starts[..count];
    let end_of = |index: usize| starts.get(index + 1).map_or(256, |next| usize::from(*next));
    let mut segment_of = [0u8; 256];
    for (index, &start) in starts.iter().enumerate() {
        segment_of[usize::from(start)..end_of(index)].fill(index as u8);
    }
    let segment_of = |byte: u8| usize::from(segment_of[usize::from(byte)]);
    let segments = |step: &Move| segment_of(step.low)..segment_of(step.high) + 1;
    let mut ends = [0usize; 257];
    for step in rows.iter().copied().flatten() {
        ends[1..][segments(step)].iter_mut().for_each(|end| *end += 1);
    }
    // `ends` first has the index of each segment's first target; after the next loop, that of its end.
    (1..=count).for_each(|segment| ends[segment] += ends[segment - 1]);
    meter.work(ends[count])?;
    let mut targets = vec![NOTHING; ends[count]];
    for step in rows.iter().copied().flatten() {
        for end in &mut ends[segments(step)] {
            targets[*end] = step.target;
            *end += 1;
        }
    }
    let mut merged = Vec::with_capacity(count);
    let mut combined: Vec<(&[Term], Term)> = Vec::with_capacity(count);
    let mut first = 0;
    for (index, end) in ends[..count].iter().enumerate() {
        let list = &targets[first..*end];
        first = *end;
        if list.len() < at_least {
            continue;
        }
        // Letters that only one row distinguishes, for example, lead to few different target lists, and combining a
        // list is slow.
        let latest = combined.iter().rev().take(TARGET_LISTS_COMPARED);
        let same = latest.copied().find(|(before, _)| *before == list);
        let (_, target) = same.unwrap_or_else(|| (list, combine(terms, list.to_vec())));
        if same.is_none() {
            combined.push((list, target));
        }
        push_move(&mut merged, starts[index], (end_of(index) - 1) as u8, target);
    }
    Ok(merged)
}

fn push_move(moves: &mut Vec<Move>, low: u8, high: u8, target: Term) {
    if target == NOTHING {
        return;
    }
    match moves.last_mut() {
        Some(last) if last.target == target && last.high.checked_add(1) == Some(low) => last.high = high,
        _ => moves.push(Move { low, high, target }),
    }
}

/// Fill gaps between moves with dead moves.
fn fill_gaps(moves: &[Move]) -> Vec<Move> {
    let mut filled = Vec::with_capacity(2 * moves.len() + 1);
    let mut next = 0u16;
    let gap = |low: u16, high: u16| Move {
        low: low as u8,
        high: high as u8,
        target: NOTHING,
    };
    for step in moves {
        if next < u16::from(step.low) {
            filled.push(gap(next, u16::from(step.low) - 1));
        }
        filled.push(*step);
        next = u16::from(step.high) + 1;
    }
    if next < 256 {
        filled.push(gap(next, 255));
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Usage;

    #[test]
    fn whether_a_bound_leaves_room_for_a_match_is_told_exactly() {
        let states = Usage::default();
        let mut meter = Meter::new(1_000_000, &states, 1_000_000);
        let mut derivatives = Derivatives::new();
        let terms = &mut derivatives.terms;
        let any = terms.characters(&[(0, 0x10_ffff)]);
        let [a, b, gap] = [
            terms.literal(b"a"),
            terms.literal(b"b"),
            terms.repeat(any, 0, UNBOUNDED),
        ];
        let mut with = |parts: &[Term]| {
            parts
                .iter()
                .rev()
                .fold(gap, |rest, part| terms.concatenation(*part, rest))
        };
        let (apart, later) = (with(&[gap, a, any, any, any, b]), with(&[gap, b, any, a]));
        for (most, live) in [(4, false), (5, true), (6, true)] {
            let few = derivatives.terms.repeat(any, 0, most);
            let both = derivatives.terms.intersection(vec![apart, later, few]);
            assert_eq!(derivatives.live(both, &mut meter), Ok(live), "{most}");
        }
    }

    fn check(build: impl Fn(&mut Terms) -> Term, yes: &[&str], no: &[&str]) {
        let states = Usage::default();
        let mut meter = Meter::new(1_000_000, &states, 1_000_000);
        let mut derivatives = Derivatives::new();
        let term = build(&mut derivatives.terms);
        for text in yes {
            assert!(derivatives.matches(term, text.as_bytes(), &mut meter), "{text:?}");
        }
        for text in no {
            assert!(!derivatives.matches(term, text.as_bytes(), &mut meter), "{text:?}");
        }
    }

    #[test]
    fn a_tree_of_texts_matches_these_and_no_others() {
        let texts: Vec<String> = (0..4096u32).map(|number| format!("{number:b}")).collect();
        let build = |terms: &mut Terms| {
            let mut items: Vec<Term> = texts.iter().map(|text| terms.literal(text.as_bytes())).collect();
            let many = terms.repeat(items[2], 3, UNBOUNDED);
            items.extend([EMPTY, many]);
            let usage = Usage::default();
            let mut meter = Meter::new(1_000_000, &usage, 0);
            let (all, end) = (terms.tree(items, &mut meter).unwrap(), terms.literal(b".;"));
            terms.before_chain(all, end, &mut meter).unwrap()
        };
        let yes: Vec<String> = texts.iter().map(|text| format!("{text}.;")).collect();
        let yes: Vec<&str> = yes.iter().map(String::as_str).chain([".;", "101010.;"]).collect();
        check(
            build,
            &yes,
            &["", ".", "1", "01.;", "1010.;.;", "1111111111111.;", "111.", "11;"],
        );
    }

    #[test]
    fn repeats_are_counted() {
        let build = |terms: &mut Terms| {
            let ab = terms.literal(b"ab");
            terms.repeat(ab, 2, 3)
        };
        check(build, &["abab", "ababab"], &["", "ab", "aba", "abababab"]);
    }

    #[test]
    fn intersection_and_complement() {
        let build = |terms: &mut Terms| {
            let any = terms.characters(&[(0, 0x10_ffff)]);
            let some = terms.repeat(any, 1, UNBOUNDED);
            let all = terms.repeat(any, 0, UNBOUNDED);
            let x = terms.literal(b"xx");
            let tail = terms.concatenation(x, all);
            let within = terms.concatenation(all, tail);
            let without = terms.complement(within);
            terms.intersection(vec![some, without])
        };
        check(build, &["x", "axbx", "é"], &["", "xx", "axxb"]);
    }

    #[test]
    fn complements_of_what_goes_on_with_anything() {
        let build = |terms: &mut Terms| {
            let [a, b] = [terms.literal(b"a"), terms.literal(b"b")];
            let not_b = terms.complement(b);
            let inner = terms.concatenation(a, not_b);
            terms.complement(inner)
        };
        check(build, &["", "ab", "b"], &["a", "ac", "abc"]);
    }

    #[test]
    fn shortest_matches_end_early() {
        let build = |terms: &mut Terms| {
            let a = terms.literal(b"a");
            let many = terms.repeat(a, 0, UNBOUNDED);
            terms.shortest(many)
        };
        check(build, &["a"], &["", "aa"]);
    }

    #[test]
    fn substrings_are_whole_characters() {
        let build = |terms: &mut Terms| terms.substring(&['a', 'é', 'è']);
        check(build, &["", "a", "é", "éè", "aéè"], &["aè", "èé"]);
    }

    #[test]
    fn large_counts_are_no_work() {
        let states = Usage::default();
        let mut meter = Meter::new(10_000, &states, 1_000_000);
        let mut derivatives = Derivatives::new();
        let terms = &mut derivatives.terms;
        let pair = terms.literal(b"ab");
        let many = terms.repeat(pair, 1_000_000, UNBOUNDED);
        let end = terms.literal(b"c");
        let all = terms.concatenation(many, end);
        assert_eq!(derivatives.shortest_match(all, &mut meter).unwrap(), 2_000_001);
    }

    #[test]
    fn emptiness_is_exact() {
        let states = Usage::default();
        let mut meter = Meter::new(1_000_000, &states, 1_000_000);
        let mut derivatives = Derivatives::new();
        let terms = &mut derivatives.terms;
        let a = terms.literal(b"a");
        let (twos, threes) = (terms.literal(b"aa"), terms.literal(b"aaa"));
        let even = terms.repeat(twos, 1, 2);
        let thirds = terms.repeat(threes, 1, UNBOUNDED);
        let none = terms.intersection(vec![even, thirds]);
        let long = terms.repeat(a, 6, 6);
        let some = terms.alternation(vec![even, long]);
        let some = terms.intersection(vec![some, thirds]);
        assert!(!derivatives.live(none, &mut meter).unwrap());
        assert!(derivatives.live(some, &mut meter).unwrap());
    }

    #[test]
    fn example_derivative_is_the_term_of_the_rest() {
        let usage = Usage::default();
        let mut meter = Meter::new(1_000, &usage, 1_000);
        let mut derivatives = Derivatives::new();
        let (ab, b) = (derivatives.terms.literal(b"ab"), derivatives.terms.literal(b"b"));
        assert_eq!(derivatives.after(ab, b'a', &mut meter), Ok(b));
        assert_eq!(derivatives.after(ab, b'x', &mut meter), Ok(NOTHING));
        assert_eq!(derivatives.after(b, b'b', &mut meter), Ok(EMPTY));
        let moves = derivatives.moves(ab, &mut meter).unwrap();
        let (low, high, target) = (b'a', b'a', b);
        assert_eq!(derivatives.steps(moves), [Move { low, high, target }]);
    }
}
