//! The part of the C interface for sequences: masks, steps and budgets. It follows the rules of `interface`.

use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::Arc;

use crate::api::gate::Call;
use crate::api::interface::{
    catch, code, free, guarded, truth, view, ACCEPTED, APPLIED, CAN_STOP, DONE, HAS_TOKENS, NO, SHORTENED, STOPPED,
    UNFIT,
};
use crate::api::masking::mask_together;
use crate::base::limits::{Fault, Outcome};
use crate::masks::compiled::Grammar;
use crate::masks::sequence::{Filled, Sequence};
use crate::tokens::spelling::NEVER;

/// Represents no token; no vocabulary has that many tokens.
const NO_TOKEN: u32 = u32::MAX;

/// Run a call that uses one sequence, unless a panic has made the sequence, or data that it needs, unusable.
///
/// # Safety
/// `sequence` must be a live handle that no other call uses.
unsafe fn with_sequence<T: From<i32>>(sequence: *mut Sequence, call: impl FnOnce(&mut Sequence) -> Outcome<T>) -> T {
    let _call = Call::begin();
    // SAFETY: the caller guarantees that `sequence` is a live handle that no other call uses.
    unsafe { answer_of(sequence, call) }
}

/// # Safety
/// As for `with_sequence`.
unsafe fn answer_of<T: From<i32>>(sequence: *mut Sequence, call: impl FnOnce(&mut Sequence) -> Outcome<T>) -> T {
    // SAFETY: the caller guarantees that the handle is live and that no other call uses it.
    let sequence = unsafe { &mut *sequence };
    let mut struck = true;
    let outcome = catch(|| {
        let outcome = sequence.check().and_then(|()| call(sequence));
        struck = false;
        outcome
    });
    match outcome {
        Ok(answer) => answer,
        Err(fault) => {
            if struck {
                sequence.end(fault);
            }
            code(fault).into()
        }
    }
}

/// # Safety
/// `row` must be null or point to as many words as the vocabulary of `sequence` takes, which nobody else uses.
unsafe fn words<'a>(sequence: &Sequence, row: *mut u32) -> Outcome<&'a mut [u32]> {
    if row.is_null() {
        return Err(Fault::Malformed);
    }
    // SAFETY: the row is not null, so the caller guarantees that it has `sequence.words()` words that nobody else uses.
    Ok(unsafe { slice::from_raw_parts_mut(row, sequence.words()) })
}

/// A row for masks as numpy lays out its arrays: `PyArrayObject_fields`, which is the same in numpy 1 and 2.
#[repr(C)]
pub struct Row {
    pub data: *mut u32,
    pub dimensions: c_int,
    pub lengths: *const isize,
    pub strides: *const isize,
    pub base: *const c_void,
    pub kind: *const c_void,
    pub flags: c_int,
}

/// The flags of `NPY_ARRAY_CARRAY`: contiguous, aligned, and writable.
pub const PLAIN: c_int = 0x501;

/// A sequence, the array that is the row for its masks, and numpy's type of 32-bit integers, which the row's items must
/// have. Passing one argument takes Python half the time of two. An array's length, type and memory may change at any
/// time, so every call checks them again.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Target {
    pub sequence: *mut Sequence,
    pub row: *const Row,
    pub kind: *const c_void,
}

impl Target {
    /// Return the address of the row's words if the row can take a mask of `count` words.
    ///
    /// # Safety
    /// `row` must be null or point to an array laid out as `Row`.
    unsafe fn words(&self, count: usize) -> Option<*mut u32> {
        // SAFETY: the caller guarantees that `row` is null or an array; an array of one dimension has one length.
        unsafe {
            let row = self.row.as_ref()?;
            let is_plain = row.dimensions == 1 && row.kind == self.kind && row.flags & PLAIN == PLAIN;
            (is_plain && *row.lengths == count as isize).then_some(row.data)
        }
    }
}

/// Make a call with the target of a sequence.
///
/// # Safety
/// `target` must point to a target of a live handle that no other call uses; it need not be aligned.
unsafe fn with_target<T: From<i32>>(
    target: *const Target,
    call: impl FnOnce(&mut Sequence, Target) -> Outcome<T>,
) -> T {
    // SAFETY: the caller guarantees that `target` points to a target whose live sequence no other call uses; the read
    // allows any alignment.
    unsafe {
        let target = target.read_unaligned();
        with_sequence(target.sequence, |sequence| call(sequence, target))
    }
}

