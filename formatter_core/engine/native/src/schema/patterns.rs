//! Patterns of schemas: which texts they match, as far as that needs no algebra.

use crate::regex::{matches_something, read, Dialect, Kind, Limits, Node, Repeat};

/// Patterns of more nodes are left to others.
const MOST_NODES: u64 = 4096;
/// With more patterns, there are more classes of names than one object may have.
const MOST_PATTERNS: usize = 63;
/// The most steps to match the names of an object with its patterns.
pub const MOST_STEPS: usize = 1 << 18;

/// A pattern, as the texts in which it is found.
pub struct Pattern {
    pub whole: Node,
}

impl Pattern {
    /// None if that is left to others: if it is invalid, or large.
    pub fn read(pattern: &str) -> Option<Self> {
        let pattern: Vec<u32> = pattern.chars().map(u32::from).collect();
        let whole = read(&pattern, Dialect::Ecma, &Limits::default()).ok()?;
        (whole.size() <= MOST_NODES).then_some(Pattern { whole })
    }

    /// The patterns, if no text matches two of them; None too if that is not obvious.
    pub fn all_apart(patterns: &[&str]) -> Option<Vec<Self>> {
        (patterns.len() <= MOST_PATTERNS).then_some(())?;
        let patterns: Vec<Pattern> = patterns.iter().copied().map(Pattern::read).collect::<Option<_>>()?;
        patterns.iter().all(|pattern| pattern.whole.is_plain()).then_some(())?;
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
        lengths(&self.whole).1 == u32::MAX
    }

    /// Whether it certainly matches a text of at least and at most so many characters.
    pub fn has_text(&self, minimum: u32, maximum: Option<u32>) -> bool {
        let most = maximum.unwrap_or(u32::MAX);
        if self.whole.is_plain() {
            let (least, greatest, all) = lengths(&self.whole);
            let is_some = |length| (minimum..=most).contains(&length);
            if is_some(least) || is_some(greatest) || all && least <= most && greatest >= minimum {
                return true;
            }
        }
        let any = Node::repeat(Node::any_char(), minimum, maximum, true);
        matches_something(&Node::intersection(vec![self.whole.clone(), any])).0 == Some(true)
    }

    /// What every text that it matches obviously begins with.
    fn beginning(&self) -> &str {
        let mut node = &self.whole;
        loop {
            match node.kind() {
                Kind::Sequence(items) if !items.is_empty() => node = &items[0],
                Kind::Text(text) => return text,
                _ => return "",
            }
        }
    }

    /// None if it takes more than these steps.
    fn matches(&self, text: &[char], steps: &mut usize) -> Option<bool> {
        let mut places = vec![false; text.len() + 1];
        places[0] = true;
        Some(after(&self.whole, text, places, steps)?.pop() == Some(true))
    }
}

/// The least and the greatest length in characters, and whether every length between them comes for certain.
#[inline(never)]
fn lengths(node: &Node) -> (u32, u32, bool) {
    match node.kind() {
        Kind::Text(text) => {
            let length = text.chars().count() as u32;
            (length, length, true)
        }
        Kind::Sequence(items) => {
            let mut all = (0, 0, true);
            for item in items.iter().map(lengths) {
                all.0 = item.0.saturating_add(all.0);
                all.1 = item.1.saturating_add(all.1);
                all.2 &= item.2;
            }
            all
        }
        Kind::Choice(items) => {
            let mut all = (u32::MAX, 0, true);
            for item in items.iter().map(lengths) {
                all.2 &= item.2 && (item.0 == all.0 || all.0 == u32::MAX);
                all.0 = item.0.min(all.0);
                all.1 = item.1.max(all.1);
            }
            all
        }
        Kind::Repeat(Repeat {
            item, minimum, maximum, ..
        }) => {
            let (least, most, all) = lengths(item);
            (
                least.saturating_mul(*minimum),
                most.saturating_mul(maximum.unwrap_or(u32::MAX)),
                all && (least <= 1 || Some(*minimum) == *maximum),
            )
        }
        _ => (1, 1, true),
    }
}

/// Behind which characters a node may end, given where it may begin.
fn after(node: &Node, text: &[char], mut places: Vec<bool>, steps: &mut usize) -> Option<Vec<bool>> {
    *steps = steps.checked_sub(places.len())?;
    let mut found = vec![false; places.len()];
    match node.kind() {
        Kind::Sequence(items) => {
            for item in items.iter() {
                places = after(item, text, places, steps)?;
            }
            return Some(places);
        }
        Kind::Repeat(Repeat {
            item, minimum, maximum, ..
        }) => {
            let mut count = 0;
            loop {
                if count >= *minimum {
                    add(&mut found, &places);
                }
                if Some(count) == *maximum {
                    return Some(found);
                }
                let next = after(item, text, places.clone(), steps)?;
                // From here on nothing changes: there are no places any more, or the item may be empty.
                if next == places {
                    add(&mut found, &places);
                    return Some(found);
                }
                (places, count) = (next, count + 1);
            }
        }
        Kind::Text(wanted) => {
            let wanted: Vec<char> = wanted.chars().collect();
            for (place, _) in places.iter().enumerate().filter(|(_, begins)| **begins) {
                if text[place..].starts_with(&wanted) {
                    found[place + wanted.len()] = true;
                }
            }
        }
        Kind::Chars(ranges) => {
            let is_one = |char: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&char.into()));
            for (place, char) in text.iter().enumerate() {
                found[place + 1] = places[place] && is_one(*char);
            }
        }
        Kind::Choice(items) => {
            for item in items.iter() {
                add(&mut found, &after(item, text, places.clone(), steps)?);
            }
        }
        _ => return None,
    }
    Some(found)
}

fn add(places: &mut [bool], others: &[bool]) {
    for (place, other) in places.iter_mut().zip(others) {
        *place |= other;
    }
}
