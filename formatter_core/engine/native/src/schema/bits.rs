//! Sets of small numbers: the conditions that members of a list meet.

/// A set of bits, as words without trailing zero words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bits(Vec<u64>);

const WORD: usize = u64::BITS as usize;

impl Bits {
    /// Return the heap memory in bytes, see `heap`.
    pub fn heap(&self) -> usize {
        crate::base::heap::list(&self.0)
    }

    pub fn of(places: impl IntoIterator<Item = usize>) -> Self {
        let mut bits = Bits::default();
        places.into_iter().for_each(|place| bits.set(place));
        bits
    }

    pub fn set(&mut self, place: usize) {
        if self.0.len() <= place / WORD {
            self.0.resize(place / WORD + 1, 0);
        }
        self.0[place / WORD] |= 1 << (place % WORD);
    }

    pub fn has(&self, place: usize) -> bool {
        let word = self.0.get(place / WORD);
        word.is_some_and(|word| word >> (place % WORD) & 1 == 1)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, other: &Bits) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    pub fn with(&self, other: &Bits) -> Bits {
        let mut both = self.clone();
        both.add(other);
        both
    }

    /// Return whether all three sets have a bit in common.
    pub fn meet(&self, other: &Bits, third: &Bits) -> bool {
        let mut words = self.0.iter().zip(&other.0).zip(&third.0);
        words.any(|((one, other), third)| one & other & third != 0)
    }

    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() * WORD).filter(|place| self.has(*place))
    }
}
