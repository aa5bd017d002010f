//! The parser's part of the C interface; the rules are those of `interface`.

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

/// A value that one call at a time uses, and that a panic makes unfit for use.
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

/// A call that uses one value.
///
/// # Safety
/// `handle` is live, and no other call uses it.
unsafe fn with<T: Ends>(handle: *mut T, call: impl FnOnce(&mut T) -> Outcome<i32>) -> i32 {
    let _call = Call::begin();
    // SAFETY: the handle is live and nobody else's, as the caller promises.
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
/// `parser` is a live handle; `made` may be written to.
unsafe fn make<T>(parser: *const Parser, made: *mut *mut T, new: impl FnOnce(Arc<Parser>) -> Outcome<T>) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live, as the caller promises, and keeps its own count.
        let parser = unsafe {
            Arc::increment_strong_count(parser);
            Arc::from_raw(parser)
        };
        let value = new(parser)?;
        // SAFETY: `made` may be written to, as the caller promises.
        unsafe { *made = Box::into_raw(Box::new(value)) };
        Ok(DONE)
    })
}

/// How many strings a serialised grammar of one regular rule matches, but at most `most`; `limits` as for
/// `fcn_parser_new`. `steps` takes the elementary steps of finding out.
///
/// # Safety
/// `data` points to `length` bytes, `limits` to 4 numbers; `steps` may be written to.
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
    // SAFETY: as the caller promises.
    let answer = unsafe { with_term(data, length, limits, &usage, count) };
    // SAFETY: `steps` may be written to.
    unsafe { steps.write(usage.work()) };
    answer
}

/// The automaton of a serialised grammar of one regular rule, see `Derivatives::table`, until this thread asks for another
/// one; or where `most` is above 0, so many of its shortest strings.
///
/// # Safety
/// `data` points to `length` bytes, `limits` to 4 numbers; `found` may be written to.
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
            // SAFETY: `found` may be written to, as the caller promises.
            unsafe { found.write(Bytes::of(&kept)) };
        });
        Ok(DONE)
    };
    // SAFETY: as the caller promises.
    unsafe { with_term(data, length, limits, &Usage::default(), table) }
}

/// Ask about the term of a serialised grammar.
///
/// # Safety
/// `data` points to `length` bytes, `limits` to 4 numbers.
unsafe fn with_term(
    data: *const u8,
    length: usize,
    limits: *const u64,
    usage: &Usage,
    ask: impl FnOnce(Derivatives, Term, &mut Meter) -> Outcome<i32>,
) -> i32 {
    guarded(|| {
        // SAFETY: there are 4 limits, and the pointer fits the length, as the caller promises.
        let (limits, data) = unsafe { (limits_at(limits), view(data, length)) };
        let mut meter = Meter::new(limits.work, usage, limits.states);
        let (derivatives, term) = term_of(data, &limits, &mut meter)?;
        ask(derivatives, term, &mut meter)
    })
}

/// Make a serialised grammar ready for parsing; `limits` holds nodes, states, cache bytes and work.
///
/// # Safety
/// `data` points to `length` bytes, `limits` to 4 numbers; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_parser_new(
    data: *const u8,
    length: usize,
    limits: *const u64,
    made: *mut *const Parser,
) -> i32 {
    watch_forks();
    guarded(|| {
        // SAFETY: there are 4 limits, and the pointer fits the length, as the caller promises.
        let (limits, data) = unsafe { (limits_at(limits), view(data, length)) };
        let parser = Parser::new(data, limits)?;
        // SAFETY: `made` may be written to, as the caller promises.
        unsafe { *made = Arc::into_raw(Arc::new(parser)) };
        Ok(DONE)
    })
}

/// # Safety
/// `parser` is a live handle of `fcn_parser_new`, or null; it is none afterwards. Its readings go on.
#[no_mangle]
pub unsafe extern "C" fn fcn_parser_free(parser: *const Parser) {
    // SAFETY: as the caller promises.
    unsafe { free_shared(parser) };
}

/// The bytes of a grammar for parsing, of its automata, and of the texts that are being read or followed.
///
/// # Safety
/// `parser` is a live handle; `memory` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_parser_memory(parser: *const Parser, memory: *mut [usize; 3]) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live, and the result may be written to, as the caller promises.
        unsafe { *memory = (*parser).memory()? };
        Ok(DONE)
    })
}

/// Write the length in bytes of the shortest text, in which tokens have none: 1, or 0 if members that must differ are not told
/// apart, and nothing is written.
///
/// # Safety
/// `parser` is a live handle; `length` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_parser_shortest(parser: *const Parser, length: *mut u32) -> i32 {
    guarded(|| {
        // SAFETY: callers keep the handle alive during the call.
        let found = unsafe { &*parser }.shortest()?;
        if let Some(found) = found {
            // SAFETY: callers give a place of their own for the length.
            unsafe { length.write(found) };
        }
        Ok(truth(found.is_some()))
    })
}

/// Begin to read a text.
///
/// # Safety
/// `parser` is a live handle; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_new(parser: *const Parser, made: *mut *mut Reading) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { make(parser, made, Reading::new) }
}

