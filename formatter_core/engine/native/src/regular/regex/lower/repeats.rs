//! Repeats of an item that includes an assertion: they are unrolled, or tempered by what may follow each round.

use std::rc::Rc;

use super::{Demand, Lowering, Tail};
use crate::base::tuning::MAX_UNROLLED_ROUNDS;
use crate::regular::regex::classes::{self, Ranges};
use crate::regular::regex::fault::{Outcome, Reason};
use crate::regular::regex::node::{Kind, Node};
use crate::regular::regex::queries::{any_of, both, first_characters, fixed_length, in_order};
use crate::regular::regex::term::matches_something;
use crate::regular::regex::tree::{repeat, Loop, Tree};

impl Lowering<'_> {
    pub(super) fn follow_loop(&mut self, repeated: &Loop, mut tails: Vec<Tail>) -> Outcome<Vec<Tail>> {
        if repeated.minimum.max(repeated.maximum.unwrap_or(0)) > MAX_UNROLLED_ROUNDS {
            return self.follow_tempered(repeated, tails);
        }
        let Some(maximum) = repeated.maximum else {
            tails = self.follow_star(&repeated.times(0, None), tails)?;
            for _ in 0..repeated.minimum {
                tails = self.follow(&repeated.item, tails)?;
            }
            return Ok(tails);
        };
        let mut rounds = vec![tails];
        for round in 0..maximum as usize {
            rounds.push(self.follow(&repeated.item, rounds[round].clone())?);
        }
        let mut wanted = rounds.split_off(repeated.minimum as usize);
        if repeated.greedy {
            wanted.reverse();
        }
        Ok(self.merge(wanted.into_iter().flatten().collect()))
    }

    /// Follow an unbounded repeat: an anchor can hold only in the first or the last round, a look-around in every
    /// round.
    fn follow_star(&mut self, repeated: &Loop, tails: Vec<Tail>) -> Outcome<Vec<Tail>> {
        let between = Assuming {
            anchor: Some(Node::nothing()),
            look: None,
            may_capture: true,
        };
        let Some(between) = between.node(&repeated.item) else {
            return self.follow_tempered(repeated, tails);
        };
        let once = Tree::Loop(Rc::new(repeated.times(0, Some(1))));
        let middle = repeat(Loop {
            item: between.into(),
            ..repeated.clone()
        });
        self.follow(&Tree::Concat([once.clone(), middle, once].into()), tails)
    }

    /// Follow `(?:(?!x)c)*`: an unbounded repeat whose rounds all have one length, where the text after a position
    /// decides whether a round may begin there.
    fn follow_tempered(&mut self, repeated: &Loop, tails: Vec<Tail>) -> Outcome<Vec<Tail>> {
        if let Some(simple) = one_character(&repeated.item) {
            let simple = repeat(Loop {
                item: Node::one_of(simple).into(),
                ..repeated.clone()
            });
            return self.follow(&simple, tails);
        }
        let taken = Assuming {
            anchor: Some(Node::empty()),
            look: Some(Node::empty()),
            may_capture: false,
        };
        let taken = taken.node(&repeated.item);
        let allowed = self.follow(&repeated.item, vec![Tail::of(Node::any_text())])?;
        let is_long = |node: &Node| fixed_length(node).is_some_and(|length| length > 0);
        let (Some(taken), true) = (taken.filter(is_long), allowed.iter().all(|one| one.before.is_free())) else {
            return Err(Reason::RoundsDiffer.with(repeated.position, [MAX_UNROLLED_ROUNDS.into(), 0]));
        };
        let mut found = Vec::new();
        for tail in tails {
            if tail.before.is_free() {
                let allowed = any_of(allowed.iter().map(|one| one.node.clone()).collect());
                let node = self.tempered(repeated, taken.clone(), allowed, &tail.node)?;
                found.push(tail.with(Demand::free(), node));
                continue;
            }
            if repeated.minimum == 0 {
                found.push(tail.clone());
            }
            let maximum = repeated.maximum.map(|maximum| maximum.saturating_sub(1));
            let earlier = repeated.times(repeated.minimum.saturating_sub(1), maximum);
            let last = self.follow(&repeated.item, vec![tail])?;
            found.append(&mut self.follow_tempered(&earlier, last)?);
        }
        Ok(self.merge(found))
    }

    /// Return a node for the rounds and the rest. A round matches `taken`, and may begin only where the text matches
    /// `allowed`.
    ///
    /// The node excludes the texts with a round where none may begin, so it must be certain where the rounds end. If
    /// the repeat may have no rounds, the node takes the fewest: those before the first position where the rest fits.
    fn tempered(&mut self, repeated: &Loop, mut taken: Node, allowed: Node, rest: &Node) -> Outcome<Node> {
        let is_optional = repeated.minimum == 0;
        if is_optional {
            if rest.is_any_text() {
                return Ok(rest.clone());
            }
            if fixed_length(&taken) == Some(1) {
                taken = Node::one_of(classes::difference(&first_characters(&taken), &opening(rest)));
            }
        }
        let rounds = Node::repeat(taken.clone(), repeated.minimum, repeated.maximum, repeated.greedy);
        let every = in_order([rounds, rest.clone()]);
        let any_rounds = || Node::repeat(taken.clone(), 0, None, true);
        let again = in_order([taken.clone(), any_rounds(), rest.clone()]);
        let wrong = both(&again, &Node::complement(allowed));
        if taken.is_nothing() {
            return Ok(every);
        }
        let may_begin_alike = || !classes::intersection(&first_characters(rest), &first_characters(&taken)).is_empty();
        if fixed_length(rest).is_none() && may_begin_alike() {
            if is_optional && self.is_empty(&both(&wrong, &Node::complement(rest.clone())))? {
                return Ok(every);
            }
            if !self.is_empty(&both(&again, rest))? {
                return Err(Reason::RoundsHaveNoEnd.with(repeated.position, [MAX_UNROLLED_ROUNDS.into(), 0]));
            }
        }
        Ok(both(&every, &Node::complement(in_order([any_rounds(), wrong]))))
    }

    /// Return whether the node certainly matches nothing.
    fn is_empty(&mut self, node: &Node) -> Outcome<bool> {
        let (found, work) = matches_something(node);
        self.spend(work)?;
        Ok(found == Some(false))
    }
}

