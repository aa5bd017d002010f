//! The C interface. Handles are made and freed here; every call answers with a number, and none unwinds.
//!
//! Answers below zero are faults. What a call wrote before it failed is not to be used, and nothing else has changed.

use std::ffi::{c_int, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;
use std::sync::Arc;

use crate::api::gate::{watch_forks, Call};
use crate::api::masking::mask_together;
use crate::base::checksum::ends_with_checksum;
use crate::base::damage::{caught, text_of};
use crate::base::limits::{Fault, Limit, Limits, Outcome};
use crate::base::stop::{watch_interrupts, Signals};
use crate::masks::compiled::{Engine, EngineMemory, Grammar, GrammarMemory};
use crate::masks::sequence::{Filled, Sequence};
use crate::tokens::spelling::NEVER;
use crate::tokens::trie::Vocabulary;

/// The version of this interface; the Python side refuses another one.
const INTERFACE_VERSION: i32 = 47;

const YES: i32 = 1;
const NO: i32 = 0;
pub const DONE: i32 = 0;
/// `MaskStatus`, the bits that are returned with a mask: it allows a token; the text may end here.
pub const HAS_TOKENS: i32 = 1;
pub const CAN_STOP: i32 = 2;
/// A step's token was accepted.
pub const ACCEPTED: i32 = 4;
/// The budget forbids tokens that the grammar allows.
pub const SHORTENED: i32 = 8;
/// The mask was put on the logits, too.
const APPLIED: i32 = 16;
/// Stands for no token at all: no vocabulary has that many.
const NO_TOKEN: u32 = u32::MAX;
const EMPTY_LANGUAGE: i32 = -1;
const MALFORMED: i32 = -2;
const EMPTY_MEMBER: i32 = -3;
/// A row is not one that a mask can be written to; nothing has been done.
pub const UNFIT: i32 = -4;
/// A signal came. Once Python's handlers have run and raised nothing, the call can be made again; nothing has changed.
pub const STOPPED: i32 = -5;
/// Faults of a limit: this number less the limit's own.
const LIMIT: i32 = -10;
/// Panics: this number less the panic's own, by which `fcn_panic_text` knows it.
const PANIC: i32 = -1000;

pub fn code(fault: Fault) -> i32 {
    match fault {
        Fault::EmptyLanguage => EMPTY_LANGUAGE,
        Fault::Malformed => MALFORMED,
        Fault::EmptyMember => EMPTY_MEMBER,
        Fault::Stopped => STOPPED,
        Fault::Panic(number) => PANIC - number as i32,
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

/// A call of the library from its beginning to its end; a panic ends it.
pub fn guarded(call: impl FnOnce() -> Outcome<i32>) -> i32 {
    let _call = Call::begin();
    catch(call).unwrap_or_else(code)
}

pub fn catch<T>(call: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| Err(caught(&*payload)))
}

/// A call that uses one sequence, unless a panic has made that, or what it needs, unfit for use.
///
/// # Safety
/// `sequence` is a live handle that no other call uses.
unsafe fn with_sequence<T: From<i32>>(sequence: *mut Sequence, call: impl FnOnce(&mut Sequence) -> Outcome<T>) -> T {
    let _call = Call::begin();
    // SAFETY: as the caller promises.
    unsafe { answer_of(sequence, call) }
}

/// # Safety
/// As for `with_sequence`.
unsafe fn answer_of<T: From<i32>>(sequence: *mut Sequence, call: impl FnOnce(&mut Sequence) -> Outcome<T>) -> T {
    // SAFETY: the handle is live and nobody else's, as the caller promises.
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

pub fn truth(value: bool) -> i32 {
    if value {
        YES
    } else {
        NO
    }
}

/// # Safety
/// `limits` points to 4 numbers.
pub unsafe fn limits_at(limits: *const u64) -> Limits {
    // SAFETY: as the caller promises.
    let [nodes, states, cache_bytes, work] = unsafe { *limits.cast::<[u64; 4]>() };
    Limits {
        nodes,
        states,
        cache_bytes,
        work,
    }
}

/// # Safety
/// `data` points to `length` values, or `length` is 0.
pub unsafe fn view<'a, T>(data: *const T, length: usize) -> &'a [T] {
    if length == 0 || data.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts(data, length) }
}

/// # Safety
/// `row` points to as many words as the vocabulary of `sequence` takes, which nobody else uses, or is null.
unsafe fn words<'a>(sequence: &Sequence, row: *mut u32) -> Outcome<&'a mut [u32]> {
    if row.is_null() {
        return Err(Fault::Malformed);
    }
    // SAFETY: as the caller promises; the row is not null.
    Ok(unsafe { slice::from_raw_parts_mut(row, sequence.words()) })
}

/// A row for masks as numpy keeps its arrays: `PyArrayObject_fields`, which is the same in numpy 1 and 2.
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

/// `NPY_ARRAY_CARRAY`: contiguous, aligned, and may be written to.
pub const PLAIN: c_int = 0x501;

/// A sequence, the array that is the row for its masks, and numpy's type of 32-bit integers, which the row's items must
/// have. Passing one argument takes Python half the time of two. An array's length, type and memory may change at any time,
/// so every call looks at it anew.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Target {
    pub sequence: *mut Sequence,
    pub row: *const Row,
    pub kind: *const c_void,
}

impl Target {
    /// Where the words of the row are, if it can take a mask of `count` words.
    ///
    /// # Safety
    /// `row` is null, or points to an array laid out as `Row`.
    unsafe fn words(&self, count: usize) -> Option<*mut u32> {
        // SAFETY: as the caller promises; an array of one dimension has one length.
        unsafe {
            let row = self.row.as_ref()?;
            let is_plain = row.dimensions == 1 && row.kind == self.kind && row.flags & PLAIN == PLAIN;
            (is_plain && *row.lengths == count as isize).then_some(row.data)
        }
    }
}

/// A call with the target of a sequence.
///
/// # Safety
/// `target` points to a target of a live handle that no other call uses, aligned or not.
unsafe fn with_target<T: From<i32>>(
    target: *const Target,
    call: impl FnOnce(&mut Sequence, Target) -> Outcome<T>,
) -> T {
    // SAFETY: as the caller promises.
    unsafe {
        let target = target.read_unaligned();
        with_sequence(target.sequence, |sequence| call(sequence, target))
    }
}

/// A call with the words of a target's row, or `UNFIT` if it cannot take a mask.
///
/// # Safety
/// As for `with_target` and `Target::words`.
unsafe fn with_row(target: *const Target, call: impl FnOnce(&mut Sequence, *mut u32) -> Outcome<i32>) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        with_target(target, |sequence, target| match target.words(sequence.words()) {
            Some(row) => call(sequence, row),
            None => Ok(UNFIT),
        })
    }
}

