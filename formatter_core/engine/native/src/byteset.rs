//! A set of byte values.

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
        for byte in low..=high {
            self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    }

    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
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

    /// The members, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=255u8).filter(move |byte| self.contains(*byte))
    }

    /// The maximal runs of members, ascending, both ends included.
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