/// Return the set of characters that the tree matches, if it checks a single character.
fn one_character(tree: &Tree) -> Option<Ranges> {
    match tree {
        Tree::Node(node) => (fixed_length(node) == Some(1)).then(|| first_characters(node)),
        Tree::Concat(items) => {
            let (one, checks) = items.split_last()?;
            let mut found = one_character(one)?;
            for check in checks {
                let Tree::Look(look) = check else {
                    return None;
                };
                if !look.ahead || !matches!(look.item, Tree::Node(_)) {
                    return None;
                }
                let seen = one_character(&look.item)?;
                found = match look.negated {
                    true => classes::difference(&found, &seen),
                    false => classes::intersection(&found, &seen),
                };
            }
            Some(found)
        }
        _ => None,
    }
}

/// Return characters that the remainder may begin with and after which it matches any text.
fn opening(rest: &Node) -> Ranges {
    match rest.kind() {
        Kind::Sequence(items) => match &items[..] {
            [first, second] if second.is_any_text() && fixed_length(first) == Some(1) => first_characters(first),
            _ => classes::none(),
        },
        _ => classes::none(),
    }
}

/// The nodes that replace assertions; None where such an assertion must not occur.
struct Assuming {
    anchor: Option<Node>,
    look: Option<Node>,
    may_capture: bool,
}

impl Assuming {
    /// Return the tree with these nodes in place of its assertions. Return None if an assertion has no node, or if
    /// there is a capture where none is allowed.
    fn node(&self, tree: &Tree) -> Option<Node> {
        match tree {
            Tree::Node(node) => Some(node.clone()),
            Tree::Anchor { .. } => self.anchor.clone(),
            Tree::Look(_) => self.look.clone(),
            Tree::Concat(items) => self.nodes(items).map(in_order),
            Tree::Alternate(items) => self.nodes(items).map(any_of),
            Tree::Named(name, item) => {
                let node = self.node(item).filter(|_| self.may_capture)?;
                Some(if node.is_nothing() {
                    node
                } else {
                    Node::capture(name.clone(), node)
                })
            }
            Tree::Loop(repeated) => {
                let node = self.node(&repeated.item)?;
                Some(match repeated.minimum {
                    0 if node.is_nothing() => Node::empty(),
                    _ if node.is_nothing() => node,
                    minimum => Node::repeat(node, minimum, repeated.maximum, repeated.greedy),
                })
            }
        }
    }

    fn nodes(&self, items: &[Tree]) -> Option<Vec<Node>> {
        items.iter().map(|item| self.node(item)).collect()
    }
}
