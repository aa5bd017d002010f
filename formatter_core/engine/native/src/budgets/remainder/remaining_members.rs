//! The completion of a list whose remaining members must all come, spelled once: after one of them, the completion is
//! the same without that one.
//!
//! Tokens may cross the ends of members. So the text before the gap is spelled again, from the gap backwards, until all
//! positions that an earlier token can reach differ from the full text by the same number of tokens.

use super::rules::RuleRemainders;
use super::Text;
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::MAX_REMAINDER;
use crate::grammar::members::Required;
use crate::tokens::spelling::{NEVER, SOME_BYTE};

/// The text of all members, each after a separator, and the beginning of the text after the list.
pub struct LeftOut {
    symbols: Vec<u32>,
    /// For each symbol, the number of tokens for it and everything after it.
    fewest: Vec<u32>,
    /// For each symbol, the last symbol that matters for the symbols before it.
    reach: Vec<usize>,
    /// The first symbol of each member, and the end of the last one.
    starts: Vec<usize>,
    separator: usize,
    gaps: Vec<Option<Gap>>,
    /// For each rest, the symbols spelled last in front of it.
    latest: Vec<Before>,
    /// Number of symbols in the gaps and in `latest`; if there are many, both are dropped.
    kept: usize,
}

/// Symbols, and, from the last one to the first, the number of tokens for each and everything after it.
type Before = (Vec<u32>, Vec<u32>);

/// The rest of a list: all members except one, all members, or all without the first separator.
#[derive(Clone, Copy)]
pub enum Rest {
    Without(u32),
    All,
    AfterSeparator,
}

/// The text without one member.
#[derive(Clone)]
struct Gap {
    start: usize,
    end: usize,
    /// From the symbol before the gap backwards, the number of tokens for each and everything after it.
    fewest: Vec<u32>,
    /// The number of tokens that the earlier symbols take in addition, compared with the full text.
    more: i32,
}

impl LeftOut {
    /// Spell the members of a list. Return None if there are barriers, or texts of which only the length is known.
    pub fn new(
        rules: &RuleRemainders,
        list: u32,
        required: &Required,
        beyond: Text,
        meter: &mut Meter,
    ) -> Outcome<Option<Self>> {
        let mut new = LeftOut {
            symbols: Vec::new(),
            fewest: Vec::new(),
            reach: Vec::new(),
            starts: vec![0],
            separator: rules.separator_length(list),
            gaps: vec![None; required.ways.len()],
            latest: vec![Before::default(); required.ways.len() + 2],
            kept: 0,
        };
        for way in &required.ways {
            new.symbols.extend_from_slice(rules.way_symbols(list, *way));
            new.starts.push(new.symbols.len());
        }
        let end = new.symbols.len();
        new.fewest.resize(end, NEVER);
        let mut beyond = Some(beyond);
        // No token reaches farther.
        for _ in 0..=rules.lexicon.vocabulary.longest {
            let Some(text) = beyond else {
                break;
            };
            let next = rules.texts.split(text);
            new.fewest.push(rules.texts.fewest(text));
            new.symbols.extend(next.map(|(symbol, _)| symbol));
            beyond = next.map(|(_, after)| after);
        }
        meter.work(new.symbols.len())?;
        let is_text = new.symbols.iter().all(|symbol| *symbol < SOME_BYTE);
        new.reach.resize(end + 1, 0);
        for index in (0..end).rev() {
            let (fewest, depth) = rules.spell(new.symbols[index], &mut new.after(index + 1, None));
            new.fewest[index] = fewest;
            new.reach[index + 1] = index + depth;
        }
        for index in 0..end {
            new.reach[index + 1] = new.reach[index + 1].max(new.reach[index]);
        }
        let is_spelt = is_text && new.fewest.iter().all(|fewest| *fewest < NEVER);
        Ok(is_spelt.then_some(new))
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        let gaps = self
            .gaps
            .iter()
            .flatten()
            .map(|gap| heap::list(&gap.fewest))
            .sum::<usize>();
        let latest = |(symbols, fewest): &Before| heap::list(symbols) + heap::list(fewest);
        heap::list(&self.symbols)
            + heap::list(&self.fewest)
            + heap::list(&self.reach)
            + heap::list(&self.starts)
            + heap::list(&self.gaps)
            + gaps
            + heap::list(&self.latest)
            + self.latest.iter().map(latest).sum::<usize>()
    }

