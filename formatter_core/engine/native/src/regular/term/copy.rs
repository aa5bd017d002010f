//! Copies terms from one table to another.

use super::{each_part, Kind, Term, Terms, EMPTY, NOTHING};
use crate::base::hash::FastMap;
use crate::base::limits::{Meter, Outcome};

impl Terms {
    /// Return the term of this table that matches the same strings as `term` of `others`; `known` has the terms copied
    /// so far.
    pub fn copy(
        &mut self,
        term: Term,
        others: &Terms,
        known: &mut FastMap<Term, Term>,
        meter: &mut Meter,
    ) -> Outcome<Term> {
        // Copy the term's parts first, with an explicit stack: terms can be deep.
        let mut stack = vec![term];
        while let Some(&current) = stack.last() {
            meter.work(1)?;
            if known.contains_key(&current) {
                stack.pop();
                continue;
            }
            let before = stack.len();
            each_part(others.kind(current), |part| {
                if !known.contains_key(&part) {
                    stack.push(part);
                }
            });
            meter.work(stack.len() - before)?;
            if stack.len() == before {
                let (bytes, copied) = (self.bytes, self.copy_with(current, others, known));
                meter.grow(self.bytes - bytes)?;
                known.insert(current, copied);
                stack.pop();
            }
        }
        Ok(known.get(&term).copied().unwrap_or(NOTHING))
    }

    /// Copy a term whose parts have been copied.
    fn copy_with(&mut self, term: Term, others: &Terms, known: &FastMap<Term, Term>) -> Term {
        let copied = |part: &Term| known.get(part).copied().unwrap_or(NOTHING);
        match others.kind(term) {
            Kind::Nothing => NOTHING,
            Kind::Empty => EMPTY,
            Kind::Set(set) => self.set(others.byte_set(*set)),
            Kind::Concatenation(first, second) => self.concatenation(copied(first), copied(second)),
            Kind::Alternation(items) => self.alternation(items.iter().map(copied).collect()),
            Kind::Intersection(items) => self.intersection(items.iter().map(copied).collect()),
            Kind::Complement(item) => self.complement(copied(item)),
            Kind::Repeat { item, minimum, maximum } => self.repeat(copied(item), *minimum, *maximum),
            Kind::First(item) => self.first(copied(item)),
            Kind::Shortest(item) => self.shortest(copied(item)),
            Kind::Multiples(state) => self.multiples(*state),
            Kind::Substring { text, state } => {
                let characters = others.texts.iter().find(|(_, number)| *number == text);
                let number = characters.map_or(0, |(characters, _)| self.text(characters));
                self.substring_state(number, *state)
            }
        }
    }
}
