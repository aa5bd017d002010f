//! Bounds the distance to the end of a value if some values are excluded. From each state inside a value, texts up to a
//! certain length spell more values than are excluded, so one of them is left.

use crate::base::byteset::ByteSet;
use crate::base::hash::FastMap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::{MAX_SLACK_LENGTH, MAX_SLACK_STATES};
use crate::budgets::nearest::Nearest;
use crate::regular::term::Term;
use crate::tokens::lexicon::Lexicon;
use crate::tokens::spelling::{add, NEVER};

/// Number of powers of two for which bounds are kept.
const POWERS: usize = 18;
/// Maximum number of excluded values.
pub const EXCLUDED_VALUES_BOUNDED: usize = 1 << (POWERS - 1);

/// The bounds, by the power of two of the number of excluded values.
#[derive(Clone, Copy)]
pub struct Slack([u32; POWERS]);

impl Slack {
    pub const NONE: Self = Slack([0; POWERS]);
    pub const NEVER: Self = Slack([NEVER; POWERS]);

    /// Return the maximum number of bytes missing to the end of a value, if this many values are excluded.
    pub fn beyond(&self, values: u32) -> u32 {
        let power = (u32::BITS - values.saturating_sub(1).leading_zeros()) as usize;
        self.0.get(power).copied().unwrap_or(NEVER)
    }

    /// Return bounds that hold for both.
    pub fn most(&self, other: &Self) -> Self {
        Slack(std::array::from_fn(|power| self.0[power].max(other.0[power])))
    }
}

/// A state of a term, while texts from it are counted.
#[derive(Default)]
struct Place {
    /// The states that it leads to, each with the number of bytes of each alphabet.
    moves: Vec<(usize, [u64; 2])>,
    /// The distance to the end after a quote that closes the value.
    end: Option<u32>,
    is_end: bool,
}

impl Slack {
    /// Compute the bounds of a term. With `is_shared`, the bound for a number of values is `NEVER` unless the term has
    /// more values than that.
    pub fn of(
        term: Term,
        is_shared: bool,
        nearest: &mut Nearest,
        lexicon: &Lexicon,
        meter: &mut Meter,
    ) -> Outcome<Self> {
        let Some(places) = places(term, nearest, lexicon, meter)? else {
            return Ok(Slack::NEVER);
        };
        let mut bounds = vec![[NEVER; POWERS]; places.len()];
        for alphabet in 0..2 {
            count(&places, alphabet, &mut bounds, meter)?;
        }
        // A text that can be written after further bytes can also be written from here.
        let mut has_changed = true;
        while has_changed {
            has_changed = false;
            for index in (0..places.len()).rev() {
                meter.work(places[index].moves.len() + 1)?;
                for (target, _) in &places[index].moves {
                    let beyond = bounds[*target];
                    for (bound, beyond) in bounds[index].iter_mut().zip(beyond) {
                        has_changed |= add(1, beyond) < *bound;
                        *bound = add(1, beyond).min(*bound);
                    }
                }
            }
        }
        let longest = longest(&places);
        let mut slack = if is_shared { Slack(bounds[0]) } else { Slack::NONE };
        for (bounds, longest) in bounds.iter().zip(&longest) {
            slack = slack.most(&Slack(bounds.map(|bound| bound.min(*longest))));
        }
        Ok(slack)
    }
}

/// Return alphabets in which no two texts spell the same value, whatever came before them: they have no escapes, no
/// zeros at the end of a number, and no digits that differ only in case.
fn alphabets() -> [ByteSet; 2] {
    let mut cases = [ByteSet::default(); 2];
    for (set, other_case) in cases.iter_mut().zip([b'A'..=b'F', b'a'..=b'f']) {
        let bytes = (0..=255).filter(|byte| !matches!(byte, b'\\' | b'0') && !other_case.contains(byte));
        bytes.for_each(|byte| set.insert(byte));
    }
    cases
}

/// The kind of text written last.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Under {
    Text,
    /// A backslash: a quote after it does not close the string.
    Escape,
    Number,
}

impl Under {
    fn after(self, byte: u8, is_first: bool) -> Self {
        match self {
            Under::Number => Under::Number,
            Under::Text if is_first && matches!(byte, b'-' | b'0'..=b'9') => Under::Number,
            Under::Text if byte == b'\\' => Under::Escape,
            _ => Under::Text,
        }
    }
}

