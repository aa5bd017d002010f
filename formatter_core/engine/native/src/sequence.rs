//! One sequence: the states after each of its steps.

use std::sync::Arc;

use crate::grammar::Grammar;
use crate::limits::{Fault, Limit, Outcome};
use crate::stack::State;

/// Longer texts are appended in pieces of this many bytes: only the frames that are still needed are carried from one to
/// the next.
const PIECE: usize = 64;

/// How many states stand together in a shared part of the history.
const SEGMENT: usize = 128;

/// A shared part of the history.
struct Segment {
    previous: Option<Arc<Segment>>,
    states: Box<[Arc<State>]>,
}

impl Drop for Segment {
    /// In a loop: a history can be long.
    fn drop(&mut self) {
        let mut previous = self.previous.take();
        while let Some(mut segment) = previous.and_then(Arc::into_inner) {
            previous = segment.previous.take();
        }
    }
}

#[derive(Clone)]
pub struct Sequence {
    grammar: Arc<Grammar>,
    /// What a panic in one of its calls has left it as.
    damage: Option<Fault>,
    state: Arc<State>,
    /// The states before the current one: the latest here, what is older in segments that forks share.
    recent: Vec<Arc<State>>,
    older: Option<Arc<Segment>>,
}

impl Sequence {
    pub fn new(grammar: Arc<Grammar>) -> Outcome<Self> {
        let grammar = grammar.current()?;
        Ok(Sequence {
            state: grammar.start().clone(),
            grammar,
            damage: None,
            recent: Vec::new(),
            older: None,
        })
    }

    pub fn words(&self) -> usize {
        self.grammar.vocabulary().words()
    }

    /// After a panic in one of its calls, whose changes may be half made, every other one fails with it.
    pub fn end(&mut self, fault: Fault) {
        self.damage.get_or_insert(fault);
    }

    /// Whether the sequence, and all that it needs, may be used.
    #[inline]
    pub fn check(&self) -> Outcome<()> {
        match self.damage {
            Some(fault) => Err(fault),
            None => self.grammar.check(),
        }
    }

    /// Write the mask to a row of `words()` words; whether it allows any token.
    pub fn fill(&mut self, row: &mut [u32]) -> Outcome<bool> {
        let mask = with_room(&mut self.grammar, &mut self.state, |grammar, state| grammar.mask(state))?;
        mask.write(row);
        Ok(!mask.is_empty())
    }

    /// Append a token; false, with nothing changed, where it is not allowed.
    pub fn accept_token(&mut self, token: u32) -> Outcome<bool> {
        let next = with_room(&mut self.grammar, &mut self.state, |grammar, state| {
            grammar.after_token(state, token)
        })?;
        Ok(self.go_on(next))
    }

    /// `accept_token`, then `fill`; None, with nothing changed, where the token is not allowed.
    pub fn step(&mut self, token: u32, row: &mut [u32]) -> Outcome<Option<bool>> {
        if let Some((next, mask)) = self.grammar.known_step(&self.state, token)? {
            mask.write(row);
            self.go_on(Some(next));
            return Ok(Some(!mask.is_empty()));
        }
        if !self.accept_token(token)? {
            return Ok(None);
        }
        let filled = self.fill(row);
        if filled.is_err() {
            self.rollback(1);
        }
        filled.map(Some)
    }

    /// Append bytes as one step; false, with nothing changed, where they are not allowed.
    pub fn accept_bytes(&mut self, bytes: &[u8]) -> Outcome<bool> {
        let (mut grammar, mut state) = (self.grammar.clone(), self.state.clone());
        for piece in bytes.chunks(PIECE) {
            match with_room(&mut grammar, &mut state, |grammar, state| {
                grammar.after_bytes(state, piece)
            })? {
                Some(next) => state = next,
                None => return Ok(false),
            }
        }
        self.grammar = grammar;
        Ok(self.go_on(Some(state)))
    }

    /// Undo the last `steps` steps; false, with nothing changed, if there are fewer.
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
        true
    }

    /// For tests: panic with no lock held, or under one of the grammar or of the automata that grammars share.
    pub fn panic_in(&self, place: u32) -> Outcome<i32> {
        self.grammar.panic_in(place)
    }

    pub fn can_stop(&self) -> bool {
        self.state.can_stop
    }

    pub fn forced_bytes(&self, limit: usize) -> Outcome<Vec<u8>> {
        let (mut grammar, mut state) = (self.grammar.clone(), self.state.clone());
        with_room(&mut grammar, &mut state, |grammar, state| {
            grammar.forced_bytes(state, limit)
        })
    }

    fn go_on(&mut self, next: Option<Arc<State>>) -> bool {
        let Some(next) = next else {
            return false;
        };
        if self.recent.len() == SEGMENT {
            self.older = Some(Arc::new(Segment {
                previous: self.older.take(),
                states: std::mem::take(&mut self.recent).into(),
            }));
        }
        self.recent.push(std::mem::replace(&mut self.state, next));
        true
    }
}

/// Ask a grammar about a state; where its automata have no room for the answer, go over to one with empty automata.
fn with_room<T>(
    grammar: &mut Arc<Grammar>,
    state: &mut Arc<State>,
    ask: impl Fn(&Grammar, &Arc<State>) -> Outcome<T>,
) -> Outcome<T> {
    let answer = match grammar.owns(state) {
        true => ask(grammar, state),
        // From before the last renewal, by a rollback.
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
        // Others may have filled it meanwhile.
        let is_full = matches!(answer, Err(Fault::Limit(Limit::States)));
        if answer.is_ok() || is_full {
            *grammar = renewed;
        }
        if is_empty || !is_full {
            return answer;
        }
    }
}
