//! Masking logits where they lie: no call of the engine, but what an adapter on a CPU does with each of its masks.

use std::mem::{align_of, size_of};
use std::slice;

use crate::interface::view;

/// As many as a word of a row has bits.
const BLOCK: usize = u32::BITS as usize;

/// Write -inf over the logits of all tokens that a row does not allow, those past its end included. The answer is whether
/// one that it allows is above -inf. Logits whose memory was given back, which is what a null pointer means, are none.
///
/// # Safety
/// `logits` is null or points to `width` floats, `stride` bytes from one to the next, which nobody else uses; `row` points
/// to `words` words.
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
    // SAFETY: as the caller promises.
    let row = unsafe { view(row, words) };
    let lie_together = stride == size_of::<f32>() as isize && logits as usize % align_of::<f32>() == 0;
    let is_left = if lie_together && width > 0 {
        // SAFETY: as the caller promises, and they are aligned and lie side by side.
        mask_together(unsafe { slice::from_raw_parts_mut(logits, width) }, row)
    } else {
        // SAFETY: as the caller promises.
        unsafe { mask_apart(logits, width, stride, row) }
    };
    i32::from(is_left)
}

/// Write -inf over the logits of all tokens that rows do not allow: many rows in one call.
///
/// # Safety
/// `logits` points to `count` addresses, each of `width` aligned floats side by side, which nobody else uses and which no
/// other address covers; `rows` to `words` words for each of them, `step` words from one to the next.
#[no_mangle]
pub unsafe extern "C" fn fcn_mask_rows(
    logits: *const *mut f32,
    count: usize,
    width: usize,
    rows: *const u32,
    words: usize,
    step: usize,
) {
    // SAFETY: as the caller promises.
    for (number, logits) in unsafe { view(logits, count) }.iter().enumerate() {
        if !logits.is_null() {
            // SAFETY: as the caller promises.
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

fn mask_together(logits: &mut [f32], row: &[u32]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: this processor has what the function is compiled for.
        return unsafe { mask_wide(logits, row) };
    }
    mask(logits, row)
}

/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn mask_wide(logits: &mut [f32], row: &[u32]) -> bool {
    mask(logits, row)
}

#[inline(always)]
fn mask(logits: &mut [f32], row: &[u32]) -> bool {
    let mut is_left = false;
    for (number, block) in logits.chunks_mut(BLOCK).enumerate() {
        let bits = row.get(number).copied().unwrap_or(0);
        if bits == 0 {
            block.fill(f32::NEG_INFINITY);
        } else if bits != u32::MAX || !is_left {
            match <&mut [f32; BLOCK]>::try_from(&mut *block) {
                Ok(whole) => mask_block(whole, bits), // of a known length, for which it is compiled without a loop
                Err(_) => mask_block(block, bits),
            }
            is_left = is_left || block.iter().any(|logit| *logit > f32::NEG_INFINITY);
        }
    }
    is_left
}

#[inline(always)]
fn mask_block(block: &mut [f32], bits: u32) {
    // Without branches, which would be mispredicted where allowed and forbidden tokens alternate.
    for (bit, logit) in block.iter_mut().enumerate() {
        let is_allowed = bits & 1 << bit != 0;
        *logit = if is_allowed { *logit } else { f32::NEG_INFINITY };
    }
}

/// # Safety
/// As for `fcn_mask_logits`.
unsafe fn mask_apart(logits: *mut f32, width: usize, stride: isize, row: &[u32]) -> bool {
    let mut is_left = false;
    for start in (0..width).step_by(BLOCK) {
        let bits = row.get(start / BLOCK).copied().unwrap_or(0);
        if bits == u32::MAX && is_left {
            continue;
        }
        for bit in 0..BLOCK.min(width - start) {
            // SAFETY: the place is below `width`; wherever strides put it, it is read and written unaligned.
            unsafe {
                let place = logits.byte_offset((start + bit) as isize * stride);
                if bits & 1 << bit == 0 {
                    place.write_unaligned(f32::NEG_INFINITY);
                } else {
                    is_left = is_left || place.read_unaligned() > f32::NEG_INFINITY;
                }
            }
        }
    }
    is_left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface_tests::Random;

    /// Any width, stride and row, in memory of exactly that size: a sanitizer sees a write past it.
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
            // SAFETY: there are as many floats and words, and the first of them is where they begin.
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

    #[test]
    fn each_row_masks_its_own_logits() {
        let mut random = Random(8);
        for _ in 0..1_000 {
            let (count, width, words) = (random.below(4), random.below(100), random.below(5));
            let step = [words, 0][random.below(2)];
            let rows: Vec<u32> = (0..words * count.max(1)).map(|_| random.next() as u32).collect();
            let mut found = vec![vec![1.0f32; width]; count];
            let places: Vec<*mut f32> = found.iter_mut().map(|logits| logits.as_mut_ptr()).collect();
            // SAFETY: so many logits lie at each place, and there are as many words for each of them.
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
