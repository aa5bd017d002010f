//! Sets of byte values: an exact 256-bit set, and a coarser 128-bit set of byte kinds.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    pub fn single(byte: u8) -> Self {
        Self::range(byte, byte)
    }

    pub fn range(low: u8, high: u8) -> Self {
        let mut set = ByteSet::default();
        set.insert_range(low, high);
        set
    }

    pub fn insert_range(&mut self, low: u8, high: u8) {
        for (index, word) in (0..).zip(&mut self.0) {
            let (first, last) = (u32::from(low).max(64 * index), u32::from(high).min(64 * index + 63));
            if first <= last {
                *word |= (u64::MAX >> (63 - (last - first))) << (first - 64 * index);
            }
        }
    }

    pub fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    pub fn remove(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] &= !(1 << (byte & 63));
    }

    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    pub fn union(mut self, other: &ByteSet) -> ByteSet {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        self
    }

    pub fn intersection(mut self, other: &ByteSet) -> ByteSet {
        for (word, filter) in self.0.iter_mut().zip(other.0) {
            *word &= filter;
        }
        self
    }

    /// Return the members in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut words = self.0;
        std::iter::from_fn(move || {
            let index = words.iter().position(|word| *word != 0)?;
            let bit = words[index].trailing_zeros();
            words[index] &= words[index] - 1;
            Some((index as u32 * 64 + bit) as u8)
        })
    }

    /// Return the maximal runs of members in ascending order; both bounds are inclusive.
    pub fn ranges(self) -> Vec<(u8, u8)> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in self.iter() {
            match ranges.last_mut() {
                Some(last) if last.1.checked_add(1) == Some(byte) => last.1 = byte,
                _ => ranges.push((byte, byte)),
            }
        }
        ranges
    }
}

/// Return whether a byte is the first of its kind; the kind includes all bytes up to the next such byte. Each ASCII
/// byte is a kind of its own, except for control characters. Bytes beyond ASCII have the same kind if UTF-8 treats them
/// alike.
const fn begins_kind(byte: u8) -> bool {
    matches!(
        byte,
        0x00 | 0x09 | 0x0a | 0x0b | 0x0d | 0x0e | 0x20..=0x80 | 0x90 | 0xa0 | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xe2 | 0xed
            | 0xee | 0xf0 | 0xf1 | 0xf4 | 0xf5 | 0xff
    )
}

const KIND_OF: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 1;
    while byte < 256 {
        kinds[byte] = kinds[byte - 1] + begins_kind(byte as u8) as u8;
        byte += 1;
    }
    kinds
};

/// A set of byte kinds, one bit per kind. A set of bytes is represented by the kinds that occur in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds(u128);

/// `BEYOND_ASCII` has a bit for each kind of byte beyond ASCII. `LOOSE` is a flag: bytes beyond ASCII need not form
/// whole characters.
const BEYOND_ASCII: u128 = LOOSE - (1 << KIND_OF[0x80]);
const LOOSE: u128 = 2 << KIND_OF[0xff];

impl Kinds {
    pub const ALL: Kinds = Kinds(u128::MAX);

    pub fn of(byte: u8) -> Self {
        Kinds(1 << KIND_OF[usize::from(byte)])
    }

    /// Return the kinds whose bytes are all in `set`.
    pub fn within(set: &ByteSet) -> Self {
        let outside = ByteSet(set.0.map(|word| !word));
        if outside.len() < set.len() {
            return Kinds(
                !outside
                    .iter()
                    .fold(0, |kinds, byte| kinds | 1 << KIND_OF[usize::from(byte)]),
            );
        }
        // The bytes of a kind are contiguous: `set` includes a kind if a run of members reaches from its first to its
        // last byte.
        let (mut kinds, mut next) = (LOOSE, None);
        for byte in set.iter() {
            let kind = KIND_OF[usize::from(byte)];
            if !begins_kind(byte) && next != Some(byte) {
                continue;
            }
            next = byte.checked_add(1);
            if next.map_or(true, |after| KIND_OF[usize::from(after)] != kind) {
                kinds |= 1 << kind;
            }
        }
        Kinds(kinds)
    }

    pub fn union(self, other: Kinds) -> Self {
        Kinds(self.0 | other.0)
    }

    pub fn intersection(self, other: Kinds) -> Self {
        Kinds(self.0 & other.0)
    }

    /// Return these kinds with the `LOOSE` flag: the bytes need not form whole characters.
    pub fn loose(self) -> Self {
        Kinds(self.0 | LOOSE)
    }

    /// Return these kinds and all kinds beyond ASCII, without the `LOOSE` flag: bytes beyond ASCII form whole
    /// characters.
    #[inline]
    pub fn with_characters(self) -> Self {
        Kinds((self.0 | BEYOND_ASCII) & !LOOSE)
    }

    #[inline]
    pub fn is_within(self, other: Kinds) -> bool {
        self.0 & !other.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bytes_and_their_kinds_are_exact() {
        for low in 0..=255 {
            for high in low..=255 {
                let (mut one_by_one, range) = (ByteSet::default(), ByteSet::range(low, high));
                (low..=high).for_each(|byte| one_by_one.insert(byte));
                assert_eq!(range, one_by_one);
                let is_outside =
                    |kind: &u8| (0..=255).any(|byte| Kinds::of(byte).0 == 1 << kind && !range.contains(byte));
                let kinds = 0..=KIND_OF[0xff];
                let outside = kinds.filter(is_outside).fold(0, |kinds, kind| kinds | 1 << kind);
                assert_eq!(Kinds::within(&range).0 & (LOOSE - 1), !outside & (LOOSE - 1));
            }
        }
    }

    #[test]
    fn kinds_are_never_more_than_the_set() {
        let mut set = ByteSet::range(b'a', b'z');
        let kinds = Kinds::within(&set);
        assert!(Kinds::of(b'b').union(Kinds::of(b'q')).is_within(kinds));
        assert!(
            !Kinds::of(b'A').is_within(kinds) && !Kinds::of(0).is_within(kinds) && !Kinds::of(255).is_within(kinds)
        );
        set = ByteSet::range(0x80, 0xbe);
        assert!(Kinds::of(0x90).is_within(Kinds::within(&set)) && !Kinds::of(0xa0).is_within(Kinds::within(&set)));
        assert_eq!(set.ranges(), [(0x80, 0xbe)]);
    }

    #[test]
    fn example_byte_set() {
        let letters = ByteSet::range(b'a', b'z').union(&ByteSet::single(b'_'));
        assert!(letters.contains(b'q') && !letters.contains(b'Q'));
        assert_eq!(letters.len(), 27);
        assert_eq!(letters.ranges(), [(b'_', b'_'), (b'a', b'z')]);
    }
}
