//! Masks logits in place. This needs no engine: an adapter on a CPU does it with each of its masks.

/// The number of logits in a block, which equals the number of bits in a word of a row.
const BLOCK: usize = u32::BITS as usize;

/// If at most one of this many blocks contains an allowed token, copying these blocks is faster than overwriting all
/// others.
const COPIED_BLOCKS_SHARE: usize = 4;

/// Write -inf over the logits of all tokens that a row does not allow, including those past its end. Return whether an
/// allowed token has a logit above -inf.
pub fn mask_together(logits: &mut [f32], row: &[u32]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the check above shows that this processor has AVX2.
        return unsafe { mask_wide(logits, row) };
    }
    mask(logits, row)
}

/// # Safety
/// The processor must have AVX2.
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
        if bits == u32::MAX && is_left {
            continue;
        }
        match <&mut [f32; BLOCK]>::try_from(&mut *block) {
            Ok(whole) => mask_block(whole, bits), // of a known length, for which it is compiled without a loop
            Err(_) => mask_block(block, bits),
        }
        is_left = is_left || bits != 0 && block.iter().any(|logit| *logit > f32::NEG_INFINITY);
    }
    is_left
}

#[inline(always)]
fn mask_block(block: &mut [f32], bits: u32) {
    // We avoid branches, which are mispredicted if allowed and forbidden tokens alternate. We also avoid selecting
    // between two numbers: that becomes masked stores, which are five times slower on AMD processors.
    for (bit, logit) in block.iter_mut().enumerate() {
        let allowed = ((bits << (BLOCK - 1 - bit)) as i32 >> (BLOCK - 1)) as u32; // all bits or none
        *logit = f32::from_bits(logit.to_bits() & allowed | f32::NEG_INFINITY.to_bits() & !allowed);
    }
}

/// The result of masking a row of logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Masked {
    /// No token that the row allows has a logit above -inf.
    Nothing,
    /// This many logits, from the first on, were overwritten in place.
    InPlace(usize),
    /// The logits are unchanged; of this many, the allowed ones were copied.
    Copied(usize),
}

/// Mask logits as `mask_together` does, up to the block after the last block with an allowed token, but at least
/// `least` of them. If few blocks contain an allowed token, copy these into `copies` instead, where all other logits
/// are -inf; that writes little memory. The block after the last allowed token ensures that a forbidden token is
/// included, if there is one.
///
/// `copies` must be as long as `logits`, and `before` as long as `row`; `before` tells which copies may be above -inf.
/// Nothing else may write to either of them.
pub fn mask_or_copy(logits: &mut [f32], row: &[u32], least: usize, copies: &mut [f32], before: &mut [u32]) -> Masked {
    let end = row.iter().rposition(|bits| *bits != 0).map_or(0, |last| last + 1);
    let least = least.min(logits.len()).div_ceil(BLOCK);
    let width = (BLOCK * least.max(end + 1)).min(logits.len());
    if COPIED_BLOCKS_SHARE * row[..end].iter().filter(|bits| **bits != 0).count() > end {
        return if mask_together(&mut logits[..width], row) {
            Masked::InPlace(width)
        } else {
            Masked::Nothing
        };
    }
    let mut is_left = false;
    let blocks = copies[..width].chunks_mut(BLOCK).zip(logits.chunks(BLOCK));
    for ((copied, block), (bits, before)) in blocks.zip(row.iter().zip(before)) {
        if *bits != 0 {
            copied.copy_from_slice(block);
            mask_block(copied, *bits);
            is_left = is_left || copied.iter().any(|logit| *logit > f32::NEG_INFINITY);
        } else if *before != 0 {
            copied.fill(f32::NEG_INFINITY);
        }
        *before = *bits;
    }
    if is_left {
        Masked::Copied(width)
    } else {
        Masked::Nothing
    }
}

/// Mask logits as `mask_together` does; they lie `stride` bytes apart.
///
/// # Safety
/// `logits` must point to `width` floats, `stride` bytes apart, that nobody else uses.
pub unsafe fn mask_apart(logits: *mut f32, width: usize, stride: isize, row: &[u32]) -> bool {
    let mut is_left = false;
    for start in (0..width).step_by(BLOCK) {
        let bits = row.get(start / BLOCK).copied().unwrap_or(0);
        if bits == u32::MAX && is_left {
            continue;
        }
        for bit in 0..BLOCK.min(width - start) {
            // SAFETY: the index is below `width`, so the caller guarantees that the float exists. Any stride is sound,
            // because we read and write unaligned.
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
