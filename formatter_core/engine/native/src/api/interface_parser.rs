//! The parser's part of the C interface; it follows the rules of `interface`.

use std::cell::RefCell;
use std::sync::Arc;

use crate::api::gate::{watch_forks, Call};
use crate::api::interface::{
    catch, code, free, free_shared, guarded, limits_at, truth, view, CAN_STOP, DONE, HAS_TOKENS,
};
use crate::api::interface_schema::Bytes;
use crate::base::limits::{Fault, Limit, Meter, Outcome, Usage};
use crate::captures::capture_parser::{Expected, What};
use crate::captures::following::Following;
use crate::captures::grammar_tree::term_of;
use crate::captures::parser::{Parser, Reading};
use crate::regular::derive::Derivatives;
use crate::regular::term::Term;

/// A value that one call at a time uses, and that a panic makes unusable.
trait Ends {
    fn end(&mut self, fault: Fault);
}

impl Ends for Reading {
    fn end(&mut self, fault: Fault) {
        Reading::end(self, fault);
    }
}

impl Ends for Following {
    fn end(&mut self, fault: Fault) {
        Following::end(self, fault);
    }
}

/// Make a call that uses one value.
///
/// # Safety
/// `handle` must be live, and no other call may use it.
unsafe fn with<T: Ends>(handle: *mut T, call: impl FnOnce(&mut T) -> Outcome<i32>) -> i32 {
    let _call = Call::begin();
    // SAFETY: the caller guarantees that the handle is live and that no other call uses it.
    let value = unsafe { &mut *handle };
    match catch(|| call(value)) {
        Ok(answer) => answer,
        Err(fault) => {
            if fault != Fault::Stopped {
                value.end(fault);
            }
            code(fault)
        }
    }
}

/// Make a value that uses a parser.
///
/// # Safety
/// `parser` must be a live handle; `made` must be valid for writes.
unsafe fn make<T>(parser: *const Parser, made: *mut *mut T, new: impl FnOnce(Arc<Parser>) -> Outcome<T>) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that the handle is live; we increment its count before taking a reference of
        // our own.
        let parser = unsafe {
            Arc::increment_strong_count(parser);
            Arc::from_raw(parser)
        };
        let value = new(parser)?;
        // SAFETY: the caller guarantees that `made` is valid for writes.
        unsafe { *made = Box::into_raw(Box::new(value)) };
        Ok(DONE)
    })
}

/// Count the strings that a serialised grammar of one regular rule matches, at most `most`; `limits` is as for
/// `fcn_parser_new`. Write the elementary steps that this took to `steps`.
///
/// # Safety
/// `data` must point to `length` bytes, and `limits` to 4 numbers; `steps` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_regular_count(
    data: *const u8,
    length: usize,
    limits: *const u64,
    most: u32,
    steps: *mut u64,
) -> i32 {
    let usage = Usage::default();
    let count = |mut derivatives: Derivatives, term, meter: &mut Meter| {
        derivatives.count(term, most.into(), meter).map(|count| count as i32)
    };
    // SAFETY: the caller guarantees that `data` points to `length` bytes and `limits` to 4 numbers.
    let answer = unsafe { with_term(data, length, limits, &usage, count) };
    // SAFETY: the caller guarantees that `steps` is valid for writes.
    unsafe { steps.write(usage.work()) };
    answer
}

