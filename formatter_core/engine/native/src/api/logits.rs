//! Rows of a model's logits: finds the best tokens of a row, with ties, and converts logits to log-probabilities.
//!
//! We read a row in blocks. The maximum of a block tells whether the block may contain one of the best logits, and
//! whether it matters for a sum or a rank; so only the maxima and the sum read the whole row. The loops over a block
//! are written so that the compiler vectorises them.

use std::borrow::Cow;

/// The number of elements in a block.
const BLOCK: usize = 64;
/// The number of sums or maxima that are computed side by side: one vector, or a few.
const LANES: usize = 16;
/// The number of blocks after which the `f32` sums are added to an `f64` sum.
const BLOCKS_A_SUM: usize = 16;
/// A term counts in a sum whose greatest term is 1 only if its base-2 exponent is above this.
const LEAST_EXPONENT: f32 = -120.0;
/// Rounds a small number when it is added: the nearest integer is in the lowest bits of the sum. The value is 1.5 ×
/// 2^23.
const TO_WHOLE: f32 = 12_582_912.0;

/// A number format of logits. An `f32` represents each of its values exactly.
pub trait Logit: Copy {
    fn wide(self) -> f32;

    /// Convert a whole row to `f32`.
    fn widen(row: &[Self]) -> Cow<'_, [f32]> {
        row.iter().map(|logit| logit.wide()).collect()
    }
}

impl Logit for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }

    fn widen(row: &[f32]) -> Cow<'_, [f32]> {
        row.into()
    }
}

/// A bfloat16, which is the upper half of an `f32`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Brain(u16);

impl Logit for Brain {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// An IEEE float16.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Half(u16);

impl Logit for Half {
    #[inline(always)]
    fn wide(self) -> f32 {
        let bits = (u32::from(self.0) & 0x7fff) << 13;
        let sign = (u32::from(self.0) & 0x8000) << 16;
        let magnitude = if bits < 0x0080_0000 {
            // A subnormal number has no implicit leading one; add it to the exponent and subtract it again.
            (f32::from_bits(bits + (113 << 23)) - f32::from_bits(113 << 23)).to_bits()
        } else if bits < 0x0f80_0000 {
            bits + (112 << 23)
        } else {
            bits + (224 << 23)
        };
        f32::from_bits(magnitude | sign)
    }
}

/// A question about a row.
#[derive(Clone, Copy)]
pub struct Question {
    /// The number of best tokens wanted; with tokens that tie with the last of them, at most `room`.
    pub count: usize,
    pub room: usize,
    pub chosen: Option<usize>,
    /// True if the scale is wanted; a list of tokens always needs it.
    pub wants_scale: bool,
    pub wants_rank: bool,
}

/// The answer to a question about a row; fields that were not asked for have no meaning.
#[derive(Default)]
pub struct Answer {
    /// The logarithm of the sum of the exponentials; 0 if every logit is -inf.
    pub scale: f64,
    pub chosen_logit: f64,
    /// The number of logits that are greater than that of the chosen token.
    pub better: usize,
    /// The number of tokens that are at least as good as the last one of the list.
    pub tied: usize,
    /// The best tokens, at most `Question::room` of them: the best first, ties by id.
    pub best: Vec<(u32, f32)>,
}

/// Memory that is reused for row after row.
#[derive(Default)]
pub struct Scratch {
    maxima: Vec<f32>,
    sorted: Vec<f32>,
    found: Vec<(u32, f32)>,
}

/// Answer a question about a row; return None if the row contains NaN or +inf and the question needs its values.
pub fn ask<L: Logit>(row: &[L], question: Question, scratch: &mut Scratch) -> Option<Answer> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the check above shows that this processor has AVX2 and FMA.
        return unsafe { ask_wide(row, question, scratch) };
    }
    ask_plain(&L::widen(row), question, scratch)
}

/// Without AVX2 we first convert the row to `f32`, so that this function is not compiled for each kind of logit.
#[inline(never)]
fn ask_plain(row: &[f32], question: Question, scratch: &mut Scratch) -> Option<Answer> {
    answer_of(row, question, scratch)
}

