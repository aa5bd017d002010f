//! Tests the parser's part of the C interface from outside, with valid and damaged grammars and arbitrary texts; the
//! settings are those of `interface_tests`.

use std::ptr;
use std::time::{Duration, Instant};

use crate::api::interface_parser::*;
use crate::api::interface_tests::{is_sound, program, setting, sound_program, Random};
use crate::base::limits::panic_after;
use crate::captures::parser::Parser;

const TEXT: &[u8] = b"ababcabb\xc3\xa9";

fn parser(data: &[u8], limits: [u64; 4]) -> Result<*const Parser, i32> {
    let mut made = ptr::null();
    // SAFETY: the pointers match the lengths.
    let answer = unsafe { fcn_parser_new(data.as_ptr(), data.len(), limits.as_ptr(), &mut made) };
    match answer {
        0 => Ok(made),
        _ => Err(answer),
    }
}

/// Read a random text; return the captures of a complete text. Faults are returned unchanged.
fn read(random: &mut Random, parser: *const Parser) -> Result<Option<Vec<u32>>, i32> {
    let mut reading = ptr::null_mut();
    // SAFETY: the parser is live, this function owns the reading, and there is room for the captures.
    unsafe {
        let begun = fcn_reading_new(parser, &mut reading);
        if begun != 0 {
            return Err(begun);
        }
        let mut answer = 1;
        for _ in 0..random.below(24) {
            answer = match random.below(12) {
                0 => fcn_reading_push_token(reading, 7),
                _ => {
                    let from = random.below(4);
                    let length = 1 + random.below(TEXT.len() - from);
                    fcn_reading_push(reading, TEXT[from..].as_ptr(), length.min(2))
                }
            };
            if answer != 1 {
                break;
            }
        }
        let mut captures = None;
        let status = fcn_reading_status(reading);
        if answer == 1 && status >= 2 {
            answer = fcn_reading_find_captures(reading);
            let mut found = vec![0; 4 * answer.max(0) as usize];
            if answer >= 0 {
                assert_eq!(fcn_reading_captures(reading, found.as_mut_ptr()), 0);
                captures = Some(found);
            }
        }
        fcn_reading_free(reading);
        match answer {
            0.. => Ok(captures),
            _ => Err(answer),
        }
    }
}

/// The agreed marks after each of some random steps, forwards and backwards.
type Agreed = Vec<(u32, u32, Vec<u32>)>;

/// Follow a random text, also past the point where no parse continues. Faults are returned unchanged.
fn follow(random: &mut Random, parser: *const Parser) -> Result<Agreed, i32> {
    let mut following = ptr::null_mut();
    let mut agreed = Vec::new();
    // SAFETY: the parser is live, this function owns the following, and there is room for all results.
    unsafe {
        let begun = fcn_following_new(parser, &mut following);
        if begun != 0 {
            return Err(begun);
        }
        let (mut answer, mut length) = (0, 0);
        for _ in 0..random.below(16) {
            match random.below(8) {
                0 => {
                    answer = fcn_following_push_token(following, 7);
                    length += 1;
                }
                1 if length > 0 => {
                    let steps = 1 + random.below(length);
                    answer = fcn_following_pop(following, steps);
                    length -= steps;
                }
                _ => {
                    answer = fcn_following_push(following, TEXT[random.below(TEXT.len())..].as_ptr(), 1);
                    length += 1;
                }
            }
            let mut numbers = [0; 2];
            if answer == 0 {
                answer = fcn_following_find_news(following, numbers.as_mut_ptr(), 0);
            }
            if answer < 0 {
                break;
            }
            let mut marks = vec![0; 2 * answer as usize];
            answer = fcn_following_marks(following, marks.as_mut_ptr());
            agreed.push((numbers[0], numbers[1], marks));
        }
        fcn_following_free(following);
        match answer {
            0.. => Ok(agreed),
            _ => Err(answer),
        }
    }
}

/// Check that agreed marks are in order, and that they open and close.
fn check_agreed(agreed: &Agreed) {
    let mut known: Vec<(u32, u32)> = Vec::new();
    for (kept, to, marks) in agreed {
        assert!(*kept as usize <= known.len());
        known.truncate(*kept as usize);
        known.extend(marks.chunks(2).map(|mark| (mark[0], mark[1])));
        let mut open = Vec::new();
        for (index, (symbol, offset)) in known.iter().enumerate() {
            assert!(offset <= to && (index == 0 || known[index - 1].1 <= *offset));
            match symbol % 2 {
                1 => open.push(symbol - 1),
                _ => assert_eq!(open.pop(), Some(*symbol)),
            }
        }
    }
}

