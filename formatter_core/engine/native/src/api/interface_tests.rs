//! Tests the C interface from outside, with valid and damaged grammars, arbitrary bytes and arbitrary vocabularies.
//! `FCN_FUZZ_SECONDS` makes the search longer, and `FCN_FUZZ_SEED` changes it; docs/engines.md says how to run it under
//! a sanitizer.

use std::collections::HashMap;
use std::ops::Range;
use std::ptr;
use std::time::{Duration, Instant};

use crate::api::interface::*;
use crate::api::interface_sequences::*;
use crate::base::limits::panic_after;
use crate::masks::compiled::{Grammar, GrammarMemory};
use crate::masks::engine::{Engine, EngineMemory};
use crate::masks::sequence::Sequence;

/// The Xorshift generator (Marsaglia 2003).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}

const TOKENS: [&[u8]; 14] = [
    b"a",
    b"b",
    b"ab",
    b"ba",
    b"abc",
    b"\xc3",
    b"\xa9",
    b"\xc3\xa9",
    b"",
    b"aab",
    b"c",
    b"ab",
    b"bcabca",
    b"\xf0\x9f",
];

/// Write a node in postfix order, at most `depth` deep.
fn node(random: &mut Random, depth: usize, in_terminal: bool, rules: &Range<u8>, out: &mut Vec<u8>) {
    let choices = if depth == 0 { 4 } else { 11 };
    match random.below(choices) {
        0 => {
            let token = TOKENS[random.below(TOKENS.len())];
            out.extend([1, token.len() as u8]);
            out.extend(token);
        }
        1 => out.extend([2, 1, 97 + random.below(2) as u8, 99 + random.below(20) as u8]),
        2 => out.extend([9, 3, b'a', b'b', b'a']),
        3 if in_terminal => match random.below(3) {
            0 => out.extend([15, 4, b'a', b'"', 0xc3, 0xa9]),
            1 => out.extend([16, 5, 1, 2, b'a', b'b', 8]),
            _ => out.extend([2, 2, 97, 97, 0xe9, 1, 0xff, 1]),
        },
        3 if random.below(8) == 0 => out.extend([14, random.below(16) as u8]),
        3 => out.extend([13, rules.start + random.below(rules.len()) as u8]),
        4 | 5 => {
            let count = random.below(4);
            (0..count).for_each(|_| node(random, depth - 1, in_terminal, rules, out));
            out.extend([3 + random.below(2) as u8, count as u8]);
        }
        6 => {
            node(random, depth - 1, in_terminal, rules, out);
            let minimum = random.below(4) as u8;
            let maximum = [0, minimum + 1, minimum + 3, minimum + 20][random.below(4)];
            out.extend([[5, 19][random.below(2)], minimum, maximum]);
        }
        7 | 8 if in_terminal => {
            node(random, depth - 1, true, rules, out);
            match random.below(3) {
                0 => out.push(7),
                1 => out.push(8),
                _ => {
                    node(random, depth - 1, true, rules, out);
                    out.extend([6, 2]);
                }
            }
        }
        _ if in_terminal => node(random, depth - 1, true, rules, out),
        7 => members(random, depth, rules, out),
        8 => {
            node(random, depth - 1, false, rules, out);
            out.extend([18, random.below(5) as u8]);
        }
        _ => {
            let mut inside = Vec::new();
            node(random, depth - 1, true, rules, &mut inside);
            out.extend([10, inside.len() as u8 | 0x80, (inside.len() >> 7) as u8]);
            out.extend(inside);
        }
    }
}

/// Write a list of members that begin with a letter.
fn members(random: &mut Random, depth: usize, rules: &Range<u8>, out: &mut Vec<u8>) {
    let (count, conditions) = (random.below(5) as u8, random.below(3) as u8);
    out.extend([1, 1, b',']);
    for _ in 0..count {
        out.extend([1, 1, b'a' + random.below(3) as u8]);
        node(random, depth - 1, false, rules, out);
        out.extend([3, 2]);
    }
    let maximum = [0, 3][random.below(2)];
    out.extend([
        17,
        random.below(2) as u8,
        random.below(3) as u8,
        maximum,
        conditions,
        0,
        count,
    ]);
    for _ in 0..count {
        // One alternative, which may meet a condition; so may the absence of the member.
        out.push(4 + random.below(3) as u8);
        for ways in [&[1][..], &[]] {
            match random.below(2 + usize::from(conditions)).checked_sub(2) {
                Some(bit) => out.extend([1, bit as u8]),
                None => out.push(0),
            }
            out.extend(ways);
        }
    }
}

