//! Facts about the nodes of a grammar that we compute before reading any text.

use crate::base::limits::{Fault, Meter, Outcome};
use crate::captures::grammar_tree::{Node, Written};
use crate::grammar::members::Members;
use crate::regular::derive::Derivatives;
use crate::regular::term::Term;

/// Facts about nodes that we compute before reading any text.
pub(super) struct Facts {
    pub(super) productive: Vec<bool>,
    pub(super) nullable: Vec<bool>,
    pub(super) captures: Vec<bool>,
    /// For each node, whether it may derive itself alone, or lies between nodes that do.
    pub(super) cyclic: Vec<bool>,
    /// The size of each rule's derivation, written out: `HUGE` if the rule is recursive or calls a recursive rule.
    pub(super) sizes: Vec<u32>,
    /// The lists of members, reduced to the alternatives that can be completed.
    pub(super) members: Vec<Members>,
}

const HUGE: u32 = u32::MAX;
/// A call of a rule up to this size is replaced by the body of the rule. Then equal positions after calls in different
/// columns become one position.
pub(super) const INLINED_RULE_SIZE: u32 = 24;

/// The condition under which a property spreads to a node from its children.
enum Needs {
    All,
    Any,
    /// The list of members can be completed with alternatives for which the property holds.
    Ways,
    Always,
    Never,
}

impl Facts {
    pub(super) fn of(written: &Written, derivatives: &mut Derivatives, meter: &mut Meter) -> Outcome<Self> {
        let mut live = vec![false; written.nodes.len()];
        let mut empty = vec![false; written.nodes.len()];
        for (number, node) in written.nodes.iter().enumerate() {
            if node.is_leaf() {
                let term: Term = written.terms[number];
                live[number] = derivatives.live(term, meter)?;
                empty[number] = derivatives.terms.nullable(term);
            }
        }
        let always = |holds: bool| if holds { Needs::Always } else { Needs::Never };
        let mut members = written.members.clone();
        for node in &written.nodes {
            let Node::Members { list, items } = node else {
                continue;
            };
            let list = &mut members[*list as usize];
            if !live[items[0] as usize] {
                list.maximum = 1;
            }
            let ways = list.ways.iter().zip(&items[1..]);
            let distinct = ways.filter(|(way, _)| list.members[way.member as usize].distinct);
            let firsts = distinct.map(|(_, item)| first_leaf(written, *item) as usize);
            let values: Vec<Term> = firsts
                .filter(|leaf| live[*leaf])
                .map(|leaf| written.terms[leaf])
                .collect();
            if !values.is_empty() {
                list.values = derivatives.count_values(&values, list.minimum, meter)?;
            }
        }
        let productive = solve(written, &mut members, meter, |number, node| match node {
            Node::Token(_) => Needs::Always,
            Node::Members { .. } => Needs::Ways,
            Node::Choice(_) => Needs::Any,
            Node::Repeat { minimum: 0, .. } => Needs::Always,
            _ if node.is_leaf() => always(live[number]),
            _ => Needs::All,
        })?;
        let nullable = solve(written, &mut [], meter, |number, node| match node {
            Node::Token(_) | Node::Members { .. } => Needs::Never,
            Node::Choice(_) => Needs::Any,
            Node::Repeat { minimum: 0, .. } => Needs::Always,
            _ if node.is_leaf() => always(empty[number]),
            _ => Needs::All,
        })?;
        for node in &written.nodes {
            if let Node::Members { items, .. } = node {
                if items[1..]
                    .iter()
                    .any(|item| productive[*item as usize] && nullable[*item as usize])
                {
                    return Err(Fault::EmptyMember);
                }
            }
        }
        let captures = solve(written, &mut [], meter, |_, node| match node {
            Node::Capture { .. } => Needs::Always,
            _ if node.is_leaf() => Needs::Never,
            _ => Needs::Any,
        })?;
        let mut facts = Facts {
            cyclic: Vec::new(),
            sizes: sizes(written, meter)?,
            members,
            productive,
            nullable,
            captures,
        };
        facts.cyclic = facts.find_cyclic(written, meter)?;
        Ok(facts)
    }

    /// Find cyclic nodes: remove nodes that derive no remaining node alone, or that no remaining node derives alone,
    /// until there are none.
    fn find_cyclic(&self, written: &Written, meter: &mut Meter) -> Outcome<Vec<bool>> {
        let count = written.nodes.len();
        let mut after: Vec<Vec<u32>> = Vec::with_capacity(count);
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); count];
        for node in 0..count as u32 {
            let mut alone = self.alone(written, node);
            alone.sort_unstable();
            alone.dedup();
            meter.work(1 + alone.len())?;
            alone.iter().for_each(|other| before[*other as usize].push(node));
            after.push(alone);
        }
        let mut cyclic = vec![true; count];
        let mut left: Vec<(usize, usize)> = (0..count).map(|node| (before[node].len(), after[node].len())).collect();
        let mut loose: Vec<u32> = (0..count as u32)
            .filter(|node| left[*node as usize].0 == 0 || left[*node as usize].1 == 0)
            .collect();
        while let Some(node) = loose.pop() {
            if !std::mem::replace(&mut cyclic[node as usize], false) {
                continue;
            }
            for &other in &after[node as usize] {
                left[other as usize].0 -= 1;
                if left[other as usize].0 == 0 {
                    loose.push(other);
                }
            }
            for &other in &before[node as usize] {
                left[other as usize].1 -= 1;
                if left[other as usize].1 == 0 {
                    loose.push(other);
                }
            }
        }
        Ok(cyclic)
    }

    /// Return the nodes that may derive everything that `node` derives, with nothing beside them.
    fn alone(&self, written: &Written, node: u32) -> Vec<u32> {
        let solid = |item: &&u32| !self.nullable[**item as usize];
        let mut found: Vec<u32> = match &written.nodes[node as usize] {
            Node::Reference(rule) => vec![written.rules[*rule as usize]],
            Node::Choice(items) => items.to_vec(),
            Node::Capture { item, .. } => vec![*item],
            Node::Repeat {
                item, minimum, maximum, ..
            } if *maximum != 0 && (*minimum < 2 || self.nullable[*item as usize]) => vec![*item],
            Node::Sequence(items) => match items.iter().filter(solid).count() {
                0 => items.to_vec(),
                1 => items.iter().filter(solid).copied().collect(),
                _ => Vec::new(),
            },
            Node::Members { items, .. } => items[1..].to_vec(),
            _ => Vec::new(),
        };
        found.retain(|item| self.productive[*item as usize]);
        found
    }
}

