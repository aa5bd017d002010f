//! Rebuilds frames once the last token is complete, when the deadlines of the regions that it has opened become known.

use std::sync::Arc;

use crate::base::hash::FastMap;
use crate::base::limits::{Meter, Outcome};
use crate::grammar::regions::{are_relative, settled};
use crate::grammar::stack::{Called, Edge, Frame, Frozen, Group, Key};
use crate::masks::cache::Cache;

/// Return the parts of a state after its last token, which is the last of `tokens`.
pub fn settle(mut parts: Frozen, tokens: u32, cache: &mut Cache, meter: &mut Meter) -> Outcome<Frozen> {
    let mut known: FastMap<u64, Arc<Group>> = FastMap::default();
    let threads = parts.threads.iter_mut().map(|thread| &mut thread.frame);
    let tokens_by_id = parts.tokens.iter_mut().map(|thread| &mut thread.frame);
    for frame in threads.chain(tokens_by_id) {
        settle_group(&frame.group, tokens, &mut known, cache, meter)?;
        *frame = settled_frame(&frame.group, frame.member, &known);
    }
    Ok(Frozen {
        tokens: parts.tokens,
        can_stop: parts.can_stop,
        ..Frozen::of_threads(parts.threads)
    })
}

fn needs_settling(group: &Group) -> bool {
    (0..group.len()).any(|member| are_relative(group.deadlines(member)))
}

/// Rebuild a group after its parents, iteratively.
fn settle_group(
    first: &Arc<Group>,
    tokens: u32,
    known: &mut FastMap<u64, Arc<Group>>,
    cache: &mut Cache,
    meter: &mut Meter,
) -> Outcome<()> {
    let mut stack = vec![first.clone()];
    while let Some(group) = stack.last().cloned() {
        if known.contains_key(&group.id) || !needs_settling(&group) {
            stack.pop();
            continue;
        }
        let edges = || (0..group.len()).flat_map(|member| group.edges(member));
        meter.work(edges().count() + 1)?;
        let before = stack.len();
        let outer = edges().filter_map(|edge| edge.group.as_ref());
        stack.extend(
            outer
                .filter(|outer| !known.contains_key(&outer.id) && needs_settling(outer))
                .cloned(),
        );
        if stack.len() > before {
            continue;
        }
        let edge = |edge: &Edge| Edge {
            position: edge.position,
            member: edge.member,
            group: edge
                .group
                .as_ref()
                .map(|outer| known.get(&outer.id).unwrap_or(outer).clone()),
        };
        let members = (0..group.len()).map(|member| Called {
            edges: group.edges(member).iter().map(edge).collect(),
            memory: group.memory(member).cloned(),
            deadlines: group.deadlines(member).as_ref().map(|open| settled(open, tokens)),
        });
        // The old group and the number of tokens determine the new group; no other key begins with this number.
        let key = Key([u64::MAX, group.id, u64::from(tokens)].into());
        known.insert(group.id, cache.group(key, members.collect())?);
        stack.pop();
    }
    Ok(())
}

fn settled_frame(group: &Arc<Group>, member: u32, known: &FastMap<u64, Arc<Group>>) -> Frame {
    Frame {
        group: known.get(&group.id).unwrap_or(group).clone(),
        member,
    }
}
