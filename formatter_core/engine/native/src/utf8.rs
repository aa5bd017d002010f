//! Ranges of code points as sequences of byte ranges.

/// Byte ranges whose product is the UTF-8 of a run of code points.
pub type ByteSequence = Vec<(u8, u8)>;

const LAST_OF_LENGTH: [u32; 3] = [0x7f, 0x7ff, 0xffff];

/// The UTF-8 of the code points `low..=high`, surrogates left out, as sequences of byte ranges.
///
/// A run is cut where the encoded length changes and where a continuation byte does not run through all of its
/// values, so that what is left is a product of ranges (the method of Ken Thompson's and Russ Cox's grep).
pub fn sequences(low: u32, high: u32) -> Vec<ByteSequence> {
    let mut found = Vec::new();
    let mut stack = vec![(low, high.min(0x10_ffff))];
    while let Some((low, high)) = stack.pop() {
        if low > high {
            continue;
        }
        match split(low, high) {
            Some([first, second]) => {
                stack.push(second);
                stack.push(first);
            }
            None => found.push(product(low, high)),
        }
    }
    found
}

fn split(low: u32, high: u32) -> Option<[(u32, u32); 2]> {
    if low <= 0xdfff && high >= 0xd800 {
        // `low > high` stands for nothing, which the caller drops.
        return Some([(low, 0xd7ff), (0xe000, high)]);
    }
    for last in LAST_OF_LENGTH {
        if low <= last && last < high {
            return Some([(low, last), (last + 1, high)]);
        }
    }
    if high <= 0x7f {
        return None;
    }
    for continuation in 1..4 {
        let mask = (1u32 << (6 * continuation)) - 1;
        if low & !mask != high & !mask {
            if low & mask != 0 {
                return Some([(low, low | mask), ((low | mask) + 1, high)]);
            }
            if high & mask != mask {
                return Some([(low, (high & !mask) - 1), (high & !mask, high)]);
            }
        }
    }
    None
}

fn product(low: u32, high: u32) -> ByteSequence {
    let (mut first, mut last) = ([0; 4], [0; 4]);
    let code_point = |value| char::from_u32(value).unwrap_or('\u{fffd}');
    let first = code_point(low).encode_utf8(&mut first).as_bytes();
    let last = code_point(high).encode_utf8(&mut last).as_bytes();
    first.iter().copied().zip(last.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(sequences: &[ByteSequence], text: &[u8]) -> usize {
        let fits = |sequence: &&ByteSequence| {
            sequence.len() == text.len()
                && (sequence.iter().zip(text)).all(|((low, high), byte)| low <= byte && byte <= high)
        };
        sequences.iter().filter(fits).count()
    }

    #[test]
    fn every_code_point_is_matched_once_or_not_at_all() {
        for (low, high) in [(0, 0x10_ffff), (0x7f, 0x80), (0x61, 0x1_0345), (0xd000, 0xe001)] {
            let found = sequences(low, high);
            for value in 0..=0x10_ffff {
                let Some(character) = char::from_u32(value) else {
                    continue;
                };
                let mut buffer = [0; 4];
                let text = character.encode_utf8(&mut buffer).as_bytes();
                assert_eq!(matches(&found, text), usize::from(low <= value && value <= high));
            }
        }
    }

    #[test]
    fn surrogates_are_left_out() {
        assert!(sequences(0xd800, 0xdfff).is_empty());
        assert_eq!(matches(&sequences(0, 0x10_ffff), &[0xed, 0xa0, 0x80]), 0);
    }
}
