//! Ordered terms: terms whose choices are ranked, and the moves of each in order of preference.

use std::rc::Rc;

use super::Orders;
use crate::base::hash::FastSet;
use crate::base::limits::{Fault, Limit, Meter, Outcome};
use crate::base::tuning::MAX_ORDERED_DEPTH;
use crate::captures::grammar_tree::{Node, Written};
use crate::regular::term::{Term, EMPTY, NOTHING, UNBOUNDED};
use crate::tokens::lexicon::Lexicon;

/// A number that identifies an ordered term.
pub(super) type Ordered = u32;
pub(super) const DONE: Ordered = 0;

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Done,
    /// A term that has no choices inside.
    Atom(Term),
    Concatenation(Ordered, Ordered),
    Alternation(Box<[Ordered]>),
    Repeat {
        item: Ordered,
        minimum: u32,
        maximum: u32,
        greedy: bool,
    },
}

/// A move of a term: it takes a byte of a range, or ends. Lists contain moves in order of preference.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Way {
    End,
    Byte { low: u8, high: u8, target: Ordered },
}

pub(super) type Ways = Rc<[Way]>;

impl Orders {
    pub(super) fn build(&mut self, number: u32, written: &Written, depth: u32) -> Outcome<Ordered> {
        if let Some(&built) = self.built.get(&number) {
            return Ok(built);
        }
        if depth > MAX_ORDERED_DEPTH {
            return Err(Fault::Limit(Limit::Work));
        }
        let built = match &written.nodes[number as usize] {
            Node::Sequence(items) => {
                let mut whole = DONE;
                for item in items.iter().rev() {
                    let item = self.build(*item, written, depth + 1)?;
                    whole = self.concatenation(item, whole);
                }
                whole
            }
            Node::Choice(items) => {
                let items: Outcome<Vec<_>> = items.iter().map(|item| self.build(*item, written, depth + 1)).collect();
                self.intern(Kind::Alternation(items?.into()))
            }
            Node::Repeat {
                item,
                minimum,
                maximum,
                greedy,
            } => {
                let item = self.build(*item, written, depth + 1)?;
                self.repeat(item, *minimum, *maximum, *greedy)
            }
            Node::Terminal(item) => self.build(*item, written, depth + 1)?,
            _ => self.atom(written.terms[number as usize]),
        };
        self.built.insert(number, built);
        Ok(built)
    }

    fn intern(&mut self, kind: Kind) -> Ordered {
        self.kinds.intern(kind).0
    }

    fn atom(&mut self, term: Term) -> Ordered {
        match term {
            EMPTY => DONE,
            NOTHING => self.intern(Kind::Alternation(Box::default())),
            _ => self.intern(Kind::Atom(term)),
        }
    }

    fn concatenation(&mut self, head: Ordered, tail: Ordered) -> Ordered {
        match (head, tail) {
            (DONE, _) => tail,
            (_, DONE) => head,
            _ => self.intern(Kind::Concatenation(head, tail)),
        }
    }

    fn repeat(&mut self, item: Ordered, minimum: u32, maximum: u32, greedy: bool) -> Ordered {
        match maximum {
            0 => DONE,
            _ => self.intern(Kind::Repeat {
                item,
                minimum,
                maximum,
                greedy,
            }),
        }
    }

    pub(super) fn ways_of(&mut self, term: Ordered, lexicon: &Lexicon, meter: &mut Meter, depth: u32) -> Outcome<Ways> {
        if term == DONE {
            return Ok([Way::End].into());
        }
        if let Some(ways) = self.ways.get(&term) {
            return Ok(ways.clone());
        }
        if depth > MAX_ORDERED_DEPTH {
            return Err(Fault::Limit(Limit::Work));
        }
        let ways: Ways = match self.kinds.get(term).clone() {
            Kind::Done => [Way::End].into(),
            Kind::Atom(state) => self.ways_of_atom(state, lexicon, meter)?.into(),
            Kind::Alternation(items) => {
                let mut ways = Vec::new();
                for item in items.iter() {
                    ways.extend_from_slice(&self.ways_of(*item, lexicon, meter, depth + 1)?);
                }
                once(ways).into()
            }
            Kind::Concatenation(..) => self.ways_of_chain(term, lexicon, meter, depth)?,
            Kind::Repeat {
                item,
                minimum,
                maximum,
                greedy,
            } => {
                let ways = self.ways_of(item, lexicon, meter, depth + 1)?;
                self.ways_of_repeat(&ways, item, (minimum, maximum), greedy, meter)?
            }
        };
        meter.work(4 * ways.len() + 4)?;
        self.ways.insert(term, ways.clone());
        Ok(ways)
    }

