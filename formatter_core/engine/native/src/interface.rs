//! The C interface. Handles are made and freed here; every call answers with a number, and none unwinds.
//!
//! Answers below zero are faults. What a call wrote before it failed is not to be used, and nothing else has changed.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;
use std::sync::Arc;

use crate::grammar::{Engine, Grammar};
use crate::limits::{Fault, Limit, Limits, Outcome};
use crate::sequence::Sequence;
use crate::trie::Vocabulary;

/// The version of this interface; the Python side refuses another one.
const INTERFACE_VERSION: i32 = 5;

const YES: i32 = 1;
const NO: i32 = 0;
const DONE: i32 = 0;
/// What is told of a mask that was written, as bits: whether it allows any token, and whether the text may end.
const MAY_GO_ON: i32 = 1;
const MAY_END: i32 = 2;
/// A step's token was taken.
const TAKEN: i32 = 4;
/// Stands for no token at all: no vocabulary has so many.
const NO_TOKEN: u32 = u32::MAX;
const EMPTY_LANGUAGE: i32 = -1;
const MALFORMED: i32 = -2;
const PANIC: i32 = -3;
/// Faults of a limit: this number less the limit's own.
const LIMIT: i32 = -10;

fn code(fault: Fault) -> i32 {
    match fault {
        Fault::EmptyLanguage => EMPTY_LANGUAGE,
        Fault::Malformed => MALFORMED,
        Fault::Limit(limit) => {
            LIMIT
                - match limit {
                    Limit::Nodes => 0,
                    Limit::States => 1,
                    Limit::CacheBytes => 2,
                    Limit::Work => 3,
                }
        }
    }
}

fn guarded(call: impl FnOnce() -> Outcome<i32>) -> i32 {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(fault)) => code(fault),
        Err(_) => PANIC,
    }
}

fn truth(value: bool) -> i32 {
    if value {
        YES
    } else {
        NO
    }
}

/// # Safety
/// `data` points to `length` values, or `length` is 0.
unsafe fn view<'a, T>(data: *const T, length: usize) -> &'a [T] {
    if length == 0 || data.is_null() {
        return &[];
    }
    slice::from_raw_parts(data, length)
}

/// Write a mask, and tell of it.
///
/// # Safety
/// `row` points to as many words as the vocabulary takes, which nobody else uses.
unsafe fn fill(sequence: &mut Sequence, row: *mut u32) -> Outcome<i32> {
    if row.is_null() {
        return Err(Fault::Malformed);
    }
    let any = sequence.fill(slice::from_raw_parts_mut(row, sequence.words()))?;
    Ok(if any { MAY_GO_ON } else { 0 } | if sequence.can_stop() { MAY_END } else { 0 })
}

/// # Safety
/// As for `fill`.
unsafe fn step(sequence: &mut Sequence, token: u32, row: *mut u32) -> Outcome<i32> {
    if !sequence.accept_token(token)? {
        return Ok(NO);
    }
    match fill(sequence, row) {
        Ok(told) => Ok(TAKEN | told),
        Err(fault) => {
            sequence.rollback(1);
            Err(fault)
        }
    }
}

#[no_mangle]
pub extern "C" fn fcn_interface_version() -> i32 {
    INTERFACE_VERSION
}

/// Build a vocabulary of `count` tokens: `starts` holds `count + 1` offsets into `text`.
///
/// # Safety
/// The pointers fit the lengths; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_new(
    text: *const u8,
    length: usize,
    starts: *const u32,
    count: usize,
    made: *mut *mut Engine,
) -> i32 {
    guarded(|| {
        let vocabulary = Vocabulary::new(view(text, length), view(starts, count + 1)).ok_or(Fault::Malformed)?;
        *made = Box::into_raw(Box::new(Engine::new(vocabulary)));
        Ok(DONE)
    })
}

/// # Safety
/// `engine` is a live handle of `fcn_vocabulary_new`, or null; it is none afterwards.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_free(engine: *mut Engine) {
    free(engine);
}

/// The bytes that the vocabulary's tables, and the automata and token classes for it, take.
///
/// # Safety
/// `engine` is a live handle; both results may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_bytes(engine: *const Engine, tables: *mut usize, shared: *mut usize) -> i32 {
    guarded(|| {
        *tables = (*engine).vocabulary.bytes();
        *shared = (*engine).lexicon().bytes();
        Ok(DONE)
    })
}

/// Compile a serialised grammar; `limits` holds nodes, states, cache bytes and work.
///
/// # Safety
/// `engine` is a live handle, the pointers fit the lengths, `limits` points to 4 numbers; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_new(
    engine: *const Engine,
    data: *const u8,
    length: usize,
    limits: *const u64,
    made: *mut *const Grammar,
) -> i32 {
    guarded(|| {
        let [nodes, states, cache_bytes, work] = *limits.cast::<[u64; 4]>();
        let limits = Limits {
            nodes,
            states,
            cache_bytes,
            work,
        };
        *made = Arc::into_raw(Arc::new(Grammar::new(view(data, length), &*engine, limits)?));
        Ok(DONE)
    })
}

/// # Safety
/// `grammar` is a live handle of `fcn_grammar_new`, or null; it is none afterwards. Its sequences go on.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_free(grammar: *const Grammar) {
    guarded(|| {
        if !grammar.is_null() {
            drop(Arc::from_raw(grammar));
        }
        Ok(DONE)
    });
}

