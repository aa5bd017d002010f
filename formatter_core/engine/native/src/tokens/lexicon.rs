//! The automata of all terminals that are used with one vocabulary. States are terms, shared by every grammar and
//! thread.
//!
//! The moves of a state are computed once, under a lock, and then read without one.

use std::mem::size_of;
use std::sync::{Arc, OnceLock};

use crate::base::byteset::{ByteSet, Kinds};
use crate::base::damage::{Guard, Guarded};
use crate::base::hash::FastMap;
use crate::base::heap::{self, Counted, Counter};
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::{MAX_CLASS_BYTES, MAX_COUNTED_REQUESTS, MAX_LEXICON_BYTES};
use crate::base::utf8::sequences;
use crate::regular::derive::Derivatives;
use crate::regular::distinct::Seen;
use crate::regular::term::{Term, Terms, EMPTY, NOTHING};
use crate::tokens::class::{Class, Owner, Targets};
use crate::tokens::trie::Vocabulary;

/// Data that is freed piece by piece, because freeing all of it at once would delay one mask for long. Each item is the
/// number of bytes freed, or 0 if they are counted elsewhere.
pub type LetGo = Box<dyn Iterator<Item = usize> + Send>;

/// Minimum number of bytes that must lead to a state for it to be the main target.
const MAIN_TARGET_BYTES: usize = 24;

/// A state with fewer live bytes has no `widest` target. There are many such states, mostly of literals, and their rows
/// have to be made quickly.
const WIDEST_FROM_LIVE_BYTES: usize = 10;

/// The state after a byte, and whether that state accepts. `NOTHING` is the dead state.
#[derive(Clone, Copy)]
pub struct Step {
    pub state: Term,
    pub accepts: bool,
}

/// Maximum number of times that a class is computed for a few tokens only; after that it is computed for all tokens.
const PARTIAL_CLASSES: u32 = 2;

/// For fewer trie nodes than this, we do not compute where characters lead.
const PASSED_OVER_FROM_NODES: usize = 32;

const ACCEPTS: u64 = 1 << 31;

/// The moves of one state: runs of bytes, stored by their first byte. They cover all 256 bytes.
pub struct Row {
    entries: Box<[u64]>,
    /// For each byte, the index of its entry; only present if there are many entries.
    index: Option<Box<[u8; 256]>>,
    stays: Kinds,
    live: ByteSet,
    cuts: ByteSet,
    /// The live state that most bytes lead to, with all those bytes; None if few bytes are live.
    widest: Option<(Term, ByteSet)>,
    widest_kinds: Kinds,
    /// The states inside the characters beyond ASCII, if all these characters lead back to this state.
    within: OnceLock<Option<Box<[Term]>>>,
}

/// Maximum number of entries that are searched one by one.
const LINEAR_ENTRIES: usize = 6;

impl Row {
    fn new(state: Term, entries: Vec<u64>) -> Self {
        let index = (entries.len() > LINEAR_ENTRIES).then(|| {
            let mut index = Box::new([0; 256]);
            for (number, entry) in entries.iter().enumerate() {
                index[(entry >> 32) as usize..].fill(number as u8);
            }
            index
        });
        let mut row = Row {
            entries: entries.into(),
            index,
            stays: Kinds::default(),
            live: ByteSet::default(),
            cuts: ByteSet::default(),
            widest: None,
            widest_kinds: Kinds::default(),
            within: OnceLock::new(),
        };
        for entry in row.entries.iter() {
            row.cuts.insert((entry >> 32) as u8);
        }
        let (mut own, mut live) = (ByteSet::default(), ByteSet::default());
        for (low, high, step) in row.live() {
            live.insert_range(low, high);
            if step.state == state {
                own.insert_range(low, high);
            }
        }
        row.stays = Kinds::within(&own);
        row.live = live;
        row.widest = row.find_widest();
        row.widest_kinds = row.widest.map_or(Kinds::default(), |(_, bytes)| Kinds::within(&bytes));
        row
    }