/// Make a call with the words of a target's row; return `UNFIT` if the row cannot take a mask.
///
/// # Safety
/// As for `with_target` and `Target::words`.
unsafe fn with_row(target: *const Target, call: impl FnOnce(&mut Sequence, *mut u32) -> Outcome<i32>) -> i32 {
    // SAFETY: the caller guarantees that `target` points to a target whose live sequence no other call uses, and whose
    // row is null or an array.
    unsafe {
        with_target(target, |sequence, target| match target.words(sequence.words()) {
            Some(row) => call(sequence, row),
            None => Ok(UNFIT),
        })
    }
}

/// Return the status of a mask that was written.
fn status(sequence: &Sequence, filled: Filled) -> i32 {
    (HAS_TOKENS * i32::from(filled.has_tokens))
        | (CAN_STOP * i32::from(sequence.can_stop()))
        | (SHORTENED * i32::from(filled.is_shortened))
}

/// Write a mask; return its status.
///
/// # Safety
/// As for `words`.
unsafe fn fill(sequence: &mut Sequence, row: *mut u32) -> Outcome<i32> {
    // SAFETY: the caller guarantees that `row` is null or has enough words that nobody else uses.
    let filled = sequence.fill(unsafe { words(sequence, row) }?)?;
    Ok(status(sequence, filled))
}

/// # Safety
/// As for `words`.
unsafe fn step(sequence: &mut Sequence, token: u32, row: *mut u32) -> Outcome<i32> {
    // SAFETY: the caller guarantees that `row` is null or has enough words that nobody else uses.
    let taken = sequence.step(token, unsafe { words(sequence, row) }?)?;
    Ok(taken.map_or(NO, |filled| ACCEPTED | status(sequence, filled)))
}

/// Begin a sequence.
///
/// # Safety
/// `grammar` must be a live handle; `made` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_new(grammar: *const Grammar, made: *mut *mut Sequence) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that the handle is live; we increment its count before taking a reference of
        // our own.
        let grammar = unsafe {
            Arc::increment_strong_count(grammar);
            Arc::from_raw(grammar)
        };
        let sequence = Sequence::new(grammar)?;
        sequence.check()?;
        // SAFETY: the caller guarantees that `made` is valid for writes.
        unsafe { *made = Box::into_raw(Box::new(sequence)) };
        Ok(DONE)
    })
}

/// Let a sequence take at most `maximum` tokens from its start on, including the end id and none of `avoided`. Return
/// 1, or 0 with nothing changed if it cannot be completed within that. Write to `needed` how many tokens are enough.
///
/// # Safety
/// `sequence` must be a live handle that no other call uses; `avoided` must point to `count` ids; `needed` must be
/// valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_set_budget(
    sequence: *mut Sequence,
    maximum: u32,
    avoided: *const u32,
    count: usize,
    needed: *mut u32,
) -> i32 {
    // SAFETY: the caller guarantees that no other call uses the live handle `sequence`, that `avoided` points to
    // `count` ids, and that `needed` is valid for writes.
    unsafe {
        with_sequence(sequence, |sequence| {
            let enough = sequence.set_budget(maximum, view(avoided, count))?;
            *needed = enough;
            Ok(truth(enough <= maximum && enough < NEVER))
        })
    }
}

/// Let masks contain only the longest tokens from now on if text must follow, see `Sequence::prefer_longest`.
///
/// # Safety
/// `sequence` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_prefer_longest(sequence: *mut Sequence) -> i32 {
    // SAFETY: the caller guarantees that `sequence` is a live handle that no other call uses.
    unsafe {
        with_sequence(sequence, |sequence| {
            sequence.prefer_longest();
            Ok(DONE)
        })
    }
}

/// # Safety
/// `sequence` must be a live handle; `made` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_fork(sequence: *const Sequence, made: *mut *mut Sequence) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that the handle is live.
        let sequence = unsafe { &*sequence };
        sequence.check()?;
        // SAFETY: the caller guarantees that `made` is valid for writes.
        unsafe { *made = Box::into_raw(Box::new(sequence.clone())) };
        Ok(DONE)
    })
}

/// # Safety
/// `sequence` must be a live handle, or null; it is invalid afterwards.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_free(sequence: *mut Sequence) {
    // SAFETY: the caller guarantees that `sequence` is null or a live handle that is not used again.
    unsafe { free(sequence) };
}

/// Write the mask to the row. Return its status, or `UNFIT` if the row cannot take it.
///
/// # Safety
/// As for `with_target`; the row must be an array that nobody else uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_fill(target: *const Target) -> i32 {
    // SAFETY: the caller guarantees that no other call uses the target's live sequence, and that nobody else uses its
    // row.
    unsafe { with_row(target, |sequence, row| fill(sequence, row)) }
}

