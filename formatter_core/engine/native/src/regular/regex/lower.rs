//! Expresses anchors and look-around exactly, through the whole pattern around them.
//!
//! A pattern is read from its end. A list of `Tail`s describes what follows the current part: the language of
//! everything to the right, and its demand on the character before it. An assertion about what follows restricts the
//! language. An assertion about what precedes becomes a demand. The next part to the left meets a demand with its last
//! character, or passes it on if it is empty. At the left end, only demands that the start of the text meets remain.
//! (The result uses intersections and complements. Regular languages are closed under both, which is why look-ahead
//! adds no power: Morihata, "Translation of regular expression with lookahead into finite state automaton", 2012.)

mod repeats;

use super::classes::{self, Ranges, ALL};
use super::fault::{Outcome, Reason};
use super::node::{Kind, Node};
use super::queries::{any_of, both, empty_part, ending_in, in_order};
use super::tree::{alternate, Look, Tree};
use super::Limits;
use crate::base::tuning::MAX_TAIL_HEIGHT;

/// Elementary steps for one tail: making and comparing a few nodes.
const TAIL_COST: u64 = 50;

/// The demand on the character before a position: it is one of these, or (if `start` is set) there is none.
#[derive(Clone, PartialEq)]
struct Demand {
    characters: Ranges,
    start: bool,
}

impl Demand {
    fn free() -> Self {
        Demand {
            characters: classes::all(),
            start: true,
        }
    }

    fn at_start() -> Self {
        Demand {
            characters: classes::none(),
            start: true,
        }
    }

    fn both(&self, other: &Demand) -> Self {
        match (self.is_free(), other.is_free()) {
            (true, _) => other.clone(),
            (_, true) => self.clone(),
            _ => Demand {
                characters: classes::intersection(&self.characters, &other.characters),
                start: self.start && other.start,
            },
        }
    }

    fn negation(&self) -> Self {
        Demand {
            characters: classes::negation(&self.characters),
            start: !self.start,
        }
    }

    fn is_free(&self) -> bool {
        self.start && *self.characters == *ALL
    }

    fn is_possible(&self) -> bool {
        self.start || !self.characters.is_empty()
    }
}

/// A language that follows a position, and its demand on the character before; `at_end` means that it must reach the
/// end.
#[derive(Clone)]
struct Tail {
    before: Demand,
    node: Node,
    at_end: bool,
}

impl Tail {
    fn of(node: Node) -> Self {
        Tail {
            before: Demand::free(),
            node,
            at_end: false,
        }
    }

    fn with(&self, before: Demand, node: Node) -> Self {
        Tail {
            before,
            node,
            at_end: self.at_end,
        }
    }
}

/// Return the node that matches exactly the texts that the pattern matches as a whole.
///
/// `ordered` keeps alternatives in written order even if that makes the result larger; captures need this.
pub fn lower(tree: Tree, limits: &Limits, ordered: bool) -> Outcome<Node> {
    let node = match tree {
        Tree::Node(node) => node,
        tree => {
            let mut lowering = Lowering {
                limits,
                ordered,
                work: 0,
                first_look: 0,
            };
            let mut tails = lowering.follow(&tree, vec![Tail::of(Node::empty())])?;
            tails.retain(|tail| tail.before.start);
            let node = any_of(tails.into_iter().map(|tail| tail.node).collect());
            if node.hides_capture() {
                return Err(Reason::CaptureHidden.at(lowering.first_look));
            }
            node
        }
    };
    if node.height() > limits.depth {
        return Err(Reason::Depth.at(0));
    }
    match node.size() > limits.nodes {
        true => Err(Reason::Nodes.at(0)),
        false => Ok(node),
    }
}

struct Lowering<'a> {
    limits: &'a Limits,
    ordered: bool,
    work: u64,
    /// The position of the look-ahead that was followed last; patterns are followed from their end.
    first_look: usize,
}