/// Return the node with which a node surely begins.
fn first_leaf(written: &Written, mut node: u32) -> u32 {
    while let Node::Sequence(items) = &written.nodes[node as usize] {
        match items.first() {
            Some(first) => node = *first,
            None => break,
        }
    }
    node
}

/// Compute the sizes of rules, see `Facts`: first those of rules that call none, then of their callers.
fn sizes(written: &Written, meter: &mut Meter) -> Outcome<Vec<u32>> {
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); written.rules.len()];
    let mut missing = vec![0usize; written.rules.len()];
    for (rule, body) in written.rules.iter().enumerate() {
        walk(written, *body, meter, |reference| {
            users[reference as usize].push(rule as u32);
            missing[rule] += 1;
        })?;
    }
    let mut sizes = vec![HUGE; written.rules.len()];
    let mut ready: Vec<u32> = (0..missing.len() as u32)
        .filter(|rule| missing[*rule as usize] == 0)
        .collect();
    while let Some(rule) = ready.pop() {
        let mut inner = 0u32;
        let own = walk(written, written.rules[rule as usize], meter, |reference| {
            inner = inner.saturating_add(sizes[reference as usize]);
        })?;
        sizes[rule as usize] = own.saturating_add(inner).min(HUGE - 1);
        for user in std::mem::take(&mut users[rule as usize]) {
            missing[user as usize] -= 1;
            if missing[user as usize] == 0 {
                ready.push(user);
            }
        }
    }
    Ok(sizes)
}

/// Count the nodes at and below a node as a tree, not counting the insides of terminals; report each rule that is
/// referred to.
fn walk(written: &Written, node: u32, meter: &mut Meter, mut refers: impl FnMut(u32)) -> Outcome<u32> {
    let mut count = 0u32;
    let mut stack = vec![node];
    while let Some(node) = stack.pop() {
        meter.work(1)?;
        count = count.saturating_add(1);
        match &written.nodes[node as usize] {
            Node::Reference(rule) => refers(*rule),
            leaf if leaf.is_leaf() => {}
            node => stack.extend_from_slice(node.children()),
        }
    }
    Ok(count)
}

/// Compute for which nodes a property holds; a reference has the properties of its rule. Alternatives for which it
/// holds are marked in `members`.
fn solve(
    written: &Written,
    members: &mut [Members],
    meter: &mut Meter,
    needs: impl Fn(usize, &Node) -> Needs,
) -> Outcome<Vec<bool>> {
    let count = written.nodes.len();
    // The parents of each node, and the index of the node in each.
    let mut users: Vec<Vec<(u32, u32)>> = vec![Vec::new(); count];
    let mut missing: Vec<usize> = Vec::with_capacity(count);
    let mut queue: Vec<u32> = Vec::new();
    for (number, node) in written.nodes.iter().enumerate() {
        let below = match node {
            Node::Reference(rule) => std::slice::from_ref(&written.rules[*rule as usize]),
            _ => node.children(),
        };
        meter.work(1 + below.len())?;
        missing.push(match needs(number, node) {
            Needs::Always => 0,
            Needs::Never | Needs::Ways => usize::MAX,
            Needs::Any => 1,
            Needs::All => below.len(),
        });
        if missing[number] == 0 {
            queue.push(number as u32);
        } else {
            (0..)
                .zip(below)
                .for_each(|(index, child)| users[*child as usize].push((number as u32, index)));
        }
    }
    let mut holds = vec![false; count];
    while let Some(number) = queue.pop() {
        if std::mem::replace(&mut holds[number as usize], true) {
            continue;
        }
        for (user, index) in std::mem::take(&mut users[number as usize]) {
            if let (Node::Members { list, .. }, Some(way)) = (&written.nodes[user as usize], index.checked_sub(1)) {
                let list = members.get_mut(*list as usize);
                if list.map_or(Ok(false), |list| list.revive(way, meter))? {
                    queue.push(user);
                }
            }
            let left = &mut missing[user as usize];
            if *left != usize::MAX && *left > 0 {
                *left -= 1;
                if *left == 0 {
                    queue.push(user);
                }
            }
        }
    }
    Ok(holds)
}