/// Append a token. Return 1, or 0 with nothing changed if the token is not allowed. The row is not used.
///
/// # Safety
/// As for `with_target`.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_accept_token(target: *const Target, token: u32) -> i32 {
    // SAFETY: the caller guarantees that `target` points to a target whose live sequence no other call uses.
    unsafe { with_target(target, |sequence, _| sequence.accept_token(token).map(truth)) }
}

/// Append a token and write the next mask. Return `ACCEPTED` and the mask's status; or 0 or `UNFIT`, with nothing
/// changed and nothing written.
///
/// # Safety
/// As for `fcn_sequence_fill`.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_step(target: *const Target, token: u32) -> i32 {
    // SAFETY: the caller guarantees that no other call uses the target's live sequence, and that nobody else uses its
    // row.
    unsafe { with_row(target, |sequence, row| step(sequence, token, row)) }
}

/// Append a token. Return `ACCEPTED` with the status of the next mask, or `ACCEPTED` alone if that mask is not computed
/// yet; or 0 with nothing changed if the token is not allowed.
///
/// # Safety
/// As for `fcn_sequence_accept_token`.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_advance(target: *const Target, token: u32) -> i32 {
    let advance = |sequence: &mut Sequence, _| {
        Ok(sequence.advance(token)?.map_or(NO, |known| {
            ACCEPTED | known.map_or(0, |filled| status(sequence, filled))
        }))
    };
    // SAFETY: the caller guarantees that `target` points to a target whose live sequence no other call uses.
    unsafe { with_target(target, advance) }
}

/// Append a token if the mask after it is cached, and return the number of that mask instead of writing it: 8 times the
/// number, which no other mask in this process has, plus the status. Return 0 with nothing changed otherwise.
///
/// # Safety
/// As for `fcn_sequence_accept_token`.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_step_kept(target: *const Target, token: u32) -> i64 {
    // SAFETY: the caller guarantees that `target` points to a target whose live sequence no other call uses.
    unsafe {
        with_target(target, |sequence, _| {
            let Some(number) = sequence.step_kept(token)? else {
                return Ok(NO.into());
            };
            let status = ACCEPTED | HAS_TOKENS | (CAN_STOP * i32::from(sequence.can_stop()));
            Ok(8 * number as i64 + i64::from(status))
        })
    }
}

/// Call `fcn_sequence_step` for `count` sequences, or `fcn_sequence_fill` if the token is `NO_TOKEN`; write the answers
/// to `statuses`. The row of a sequence begins at `rows`, plus `stride` bytes times its place. If there are logits,
/// mask those at the same place unless the text may end there; in that case the caller must complete the row first.
///
/// # Safety
/// As for `fcn_sequence_fill`, for each sequence and row. The sequences must all be different, and the other arrays
/// must contain `count` values each. `logits` must be null or point to `width` aligned contiguous floats, at
/// `logits_stride` bytes times each place, which nobody else uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_step_many(
    sequences: *const *mut Sequence,
    tokens: *const u32,
    rows: *mut u32,
    stride: isize,
    places: *const u32,
    statuses: *mut i32,
    count: usize,
    logits: *mut f32,
    logits_stride: isize,
    width: usize,
) -> i32 {
    let _call = Call::begin();
    // SAFETY: the caller guarantees that the arrays contain `count` values each.
    let (sequences, tokens, places) = unsafe { (view(sequences, count), view(tokens, count), view(places, count)) };
    let mut stopped = false;
    for (index, ((sequence, token), place)) in sequences.iter().zip(tokens).zip(places).enumerate() {
        if stopped {
            // SAFETY: the caller guarantees that `statuses` has room for `count` values.
            unsafe { *statuses.add(index) = STOPPED };
            continue;
        }
        // SAFETY: the caller guarantees that the handles are live and different, that each has its own row and logits,
        // and that `statuses` has room for `count` values.
        unsafe {
            let row = rows.byte_offset(*place as isize * stride);
            *statuses.add(index) = answer_of(*sequence, |sequence| {
                let answer = match *token {
                    NO_TOKEN => fill(sequence, row),
                    token => step(sequence, token, row),
                }?;
                if logits.is_null() || answer & (HAS_TOKENS | CAN_STOP) != HAS_TOKENS {
                    return Ok(answer);
                }
                let logits = logits.byte_offset(*place as isize * logits_stride);
                mask_together(slice::from_raw_parts_mut(logits, width), words(sequence, row)?);
                Ok(answer | APPLIED)
            });
            stopped = *statuses.add(index) == STOPPED;
        }
    }
    DONE
}

