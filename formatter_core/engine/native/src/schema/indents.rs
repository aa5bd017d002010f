//! How far lines are indented: by the depth that each rule may stand at, under recursion by the most there is.
//!
//! A rule that stands at several depths is indented as at the deepest one. Depths only grow, and stop at `LEVELS`: a rule is
//! gone through at most so often.

use crate::schema::nodes::{Node, LEVELS};
use crate::schema::tokens::Token;

/// The depths that rules stand at: 0 for that of the root value, which is the first one's, at most `LEVELS`.
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

/// Call `found` for each rule that a node uses, with its depth there, where the node stands at one.
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
