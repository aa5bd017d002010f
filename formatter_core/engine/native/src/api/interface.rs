//! The C interface. Its functions make and free handles; every call returns a number, and no call unwinds.
//!
//! Numbers below zero are faults. If a call fails, the caller must not use what the call wrote; nothing else has
//! changed. This module has the vocabularies and the grammars; its siblings have the rest.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;
use std::sync::Arc;

use crate::api::gate::{watch_forks, Call};
use crate::base::checksum::ends_with_checksum;
use crate::base::damage::{caught, text_of};
use crate::base::limits::{check_stop, Fault, Limit, Limits, Outcome};
use crate::base::stop::{watch_interrupts, Signals};
use crate::masks::compiled::{Grammar, GrammarMemory};
use crate::masks::engine::{Engine, EngineMemory};
use crate::tokens::trie::Vocabulary;

/// The version of this interface; the Python side refuses any other version.
const INTERFACE_VERSION: i32 = 47;

const YES: i32 = 1;
pub const NO: i32 = 0;
pub const DONE: i32 = 0;
/// The bits of `MaskStatus`, which are returned with a mask: the mask allows a token; the text may end here.
pub const HAS_TOKENS: i32 = 1;
pub const CAN_STOP: i32 = 2;
/// The token of a step was accepted.
pub const ACCEPTED: i32 = 4;
/// The budget forbids tokens that the grammar allows.
pub const SHORTENED: i32 = 8;
/// The mask was applied to the logits, too.
pub const APPLIED: i32 = 16;
const EMPTY_LANGUAGE: i32 = -1;
const MALFORMED: i32 = -2;
const EMPTY_MEMBER: i32 = -3;
/// A row cannot take a mask; the call did nothing.
pub const UNFIT: i32 = -4;
/// A signal arrived; nothing has changed. If Python's handlers raise no exception, the caller can repeat the call.
pub const STOPPED: i32 = -5;
/// Faults of a limit: this number minus the number of the limit.
const LIMIT: i32 = -10;
/// Panics: this number minus the number of the panic, which `fcn_panic_text` takes.
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

/// Run a call of the library; a panic ends the call.
pub fn guarded(call: impl FnOnce() -> Outcome<i32>) -> i32 {
    let _call = Call::begin();
    catch(call).unwrap_or_else(code)
}

pub fn catch<T>(call: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| Err(caught(&*payload)))
}

pub fn truth(value: bool) -> i32 {
    if value {
        YES
    } else {
        NO
    }
}

/// # Safety
/// `limits` must point to 4 numbers.
pub unsafe fn limits_at(limits: *const u64) -> Limits {
    // SAFETY: the caller guarantees that `limits` points to 4 numbers.
    let [nodes, states, cache_bytes, work] = unsafe { *limits.cast::<[u64; 4]>() };
    Limits {
        nodes,
        states,
        cache_bytes,
        work,
    }
}

/// # Safety
/// `data` must point to `length` values, unless it is null or `length` is 0.
pub unsafe fn view<'a, T>(data: *const T, length: usize) -> &'a [T] {
    if length == 0 || data.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees that `data` points to `length` values.
    unsafe { slice::from_raw_parts(data, length) }
}

#[no_mangle]
pub extern "C" fn fcn_interface_version() -> i32 {
    INTERFACE_VERSION
}

/// Let interrupts end long calls from now on, see `stop`. `main_thread` is the number of the thread that runs Python's
/// handlers.
///
/// # Safety
/// `signals` must point to CPython's functions in the order of `Signals`.
#[no_mangle]
pub unsafe extern "C" fn fcn_watch_interrupts(signals: *const Signals, main_thread: usize) {
    // SAFETY: the caller guarantees that `signals` points to the two functions of CPython, in this order.
    unsafe { watch_interrupts(*signals, main_thread) };
}

/// Write the message of a panic, by the number in an answer, as at most `room` bytes of UTF-8. Return how many bytes
/// there are.
///
/// # Safety
/// `text` must have room for `room` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_panic_text(number: u32, text: *mut u8, room: usize) -> i32 {
    guarded(|| {
        let kept = text_of(number).unwrap_or_default();
        let length = kept.len().min(room);
        // SAFETY: the caller guarantees room for `room` bytes, and `length` is at most `room`.
        unsafe { text.copy_from_nonoverlapping(kept.as_ptr(), length) };
        Ok(length as i32)
    })
}

/// Build a vocabulary of `count` tokens: `starts` contains `count + 1` offsets into `text`.
///
/// # Safety
/// `text` must point to `length` bytes and `starts` to `count + 1` numbers; `made` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_new(
    text: *const u8,
    length: usize,
    starts: *const u32,
    count: usize,
    made: *mut *mut Engine,
) -> i32 {
    // We watch forks from here on, because all other calls need a vocabulary.
    watch_forks();
    guarded(|| {
        // SAFETY: the caller guarantees that `text` points to `length` bytes and `starts` to `count + 1` numbers.
        let (text, starts) = unsafe { (view(text, length), view(starts, count + 1)) };
        let vocabulary = Vocabulary::new(text, starts).ok_or(Fault::Malformed)?;
        check_stop()?;
        // SAFETY: the caller guarantees that `made` is valid for writes.
        unsafe { *made = Box::into_raw(Box::new(Engine::new(vocabulary))) };
        Ok(DONE)
    })
}