/// Check that captures are in order of their start, each inside those around it.
fn check(columns: &[u32]) {
    let count = columns.len() / 4;
    let column = |number: usize| &columns[number * count..][..count];
    let (starts, ends, next) = (column(1), column(2), column(3));
    let mut around: Vec<usize> = Vec::new();
    for number in 0..count {
        assert!(starts[number] <= ends[number] && number < next[number] as usize && next[number] as usize <= count);
        assert!(number == 0 || starts[number - 1] <= starts[number]);
        around.retain(|outer| number < next[*outer] as usize);
        if let Some(&outer) = around.last() {
            assert!(ends[number] <= ends[outer] && next[number] <= next[outer]);
        }
        around.push(number);
    }
}

#[test]
fn nothing_that_is_passed_in_breaks_the_parser() {
    let end = Instant::now() + Duration::from_secs(setting("FCN_FUZZ_SECONDS", 1));
    let mut random = Random(setting("FCN_FUZZ_SEED", 0x9e37_79b9_7f4a_7c15).max(1));
    let (mut made, mut refused, mut complete, mut agreed) = (0, 0, 0, 0);
    while Instant::now() < end {
        let limits = match random.below(8) {
            0 => [10, 11, 16, 14].map(|bits| random.next() >> (64 - bits)),
            _ => [10_000, 5_000, 1 << 16, 300_000],
        };
        match parser(&program(&mut random), limits) {
            Ok(parser) => {
                made += 1;
                for _ in 0..8 {
                    match read(&mut random, parser) {
                        Ok(captures) => {
                            complete += usize::from(captures.is_some());
                            check(&captures.unwrap_or_default());
                        }
                        Err(answer) => assert!(is_sound(answer)),
                    }
                    match follow(&mut random, parser) {
                        Ok(found) => {
                            agreed += usize::from(found.iter().any(|news| !news.2.is_empty()));
                            check_agreed(&found);
                        }
                        Err(answer) => assert!(is_sound(answer)),
                    }
                }
                // SAFETY: the handle is live and is not used again.
                unsafe { fcn_parser_free(parser) };
            }
            Err(answer) => {
                refused += 1;
                assert!(is_sound(answer), "{answer}");
            }
        }
    }
    println!("{made} parsers, {refused} refused, {complete} complete texts, {agreed} with marks");
    assert!(made > refused / 8 && complete > made / 8 && agreed > made / 16);
}

fn both(random: &mut Random, parser: *const Parser) -> Result<(Option<Vec<u32>>, Agreed), i32> {
    Ok((read(random, parser)?, follow(random, parser)?))
}

/// Checks that a panic ends the reading that it hits, or all values that share the changed data; whatever still answers
/// must be right.
#[test]
fn after_a_panic_of_the_parser_whatever_answers_is_right() {
    let mut random = Random(setting("FCN_FUZZ_SEED", 0x2545_f491_4f6c_dd1d).max(1));
    let limits = [10_000, 5_000, 1 << 16, 300_000];
    let (mut panics, mut right) = (0, 0);
    for _ in 0..setting("FCN_PANIC_ROUNDS", 300) {
        let data = sound_program(&mut random);
        let (Ok(struck), Ok(whole)) = (parser(&data, limits), parser(&data, limits)) else {
            continue;
        };
        for _ in 0..8 {
            let seed = random.next();
            panic_after(random.next() >> (54 + random.below(10)));
            let found = both(&mut Random(seed.max(1)), struck);
            panic_after(u64::MAX);
            match found {
                Err(answer) if answer <= -1000 => panics += 1,
                found => {
                    right += 1;
                    assert_eq!(found, both(&mut Random(seed.max(1)), whole));
                }
            }
        }
        // SAFETY: the handles are live and are not used again.
        unsafe {
            fcn_parser_free(struck);
            fcn_parser_free(whole);
        }
    }
    println!("{panics} panics, {right} right answers");
    assert!(panics > 50 && right > 50);
}
