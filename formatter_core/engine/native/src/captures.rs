//! The captures of the preferred parse of a text.

use crate::items::{Tree, NONE, NO_BYTE};
use crate::limits::{Meter, Outcome};
use crate::positions::Position;
use crate::preference::Source;

/// A capture that opens, by its name's number, or closes; in steps, then in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    pub name: Option<u32>,
    pub offset: u32,
}

/// The captures of the preferred parse of the text, which is complete; offsets count bytes.
pub fn captures(tree: &Tree, complete: u32, source: Source, meter: &mut Meter) -> Outcome<Vec<Mark>> {
    let mut marks = Vec::new();
    let mut stack = vec![complete];
    // From the end to the beginning, and in a call that is met there before what comes before it.
    while let Some(number) = stack.pop() {
        meter.work(1)?;
        let Some(item) = tree.items.get(number as usize) else {
            continue;
        };
        let first = marks.len();
        marks.extend(source.plan.marks(item.entry).map(|(name, opens)| Mark {
            name: opens.then_some(name),
            offset: item.column,
        }));
        marks[first..].reverse();
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
    marks.reverse();
    count_bytes(tree, &mut marks);
    Ok(marks)
}

/// From steps to bytes.
fn count_bytes(tree: &Tree, marks: &mut [Mark]) {
    if !tree.steps.contains(&NO_BYTE) {
        return;
    }
    let mut offsets = vec![0];
    for step in &tree.steps {
        offsets.push(offsets[offsets.len() - 1] + u32::from(*step != NO_BYTE));
    }
    marks
        .iter_mut()
        .for_each(|mark| mark.offset = offsets[mark.offset as usize]);
}
