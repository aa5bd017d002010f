//! Splits ranges of code points into sequences of byte ranges.

/// Byte ranges, one per byte, whose product is the UTF-8 of a run of code points.
pub type ByteSequence = Vec<(u8, u8)>;

const LAST_OF_LENGTH: [u32; 3] = [0x7f, 0x7ff, 0xffff];

/// Return the UTF-8 of the code points `low..=high`, without surrogates, as sequences of byte ranges.
///
/// A run is cut where the encoded length changes and where a continuation byte does not take all of its values, so that
/// each remaining piece is a product of ranges (the method of Ken Thompson's and Russ Cox's grep).
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
        // A piece with `low > high` is empty; the caller drops it.
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

/// A set of positions in the UTF-8 of a character: before its first byte, or before some of its continuation bytes.
#[derive(Clone, Copy)]
pub struct Places(u8);

/// Bits of `Places`: the positions before each number of continuation bytes, the first of which may be any or must be
/// in a range.
const FIRST: u8 = 1;
const CONTINUATIONS: [(u8, u8, u8, u8); 7] = [
    // Each entry: a position, the range of the byte there, and the position after the byte.
    (1 << 1, 0x80, 0xbf, FIRST),
    (1 << 2, 0x80, 0xbf, 1 << 1),
    (1 << 3, 0x80, 0xbf, 1 << 2),
    (1 << 4, 0xa0, 0xbf, 1 << 1),
    (1 << 5, 0x80, 0x9f, 1 << 1),
    (1 << 6, 0x90, 0xbf, 1 << 2),
    (1 << 7, 0x80, 0x8f, 1 << 2),
];

impl Places {
    pub const ALL: Places = Places(u8::MAX);

    pub fn has_first(self) -> bool {
        self.0 & FIRST != 0
    }

    pub fn and(self, other: Places) -> Self {
        Places(self.0 & other.0)
    }

    /// Return the positions from which `byte` leads to one of these positions.
    pub fn before(self, byte: u8) -> Self {
        let after = match byte {
            0x80..=0xbf => {
                let leads =
                    |(_, low, high, next): &&(u8, u8, u8, u8)| (*low..=*high).contains(&byte) && self.0 & next != 0;
                let places = CONTINUATIONS.iter().filter(leads).map(|(place, ..)| place);
                return Places(places.fold(0, |all, place| all | place));
            }
            0..=0x7f => FIRST,
            0xc2..=0xdf => 1 << 1,
            0xe0 => 1 << 4,
            0xed => 1 << 5,
            0xe1..=0xef => 1 << 2,
            0xf0 => 1 << 6,
            0xf4 => 1 << 7,
            0xf1..=0xf3 => 1 << 3,
            _ => 0,
        };
        Places(if self.0 & after != 0 { FIRST } else { 0 })
    }
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
    fn bytes_are_whole_characters_but_for_the_last_or_not() {
        let bytes = [
            0x61, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xe0, 0xe1, 0xed, 0xee, 0xf0, 0xf1, 0xf4, 0xf5,
        ];
        let count = bytes.len();
        for number in 0..count.pow(4) {
            let text: Vec<u8> = (0..4).map(|place| bytes[number / count.pow(place) % count]).collect();
            let places = text.iter().rev().fold(Places::ALL, |places, byte| places.before(*byte));
            let is_text = std::str::from_utf8(&text).map_or_else(|error| error.error_len().is_none(), |_| true);
            assert_eq!(places.has_first(), is_text, "{text:?}");
        }
    }

    #[test]
    fn surrogates_are_left_out() {
        assert!(sequences(0xd800, 0xdfff).is_empty());
        assert_eq!(matches(&sequences(0, 0x10_ffff), &[0xed, 0xa0, 0x80]), 0);
    }

    #[test]
    fn example_sequences_of_a_range() {
        // U+00E9 to U+00FC are the bytes C3 A9 to C3 BC.
        assert_eq!(sequences(0xe9, 0xfc), [vec![(0xc3, 0xc3), (0xa9, 0xbc)]]);
        assert_eq!(sequences(0x61, 0x7f), [vec![(0x61, 0x7f)]]);
    }
}