    /// Return the kinds of bytes that lead from the state to itself.
    #[inline]
    pub fn stays(&self) -> Kinds {
        self.stays
    }

    #[inline]
    pub fn step(&self, byte: u8) -> Step {
        let number = match &self.index {
            Some(index) => usize::from(index[usize::from(byte)]),
            None => {
                // The first byte of a run is in the upper half of its entry: find the last entry that does not begin
                // after `byte`.
                let beyond = (u64::from(byte) + 1) << 32;
                self.entries.iter().take_while(|entry| **entry < beyond).count() - 1
            }
        };
        unpack(self.entries[number])
    }

    /// Return the live state that most bytes lead to, if there are many such bytes.
    pub fn main_target(&self) -> Option<Term> {
        self.widest
            .filter(|(_, bytes)| bytes.len() >= MAIN_TARGET_BYTES)
            .map(|(state, _)| state)
    }

    /// Return the live state that most bytes lead to, and the kinds of these bytes.
    #[inline]
    pub fn widest(&self) -> (Term, Kinds) {
        (self.widest.map_or(NOTHING, |(state, _)| state), self.widest_kinds)
    }

    /// Return the bytes that lead to a live state.
    pub fn live_bytes(&self) -> &ByteSet {
        &self.live
    }

    /// Return the first bytes of all runs.
    pub fn cuts(&self) -> &ByteSet {
        &self.cuts
    }

    fn find_widest(&self) -> Option<(Term, ByteSet)> {
        if self.live.len() < WIDEST_FROM_LIVE_BYTES {
            return None;
        }
        let mut targets: Vec<(Term, ByteSet)> = Vec::new();
        for (low, high, step) in self.live() {
            match targets.iter_mut().find(|(state, _)| *state == step.state) {
                Some((_, bytes)) => bytes.insert_range(low, high),
                None => {
                    let mut bytes = ByteSet::default();
                    bytes.insert_range(low, high);
                    targets.push((step.state, bytes));
                }
            }
        }
        targets.into_iter().max_by_key(|(_, bytes)| bytes.len())
    }

    /// Return the bytes on the heap (see `heap`), without those of `within`, which is filled later.
    fn heap(&self) -> usize {
        std::mem::size_of_val(&*self.entries) + self.index.as_deref().map_or(0, std::mem::size_of_val)
    }

    /// Iterate over the runs of bytes that lead to a live state, with that state.
    pub fn live(&self) -> impl Iterator<Item = (u8, u8, Step)> + '_ {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let step = unpack(*entry);
            let high = self.entries.get(index + 1).map_or(255, |next| (next >> 32) as u8 - 1);
            (step.state != NOTHING).then_some(((entry >> 32) as u8, high, step))
        })
    }
}

#[inline]
fn unpack(entry: u64) -> Step {
    Step {
        state: (entry & (ACCEPTS - 1)) as Term,
        accepts: entry & ACCEPTS != 0,
    }
}

/// Append the tail to the state of a step.
fn append(step: &mut Step, tail: Term, terms: &mut Terms, meter: &mut Meter) -> Outcome<()> {
    if tail == EMPTY || step.state == NOTHING {
        return Ok(());
    }
    let bytes = terms.bytes();
    step.state = terms.concatenation(step.state, tail);
    step.accepts = terms.nullable(step.state);
    meter.grow(terms.bytes() - bytes)
}

/// Number of slots in a block. A block is small, so that none takes long to make.
const BLOCK: usize = 256;
type Slot = OnceLock<Box<Row>>;
type Block = OnceLock<Box<[Slot]>>;
/// A chunk has twice as many blocks as the chunk before it.
type Chunk = OnceLock<Box<[Block]>>;

/// Return the chunk of a state's slot, and the block within the chunk.
#[inline]
fn place(state: Term) -> (usize, usize) {
    // Chunk k begins at block 2^k - 1.
    let shifted = state as usize / BLOCK + 1;
    let chunk = shifted.ilog2();
    (chunk as usize, shifted - (1 << chunk))
}

