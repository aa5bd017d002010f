//! A grammar as a network of positions. A position says what may come, and which position is next.
//!
//! Choices and repeats are edges of the network, so only calls of rules need a frame on the stack.

mod build;
mod draft;
mod shared;
mod solve;

use std::mem::size_of_val;
use std::sync::Arc;

use crate::base::heap::{self, Counter};
use crate::base::limits::{Fault, Limits, Meter, Outcome};
use crate::base::span::Span;
use crate::grammar::decode::Item;
use crate::grammar::members::Members;
use crate::regular::derive::Derivatives;
use crate::regular::distinct::Seen;
use crate::regular::term::{Term, Terms};
use crate::tokens::lexicon::Lexicon;
use build::Builder;
pub use draft::Draft;
use solve::{solve, NULLABLE, PRODUCTIVE};

/// A position in a rule's body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The end of the rule.
    End,
    /// A terminal; `nullable` tells whether it may be empty.
    Terminal {
        term: Term,
        nullable: bool,
        next: u32,
    },
    Token {
        token: u32,
        next: u32,
    },
    Call {
        rule: u32,
        next: u32,
    },
    /// The end of a region with a budget; it takes no text.
    Cut {
        next: u32,
    },
    /// A choice between these places of the network.
    Split(Span),
    /// The ways of the next member in the list with this number.
    Choose(u32),
    /// The first terminal of a distinct member. It excludes texts that begin with a value that has come.
    Distinct {
        term: Term,
        next: u32,
    },
    /// The end of that terminal.
    Value {
        next: u32,
        /// See `Derivatives::strings_are_free`.
        is_free: bool,
    },
    /// The end of a member that came in this way.
    Came {
        members: u32,
        way: u32,
    },
}

impl Position {
    /// Return a key that identifies the position; splits share one key.
    #[inline]
    fn key(self) -> (u64, u64) {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        match self {
            Position::Terminal { term, next, .. } => (0, pair(term, next)),
            Position::Token { token, next } => (1, pair(token, next)),
            Position::Call { rule, next } => (2, pair(rule, next)),
            Position::Cut { next } => (3, pair(0, next)),
            Position::Distinct { term, next } => (4, pair(term, next)),
            Position::Value { next, is_free } => (5, pair(is_free.into(), next)),
            Position::Choose(list) => (6, pair(list, 0)),
            Position::Came { members, way } => (7, pair(members, way)),
            Position::Split(_) | Position::End => (8, 0),
        }
    }

    /// Return the next places in the same body; for a split, its alternatives.
    #[inline]
    fn following<'a>(&'a self, places: &'a [u32]) -> &'a [u32] {
        match self {
            Position::Terminal { next, .. }
            | Position::Token { next, .. }
            | Position::Call { next, .. }
            | Position::Cut { next }
            | Position::Distinct { next, .. }
            | Position::Value { next, .. } => std::slice::from_ref(next),
            Position::Split(span) => span.of(places),
            Position::End | Position::Choose(_) | Position::Came { .. } => &[],
        }
    }
}

/// The position at which every rule ends.
pub const END: u32 = 0;

#[derive(Clone)]
pub struct Rule {
    pub start: u32,
    pub nullable: bool,
    /// The number of the list of members, if the rule is one; its frames remember the members that have come.
    pub members: Option<u32>,
    /// The maximum number of tokens that may begin in it, if there is a limit.
    pub budget: Option<u32>,
}

impl Rule {
    /// Return whether the rule begins at this position and is neither a list of members nor a region.
    pub fn is_plain_from(&self, start: u32) -> bool {
        self.start == start && self.members.is_none() && self.budget.is_none()
    }
}

pub struct Network {
    positions: Box<[Position]>,
    /// The places of all splits.
    places: Box<[u32]>,
    pub rules: Box<[Rule]>,
    pub members: Arc<[Members]>,
    none_seen: Arc<Seen>,
    pub start: u32,
}

