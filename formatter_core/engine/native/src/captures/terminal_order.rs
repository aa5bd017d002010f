//! The order in which a terminal prefers its ends: the order in which a backtracking matcher would try them.
//!
//! The inner choices of a terminal count as if they were written out in the rule. We follow them for all ends at once
//! with a list of threads in order of preference (Pike's matcher; Cox, "Regular Expression Matching: the Virtual
//! Machine Approach", 2009). A thread is an ordered partial derivative of the terminal; of equal threads we keep the
//! preferred one. Most terminals simply prefer the longer of two ends.

mod ordered_terms;
mod preference;

use std::cmp::Ordering;

use self::ordered_terms::{Kind, Ordered, Way, Ways};
use crate::base::hash::{FastMap, FastSet, Interner};
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::captures::grammar_tree::Written;
use crate::tokens::lexicon::Lexicon;

pub use self::preference::{preferences, Preferred};

/// The ordered terms of one text, and the order of the ends of its terminals.
pub struct Orders {
    kinds: Interner<Kind>,
    ways: FastMap<Ordered, Ways>,
    built: FastMap<u32, Ordered>,
    ends: FastMap<(u32, u32), Ends>,
}

/// A question that asks which of two ends of a terminal that begins at `start` is preferred.
pub struct Question {
    pub node: u32,
    pub start: u32,
    pub one: u32,
    pub other: u32,
}

impl Orders {
    /// Return the heap memory in bytes, see `heap`; the lists of moves of single terms are not included, as they are
    /// short.
    pub fn heap(&self) -> usize {
        self.kinds.heap() + heap::table(&self.ways) + heap::table(&self.built) + heap::table(&self.ends)
    }

    pub fn new() -> Self {
        let mut kinds = Interner::new();
        kinds.intern(Kind::Done);
        Orders {
            kinds,
            ways: FastMap::default(),
            built: FastMap::default(),
            ends: FastMap::default(),
        }
    }

    /// Compare two ends. `text` must reach at least the later end; numbers above 255 in it are not bytes.
    pub fn compare(
        &mut self,
        asked: &Question,
        text: &[u16],
        written: &Written,
        lexicon: &Lexicon,
        meter: &mut Meter,
    ) -> Outcome<Ordering> {
        let key = (asked.node, asked.start);
        let mut ends = match self.ends.remove(&key) {
            Some(ends) => ends,
            None => {
                let root = self.build(asked.node, written, 0)?;
                Ends::new(root, asked.start)
            }
        };
        let last = asked.one.max(asked.other);
        self.find_end(&mut ends, lexicon, meter)?;
        while ends.position < last && !ends.threads.is_empty() {
            let step = text[ends.position as usize];
            self.advance(&mut ends, step, lexicon, meter)?;
            self.find_end(&mut ends, lexicon, meter)?;
        }
        meter.work(if ends.ranks.is_empty() { ends.list.len() } else { 1 })?;
        ends.rank();
        let rank = |end: u32| ends.ranks.get(&end).copied().unwrap_or(u32::MAX);
        let order = rank(asked.one).cmp(&rank(asked.other));
        self.ends.insert(key, ends);
        Ok(order)
    }

    /// Insert the end at the present position into the order: it belongs to the first thread that may end.
    fn find_end(&mut self, ends: &mut Ends, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<()> {
        if ends.end.is_some() {
            return Ok(());
        }
        for index in 0..ends.threads.len() {
            let (term, place) = ends.threads[index];
            meter.work(1)?;
            if self.ways_of(term, lexicon, meter, 0)?.contains(&Way::End) {
                ends.end = Some((index, ends.insert(place, Some(ends.position))));
                break;
            }
        }
        Ok(())
    }

    fn advance(&mut self, ends: &mut Ends, byte: u16, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<()> {
        let mut following: Vec<(Ordered, u32)> = Vec::new();
        let mut seen: FastSet<Ordered> = FastSet::default();
        let end = ends.end.take();
        for (index, (term, mut place)) in std::mem::take(&mut ends.threads).into_iter().enumerate() {
            let ways = self.ways_of(term, lexicon, meter, 0)?;
            meter.work(ways.len() + 1)?;
            for way in ways.iter() {
                match (*way, end) {
                    // Moves that are preferred to this end were inserted before it.
                    (Way::End, Some((ended, end))) if ended == index => place = end,
                    (Way::Byte { low, high, target }, _)
                        if u16::from(low) <= byte && byte <= u16::from(high) && seen.insert(target) =>
                    {
                        place = ends.insert(place, None);
                        following.push((target, place));
                    }
                    _ => {}
                }
            }
        }
        ends.threads = following;
        ends.position += 1;
        Ok(())
    }
}

/// The ends of one terminal that begins at one position, up to the position that was followed.
struct Ends {
    position: u32,
    threads: Vec<(Ordered, u32)>,
    /// The thread that ends at this position, and the place of its end in `list`.
    end: Option<(usize, u32)>,
    /// A linked list in order of preference: ends, and places where threads will insert theirs; and the next entry of
    /// each.
    list: Vec<(Option<u32>, u32)>,
    ranks: FastMap<u32, u32>,
}

const LAST: u32 = u32::MAX;

impl Ends {
    fn new(root: Ordered, start: u32) -> Self {
        Ends {
            position: start,
            threads: vec![(root, 0)],
            end: None,
            list: vec![(None, LAST)],
            ranks: FastMap::default(),
        }
    }

    fn insert(&mut self, place: u32, end: Option<u32>) -> u32 {
        if end.is_some() {
            self.ranks.clear();
        }
        let after = self.list[place as usize].1;
        self.list.push((end, after));
        let new = self.list.len() as u32 - 1;
        self.list[place as usize].1 = new;
        new
    }

    fn rank(&mut self) {
        if !self.ranks.is_empty() {
            return;
        }
        let mut place = 0;
        while place != LAST {
            let (end, after) = self.list[place as usize];
            if let Some(end) = end {
                self.ranks.insert(end, self.ranks.len() as u32);
            }
            place = after;
        }
    }
}
