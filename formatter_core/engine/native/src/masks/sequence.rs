//! One sequence, with the state after each of its steps.

use std::mem::{size_of, size_of_val};
use std::sync::Arc;

use crate::base::heap::{self, Counted};
use crate::base::limits::{Fault, Limit, Outcome};
use crate::base::tuning::MAX_FORCED_SEARCHED;
use crate::grammar::stack::State;
use crate::masks::budget::{Budget, UNLIMITED};
use crate::masks::compiled::Grammar;
use crate::tokens::mask::{clear, Mask};
use crate::tokens::spelling::{add, NEVER};

/// Longer texts are appended in pieces of this many bytes. Only frames that are still needed are carried from one piece
/// to the next.
const BYTES_PER_CHART: usize = 64;

/// Number of states in a shared segment of the history.
const STATES_PER_SEGMENT: usize = 128;

/// A segment of the history, which forks share.
struct Segment {
    previous: Option<Arc<Segment>>,
    states: Box<[Arc<State>]>,
    _memory: Counted,
}

impl Drop for Segment {
    /// Drop the earlier segments in a loop: recursion could overflow the stack if the history is long.
    fn drop(&mut self) {
        let mut previous = self.previous.take();
        while let Some(mut segment) = previous.and_then(Arc::into_inner) {
            previous = segment.previous.take();
        }
    }
}

pub struct Sequence {
    grammar: Arc<Grammar>,
    /// The fault of a panic in one of the sequence's calls.
    damage: Option<Fault>,
    state: Arc<State>,
    /// The states before the current one: the most recent ones in `recent`, the others in segments that forks share.
    recent: Vec<Arc<State>>,
    older: Option<Arc<Segment>>,
    /// Number of states before the current one.
    steps: u32,
    /// The steps that appended bytes without a token, which count against no budget.
    byte_steps: Vec<u32>,
    budget: Option<Budget>,
    /// If set, masks leave out a token of forced text when a longer token of that text begins with it.
    prefers_longest: bool,
    memory: Counted,
}

impl Clone for Sequence {
    fn clone(&self) -> Self {
        let copy = Sequence {
            grammar: self.grammar.clone(),
            damage: self.damage,
            state: self.state.clone(),
            recent: self.recent.clone(),
            older: self.older.clone(),
            steps: self.steps,
            byte_steps: self.byte_steps.clone(),
            budget: self.budget.clone(),
            prefers_longest: self.prefers_longest,
            memory: Counted::new(0, self.memory.counter()),
        };
        copy.count();
        copy
    }
}

/// Facts about a mask.
#[derive(Clone, Copy)]
pub struct Filled {
    pub has_tokens: bool,
    /// Tells whether the budget forbids tokens that the grammar allows.
    pub is_shortened: bool,
}

impl Sequence {
    pub fn new(grammar: Arc<Grammar>) -> Outcome<Self> {
        let grammar = grammar.current()?;
        let budget = grammar.has_regions().then(|| Budget::new(UNLIMITED, &[]));
        Ok(Sequence {
            memory: Counted::new(size_of::<Self>(), &grammar.memory().sequences),
            state: grammar.settled(grammar.start().clone(), 0)?,
            grammar,
            damage: None,
            recent: Vec::new(),
            older: None,
            steps: 0,
            byte_steps: Vec::new(),
            budget,
            prefers_longest: false,
        })
    }

    pub fn words(&self) -> usize {
        self.grammar.vocabulary().words()
    }

    /// Mark the sequence as damaged by a panic in one of its calls. Every later call fails with this fault, because the
    /// changes may be incomplete.
    pub fn end(&mut self, fault: Fault) {
        self.damage.get_or_insert(fault);
    }

    /// Return a fault if the sequence, or anything that it needs, is damaged.
    #[inline]
    pub fn check(&self) -> Outcome<()> {
        match self.damage {
            Some(fault) => Err(fault),
            None => self.grammar.check(),
        }
    }

    /// Limit the sequence to `maximum` tokens from its start, the end id included, without the tokens in `avoided`.
    /// Return the number of tokens that are enough; if it exceeds `maximum`, nothing changes.
    pub fn set_budget(&mut self, maximum: u32, avoided: &[u32]) -> Outcome<u32> {
        let budget = Budget::new(maximum, avoided);
        let tokens = self.tokens();
        let kept = with_room(&mut self.grammar, &mut self.state, |grammar, state| {
            budget.kept(grammar, state, tokens)
        })?;
        let Some((state, distance)) = kept else {
            return Ok(NEVER);
        };
        let needed = add(distance, tokens);
        if needed <= maximum && needed < NEVER {
            self.budget = Some(budget);
            self.state = state;
        }
        Ok(needed)
    }