impl Network {
    /// Build the network of a serialised grammar, without the parts that can never be completed.
    pub fn new(
        data: &[u8],
        draft: &mut Draft,
        derivatives: &mut Derivatives,
        limits: &Limits,
        meter: &mut Meter,
    ) -> Outcome<Self> {
        draft.source.read(data, &mut derivatives.terms, limits, meter)?;
        let start = draft.source.start;
        let mut builder = Builder::new(draft, data, derivatives, limits, meter);
        builder.build()?;
        // No rule calls the whole text, but a list of members, or a region with a budget, needs a call.
        let first = match builder.draft.source.body(start) {
            Item::Members { .. } | Item::Region { .. } => builder.call(start, END)?,
            _ => builder.draft.starts[start as usize],
        };
        solve(draft, meter)?;
        let (source, facts) = (&draft.source, &draft.facts);
        if facts[draft.starts[start as usize] as usize] & PRODUCTIVE == 0 {
            return Err(Fault::EmptyLanguage);
        }
        if facts.iter().fold(PRODUCTIVE, |all, facts| all & facts) == 0 {
            for position in &mut draft.positions {
                if let Position::Split(span) = position {
                    span.retain(&mut draft.places, |place| facts[place as usize] & PRODUCTIVE != 0);
                }
            }
        }
        let is_empty = |place: u32| facts[place as usize] & NULLABLE != 0;
        let ways = source.members.iter().flat_map(|list| &list.starts);
        if ways.copied().any(is_empty) || may_be_empty(draft, &derivatives.terms) {
            return Err(Fault::EmptyMember);
        }
        let rules = (0..).zip(&draft.starts).map(|(rule, start)| {
            let (members, budget) = match source.body(rule) {
                Item::Members { number, .. } => (Some(number), None),
                Item::Region { budget, .. } => (None, Some(budget)),
                _ => (None, None),
            };
            Rule {
                start: *start,
                nullable: is_empty(*start),
                members,
                budget,
            }
        });
        Ok(Network {
            start: first,
            rules: rules.collect(),
            none_seen: draft.source.none_seen.clone(),
            members: std::mem::take(&mut draft.source.members).into(),
            positions: draft.positions[..].into(),
            places: draft.places[..].into(),
        })
    }

    /// Return the network with its terms copied from an older lexicon.
    pub fn with_terms(&self, lexicon: &Lexicon, older: &Lexicon, meter: &mut Meter) -> Outcome<Self> {
        let mut positions = self.positions.clone();
        let mut places: Vec<&mut Term> = positions
            .iter_mut()
            .filter_map(|position| match position {
                Position::Terminal { term, .. } | Position::Distinct { term, .. } => Some(term),
                _ => None,
            })
            .collect();
        let terms: Vec<Term> = places.iter().map(|term| **term).collect();
        let copied = lexicon.copy(&terms, older, meter)?;
        places.iter_mut().zip(copied).for_each(|(place, term)| **place = term);
        Ok(Network {
            positions,
            rules: self.rules.clone(),
            members: self.members.clone(),
            none_seen: self.none_seen.clone(),
            start: self.start,
            places: self.places.clone(),
        })
    }

    #[inline]
    pub fn position(&self, position: u32) -> &Position {
        &self.positions[position as usize]
    }

    /// Return the places of a split.
    #[inline]
    pub fn places(&self, split: Span) -> &[u32] {
        split.of(&self.places)
    }

    /// Return the next places after a position in the same body.
    pub fn following(&self, position: u32) -> &[u32] {
        self.position(position).following(&self.places)
    }

    /// Return whether the frame stores the text of the terminal before this position.
    #[inline]
    pub fn keeps_text(&self, next: u32) -> bool {
        matches!(self.position(next), Position::Value { .. })
    }

    /// Return whether that text mostly belongs to a string that can continue whichever values have come.
    pub fn is_free(&self, next: u32) -> bool {
        matches!(self.position(next), Position::Value { is_free: true, .. })
    }

    /// Return whether any members are distinct: each set of values then makes automata of its own.
    pub fn has_distinct(&self) -> bool {
        self.members.iter().any(Members::are_distinct)
    }

    /// Return whether there are regions with budgets.
    pub fn has_regions(&self) -> bool {
        self.rules.iter().any(|rule| rule.budget.is_some())
    }

