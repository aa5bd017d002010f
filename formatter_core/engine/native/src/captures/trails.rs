//! Trails: the captures on which several parses of an unfinished text agree.
//!
//! The marks of a parse are the captures that it opens and closes, in order. Suppose that parses have the same marks up
//! to a column and different marks in that column: then they part there. They agree on the marks before the column, and
//! on the marks that all of them begin with in that column. But if one of the parses opens or closes captures of one
//! name twice in that column, they agree on nothing in it; this makes the result independent of the order in which
//! parses are combined. `docs/decisions/agreement-of-parses.md` shows why.

use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::base::number_sets::{NumberSets, EMPTY_SET};
use crate::captures::forest::Forest;

/// A column number that is later than every column.
pub const NEVER: u32 = u32::MAX;
/// Takes the place of a set of symbols if some parse has one symbol twice.
const REPEATED: u32 = u32::MAX;
const NO_MARKS: u32 = 0;

/// The marks on which a set of parses agrees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trail {
    /// The number of the list of marks.
    pub marks: u32,
    /// The column in which the parses part, or `NEVER`.
    pub parted: u32,
    /// The set of the symbols that the parses have in that column.
    symbols: u32,
}

impl Trail {
    /// The trail of a parse without marks.
    pub const EMPTY: Trail = Trail {
        marks: NO_MARKS,
        parted: NEVER,
        symbols: EMPTY_SET,
    };
}

/// The last mark of a list: a capture that opens or closes in a column.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Twice the number of the capture's name, plus one if the capture opens.
    pub symbol: u32,
    pub column: u32,
}

pub struct Trails {
    /// Lists of marks by number. The parent of a list is the list without its last mark; equal lists have one number.
    lists: Vec<Mark>,
    forest: Forest,
    known: FastMap<(u32, Mark), u32>,
    appended: FastMap<(u32, u32), u32>,
    sets: NumberSets,
}

impl Trails {
    pub fn new() -> Self {
        let mut forest = Forest::default();
        forest.add(NEVER);
        Trails {
            lists: vec![Mark { symbol: 0, column: 0 }],
            forest,
            known: FastMap::default(),
            appended: FastMap::default(),
            sets: NumberSets::new(),
        }
    }

    /// Return the heap memory in bytes, see `heap`.
    pub fn heap(&self) -> usize {
        heap::list(&self.lists)
            + self.forest.heap()
            + heap::table(&self.known)
            + heap::table(&self.appended)
            + self.sets.heap()
    }

    /// Return the trail of the parses after a mark in the last column.
    pub fn with(&mut self, trail: Trail, mark: Mark, meter: &mut Meter) -> Outcome<Trail> {
        meter.work(1)?;
        if trail.parted == NEVER {
            let marks = self.list(trail.marks, mark);
            return Ok(Trail { marks, ..trail });
        }
        if trail.parted < mark.column || trail.symbols == REPEATED {
            return Ok(trail);
        }
        let symbols = self.sets.with(trail.symbols, mark.symbol).unwrap_or(REPEATED);
        self.parted(trail.marks, mark.column, symbols, meter)
    }

    /// Return the trail of all parses of both trails.
    pub fn either(&mut self, one: Trail, other: Trail, meter: &mut Meter) -> Outcome<Trail> {
        if one == other {
            return Ok(one);
        }
        let (shared, first, second) = self.forest.parting(one.marks, other.marks, meter)?;
        let column = |list: Option<u32>| list.map_or(NEVER, |list| self.lists[list as usize].column);
        let parted = one.parted.min(other.parted).min(column(first)).min(column(second));
        let (one, other) = (self.symbols(one, parted, meter)?, self.symbols(other, parted, meter)?);
        let symbols = match one == REPEATED || other == REPEATED {
            true => REPEATED,
            false => self.sets.union(one, other),
        };
        self.parted(shared, parted, symbols, meter)
    }

    /// Return the trail of the first parses, which end in a column, each followed by the second parses, which begin
    /// there.
    pub fn joined(&mut self, first: Trail, second: Trail, column: u32, meter: &mut Meter) -> Outcome<Trail> {
        if first == Trail::EMPTY || first.parted < column {
            return Ok(if first == Trail::EMPTY { second } else { first });
        }
        let (parted, marks) = match first.parted == column {
            true => (column, first.marks),
            false => (second.parted, self.append(first.marks, second.marks, meter)?),
        };
        if parted != column {
            let symbols = second.symbols;
            return Ok(Trail { marks, parted, symbols });
        }
        let (one, other) = (
            self.symbols(first, column, meter)?,
            self.symbols(second, column, meter)?,
        );
        let symbols = match one == REPEATED || other == REPEATED {
            true => REPEATED,
            false => self.sets.disjoint_union(one, other).unwrap_or(REPEATED),
        };
        self.parted(marks, column, symbols, meter)
    }

