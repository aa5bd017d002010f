//! Anchors: what may come before a position and after it, where the text has to begin or end there.

use super::{is_node, Pattern, Tree, EMPTY};

/// What follows a position: the whole text begins there, or ends, if it says so.
#[derive(Clone, Copy)]
pub struct Tail {
    pub at_start: bool,
    pub at_end: bool,
    pub node: Tree,
}

impl Pattern<'_> {
    /// The tails before a tree, given those after it.
    pub(super) fn follow(&mut self, tree: Tree, tails: &[Tail]) -> Vec<Tail> {
        let mut tails = tails.to_vec();
        let before = self.row.len();
        match tree {
            Tree::Concat(span) => {
                for place in (span.0..span.1).rev() {
                    tails = self.follow(self.items[place as usize], &tails);
                }
                return tails;
            }
            Tree::Alternate(span) => {
                let mut found = Vec::new();
                for place in span.0..=span.1 {
                    let item = self.items.get(place as usize).filter(|_| place < span.1).copied();
                    match item {
                        // Neighbours without anchors stay together.
                        Some(item) if is_node(item) => self.row.push(item),
                        _ => {
                            if self.row.len() > before {
                                let nodes = self.choice(before);
                                found.append(&mut self.follow(nodes, &tails));
                            }
                            if let Some(item) = item {
                                found.append(&mut self.follow(item, &tails));
                            }
                        }
                    }
                }
                tails = found;
            }
            Tree::Anchor(false) => {
                tails.iter_mut().for_each(|tail| tail.at_start = true);
                return tails;
            }
            Tree::Anchor(true) => {
                tails.retain(|tail| self.is_nullable(tail.node));
                for tail in &mut tails {
                    tail.at_end = true;
                    tail.node = EMPTY;
                }
                return tails;
            }
            node => {
                // Before the start of the text there is nothing.
                let is_nullable = self.is_nullable(node);
                tails.retain(|tail| !tail.at_start || is_nullable);
                for tail in tails.iter_mut().filter(|tail| !tail.at_start) {
                    for item in [node, tail.node] {
                        match item {
                            Tree::Sequence(span) => {
                                for place in span.0..span.1 {
                                    self.push(before, self.items[place as usize]);
                                }
                            }
                            _ => self.push(before, item),
                        }
                    }
                    tail.node = self.joined(before);
                }
            }
        }
        // Those that differ only in the node are one.
        let mut merged = Vec::new();
        for (place, tail) in tails.iter().enumerate() {
            let is_same = |other: &Tail| (other.at_start, other.at_end) == (tail.at_start, tail.at_end);
            if !tails[..place].iter().any(is_same) {
                for other in tails[place..].iter().filter(|other| is_same(other)) {
                    self.row.push(other.node);
                }
                let node = self.choice(before);
                merged.push(Tail { node, ..*tail });
            }
        }
        merged
    }
}