fn add_rules(random: &mut Random, count: u8, to_refer_to: &Range<u8>, out: &mut Vec<u8>) {
    for _ in 0..count {
        let depth = random.below(5);
        node(random, depth, false, to_refer_to, out);
        out.push(0);
    }
}

/// Make a program with shared rules, and an equivalent program in which these are ordinary rules.
fn programs(random: &mut Random, shared: u8) -> [Vec<u8>; 2] {
    let own = 1 + random.below(4) as u8;
    let mut all = b"FCG6".to_vec();
    all.extend([own + shared, 0]);
    add_rules(random, own, &(0..own + shared), &mut all);
    let mut with_shared = all.clone();
    if shared > 0 {
        let mut again = Random(random.0);
        add_rules(&mut again, shared, &(own..own + shared), &mut all);
        let mut inside = vec![shared];
        add_rules(random, shared, &(0..shared), &mut inside);
        with_shared.extend([22, inside.len() as u8 | 0x80, (inside.len() >> 7) as u8]);
        with_shared.extend(inside);
    }
    [with_shared, all]
}

pub fn sound_program(random: &mut Random) -> Vec<u8> {
    let shared = random.below(8).saturating_sub(5) as u8;
    let [program, _] = programs(random, shared);
    program
}

fn arbitrary(random: &mut Random, longest: usize) -> Vec<u8> {
    let length = random.below(longest + 1);
    (0..length).map(|_| random.byte()).collect()
}

/// Make a program. Half of the programs are valid; the others are damaged in a few places, spliced from two, truncated,
/// or random bytes.
pub fn program(random: &mut Random) -> Vec<u8> {
    let mut out = sound_program(random);
    match random.below(16) {
        0 => {
            out.truncate(4);
            out.extend(arbitrary(random, 40));
        }
        1 => out = arbitrary(random, 24),
        2 => out.truncate(random.below(out.len())),
        3 => {
            let other = sound_program(random);
            out.truncate(4 + random.below(out.len() - 4));
            out.extend(&other[random.below(other.len())..]);
        }
        4..=7 => {
            for _ in 0..1 + random.below(4) {
                let place = random.below(out.len());
                match random.below(4) {
                    0 => out[place] = random.byte(),
                    1 => out[place] ^= 1 << random.below(8),
                    2 if out.len() > 1 => drop(out.remove(place)),
                    _ => out.insert(place, random.below(20) as u8),
                }
            }
        }
        _ => {}
    }
    out
}

/// The tokens of a vocabulary, joined, and the offset at which each begins.
struct Tokens {
    text: Vec<u8>,
    starts: Vec<u32>,
}

impl Tokens {
    fn fixed() -> Self {
        let mut starts = vec![0u32];
        TOKENS
            .iter()
            .for_each(|token| starts.push(starts[starts.len() - 1] + token.len() as u32));
        Tokens {
            text: TOKENS.concat(),
            starts,
        }
    }

    /// Make so many tokens of the grammars' letters that the library uses classes and bit sets.
    fn many(random: &mut Random) -> Self {
        let (mut text, mut starts) = (Vec::new(), vec![0]);
        for _ in 0..1 + random.below(4000) {
            for _ in 0..random.below(9) {
                text.extend(TOKENS[random.below(TOKENS.len())].iter().take(2));
            }
            starts.push(text.len() as u32);
        }
        Tokens { text, starts }
    }

    /// Make arbitrary offsets, which are often not in order, or past the end of the text.
    fn arbitrary(random: &mut Random) -> Self {
        let text = arbitrary(random, 200);
        let count = random.below(100);
        let mut starts: Vec<u32> = (0..=count).map(|_| random.below(text.len() + 1) as u32).collect();
        if random.below(4) > 0 {
            starts.sort_unstable();
        } else if random.below(2) == 0 {
            starts[count] = random.next() as u32;
        }
        Tokens { text, starts }
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }
}

