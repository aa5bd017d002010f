//! Ranges of a shared list that has the parts of many objects.

/// The range of one object's parts within a list of the parts of all objects.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    first: u32,
    end: u32,
}

impl Span {
    pub const EMPTY: Span = Span { first: 0, end: 0 };

    /// Return the range from `first` to the end of `all`.
    pub fn from<T>(first: usize, all: &[T]) -> Self {
        Span {
            first: first as u32,
            end: all.len() as u32,
        }
    }

    pub fn len(self) -> u32 {
        self.end - self.first
    }

    #[inline]
    pub fn of<T>(self, all: &[T]) -> &[T] {
        &all[self.first as usize..self.end as usize]
    }

    /// Remove the first part and return it.
    #[inline]
    pub fn pop_first(&mut self, all: &[u32]) -> Option<u32> {
        let first = *self.of(all).first()?;
        self.first += 1;
        Some(first)
    }

    /// Remove the last part and return it.
    #[inline]
    pub fn pop_last(&mut self, all: &[u32]) -> Option<u32> {
        let last = *self.of(all).last()?;
        self.end -= 1;
        Some(last)
    }

    /// Return the range, shifted by `count` places towards the end of the list.
    #[inline]
    pub fn moved(self, count: u32) -> Self {
        Span {
            first: self.first + count,
            end: self.end + count,
        }
    }

    /// Keep only the wanted parts, and move them to the front of the range.
    pub fn retain(&mut self, all: &mut [u32], is_wanted: impl Fn(u32) -> bool) {
        let mut end = self.first;
        for place in self.first..self.end {
            if is_wanted(all[place as usize]) {
                all[end as usize] = all[place as usize];
                end += 1;
            }
        }
        self.end = end;
    }
}
