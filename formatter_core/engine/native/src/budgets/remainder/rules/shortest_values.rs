//! Finds the values that the texts of a term begin with, the shortest first.

use std::collections::HashSet;

use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::MAX_REPEATED_VALUES;
use crate::budgets::nearest::Nearest;
use crate::regular::distinct::{Seen, Value};
use crate::regular::term::Term;
use crate::tokens::lexicon::Lexicon;
use crate::tokens::spelling::NEVER;

/// Minimum number of values that are searched for at once.
const VALUES_PER_SEARCH: usize = 32;

/// The values of a term that have been requested so far, and the length of the shortest text of each.
#[derive(Default)]
pub struct Values {
    pub lengths: Vec<u32>,
    pub found: Vec<Value>,
    /// The first of these values, as a set.
    seen: Seen,
    pub are_all: bool,
    /// Heap bytes of the values.
    texts: usize,
}

impl Values {
    /// Return the bytes on the heap (see `heap`).
    pub fn heap(&self) -> usize {
        heap::list(&self.lengths) + heap::list(&self.found) + self.texts + self.seen.counter().bytes()
    }

    /// Find at least `number` values, if there are that many.
    pub fn find(
        &mut self,
        number: usize,
        term: Term,
        nearest: &mut Nearest,
        lexicon: &Lexicon,
        meter: &mut Meter,
    ) -> Outcome<()> {
        while self.lengths.len() < number && !self.are_all {
            let before = self.found.len();
            for value in &self.found[self.seen.count as usize..] {
                self.seen = self.seen.with(value);
            }
            let left = lexicon.without(term, &self.seen, meter)?;
            self.add(
                number.max(2 * before).max(VALUES_PER_SEARCH),
                left,
                nearest,
                lexicon,
                meter,
            )?;
            self.are_all = self.found.len() == before;
        }
        Ok(())
    }

    /// Add values of a term that excludes all values in `seen`, in order of the lengths of their texts.
    fn add(
        &mut self,
        number: usize,
        term: Term,
        nearest: &mut Nearest,
        lexicon: &Lexicon,
        meter: &mut Meter,
    ) -> Outcome<()> {
        let mut known: HashSet<Value> = HashSet::new();
        let mut repeated = 0;
        let mut length = nearest.distance(term, lexicon, meter)?;
        while length < NEVER {
            let mut longer = NEVER;
            let mut text = Vec::new();
            let mut waiting = vec![(0, 0, term)];
            while let Some((depth, byte, state)) = waiting.pop() {
                meter.work(1)?;
                if depth > 0 {
                    text.truncate(depth as usize - 1);
                    text.push(byte);
                }
                if depth == length && lexicon.derivatives()?.terms.nullable(state) {
                    let value = Value::of(&text);
                    if known.insert(value.clone()) {
                        self.texts += value.heap();
                        self.found.push(value);
                        self.lengths.push(length);
                    } else {
                        repeated += 1;
                    }
                    if self.found.len() >= number || repeated > MAX_REPEATED_VALUES {
                        return Ok(());
                    }
                }
                let moves: Vec<(u8, u8, Term)> = lexicon
                    .row(state, meter)?
                    .live()
                    .map(|(low, high, step)| (low, high, step.state))
                    .collect();
                for (low, high, target) in moves.into_iter().rev() {
                    if !nearest.takes_any(low, high) {
                        continue;
                    }
                    let whole = depth + 1 + nearest.distance(target, lexicon, meter)?;
                    if whole > length {
                        longer = longer.min(whole);
                        continue;
                    }
                    let bytes = (low..=high).rev().filter(|byte| nearest.takes_any(*byte, *byte));
                    waiting.extend(bytes.map(|byte| (depth + 1, byte, target)));
                }
            }
            length = longer;
        }
        Ok(())
    }
}