/// Return the automaton of a serialised grammar of one regular rule, see `Derivatives::table`; or, if `most` is above
/// 0, that many of its shortest strings. The result lives until this thread's next call of this function.
///
/// # Safety
/// `data` must point to `length` bytes, and `limits` to 4 numbers; `found` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_regular_table(
    data: *const u8,
    length: usize,
    limits: *const u64,
    most: u32,
    found: *mut Bytes,
) -> i32 {
    thread_local! {
        static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let table = |mut derivatives: Derivatives, term, meter: &mut Meter| {
        let table = match most {
            0 => derivatives.table(term, meter)?,
            _ => derivatives.shortest_strings(term, most, meter)?,
        };
        WRITTEN.with(|kept| {
            let mut kept = kept.borrow_mut();
            *kept = table;
            // SAFETY: the caller guarantees that `found` is valid for writes.
            unsafe { found.write(Bytes::of(&kept)) };
        });
        Ok(DONE)
    };
    // SAFETY: the caller guarantees that `data` points to `length` bytes and `limits` to 4 numbers.
    unsafe { with_term(data, length, limits, &Usage::default(), table) }
}

/// Answer a question about the term of a serialised grammar.
///
/// # Safety
/// `data` must point to `length` bytes, and `limits` to 4 numbers.
unsafe fn with_term(
    data: *const u8,
    length: usize,
    limits: *const u64,
    usage: &Usage,
    ask: impl FnOnce(Derivatives, Term, &mut Meter) -> Outcome<i32>,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that `data` points to `length` bytes and `limits` to 4 numbers.
        let (limits, data) = unsafe { (limits_at(limits), view(data, length)) };
        let mut meter = Meter::new(limits.work, usage, limits.states);
        let (derivatives, term) = term_of(data, &limits, &mut meter)?;
        ask(derivatives, term, &mut meter)
    })
}

/// Prepare a serialised grammar for parsing; `limits` contains nodes, states, cache bytes and work.
///
/// # Safety
/// `data` must point to `length` bytes, and `limits` to 4 numbers; `made` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_parser_new(
    data: *const u8,
    length: usize,
    limits: *const u64,
    made: *mut *const Parser,
) -> i32 {
    watch_forks();
    guarded(|| {
        // SAFETY: the caller guarantees that `data` points to `length` bytes and `limits` to 4 numbers.
        let (limits, data) = unsafe { (limits_at(limits), view(data, length)) };
        let parser = Parser::new(data, limits)?;
        // SAFETY: the caller guarantees that `made` is valid for writes.
        unsafe { *made = Arc::into_raw(Arc::new(parser)) };
        Ok(DONE)
    })
}

/// # Safety
/// `parser` must be a live handle of `fcn_parser_new`, or null; it is invalid afterwards. Its readings continue to
/// work.
#[no_mangle]
pub unsafe extern "C" fn fcn_parser_free(parser: *const Parser) {
    // SAFETY: the caller guarantees that `parser` is null or a live handle that is not used again.
    unsafe { free_shared(parser) };
}

/// Write the memory in bytes of a grammar for parsing, of its automata, and of the texts that are being read or
/// followed.
///
/// # Safety
/// `parser` must be a live handle; `memory` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_parser_memory(parser: *const Parser, memory: *mut [usize; 3]) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that the handle is live and that `memory` is valid for writes.
        unsafe { *memory = (*parser).memory()? };
        Ok(DONE)
    })
}

/// Write the length in bytes of the shortest text, in which tokens have no length. Return 1; or 0, with nothing
/// written, if members must differ, because we would have to tell their values apart.
///
/// # Safety
/// `parser` must be a live handle; `length` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_parser_shortest(parser: *const Parser, length: *mut u32) -> i32 {
    guarded(|| {
        // SAFETY: the caller keeps the handle alive during the call.
        let found = unsafe { &*parser }.shortest()?;
        if let Some(found) = found {
            // SAFETY: the caller guarantees that `length` is valid for writes.
            unsafe { length.write(found) };
        }
        Ok(truth(found.is_some()))
    })
}

/// Begin to read a text.
///
/// # Safety
/// `parser` must be a live handle; `made` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_new(parser: *const Parser, made: *mut *mut Reading) -> i32 {
    // SAFETY: the caller guarantees that `parser` is a live handle and that `made` is valid for writes.
    unsafe { make(parser, made, Reading::new) }
}

/// # Safety
/// `reading` must be a live handle, or null; it is invalid afterwards.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_free(reading: *mut Reading) {
    // SAFETY: the caller guarantees that `reading` is null or a live handle that is not used again.
    unsafe { free(reading) };
}

