//! Computes the number of rounds of a repetition that each token takes.

use crate::base::byteset::{ByteSet, Kinds};
use crate::base::limits::{Meter, Outcome};
use crate::regular::term::{Term, EMPTY, NOTHING};
use crate::tokens::class::Rounds;
use crate::tokens::lexicon::{Lexicon, Row};

/// A node of the vocabulary's trie on the path to the current one.
struct Open<'a> {
    end: u32,
    row: &'a Row,
    /// Number of complete rounds.
    rounds: u32,
}

/// Compute the rounds of all tokens that stay inside a repetition of `item`. Return None if a round could end at
/// several positions; the item is typically a set of characters, whose rounds cannot.
pub fn rounds(lexicon: &Lexicon, item: Term, meter: &mut Meter) -> Outcome<Option<Rounds>> {
    let vocabulary = &lexicon.vocabulary;
    let nodes = vocabulary.trie.nodes();
    let first = lexicon.row(item, meter)?;
    let mut whole = ByteSet::default();
    for (low, high, _) in first.live().filter(|(_, _, step)| step.state == EMPTY) {
        whole.insert_range(low, high);
    }
    // Each of these bytes is a round by itself.
    let whole = Kinds::within(&whole);
    let mut found = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let (mut index, mut visited) = (0, 0);
    while let Some(node) = nodes.get(index) {
        while open.last().is_some_and(|last| last.end as usize <= index) {
            open.pop();
        }
        visited += 1;
        let (row, complete) = open.last().map_or((first, 0), |last| (last.row, last.rounds));
        let step = row.step(node.byte);
        if step.state == NOTHING {
            index = node.end as usize;
            continue;
        }
        if step.accepts && step.state != EMPTY {
            return Ok(None);
        }
        let begun = complete + 1;
        if step.accepts && vocabulary.trie.below(index).is_within(whole) {
            let depth = open.len() as u32 + 1;
            let ids = vocabulary.trie.all_ids_below(index);
            found.extend(
                ids.iter()
                    .map(|id| (begun + vocabulary.token(*id).len() as u32 - depth, *id)),
            );
            index = node.end as usize;
            continue;
        }
        found.extend(vocabulary.trie.ids(index).iter().map(|id| (begun, *id)));
        index += 1;
        let (row, rounds) = match step.accepts {
            true => (first, begun),
            false => (lexicon.row(step.state, meter)?, complete),
        };
        open.push(Open {
            end: node.end,
            row,
            rounds,
        });
    }
    meter.work(visited / 16 + 1)?;
    Ok(Some(Rounds::new(found)))
}

/// Return the number of rounds of `item` in `bytes`, which must end at the end of a round.
pub fn whole_rounds(lexicon: &Lexicon, item: Term, bytes: &[u8], meter: &mut Meter) -> Outcome<u32> {
    let (mut state, mut rounds) = (item, 0);
    for byte in bytes {
        let step = lexicon.step(state, *byte, meter)?;
        state = if step.accepts { item } else { step.state };
        rounds += u32::from(step.accepts);
    }
    Ok(rounds)
}
