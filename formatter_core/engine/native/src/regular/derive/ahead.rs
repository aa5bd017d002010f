//! Decides for all bytes of a character at once whether they lead to a match.
//!
//! Consider a term that matches only texts of whole characters. A state inside a character is live if at least one
//! character that it may still become leads to a match. We compute the set of these characters once, over letters, and
//! step through its class byte by byte together with the term.

use super::emptiness::Life;
use super::Derivatives;
use crate::base::byteset::ByteSet;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::MAX_TERMS_MADE_EARLY;
use crate::regular::term::{Kind, Term, EMPTY, NOTHING};

impl Derivatives {
    /// Return whether `target`, which `byte` leads to from a live term, matches anything.
    pub fn live_after(&mut self, term: Term, byte: u8, target: Term, meter: &mut Meter) -> Outcome<bool> {
        if let Some(known) = self.known_life(target) {
            return Ok(known);
        }
        let next = match self.characters_ahead(term, meter)? {
            NOTHING => return self.live(target, meter),
            ahead => self.after(ahead, byte, meter)?,
        };
        let is_live = next != NOTHING;
        self.set_life(target, if is_live { Life::Live } else { Life::Dead });
        if is_live && next != EMPTY {
            self.keep_ahead(target, next);
        }
        Ok(is_live)
    }

    /// Return a class of the characters that lead from a term to a match, or the rest of that class inside a character.
    /// Return `NOTHING` if it is not computed for this term.
    fn characters_ahead(&mut self, term: Term, meter: &mut Meter) -> Outcome<Term> {
        if let Some(known) = self.ahead.get(&term) {
            return Ok(*known);
        }
        if !matches!(self.terms.kind(term), Kind::Intersection(items) if items.len() > 2) {
            return Ok(NOTHING);
        }
        let found = match self.twin_of_few(term, MAX_TERMS_MADE_EARLY, meter)? {
            Some(twin) => {
                let letters = self.in_letters(|all| all.live_letters(twin, meter))?;
                self.class_of_letters(letters)
            }
            None => NOTHING,
        };
        self.keep_ahead(term, found);
        Ok(found)
    }

    fn keep_ahead(&mut self, term: Term, ahead: Term) {
        self.bytes += 16;
        self.ahead.insert(term, ahead);
    }

    /// Return the letters that lead from a term over letters to a match.
    fn live_letters(&mut self, twin: Term, meter: &mut Meter) -> Outcome<ByteSet> {
        let mut letters = ByteSet::default();
        for place in self.moves(twin, meter)?.places() {
            let step = self.step(place);
            if self.live(step.target, meter)? {
                letters.insert_range(step.low, step.high);
            }
        }
        Ok(letters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Usage;
    use crate::regular::term::{Spelling, Terms, UNBOUNDED};

    /// Return texts of limited length, and texts that have or lack some characters.
    fn conditions(terms: &mut Terms) -> Vec<Term> {
        let classes = ["a", "b\n", "\u{e9}\"", "a\u{1f600}"].map(|text| {
            let each = text
                .chars()
                .map(|one| terms.json_text(&one.to_string(), Spelling::Any))
                .collect();
            terms.alternation(each)
        });
        let any = terms.alternation(classes.to_vec());
        let gap = terms.repeat(any, 0, UNBOUNDED);
        let mut all = vec![terms.repeat(any, 2, 3), terms.repeat(any, 1, 2)];
        for class in classes {
            let tail = terms.concatenation(class, gap);
            let with = terms.concatenation(gap, tail);
            all.extend([tail, with, terms.complement(with)]);
        }
        all
    }

    #[test]
    fn what_is_told_from_the_characters_ahead_is_so_for_each_byte() {
        let usage = Usage::default();
        let mut meter = Meter::new(u64::MAX, &usage, u64::MAX);
        let (mut told, mut live) = (0, [0; 2]);
        for number in 0..364 {
            let mut all = Derivatives::new();
            let mut bytes = Derivatives::new();
            bytes.characters.in_letters = true;
            let [term, same] = [&mut all, &mut bytes].map(|one| {
                let items = conditions(&mut one.terms);
                let chosen = [number % 14, number / 14 % 14, number / 26].map(|index| items[index]);
                let length = one.terms.intersection(vec![items[number % 2], chosen[0]]);
                one.terms.intersection(vec![length, chosen[1], chosen[2]])
            });
            let (mut states, mut met) = (vec![(term, same)], vec![term]);
            while let Some((term, same)) = states.pop() {
                for place in all.moves(term, &mut meter).unwrap().places() {
                    let step = all.step(place);
                    let target = bytes.after(same, step.low, &mut meter).unwrap();
                    let is_live = bytes.live(target, &mut meter).unwrap();
                    assert_eq!(
                        all.live_after(term, step.low, step.target, &mut meter),
                        Ok(is_live),
                        "{number}"
                    );
                    live[usize::from(is_live)] += 1;
                    if is_live && !met.contains(&step.target) {
                        met.push(step.target);
                        states.push((step.target, target));
                    }
                }
            }
            told += all.ahead.values().filter(|ahead| **ahead != NOTHING).count();
        }
        assert!(told > 1000 && live[0] > 1000 && live[1] > 1000, "{told} {live:?}");
    }
}