/// Represents numpy's type of an array of integers.
static KIND: u8 = 0;

/// Make an array; its length is read from `length`.
fn array(words: &mut [u32], length: &isize) -> Row {
    Row {
        data: words.as_mut_ptr(),
        dimensions: 1,
        lengths: length,
        strides: ptr::null(),
        base: ptr::null(),
        kind: ptr::from_ref(&KIND).cast(),
        flags: PLAIN,
    }
}

fn target(sequence: *mut Sequence, row: &Row) -> Target {
    Target {
        sequence,
        row,
        kind: ptr::from_ref(&KIND).cast(),
    }
}

/// Return whether an answer is one that the interface specifies.
pub fn is_sound(answer: i32) -> bool {
    matches!(answer, 0..|-3..=-1| -13..=-10)
}

/// # Safety
/// `grammar` must be a live handle for a vocabulary of `count` tokens.
unsafe fn run(random: &mut Random, grammar: *const Grammar, count: usize) {
    // SAFETY: the caller guarantees that the grammar is live. This function owns the sequences, and its rows have room
    // for `count` tokens.
    unsafe {
        let words = count.div_ceil(32);
        let mut first = ptr::null_mut();
        assert_eq!(fcn_sequence_new(grammar, &mut first), 0);
        let mut sequences = vec![first];
        let (mut row, width) = (vec![u32::MAX; words], words as isize);
        let mut masks = HashMap::new();
        let mut memory = GrammarMemory::default();
        assert_eq!(fcn_grammar_memory(grammar, &mut memory), 0);
        assert!(memory.network > 0);
        for _ in 0..12 {
            let sequence = sequences[random.below(sequences.len())];
            let filled = fcn_sequence_fill(&target(sequence, &array(&mut row, &width)));
            assert!(is_sound(filled));
            if filled >= 0 {
                let status = i32::from(row.iter().any(|word| *word != 0)) | fcn_sequence_can_stop(sequence) << 1;
                // A damaged program may contain a region, whose budget forbids tokens.
                assert_eq!(filled & !SHORTENED, status);
                assert!(count % 32 == 0 || row[words - 1] >> (count % 32) == 0);
            }
            let token = random.below(count + 2) as u32;
            let allowed = row.get(token as usize / 32).map_or(0, |word| word >> (token % 32) & 1);
            let answer = match random.below(4) {
                0 => fcn_sequence_accept_token(&target(sequence, &array(&mut row, &width)), token),
                1 => {
                    let status = fcn_sequence_advance(&target(sequence, &array(&mut row, &width)), token);
                    if status > ACCEPTED {
                        let filled = fcn_sequence_fill(&target(sequence, &array(&mut row, &width)));
                        assert_eq!(status, ACCEPTED | filled);
                    }
                    status
                }
                2 => fcn_sequence_step(&target(sequence, &array(&mut row, &width)), token),
                _ => match fcn_sequence_step_kept(&target(sequence, &array(&mut row, &width)), token) {
                    0 => fcn_sequence_step(&target(sequence, &array(&mut row, &width)), token),
                    kept if kept < 0 => kept as i32,
                    kept => {
                        let status = (kept % 8) as i32;
                        let filled = fcn_sequence_fill(&target(sequence, &array(&mut row, &width)));
                        assert_eq!(status, ACCEPTED | filled);
                        assert!(*masks.entry(kept).or_insert_with(|| row.clone()) == row);
                        status
                    }
                },
            };
            assert!(is_sound(answer));
            assert!(filled < 0 || answer < 0 || u32::from(answer > 0) == allowed);
            // Two sequences in one call get the same answers as each of them alone.
            let mut forks = [ptr::null_mut(), ptr::null_mut()];
            for made in &mut forks {
                assert_eq!(fcn_sequence_fork(sequence, made), 0);
            }
            let mut rows = vec![0; 3 * words];
            let mut statuses = [-99; 2];
            let both = [u32::MAX, random.below(count + 2) as u32];
            let (given, places, out) = (both.as_ptr(), [2, 0].as_ptr(), statuses.as_mut_ptr());
            let (rows_start, stride) = (rows.as_mut_ptr(), 4 * words as isize);
            let asked = random.below(3);
            let mut logits = vec![1.0f32; if random.below(2) == 0 { 0 } else { 3 * (count + 1) }];
            let logits_start = if logits.is_empty() {
                ptr::null_mut()
            } else {
                logits.as_mut_ptr()
            };
            let wide = (logits_start, 4 * (count as isize + 1), count + 1);
            assert_eq!(
                fcn_step_many(
                    forks.as_ptr(),
                    given,
                    rows_start,
                    stride,
                    places,
                    out,
                    asked,
                    wide.0,
                    wide.1,
                    wide.2
                ),
                0
            );
            for (status, place) in statuses.iter_mut().zip([2, 0]).take(asked) {
                let (row, has_logits) = (&rows[place * words..][..words], !logits.is_empty());
                let is_applied = *status > 0 && *status & 16 != 0;
                assert_eq!(is_applied, has_logits && *status > 0 && *status & 3 == 1);
                for (id, logit) in logits.iter().skip(place * (count + 1)).take(count + 1).enumerate() {
                    let is_allowed = row.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
                    assert_eq!(*logit == 1.0, !is_applied || is_allowed);
                }
                *status -= 16 * i32::from(is_applied);
            }
            let filled = fcn_sequence_fill(&target(sequence, &array(&mut row, &width)));
            assert!(asked < 1 || statuses[0].min(filled) < 0 || statuses[0] == filled && row[..] == rows[2 * words..]);
            let allowed = row
                .get(both[1] as usize / 32)
                .map_or(0, |word| word >> (both[1] % 32) & 1);
            assert!(asked < 2 || filled < 0 || statuses[1] < 0 || (statuses[1] > 0) == (allowed == 1));
            forks.into_iter().for_each(|fork| fcn_sequence_free(fork));
            let data = match random.below(4) {
                0 => arbitrary(random, 20),
                1 => vec![random.byte(); random.below(4)],
                place => b"ababc"[place..].to_vec(),
            };
            assert!(is_sound(fcn_sequence_accept_bytes(sequence, data.as_ptr(), data.len())));
            let mut forced = [0; 8];
            let limit = random.below(9);
            let length = fcn_sequence_forced_bytes(sequence, forced.as_mut_ptr(), limit);
            assert!((-13..=limit as i32).contains(&length));
            assert!(is_sound(fcn_sequence_can_stop(sequence)));
            let (other_width, mut unfit) = (width + 1 - 2 * random.below(2) as isize, array(&mut row, &width));
            match random.below(4) {
                0 => unfit.lengths = &other_width,
                1 => unfit.dimensions = 2,
                2 => unfit.kind = ptr::null(),
                _ => unfit.flags &= [!0x1, !0x100, !0x400][random.below(3)],
            }
            assert_eq!(fcn_sequence_fill(&target(sequence, &unfit)), UNFIT);
            assert_eq!(fcn_sequence_step(&target(sequence, &unfit), token), UNFIT);
            assert!(is_sound(fcn_sequence_rollback(sequence, random.below(4))));
            if random.below(4) == 0 {
                let mut fork = ptr::null_mut();
                assert_eq!(fcn_sequence_fork(sequence, &mut fork), 0);
                sequences.push(fork);
            }
            if sequences.len() > 2 {
                fcn_sequence_free(sequences.swap_remove(random.below(sequences.len())));
            }
        }
        sequences.into_iter().for_each(|sequence| fcn_sequence_free(sequence));
    }
}