    /// Return the number of positions.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Return for each position whether it can be reached.
    pub fn reachable(&self) -> Vec<bool> {
        self.reachable_from(vec![self.start])
    }

    /// Return for each position whether it can be reached from these positions.
    pub fn reachable_from(&self, mut waiting: Vec<u32>) -> Vec<bool> {
        let mut reachable = vec![false; self.positions.len()];
        while let Some(index) = waiting.pop() {
            if std::mem::replace(&mut reachable[index as usize], true) {
                continue;
            }
            waiting.extend(self.following(index));
            match self.position(index) {
                Position::Call { rule, .. } => waiting.push(self.rules[*rule as usize].start),
                Position::Choose(list) => {
                    let list = &self.members[*list as usize];
                    waiting.extend(list.starts.iter().chain([&list.separator]));
                }
                _ => {}
            }
        }
        reachable
    }

    /// Return the terms of the terminals; there may be duplicates.
    pub fn terms(&self) -> impl Iterator<Item = Term> + '_ {
        self.positions.iter().filter_map(|position| match position {
            Position::Terminal { term, .. } | Position::Distinct { term, .. } => Some(*term),
            _ => None,
        })
    }

    /// Return the bytes on the heap (see `heap`), without the lists of members, which the networks of one grammar
    /// share.
    pub fn heap(&self) -> usize {
        size_of_val(&*self.positions) + size_of_val(&*self.places) + size_of_val(&*self.rules)
    }

    /// Return the bytes on the heap (see `heap`) of the lists of members.
    pub fn members_heap(&self) -> usize {
        let inner = self.members.iter().map(Members::heap).sum::<usize>();
        heap::COUNTS + size_of_val(&*self.members) + inner
    }

    /// Return the counter for the bytes of the memories of member lists in all existing frames.
    pub fn memories(&self) -> &Counter {
        self.none_seen.counter()
    }
}

/// Return whether one of the members in order may be empty. Its positions do not show this, because they include what
/// follows it.
fn may_be_empty(draft: &Draft, terms: &Terms) -> bool {
    let (items, parts) = (&draft.source.items, &draft.source.parts);
    let begins_with_text = |item: &u32| match items[*item as usize] {
        Item::Sequence(span) => match span.of(parts).first().map(|first| items[*first as usize]) {
            Some(Item::Terminal { term, .. }) => !terms.nullable(term),
            _ => false,
        },
        _ => false,
    };
    if draft.in_order.iter().all(begins_with_text) {
        return false;
    }
    let mut empty: Vec<bool> = Vec::with_capacity(items.len());
    for item in items {
        empty.push(match item {
            Item::Terminal { term, .. } => terms.nullable(*term),
            Item::Sequence(span) => span.of(parts).iter().all(|part| empty[*part as usize]),
            Item::Choice(span) => span.of(parts).iter().any(|part| empty[*part as usize]),
            Item::Repeat { item, minimum, .. } => *minimum == 0 || empty[*item as usize],
            Item::Region { item, .. } => empty[*item as usize],
            Item::Reference(rule) => draft.facts[draft.starts[*rule as usize] as usize] & NULLABLE != 0,
            Item::Token(_) | Item::Members { .. } | Item::InOrder { .. } => false,
        });
    }
    draft.in_order.iter().any(|item| empty[*item as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Usage;
    use crate::regular::program::tests::NESTED;

    #[test]
    fn example_network_of_positions() {
        let (limits, usage) = (Limits::default(), Usage::default());
        let mut meter = Meter::new(limits.work, &usage, limits.states);
        let (mut draft, mut derivatives) = (Draft::default(), Derivatives::new());
        let network = Network::new(NESTED, &mut draft, &mut derivatives, &limits, &mut meter).unwrap();
        let alternatives = network.following(network.start);
        let Position::Terminal { term, next, .. } = *network.position(alternatives[0]) else {
            panic!("the first alternative begins with a terminal");
        };
        assert_eq!(term, derivatives.terms.literal(b"("));
        assert!(matches!(network.position(next), Position::Call { rule: 0, .. }));
    }
}
