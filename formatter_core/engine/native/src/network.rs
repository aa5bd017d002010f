//! A grammar as a network of positions: what may come at a place, and which place is next.
//!
//! Choices and repeats are edges of the network, so that only calls of rules need a frame on the stack.

mod build;

use std::sync::Arc;

use crate::decode::{Item, Source};
use crate::derive::Derivatives;
use crate::hash::FastMap;
use crate::lexicon::Lexicon;
use crate::limits::{Fault, Limits, Meter, Outcome};
use crate::members::Members;
use crate::term::{Term, Terms};
use build::Builder;

/// A place in a rule's body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The rule is complete.
    End,
    /// A terminal; `nullable` says whether it may be empty.
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
    /// Behind a region with a budget: nothing comes here.
    Cut {
        next: u32,
    },
    /// Any of these places.
    Split(Box<[u32]>),
    /// The ways of the next member, of the list with this number.
    Choose(u32),
    /// The first terminal of a distinct member, which does not match what begins with a value that has come.
    Distinct {
        term: Term,
        next: u32,
    },
    /// That terminal is complete.
    Value {
        next: u32,
        /// See `Derivatives::strings_are_free`.
        is_free: bool,
    },
    /// A member has come in a way.
    Came {
        members: u32,
        way: u32,
    },
}