/// Run three threads with one grammar.
///
/// # Safety
/// As for `run`.
unsafe fn run_at_once(random: &mut Random, grammar: *const Grammar, count: usize) {
    let shared = grammar as usize;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut own = Random(random.next());
            // SAFETY: the caller keeps the grammar alive, and the threads end before this function returns.
            scope.spawn(move || unsafe { run(&mut own, shared as *const Grammar, count) });
        }
    });
}

pub fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

#[test]
fn nothing_that_is_passed_in_breaks_the_engine() {
    let end = Instant::now() + Duration::from_secs(setting("FCN_FUZZ_SECONDS", 1));
    let mut random = Random(setting("FCN_FUZZ_SEED", 0x9e37_79b9_7f4a_7c15).max(1));
    let (mut made, mut refused) = (0, 0);
    while Instant::now() < end {
        let tokens = match random.below(24) {
            0 => Tokens::many(&mut random),
            1..=8 => Tokens::arbitrary(&mut random),
            _ => Tokens::fixed(),
        };
        let count = tokens.count();
        let mut engine = ptr::null_mut();
        // SAFETY: every handle is live while it is used, and all pointers match their lengths; only the contents are
        // invalid.
        unsafe {
            let (text, starts) = (&tokens.text, &tokens.starts);
            match fcn_vocabulary_new(text.as_ptr(), text.len(), starts.as_ptr(), count, &mut engine) {
                0 => {}
                answer => {
                    assert!(
                        is_sound(answer) && (answer == -2 || answer <= -10),
                        "{answer} for {starts:?}"
                    );
                    continue;
                }
            }
            for _ in 0..50 {
                let data = program(&mut random);
                let limits: [u64; 4] = match random.below(8) {
                    0 => [10, 11, 16, 14].map(|bits| random.next() >> (64 - bits)),
                    1 => [100_000, 50_000, 1 << 22, 10_000_000],
                    _ => [10_000, 5_000, 1 << 16, 300_000],
                };
                let mut grammar = ptr::null();
                let (program, length) = (data.as_ptr(), data.len());
                match fcn_grammar_new(engine, program, length, 0, length, limits.as_ptr(), &mut grammar) {
                    0 => {
                        made += 1;
                        match random.below(32) {
                            0 => run_at_once(&mut random, grammar, count),
                            _ => run(&mut random, grammar, count),
                        }
                        fcn_grammar_free(grammar);
                    }
                    answer => {
                        refused += 1;
                        assert!(is_sound(answer), "{answer} for {data:?}");
                    }
                }
            }
            let mut memory = EngineMemory::default();
            assert_eq!(fcn_vocabulary_memory(engine, &mut memory), 0);
            assert!(memory.tables > 0 && memory.automata > 0);
            fcn_vocabulary_free(engine);
        }
    }
    assert!(made > refused / 4, "{made} grammars, {refused} refused");
    println!("{made} grammars, {refused} refused");
}