/// Append bytes. Return 1, or 0 if no parse continues with them. After 0, or after a signal stopped the call, the
/// reading must not be used again, and every further call returns that it was stopped.
///
/// # Safety
/// `reading` must be a live handle that no other call uses; `data` must point to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_push(reading: *mut Reading, data: *const u8, length: usize) -> i32 {
    // SAFETY: the caller guarantees that no other call uses the live handle `reading`, and that `data` points to
    // `length` bytes.
    unsafe { with(reading, |reading| reading.push_bytes(view(data, length)).map(truth)) }
}

/// Append a token that the grammar names by its id. Return 1, or 0 as for bytes.
///
/// # Safety
/// `reading` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_push_token(reading: *mut Reading, token: u32) -> i32 {
    // SAFETY: the caller guarantees that `reading` is a live handle that no other call uses.
    unsafe { with(reading, |reading| reading.push_token(token).map(truth)) }
}

/// Return 1 if anything may follow the text, plus 2 if the text is complete.
///
/// # Safety
/// `reading` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_status(reading: *mut Reading) -> i32 {
    // SAFETY: the caller guarantees that `reading` is a live handle that no other call uses.
    unsafe {
        with(reading, |reading| {
            Ok((HAS_TOKENS * truth(reading.may_go_on())) | (CAN_STOP * truth(reading.is_complete())))
        })
    }
}

/// Find the captures of the text, which must be complete. Return how many there are.
///
/// # Safety
/// `reading` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_find_captures(reading: *mut Reading) -> i32 {
    // SAFETY: the caller guarantees that `reading` is a live handle that no other call uses.
    unsafe { with(reading, |reading| count(reading.find_captures()?)) }
}

/// Write the captures that were found, in order of their start; an outer capture comes before those inside it. First
/// come the numbers of all names, then all starts, then all ends, both in bytes, then for each capture the index of the
/// first later one that is not inside it.
///
/// # Safety
/// `reading` must be a live handle that no other call uses; `out` must have room for four numbers for each capture.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_captures(reading: *mut Reading, out: *mut u32) -> i32 {
    // SAFETY: the caller guarantees that no other call uses the live handle `reading`, and that `out` has room for all
    // captures.
    unsafe {
        with(reading, |reading| {
            let found = reading.captures();
            for (number, capture) in found.iter().enumerate() {
                let columns = [capture.name, capture.start, capture.end, capture.next];
                for (column, value) in columns.into_iter().enumerate() {
                    *out.add(column * found.len() + number) = value;
                }
            }
            Ok(DONE)
        })
    }
}

/// Return how many bytes and tokens were appended, including the one with which no parse continues.
///
/// # Safety
/// `reading` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_length(reading: *mut Reading) -> i32 {
    // SAFETY: the caller guarantees that `reading` is a live handle that no other call uses.
    unsafe { with(reading, |reading| count(reading.length())) }
}

/// Find what may come next. Return how many numbers `fcn_reading_expected` will write.
///
/// # Safety
/// `reading` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_find_expected(reading: *mut Reading) -> i32 {
    // SAFETY: the caller guarantees that `reading` is a live handle that no other call uses.
    unsafe {
        with(reading, |reading| {
            count(reading.find_expected()?.iter().flat_map(numbers_of).count())
        })
    }
}

/// Write what may come next. For each entry: the number of the rule that contains it; the number of open captures, and
/// the numbers of their names, the innermost first; then 1 and a token, or 0, the bytes that may come first as 8
/// numbers of 32 bits, and the number of bytes that must come, followed by these bytes.
///
/// # Safety
/// `reading` must be a live handle that no other call uses; `out` must have room for as many numbers as were found.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_expected(reading: *mut Reading, out: *mut u32) -> i32 {
    // SAFETY: the caller guarantees that no other call uses the live handle `reading`, and that `out` has room for all
    // numbers.
    unsafe {
        with(reading, |reading| {
            let numbers = reading.expected().iter().flat_map(numbers_of);
            numbers.enumerate().for_each(|(index, number)| *out.add(index) = number);
            Ok(DONE)
        })
    }
}

