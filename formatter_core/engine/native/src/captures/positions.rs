//! The bodies of rules as positions, in the order of preference: what the parser follows.
//!
//! A repeat whose rounds may be empty, or are counted, becomes a rule of its own, and so do its rounds: the count then
//! belongs to one call. So do a list of members and each of their ways: what has come belongs to one call.

mod build;
mod facts;

use std::mem::size_of_val;
use std::sync::OnceLock;

use crate::base::byteset::ByteSet;
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::grammar::members::Members;

/// A place in a rule's body.
pub enum Position {
    /// The rule is complete.
    End,
    /// The node of a terminal.
    Terminal {
        node: u32,
        nullable: bool,
        next: u32,
    },
    Token {
        token: u32,
        next: u32,
    },
    /// A rule, and where to go on after it.
    Call {
        rule: u32,
        next: u32,
    },
    /// The beginning of a rule that is called in last place: there is nothing to come back to.
    Jump(u32),
    /// Any of these places, the preferred one first.
    Split(Box<[u32]>),
    Open {
        name: u32,
        next: u32,
    },
    Close {
        name: u32,
        next: u32,
    },
    /// Rounds of a rule, of which the item that stands here has a count; then the rule that stands for them is complete.
    Rounds {
        rule: u32,
        minimum: u32,
        maximum: u32,
        greedy: bool,
    },
    /// The ways of the next one of a list of members, of which the item that stands here has a memory: rules, from
    /// `first` on.
    Choose {
        list: u32,
        first: u32,
        next: u32,
    },
    /// A member has come: the separator and another one, or the end.
    Came {
        list: u32,
        separator: u32,
    },
}

/// The position at which every rule ends.
pub const END: u32 = 0;

pub struct Rule {
    pub start: u32,
    pub nullable: bool,
    /// Whether a parse of it may hold captures.
    pub captures: bool,
    /// Whether a derivation of itself, over the same text, may stand in it or around it.
    pub cyclic: bool,
    /// Whether it is a rule of the grammar, and not one that stands for a part of one.
    pub named: bool,
    /// Where its end stands in the order in which a column is worked out, see `Plan::ranks`.
    pub end_rank: u32,
}

pub struct Plan {
    pub positions: Vec<Position>,
    pub rules: Vec<Rule>,
    pub members: Vec<Members>,
    /// For each position: the rule of the grammar that it stands in.
    pub homes: Vec<u32>,
    /// For each node: the bytes that a terminal may begin with, once they have been asked for.
    pub first_bytes: Vec<OnceLock<Box<ByteSet>>>,
    /// For each position: where it leads past marks, the captures that open or close.
    past_marks: Vec<u32>,
    /// For each position: in a column, what leads to it without a byte mostly has a lower one.
    pub ranks: Vec<u32>,
}

/// The rule that derives the whole text: a call of the grammar's own start.
pub const START: u32 = 0;

impl Plan {
    /// See `heap`; all that is not found out later.
    pub fn heap(&self) -> usize {
        let splits = self.positions.iter().map(|position| match position {
            Position::Split(places) => size_of_val(&**places),
            _ => 0,
        });
        heap::list(&self.positions)
            + splits.sum::<usize>()
            + heap::list(&self.rules)
            + heap::list(&self.members)
            + self.members.iter().map(Members::heap).sum::<usize>()
            + heap::list(&self.homes)
            + heap::list(&self.first_bytes)
            + heap::list(&self.past_marks)
            + heap::list(&self.ranks)
    }

    pub fn position(&self, position: u32) -> &Position {
        &self.positions[position as usize]
    }

    /// Where a position leads past marks.
    #[inline]
    pub fn past_marks(&self, position: u32) -> u32 {
        self.past_marks[position as usize]
    }

    /// The captures that open or close from a position on, before there is anything else: the name of each, and whether it
    /// opens.
    pub fn marks(&self, mut position: u32) -> impl Iterator<Item = (u32, bool)> + '_ {
        std::iter::from_fn(move || {
            let (mark, next) = match *self.position(position) {
                Position::Open { name, next } => ((name, true), next),
                Position::Close { name, next } => ((name, false), next),
                _ => return None,
            };
            position = next;
            Some(mark)
        })
    }

    /// Number positions and the ends of rules so that what follows without a byte comes later, as far as there is such
    /// an order.
    fn rank(&mut self, owners: &[u32], meter: &mut Meter) -> Outcome<()> {
        let count = self.positions.len();
        let end_of = |rule: u32| count + rule as usize;
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); count + self.rules.len()];
        meter.work(4 * after.len())?;
        for (number, position) in self.positions.iter().enumerate().skip(1) {
            let owner = owners[number];
            let place = |next: u32| if next == END { end_of(owner) } else { next as usize };
            match position {
                Position::End => {}
                Position::Terminal { nullable, next, .. } => {
                    if *nullable {
                        after[number].push(place(*next));
                    }
                }
                Position::Token { .. } => {}
                Position::Call { rule, next } => {
                    after[number].push(self.rules[*rule as usize].start as usize);
                    after[number].push(place(*next));
                    after[end_of(*rule)].push(place(*next));
                }
                Position::Jump(rule) => {
                    after[number].push(self.rules[*rule as usize].start as usize);
                    after[end_of(*rule)].push(end_of(owner));
                }
                Position::Split(places) => after[number].extend(places.iter().map(|next| place(*next))),
                Position::Open { next, .. } | Position::Close { next, .. } => after[number].push(place(*next)),
                Position::Rounds { rule, .. } => {
                    after[number].push(end_of(owner));
                    after[end_of(*rule)].push(number);
                }
                Position::Choose { list, first, next } => {
                    for rule in (*first..).take(self.members[*list as usize].ways.len()) {
                        after[number].push(self.rules[rule as usize].start as usize);
                        after[end_of(rule)].push(*next as usize);
                    }
                }
                Position::Came { separator, .. } => after[number].extend([*separator as usize, end_of(owner)]),
            }
        }
        // A walk in depth: what is finished last comes first.
        let mut ranks = vec![u32::MAX; after.len()];
        let mut seen = vec![false; after.len()];
        let mut next = after.len() as u32;
        for root in 0..after.len() {
            let mut stack = vec![(root, 0)];
            while let Some((place, index)) = stack.pop() {
                if index == 0 && std::mem::replace(&mut seen[place], true) {
                    continue;
                }
                meter.work(1)?;
                match after[place].get(index) {
                    Some(&following) => stack.extend([(place, index + 1), (following, 0)]),
                    None => {
                        next -= 1;
                        ranks[place] = next;
                    }
                }
            }
        }
        for (rule, rank) in self.rules.iter_mut().zip(ranks.split_off(count)) {
            rule.end_rank = rank;
        }
        self.ranks = ranks;
        Ok(())
    }
}
