//! Comparison of two derivations: we compare them at the node where their paths in the tree of items diverge.

use std::cmp::Ordering;

use crate::base::byteset::ByteSet;
use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::captures::grammar_tree::Written;
use crate::captures::items::{Edge, Tree, ITEM_COST, NONE};
use crate::captures::positions::{Plan, Position};
use crate::captures::terminal_order::{Orders, Preferred, Question};
use crate::tokens::lexicon::Lexicon;

/// The grammar and its automata, as parsing a text needs them.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub written: &'a Written,
    pub plan: &'a Plan,
    pub lexicon: &'a Lexicon,
    pub preferred: &'a [Preferred],
}

impl<'a> Source<'a> {
    /// Return the bytes that a terminal may begin with.
    pub fn first_bytes(self, node: u32, meter: &mut Meter) -> Outcome<&'a ByteSet> {
        let known = &self.plan.first_bytes[node as usize];
        match known.get() {
            Some(bytes) => Ok(bytes),
            None => {
                let term = self.written.terms[node as usize];
                let bytes = self.lexicon.first_bytes([term].into_iter(), meter)?;
                Ok(known.get_or_init(|| Box::new(bytes)))
            }
        }
    }
}

/// Compares derivations over one text.
pub struct Preference {
    /// For two items that end a call, which is preferred.
    known: FastMap<(u32, u32), Ordering>,
    orders: Orders,
}

impl Preference {
    /// Return the heap memory in bytes, see `heap`.
    pub fn heap(&self) -> usize {
        heap::table(&self.known) + self.orders.heap()
    }

    pub fn new() -> Self {
        Preference {
            known: FastMap::default(),
            orders: Orders::new(),
        }
    }

    /// Compare two terminals in progress. Return which is preferred, whatever follows, or None if that depends on where
    /// they end.
    pub fn of_threads(
        &mut self,
        tree: &Tree,
        one: u32,
        other: u32,
        source: Source,
        meter: &mut Meter,
    ) -> Outcome<Option<Ordering>> {
        if one == other {
            return Ok(Some(Ordering::Equal));
        }
        let (parent, first, second) = tree.forest.parting(one, other, meter)?;
        if let (Some(first), Some(second)) = (first, second) {
            let (first, second) = (tree.items[first as usize].edge(), tree.items[second as usize].edge());
            return self.of_steps(tree, parent, first, second, source, meter).map(Some);
        }
        // One thread began earlier; the other one began after an earlier end of the same terminal.
        let Position::Terminal { node, .. } = *source.plan.position(tree.items[parent as usize].position) else {
            return Ok(None);
        };
        Ok(match (source.preferred[node as usize], first.is_none()) {
            (Preferred::Longest, true) | (Preferred::Shortest, false) => Some(Ordering::Less),
            (Preferred::Longest, false) | (Preferred::Shortest, true) => Some(Ordering::Greater),
            (Preferred::Ordered, _) => None,
        })
    }

    /// Compare two edges that reach the same item.
    pub fn of_edges(
        &mut self,
        tree: &Tree,
        one: Edge,
        other: Edge,
        source: Source,
        meter: &mut Meter,
    ) -> Outcome<Ordering> {
        if one.parent == other.parent {
            return self.of_steps(tree, one.parent, one, other, source, meter);
        }
        let (parent, first, second) = tree.forest.parting(one.parent, other.parent, meter)?;
        let first = first.map_or(one, |item| tree.items[item as usize].edge());
        let second = second.map_or(other, |item| tree.items[item as usize].edge());
        self.of_steps(tree, parent, first, second, source, meter)
    }

    /// Compare two edges that leave the same item.
    fn of_steps(
        &mut self,
        tree: &Tree,
        mut parent: u32,
        mut one: Edge,
        mut other: Edge,
        source: Source,
        meter: &mut Meter,
    ) -> Outcome<Ordering> {
        let mut asked = Vec::new();
        let order = loop {
            meter.work(1)?;
            let from = tree.items[parent as usize];
            match *source.plan.position(from.position) {
                Position::Split(_) => break one.detail.cmp(&other.detail),
                Position::Terminal { node, .. } => {
                    break match source.preferred[node as usize] {
                        Preferred::Longest => other.column.cmp(&one.column),
                        Preferred::Shortest => one.column.cmp(&other.column),
                        Preferred::Ordered => {
                            let asked = Question {
                                node,
                                start: from.column,
                                one: one.column,
                                other: other.column,
                            };
                            let (written, lexicon) = (source.written, source.lexicon);
                            self.orders.compare(&asked, &tree.steps, written, lexicon, meter)?
                        }
                    };
                }
                Position::Rounds { greedy, .. } if (one.detail == NONE) != (other.detail == NONE) => {
                    break match (one.detail == NONE) == greedy {
                        true => Ordering::Greater,
                        false => Ordering::Less,
                    };
                }
                Position::Came { .. } => break one.detail.cmp(&other.detail),
                Position::Call { .. } | Position::Rounds { .. } | Position::Choose { .. } => {
                    let (first, second) = (tree.end_of(one.detail), tree.end_of(other.detail));
                    if first == second || first == NONE || second == NONE {
                        break Ordering::Equal;
                    }
                    // An earlier alternative of a member is an earlier rule; members are otherwise equal.
                    let rule = |ended: u32| tree.calls[tree.items[ended as usize].call as usize].rule;
                    if rule(first) != rule(second) {
                        break rule(first).cmp(&rule(second));
                    }
                    if let Some(known) = self.known.get(&(first, second)) {
                        break *known;
                    }
                    // Items of the last column may still be replaced by better ones.
                    if first.max(second) < tree.first as u32 {
                        asked.push((first, second));
                    }
                    let (above, first, second) = tree.forest.parting(first, second, meter)?;
                    let (Some(first), Some(second)) = (first, second) else {
                        break Ordering::Equal;
                    };
                    parent = above;
                    one = tree.items[first as usize].edge();
                    other = tree.items[second as usize].edge();
                }
                _ => break Ordering::Equal,
            }
        };
        meter.work(4 * ITEM_COST * asked.len())?;
        self.known.extend(asked.into_iter().map(|pair| (pair, order)));
        Ok(order)
    }
}
