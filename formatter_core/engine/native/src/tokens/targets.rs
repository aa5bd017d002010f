//! Computes the states that tokens lead to if they stay inside a terminal. There are few such states, however many
//! tokens there are.

use std::sync::Arc;

use crate::base::limits::{Meter, Outcome};
use crate::regular::term::{Term, EMPTY, NOTHING};
use crate::tokens::class::{Targets, TokenSet};
use crate::tokens::fitting::Grouped;
use crate::tokens::lexicon::{Lexicon, Row};
use crate::tokens::mask::{set, Bits};
use crate::tokens::trie::Node;

/// Return the targets of a live state.
pub fn targets(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Arc<Targets>> {
    if let Some(known) = lexicon.known_targets(state)? {
        return Ok(known);
    }
    let words = lexicon.vocabulary.words();
    // Many states soon lead to a state that leads to itself with most bytes, for example the inside of a string.
    let main = lexicon.row(state, meter)?.main_target().filter(|main| *main != state);
    let targets = Arc::new(match main {
        Some(main) if lexicon.row(main, meter)?.main_target() == Some(main) => {
            let known = targets(lexicon, main, meter)?;
            let found = walk(state, Some(lexicon.row(main, meter)?), lexicon, meter)?;
            found.with_others(&known, lexicon)
        }
        _ => {
            let found = walk(state, None, lexicon, meter)?;
            let all = found.by_target.finish(words, &lexicon.owner.memory);
            Targets::new(all, found.early, &lexicon.owner)
        }
    });
    lexicon.keep_targets(state, &targets)?;
    Ok(targets)
}

/// The results of a walk along all tokens.
#[derive(Default)]
struct Found {
    by_target: Grouped<Term>,
    /// Tokens that lead from the similar state to another state than from this one, or that are dead from this one.
    differ: Vec<u32>,
    /// See `Targets::early`.
    early: Vec<(u32, u32)>,
}

/// Find the tokens that lead to another state than they do from a similar state, whose moves are `like`; group them by
/// target.
fn walk<'a>(state: Term, like: Option<&'a Row>, lexicon: &'a Lexicon, meter: &mut Meter) -> Outcome<Found> {
    let trie = &lexicon.vocabulary.trie;
    let nodes = trie.nodes();
    let mut found = Found::default();
    let mut rows = (lexicon.row(state, meter)?, like);
    // The nodes on the path, each with the end of its subtree and the moves before it.
    let mut open: Vec<(usize, (&'a Row, Option<&'a Row>))> = Vec::new();
    let (mut index, mut visited) = (0, 0);
    while let Some(node) = nodes.get(index) {
        while open.last().is_some_and(|(end, _)| *end <= index) {
            rows = open.pop().map_or(rows, |(_, before)| before);
        }
        visited += 1;
        let end = node.end as usize;
        let step = rows.0.step(node.byte);
        let target = step.state;
        let other = rows.1.map_or(NOTHING, |row| row.step(node.byte).state);
        let mut ids = trie.all_ids_below(index);
        let from = index;
        index = end;
        if target == other {
            continue;
        }
        if step.accepts && target != EMPTY {
            found.add_early(from as u32, open.len() as u32 + 1, nodes);
        }
        if target != NOTHING && from + 1 < end {
            let row = lexicon.row(target, meter)?;
            if other != NOTHING || !trie.below(from).is_within(row.stays()) {
                let like = if other == NOTHING {
                    None
                } else {
                    Some(lexicon.row(other, meter)?)
                };
                open.push((end, std::mem::replace(&mut rows, (row, like))));
                ids = trie.ids(from);
                index = from + 1;
            }
        }
        if target != NOTHING {
            found.by_target.add(ids, target);
        }
        if other != NOTHING {
            found.differ.extend_from_slice(ids);
        }
    }
    meter.work(visited / 16 + 1)?;
    Ok(found)
}

impl Found {
    fn add_early(&mut self, node: u32, depth: u32, nodes: &[Node]) {
        if self
            .early
            .last()
            .map_or(true, |(last, _)| nodes[*last as usize].end <= node)
        {
            self.early.push((node, depth));
        }
    }

    /// Add the tokens that lead to the same state as from the similar state.
    fn with_others(mut self, known: &Targets, lexicon: &Lexicon) -> Targets {
        let (words, nodes) = (lexicon.vocabulary.words(), lexicon.vocabulary.trie.nodes());
        let mut differ = vec![0; words];
        set(&mut differ, &self.differ);
        let is_same = |id: &u32| differ[*id as usize / 32] >> (id % 32) & 1 == 0;
        let mut all = Vec::new();
        for (target, tokens) in &known.all {
            match tokens {
                TokenSet::Dense(bits) => {
                    let mut bits: Vec<u32> = bits.iter().zip(&differ).map(|(word, differ)| word & !differ).collect();
                    set(&mut bits, &self.by_target.take(target));
                    all.push((*target, TokenSet::Dense(Bits::new(bits, &lexicon.owner.memory))));
                }
                TokenSet::Sparse(ids) => {
                    let ids: Vec<u32> = ids.iter().copied().filter(is_same).collect();
                    self.by_target.add(&ids, *target);
                }
            }
        }
        let mut early = std::mem::take(&mut self.early);
        early.extend_from_slice(&known.early);
        early.sort_unstable();
        early
            .into_iter()
            .for_each(|(node, depth)| self.add_early(node, depth, nodes));
        all.extend(self.by_target.finish(words, &lexicon.owner.memory));
        Targets::new(all, self.early, &lexicon.owner)
    }
}
