//! Arrays whose items are counted or must differ: a finite-state machine, written as left-recursive rules.

use std::rc::Rc;

use crate::base::hash::{FastMap, FastSet};
use crate::base::tuning::MAX_COUNTING_STATES;
use crate::schema::goals::{is_false, Goal};
use crate::schema::listing::Listed;
use crate::schema::load::Literal;
use crate::schema::lowering::Lowering;
use crate::schema::nodes::{any_of, in_order, Node};
use crate::schema::ordered::Ordered;
use crate::schema::report::{Outcome, Stop, Why};
use crate::schema::shapes::ArraySet;
use crate::schema::tokens::Token;

/// Literals joined per comparison of two alternatives (cost unit).
const LITERALS_PER_PAIR: usize = 4;

/// A state: the number of items so far, how many items satisfied each `contains`, and the values used, in order. A
/// count stops when larger counts make no difference.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    length: u64,
    found: Vec<u64>,
    /// The identities of the values.
    used: Vec<Literal>,
}

/// The values of goals in arrays whose items must differ.
pub type Values = FastMap<Goal, Vec<Listed>>;

/// Lowers one set of arrays.
struct Counting<'a, 'l> {
    lowering: &'a mut Lowering<'l>,
    arrays: &'a ArraySet,
    goals: &'a [Goal],
    values: Option<&'a Values>,
    title: &'a str,
    /// The number of items above which all states are alike.
    length: u64,
    rules: FastMap<State, u32>,
}

impl Lowering<'_> {
    /// Make the node of arrays with counted items; items must differ if their `values` are given.
    pub fn counted_by_state(
        &mut self,
        arrays: &ArraySet,
        goals: &[Goal],
        values: Option<&Values>,
        title: &str,
    ) -> Outcome<Option<Node>> {
        let starts = arrays.contains.iter().map(|wanted| wanted.start);
        // The empty list and a list of one item are separate states, because later items follow a comma.
        let length = starts.max().unwrap_or(0).max(1).max(goals.len() as u64 - 1);
        let length = length.max(arrays.minimum).max(arrays.maximum.unwrap_or(0));
        Counting {
            lowering: self,
            arrays,
            goals,
            values,
            title,
            length,
            rules: FastMap::default(),
        }
        .lower()
    }
}

impl Counting<'_, '_> {
    fn lower(mut self) -> Outcome<Option<Node>> {
        let first = State {
            length: 0,
            found: vec![0; self.arrays.contains.len()],
            used: Vec::new(),
        };
        let mut arriving: Ordered<State, Vec<Node>> = Ordered::new();
        let mut seen: FastSet<State> = FastSet::default();
        seen.insert(first.clone());
        let mut queue = vec![first.clone()];
        let mut next = 0;
        while let Some(state) = queue.get(next).cloned() {
            next += 1;
            for (goal, after) in self.steps(&state)? {
                let mut item = self.lowering.goal(&goal)?;
                if state != first {
                    item = in_order(vec![Node::Rule(self.rule(&state)), Node::token(Token::Comma), item]);
                }
                arriving.at(after.clone()).push(item);
                if seen.insert(after.clone()) {
                    queue.push(after);
                    if seen.len() > MAX_COUNTING_STATES {
                        return Err(Stop::limit(Why::CountStates, &[&MAX_COUNTING_STATES.to_string()]));
                    }
                }
            }
        }
        let mut options = Vec::new();
        if self.is_enough(&first) {
            options.push(Node::token(Token::EmptyArray));
        }
        for (state, items) in arriving.into_entries() {
            let rule = self.rule(&state);
            self.lowering.rules.define(rule, any_of(items))?;
            if self.is_enough(&state) {
                let [open, close] = [Token::OpenArray, Token::CloseArray].map(Node::token);
                options.push(in_order(vec![open, Node::Rule(rule), close]));
            }
        }
        Ok((!options.is_empty()).then(|| any_of(options)))
    }

    /// Return the rule of a state.
    fn rule(&mut self, state: &State) -> u32 {
        if let Some(known) = self.rules.get(state) {
            return *known;
        }
        let title = format!("{}: items, state {}", self.title, self.rules.len() + 1);
        let rule = self.lowering.rules.reserve(&title);
        self.rules.insert(state.clone(), rule);
        rule
    }

    fn is_enough(&self, state: &State) -> bool {
        let mut wanted = state.found.iter().zip(&self.arrays.contains);
        state.length >= self.arrays.minimum && wanted.all(|(count, each)| *count >= each.minimum)
    }

    /// Return the goals of the next item, with the states that follow.
    fn steps(&mut self, state: &State) -> Outcome<Vec<(Goal, State)>> {
        let mut steps = Vec::new();
        if self.arrays.maximum.is_some_and(|maximum| state.length >= maximum) {
            return Ok(steps);
        }
        let place = state.length.min(self.goals.len() as u64 - 1) as usize;
        let goal = &self.goals[place];
        let length = self.length.min(state.length + 1);
        for (literals, found) in self.findings(state)? {
            let normalizer = &mut self.lowering.normalizer;
            normalizer.spend(1 + (goal.len() / LITERALS_PER_PAIR) as u64)?;
            let all: Vec<Literal> = goal.iter().chain(&literals).copied().collect();
            let wanted = normalizer.conjoin(&all)?;
            let Some(values) = self.values else {
                if !is_false(&wanted) && !normalizer.is_empty(&wanted, 2)? {
                    let used = state.used.clone();
                    steps.push((wanted, State { length, found, used }));
                }
                continue;
            };
            for value in values.get(goal).map_or(&[][..], |values| values) {
                if state.used.contains(&value.identity) {
                    continue;
                }
                let mut used = state.used.clone();
                used.push(value.identity);
                used.sort_unstable();
                for literal in &value.literals {
                    let mut single: Goal = Rc::from([*literal]);
                    if !literals.is_empty() {
                        let all: Vec<Literal> = [*literal].iter().chain(&literals).copied().collect();
                        single = normalizer.conjoin(&all)?;
                        if normalizer.is_empty(&single, 2)? {
                            continue;
                        }
                    }
                    let (found, used) = (found.clone(), used.clone());
                    steps.push((single, State { length, found, used }));
                }
            }
        }
        Ok(steps)
    }

    /// Return the ways in which the next item may be counted: the literals that it then satisfies, and the new counts.
    fn findings(&mut self, state: &State) -> Outcome<Vec<(Vec<Literal>, Vec<u64>)>> {
        let mut ways: Vec<(Vec<Literal>, Vec<u64>)> = vec![(Vec::new(), Vec::new())];
        for (count, wanted) in state.found.iter().zip(&self.arrays.contains) {
            let is_enough = wanted.maximum.is_none() && *count >= wanted.minimum;
            if state.length < wanted.start || is_enough {
                ways.iter_mut().for_each(|(_, found)| found.push(*count));
                continue;
            }
            self.lowering.normalizer.spend(ways.len() as u64)?;
            let mut counted = Vec::new();
            if wanted.maximum.map_or(true, |maximum| *count < maximum) {
                counted = ways.clone();
                for (literals, found) in &mut counted {
                    literals.push(wanted.literal);
                    found.push(count + 1);
                }
            }
            for (literals, found) in &mut ways {
                literals.extend(wanted.maximum.map(|_| -wanted.literal));
                found.push(*count);
            }
            counted.extend(ways);
            ways = counted;
        }
        Ok(ways)
    }
}
