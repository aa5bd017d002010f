//! The captures of the preferred parse of a text.

use crate::base::limits::{Meter, Outcome};
use crate::captures::items::{Tree, ITEM_COST, NONE, NO_BYTE};
use crate::captures::positions::Position;
use crate::captures::preference::Source;

/// A capture in a list that is ordered by start; an outer capture comes before those inside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capture {
    /// The number of the capture's name.
    pub name: u32,
    /// The start of the capture, and then its end: first in steps, later in bytes.
    pub start: u32,
    pub end: u32,
    /// The index of the first later capture that is not inside this one.
    pub next: u32,
}

/// Return the captures of the preferred parse of the text, which must be complete; offsets count bytes.
pub fn captures(tree: &Tree, complete: u32, source: Source, meter: &mut Meter) -> Outcome<Vec<Capture>> {
    let mut found = Vec::new();
    // Captures whose end we have met but not their start: the end, and how many captures were found by then.
    let mut closed: Vec<(u32, u32)> = Vec::new();
    let mut marks = Vec::new();
    let mut stack = vec![complete];
    // We go from the end to the beginning; when we meet a call, we enter it before going on to what precedes it.
    while let Some(number) = stack.pop() {
        meter.work(1)?;
        let Some(item) = tree.items.get(number as usize) else {
            continue;
        };
        marks.clear();
        marks.extend(source.plan.marks(item.entry));
        meter.work(ITEM_COST * marks.len())?;
        for (name, opens) in marks.iter().rev() {
            if !opens {
                closed.push((item.column, found.len() as u32));
            } else if let Some((end, next)) = closed.pop() {
                let (name, start) = (*name, item.column);
                found.push(Capture { name, start, end, next });
            }
        }
        let Some(parent) = tree.items.get(item.parent as usize) else {
            continue;
        };
        stack.push(item.parent);
        match source.plan.position(parent.position) {
            Position::Choose { .. } => stack.push(item.detail),
            Position::Call { rule, .. } | Position::Rounds { rule, .. }
                if item.detail != NONE && source.plan.rules[*rule as usize].captures =>
            {
                stack.push(tree.end_of(item.detail));
            }
            _ => {}
        }
    }
    found.reverse();
    let count = found.len() as u32;
    found.iter_mut().for_each(|capture| capture.next = count - capture.next);
    count_bytes(tree, &mut found);
    Ok(found)
}

/// Convert offsets from steps to bytes.
fn count_bytes(tree: &Tree, captures: &mut [Capture]) {
    if !tree.steps.contains(&NO_BYTE) {
        return;
    }
    let mut offsets = vec![0];
    for step in &tree.steps {
        offsets.push(offsets[offsets.len() - 1] + u32::from(*step != NO_BYTE));
    }
    for capture in captures {
        capture.start = offsets[capture.start as usize];
        capture.end = offsets[capture.end as usize];
    }
}