/// The status of a mask that was written.
fn status(sequence: &Sequence, filled: Filled) -> i32 {
    (HAS_TOKENS * i32::from(filled.has_tokens))
        | (CAN_STOP * i32::from(sequence.can_stop()))
        | (SHORTENED * i32::from(filled.is_shortened))
}

/// Write a mask; returns its status.
///
/// # Safety
/// As for `words`.
unsafe fn fill(sequence: &mut Sequence, row: *mut u32) -> Outcome<i32> {
    // SAFETY: as the caller promises.
    let filled = sequence.fill(unsafe { words(sequence, row) }?)?;
    Ok(status(sequence, filled))
}

/// # Safety
/// As for `words`.
unsafe fn step(sequence: &mut Sequence, token: u32, row: *mut u32) -> Outcome<i32> {
    // SAFETY: as the caller promises.
    let taken = sequence.step(token, unsafe { words(sequence, row) }?)?;
    Ok(taken.map_or(NO, |filled| ACCEPTED | status(sequence, filled)))
}

#[no_mangle]
pub extern "C" fn fcn_interface_version() -> i32 {
    INTERFACE_VERSION
}

/// Let interrupts end long calls from now on, see `stop`. `main_thread` is the number of the thread that runs Python's
/// handlers.
///
/// # Safety
/// `signals` points to CPython's functions, as `Signals` names them.
#[no_mangle]
pub unsafe extern "C" fn fcn_watch_interrupts(signals: *const Signals, main_thread: usize) {
    // SAFETY: Python passes the addresses of these two functions of its own, in this order.
    unsafe { watch_interrupts(*signals, main_thread) };
}

