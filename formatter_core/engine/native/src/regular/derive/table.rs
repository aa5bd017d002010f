//! Writes what a term matches for other languages to read: its automaton, and its shortest strings. Numbers are LEB128.

use super::Derivatives;
use crate::base::hash::FastMap;
use crate::base::limits::{Meter, Outcome};
use crate::regular::program::write_number;
use crate::regular::term::Term;

impl Derivatives {
    /// Return the states of a term's automaton, in the order in which they are found; empty if the term matches
    /// nothing. Each state consists of a flag that tells whether it accepts, the number of its moves, and for each move
    /// the lowest and the highest byte and the target.
    pub fn table(&mut self, term: Term, meter: &mut Meter) -> Outcome<Vec<u8>> {
        let mut table = Vec::new();
        let mut states: Vec<Term> = self.live(term, meter)?.then_some(term).into_iter().collect();
        let mut numbers = FastMap::from_iter([(term, 0)]);
        let mut next = 0;
        while let Some(&state) = states.get(next) {
            next += 1;
            meter.state()?;
            let mut live = Vec::new();
            for place in self.moves(state, meter)?.places() {
                let step = self.step(place);
                meter.work(1)?;
                if self.live(step.target, meter)? {
                    live.push(step);
                }
            }
            write_number(&mut table, self.terms.nullable(state).into());
            write_number(&mut table, live.len() as u32);
            for step in live {
                let target = *numbers.entry(step.target).or_insert_with(|| {
                    states.push(step.target);
                    states.len() as u32 - 1
                });
                [step.low.into(), step.high.into(), target]
                    .into_iter()
                    .for_each(|number| write_number(&mut table, number));
            }
        }
        Ok(table)
    }

    /// Return the shortest strings that a term matches, in byte order, at most `most` of them; each is preceded by its
    /// length.
    pub fn shortest_strings(&mut self, term: Term, most: u32, meter: &mut Meter) -> Outcome<Vec<u8>> {
        let mut written = Vec::new();
        if !self.live(term, meter)? {
            return Ok(written);
        }
        let length = self.shortest_match(term, meter)?;
        let mut found = 0;
        let mut pending = vec![(term, Vec::new())];
        while let Some((state, string)) = pending.pop() {
            if found == most {
                break;
            }
            let left = length - string.len() as u32;
            if left == 0 {
                write_number(&mut written, length);
                written.extend(string);
                found += 1;
                continue;
            }
            let mut longer = Vec::new();
            for place in self.moves(state, meter)?.places() {
                let step = self.step(place);
                meter.work(1)?;
                if self.live(step.target, meter)? && self.shortest_match(step.target, meter)? == left - 1 {
                    for byte in step.low..=step.high {
                        meter.work(string.len() + 1)?;
                        longer.push((step.target, [&string[..], &[byte]].concat()));
                    }
                }
            }
            pending.extend(longer.into_iter().rev());
        }
        Ok(written)
    }
}
