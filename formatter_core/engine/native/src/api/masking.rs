//! Masking logits where they lie: no call of the engine, but what an adapter on a CPU does with each of its masks.

/// As many as a word of a row has bits.
const BLOCK: usize = u32::BITS as usize;

/// Where at most one of so many blocks holds an allowed token, copying those takes less time than overwriting all others.
const FEW: usize = 4;

/// Write -inf over the logits of all tokens that a row does not allow, those past its end included; whether one that it
/// allows is above -inf.
pub fn mask_together(logits: &mut [f32], row: &[u32]) -> bool {
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
    // Without branches, which would be mispredicted where allowed and forbidden tokens alternate; and not as a choice
    // between two numbers, which becomes masked stores, on AMD's processors five times slower.
    for (bit, logit) in block.iter_mut().enumerate() {
        let allowed = ((bits << (BLOCK - 1 - bit)) as i32 >> (BLOCK - 1)) as u32; // all bits or none
        *logit = f32::from_bits(logit.to_bits() & allowed | f32::NEG_INFINITY.to_bits() & !allowed);
    }
}

/// What became of a row of logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Masked {
    /// No token that the row allows is above -inf.
    Nothing,
    /// So many of them, from the first on, were overwritten.
    InPlace(usize),
    /// They are as they were; of so many, those that are allowed were copied.
    Copied(usize),
}

/// `mask_together` up to the block behind the last one that holds an allowed token, but for at least so many logits; and
/// where few blocks hold any, these are copied into `copies`, logits that are -inf otherwise, which writes a few lines of
/// memory. Behind the last allowed token one that is not allowed is left, if there is any.
///
/// `copies` are as many as the logits, and `before` says which of them may be above -inf; it is as long as the row.
/// Nothing else writes to either.
pub fn mask_or_copy(logits: &mut [f32], row: &[u32], least: usize, copies: &mut [f32], before: &mut [u32]) -> Masked {
    let end = row.iter().rposition(|bits| *bits != 0).map_or(0, |last| last + 1);
    let least = least.min(logits.len()).div_ceil(BLOCK);
    let width = (BLOCK * least.max(end + 1)).min(logits.len());
    if FEW * row[..end].iter().filter(|bits| **bits != 0).count() > end {
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

/// `mask_together` for logits that lie `stride` bytes from one to the next.
///
/// # Safety
/// `logits` points to `width` floats there, which nobody else uses.
pub unsafe fn mask_apart(logits: *mut f32, width: usize, stride: isize, row: &[u32]) -> bool {
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