fn numbers_of(expected: &Expected) -> Vec<u32> {
    let mut numbers = vec![expected.rule, expected.names.len() as u32];
    numbers.extend(&expected.names);
    match &expected.what {
        What::Token(token) => numbers.extend([1, *token]),
        What::Text(first, forced) => {
            let word =
                |index: u8| (0..32).fold(0, |word, bit| word | u32::from(first.contains(32 * index + bit)) << bit);
            numbers.push(0);
            numbers.extend((0..8).map(word));
            numbers.push(forced.len() as u32);
            numbers.extend(forced.iter().map(|byte| u32::from(*byte)));
        }
    }
    numbers
}

fn count(number: usize) -> Outcome<i32> {
    i32::try_from(number).map_err(|_| Fault::Limit(Limit::Work))
}

/// Begin to follow a text.
///
/// # Safety
/// `parser` must be a live handle; `made` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_new(parser: *const Parser, made: *mut *mut Following) -> i32 {
    // SAFETY: the caller guarantees that `parser` is a live handle and that `made` is valid for writes.
    unsafe { make(parser, made, Following::new) }
}

/// # Safety
/// `following` must be a live handle, or null; it is invalid afterwards.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_free(following: *mut Following) {
    // SAFETY: the caller guarantees that `following` is null or a live handle that is not used again.
    unsafe { free(following) };
}

/// Append bytes that continue the text.
///
/// # Safety
/// `following` must be a live handle that no other call uses; `data` must point to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_push(following: *mut Following, data: *const u8, length: usize) -> i32 {
    // SAFETY: the caller guarantees that no other call uses the live handle `following`, and that `data` points to
    // `length` bytes.
    unsafe {
        with(following, |following| {
            following.push_bytes(view(data, length)).map(|()| DONE)
        })
    }
}

/// Append a token that the grammar names by its id and that continues the text.
///
/// # Safety
/// `following` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_push_token(following: *mut Following, token: u32) -> i32 {
    // SAFETY: the caller guarantees that `following` is a live handle that no other call uses.
    unsafe { with(following, |following| following.push_token(token).map(|()| DONE)) }
}

/// Undo the last steps, which are bytes or tokens; there must be that many.
///
/// # Safety
/// `following` must be a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_pop(following: *mut Following, steps: usize) -> i32 {
    // SAFETY: the caller guarantees that `following` is a live handle that no other call uses.
    unsafe {
        with(following, |following| {
            following.pop(steps);
            Ok(DONE)
        })
    }
}

/// Find the marks on which all parses agree and that are new since the last call. Return the number of new marks. Write
/// two numbers to `out`: how many of the marks reported before are still agreed, and the offset in bytes up to which
/// there are no other marks. If there are at most `room` new marks, write them after these numbers.
///
/// # Safety
/// `following` must be a live handle that no other call uses; `out` must have room for two numbers and `room` marks.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_find_news(following: *mut Following, out: *mut u32, room: usize) -> i32 {
    // SAFETY: the caller guarantees that no other call uses the live handle `following`, and that `out` has room for
    // two numbers and `room` marks.
    unsafe {
        with(following, |following| {
            let found = following.find_news()?;
            let news = following.news();
            out.cast::<[u32; 2]>()
                .write_unaligned([news.kept as u32, news.agreed_to]);
            if found <= room {
                write_marks(&news.marks, out.add(2));
            }
            count(found)
        })
    }
}

/// Write the new marks that were found last, two numbers for each: twice the number of the capture's name, plus one if
/// the capture opens; and the offset in bytes.
///
/// # Safety
/// `following` must be a live handle that no other call uses; `out` must have room for as many marks as were found.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_marks(following: *mut Following, out: *mut u32) -> i32 {
    // SAFETY: the caller guarantees that no other call uses the live handle `following`, and that `out` has room for
    // all marks.
    unsafe {
        with(following, |following| {
            write_marks(&following.news().marks, out);
            Ok(DONE)
        })
    }
}

/// # Safety
/// `out` must have room for the marks.
unsafe fn write_marks(marks: &[(u32, u32)], out: *mut u32) {
    for (index, (symbol, offset)) in marks.iter().enumerate() {
        // SAFETY: the caller guarantees that `out` has room for two numbers for each mark.
        unsafe {
            out.add(2 * index)
                .cast::<[u32; 2]>()
                .write_unaligned([*symbol, *offset])
        };
    }
}