    /// Return the fewest tokens that spell `symbols`, the rest of the list, and everything after it.
    pub fn fewest(&mut self, symbols: &[u32], rest: Rest, rules: &RuleRemainders, meter: &mut Meter) -> Outcome<u32> {
        if self.kept > MAX_REMAINDER as usize {
            self.gaps.fill(None);
            self.latest.fill(Before::default());
            self.kept = 0;
        }
        self.find_gap(rest, rules, meter)?;
        let number = match rest {
            Rest::Without(place) => place as usize,
            Rest::All => self.gaps.len(),
            Rest::AfterSeparator => self.gaps.len() + 1,
        };
        let (mut known, mut fewest) = std::mem::take(&mut self.latest[number]);
        if !known.ends_with(symbols) {
            meter.work(symbols.len())?;
            self.kept += symbols.len();
            self.kept -= known.len();
            known = symbols.to_vec();
            fewest.clear();
            let count = symbols.len();
            for index in (0..count).rev() {
                let mut next = index + 1;
                let mut beyond = self.rest(rest);
                let mut after = || {
                    if next == count {
                        return beyond();
                    }
                    next += 1;
                    Some((Some(symbols[next - 1]), fewest[count - next]))
                };
                let (fewest_here, _) = rules.spell(symbols[index], &mut after);
                fewest.push(fewest_here);
            }
        }
        let found = match fewest.get(symbols.len().wrapping_sub(1)) {
            Some(found) => *found,
            None => self.rest(rest)().map_or(NEVER, |(_, fewest)| fewest),
        };
        self.latest[number] = (known, fewest);
        // If there is no number of tokens before the gap, the sum with `more` is no number either.
        Ok(if found > MAX_REMAINDER { NEVER } else { found })
    }

    /// Return `symbols` followed by the rest of the list.
    pub fn text(&self, symbols: &[u32], rest: Rest) -> Vec<u32> {
        let end = self.starts.last().copied().unwrap_or(0);
        let (first, start, after) = match rest {
            Rest::Without(place) => (0, self.starts[place as usize], self.starts[place as usize + 1]),
            Rest::All => (0, end, end),
            Rest::AfterSeparator => (self.separator, end, end),
        };
        [symbols, &self.symbols[first..start], &self.symbols[after..end]].concat()
    }

    /// Return an iterator as `after` does, for the rest of the list.
    fn rest(&self, rest: Rest) -> impl FnMut() -> Option<(Option<u32>, u32)> + '_ {
        let (first, gap) = match rest {
            Rest::Without(place) => (0, self.gaps[place as usize].as_ref()),
            Rest::All => (0, None),
            Rest::AfterSeparator => (self.separator, None),
        };
        self.after(first, gap)
    }

    /// Return the symbols one by one, each with the number of tokens for it and everything after it.
    fn after<'a>(&'a self, mut index: usize, gap: Option<&'a Gap>) -> impl FnMut() -> Option<(Option<u32>, u32)> + 'a {
        move || {
            let mut changed = None;
            if let Some(gap) = gap {
                if index == gap.start {
                    index = gap.end;
                } else if index < gap.start {
                    let own = || self.fewest[index].wrapping_add_signed(gap.more);
                    changed = Some(gap.fewest.get(gap.start - 1 - index).copied().unwrap_or_else(own));
                }
            }
            let fewest = changed.or_else(|| self.fewest.get(index).copied())?;
            let symbol = self.symbols.get(index).copied();
            index += 1;
            Some((symbol, fewest))
        }
    }

    /// Spell the text without a member.
    fn find_gap(&mut self, rest: Rest, rules: &RuleRemainders, meter: &mut Meter) -> Outcome<()> {
        let Rest::Without(place) = rest else {
            return Ok(());
        };
        let place = place as usize;
        if self.gaps[place].is_some() {
            return Ok(());
        }
        let mut gap = Gap {
            start: self.starts[place],
            end: self.starts[place + 1],
            fewest: Vec::new(),
            more: 0,
        };
        // The last symbol with the current difference.
        let mut last = gap.start;
        for index in (0..gap.start).rev() {
            let (fewest, _) = rules.spell(self.symbols[index], &mut self.after(index + 1, Some(&gap)));
            gap.fewest.push(fewest);
            let more = fewest.wrapping_sub(self.fewest[index]) as i32;
            if more != gap.more || last == gap.start {
                (gap.more, last) = (more, index);
            }
            if self.reach[index] <= last {
                break;
            }
        }
        meter.work(gap.fewest.len())?;
        self.kept += gap.fewest.len();
        self.gaps[place] = Some(gap);
        Ok(())
    }
}
