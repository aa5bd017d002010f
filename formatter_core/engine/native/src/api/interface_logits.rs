//! The C interface to rows of logits: lists of the best tokens, and masks. As in `interface`, calls answer with a number.

use std::mem::{align_of, size_of};
use std::slice;

use crate::api::interface::{guarded, view, DONE};
use crate::api::logits::{ask, Answer, Brain, Half, Logit, Question, Scratch};
use crate::api::masking::{mask_apart, mask_or_copy, mask_together, Masked};
use crate::base::limits::Fault;

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
        let ask_row = match rows.kind {
            FLOAT32 => ask_row::<f32>,
            FLOAT16 => ask_row::<Half>,
            BFLOAT16 => ask_row::<Brain>,
            _ => return Err(Fault::Malformed),
        };
        let mut scratch = Scratch::default();
        // SAFETY: there is a number for each row, as the caller promises; a null pointer has none.
        let (counts, chosen) = unsafe { (view(rows.counts, rows.rows), view(rows.chosen, rows.rows)) };
        for (number, &count) in counts.iter().enumerate() {
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
            // SAFETY: the row is there, as the caller promises, and its logits are of the kind that was asked for.
            let Some(answer) = (unsafe { ask_row(rows, number, question, &mut scratch) }) else {
                return Ok(number as i32 + 1);
            };
            // SAFETY: there is room for as much for each row, as the caller promises.
            unsafe { write(&answer, found, number, rows.room) };
        }
        Ok(DONE)
    })
}

/// # Safety
/// As for `fcn_best_tokens`; the logits are of this kind, and there are more rows than `number`.
unsafe fn ask_row<L: Logit>(rows: &Rows, number: usize, question: Question, scratch: &mut Scratch) -> Option<Answer> {
    // SAFETY: the row stands there, as the caller promises.
    let row = unsafe { slice::from_raw_parts(rows.logits.cast::<L>().add(number * rows.stride), rows.width) };
    ask(row, question, scratch)
}

/// # Safety
/// `found` has a place for this row, and room for as many tokens, which the answer's list is no longer than.
unsafe fn write(answer: &Answer, found: &Found, number: usize, room: usize) {
    // SAFETY: as the caller promises.
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
            let at = number * room + place;
            found.ids.add(at).write(i64::from(id));
            found.logprobs.add(at).write(f64::from(value) - answer.scale);
            found.ranks.add(at).write(rank);
        }
    }
}

/// Write -inf over the logits of all tokens that a row does not allow, those past its end included. The answer is whether
/// one that it allows is above -inf. Logits whose memory was given back, which is what a null pointer means, are none.
///
/// # Safety
/// `logits` is null or points to `width` floats, `stride` bytes from one to the next, which nobody else uses; `row` points
/// to `words` words.
#[no_mangle]
pub unsafe extern "C" fn fcn_mask_logits(
    logits: *mut f32,
    width: usize,
    stride: isize,
    row: *const u32,
    words: usize,
) -> i32 {
    if logits.is_null() {
        return 0;
    }
    // SAFETY: as the caller promises.
    let row = unsafe { view(row, words) };
    let lie_together = stride == size_of::<f32>() as isize && logits as usize % align_of::<f32>() == 0;
    let is_left = if lie_together && width > 0 {
        // SAFETY: as the caller promises, and they are aligned and lie side by side.
        mask_together(unsafe { slice::from_raw_parts_mut(logits, width) }, row)
    } else {
        // SAFETY: as the caller promises.
        unsafe { mask_apart(logits, width, stride, row) }
    };
    i32::from(is_left)
}

/// `fcn_mask_logits` for logits side by side, up to the block of 32 behind the last one that holds an allowed token, but
/// for at least so many; or, where a row allows few, a copy of those into `copies`, which are -inf otherwise. The answer
/// is how many were masked, or how many copies are, with the sign changed; it is 0 where no token that the row allows is
/// above -inf.
///
/// # Safety
/// `logits` and `copies` each point to `width` aligned floats; `row` and `before` to `words` words. Nobody else uses the
/// floats or `before` meanwhile, nor writes to `copies` and `before` from one call to the next; in the first call all copies
/// are -inf.
#[no_mangle]
pub unsafe extern "C" fn fcn_mask_or_copy(
    logits: *mut f32,
    width: usize,
    row: *const u32,
    words: usize,
    least: usize,
    copies: *mut f32,
    before: *mut u32,
) -> isize {
    if logits.is_null() || width == 0 {
        return 0;
    }
    // SAFETY: as the caller promises.
    let (logits, row, copies, before) = unsafe {
        (
            slice::from_raw_parts_mut(logits, width),
            view(row, words),
            slice::from_raw_parts_mut(copies, width),
            slice::from_raw_parts_mut(before, words),
        )
    };
    match mask_or_copy(logits, row, least, copies, before) {
        Masked::Nothing => 0,
        Masked::InPlace(count) => count as isize,
        Masked::Copied(count) => -(count as isize),
    }
}