/// Write what a panic said, by the number in an answer, at most `room` bytes of UTF-8; the answer is how many they are.
///
/// # Safety
/// `text` points to room for `room` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_panic_text(number: u32, text: *mut u8, room: usize) -> i32 {
    guarded(|| {
        let kept = text_of(number).unwrap_or_default();
        let length = kept.len().min(room);
        // SAFETY: there is room, as the caller promises.
        unsafe { text.copy_from_nonoverlapping(kept.as_ptr(), length) };
        Ok(length as i32)
    })
}

/// Panic as a fault of the library would, under the lock of what `place` names. Tests see by it what a panic leaves.
///
/// # Safety
/// `sequence` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_test_panic(sequence: *mut Sequence, place: u32) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { with_sequence(sequence, |sequence| sequence.panic_in(place)) }
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
    // All else needs a vocabulary.
    watch_forks();
    guarded(|| {
        // SAFETY: the pointers fit the lengths, as the caller promises.
        let (text, starts) = unsafe { (view(text, length), view(starts, count + 1)) };
        let vocabulary = Vocabulary::new(text, starts).ok_or(Fault::Malformed)?;
        // SAFETY: `made` may be written to, as the caller promises.
        unsafe { *made = Box::into_raw(Box::new(Engine::new(vocabulary))) };
        Ok(DONE)
    })
}

/// Another handle of a vocabulary, whose grammars share automata with no others.
///
/// # Safety
/// `engine` is a live handle; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_apart(engine: *const Engine, made: *mut *mut Engine) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live, and `made` may be written to, as the caller promises.
        unsafe { *made = Box::into_raw(Box::new((*engine).apart())) };
        Ok(DONE)
    })
}

/// # Safety
/// `engine` is a live handle of `fcn_vocabulary_new` or `fcn_vocabulary_apart`, or null; it is none afterwards.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_free(engine: *mut Engine) {
    // SAFETY: as the caller promises.
    unsafe { free(engine) };
}

/// Let go of a vocabulary's automata: grammars that have them go on with them, and new ones begin with empty ones.
///
/// # Safety
/// `engine` is a live handle.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_renew(engine: *const Engine) -> i32 {
    // SAFETY: the handle is live, as the caller promises.
    guarded(|| unsafe { (*engine).renew() }.map(|()| DONE))
}

/// The bytes of a vocabulary by what they are for, see `EngineMemory`.
///
/// # Safety
/// `engine` is a live handle; `memory` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_memory(engine: *const Engine, memory: *mut EngineMemory) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live, and the result may be written to, as the caller promises.
        unsafe { *memory = (*engine).memory()? };
        Ok(DONE)
    })
}

/// Compile the serialised grammar that stands in some bytes from `begin` to `end`; `limits` holds nodes, states, cache bytes
/// and work. Bytes that hold more than that must end with their checksum.
///
/// # Safety
/// `engine` is a live handle, the pointers fit the lengths, `limits` points to 4 numbers; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_new(
    engine: *const Engine,
    data: *const u8,
    length: usize,
    begin: usize,
    end: usize,
    limits: *const u64,
    made: *mut *const Grammar,
) -> i32 {
    guarded(|| {
        // SAFETY: there are 4 numbers, the handle is live and the pointer fits the length, as the caller promises.
        let (limits, engine, data) = unsafe { (limits_at(limits), &*engine, view(data, length)) };
        let program = data.get(begin..end).ok_or(Fault::Malformed)?;
        if program.len() < length && !ends_with_checksum(data) {
            return Err(Fault::Malformed);
        }
        let grammar = Arc::new(Grammar::new(program, engine, limits)?);
        // SAFETY: `made` may be written to, as the caller promises.
        unsafe { *made = Arc::into_raw(grammar) };
        Ok(DONE)
    })
}

/// # Safety
/// `grammar` is a live handle of `fcn_grammar_new`, or null; it is none afterwards. Its sequences go on.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_free(grammar: *const Grammar) {
    // SAFETY: as the caller promises.
    unsafe { free_shared(grammar) };
}