    fn ways_of_atom(&mut self, state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<Vec<Way>> {
        if !lexicon.derivatives()?.live(state, meter)? {
            return Ok(Vec::new());
        }
        let mut ways = Vec::new();
        for (low, high, step) in lexicon.row(state, meter)?.live() {
            let target = self.atom(step.state);
            ways.push(Way::Byte { low, high, target });
        }
        if lexicon.derivatives()?.terms.nullable(state) {
            ways.push(Way::End);
        }
        Ok(ways)
    }

    /// Compute the moves of a sequence. We go from the last part backwards instead of recursing, because a sequence may
    /// have very many items.
    fn ways_of_chain(&mut self, term: Ordered, lexicon: &Lexicon, meter: &mut Meter, depth: u32) -> Outcome<Ways> {
        let mut chain: Vec<(Ordered, Ways, Ordered)> = Vec::new();
        let mut last = term;
        let mut tail: Ways = loop {
            if let (Some(ways), false) = (self.ways.get(&last), chain.is_empty()) {
                break ways.clone();
            }
            let &Kind::Concatenation(head, rest) = self.kinds.get(last) else {
                break self.ways_of(last, lexicon, meter, depth + 1)?;
            };
            let ways = self.ways_of(head, lexicon, meter, depth + 1)?;
            let goes_on = ways.contains(&Way::End);
            chain.push((last, ways, rest));
            if !goes_on {
                break Vec::new().into();
            }
            last = rest;
        };
        while let Some((part, ways, rest)) = chain.pop() {
            tail = self.followed(&ways, rest, &tail, meter)?;
            self.ways.insert(part, tail.clone());
        }
        Ok(tail)
    }

    fn ways_of_repeat(
        &mut self,
        ways: &Ways,
        item: Ordered,
        (minimum, maximum): (u32, u32),
        greedy: bool,
        meter: &mut Meter,
    ) -> Outcome<Ways> {
        // A required round that may be empty lets the next round begin. Here, too, we go backwards from the last round.
        let least = if ways.contains(&Way::End) { 0 } else { minimum };
        let mut result: Ways = Vec::new().into();
        for count in least..=minimum {
            let left = match maximum {
                UNBOUNDED => UNBOUNDED,
                _ => maximum - minimum + count,
            };
            let fewer = if left == UNBOUNDED {
                left
            } else {
                left.saturating_sub(1)
            };
            let rest = self.repeat(item, count.saturating_sub(1), fewer, greedy);
            result = if left == 0 {
                [Way::End].into()
            } else if count > 0 {
                self.followed(ways, rest, &result, meter)?
            } else {
                let rounds = self.followed(ways, rest, &[], meter)?;
                let rounds = rounds.iter().copied().filter(|way| *way != Way::End);
                if greedy {
                    rounds.chain([Way::End]).collect()
                } else {
                    [Way::End].into_iter().chain(rounds).collect()
                }
            };
            let known = self.repeat(item, count, left, greedy);
            self.ways.insert(known, result.clone());
        }
        Ok(result)
    }

    /// Compute the moves of a part with `tail` after it: the moves of the tail replace the end of the part.
    fn followed(&mut self, ways: &[Way], tail: Ordered, tail_ways: &[Way], meter: &mut Meter) -> Outcome<Ways> {
        let mut result = Vec::with_capacity(ways.len());
        for way in ways {
            match *way {
                Way::End => result.extend_from_slice(tail_ways),
                Way::Byte { low, high, target } => {
                    let target = self.concatenation(target, tail);
                    result.push(Way::Byte { low, high, target });
                }
            }
        }
        meter.work(result.len() + 1)?;
        Ok(once(result).into())
    }
}

/// Remove each move that the list already contains further ahead.
fn once(ways: Vec<Way>) -> Vec<Way> {
    let mut seen = FastSet::default();
    ways.into_iter().filter(|way| seen.insert(*way)).collect()
}
