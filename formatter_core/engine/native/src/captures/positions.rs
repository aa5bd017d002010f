//! The bodies of rules as positions, with alternatives in order of preference. The parser follows these positions.
//!
//! A repeat whose rounds may be empty or are counted becomes a rule of its own, and so does its round: then the count
//! belongs to one call. A list of members and each of its alternatives become rules too: then the memory of past
//! members belongs to one call.

mod build;
mod facts;

use std::mem::size_of_val;
use std::sync::OnceLock;

use crate::base::byteset::ByteSet;
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::grammar::members::Members;

/// A position in the body of a rule.
pub enum Position {
    /// The rule is complete.
    End,
    /// A terminal, by its node.
    Terminal {
        node: u32,
        nullable: bool,
        next: u32,
    },
    Token {
        token: u32,
        next: u32,
    },
    /// A call of a rule, and the position after the call.
    Call {
        rule: u32,
        next: u32,
    },
    /// The beginning of a rule that is called last: the parser does not return from it.
    Jump(u32),
    /// Any of these positions, the preferred one first.
    Split(Box<[u32]>),
    Open {
        name: u32,
        next: u32,
    },
    Close {
        name: u32,
        next: u32,
    },
    /// Rounds of a rule; the item at this position has the count. After the last round the rule of the repeat is
    /// complete.
    Rounds {
        rule: u32,
        minimum: u32,
        maximum: u32,
        greedy: bool,
    },
    /// The alternatives of the next member of a list; the item at this position has a memory of past members. The
    /// alternatives are rules, numbered from `first` on.
    Choose {
        list: u32,
        first: u32,
        next: u32,
    },
    /// A member is complete: a separator and another member follow, or the list ends.
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
    /// True if a parse of the rule may contain captures.
    pub captures: bool,
    /// True if the rule may derive itself over the same text, inside or around another derivation of it.
    pub cyclic: bool,
    /// True if the grammar contains this rule; false for a rule that we made of a part of one.
    pub named: bool,
    /// The rank of the rule's end in the order in which we process a column, see `Plan::ranks`.
    pub end_rank: u32,
}

pub struct Plan {
    pub positions: Vec<Position>,
    pub rules: Vec<Rule>,
    pub members: Vec<Members>,
    /// For each position, the rule of the grammar that contains it.
    pub homes: Vec<u32>,
    /// For each node, the bytes that a terminal may begin with; computed on first use.
    pub first_bytes: Vec<OnceLock<Box<ByteSet>>>,
    /// For each position, the next position that is not a mark (a capture that opens or closes).
    past_marks: Vec<u32>,
    /// For each position, its rank. Within a column, a position mostly has a higher rank than the positions that lead
    /// to it without a byte.
    pub ranks: Vec<u32>,
}

/// The rule that derives the whole text: it calls the start rule of the grammar.
pub const START: u32 = 0;

impl Plan {
    /// Return the heap memory in bytes, see `heap`; parts that are computed later are not included.
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

    /// Return the next position that is not a mark.
    #[inline]
    pub fn past_marks(&self, position: u32) -> u32 {
        self.past_marks[position as usize]
    }

    /// Return the captures that open or close from a position on, before anything else: the number of each name, and
    /// whether the capture opens.
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

    /// Rank positions and the ends of rules: a position that is reached without a byte gets a higher rank than the one
    /// before it, as far as there is such an order.
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
        // We walk depth-first: the position that is finished last gets the first rank.
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
