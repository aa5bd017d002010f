//! One sequence: the states after each of its steps.

use std::sync::Arc;

use crate::grammar::Grammar;
use crate::limits::Outcome;
use crate::stack::State;

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
    state: Arc<State>,
    /// The states before the current one: the latest here, what is older in segments that forks share.
    recent: Vec<Arc<State>>,
    older: Option<Arc<Segment>>,
}

impl Sequence {
    pub fn new(grammar: Arc<Grammar>) -> Self {
        Sequence {
            state: grammar.start.clone(),
            grammar,
            recent: Vec::new(),
            older: None,
        }
    }

    pub fn words(&self) -> usize {
        self.grammar.vocabulary().words()
    }

    /// Write the mask to a row of `words()` words; whether it allows any token.
    pub fn fill(&self, row: &mut [u32]) -> Outcome<bool> {
        let mask = self.grammar.mask(&self.state)?;
        mask.write(row);
        Ok(!mask.is_empty())
    }

    /// Append a token; false, with nothing changed, where it is not allowed.
    pub fn accept_token(&mut self, token: u32) -> Outcome<bool> {
        let next = self.grammar.after_token(&self.state, token)?;
        Ok(self.go_on(next))
    }

    /// Append bytes as one step; false, with nothing changed, where they are not allowed.
    pub fn accept_bytes(&mut self, bytes: &[u8]) -> Outcome<bool> {
        let next = self.grammar.after_bytes(&self.state, bytes)?;
        Ok(self.go_on(next))
    }

    /// Undo the last `steps` steps; false, with nothing changed, if there are not so many.
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

    pub fn can_stop(&self) -> bool {
        self.state.can_stop
    }

    pub fn forced_bytes(&self, limit: usize) -> Outcome<Vec<u8>> {
        self.grammar.forced_bytes(&self.state, limit)
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