/// Write -inf over the logits of all tokens that rows do not allow: many rows in one call.
///
/// # Safety
/// `logits` points to `count` addresses, each of `width` aligned floats side by side, which nobody else uses and which no
/// other address covers; `rows` to `words` words for each of them, `step` words from one to the next.
#[no_mangle]
pub unsafe extern "C" fn fcn_mask_rows(
    logits: *const *mut f32,
    count: usize,
    width: usize,
    rows: *const u32,
    words: usize,
    step: usize,
) {
    // SAFETY: as the caller promises.
    for (number, logits) in unsafe { view(logits, count) }.iter().enumerate() {
        if !logits.is_null() {
            // SAFETY: as the caller promises.
            let (logits, row) = unsafe {
                (
                    slice::from_raw_parts_mut(*logits, width),
                    view(rows.add(number * step), words),
                )
            };
            mask_together(logits, row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::interface_tests::Random;

    /// Any width, stride and row, in memory of exactly that size: a sanitizer sees a write past it.
    #[test]
    fn logits_are_masked_in_place() {
        let mut random = Random(7);
        for _ in 0..3_000 {
            let (width, step, is_reversed) = (random.below(200), 1 + random.below(3), random.below(2) == 1);
            let row: Vec<u32> = (0..random.below(8))
                .map(|_| [0, u32::MAX, random.next() as u32][random.below(3)])
                .collect();
            let logits: Vec<f32> = (0..(width * step).saturating_sub(step - 1))
                .map(|_| [f32::NEG_INFINITY, f32::NAN, 0.0, -1e30, f32::INFINITY][random.below(5)])
                .collect();
            let place = |id: usize| step * if is_reversed { width - 1 - id } else { id };
            let stride = (step * size_of::<f32>()) as isize;
            let mut found = logits.clone();
            // SAFETY: there are as many floats and words, and the first of them is where they begin.
            let left = unsafe {
                let first = if is_reversed && width > 0 {
                    found.as_mut_ptr().add(place(0))
                } else {
                    found.as_mut_ptr()
                };
                fcn_mask_logits(
                    first,
                    width,
                    if is_reversed { -stride } else { stride },
                    row.as_ptr(),
                    row.len(),
                )
            };
            let allowed = |id: usize| row.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
            let mut wanted = logits.clone();
            for id in (0..width).filter(|id| !allowed(*id)) {
                wanted[place(id)] = f32::NEG_INFINITY;
            }
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&wanted));
            let is_left = (0..width).any(|id| wanted[place(id)] > f32::NEG_INFINITY);
            assert_eq!(left, i32::from(is_left));
        }
    }

    /// Rows that allow many and few by turns, with the same copies.
    #[test]
    fn few_logits_are_copied() {
        let mut random = Random(9);
        for _ in 0..300 {
            let (width, words) = (1 + random.below(300), random.below(12));
            let (mut copies, mut before) = (vec![f32::NEG_INFINITY; width], vec![0; words]);
            let mut answers = [0; 3];
            for _ in 0..20 {
                let zeros = 1 + random.below(12);
                let row: Vec<u32> = (0..words)
                    .map(|_| {
                        if random.below(zeros) == 0 {
                            random.next() as u32
                        } else {
                            0
                        }
                    })
                    .collect();
                let logits: Vec<f32> = (0..width)
                    .map(|_| [f32::NEG_INFINITY, 0.0, -1e30, f32::INFINITY][random.below(4)])
                    .collect();
                let (mut found, mut wanted) = (logits.clone(), logits.clone());
                let is_left = mask_together(&mut wanted, &row);
                let least = if random.below(9) > 0 {
                    random.below(2 * width)
                } else {
                    usize::MAX
                };
                // SAFETY: there are as many floats and words.
                let answer = unsafe {
                    let (copies, before) = (copies.as_mut_ptr(), before.as_mut_ptr());
                    fcn_mask_or_copy(found.as_mut_ptr(), width, row.as_ptr(), words, least, copies, before)
                };
                assert_eq!(answer != 0, is_left);
                let count = answer.unsigned_abs();
                let left_out = &wanted[count..];
                let allowed = |id: usize| row.get(id / 32).is_some_and(|bits| bits >> (id % 32) & 1 == 1);
                assert!(!is_left || count == width || !allowed(count - 1));
                assert!(
                    !is_left || count >= least.min(width) && left_out.iter().all(|logit| *logit == f32::NEG_INFINITY)
                );
                match answer.signum() {
                    1 => assert_eq!((&found[..count], &found[count..]), (&wanted[..count], &logits[count..])),
                    -1 => assert_eq!((&found, &copies[..count]), (&logits, &wanted[..count])),
                    _ => (),
                }
                answers[(answer.signum() + 1) as usize] += 1;
            }
            assert!(
                width < 200 || words < 8 || answers.iter().all(|count| *count > 0),
                "{answers:?}"
            );
        }
    }

    #[test]
    fn each_row_masks_its_own_logits() {
        let mut random = Random(8);
        for _ in 0..1_000 {
            let (count, width, words) = (random.below(4), random.below(100), random.below(5));
            let step = [words, 0][random.below(2)];
            let rows: Vec<u32> = (0..words * count.max(1)).map(|_| random.next() as u32).collect();
            let mut found = vec![vec![1.0f32; width]; count];
            let places: Vec<*mut f32> = found.iter_mut().map(|logits| logits.as_mut_ptr()).collect();
            // SAFETY: so many logits lie at each place, and there are as many words for each of them.
            unsafe { fcn_mask_rows(places.as_ptr(), count, width, rows.as_ptr(), words, step) };
            for (number, logits) in found.iter().enumerate() {
                let row = &rows[number * step..][..words];
                for (id, logit) in logits.iter().enumerate() {
                    let is_allowed = row.get(id / 32).is_some_and(|word| word & 1 << (id % 32) != 0);
                    assert_eq!(*logit, if is_allowed { 1.0 } else { f32::NEG_INFINITY });
                }
            }
        }
    }
}
