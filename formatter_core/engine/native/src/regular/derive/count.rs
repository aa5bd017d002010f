//! Counts the strings that a term matches.

use super::Derivatives;
use crate::base::hash::{FastMap, FastSet};
use crate::base::limits::{Meter, Outcome};
use crate::regular::term::Term;

impl Derivatives {
    /// Return the number of strings that a term matches, but at most `most`, which must be above 0.
    pub fn count(&mut self, term: Term, most: u64, meter: &mut Meter) -> Outcome<u64> {
        let live = self.live(term, meter)?;
        if most == 1 || !live {
            return Ok(live.into());
        }
        let mut met = FastSet::from_iter([term]);
        let mut paths = FastMap::from_iter([(term, 1)]);
        let (mut found, mut length) = (0, 0);
        while !paths.is_empty() && found < most {
            if length > met.len() {
                return Ok(most); // a path with a circle
            }
            let mut longer: FastMap<Term, u64> = FastMap::default();
            for (&term, &count) in &paths {
                found += count * u64::from(self.terms.nullable(term));
                for place in self.moves(term, meter)?.places() {
                    let step = self.step(place);
                    meter.work(1)?;
                    if !self.live(step.target, meter)? {
                        continue;
                    }
                    if step.target == term {
                        return Ok(most); // some string is matched from there on
                    }
                    met.insert(step.target);
                    let there = longer.entry(step.target).or_default();
                    *there = most.min(*there + count * (u64::from(step.high - step.low) + 1));
                }
            }
            paths = longer;
            length += 1;
        }
        Ok(found.min(most))
    }
}
