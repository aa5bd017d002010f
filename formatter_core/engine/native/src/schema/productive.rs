//! Removes rules that derive nothing and rules that nothing uses.
//!
//! A few passes over the rules nearly always show that all derive something. Otherwise we read a rule again when a rule
//! that it uses has been found to derive something (as for Horn clauses: Dowling and Gallier 1984).

use crate::base::tuning::MAX_RULE_PASSES;
use crate::schema::nodes::{derives, Node};

/// Compute for each rule whether it derives something.
pub fn derived(rules: &[Node]) -> Vec<bool> {
    let mut found = vec![false; rules.len()];
    let mut pending: Vec<usize> = (0..rules.len()).collect();
    for _ in 0..MAX_RULE_PASSES {
        // A rule may need rules after it, as for values, or before it, as for later properties; so we alternate the
        // direction.
        pending.reverse();
        pending.retain(|rule| {
            found[*rule] = derives(&rules[*rule], &found);
            !found[*rule]
        });
        if pending.is_empty() {
            return found;
        }
    }
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); rules.len()];
    for rule in pending {
        references(&rules[rule], &mut |used| users[used as usize].push(rule));
        if derives(&rules[rule], &found) {
            spread(rule, rules, &mut found, &users);
        }
    }
    found
}

/// Mark a rule that derives something, and the rules that derive something because of it.
fn spread(rule: usize, rules: &[Node], found: &mut [bool], users: &[Vec<usize>]) {
    found[rule] = true;
    let mut queue = vec![rule];
    while let Some(rule) = queue.pop() {
        for user in &users[rule] {
            if !found[*user] && derives(&rules[*user], found) {
                found[*user] = true;
                queue.push(*user);
            }
        }
    }
}

/// Return the rules that are reachable from the first one, in the order in which they are reached, with only those
/// alternatives that derive something; also return their former indices.
pub fn reachable(rules: &[Node], found: &[bool]) -> (Vec<Node>, Vec<usize>) {
    let mut places = vec![0];
    let mut numbers: Vec<Option<u32>> = vec![None; rules.len()];
    numbers[0] = Some(0);
    let mut kept = Vec::new();
    let mut next = 0;
    while let Some(place) = places.get(next).copied() {
        next += 1;
        let options = rules[place].options().iter();
        let mut options: Vec<Node> = options.filter(|option| derives(option, found)).cloned().collect();
        for option in &options {
            references(option, &mut |used| {
                if numbers[used as usize].is_none() {
                    numbers[used as usize] = Some(places.len() as u32);
                    places.push(used as usize);
                }
            });
        }
        kept.push(match options.len() {
            1 => options.remove(0),
            _ => Node::Choice(options),
        });
    }
    for body in &mut kept {
        renumber(body, &numbers);
    }
    (kept, places)
}

/// Call `found` for each rule that a node uses, in order.
fn references(node: &Node, found: &mut impl FnMut(u32)) {
    match node {
        Node::Rule(rule) => found(*rule),
        Node::Sequence(items) | Node::Choice(items) => items.iter().for_each(|item| references(item, found)),
        Node::Repeat(item, ..) => references(item, found),
        Node::Members(members) => members.items().for_each(|item| references(item, found)),
        Node::Terminal(_) | Node::Any => {}
    }
}

fn renumber(node: &mut Node, numbers: &[Option<u32>]) {
    match node {
        Node::Rule(rule) => *rule = numbers[*rule as usize].unwrap_or(0),
        Node::Sequence(items) | Node::Choice(items) => items.iter_mut().for_each(|item| renumber(item, numbers)),
        Node::Repeat(item, ..) => renumber(item, numbers),
        Node::Members(members) => {
            let ways = members.members.iter_mut().flat_map(|member| &mut member.ways);
            ways.for_each(|way| renumber(&mut way.item, numbers));
        }
        Node::Terminal(_) | Node::Any => {}
    }
}