/// The bytes that the grammar takes, with what it keeps of states and masks.
///
/// # Safety
/// `grammar` is a live handle; `bytes` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_bytes(grammar: *const Grammar, bytes: *mut usize) -> i32 {
    guarded(|| {
        *bytes = (*grammar).bytes();
        Ok(DONE)
    })
}

/// The elementary steps that the grammar has taken so far: to be compiled, and for the masks and moves of all sequences.
///
/// # Safety
/// `grammar` is a live handle; `work` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_work(grammar: *const Grammar, work: *mut u64) -> i32 {
    guarded(|| {
        *work = (*grammar).work();
        Ok(DONE)
    })
}

/// Begin a sequence.
///
/// # Safety
/// `grammar` is a live handle; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_new(grammar: *const Grammar, made: *mut *mut Sequence) -> i32 {
    guarded(|| {
        Arc::increment_strong_count(grammar);
        *made = Box::into_raw(Box::new(Sequence::new(Arc::from_raw(grammar))));
        Ok(DONE)
    })
}

/// # Safety
/// `sequence` is a live handle; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_fork(sequence: *const Sequence, made: *mut *mut Sequence) -> i32 {
    guarded(|| {
        *made = Box::into_raw(Box::new((*sequence).clone()));
        Ok(DONE)
    })
}

/// # Safety
/// `sequence` is a live handle, or null; it is none afterwards.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_free(sequence: *mut Sequence) {
    free(sequence);
}

/// Write the mask to `row`; the answer is what is told of it.
///
/// # Safety
/// `sequence` is a live handle that no other call uses; `row` points to as many words as the vocabulary takes.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_fill(sequence: *mut Sequence, row: *mut u32) -> i32 {
    guarded(|| fill(&mut *sequence, row))
}

/// Append a token: 1, or 0 with nothing changed where it is not allowed.
///
/// # Safety
/// `sequence` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_accept_token(sequence: *mut Sequence, token: u32) -> i32 {
    guarded(|| (*sequence).accept_token(token).map(truth))
}

/// Append a token and write the next mask: `TAKEN` with what is told of the mask, or 0 with nothing changed and nothing
/// written.
///
/// # Safety
/// As for `fcn_sequence_fill`.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_step(sequence: *mut Sequence, token: u32, row: *mut u32) -> i32 {
    guarded(|| step(&mut *sequence, token, row))
}

/// `fcn_sequence_step` for `count` sequences, or `fcn_sequence_fill` where the token is `NO_TOKEN`; the answers go to
/// `told`. The row of a sequence begins at `rows`, plus `stride` bytes times its place.
///
/// # Safety
/// As for `fcn_sequence_fill`, for each sequence and row; no two of them are the same; the other arrays hold `count`
/// values each.
#[no_mangle]
pub unsafe extern "C" fn fcn_step_many(
    sequences: *const *mut Sequence,
    tokens: *const u32,
    rows: *mut u32,
    stride: isize,
    places: *const u32,
    told: *mut i32,
    count: usize,
) -> i32 {
    let given = view(sequences, count)
        .iter()
        .zip(view(tokens, count))
        .zip(view(places, count));
    for (index, ((sequence, token), place)) in given.enumerate() {
        *told.add(index) = guarded(|| {
            let row = rows.byte_offset(*place as isize * stride);
            match *token {
                NO_TOKEN => fill(&mut **sequence, row),
                token => step(&mut **sequence, token, row),
            }
        });
    }
    DONE
}

/// Append bytes as one step: 1, or 0 with nothing changed where they are not allowed.
///
/// # Safety
/// `sequence` is a live handle that no other call uses; `data` points to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_accept_bytes(sequence: *mut Sequence, data: *const u8, length: usize) -> i32 {
    guarded(|| (*sequence).accept_bytes(view(data, length)).map(truth))
}

/// Undo the last `steps` steps: 1, or 0 with nothing changed where there are not so many.
///
/// # Safety
/// `sequence` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_rollback(sequence: *mut Sequence, steps: usize) -> i32 {
    guarded(|| Ok(truth((*sequence).rollback(steps))))
}

/// Whether what was accepted is a completion.
///
/// # Safety
/// `sequence` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_can_stop(sequence: *const Sequence) -> i32 {
    guarded(|| Ok(truth((*sequence).can_stop())))
}

/// Write what every completion of the rest begins with, at most `limit` bytes; the answer is how many they are.
///
/// # Safety
/// `sequence` is a live handle that no other call uses; `bytes` points to room for `limit` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_forced_bytes(sequence: *const Sequence, bytes: *mut u8, limit: usize) -> i32 {
    guarded(|| {
        let forced = (*sequence).forced_bytes(limit.min(i32::MAX as usize))?;
        if !forced.is_empty() {
            slice::from_raw_parts_mut(bytes, forced.len()).copy_from_slice(&forced);
        }
        Ok(forced.len() as i32)
    })
}

/// # Safety
/// `handle` was made by `Box::into_raw`, or is null.
unsafe fn free<T>(handle: *mut T) {
    guarded(|| {
        if !handle.is_null() {
            drop(Box::from_raw(handle));
        }
        Ok(DONE)
    });
}