/// # Safety
/// The processor must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn ask_wide<L: Logit>(row: &[L], question: Question, scratch: &mut Scratch) -> Option<Answer> {
    answer_of(row, question, scratch)
}

#[inline(always)]
fn answer_of<L: Logit>(row: &[L], question: Question, scratch: &mut Scratch) -> Option<Answer> {
    let mut answer = Answer::default();
    let (greatest, has_nan) = find_maxima(row, &mut scratch.maxima);
    if question.count > 0 || question.wants_scale {
        if has_nan || greatest == f32::INFINITY {
            return None;
        }
        answer.scale = scale_of(row, &scratch.maxima, greatest);
    }
    if let Some(chosen) = question.chosen {
        let logit = row[chosen].wide();
        answer.chosen_logit = f64::from(logit);
        if question.wants_rank {
            answer.better = count_above(row, &scratch.maxima, logit);
        }
    }
    if question.count > 0 {
        find_best(row, question, scratch, &mut answer);
    }
    Some(answer)
}

/// Find the greatest logit of each block and of the whole row, and return whether there is a NaN. A NaN is greater than
/// nothing.
#[inline(always)]
fn find_maxima<L: Logit>(row: &[L], maxima: &mut Vec<f32>) -> (f32, bool) {
    maxima.clear();
    let mut strange = [0u32; LANES];
    let mut greatest = f32::NEG_INFINITY;
    let mut blocks = row.chunks_exact(BLOCK);
    for block in &mut blocks {
        let mut lanes = [f32::NEG_INFINITY; LANES];
        for part in block.chunks_exact(LANES) {
            for (place, logit) in part.iter().enumerate() {
                let value = logit.wide();
                lanes[place] = if value > lanes[place] { value } else { lanes[place] };
                strange[place] |= u32::from(value.is_nan());
            }
        }
        let best = lanes.into_iter().fold(f32::NEG_INFINITY, greater);
        greatest = greater(greatest, best);
        maxima.push(best);
    }
    let rest = blocks.remainder();
    if !rest.is_empty() {
        let best = rest.iter().map(|logit| logit.wide()).fold(f32::NEG_INFINITY, greater);
        strange[0] |= u32::from(rest.iter().any(|logit| logit.wide().is_nan()));
        greatest = greater(greatest, best);
        maxima.push(best);
    }
    (greatest, strange.into_iter().any(|one| one != 0))
}

#[inline(always)]
fn greater(one: f32, other: f32) -> f32 {
    if other > one {
        other
    } else {
        one
    }
}

/// Compute the logarithm of the sum of the exponentials.
#[inline(always)]
fn scale_of<L: Logit>(row: &[L], maxima: &[f32], greatest: f32) -> f64 {
    if greatest == f32::NEG_INFINITY {
        return 0.0;
    }
    let mut sum = 0.0;
    let least = LEAST_EXPONENT / std::f32::consts::LOG2_E;
    for (part, maxima) in row.chunks(BLOCK * BLOCKS_A_SUM).zip(maxima.chunks(BLOCKS_A_SUM)) {
        let mut lanes = [0.0f32; LANES];
        let mut blocks = part.chunks_exact(BLOCK);
        for (block, &best) in (&mut blocks).zip(maxima) {
            if best - greatest > least {
                for part in block.chunks_exact(LANES) {
                    for (place, logit) in part.iter().enumerate() {
                        lanes[place] += exponential(logit.wide() - greatest);
                    }
                }
            }
        }
        for logit in blocks.remainder() {
            lanes[0] += exponential(logit.wide() - greatest);
        }
        sum += lanes.into_iter().map(f64::from).sum::<f64>();
    }
    f64::from(greatest) + sum.ln()
}