/// The automata for one vocabulary, and the classes and targets of their states.
pub struct Lexicon {
    pub vocabulary: Arc<Vocabulary>,
    /// The owner of everything in this lexicon, the classes included.
    pub owner: Owner,
    derivatives: Guarded<Derivatives>,
    chunks: [Chunk; 25],
    /// Counts the bytes of all rows.
    rows: Counter,
    classes: Guarded<FastMap<Term, Arc<Class>>>,
    /// Number of times that each class was requested for few tokens only.
    requests: Guarded<FastMap<Term, u32>>,
    targets: Guarded<FastMap<Term, Arc<Targets>>>,
    /// Maximum bytes of kept classes and targets. Beyond this, all of them are dropped and computed again when needed.
    maximum_class_bytes: usize,
}

impl Lexicon {
    /// Make a lexicon that many grammars share.
    pub fn new(vocabulary: Arc<Vocabulary>) -> Self {
        let lexicon = Self::keeping(vocabulary, MAX_CLASS_BYTES);
        if let Ok(mut derivatives) = lexicon.derivatives() {
            derivatives.make_room();
        }
        lexicon
    }

    /// Make a lexicon for one grammar, which takes little memory at first.
    pub fn small(vocabulary: Arc<Vocabulary>) -> Self {
        Self::keeping(vocabulary, MAX_CLASS_BYTES)
    }

    fn keeping(vocabulary: Arc<Vocabulary>, maximum_class_bytes: usize) -> Self {
        let owner = Owner::default();
        Lexicon {
            vocabulary,
            derivatives: Guarded::new(Derivatives::new(), &owner.health),
            chunks: std::array::from_fn(|_| OnceLock::new()),
            rows: Counter::default(),
            classes: Guarded::new(FastMap::default(), &owner.health),
            requests: Guarded::new(FastMap::default(), &owner.health),
            targets: Guarded::new(FastMap::default(), &owner.health),
            maximum_class_bytes,
            owner,
        }
    }