/// Whether the budget of some region is too small for its shortest text; the budget, and how many tokens that takes.
///
/// # Safety
/// `grammar` is a live handle; `budget` and `needed` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_small_region(grammar: *const Grammar, budget: *mut u32, needed: *mut u32) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live, as the caller promises.
        let found = unsafe { (*grammar).too_small_region() }?;
        if let Some(found) = found {
            // SAFETY: the results may be written to, as the caller promises.
            unsafe { (*budget, *needed) = found };
        }
        Ok(truth(found.is_some()))
    })
}

/// Whether new sequences can begin: a panic may have made the grammar unfit for use.
///
/// # Safety
/// `grammar` is a live handle.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_check(grammar: *const Grammar) -> i32 {
    // SAFETY: as the caller promises.
    guarded(|| unsafe { (*grammar).check_latest() }.map(|()| DONE))
}

/// The bytes of a grammar by what they are for, see `GrammarMemory`.
///
/// # Safety
/// `grammar` is a live handle; `memory` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_memory(grammar: *const Grammar, memory: *mut GrammarMemory) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live, and the result may be written to, as the caller promises.
        unsafe { *memory = (*grammar).memory_by_kind()? };
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
        // SAFETY: the handle is live, and `work` may be written to, as the caller promises.
        unsafe { *work = (*grammar).work() };
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
        // SAFETY: the handle is live, as the caller promises, and keeps its own count.
        let grammar = unsafe {
            Arc::increment_strong_count(grammar);
            Arc::from_raw(grammar)
        };
        let sequence = Sequence::new(grammar)?;
        sequence.check()?;
        // SAFETY: `made` may be written to, as the caller promises.
        unsafe { *made = Box::into_raw(Box::new(sequence)) };
        Ok(DONE)
    })
}

/// Let a sequence take at most `maximum` tokens from its start on, the end id included and none of `avoided`: 1, or 0 with
/// nothing changed where it cannot be completed within that. How many tokens are enough goes to `needed`.
///
/// # Safety
/// `sequence` is a live handle that no other call uses; `avoided` points to `count` ids; `needed` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_set_budget(
    sequence: *mut Sequence,
    maximum: u32,
    avoided: *const u32,
    count: usize,
    needed: *mut u32,
) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        with_sequence(sequence, |sequence| {
            let enough = sequence.set_budget(maximum, view(avoided, count))?;
            *needed = enough;
            Ok(truth(enough <= maximum && enough < NEVER))
        })
    }
}

/// See `Sequence::prefer_longest`.
///
/// # Safety
/// `sequence` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_prefer_longest(sequence: *mut Sequence) -> i32 {
    // SAFETY: nothing else uses the sequence during the call.
    unsafe {
        with_sequence(sequence, |sequence| {
            sequence.prefer_longest();
            Ok(DONE)
        })
    }
}

/// # Safety
/// `sequence` is a live handle; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_fork(sequence: *const Sequence, made: *mut *mut Sequence) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live, as the caller promises.
        let sequence = unsafe { &*sequence };
        sequence.check()?;
        // SAFETY: `made` may be written to, as the caller promises.
        unsafe { *made = Box::into_raw(Box::new(sequence.clone())) };
        Ok(DONE)
    })
}

/// # Safety
/// `sequence` is a live handle, or null; it is none afterwards.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_free(sequence: *mut Sequence) {
    // SAFETY: as the caller promises.
    unsafe { free(sequence) };
}

/// Write the mask to the row; the answer is its status, or `UNFIT` if the row cannot take it.
///
/// # Safety
/// As for `with_target`; the row is an array, and nobody else uses it.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_fill(target: *const Target) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { with_row(target, |sequence, row| fill(sequence, row)) }
}

/// Append a token: 1, or 0 with nothing changed where it is not allowed. The row does not matter.
///
/// # Safety
/// As for `with_target`.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_accept_token(target: *const Target, token: u32) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { with_target(target, |sequence, _| sequence.accept_token(token).map(truth)) }
}

/// Append a token and write the next mask: `ACCEPTED` and the mask's status, or 0 or `UNFIT` with nothing changed and
/// nothing written.
///
/// # Safety
/// As for `fcn_sequence_fill`.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_step(target: *const Target, token: u32) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { with_row(target, |sequence, row| step(sequence, token, row)) }
}