/// # Safety
/// `reading` is a live handle, or null; it is none afterwards.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_free(reading: *mut Reading) {
    // SAFETY: as the caller promises.
    unsafe { free(reading) };
}

/// Append bytes: 1, or 0 where nothing goes on with them; then the reading is of no more use. Nor is it if a signal stops
/// the call, as it always is then.
///
/// # Safety
/// `reading` is a live handle that no other call uses; `data` points to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_push(reading: *mut Reading, data: *const u8, length: usize) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { with(reading, |reading| reading.push_bytes(view(data, length)).map(truth)) }
}

/// Append a token that the grammar names by its id: 1, or 0 as for bytes.
///
/// # Safety
/// `reading` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_push_token(reading: *mut Reading, token: u32) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { with(reading, |reading| reading.push_token(token).map(truth)) }
}

/// 1 if anything may follow the text, plus 2 if it is complete.
///
/// # Safety
/// `reading` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_status(reading: *mut Reading) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        with(reading, |reading| {
            Ok((HAS_TOKENS * truth(reading.may_go_on())) | (CAN_STOP * truth(reading.is_complete())))
        })
    }
}

/// Find the captures of the text, which is complete; the answer is how many there are.
///
/// # Safety
/// `reading` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_find_captures(reading: *mut Reading) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { with(reading, |reading| count(reading.find_captures()?)) }
}

/// Write the captures that were found, in order of their start, an outer one before those inside it: the numbers of all names,
/// where all begin, where they end, both in bytes, and the number of the first one after each that is not inside it.
///
/// # Safety
/// `reading` is a live handle that no other call uses; `out` has room for four numbers for each capture that was found.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_captures(reading: *mut Reading, out: *mut u32) -> i32 {
    // SAFETY: as the caller promises.
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

/// How many bytes and tokens were appended, the one included that nothing goes on with.
///
/// # Safety
/// `reading` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_length(reading: *mut Reading) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { with(reading, |reading| count(reading.length())) }
}

/// Find what may come next; the answer is how many numbers say it.
///
/// # Safety
/// `reading` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_find_expected(reading: *mut Reading) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        with(reading, |reading| {
            count(reading.find_expected()?.iter().flat_map(numbers_of).count())
        })
    }
}

/// Write what was found to come next. Of each: the number of the rule that it stands in; of the captures that are open there,
/// the innermost first, how many they are and their names' numbers; 1 and a token, or 0, the bytes that may come first as 8
/// numbers of 32 bits, and those that must come, after their count.
///
/// # Safety
/// `reading` is a live handle that no other call uses; `out` has room for the numbers that were found.
#[no_mangle]
pub unsafe extern "C" fn fcn_reading_expected(reading: *mut Reading, out: *mut u32) -> i32 {
    // SAFETY: as the caller promises.
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
/// `parser` is a live handle; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_new(parser: *const Parser, made: *mut *mut Following) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { make(parser, made, Following::new) }
}

/// # Safety
/// `following` is a live handle, or null; it is none afterwards.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_free(following: *mut Following) {
    // SAFETY: as the caller promises.
    unsafe { free(following) };
}

/// Append bytes, with which the text goes on.
///
/// # Safety
/// `following` is a live handle that no other call uses; `data` points to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_push(following: *mut Following, data: *const u8, length: usize) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        with(following, |following| {
            following.push_bytes(view(data, length)).map(|()| DONE)
        })
    }
}

/// Append a token that the grammar names by its id, with which the text goes on.
///
/// # Safety
/// `following` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_push_token(following: *mut Following, token: u32) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { with(following, |following| following.push_token(token).map(|()| DONE)) }
}

/// Undo the last steps, bytes or tokens, of which there are that many.
///
/// # Safety
/// `following` is a live handle that no other call uses.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_pop(following: *mut Following, steps: usize) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        with(following, |following| {
            following.pop(steps);
            Ok(DONE)
        })
    }
}

/// Find what all parses agree on, as far as it is new; the answer is the number of new marks. `out` takes two numbers: of
/// the marks that were reported before, those that are still agreed; and the offset in bytes up to which there are no others.
/// Then come the new marks, where there are at most `room` of them.
///
/// # Safety
/// `following` is a live handle that no other call uses; `out` has room for two numbers and for `room` marks.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_find_news(following: *mut Following, out: *mut u32, room: usize) -> i32 {
    // SAFETY: as the caller promises.
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

/// Write the new marks that were found last, two numbers for each: twice the number of a capture's name, and one more where it
/// opens; and the offset in bytes.
///
/// # Safety
/// `following` is a live handle that no other call uses; `out` has room for as many marks as were found.
#[no_mangle]
pub unsafe extern "C" fn fcn_following_marks(following: *mut Following, out: *mut u32) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        with(following, |following| {
            write_marks(&following.news().marks, out);
            Ok(DONE)
        })
    }
}

/// # Safety
/// `out` has room for the marks.
unsafe fn write_marks(marks: &[(u32, u32)], out: *mut u32) {
    for (index, (symbol, offset)) in marks.iter().enumerate() {
        // SAFETY: as the caller promises.
        unsafe {
            out.add(2 * index)
                .cast::<[u32; 2]>()
                .write_unaligned([*symbol, *offset])
        };
    }
}
