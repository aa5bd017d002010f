//! Trees with short paths to every ancestor: each node has a jump pointer, as in a skew-binary list (Myers 1983).

use crate::base::heap;
use crate::base::limits::{Meter, Outcome};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    parent: u32,
    depth: u32,
    jump: u32,
}

/// Trees whose nodes are numbered from 0.
#[derive(Default)]
pub struct Forest {
    nodes: Vec<Node>,
}

impl Forest {
    /// Return the heap memory in bytes, see `heap`.
    pub fn heap(&self) -> usize {
        heap::list(&self.nodes)
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Add a node; the node is a root if `parent` does not exist.
    pub fn add(&mut self, parent: u32) {
        let (depth, jump) = match self.nodes.get(parent as usize) {
            None => (0, NONE),
            Some(above) => {
                let far = self.nodes.get(above.jump as usize);
                let depth_of = |node: Option<&Node>| node.map_or(0, |node| node.depth);
                let farther = far.map_or(NONE, |far| far.jump);
                let even = far.is_some()
                    && above.depth - depth_of(far) == depth_of(far) - depth_of(self.nodes.get(farther as usize));
                (above.depth + 1, if even && farther != NONE { farther } else { parent })
            }
        };
        self.nodes.push(Node { parent, depth, jump });
    }

    pub fn parent(&self, node: u32) -> u32 {
        self.nodes[node as usize].parent
    }

    pub fn depth(&self, node: u32) -> u32 {
        self.nodes[node as usize].depth
    }

    /// Find where the paths to two nodes of one tree diverge. Return the last node that they share, and the next node
    /// on each path, or None if that path ends at the shared node.
    pub fn parting(&self, one: u32, other: u32, meter: &mut Meter) -> Outcome<(u32, Option<u32>, Option<u32>)> {
        let (one_depth, other_depth) = (self.depth(one), self.depth(other));
        let depth = one_depth.min(other_depth);
        let (mut first, mut second) = (self.ancestor(one, depth, meter)?, self.ancestor(other, depth, meter)?);
        if first == second {
            let mut next = |node: u32, own: u32| match own > depth {
                true => self.ancestor(node, depth + 1, meter).map(Some),
                false => Ok(None),
            };
            return Ok((first, next(one, one_depth)?, next(other, other_depth)?));
        }
        loop {
            meter.work(1)?;
            let (left, right) = (self.nodes[first as usize], self.nodes[second as usize]);
            if left.parent == right.parent {
                return Ok((left.parent, Some(first), Some(second)));
            }
            (first, second) = match left.jump == right.jump {
                true => (left.parent, right.parent),
                false => (left.jump, right.jump),
            };
        }
    }

    /// Find the nearest node, from `node` upwards, for which `is_far` holds; it must then hold for all ancestors of
    /// that node. Return the root if it holds for none.
    pub fn nearest(&self, mut node: u32, is_far: impl Fn(u32) -> bool, meter: &mut Meter) -> Outcome<u32> {
        while !is_far(node) {
            let here = self.nodes[node as usize];
            if here.depth == 0 {
                break;
            }
            meter.work(1)?;
            node = if is_far(here.jump) { here.parent } else { here.jump };
        }
        Ok(node)
    }

    fn ancestor(&self, mut node: u32, depth: u32, meter: &mut Meter) -> Outcome<u32> {
        loop {
            let here = self.nodes[node as usize];
            if here.depth <= depth {
                return Ok(node);
            }
            meter.work(1)?;
            let jump_depth = self.nodes[here.jump as usize].depth;
            node = if jump_depth >= depth { here.jump } else { here.parent };
        }
    }
}
