//! Expectations for error messages: what may follow a text, and the rule and captures that contain it.

use std::collections::hash_map::Entry;

use super::Derivations;
use crate::base::byteset::ByteSet;
use crate::base::hash::{FastMap, FastSet};
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::{MAX_EXPECTED_BYTES, MAX_EXPECTED_CALLS};
use crate::captures::positions::Position;
use crate::captures::preference::Source;
use crate::regular::term::{Term, EMPTY};

/// A terminal or token that may come next.
pub struct Expected {
    pub what: What,
    /// The rule of the grammar that contains it.
    pub rule: u32,
    /// The numbers of the names of captures that are open there, the innermost first.
    pub names: Vec<u32>,
}

pub enum What {
    Token(u32),
    /// The bytes that may come first, and the bytes that must come.
    Text(ByteSet, Vec<u8>),
}

impl Derivations {
    /// Return what may come next; some entries may occur several times.
    pub fn expected(&self, source: Source, meter: &mut Meter) -> Outcome<Vec<Expected>> {
        let mut open = FastMap::default();
        let mut found = Vec::new();
        // Terminals in progress come first; preferred ones began last, see `Plan::ranks`.
        let column = self.tree.column();
        let begun_before = |item: u32| self.tree.items[item as usize].column < column;
        let (under_way, begun) = self
            .threads
            .split_at(self.threads.partition_point(|thread| begun_before(thread.item)));
        for thread in under_way.iter().rev().chain(begun.iter().rev()) {
            let (first, forced) = forced(thread.state, source, meter)?;
            if !first.is_empty() {
                found.push(self.at(What::Text(first, forced), thread.item, source, &mut open, meter)?);
            }
        }
        for &item in &self.tokens {
            if let Position::Token { token, .. } = *source.plan.position(self.tree.items[item as usize].position) {
                found.push(self.at(What::Token(token), item, source, &mut open, meter)?);
            }
        }
        Ok(found)
    }

    fn at(
        &self,
        what: What,
        item: u32,
        source: Source,
        open: &mut FastMap<u32, Vec<u32>>,
        meter: &mut Meter,
    ) -> Outcome<Expected> {
        let rule = source.plan.homes[self.tree.items[item as usize].position as usize];
        let mut names = Vec::new();
        let mut seen = FastSet::default();
        let mut waiting = vec![item];
        while let Some(item) = waiting.pop() {
            meter.work(1)?;
            let own = match open.entry(item) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(self.open_captures(item, source, meter)?),
            };
            names.extend_from_slice(own);
            let call = self.tree.items[item as usize].call;
            if seen.len() == MAX_EXPECTED_CALLS || !seen.insert(call) {
                continue;
            }
            let mut next = self.tree.calls[call as usize].callers;
            while let Some(caller) = next.checked_sub(1).map(|index| &self.callers[index as usize]) {
                next = caller.previous;
                meter.work(1)?;
                waiting.push(caller.item);
            }
        }
        Ok(Expected { what, rule, names })
    }

    /// Return the captures that are open before an item and began in its call, the innermost first.
    fn open_captures(&self, item: u32, source: Source, meter: &mut Meter) -> Outcome<Vec<u32>> {
        let mut names = Vec::new();
        let mut closed = 0;
        let mut next = item;
        while let Some(item) = self.tree.items.get(next as usize) {
            meter.work(1)?;
            let marks: Vec<(u32, bool)> = source.plan.marks(item.entry).collect();
            meter.work(marks.len())?;
            for (name, opens) in marks.into_iter().rev() {
                match (opens, closed) {
                    (false, _) => closed += 1,
                    (true, 0) => names.push(name),
                    (true, _) => closed -= 1,
                }
            }
            next = item.parent;
        }
        Ok(names)
    }
}

/// Return the bytes with which a terminal may continue, and the bytes with which it must continue up to its nearest
/// end.
fn forced(mut state: Term, source: Source, meter: &mut Meter) -> Outcome<(ByteSet, Vec<u8>)> {
    let first = *source.lexicon.row(state, meter)?.live_bytes();
    let mut bytes = Vec::new();
    let mut live = first;
    while bytes.len() < MAX_EXPECTED_BYTES && live.len() == 1 {
        let byte = live.iter().next().unwrap_or_default();
        bytes.push(byte);
        let step = source.lexicon.step(state, byte, meter)?;
        if step.accepts || step.state == EMPTY {
            break;
        }
        state = step.state;
        live = *source.lexicon.row(state, meter)?.live_bytes();
    }
    Ok((first, bytes))
}
