//! The C interface to lists of the best tokens. As in `interface`, its call answers with a number.

use std::slice;

use crate::interface::{guarded, view, DONE};
use crate::limits::{Fault, Outcome};
use crate::logits::{ask, Brain, Half, Logit, Question, Scratch};

/// The kinds of logits.
const FLOAT32: u32 = 0;
const FLOAT16: u32 = 1;
const BFLOAT16: u32 = 2;

/// Rows of logits, and what is asked about each of them; lengths are numbers of elements.
#[repr(C)]
pub struct Rows {
    logits: *const u8,
    kind: u32,
    wants: u32,
    rows: usize,
    width: usize,
    /// From the beginning of a row to that of the next.
    stride: usize,
    /// For each row how many of the best.
    counts: *const u32,
    /// For each row a token; null where there is none.
    chosen: *const u32,
    /// How long a list may be, ties included.
    room: usize,
}

/// Where answers go, row by row.
#[repr(C)]
pub struct Found {
    /// Two for each row: the scale, and the logit of the chosen token.
    numbers: *mut f64,
    /// Three for each row: how many are better than the chosen one, how many there are with ties, how many are listed.
    amounts: *mut i64,
    /// `room` for each row.
    ids: *mut i64,
    logprobs: *mut f64,
    ranks: *mut i64,
}

/// The bits of `Rows::wants`.
const SCALE: u32 = 1;
const RANK: u32 = 2;

/// The best tokens of rows of logits; 0, or the number from 1 of a row that holds NaN or +inf.
///
/// # Safety
/// `rows` and `found` point to structures whose pointers fit their numbers; nobody else uses what is written.
#[no_mangle]
pub unsafe extern "C" fn fcn_best_tokens(rows: *const Rows, found: *const Found) -> i32 {
    guarded(|| {
        // SAFETY: both are there, as the caller promises.
        let (rows, found) = unsafe { (&*rows, &*found) };
        match rows.kind {
            // SAFETY: the pointers fit, as the caller promises.
            FLOAT32 => unsafe { write::<f32>(rows, found) },
            // SAFETY: as above.
            FLOAT16 => unsafe { write::<Half>(rows, found) },
            // SAFETY: as above.
            BFLOAT16 => unsafe { write::<Brain>(rows, found) },
            _ => Err(Fault::Malformed),
        }
    })
}

/// # Safety
/// As for `fcn_best_tokens`; the logits are of this kind.
unsafe fn write<L: Logit>(rows: &Rows, found: &Found) -> Outcome<i32> {
    let mut scratch = Scratch::default();
    // SAFETY: there is a number for each row, as the caller promises; a null pointer has none.
    let (counts, chosen) = unsafe { (view(rows.counts, rows.rows), view(rows.chosen, rows.rows)) };
    for (number, &count) in counts.iter().enumerate() {
        // SAFETY: the row stands there, as the caller promises.
        let row = unsafe { slice::from_raw_parts(rows.logits.cast::<L>().add(number * rows.stride), rows.width) };
        let question = Question {
            count: (count as usize).min(rows.width),
            room: rows.room,
            chosen: chosen.get(number).map(|&token| token as usize),
            wants_scale: rows.wants & SCALE != 0,
            wants_rank: rows.wants & RANK != 0,
        };
        if question.chosen.is_some_and(|token| token >= rows.width) {
            return Err(Fault::Malformed);
        }
        let Some(answer) = ask(row, question, &mut scratch) else {
            return Ok(number as i32 + 1);
        };
        // SAFETY: there is room for as much for each row, as the caller promises; a list is no longer than `room`.
        unsafe {
            found
                .numbers
                .add(number * 2)
                .cast::<[f64; 2]>()
                .write([answer.scale, answer.chosen_logit]);
            let amounts = [answer.better as i64, answer.tied as i64, answer.best.len() as i64];
            found.amounts.add(number * 3).cast::<[i64; 3]>().write(amounts);
            let mut rank = 0;
            for (place, &(id, value)) in answer.best.iter().enumerate() {
                if place == 0 || value < answer.best[place - 1].1 {
                    rank = place as i64 + 1;
                }
                let at = number * rows.room + place;
                found.ids.add(at).write(i64::from(id));
                found.logprobs.add(at).write(f64::from(value) - answer.scale);
                found.ranks.add(at).write(rank);
            }
        }
    }
    Ok(DONE)
}