/// A vocabulary with its grammars and sequences, which are freed at the end of a test.
struct Owned {
    engine: *mut Engine,
    grammars: Vec<*const Grammar>,
    sequences: Vec<*mut Sequence>,
}

impl Owned {
    fn new() -> Self {
        let tokens = Tokens::fixed();
        let mut engine = ptr::null_mut();
        let (text, starts) = (&tokens.text, &tokens.starts);
        // SAFETY: the pointers match the lengths.
        let made = unsafe { fcn_vocabulary_new(text.as_ptr(), text.len(), starts.as_ptr(), TOKENS.len(), &mut engine) };
        assert_eq!(made, 0);
        Owned {
            engine,
            grammars: Vec::new(),
            sequences: Vec::new(),
        }
    }

    /// Compile a grammar and begin a sequence.
    fn add(&mut self, data: &[u8]) -> i32 {
        let limits = [1_000_000u64, 200_000, 64 << 20, 20_000_000];
        let (mut grammar, mut sequence) = (ptr::null(), ptr::null_mut());
        // SAFETY: the handles are live, and the pointers match the lengths.
        unsafe {
            let (program, length) = (data.as_ptr(), data.len());
            let made = fcn_grammar_new(self.engine, program, length, 0, length, limits.as_ptr(), &mut grammar);
            if made < 0 {
                return made;
            }
            self.grammars.push(grammar);
            let begun = fcn_sequence_new(grammar, &mut sequence);
            if begun == 0 {
                self.sequences.push(sequence);
            }
            begun
        }
    }