    /// Lock the terms and their derivatives, for example to build terminals.
    pub fn derivatives(&self) -> Outcome<Guard<'_, Derivatives>> {
        self.derivatives.lock()
    }

    /// Make an empty lexicon for the same vocabulary that one grammar has to itself.
    pub fn apart(&self, maximum_class_bytes: usize) -> Self {
        Self::keeping(self.vocabulary.clone(), maximum_class_bytes.min(MAX_CLASS_BYTES))
    }

    /// Return all contents to be freed piece by piece, unless the lexicon is still in use elsewhere; `counter` counts
    /// the bytes not yet freed.
    pub fn let_go(self: Arc<Self>, counter: &Counter) -> LetGo {
        let Some(mut lexicon) = Arc::into_inner(self) else {
            return Box::new(std::iter::empty());
        };
        let (automata, classes) = lexicon.memory().unwrap_or_default();
        let left = Arc::new(Counted::new(automata + classes, counter));
        let chunks = std::mem::replace(&mut lexicon.chunks, std::array::from_fn(|_| OnceLock::new()));
        let blocks = chunks.into_iter().filter_map(OnceLock::into_inner).flat_map(Vec::from);
        let slots = blocks.filter_map(OnceLock::into_inner).flat_map(Vec::from);
        let with_rows = left.clone();
        let rows = slots.map(move |slot| {
            with_rows.shrink(slot.get().map_or(0, |row| size_of::<Row>() + row.heap()));
            0
        });
        let rest = std::iter::once((lexicon, left)).map(|all| {
            drop(all);
            0
        });
        Box::new(rows.chain(rest))
    }

    /// Return a term for the strings of `term` that begin with none of the values seen; `NOTHING` if there are none.
    pub fn without(&self, term: Term, seen: &Seen, meter: &mut Meter) -> Outcome<Term> {
        match seen.count {
            0 => Ok(term),
            _ => self.derivatives()?.without(term, seen, meter),
        }
    }

    /// Return whether a term matches any string that begins with one of these values.
    pub fn has_some(&self, term: Term, seen: &Seen, meter: &mut Meter) -> Outcome<bool> {
        self.derivatives()?.has_some(term, seen, meter)
    }

    /// Copy states of an older lexicon: return states of this lexicon that match the same strings.
    pub fn copy(&self, states: &[Term], older: &Lexicon, meter: &mut Meter) -> Outcome<Vec<Term>> {
        let theirs = older.derivatives()?;
        let mut ours = self.derivatives()?;
        let mut known = FastMap::default();
        states
            .iter()
            .map(|state| ours.terms.copy(*state, &theirs.terms, &mut known, meter))
            .collect()
    }

    /// Return whether new grammars should use a fresh lexicon.
    pub fn is_full(&self) -> Outcome<bool> {
        Ok(self.derivatives()?.bytes() > MAX_LEXICON_BYTES)
    }

    /// Return the bytes of the automata, and the bytes of the classes and targets.
    pub fn memory(&self) -> Outcome<(usize, usize)> {
        let mut automata = heap::COUNTS + size_of::<Self>() + self.derivatives()?.heap() + self.rows.bytes();
        for blocks in self.chunks.iter().filter_map(OnceLock::get) {
            let slots = blocks.iter().filter_map(OnceLock::get).count() * BLOCK;
            automata += size_of::<Block>() * blocks.len() + size_of::<Slot>() * slots;
        }
        let tables = heap::table(&*self.classes.lock()?)
            + heap::table(&*self.requests.lock()?)
            + heap::table(&*self.targets.lock()?);
        Ok((automata, tables + self.owner.memory()))
    }

    /// Return the state after one more byte.
    #[inline]
    pub fn step(&self, state: Term, byte: u8, meter: &mut Meter) -> Outcome<Step> {
        match self.known_row(state) {
            Some(row) => Ok(row.step(byte)),
            None => self.step_in_parts(state, byte, meter),
        }
    }

    /// Return the state after one more byte, using the moves of the state's head. This takes one lock if those moves
    /// are known.
    fn step_in_parts(&self, state: Term, byte: u8, meter: &mut Meter) -> Outcome<Step> {
        let mut derivatives = self.derivatives()?;
        let (head, tail) = derivatives.terms.split_first(state);
        let row = match self.known_row(head) {
            Some(row) => row,
            None => {
                drop(derivatives);
                let row = self.row(head, meter)?;
                derivatives = self.derivatives()?;
                row
            }
        };
        let mut step = row.step(byte);
        append(&mut step, tail, &mut derivatives.terms, meter)?;
        Ok(step)
    }

    /// Return the states after one more byte from each of several live states.
    pub fn steps(&self, states: &[Term], byte: u8, meter: &mut Meter) -> Outcome<Vec<Step>> {
        let parts = self.first_parts(states)?;
        let mut steps = Vec::with_capacity(parts.len());
        for (head, _) in &parts {
            steps.push(self.row(*head, meter)?.step(byte));
        }
        if parts.iter().any(|(_, tail)| *tail != EMPTY) {
            let terms = &mut self.derivatives()?.terms;
            for (step, (_, tail)) in steps.iter_mut().zip(&parts) {
                append(step, *tail, terms, meter)?;
            }
        }
        Ok(steps)
    }

    /// Return the moves of a live state's head, and its tail. The head has the same live bytes and runs of bytes as the
    /// state. So states that are left at once, such as those of an object's many names, need no moves of their own.
    #[inline]
    pub fn first_row(&self, state: Term, meter: &mut Meter) -> Outcome<(&Row, Term)> {
        if let Some(row) = self.known_row(state) {
            return Ok((row, EMPTY));
        }
        let (head, tail) = self.derivatives()?.terms.split_first(state);
        Ok((self.row(head, meter)?, tail))
    }

    /// Split each state into head and tail, under one lock. A state whose own moves are known is not split.
    pub fn first_parts(&self, states: &[Term]) -> Outcome<Vec<(Term, Term)>> {
        let mut parts: Vec<(Term, Term)> = states.iter().map(|state| (*state, EMPTY)).collect();
        let mut unknown = parts
            .iter_mut()
            .filter(|part| self.known_row(part.0).is_none())
            .peekable();
        if unknown.peek().is_some() {
            let terms = &self.derivatives()?.terms;
            unknown.for_each(|part| *part = terms.split_first(part.0));
        }
        Ok(parts)
    }

    /// Return the moves of a live state.
    #[inline]
    pub fn row(&self, state: Term, meter: &mut Meter) -> Outcome<&Row> {
        let slot = self.slot(state);
        match slot.get() {
            Some(row) => Ok(row),
            None => self.build_row(state, slot, meter),
        }
    }

    /// Return the states inside the characters beyond ASCII, if all these characters lead from a state back to it.
    /// Return None if they do not, or if it is unknown and only few trie nodes (`worth`) would profit.
    pub fn within_characters<'a>(
        &self,
        state: Term,
        row: &'a Row,
        worth: usize,
        meter: &mut Meter,
    ) -> Outcome<Option<&'a [Term]>> {
        if row.within.get().is_none() && worth >= PASSED_OVER_FROM_NODES {
            let mut within = Some(Vec::new());
            for sequence in sequences(0x80, 0x10_ffff) {
                within = match within {
                    Some(met) => self.lead_back(state, row, &sequence, met, meter)?,
                    None => break,
                };
            }
            row.within.get_or_init(|| {
                let within: Option<Box<[Term]>> = within.map(Into::into);
                self.rows.add(within.as_deref().map_or(0, std::mem::size_of_val));
                within
            });
        }
        Ok(row.within.get().and_then(Option::as_deref))
    }

    /// Add to `met` the states on the path to `state` with bytes of these ranges; return None if any byte leads
    /// elsewhere.
    fn lead_back(
        &self,
        state: Term,
        row: &Row,
        ranges: &[(u8, u8)],
        mut met: Vec<Term>,
        meter: &mut Meter,
    ) -> Outcome<Option<Vec<Term>>> {
        let Some(((first, last), rest)) = ranges.split_first() else {
            return Ok(Some(met));
        };
        let mut byte = u16::from(*first);
        for (low, high, step) in row.live().filter(|(low, high, _)| low <= last && high >= first) {
            meter.work(1)?;
            if u16::from(low) > byte || (rest.is_empty() && step.state != state) {
                return Ok(None);
            }
            byte = u16::from(high) + 1;
            if !rest.is_empty() && !met.contains(&step.state) {
                met.push(step.state);
            }
            if !rest.is_empty() {
                met = match self.lead_back(state, self.row(step.state, meter)?, rest, met, meter)? {
                    Some(met) => met,
                    None => return Ok(None),
                };
            }
        }
        Ok((byte > u16::from(*last)).then_some(met))
    }

    /// Return the moves of a live state, if they have been computed.
    #[inline]
    pub fn known_row(&self, state: Term) -> Option<&Row> {
        let (chunk, block) = place(state);
        let slots = self.chunks[chunk].get()?[block].get()?;
        slots[state as usize % BLOCK].get().map(|row| &**row)
    }

    /// Return the state after one more byte, without computing the other moves.
    pub fn step_alone(&self, state: Term, byte: u8, meter: &mut Meter) -> Outcome<Step> {
        let mut derivatives = self.derivatives()?;
        let bytes = derivatives.bytes();
        let target = derivatives.after(state, byte, meter)?;
        let is_live = target != NOTHING && derivatives.live(target, meter)?;
        meter.grow(derivatives.bytes() - bytes)?;
        Ok(Step {
            state: if is_live { target } else { NOTHING },
            accepts: is_live && derivatives.terms.nullable(target),
        })
    }

    /// Return a bound on the distance: from each of these states, at most this many bytes lead to a match.
    pub fn longest_way(&self, states: impl Iterator<Item = Term>, meter: &mut Meter) -> Outcome<u32> {
        let mut derivatives = self.derivatives()?;
        let mut longest = 0;
        for state in states {
            longest = longest.max(derivatives.bound_to_match(state, meter)?);
        }
        Ok(longest)
    }

    /// Return whether the form of a state's term does not show if it is empty.
    pub fn uncertain(&self, state: Term) -> Outcome<bool> {
        Ok(self.derivatives()?.terms.uncertain(state))
    }

    /// Return whether a state's term intersects more than two terms.
    pub fn tangled(&self, state: Term) -> Outcome<bool> {
        Ok(self.derivatives()?.terms.tangled(state))
    }

    /// Return the one of these states that has the shortest way to a match.
    pub fn nearest(&self, states: &[Term], meter: &mut Meter) -> Outcome<Term> {
        let mut derivatives = self.derivatives()?;
        let mut nearest = (u32::MAX, NOTHING);
        for &state in states {
            nearest = nearest.min((derivatives.way_to_match(state, meter)?, state));
        }
        Ok(nearest.1)
    }

    /// Return the bytes that can come next in any of `states`.
    pub fn first_bytes(&self, states: impl Iterator<Item = Term>, meter: &mut Meter) -> Outcome<ByteSet> {
        let mut bytes = ByteSet::default();
        for state in states {
            bytes = bytes.union(&self.first_row(state, meter)?.0.live);
        }
        Ok(bytes)
    }

    /// Return the class of `state`, if it is cached.
    pub fn known_class(&self, state: Term) -> Outcome<Option<Arc<Class>>> {
        Ok(self.classes.lock()?.get(&state).cloned())
    }

    /// Cache the class of `state`.
    pub fn keep_class(&self, state: Term, class: &Arc<Class>) -> Outcome<()> {
        self.make_room()?;
        self.classes.lock()?.insert(state, class.clone());
        Ok(())
    }

    /// Return the targets of the tokens that stay inside `state`, if they are cached.
    pub fn known_targets(&self, state: Term) -> Outcome<Option<Arc<Targets>>> {
        Ok(self.targets.lock()?.get(&state).cloned())
    }

    /// Cache the targets of the tokens that stay inside `state`.
    pub fn keep_targets(&self, state: Term, targets: &Arc<Targets>) -> Outcome<()> {
        self.make_room()?;
        self.owner.count(targets.bytes());
        self.targets.lock()?.insert(state, targets.clone());
        Ok(())
    }

    /// Drop all classes and targets if they take too much memory.
    fn make_room(&self) -> Outcome<()> {
        if self.owner.bytes() > self.maximum_class_bytes {
            self.owner.forget();
            self.classes.lock()?.clear();
            self.requests.lock()?.clear();
            self.targets.lock()?.clear();
        }
        Ok(())
    }

    /// Count a request for the class of `state` for few tokens only; return whether there were few such requests.
    pub fn is_seldom_asked_for(&self, state: Term) -> Outcome<bool> {
        let mut requests = self.requests.lock()?;
        if requests.len() > MAX_COUNTED_REQUESTS {
            requests.clear();
        }
        let times = requests.entry(state).or_insert(0);
        *times += 1;
        Ok(*times <= PARTIAL_CLASSES)
    }

    #[inline]
    fn slot(&self, state: Term) -> &Slot {
        let (chunk, block) = place(state);
        let blocks = self.chunks[chunk].get_or_init(|| (0..1 << chunk).map(|_| OnceLock::new()).collect());
        let slots = blocks[block].get_or_init(|| (0..BLOCK).map(|_| OnceLock::new()).collect());
        &slots[state as usize % BLOCK]
    }

    #[cold]
    fn build_row<'a>(&'a self, state: Term, slot: &'a Slot, meter: &mut Meter) -> Outcome<&'a Row> {
        let mut derivatives = self.derivatives()?;
        if let Some(row) = slot.get() {
            return Ok(row);
        }
        meter.state()?;
        let moves = derivatives.moves(state, meter)?;
        let mut entries: Vec<u64> = Vec::with_capacity(2 * moves.len() + 1);
        let mut next = 0u16;
        for place in moves.places() {
            let step = derivatives.step(place);
            if !derivatives.live_after(state, step.low, step.target, meter)? {
                continue;
            }
            if next < u16::from(step.low) {
                entries.push(u64::from(next) << 32);
            }
            let accepts = if derivatives.terms.nullable(step.target) {
                ACCEPTS
            } else {
                0
            };
            entries.push(u64::from(step.low) << 32 | accepts | u64::from(step.target));
            next = u16::from(step.high) + 1;
        }
        if next < 256 {
            entries.push(u64::from(next) << 32);
        }
        meter.grow(64 + 8 * entries.len() + if entries.len() > LINEAR_ENTRIES { 256 } else { 0 })?;
        let row = Row::new(state, entries);
        self.rows.add(size_of::<Row>() + row.heap());
        Ok(slot.get_or_init(|| Box::new(row)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::{Fault, Limit, Usage};
    use crate::regular::term::UNBOUNDED;
    use crate::tokens::trie::tests::vocabulary;

    #[test]
    fn dead_states_are_told_exactly() {
        let states = Usage::default();
        let mut meter = Meter::new(1_000_000, &states, 1_000);
        let lexicon = Lexicon::new(Arc::new(Vocabulary::new(b"", &[0]).unwrap()));
        let term = {
            let mut derivatives = lexicon.derivatives().unwrap();
            let terms = &mut derivatives.terms;
            let letters = terms.characters(&[(97, 122)]);
            let many = terms.repeat(letters, 0, UNBOUNDED);
            let word = terms.literal(b"ab");
            let not_word = terms.complement(word);
            let two = terms.repeat(letters, 2, 2);
            terms.intersection(vec![many, not_word, two])
        };
        let after_a = lexicon.step(term, b'a', &mut meter).unwrap();
        assert!(after_a.state != NOTHING && !after_a.accepts);
        assert_eq!(lexicon.step(after_a.state, b'b', &mut meter).unwrap().state, NOTHING);
        assert!(lexicon.step(after_a.state, b'c', &mut meter).unwrap().accepts);
        assert_eq!(lexicon.step(term, b'A', &mut meter).unwrap().state, NOTHING);
    }

    #[test]
    fn too_many_states_are_refused() {
        let states = Usage::default();
        let mut meter = Meter::new(1_000_000, &states, 2);
        let lexicon = Lexicon::new(Arc::new(Vocabulary::new(b"", &[0]).unwrap()));
        let mut state = lexicon.derivatives().unwrap().terms.literal(b"abcd");
        let mut outcome = Ok(());
        for byte in b"abcd" {
            match lexicon.step(state, *byte, &mut meter) {
                Ok(step) => state = step.state,
                Err(fault) => outcome = Err(fault),
            }
        }
        assert_eq!(outcome, Err(Fault::Limit(Limit::States)));
    }

    #[test]
    fn example_lexicon_is_an_automaton_of_terminals() {
        let usage = Usage::default();
        let mut meter = Meter::new(10_000, &usage, 1_000);
        let lexicon = Lexicon::new(vocabulary(&["a", "b"]));
        let term = lexicon.derivatives().unwrap().terms.literal(b"ab");
        let after_a = lexicon.step(term, b'a', &mut meter).unwrap();
        assert!(!after_a.accepts);
        assert!(lexicon.step(after_a.state, b'b', &mut meter).unwrap().accepts);
        assert_eq!(lexicon.step(term, b'x', &mut meter).unwrap().state, NOTHING);
    }
}
