//! The C interface to rows of logits: lists of the best tokens, and masks. As in `interface`, every call returns a
//! number.

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

/// Rows of logits with a question about each of them; all lengths are numbers of elements.
#[repr(C)]
pub struct Rows {
    logits: *const u8,
    kind: u32,
    wants: u32,
    rows: usize,
    width: usize,
    /// The distance from the beginning of a row to that of the next.
    stride: usize,
    /// For each row, the number of best tokens wanted.
    counts: *const u32,
    /// For each row, a token; null if there is none.
    chosen: *const u32,
    /// The maximum length of a list, including ties.
    room: usize,
}

/// The memory for the answers, row by row.
#[repr(C)]
pub struct Found {
    /// Two numbers for each row: the scale, and the logit of the chosen token.
    numbers: *mut f64,
    /// Three numbers for each row: how many tokens are better than the chosen one, how many there are with ties, and
    /// how many are listed.
    amounts: *mut i64,
    /// `room` ids for each row.
    ids: *mut i64,
    logprobs: *mut f64,
    ranks: *mut i64,
}

/// The bits of `Rows::wants`.
const SCALE: u32 = 1;
const RANK: u32 = 2;

/// Find the best tokens of rows of logits. Return 0, or the number, from 1, of a row that contains NaN or +inf.
///
/// # Safety
/// `rows` and `found` must point to structures whose pointers match their numbers; nobody else may use the memory that
/// is written.
#[no_mangle]
pub unsafe extern "C" fn fcn_best_tokens(rows: *const Rows, found: *const Found) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that both pointers refer to valid structures.
        let (rows, found) = unsafe { (&*rows, &*found) };
        let ask_row = match rows.kind {
            FLOAT32 => ask_row::<f32>,
            FLOAT16 => ask_row::<Half>,
            BFLOAT16 => ask_row::<Brain>,
            _ => return Err(Fault::Malformed),
        };
        let mut scratch = Scratch::default();
        // SAFETY: the caller guarantees one number for each row, or a null pointer, which `view` accepts.
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
            // SAFETY: the caller guarantees that there are `rows.rows` rows, and `rows.kind` tells the type of their
            // logits.
            let Some(answer) = (unsafe { ask_row(rows, number, question, &mut scratch) }) else {
                return Ok(number as i32 + 1);
            };
            // SAFETY: the caller guarantees room for the results of each row, and a list has at most `rows.room`
            // tokens.
            unsafe { write(&answer, found, number, rows.room) };
        }
        Ok(DONE)
    })
}

/// # Safety
/// As for `fcn_best_tokens`; the logits must be of type `L`, and `number` must be less than the number of rows.
unsafe fn ask_row<L: Logit>(rows: &Rows, number: usize, question: Question, scratch: &mut Scratch) -> Option<Answer> {
    // SAFETY: the caller guarantees that row `number` exists and contains `width` logits of this type.
    let row = unsafe { slice::from_raw_parts(rows.logits.cast::<L>().add(number * rows.stride), rows.width) };
    ask(row, question, scratch)
}

/// # Safety
/// `found` must have a place for this row and room for `room` tokens; the answer's list must not be longer.
unsafe fn write(answer: &Answer, found: &Found, number: usize, room: usize) {
    // SAFETY: the caller guarantees a place for row `number` in each array of `found`, and room for the list.
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

/// Write -inf over the logits of all tokens that a row does not allow, including those past its end. Return whether an
/// allowed token has a logit above -inf. A null pointer stands for logits whose memory was released; there are none
/// then.
///
/// # Safety
/// `logits` must be null or point to `width` floats, `stride` bytes apart, which nobody else uses; `row` must point to
/// `words` words.
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
    // SAFETY: the caller guarantees that `row` points to `words` words.
    let row = unsafe { view(row, words) };
    let lie_together = stride == size_of::<f32>() as isize && logits as usize % align_of::<f32>() == 0;
    let is_left = if lie_together && width > 0 {
        // SAFETY: the caller guarantees `width` floats that nobody else uses; the check above shows that they are
        // aligned and contiguous.
        mask_together(unsafe { slice::from_raw_parts_mut(logits, width) }, row)
    } else {
        // SAFETY: the caller guarantees `width` floats, `stride` bytes apart, that nobody else uses.
        unsafe { mask_apart(logits, width, stride, row) }
    };
    i32::from(is_left)
}

/// Mask contiguous logits as `fcn_mask_logits` does, up to the block of 32 after the last block with an allowed token,
/// but at least `least` of them. If the row allows few tokens, copy their logits into `copies` instead, where all other
/// logits are -inf. Return how many logits were masked, or minus the number of copies; 0 if no allowed token has a
/// logit above -inf.
///
/// # Safety
/// `logits` and `copies` must each point to `width` aligned floats; `row` and `before` must point to `words` words.
/// Nobody else may use the floats or `before` during the call, or write to `copies` and `before` between calls. At the
/// first call, all copies must be -inf.
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
    // SAFETY: the caller guarantees the lengths, and that nobody else uses the floats or `before` during the call.
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
/// `logits` must point to `count` addresses, each of `width` aligned contiguous floats that nobody else uses and that
/// no other address covers; `rows` must point to `words` words for each of them, `step` words from one row to the next.
#[no_mangle]
pub unsafe extern "C" fn fcn_mask_rows(
    logits: *const *mut f32,
    count: usize,
    width: usize,
    rows: *const u32,
    words: usize,
    step: usize,
) {
    // SAFETY: the caller guarantees that `logits` points to `count` addresses.
    for (number, logits) in unsafe { view(logits, count) }.iter().enumerate() {
        if !logits.is_null() {
            // SAFETY: the caller guarantees `width` floats at each address, which nobody else uses, and `words` words
            // for each row.
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

    /// Masks logits of any width, stride and row in memory of exactly that size: a sanitizer detects a write past the
    /// end.
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
            // SAFETY: there are `width` floats, `stride` bytes apart, and `words` words; the pointers are those of the
            // first ones.
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

    /// Alternates rows that allow many tokens with rows that allow few, with the same copies.
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
                // SAFETY: the vectors have as many floats and words as we say.
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
            // SAFETY: each address has `width` logits, and there are `words` words for each row.
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