    /// Make a call with a sequence. Return the answer, and the mask or the forced bytes that were written.
    fn call(&self, at: usize, kind: usize, token: u32) -> (i32, Vec<u32>) {
        let sequence = self.sequences[at];
        let (mut row, width, mut bytes) = (vec![0], 1, [0u8; 8]);
        // SAFETY: the handle is live; 14 tokens take one word.
        let answer = unsafe {
            match kind {
                0 => fcn_sequence_fill(&target(sequence, &array(&mut row, &width))),
                1 => fcn_sequence_step(&target(sequence, &array(&mut row, &width)), token),
                2 => fcn_sequence_accept_token(&target(sequence, &array(&mut row, &width)), token),
                3 => fcn_sequence_accept_bytes(sequence, b"ab".as_ptr(), token as usize % 3),
                4 => fcn_sequence_rollback(sequence, token as usize % 3),
                _ => fcn_sequence_forced_bytes(sequence, bytes.as_mut_ptr(), bytes.len()),
            }
        };
        row.extend(bytes.map(u32::from));
        (answer, if answer < 0 { Vec::new() } else { row })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: `self` owns the handles, and they are not used again.
        unsafe {
            self.sequences.iter().for_each(|sequence| fcn_sequence_free(*sequence));
            self.grammars.iter().for_each(|grammar| fcn_grammar_free(*grammar));
            fcn_vocabulary_free(self.engine);
        }
    }
}

#[test]
fn rules_that_stand_for_themselves_mean_the_same() {
    let mut random = Random(setting("FCN_FUZZ_SEED", 0x9e37_79b9_7f4a_7c15).max(1));
    let (mut owned, mut same) = (Owned::new(), 0);
    for _ in 0..2000 {
        let shared = 1 + random.below(3) as u8;
        let [program, plain] = programs(&mut random, shared);
        let answer = owned.add(&program);
        // Such rules contain nothing that needs a rule of its own, and each derives something.
        if answer < 0 {
            continue;
        }
        assert_eq!(owned.add(&plain), 0);
        same += 1;
        for _ in 0..12 {
            let (kind, token) = (random.below(6), random.below(14) as u32);
            let [first, second] = [2, 1].map(|back| owned.call(owned.sequences.len() - back, kind, token));
            assert_eq!(first, second, "{program:?} and {plain:?}");
        }
    }
    assert!(same > 300, "{same} programs");
}

const PANICS: i32 = -1000;

fn check_text_of(answer: i32) {
    let mut text = vec![0; 2000];
    // SAFETY: `text` has room for as many bytes as we say.
    let length = unsafe { fcn_panic_text((PANICS - answer) as u32, text.as_mut_ptr(), text.len()) };
    // After very many panics, only the texts of the first ones are kept.
    assert!(answer < PANICS - 1000 || text[..length as usize] == *b"asked for by a test");
}

/// Compares sequences that panic at arbitrary steps with equal ones that do not: whatever still answers must be right.
#[test]
fn after_a_panic_whatever_answers_is_right() {
    let mut random = Random(setting("FCN_FUZZ_SEED", 0x2545_f491_4f6c_dd1d).max(1));
    let (mut panics, mut alive, mut dead) = (0, 0, 0);
    for _ in 0..setting("FCN_PANIC_ROUNDS", 300) {
        let (mut struck, mut whole) = (Owned::new(), Owned::new());
        let mut silent = Vec::new();
        for _ in 0..200 {
            let is_armed = random.below(4) == 0;
            let steps = random.next() >> (56 + random.below(8));
            if whole.sequences.len() < 4 || random.below(20) == 0 {
                let data = sound_program(&mut random);
                if whole.add(&data) < 0 {
                    continue;
                }
                panic_after(if is_armed { steps } else { u64::MAX });
                let mut answer = struck.add(&data);
                panic_after(u64::MAX);
                if answer <= PANICS {
                    panics += 1;
                    check_text_of(answer);
                    answer = struck.add(&data);
                }
                // A new grammar does not use what a panic has damaged.
                assert_eq!(answer, 0);
                assert_eq!(struck.sequences.len(), whole.sequences.len());
                silent.push(false);
                continue;
            }
            let (at, kind, token) = (random.below(silent.len()), random.below(6), random.below(15) as u32);
            panic_after(if is_armed { steps } else { u64::MAX });
            let found = struck.call(at, kind, token);
            panic_after(u64::MAX);
            if found.0 <= PANICS {
                panics += i32::from(is_armed && !silent[at]);
                dead += 1;
                silent[at] = true;
                check_text_of(found.0);
                continue;
            }
            assert!(!silent[at], "a sequence that a panic has ended answers {}", found.0);
            alive += 1;
            assert_eq!(found, whole.call(at, kind, token));
        }
    }
    println!("{panics} panics; then {alive} answers, and {dead} refused");
    assert!(panics > 300 && alive > 5_000 && dead > 1_000);
}
