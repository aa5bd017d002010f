//! The length of the shortest text of a grammar as it is written.

use std::ops::Range;

use crate::base::limits::{Meter, Outcome};
use crate::captures::grammar_tree::{Node, Written};
use crate::grammar::members::{Cost, Members, Search};
use crate::regular::derive::Derivatives;
use crate::tokens::spelling::{add, NEVER};

/// Compute how many bytes the shortest text has, not counting tokens; `NEVER` if there are too many. Return None if a
/// list has distinct members, because we would have to tell their values apart.
///
/// `lists` contains the lists of members, reduced to the alternatives that can be completed.
pub fn shortest(
    written: &Written,
    lists: &[Members],
    derivatives: &mut Derivatives,
    meter: &mut Meter,
) -> Outcome<Option<u32>> {
    if lists.iter().any(Members::are_distinct) {
        return Ok(None);
    }
    let mut lengths = vec![NEVER; written.nodes.len()];
    for (number, node) in written.nodes.iter().enumerate() {
        if node.is_leaf() {
            lengths[number] = derivatives.shortest_match(written.terms[number], meter)?.min(NEVER);
        }
    }
    // Nodes come after their children, but rules refer to rules in both directions.
    let mut rules: Vec<Range<usize>> = Vec::with_capacity(written.rules.len());
    for body in &written.rules {
        let begin = rules.last().map_or(0, |before| before.end);
        rules.push(begin..begin.max(*body as usize + 1));
    }
    let (mut is_new, mut is_backwards) = (true, true);
    while is_new {
        is_new = false;
        for place in 0..rules.len() {
            let rule = if is_backwards { rules.len() - 1 - place } else { place };
            for number in rules[rule].clone() {
                let found = length_of(number, &lengths, written, lists, meter)?;
                if found < lengths[number] {
                    lengths[number] = found;
                    is_new = true;
                }
            }
        }
        is_backwards = !is_backwards;
    }
    Ok(Some(lengths[written.rules[written.start as usize] as usize]))
}

/// Compute the length of the shortest text of a node from the known lengths of its children; the lengths of leaves are
/// known.
fn length_of(number: usize, lengths: &[u32], written: &Written, lists: &[Members], meter: &mut Meter) -> Outcome<u32> {
    let node = &written.nodes[number];
    let parts = node.children();
    let known = |part: &u32| lengths[*part as usize];
    meter.work(1 + parts.len())?;
    Ok(match node {
        Node::Sequence(_) => parts.iter().map(known).fold(0, add),
        Node::Choice(_) => parts.iter().map(known).min().unwrap_or(NEVER),
        Node::Repeat { item, minimum, .. } => known(item).saturating_mul(*minimum).min(NEVER),
        Node::Capture { item, .. } => known(item),
        Node::Reference(rule) => known(&written.rules[*rule as usize]),
        Node::Token(_) => 0,
        Node::Members { list, items } => {
            let separator = known(&items[0]);
            let list = &lists[*list as usize];
            // Each member adds a separator; the first separator is one too many.
            let between = if separator == NEVER { 0 } else { separator };
            let costs: Vec<Cost> = items[1..].iter().map(|item| cost(known(item), between)).collect();
            let found = Search::new(list, &list.first(), Some(&costs), meter)?.run(meter)?;
            found.map_or(NEVER, |found| {
                (found.length - u64::from(between)).min(NEVER.into()) as u32
            })
        }
        _ => lengths[number],
    })
}

fn cost(length: u32, separator: u32) -> Cost {
    match add(length, separator) {
        NEVER => Cost::UNUSABLE,
        length => Cost { length, rank: 0 },
    }
}