/// Append bytes as one step. Return 1, or 0 with nothing changed if they are not allowed.
///
/// # Safety
/// `sequence` must be a live handle that no other call uses; `data` must point to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_accept_bytes(sequence: *mut Sequence, data: *const u8, length: usize) -> i32 {
    // SAFETY: the caller guarantees that no other call uses the live handle `sequence`, and that `data` points to
    // `length` bytes.
    unsafe {
        with_sequence(sequence, |sequence| {
            sequence.accept_bytes(view(data, length)).map(truth)
        })
    }
}

/// Undo the last `steps` steps. Return 1, or 0 with nothing changed if there are fewer.
///
/// # Safety
/// `sequence` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_rollback(sequence: *mut Sequence, steps: usize) -> i32 {
    // SAFETY: the caller guarantees that `sequence` is a live handle that no other call uses.
    unsafe { with_sequence(sequence, |sequence| Ok(truth(sequence.rollback(steps)))) }
}

/// Return how many steps the sequence has taken.
///
/// # Safety
/// `sequence` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_steps(sequence: *mut Sequence) -> i32 {
    // SAFETY: the caller guarantees that `sequence` is a live handle that no other call uses.
    unsafe { with_sequence(sequence, |sequence| Ok(sequence.steps() as i32)) }
}

/// Return whether the accepted text is complete.
///
/// # Safety
/// `sequence` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_can_stop(sequence: *mut Sequence) -> i32 {
    // SAFETY: the caller guarantees that `sequence` is a live handle that no other call uses.
    unsafe { with_sequence(sequence, |sequence| Ok(truth(sequence.can_stop()))) }
}

/// Write the bytes with which every completion of the text continues, at most `limit` bytes. Return how many they are.
///
/// # Safety
/// `sequence` must be a live handle that no other call uses; `bytes` must have room for `limit` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_forced_bytes(sequence: *mut Sequence, bytes: *mut u8, limit: usize) -> i32 {
    // SAFETY: the caller guarantees that no other call uses the live handle `sequence`, and that `bytes` has room for
    // `limit` bytes; we write at most `limit`.
    unsafe {
        with_sequence(sequence, |sequence| {
            let forced = sequence.forced_bytes(limit.min(i32::MAX as usize))?;
            if !forced.is_empty() {
                bytes.copy_from_nonoverlapping(forced.as_ptr(), forced.len());
            }
            Ok(forced.len() as i32)
        })
    }
}

/// Panic as a fault of the library would, while holding the lock that `place` names. Tests check the state after a
/// panic with it.
///
/// # Safety
/// `sequence` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_test_panic(sequence: *mut Sequence, place: u32) -> i32 {
    // SAFETY: the caller guarantees that `sequence` is a live handle that no other call uses.
    unsafe { with_sequence(sequence, |sequence| sequence.panic_in(place)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::interface::{fcn_grammar_free, fcn_grammar_new, fcn_vocabulary_free, fcn_vocabulary_new};
    use crate::regular::program::tests::NESTED;
    use std::ptr::{null, null_mut};

    #[test]
    fn example_calls_of_the_c_interface() {
        let (mut vocabulary, mut grammar, mut sequence) = (null_mut(), null(), null_mut());
        let (length, limits) = (NESTED.len(), [1_000_000u64, 200_000, 64 << 20, 20_000_000]);
        // SAFETY: the pointers match the lengths, and each handle is live until it is freed.
        unsafe {
            assert_eq!(
                fcn_vocabulary_new(b"()x".as_ptr(), 3, [0, 1, 2, 3].as_ptr(), 3, &mut vocabulary),
                DONE
            );
            let made = fcn_grammar_new(
                vocabulary,
                NESTED.as_ptr(),
                length,
                0,
                length,
                limits.as_ptr(),
                &mut grammar,
            );
            assert_eq!((made, fcn_sequence_new(grammar, &mut sequence)), (DONE, DONE));
            assert_eq!(fcn_sequence_accept_bytes(sequence, b"(x".as_ptr(), 2), 1);
            assert_eq!(fcn_sequence_can_stop(sequence), NO);
            fcn_sequence_free(sequence);
            fcn_grammar_free(grammar);
            fcn_vocabulary_free(vocabulary);
        }
    }
}
