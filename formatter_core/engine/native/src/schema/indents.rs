//! Computes the indentation of lines: the depth of each rule, or under recursion the maximum depth.
//!
//! A rule that occurs at several depths is indented as at the deepest one. Depths only grow and stop at `LEVELS`, so we
//! visit a rule at most that many times.

use crate::schema::nodes::{Node, LEVELS};
use crate::schema::tokens::Token;

/// Compute the depth of each rule, at most `LEVELS`: 0 is the depth of the root value, which is the first rule.
pub fn depths(rules: &[Node]) -> Vec<i32> {
    let mut known = vec![-1; rules.len()];
    let mut pending = Vec::new();
    pending.extend((!rules.is_empty()).then_some((0, 0)));
    while let Some((rule, depth)) = pending.pop() {
        if known[rule as usize] < depth {
            known[rule as usize] = depth;
            uses(&rules[rule as usize], depth, &mut |used, depth| {
                pending.push((used, depth.min(LEVELS)))
            });
        }
    }
    known.iter_mut().for_each(|depth| *depth = (*depth).max(0));
    known
}

/// Call `found` for each rule that a node uses, with the depth of the rule if the node has depth `depth`.
fn uses(node: &Node, mut depth: i32, found: &mut impl FnMut(u32, i32)) {
    match node {
        Node::Rule(rule) => found(*rule, depth),
        Node::Sequence(items) => {
            for item in items {
                uses(item, depth, found);
                if let Node::Terminal(number) = item {
                    depth += Token::step(*number);
                }
            }
        }
        Node::Choice(items) => items.iter().for_each(|item| uses(item, depth, found)),
        Node::Repeat(item, ..) => uses(item, depth, found),
        Node::Members(members) => members.items().for_each(|item| uses(item, depth, found)),
        Node::Terminal(_) | Node::Any => {}
    }
}