/// Make another handle of a vocabulary; its grammars share automata only with each other.
///
/// # Safety
/// `engine` must be a live handle; `made` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_apart(engine: *const Engine, made: *mut *mut Engine) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that the handle is live and that `made` is valid for writes.
        unsafe { *made = Box::into_raw(Box::new((*engine).apart())) };
        Ok(DONE)
    })
}

/// # Safety
/// `engine` must be a live handle of `fcn_vocabulary_new` or `fcn_vocabulary_apart`, or null; it is invalid afterwards.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_free(engine: *mut Engine) {
    // SAFETY: the caller guarantees that `engine` is null or a live handle that is not used again.
    unsafe { free(engine) };
}

/// Release a vocabulary's automata: existing grammars keep them, and new grammars begin with empty ones.
///
/// # Safety
/// `engine` must be a live handle.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_renew(engine: *const Engine) -> i32 {
    // SAFETY: the caller guarantees that the handle is live.
    guarded(|| unsafe { (*engine).renew() }.map(|()| DONE))
}

/// Write the memory of a vocabulary in bytes, by purpose, see `EngineMemory`.
///
/// # Safety
/// `engine` must be a live handle; `memory` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_vocabulary_memory(engine: *const Engine, memory: *mut EngineMemory) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that the handle is live and that `memory` is valid for writes.
        unsafe { *memory = (*engine).memory()? };
        Ok(DONE)
    })
}

/// Compile the serialised grammar in `data` from `begin` to `end`; `limits` contains nodes, states, cache bytes and
/// work. If `data` contains more than the grammar, it must end with its checksum.
///
/// # Safety
/// `engine` must be a live handle; the pointers must match the lengths, and `limits` must point to 4 numbers; `made`
/// must be valid for writes.
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
        // SAFETY: the caller guarantees that there are 4 limits, that the handle is live, and that `data` points to
        // `length` bytes.
        let (limits, engine, data) = unsafe { (limits_at(limits), &*engine, view(data, length)) };
        let program = data.get(begin..end).ok_or(Fault::Malformed)?;
        if program.len() < length && !ends_with_checksum(data) {
            return Err(Fault::Malformed);
        }
        let grammar = Arc::new(Grammar::new(program, engine, limits)?);
        // SAFETY: the caller guarantees that `made` is valid for writes.
        unsafe { *made = Arc::into_raw(grammar) };
        Ok(DONE)
    })
}

/// # Safety
/// `grammar` must be a live handle of `fcn_grammar_new`, or null; it is invalid afterwards. Its sequences continue to
/// work.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_free(grammar: *const Grammar) {
    // SAFETY: the caller guarantees that `grammar` is null or a live handle that is not used again.
    unsafe { free_shared(grammar) };
}

/// Return whether the budget of some region is too small for its shortest text; write that budget, and how many tokens
/// the text takes.
///
/// # Safety
/// `grammar` must be a live handle; `budget` and `needed` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_small_region(grammar: *const Grammar, budget: *mut u32, needed: *mut u32) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that the handle is live.
        let found = unsafe { (*grammar).too_small_region() }?;
        if let Some(found) = found {
            // SAFETY: the caller guarantees that `budget` and `needed` are valid for writes.
            unsafe { (*budget, *needed) = found };
        }
        Ok(truth(found.is_some()))
    })
}

/// Check whether new sequences can begin: a panic may have made the grammar unusable.
///
/// # Safety
/// `grammar` must be a live handle.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_check(grammar: *const Grammar) -> i32 {
    // SAFETY: the caller guarantees that the handle is live.
    guarded(|| unsafe { (*grammar).check_latest() }.map(|()| DONE))
}

/// Write the memory of a grammar in bytes, by purpose, see `GrammarMemory`.
///
/// # Safety
/// `grammar` must be a live handle; `memory` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_memory(grammar: *const Grammar, memory: *mut GrammarMemory) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that the handle is live and that `memory` is valid for writes.
        unsafe { *memory = (*grammar).memory_by_kind()? };
        Ok(DONE)
    })
}

/// Write the elementary steps that the grammar has taken so far: for its compilation, and for the masks and steps of
/// all its sequences.
///
/// # Safety
/// `grammar` must be a live handle; `work` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_grammar_work(grammar: *const Grammar, work: *mut u64) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that the handle is live and that `work` is valid for writes.
        unsafe { *work = (*grammar).work() };
        Ok(DONE)
    })
}

/// # Safety
/// `handle` must be null or come from `Arc::into_raw`; it must not be used again.
pub unsafe fn free_shared<T>(handle: *const T) {
    guarded(|| {
        if !handle.is_null() {
            // SAFETY: the handle is not null, so the caller guarantees that it comes from `Arc::into_raw` and is not
            // used again.
            drop(unsafe { Arc::from_raw(handle) });
        }
        Ok(DONE)
    });
}

/// # Safety
/// `handle` must be null or come from `Box::into_raw`; it must not be used again.
pub unsafe fn free<T>(handle: *mut T) {
    guarded(|| {
        if !handle.is_null() {
            // SAFETY: the handle is not null, so the caller guarantees that it comes from `Box::into_raw` and is not
            // used again.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(DONE)
    });
}