/// Append a token: `ACCEPTED` with the status of the next mask, or alone where that is not worked out yet; 0 with nothing
/// changed where it is not allowed.
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
    // SAFETY: as the caller promises.
    unsafe { with_target(target, advance) }
}

/// Append a token where the mask after it is kept, and say which one it is instead of writing it: 8 times its number, which
/// no other mask has in this process, and the status; 0 with nothing changed elsewhere.
///
/// # Safety
/// As for `fcn_sequence_accept_token`.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_step_kept(target: *const Target, token: u32) -> i64 {
    // SAFETY: as the caller promises.
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

/// `fcn_sequence_step` for `count` sequences, or `fcn_sequence_fill` where the token is `NO_TOKEN`; the answers go to
/// `statuses`. The row of a sequence begins at `rows`, plus `stride` bytes times its place. Where there are logits, those at
/// the same place are masked if the text may not end there; otherwise the row is to be completed first.
///
/// # Safety
/// As for `fcn_sequence_fill`, for each sequence and row; no two of them are the same; the other arrays hold `count`
/// values each. `logits` is null or points to `width` aligned floats side by side, at `logits_stride` bytes times each
/// place, which nobody else uses.
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
    // SAFETY: the arrays hold `count` values each, as the caller promises.
    let (sequences, tokens, places) = unsafe { (view(sequences, count), view(tokens, count), view(places, count)) };
    let mut stopped = false;
    for (index, ((sequence, token), place)) in sequences.iter().zip(tokens).zip(places).enumerate() {
        if stopped {
            // SAFETY: `statuses` holds `count` values, as the caller promises.
            unsafe { *statuses.add(index) = STOPPED };
            continue;
        }
        // SAFETY: the handles are live and different, each has its row and its logits, and `statuses` holds `count` values,
        // as the caller promises.
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

/// Append bytes as one step: 1, or 0 with nothing changed where they are not allowed.
///
/// # Safety
/// `sequence` is a live handle that no other call uses; `data` points to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_accept_bytes(sequence: *mut Sequence, data: *const u8, length: usize) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        with_sequence(sequence, |sequence| {
            sequence.accept_bytes(view(data, length)).map(truth)
        })
    }
}

/// Undo the last `steps` steps: 1, or 0 with nothing changed where there are fewer.
///
/// # Safety
/// `sequence` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_rollback(sequence: *mut Sequence, steps: usize) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { with_sequence(sequence, |sequence| Ok(truth(sequence.rollback(steps)))) }
}

/// How many steps the sequence has taken.
///
/// # Safety
/// `sequence` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_steps(sequence: *mut Sequence) -> i32 {
    // SAFETY: nothing else uses the sequence during the call.
    unsafe { with_sequence(sequence, |sequence| Ok(sequence.steps() as i32)) }
}

/// Whether what was accepted is a completion.
///
/// # Safety
/// `sequence` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_can_stop(sequence: *mut Sequence) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { with_sequence(sequence, |sequence| Ok(truth(sequence.can_stop()))) }
}

/// Write what every completion of the rest begins with, at most `limit` bytes; the answer is how many they are.
///
/// # Safety
/// `sequence` is a live handle that no other call uses; `bytes` points to room for `limit` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_sequence_forced_bytes(sequence: *mut Sequence, bytes: *mut u8, limit: usize) -> i32 {
    // SAFETY: as the caller promises; what is forced has at most `limit` bytes.
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

/// # Safety
/// `handle` was made by `Arc::into_raw` and is not used again, or is null.
pub unsafe fn free_shared<T>(handle: *const T) {
    guarded(|| {
        if !handle.is_null() {
            // SAFETY: as the caller promises.
            drop(unsafe { Arc::from_raw(handle) });
        }
        Ok(DONE)
    });
}

/// # Safety
/// `handle` was made by `Box::into_raw`, or is null.
pub unsafe fn free<T>(handle: *mut T) {
    guarded(|| {
        if !handle.is_null() {
            // SAFETY: as the caller promises.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(DONE)
    });
}