    /// From now on, where text is forced, masks allow only the longest tokens that spell it: models rarely saw other
    /// tokens there.
    pub fn prefer_longest(&mut self) {
        self.prefers_longest = true;
    }

    /// Write the mask to a row of `words()` words.
    pub fn fill(&mut self, row: &mut [u32]) -> Outcome<Filled> {
        let filled = match self.fill_near(row)? {
            Some(filled) => filled,
            None => {
                let mask = with_room(&mut self.grammar, &mut self.state, |grammar, state| grammar.mask(state))?;
                write(&mask, row)
            }
        };
        self.leave_longest(row)?;
        Ok(filled)
    }

    /// If the longest tokens are preferred, remove the shorter tokens of forced text from a row.
    fn leave_longest(&self, row: &mut [u32]) -> Outcome<()> {
        if !self.prefers_longest {
            return Ok(());
        }
        let forced = self.forced_bytes(MAX_FORCED_SEARCHED)?;
        let beginnings = self.grammar.vocabulary().beginnings(&forced);
        let is_allowed = |ids: &&[u32]| ids.iter().any(|id| row[*id as usize / 32] >> (id % 32) & 1 == 1);
        if let Some(longest) = beginnings.iter().rposition(is_allowed) {
            beginnings[..longest].iter().for_each(|ids| clear(row, ids));
        }
        Ok(())
    }

    /// Write the mask near the end of the budget. If the budget forbids nothing, write nothing and return None.
    fn fill_near(&mut self, row: &mut [u32]) -> Outcome<Option<Filled>> {
        let Some(budget) = &self.budget else {
            return Ok(None);
        };
        let tokens = self.tokens();
        let fitting = with_room(&mut self.grammar, &mut self.state, |grammar, state| {
            Ok(match budget.is_far(grammar, state, tokens)? {
                true => None,
                false => Some(budget.fitting(grammar, state)?),
            })
        })?;
        let room = budget.room(tokens + 1);
        Ok(fitting.map(|fitting| Filled {
            has_tokens: fitting.write(room, row),
            is_shortened: !fitting.all_fit(room),
        }))
    }

    /// Append a token. If it is not allowed, return false and change nothing.
    pub fn accept_token(&mut self, token: u32) -> Outcome<bool> {
        let (budget, tokens) = (&self.budget, self.tokens());
        let next = with_room(&mut self.grammar, &mut self.state, |grammar, state| {
            match (budget, grammar.after_token(state, token)?) {
                (Some(budget), Some(next)) => {
                    let next = grammar.settled(next, tokens + 1)?;
                    match budget.is_far(grammar, state, tokens)? {
                        true => Ok(Some(next)),
                        false => budget.within(grammar, &next, tokens + 1),
                    }
                }
                (_, next) => Ok(next),
            }
        })?;
        Ok(self.go_on(next))
    }

    /// Run `accept_token`, then `fill`. If the token is not allowed, return None and change nothing.
    pub fn step(&mut self, token: u32, row: &mut [u32]) -> Outcome<Option<Filled>> {
        if !self.prefers_longest {
            if let Some(mask) = self.known_step(token, |_| true)? {
                return Ok(Some(write(&mask, row)));
            }
        }
        self.step_with(token, |sequence| sequence.fill(row))
    }

    /// Run `accept_token`, and return None if the token is not allowed. Otherwise return facts about the next mask, or
    /// Some(None) if that mask is not cached.
    pub fn advance(&mut self, token: u32) -> Outcome<Option<Option<Filled>>> {
        if let Some(mask) = self.known_step(token, |_| true)? {
            return Ok(Some(Some(filled(&mask))));
        }
        self.step_with(token, |sequence| Ok(sequence.known_mask()?.as_deref().map(filled)))
    }

    /// Append a token if the next mask is cached and not empty, and return the mask's number without writing the mask.
    /// Otherwise return None and change nothing.
    pub fn step_kept(&mut self, token: u32) -> Outcome<Option<u64>> {
        if self.prefers_longest {
            return Ok(None);
        }
        Ok(self.known_step(token, |mask| !mask.is_empty())?.map(|mask| mask.number))
    }

    /// Append a token if the next mask is cached, wanted, and not affected by the budget. Otherwise return None and
    /// change nothing.
    #[inline]
    fn known_step(&mut self, token: u32, is_wanted: impl FnOnce(&Mask) -> bool) -> Outcome<Option<Arc<Mask>>> {
        if let Some((next, mask)) = self.grammar.known_step(&self.state, token)? {
            if self.is_far_after(&next)? && is_wanted(&mask) {
                self.go_on(Some(next));
                return Ok(Some(mask));
            }
        }
        Ok(None)
    }