/// Compute `exp` of a number up to 0, with a relative error of about 1e-6 where it matters: 2 to an integer power,
/// times 2 to a remainder between -1/2 and 1/2, for which we use a polynomial.
#[inline(always)]
fn exponential(value: f32) -> f32 {
    let exponent = value * std::f32::consts::LOG2_E;
    let exponent = if exponent > LEAST_EXPONENT {
        exponent
    } else {
        LEAST_EXPONENT
    };
    let shifted = exponent + TO_WHOLE;
    let rest = exponent - (shifted - TO_WHOLE);
    // The coefficients of 2^x, fitted to that interval.
    let mut power = 1.339_887_4e-3;
    for coefficient in [9.618_437e-3, 5.550_340_7e-2, 2.402_265e-1, 6.931_472e-1, 1.0] {
        power = power * rest + coefficient;
    }
    f32::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// Count the logits of a row that are greater than a logit.
#[inline(always)]
fn count_above<L: Logit>(row: &[L], maxima: &[f32], logit: f32) -> usize {
    let mut count = 0;
    for (block, _) in row.chunks(BLOCK).zip(maxima).filter(|(_, &best)| best > logit) {
        count += block.iter().map(|other| u32::from(other.wide() > logit)).sum::<u32>() as usize;
    }
    count
}

/// Find the best tokens of a row, and those that tie with the last of them.
#[inline(always)]
fn find_best<L: Logit>(row: &[L], question: Question, scratch: &mut Scratch, answer: &mut Answer) {
    let Scratch { maxima, sorted, found } = scratch;
    // At least as many blocks as tokens are wanted have a logit that is at least as good as the last of the best
    // maxima.
    let mut bound = f32::NEG_INFINITY;
    if question.count <= maxima.len() {
        sorted.clear();
        sorted.extend_from_slice(maxima);
        bound = nth_best(sorted, question.count);
    }
    found.clear();
    for (number, (block, _)) in row
        .chunks(BLOCK)
        .zip(&*maxima)
        .enumerate()
        .filter(|(_, (_, &best))| best >= bound)
    {
        for (id, logit) in (number * BLOCK..).zip(block) {
            let value = logit.wide();
            if value >= bound && value > f32::NEG_INFINITY {
                found.push((id as u32, value));
            }
        }
    }
    if !found.is_empty() {
        list_best(found, question, sorted, answer);
    }
}

/// List the best of the tokens that were found, and count how many tie with the last of them. This function is not
/// inlined, so that it is compiled once and not for each kind of logit.
#[inline(never)]
fn list_best(found: &[(u32, f32)], question: Question, sorted: &mut Vec<f32>, answer: &mut Answer) {
    sorted.clear();
    sorted.extend(found.iter().map(|&(_, value)| value));
    let last = nth_best(sorted, question.count.min(found.len()));
    answer.tied = found.iter().filter(|&&(_, value)| value >= last).count();
    // Of the tokens that tie with the last one, those with the lowest ids come first; keep as many as there is room
    // for.
    let above = found.iter().filter(|&&(_, value)| value > last).count();
    let mut room = question.room.saturating_sub(above);
    answer.best.extend(found.iter().filter(|&&(_, value)| {
        let ties = value == last && room > 0;
        room -= usize::from(ties);
        value > last || ties
    }));
    put_in_order(&mut answer.best);
    answer.best.truncate(question.room);
}

/// Sort tokens by descending logit. The tokens must be sorted by ascending id, and ties stay in that order.
fn put_in_order(best: &mut Vec<(u32, f32)>) {
    let ranks = best.iter().map(|&(_, value)| !(key(value) as u32 ^ 1 << 31));
    let mut order: Vec<(u32, u32)> = ranks.zip(0..).collect();
    order.sort_unstable();
    *best = order.iter().map(|&(_, place)| best[place as usize]).collect();
}

/// Return the `count`-th greatest number; this reorders the numbers. Not inlined, for the same reason as `list_best`.
#[inline(never)]
fn nth_best(numbers: &mut [f32], count: usize) -> f32 {
    let place = numbers.len() - count;
    *numbers.select_nth_unstable_by_key(place, |&number| key(number)).1
}

/// Convert a number to an integer with the same order; 0 and -0 give the same integer.
fn key(number: f32) -> i32 {
    let bits = (number + 0.0).to_bits() as i32;
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(count: usize) -> Question {
        Question {
            count,
            room: 64,
            chosen: Some(3),
            wants_scale: true,
            wants_rank: true,
        }
    }

    fn numbers(length: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            f64::from(state) / f64::from(u32::MAX)
        };
        (0..length)
            .map(|_| ((next() + next() + next() - 1.5) * 12.0) as f32)
            .collect()
    }

    #[test]
    fn a_sum_is_that_of_exact_exponentials() {
        for length in [1, 5, 63, 64, 65, 1000, 5003, 50_257] {
            for scale in [0.0f32, 0.01, 1.0, 30.0] {
                let row: Vec<f32> = numbers(length, length as u32)
                    .iter()
                    .map(|one| one * scale + 7.0)
                    .collect();
                let best = row.iter().copied().fold(f32::MIN, f32::max);
                let sum: f64 = row.iter().map(|&one| f64::from(one - best).exp()).sum();
                let exact = f64::from(best) + sum.ln();
                let question = Question {
                    chosen: None,
                    ..question(0)
                };
                let found = ask(&row, question, &mut Scratch::default()).unwrap().scale;
                assert!((found - exact).abs() < 5e-6, "{length} {scale}: {found} {exact}");
                let plain = ask_plain(&row, question, &mut Scratch::default()).unwrap().scale;
                assert!((plain - exact).abs() < 5e-6, "{length} {scale}: {plain} {exact}");
            }
        }
    }

    #[test]
    fn the_best_are_those_of_a_sort() {
        for length in [4, 64, 65, 130, 5003] {
            for (count, step) in [(1, 0.0), (3, 0.5), (20, 2.0), (64, 0.25), (4, 100.0)] {
                let mut row = numbers(length, 7 + length as u32);
                if step > 0.0 {
                    row.iter_mut().for_each(|one| *one = (*one / step).round() * step);
                }
                let count = count.min(length);
                let mut order: Vec<usize> = (0..length).collect();
                order.sort_by(|&one, &other| row[other].partial_cmp(&row[one]).unwrap().then(one.cmp(&other)));
                let tied = row.iter().filter(|&&one| one >= row[order[count - 1]]).count();
                let found = ask(&row, question(count), &mut Scratch::default()).unwrap();
                let ids: Vec<usize> = found.best.iter().map(|&(id, _)| id as usize).collect();
                assert_eq!(ids, order[..tied.min(64)], "{length} {count} {step}");
                assert_eq!(found.tied, tied);
                assert_eq!(found.better, row.iter().filter(|&&one| one > row[3]).count());
            }
        }
    }

    #[test]
    fn every_half_is_the_number_that_it_means() {
        for bits in 0..=u16::MAX {
            let (sign, exponent, digits) = (bits >> 15, (bits >> 10) & 31, f32::from(bits & 1023));
            let magnitude = match exponent {
                0 => digits * 2f32.powi(-24),
                31 if bits & 1023 == 0 => f32::INFINITY,
                31 => f32::NAN,
                _ => (1024.0 + digits) * 2f32.powi(i32::from(exponent) - 25),
            };
            let expected = if sign == 1 { -magnitude } else { magnitude };
            let found = Half(bits).wide();
            assert!(found == expected || (found.is_nan() && expected.is_nan()), "{bits:x}");
        }
    }

    #[test]
    fn rows_of_halves_have_the_same_answers_when_they_are_made_wide() {
        fn compare<L: Logit>(row: &[L]) {
            let found = ask(row, question(20), &mut Scratch::default()).unwrap();
            let plain = ask_plain(&L::widen(row), question(20), &mut Scratch::default()).unwrap();
            assert!((found.scale - plain.scale).abs() < 5e-6);
            assert_eq!(
                (found.best, found.tied, found.better),
                (plain.best, plain.tied, plain.better)
            );
        }
        let bits = |seed: u16| (0..5003u16).map(move |place| place.wrapping_mul(seed) & 0xbfff);
        compare(&bits(40_503).map(Half).collect::<Vec<_>>());
        compare(&bits(30_011).map(Brain).collect::<Vec<_>>());
    }

    #[test]
    fn rows_without_numbers_have_no_answer() {
        for strange in [f32::NAN, f32::INFINITY] {
            for place in [0, 70, 129] {
                let mut row = vec![1.0; 130];
                row[place] = strange;
                assert!(ask(&row, question(2), &mut Scratch::default()).is_none());
            }
        }
        let found = ask(&[f32::NEG_INFINITY; 70], question(2), &mut Scratch::default()).unwrap();
        assert_eq!((found.scale, found.tied, found.best.len()), (0.0, 0, 0));
    }
}
