//! Checks bounds on rules other than the number of nodes: the counts of repeats, and the nesting of nodes.

use crate::schema::any_value::{any_rules, ANY_NAMES};
use crate::schema::common::Common;
use crate::schema::lowering::{Made, Most};
use crate::schema::nodes::{Node, Regular};
use crate::schema::report::{Refusal, Why};
use crate::schema::tokens::{PUNCTUATION, TOKENS};

/// Return why the rules exceed the bounds, if they do.
pub fn past_bounds(made: &Made, common: &Common, most: &Most) -> Option<Refusal> {
    let bounds = Bounds { made, common, most };
    let own = made.rules.iter().zip(made.titles.iter().map(|title| &**title));
    own.into_iter()
        .find_map(|(body, title)| bounds.rule(body, title))
        .or_else(|| {
            let any_rules = any_rules();
            let mut any = any_rules.iter().zip(ANY_NAMES).filter(|_| made.uses_any);
            any.find_map(|(body, title)| bounds.rule(body, title))
        })
}

struct Bounds<'a> {
    made: &'a Made,
    common: &'a Common,
    most: &'a Most,
}

impl Bounds<'_> {
    fn rule(&self, body: &Node, title: &str) -> Option<Refusal> {
        let (why, parts) = self.node(body, self.most.depth)?;
        let parts: Vec<&str> = parts.iter().copied().chain([title]).collect();
        Some(Refusal::limit(why, &parts))
    }

    /// Return which bound a node exceeds, if nodes may nest `room` levels deep.
    fn node(&self, node: &Node, room: u32) -> Option<(Why, &'static [&'static str])> {
        const REPEAT: (Why, &[&str]) = (Why::Repeat, &["a repeat"]);
        const MEMBERS: (Why, &[&str]) = (Why::Repeat, &["a list of members"]);
        const DEPTH: (Why, &[&str]) = (Why::RuleDepth, &[]);
        if room == 0 {
            return Some(DEPTH);
        }
        let is_large = |minimum: u32, maximum: Option<u32>| minimum.max(maximum.unwrap_or(0)) > self.most.repeat;
        match node {
            Node::Terminal(number) => self.terminals(*number).find_map(|regular| match regular {
                _ if regular.repeat > self.most.repeat => Some(REPEAT),
                _ => (regular.height >= room).then_some(DEPTH),
            }),
            Node::Rule(_) | Node::Any => None,
            Node::Sequence(items) | Node::Choice(items) => items.iter().find_map(|item| self.node(item, room - 1)),
            Node::Repeat(_, minimum, maximum) if is_large(*minimum, *maximum) => Some(REPEAT),
            Node::Repeat(item, ..) => self.node(item, room - 1),
            Node::Members(members) if is_large(members.minimum, members.maximum) => Some(MEMBERS),
            Node::Members(members) => {
                let mut items = [&members.separator].into_iter().chain(members.items());
                items.find_map(|item| self.node(item, room - 1))
            }
        }
    }

    /// Return the insides of a terminal; a token has one for each depth.
    fn terminals(&self, number: u32) -> impl Iterator<Item = &Regular> {
        let levels = match number < PUNCTUATION {
            true => &self.common.levels[..],
            false => &[],
        };
        let levels = levels.iter().skip(number as usize).step_by(PUNCTUATION as usize);
        let own = match number.checked_sub(TOKENS) {
            Some(place) => &self.made.terminals[place as usize],
            None => &self.common.tokens[number as usize],
        };
        [own].into_iter().chain(levels)
    }
}