    /// Append a token and return the result of `then`. If `then` fails, undo the token.
    fn step_with<T>(&mut self, token: u32, then: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<Option<T>> {
        if !self.accept_token(token)? {
            return Ok(None);
        }
        let found = then(self);
        if found.is_err() {
            self.rollback(1);
        }
        found.map(Some)
    }

    /// Return the current mask, if it is cached and the budget forbids none of it.
    fn known_mask(&self) -> Outcome<Option<Arc<Mask>>> {
        let (grammar, state) = (&self.grammar, &self.state);
        let is_far = |budget: &Budget| budget.is_known_far(grammar, state, self.tokens());
        match self.budget.as_ref().map_or(true, is_far) {
            true => grammar.known_mask(state),
            false => Ok(None),
        }
    }

    /// Return whether the budget surely allows the next state and every token after it, using only cached results.
    #[inline]
    fn is_far_after(&self, next: &State) -> Outcome<bool> {
        let Some(budget) = &self.budget else {
            return Ok(true);
        };
        let (grammar, tokens) = (&self.grammar, self.tokens());
        Ok(budget.is_known_far(grammar, &self.state, tokens) && budget.is_known_far(grammar, next, tokens + 1))
    }

    /// Append bytes as one step. If they are not allowed, return false and change nothing.
    pub fn accept_bytes(&mut self, bytes: &[u8]) -> Outcome<bool> {
        let (mut grammar, mut state) = (self.grammar.clone(), self.state.clone());
        let tokens = self.tokens();
        for piece in bytes.chunks(BYTES_PER_CHART) {
            let next = with_room(&mut grammar, &mut state, |grammar, state| {
                let next = grammar.after_bytes(state, piece)?;
                next.map(|next| grammar.settled(next, tokens)).transpose()
            })?;
            match next {
                Some(next) => state = next,
                None => return Ok(false),
            }
        }
        if let Some(budget) = &self.budget {
            let within = with_room(&mut grammar, &mut state, |grammar, state| {
                budget.within(grammar, state, tokens)
            })?;
            match within {
                Some(kept) => state = kept,
                None => return Ok(false),
            }
        }
        self.grammar = grammar;
        self.byte_steps.push(self.steps);
        self.go_on(Some(state));
        self.count();
        Ok(true)
    }

    /// Return the number of steps.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Undo the last `steps` steps. If there are fewer, return false and change nothing.
    pub fn rollback(&mut self, steps: usize) -> bool {
        let mut available = self.recent.len();
        let mut older = &self.older;
        while let Some(segment) = older {
            if available >= steps {
                break;
            }
            available += segment.states.len();
            older = &segment.previous;
        }
        if available < steps {
            return false;
        }
        let mut left = steps;
        while left > self.recent.len() {
            left -= self.recent.len();
            let Some(segment) = self.older.take() else {
                return false;
            };
            self.recent = segment.states.to_vec();
            self.older = segment.previous.clone();
        }
        let keep = self.recent.len() - left;
        if left > 0 {
            self.state = self.recent[keep].clone();
            self.recent.truncate(keep);
        }
        self.steps -= steps as u32;
        self.byte_steps.retain(|step| *step < self.steps);
        self.count();
        true
    }

    /// For tests: panic without a lock, or under a lock of the grammar or of the automata that grammars share.
    pub fn panic_in(&self, place: u32) -> Outcome<i32> {
        self.grammar.panic_in(place)
    }

    pub fn can_stop(&self) -> bool {
        self.state.can_stop
    }

    pub fn forced_bytes(&self, limit: usize) -> Outcome<Vec<u8>> {
        let (mut grammar, mut state) = (self.grammar.clone(), self.state.clone());
        with_room(&mut grammar, &mut state, |grammar, state| {
            let forced = grammar.forced_bytes(state, limit)?;
            let Some(budget) = self.budget.as_ref().filter(|_| !state.can_stop) else {
                return Ok(forced);
            };
            let tokens = self.tokens();
            if budget.is_far(grammar, state, tokens)? {
                return Ok(forced);
            }
            // Near the end of the budget, all tokens that still fit may share a prefix.
            let mut common = budget
                .fitting(grammar, state)?
                .common_prefix(budget.room(tokens + 1), grammar.vocabulary());
            common.truncate(limit);
            Ok(if common.len() > forced.len() { common } else { forced })
        })
    }

    /// Return the number of accepted tokens.
    fn tokens(&self) -> u32 {
        self.steps - self.byte_steps.len() as u32
    }

    fn go_on(&mut self, next: Option<Arc<State>>) -> bool {
        let Some(next) = next else {
            return false;
        };
        let room = self.recent.capacity();
        if self.recent.len() == STATES_PER_SEGMENT {
            let states: Box<[Arc<State>]> = std::mem::take(&mut self.recent).into();
            let bytes = heap::COUNTS + size_of::<Segment>() + size_of_val(&*states);
            self.older = Some(Arc::new(Segment {
                previous: self.older.take(),
                states,
                _memory: Counted::new(bytes, self.memory.counter()),
            }));
        }
        self.recent.push(std::mem::replace(&mut self.state, next));
        self.steps += 1;
        if self.recent.capacity() != room {
            self.count();
        }
        true
    }

    /// Count the bytes that only this sequence takes.
    fn count(&self) {
        let lists = heap::list(&self.recent) + heap::list(&self.byte_steps);
        self.memory.set(size_of::<Self>() + lists);
    }
}

fn write(mask: &Mask, row: &mut [u32]) -> Filled {
    mask.write(row);
    filled(mask)
}

fn filled(mask: &Mask) -> Filled {
    Filled {
        has_tokens: !mask.is_empty(),
        is_shortened: false,
    }
}

/// Ask a grammar about a state. If its automata have no room for the answer, switch to a successor with empty automata.
fn with_room<T>(
    grammar: &mut Arc<Grammar>,
    state: &mut Arc<State>,
    ask: impl Fn(&Grammar, &Arc<State>) -> Outcome<T>,
) -> Outcome<T> {
    if grammar.is_overgrown() {
        let renewed = grammar.renewed()?.0;
        *state = renewed.adopt(state)?;
        *grammar = renewed;
    }
    let answer = match grammar.owns(state) {
        true => ask(grammar, state),
        // The state dates from before the last renewal: a rollback has restored it.
        false => grammar.adopt(state).and_then(|state| ask(grammar, &state)),
    };
    if !matches!(answer, Err(Fault::Limit(Limit::States))) {
        return answer;
    }
    loop {
        let (renewed, is_empty) = grammar.renewed()?;
        let answer = renewed.adopt(state).and_then(|adopted| {
            let answer = ask(&renewed, &adopted)?;
            *state = adopted;
            Ok(answer)
        });
        // Other threads may have filled the successor's automata in the meantime.
        let is_full = matches!(answer, Err(Fault::Limit(Limit::States)));
        if answer.is_ok() || is_full {
            *grammar = renewed;
        }
        if is_empty || !is_full {
            return answer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Limits;
    use crate::masks::engine::Engine;
    use crate::regular::program::tests::NESTED;
    use crate::tokens::mask::ids_in;
    use crate::tokens::trie::Vocabulary;

    /// Begin a text of `NESTED`, with the tokens 0 "(", 1 ")" and 2 "x".
    fn nested() -> Sequence {
        let engine = Engine::new(Vocabulary::new(b"()x", &[0, 1, 2, 3]).unwrap());
        Sequence::new(Arc::new(Grammar::new(NESTED, &engine, Limits::default()).unwrap())).unwrap()
    }

    fn allowed(sequence: &mut Sequence) -> Vec<u32> {
        let mut row = [0];
        sequence.fill(&mut row).unwrap();
        ids_in(&row).collect()
    }

    #[test]
    fn example_masks_of_a_sequence() {
        let mut sequence = nested();
        assert_eq!(allowed(&mut sequence), [0, 2]);
        assert_eq!(sequence.accept_bytes(b"((x"), Ok(true));
        assert_eq!(allowed(&mut sequence), [1]);
        assert_eq!(sequence.forced_bytes(8), Ok(b"))".to_vec()));
        assert_eq!(sequence.accept_token(2), Ok(false));
    }

    #[test]
    fn example_fork_and_rollback() {
        let mut sequence = nested();
        assert_eq!(sequence.accept_token(0), Ok(true));
        let mut fork = sequence.clone();
        assert_eq!(fork.accept_token(2), Ok(true));
        assert_eq!((allowed(&mut sequence), allowed(&mut fork)), (vec![0, 2], vec![1]));
        assert!(fork.rollback(2) && !fork.rollback(1));
        assert_eq!(allowed(&mut fork), [0, 2]);
    }

    #[test]
    fn example_budget_leaves_room_for_the_end() {
        let mut sequence = nested();
        // "(x)" and the end id are 4 tokens; a second "(" would need 2 more.
        assert_eq!(sequence.set_budget(4, &[]), Ok(2));
        assert_eq!(sequence.accept_token(0), Ok(true));
        assert_eq!(allowed(&mut sequence), [2]);
    }
}