impl Position {
    /// The places that come next in the same body.
    pub fn following(&self) -> &[u32] {
        match self {
            Position::Terminal { next, .. }
            | Position::Token { next, .. }
            | Position::Call { next, .. }
            | Position::Cut { next }
            | Position::Distinct { next, .. }
            | Position::Value { next, .. } => std::slice::from_ref(next),
            Position::Split(places) => places,
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
    /// The list of members that it is, if it is one: its frames remember what has come.
    pub members: Option<u32>,
    /// How many tokens may begin in it, where that is limited.
    pub budget: Option<u32>,
}

impl Rule {
    /// Whether it begins at a position and is neither a list of members nor limited in its tokens.
    pub fn is_plain_from(&self, start: u32) -> bool {
        self.start == start && self.members.is_none() && self.budget.is_none()
    }
}

pub struct Network {
    positions: Vec<Position>,
    pub rules: Vec<Rule>,
    pub members: Arc<[Members]>,
    pub start: u32,
}

impl Network {
    /// Lower a grammar; what can never be completed is left out.
    pub fn new(source: Source, derivatives: &mut Derivatives, limits: &Limits, meter: &mut Meter) -> Outcome<Self> {
        let start = source.start as usize;
        let mut builder = Builder::new(source, derivatives, limits, meter);
        let mut starts = Vec::with_capacity(builder.bodies.len());
        while let Some(&body) = builder.bodies.get(starts.len()) {
            starts.push(builder.body(body)?);
        }
        // The whole text is not called by a rule, but a list of members, or a region with a budget, needs one.
        let first = match builder.items[builder.bodies[start] as usize] {
            Item::Members { .. } | Item::Region { .. } => builder.call(start as u32, END)?,
            _ => starts[start],
        };
        for (rule, entry) in &builder.entries {
            builder.positions[*entry as usize] = Position::Split([starts[*rule as usize]].into());
        }
        let kind_of = |body: &u32| match builder.items[*body as usize] {
            Item::Members { number, .. } => (Some(number), None),
            Item::Region { budget, .. } => (None, Some(budget)),
            _ => (None, None),
        };
        let kinds: Vec<(Option<u32>, Option<u32>)> = builder.bodies.iter().map(kind_of).collect();
        let (mut positions, mut members, meter) = (builder.positions, builder.members, builder.meter);
        meter.work(4 * positions.len())?;
        let (productive, _) = solve(&positions, &starts, &mut members, meter, |position| match position {
            Position::End | Position::Came { .. } => Some(0),
            Position::Call { .. } => Some(2),
            Position::Choose(_) => None,
            _ => Some(1),
        })?;
        if !productive[starts[start] as usize] {
            return Err(Fault::EmptyLanguage);
        }
        if productive.contains(&false) {
            for position in &mut positions {
                if let Position::Split(next) = position {
                    let kept = next.iter().copied().filter(|place| productive[*place as usize]);
                    *next = kept.collect();
                }
            }
        }
        let (nullable, nullable_rules) = solve(&positions, &starts, &mut [], meter, |position| match position {
            Position::End | Position::Came { .. } => Some(0),
            Position::Call { .. } => Some(2),
            Position::Terminal { nullable: true, .. } | Position::Split(_) | Position::Cut { .. } => Some(1),
            _ => None,
        })?;
        let mut ways = members.iter().flat_map(|list| &list.starts);
        let empty = nullable_items(
            &builder.items,
            &builder.parts,
            &nullable_rules,
            &builder.derivatives.terms,
        );
        let mut in_order = builder.in_order.iter();
        if ways.any(|start| nullable[*start as usize]) || in_order.any(|item| empty[*item as usize]) {
            return Err(Fault::EmptyMember);
        }
        let rules = starts.into_iter().zip(nullable_rules).zip(kinds);
        let rules = rules.map(|((start, nullable), (members, budget))| Rule {
            start,
            nullable,
            members,
            budget,
        });
        Ok(Network {
            start: first,
            rules: rules.collect(),
            members: members.into(),
            positions,
        })
    }

    /// The same network with its terms copied from an older lexicon.
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
            start: self.start,
        })
    }

    #[inline]
    pub fn position(&self, position: u32) -> &Position {
        &self.positions[position as usize]
    }

    /// Whether the terminal before a position is one of whose text a frame keeps what is written.
    #[inline]
    pub fn keeps_text(&self, next: u32) -> bool {
        matches!(self.position(next), Position::Value { .. })
    }

    /// Whether that text is mostly that of a string which can go on whatever values have come.
    pub fn is_free(&self, next: u32) -> bool {
        matches!(self.position(next), Position::Value { is_free: true, .. })
    }

    /// Whether there are regions with budgets.
    pub fn has_regions(&self) -> bool {
        self.rules.iter().any(|rule| rule.budget.is_some())
    }

    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether each position can be come to.
    pub fn reachable(&self) -> Vec<bool> {
        self.reachable_from(vec![self.start])
    }

    /// The same from other positions.
    pub fn reachable_from(&self, mut waiting: Vec<u32>) -> Vec<bool> {
        let mut reachable = vec![false; self.positions.len()];
        while let Some(index) = waiting.pop() {
            if std::mem::replace(&mut reachable[index as usize], true) {
                continue;
            }
            let position = self.position(index);
            waiting.extend(position.following());
            match position {
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

    /// The terms of the terminals; some may be there twice.
    pub fn terms(&self) -> impl Iterator<Item = Term> + '_ {
        self.positions.iter().filter_map(|position| match position {
            Position::Terminal { term, .. } | Position::Distinct { term, .. } => Some(*term),
            _ => None,
        })
    }

    /// How many different terminals there are, at least.
    pub fn terminals(&self) -> usize {
        self.terms().count()
    }

    /// An estimate of the bytes that the network takes.
    pub fn bytes(&self) -> usize {
        let list = |position: &Position| match position {
            Position::Split(next) => 4 * next.len(),
            _ => 0,
        };
        let positions = self
            .positions
            .iter()
            .map(|position| std::mem::size_of::<Position>() + list(position));
        let members: usize = self.members.iter().map(Members::bytes).sum();
        positions.sum::<usize>() + std::mem::size_of::<Rule>() * self.rules.len() + members
    }
}

/// See `Spread::solve`.
fn solve(
    positions: &[Position],
    starts: &[u32],
    members: &mut [Members],
    meter: &mut Meter,
    needs: impl Fn(&Position) -> Option<u8>,
) -> Outcome<(Vec<bool>, Vec<bool>)> {
    let found = members.is_empty().then(|| solve_soon(positions, starts, &needs));
    match found.flatten() {
        Some(found) => Ok(found),
        None => Spread::new(positions, starts).solve(positions, members, meter, needs),
    }
}

/// Passes over all positions, before what spreads is followed to those that it makes a difference to.
const MOST_PASSES: u32 = 6;

/// The same where a few passes tell, without lists of members: what is next was mostly built before.
fn solve_soon(
    positions: &[Position],
    starts: &[u32],
    needs: impl Fn(&Position) -> Option<u8>,
) -> Option<(Vec<bool>, Vec<bool>)> {
    let mut holds = vec![false; positions.len()];
    let mut left = positions.len();
    for _ in 0..MOST_PASSES {
        let before = left;
        for (index, position) in positions.iter().enumerate() {
            let is_met = |place: &u32| holds[*place as usize];
            let is_new = !holds[index]
                && match needs(position) {
                    None => false,
                    Some(0) => true,
                    Some(_) if !position.following().iter().any(is_met) => false,
                    Some(_) => match position {
                        Position::Call { rule, .. } => is_met(&starts[*rule as usize]),
                        _ => true,
                    },
                };
            if is_new {
                holds[index] = true;
                left -= 1;
            }
        }
        if left == 0 || left == before {
            let rules = starts.iter().map(|start| holds[*start as usize]).collect();
            return Some((holds, rules));
        }
    }
    None
}

/// Lists of numbers, one for each of some places, in one piece of memory.
struct Lists {
    /// The newest entry of each list, or `NO_ENTRY`.
    newest: Vec<u32>,
    /// Numbers, each with the entry before it in its list.
    entries: Vec<(u32, u32)>,
}

const NO_ENTRY: u32 = u32::MAX;

impl Lists {
    fn new(count: usize, entries: usize) -> Self {
        Lists {
            newest: vec![NO_ENTRY; count],
            entries: Vec::with_capacity(entries),
        }
    }

    fn add(&mut self, list: u32, number: u32) {
        let newest = std::mem::replace(&mut self.newest[list as usize], self.entries.len() as u32);
        self.entries.push((number, newest));
    }

    fn of(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        let entry = |entry: u32| self.entries.get(entry as usize);
        let newest = entry(self.newest[list as usize]);
        std::iter::successors(newest, move |(_, earlier)| entry(*earlier)).map(|(number, _)| *number)
    }
}

/// How what holds of positions spreads: to those before them, and from rules to their callers.
struct Spread {
    before: Lists,
    callers: Lists,
    /// The rules that begin at a position.
    rules_at: Lists,
}

impl Spread {
    fn new(positions: &[Position], starts: &[u32]) -> Self {
        let mut spread = Spread {
            before: Lists::new(positions.len(), positions.len()),
            callers: Lists::new(starts.len(), 0),
            rules_at: Lists::new(positions.len(), starts.len()),
        };
        for (index, position) in (0..).zip(positions) {
            for place in position.following() {
                spread.before.add(*place, index);
            }
            if let Position::Call { rule, .. } = position {
                spread.callers.add(*rule, index);
            }
        }
        for (rule, start) in (0..).zip(starts) {
            spread.rules_at.add(*start, rule);
        }
        spread
    }

    /// The positions and rules of which something holds: `needs` says how many conditions a position has (None: it never
    /// holds) out of: one of its next places holds; the rule that it calls holds. A rule holds with its start. Lists of
    /// `members` hold once the ways that hold can complete them.
    fn solve(
        &self,
        positions: &[Position],
        members: &mut [Members],
        meter: &mut Meter,
        needs: impl Fn(&Position) -> Option<u8>,
    ) -> Outcome<(Vec<bool>, Vec<bool>)> {
        let mut missing: Vec<u8> = Vec::with_capacity(positions.len());
        let mut holds = vec![false; positions.len()];
        let mut rule_holds = vec![false; self.callers.newest.len()];
        let mut queue: Vec<u32> = Vec::new();
        // The ways that begin at positions: where they are chosen, the list and the way.
        let mut ways_at: FastMap<u32, (u32, u32, u32)> = FastMap::default();
        for (index, position) in (0..).zip(positions) {
            if let Position::Choose(list) = position {
                let starts = members.get(*list as usize).map_or(&[][..], |list| &list.starts);
                ways_at.extend((0..).zip(starts).map(|(way, start)| (*start, (index, *list, way))));
            }
            let need = needs(position);
            missing.push(need.unwrap_or(u8::MAX));
            if need == Some(0) {
                queue.push(index);
            }
        }
        while let Some(index) = queue.pop() {
            if std::mem::replace(&mut holds[index as usize], true) {
                continue;
            }
            if let Some(&(place, list, way)) = ways_at.get(&index) {
                if members[list as usize].revive(way, meter)? {
                    queue.push(place);
                }
            }
            let rules = self.rules_at.of(index);
            let callers = rules.flat_map(|rule| {
                rule_holds[rule as usize] = true;
                self.callers.of(rule)
            });
            for place in self.before.of(index).chain(callers) {
                let left = &mut missing[place as usize];
                if *left != u8::MAX {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        queue.push(place);
                    }
                }
            }
        }
        Ok((holds, rule_holds))
    }
}

/// Of each item whether it may be empty, given which rules may. Positions do not tell: behind an item in a list of members
/// stands what follows it.
fn nullable_items(items: &[Item], parts: &[u32], rules: &[bool], terms: &Terms) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(items.len());
    for item in items {
        found.push(match item {
            Item::Terminal { term, .. } => terms.nullable(*term),
            Item::Sequence(span) => span.of(parts).iter().all(|part| found[*part as usize]),
            Item::Choice(span) => span.of(parts).iter().any(|part| found[*part as usize]),
            Item::Repeat { item, minimum, .. } => *minimum == 0 || found[*item as usize],
            Item::Region { item, .. } => found[*item as usize],
            Item::Reference(rule) => rules[*rule as usize],
            Item::Token(_) | Item::Members { .. } | Item::InOrder { .. } => false,
        });
    }
    found
}
