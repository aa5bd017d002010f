//! The captures of the preferred parse of a text.

use crate::base::limits::{Meter, Outcome};
use crate::captures::items::{Tree, COST, NONE, NO_BYTE};
use crate::captures::positions::Position;
use crate::captures::preference::Source;

/// A capture in a list of all, in order of their start, an outer one before those inside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capture {
    /// The number of its name.
    pub name: u32,
    /// Where it begins and ends; in steps, then in bytes.
    pub start: u32,
    pub end: u32,
    /// The number of the first one after it that is not inside it.
    pub next: u32,
}

/// The captures of the preferred parse of the text, which is complete; offsets count bytes.
pub fn captures(tree: &Tree, complete: u32, source: Source, meter: &mut Meter) -> Outcome<Vec<Capture>> {
    let mut found = Vec::new();
    // Captures whose end has been met but not their start: the end, and how many were found by then.
    let mut closed: Vec<(u32, u32)> = Vec::new();
    let mut marks = Vec::new();
    let mut stack = vec![complete];
    // From the end to the beginning, and in a call that is met there before what comes before it.
    while let Some(number) = stack.pop() {
        meter.work(1)?;
        let Some(item) = tree.items.get(number as usize) else {
            continue;
        };
        marks.clear();
        marks.extend(source.plan.marks(item.entry));
        meter.work(COST * marks.len())?;
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

/// From steps to bytes.
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