/// Return the states that a term leads to within a value, with the term first; None if they are too many.
fn places(term: Term, nearest: &mut Nearest, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<Option<Vec<Place>>> {
    let alphabets = alphabets();
    let mut states = vec![(term, Under::Text)];
    let mut numbers = FastMap::from_iter([((term, Under::Text), 0)]);
    let mut places: Vec<Place> = Vec::new();
    let (mut is_string, mut comes_again) = (false, false);
    while let Some(&(state, under)) = states.get(places.len()) {
        if states.len() > MAX_SLACK_STATES {
            return Ok(None);
        }
        let is_first = places.is_empty();
        let mut place = Place {
            is_end: lexicon.derivatives()?.terms.nullable(state),
            ..Place::default()
        };
        for (low, high, step) in lexicon.row(state, meter)?.live() {
            let mut sets = [Under::Text, Under::Escape, Under::Number].map(|next| (next, ByteSet::default()));
            for byte in low..=high {
                let closes = byte == b'"' && under == Under::Text;
                let says_nothing = byte == b'0' && under == Under::Number && step.state == state;
                if closes && !is_first {
                    place.end = Some(add(1, nearest.distance(step.state, lexicon, meter)?));
                } else if !says_nothing {
                    is_string |= closes;
                    sets[under.after(byte, is_first) as usize].1.insert(byte);
                }
            }
            for (next, bytes) in sets.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
                let number = *numbers.entry((step.state, next)).or_insert(states.len());
                if number == states.len() {
                    states.push((step.state, next));
                }
                comes_again |= number == 0;
                let counted = |alphabet: &ByteSet| bytes.intersection(alphabet).len() as u64;
                place
                    .moves
                    .push((number, [counted(&alphabets[0]), counted(&alphabets[1])]));
            }
        }
        meter.work(place.moves.len() + 1)?;
        places.push(place);
    }
    Ok((!(is_string && comes_again)).then_some(places))
}

/// Count the texts from each place, length by length, and store the least length for which there are more texts than
/// each power of two.
fn count(places: &[Place], alphabet: usize, bounds: &mut [[u32; POWERS]], meter: &mut Meter) -> Outcome<()> {
    const ENOUGH: u64 = 1 << POWERS;
    let mut exact = vec![0; places.len()];
    let mut totals = vec![0u64; places.len()];
    for length in 0..MAX_SLACK_LENGTH {
        meter.work(places.len())?;
        let mut next = Vec::with_capacity(places.len());
        let mut is_done = true;
        for place in places {
            let moved = place
                .moves
                .iter()
                .map(|(target, bytes)| exact[*target] * bytes[alphabet]);
            let ended = u64::from(place.end == Some(length));
            let own = if length == 0 {
                u64::from(place.is_end)
            } else {
                moved.sum::<u64>()
            };
            next.push((own + ended).min(ENOUGH));
        }
        for ((total, more), bounds) in totals.iter_mut().zip(&next).zip(bounds.iter_mut()) {
            *total = (*total + more).min(ENOUGH);
            is_done &= *total == ENOUGH;
            for (power, bound) in bounds.iter_mut().enumerate() {
                if *total > 1 << power {
                    *bound = length.min(*bound);
                }
            }
        }
        exact = next;
        if is_done {
            break;
        }
    }
    Ok(())
}

/// Return for each place the length of the longest way to the end of a value; `NEVER` if there is no limit.
fn longest(places: &[Place]) -> Vec<u32> {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); places.len()];
    let mut missing: Vec<usize> = places.iter().map(|place| place.moves.len()).collect();
    for (number, place) in places.iter().enumerate() {
        place.moves.iter().for_each(|(target, _)| before[*target].push(number));
    }
    let mut longest = vec![NEVER; places.len()];
    let mut ready: Vec<usize> = (0..places.len()).filter(|number| missing[*number] == 0).collect();
    while let Some(number) = ready.pop() {
        let place = &places[number];
        let further = place.moves.iter().map(|(target, _)| add(1, longest[*target]));
        longest[number] = further.chain(place.end).max().unwrap_or(0);
        for user in &before[number] {
            missing[*user] -= 1;
            if missing[*user] == 0 {
                ready.push(*user);
            }
        }
    }
    longest
}