    /// Return how many marks the two lists share at their beginning, and the marks of the second list after those.
    pub fn after(&self, one: u32, other: u32, meter: &mut Meter) -> Outcome<(usize, Vec<Mark>)> {
        let (shared, ..) = self.forest.parting(one, other, meter)?;
        let mut marks = Vec::new();
        let mut list = other;
        while list != shared {
            meter.work(1)?;
            marks.push(self.lists[list as usize]);
            list = self.forest.parent(list);
        }
        marks.reverse();
        Ok((self.forest.depth(shared) as usize, marks))
    }

    fn parted(&self, mut marks: u32, parted: u32, symbols: u32, meter: &mut Meter) -> Outcome<Trail> {
        while symbols == REPEATED && marks != NO_MARKS && self.lists[marks as usize].column >= parted {
            meter.work(1)?;
            marks = self.forest.parent(marks);
        }
        Ok(Trail { marks, parted, symbols })
    }

    /// Return the set of the symbols that parses have in a column before which they do not part.
    fn symbols(&mut self, trail: Trail, column: u32, meter: &mut Meter) -> Outcome<u32> {
        if trail.parted == column {
            return Ok(trail.symbols);
        }
        let lists = &self.lists;
        let is_far = |list: u32| lists[list as usize].column <= column;
        let mut list = self.forest.nearest(trail.marks, is_far, meter)?;
        let mut symbols = EMPTY_SET;
        while list != NO_MARKS && self.lists[list as usize].column == column {
            meter.work(1)?;
            match self.sets.with(symbols, self.lists[list as usize].symbol) {
                Some(more) => symbols = more,
                None => return Ok(REPEATED),
            }
            list = self.forest.parent(list);
        }
        Ok(symbols)
    }

    fn list(&mut self, before: u32, mark: Mark) -> u32 {
        let next = self.lists.len() as u32;
        let list = *self.known.entry((before, mark)).or_insert(next);
        if list == next {
            self.lists.push(mark);
            self.forest.add(before);
        }
        list
    }

    /// Append a list to another one. Results are cached, so if a list has grown, only its new marks cost anything.
    fn append(&mut self, first: u32, second: u32, meter: &mut Meter) -> Outcome<u32> {
        if first == NO_MARKS {
            return Ok(second);
        }
        let mut rest = second;
        let mut missing = Vec::new();
        let mut whole = loop {
            if rest == NO_MARKS {
                break first;
            }
            if let Some(known) = self.appended.get(&(first, rest)) {
                break *known;
            }
            meter.work(1)?;
            missing.push(self.lists[rest as usize]);
            rest = self.forest.parent(rest);
        };
        for mark in missing.into_iter().rev() {
            whole = self.list(whole, mark);
        }
        if second != NO_MARKS {
            self.appended.insert((first, second), whole);
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Usage;

    fn parse(trails: &mut Trails, marks: &[(u32, u32)], meter: &mut Meter) -> Trail {
        marks.iter().fold(Trail::EMPTY, |trail, &(symbol, column)| {
            trails.with(trail, Mark { symbol, column }, meter).unwrap()
        })
    }

    /// Combines parses of up to five marks in two columns in two orders, whole and in two halves.
    #[test]
    fn the_order_does_not_matter() {
        let usage = Usage::default();
        let mut meter = Meter::new(u64::MAX, &usage, 1);
        let meter = &mut meter;
        let mut trails = Trails::new();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % bound) as u32
        };
        for _ in 0..20_000 {
            let mut some = |column: u32, later: u32| -> Vec<Vec<(u32, u32)>> {
                let mut marks = || {
                    let columns = [column, column, column + later];
                    let mut marks: Vec<_> = (0..below(4)).map(|index| (below(3), columns[index as usize])).collect();
                    marks.sort_by_key(|mark| mark.1);
                    marks
                };
                let first = marks();
                vec![first, marks(), marks()]
            };
            let (firsts, seconds) = (some(1, 0), some(1, 1));
            let mut wholes = Vec::new();
            for first in &firsts {
                for second in &seconds {
                    wholes.push(parse(&mut trails, &[&first[..], &second[..]].concat(), meter));
                }
            }
            let all = |trails: &mut Trails, parses: &[Trail], meter: &mut Meter| {
                let one = parses
                    .iter()
                    .skip(1)
                    .fold(parses[0], |one, other| trails.either(one, *other, meter).unwrap());
                let last = parses[parses.len() - 1];
                let back = parses
                    .iter()
                    .rev()
                    .skip(1)
                    .fold(last, |one, other| trails.either(*other, one, meter).unwrap());
                assert_eq!(one, back);
                one
            };
            let whole = all(&mut trails, &wholes, meter);
            let halves = [firsts, seconds].map(|half| {
                let parses: Vec<_> = half.iter().map(|marks| parse(&mut trails, marks, meter)).collect();
                all(&mut trails, &parses, meter)
            });
            assert_eq!(trails.joined(halves[0], halves[1], 1, meter).unwrap(), whole);
        }
    }
}
