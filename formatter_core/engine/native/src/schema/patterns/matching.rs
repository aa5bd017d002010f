//! Which texts patterns match.

use super::{Pattern, Tree};

/// With more patterns, there are more classes of names than one object may have.
const MOST_PATTERNS: usize = 63;
/// The most steps to match the names of an object with its patterns.
pub const MOST_STEPS: usize = 1 << 18;

impl<'a> Pattern<'a> {
    /// The patterns, if no text matches two of them; None too if that is not obvious.
    pub fn all_apart(patterns: &[&'a str]) -> Option<Vec<Self>> {
        (patterns.len() <= MOST_PATTERNS).then_some(())?;
        let patterns: Vec<Pattern> = patterns.iter().copied().map(Pattern::read).collect::<Option<_>>()?;
        for (place, one) in patterns.iter().enumerate() {
            let one = one.beginning();
            let mut others = patterns[..place].iter().map(Pattern::beginning);
            (!others.any(|other| one.starts_with(other) || other.starts_with(one))).then_some(())?;
        }
        Some(patterns)
    }

    /// The place of the first pattern that a text matches, None within if there is none; None if it takes too much.
    pub fn first_match(patterns: &[Self], text: &str, steps: &mut usize) -> Option<Option<usize>> {
        let text: Vec<char> = text.chars().collect();
        for (place, pattern) in patterns.iter().enumerate() {
            if pattern.matches(&text, steps)? {
                return Some(Some(place));
            }
        }
        Some(None)
    }

    /// Whether it certainly matches a text.
    pub fn is_in(&self, text: &str) -> bool {
        Self::first_match(std::slice::from_ref(self), text, &mut MOST_STEPS.clone()) == Some(Some(0))
    }

    /// Whether it certainly matches more texts than one object may name.
    pub fn is_endless(&self) -> bool {
        self.lengths(self.whole).1 == u32::MAX
    }

    /// What every text that it matches obviously begins with.
    fn beginning(&self) -> &[u8] {
        let mut node = self.whole;
        while let Tree::Sequence(span) = node {
            let Some(first) = self.items(span).first() else {
                break;
            };
            node = *first;
        }
        match node {
            Tree::Text(span) => self.text(span),
            _ => &[],
        }
    }

    /// None if it takes more than these steps.
    fn matches(&self, text: &[char], steps: &mut usize) -> Option<bool> {
        let mut places = vec![false; text.len() + 1];
        places[0] = true;
        Some(self.after(self.whole, text, places, steps)?.pop() == Some(true))
    }

    /// Behind which characters a node may end, given where it may begin.
    fn after(&self, node: Tree, text: &[char], mut places: Vec<bool>, steps: &mut usize) -> Option<Vec<bool>> {
        *steps = steps.checked_sub(places.len())?;
        match node {
            Tree::Sequence(span) => {
                for item in self.items(span) {
                    places = self.after(*item, text, places, steps)?;
                }
                return Some(places);
            }
            Tree::Repeat(item, minimum, maximum, _) => {
                let item = self.items((item, item + 1))[0];
                let mut found = vec![false; places.len()];
                let mut count = 0;
                loop {
                    if count >= minimum {
                        add(&mut found, &places);
                    }
                    if count + 1 == maximum {
                        return Some(found);
                    }
                    let next = self.after(item, text, places.clone(), steps)?;
                    // From here on nothing changes: there are no places any more, or the item may be empty.
                    if next == places {
                        add(&mut found, &places);
                        return Some(found);
                    }
                    (places, count) = (next, count + 1);
                }
            }
            _ => {}
        }
        let mut found = vec![false; places.len()];
        match node {
            Tree::Text(span) => {
                let wanted: Vec<char> = String::from_utf8_lossy(self.text(span)).chars().collect();
                for (place, _) in places.iter().enumerate().filter(|(_, begins)| **begins) {
                    if text[place..].starts_with(&wanted) {
                        found[place + wanted.len()] = true;
                    }
                }
            }
            Tree::Chars(span) => {
                let is_one = |char: char| {
                    self.ranges(span)
                        .iter()
                        .any(|(low, high)| (*low..=*high).contains(&char.into()))
                };
                for (place, char) in text.iter().enumerate() {
                    found[place + 1] = places[place] && is_one(*char);
                }
            }
            Tree::Choice(span) => {
                for item in self.items(span) {
                    add(&mut found, &self.after(*item, text, places.clone(), steps)?);
                }
            }
            _ => return None,
        }
        Some(found)
    }
}

fn add(places: &mut [bool], others: &[bool]) {
    for (place, other) in places.iter_mut().zip(others) {
        *place |= other;
    }
}