impl Lowering<'_> {
    /// Return the tails before `tree`, given the tails after it.
    fn follow(&mut self, tree: &Tree, tails: Vec<Tail>) -> Outcome<Vec<Tail>> {
        self.spend(TAIL_COST * (1 + tails.len() as u64))?;
        let found = match tree {
            Tree::Concat(items) => items
                .iter()
                .rev()
                .try_fold(tails, |tails, item| self.follow(item, tails))?,
            Tree::Alternate(items) => {
                let mut found = Vec::new();
                for item in grouped(items) {
                    found.append(&mut self.follow(&item, tails.clone())?);
                }
                self.merge(found)
            }
            Tree::Loop(repeated) => self.follow_loop(repeated, tails)?,
            Tree::Anchor { is_end } => tails.into_iter().map(|tail| anchored(tail, *is_end)).collect(),
            Tree::Look(look) if look.ahead => self.follow_ahead(look, tails)?,
            Tree::Look(look) => self.follow_behind(look, &tails)?,
            Tree::Named(name, item) => {
                let mut pieces = self.follow(item, vec![Tail::of(Node::empty())])?;
                for piece in pieces.iter_mut().filter(|piece| !piece.node.is_nothing()) {
                    piece.node = Node::capture(name.clone(), piece.node.clone());
                }
                self.join(&pieces, &tails)
            }
            Tree::Node(node) => self.join(&[Tail::of(node.clone())], &tails),
        };
        let is_higher = |tail: &Tail| tail.node.height() > MAX_TAIL_HEIGHT.max(self.limits.depth);
        if found.iter().any(is_higher) {
            return Err(Reason::Depth.at(0));
        }
        match found.iter().any(|tail| tail.node.size() > self.limits.nodes) {
            true => Err(Reason::Nodes.at(0)),
            false => Ok(found),
        }
    }

    fn spend(&mut self, steps: u64) -> Outcome<()> {
        self.work += steps;
        match self.work > self.limits.work {
            true => Err(Reason::AssertionWork.at(0)),
            false => Ok(()),
        }
    }

    fn join(&self, pieces: &[Tail], tails: &[Tail]) -> Vec<Tail> {
        let mut found = Vec::new();
        for piece in pieces {
            tails.iter().for_each(|tail| join(piece, tail, &mut found));
        }
        self.merge(found)
    }

    fn follow_ahead(&mut self, look: &Look, mut tails: Vec<Tail>) -> Outcome<Vec<Tail>> {
        let wanted = self.follow(&look.item, vec![Tail::of(Node::any_text())])?;
        self.first_look = look.position;
        if !look.negated {
            let pairs = tails.iter().flat_map(|tail| wanted.iter().map(move |one| (tail, one)));
            let met = pairs.map(|(tail, one)| tail.with(tail.before.both(&one.before), both(&tail.node, &one.node)));
            return Ok(self.merge(met.collect()));
        }
        for one in wanted {
            let refused = one.before.negation();
            let mut found = Vec::new();
            for tail in tails {
                found.push(tail.with(
                    tail.before.clone(),
                    both(&tail.node, &Node::complement(one.node.clone())),
                ));
                if !one.before.is_free() {
                    found.push(tail.with(tail.before.both(&refused), tail.node.clone()));
                }
            }
            tails = self.merge(found);
        }
        Ok(tails)
    }

    fn follow_behind(&mut self, look: &Look, tails: &[Tail]) -> Outcome<Vec<Tail>> {
        let Some(demand) = demand(&look.item) else {
            return Err(Reason::LookBehindTooLong.at(look.position));
        };
        let demand = if look.negated { demand.negation() } else { demand };
        let found = tails
            .iter()
            .map(|tail| tail.with(tail.before.both(&demand), tail.node.clone()));
        Ok(self.merge(found.collect()))
    }

    /// Remove impossible tails, and merge those that differ only in the node.
    fn merge(&self, mut tails: Vec<Tail>) -> Vec<Tail> {
        tails.retain(|tail| !tail.node.is_nothing() && tail.before.is_possible());
        if tails.len() < 2 {
            return tails;
        }
        let mut merged: Vec<(Tail, Vec<Node>)> = Vec::new();
        for tail in tails {
            let first = if self.ordered {
                merged.len().saturating_sub(1)
            } else {
                0
            };
            let is_same = |(other, _): &&mut (Tail, _)| (other.at_end, &other.before) == (tail.at_end, &tail.before);
            match merged[first..].iter_mut().find(is_same) {
                Some((_, nodes)) => nodes.push(tail.node),
                None => merged.push((tail.clone(), vec![tail.node])),
            }
        }
        let all = merged.into_iter();
        all.map(|(first, nodes)| first.with(first.before.clone(), any_of(nodes)))
            .collect()
    }
}

fn anchored(tail: Tail, is_end: bool) -> Tail {
    match is_end {
        true => Tail {
            node: empty_part(&tail.node),
            at_end: true,
            ..tail
        },
        false => tail.with(tail.before.both(&Demand::at_start()), tail.node.clone()),
    }
}

/// Put a piece directly before a tail: its last character meets the demand, or it is empty and passes the demand on.
fn join(piece: &Tail, tail: &Tail, found: &mut Vec<Tail>) {
    let rest = if piece.at_end {
        empty_part(&tail.node)
    } else {
        tail.node.clone()
    };
    let with = |before: Demand, node: Node| Tail {
        before,
        node: in_order([node, rest.clone()]),
        at_end: piece.at_end || tail.at_end,
    };
    if tail.before.is_free() {
        return found.push(with(piece.before.clone(), piece.node.clone()));
    }
    let last = ending_in(&piece.node, &tail.before.characters);
    found.push(with(piece.before.clone(), last));
    found.push(with(piece.before.both(&tail.before), empty_part(&piece.node)));
}

/// Merge adjacent alternatives without assertions, so that what follows is not repeated for each.
fn grouped(items: &[Tree]) -> Vec<Tree> {
    let is_node = |item: &Tree| matches!(item, Tree::Node(_));
    let mut groups: Vec<Vec<Tree>> = Vec::new();
    for item in items {
        match groups.last_mut() {
            Some(group) if is_node(item) && is_node(&group[0]) => group.push(item.clone()),
            _ => groups.push(vec![item.clone()]),
        }
    }
    groups.into_iter().map(alternate).collect()
}

/// Return the demand of a look-behind on the previous character, if it checks at most one character.
fn demand(tree: &Tree) -> Option<Demand> {
    let one_of = |characters| Demand {
        characters,
        start: false,
    };
    let any = |demands: Vec<Demand>| Demand {
        characters: classes::union(demands.iter().map(|one| &*one.characters)),
        start: demands.iter().any(|one| one.start),
    };
    match tree {
        Tree::Anchor { is_end } => (!is_end).then(Demand::at_start),
        Tree::Alternate(items) => items.iter().map(demand).collect::<Option<_>>().map(any),
        Tree::Node(node) => match node.kind() {
            Kind::Chars(ranges) => Some(one_of(ranges.clone())),
            Kind::Text(text) => {
                let mut characters = text.chars();
                let only = characters.next().filter(|_| characters.next().is_none());
                only.map(|char| one_of(classes::single(char.into())))
            }
            Kind::Choice(items) => {
                let demands = items.iter().map(|item| demand(&item.clone().into()));
                demands.collect::<Option<_>>().map(any)
            }
            _ => None,
        },
        _ => None,
    }
}
