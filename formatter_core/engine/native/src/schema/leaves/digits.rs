//! Plain decimal spellings of the numbers in an interval, as regular nodes.
//!
//! The decimals up to a bound are those with fewer digits, and those of equal length that are smaller at the first
//! different digit. So there are as many alternatives as the bound has digits. Nothing is rounded.

use std::sync::{Mutex, OnceLock};

use super::decimal::Decimal;
use crate::base::hash::FastMap;
use crate::base::tuning::MAX_KEPT_DIGITS;
use crate::regular::regex::Node;

/// The maximum number of digits before the point and after it; None means any number of digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Digits {
    pub before: Option<usize>,
    pub after: Option<usize>,
}

pub const ANY_DIGITS: Digits = Digits {
    before: None,
    after: None,
};

/// Nodes that occur in many others, where their program is written once.
struct Parts {
    digit: Node,
    nonzero: Node,
    zero: Node,
    digits: Node,
    minus: Node,
    fractions: Mutex<FastMap<Option<usize>, Node>>,
    wholes: Mutex<FastMap<Option<usize>, Node>>,
}

fn parts() -> &'static Parts {
    static PARTS: OnceLock<Parts> = OnceLock::new();
    PARTS.get_or_init(|| {
        let digit = Node::chars([(0x30, 0x39)].into());
        Parts {
            nonzero: Node::chars([(0x31, 0x39)].into()),
            zero: Node::text("0"),
            digits: Node::repeat(digit.clone(), 0, None, true),
            digit,
            minus: Node::text("-"),
            fractions: Mutex::default(),
            wholes: Mutex::default(),
        }
    })
}

/// Return the cached node for a number of digits; make it on first use.
fn kept(known: &Mutex<FastMap<Option<usize>, Node>>, most: Option<usize>, make: impl FnOnce() -> Node) -> Node {
    let Ok(mut known) = known.lock() else {
        return make();
    };
    if known.len() >= MAX_KEPT_DIGITS {
        known.clear();
    }
    known.entry(most).or_insert_with(make).clone()
}

/// Make a node optional.
pub fn optional(node: Node) -> Node {
    repeat(node, 0, Some(1))
}

/// The largest count of a repeat in a program; a larger count is refused when it is written.
const LARGEST_COUNT: usize = u32::MAX as usize - 1;

pub fn repeat(node: Node, minimum: usize, maximum: Option<usize>) -> Node {
    let count = |count: usize| count.min(LARGEST_COUNT) as u32;
    Node::repeat(node, count(minimum), maximum.map(count), true)
}

impl Digits {
    /// Make a point followed by digits.
    pub fn fraction(self) -> Node {
        kept(&parts().fractions, self.after, || {
            Node::sequence(vec![Node::text("."), repeat(parts().digit.clone(), 1, self.after)])
        })
    }

    /// Make the digits that may come after the first `count` digits behind the point.
    fn further(self, count: usize) -> Node {
        match self.after {
            None => parts().digits.clone(),
            Some(after) => repeat(parts().digit.clone(), 0, Some(after.saturating_sub(count))),
        }
    }

    /// Make the zeros that may come after the first `count` digits behind the point.
    pub fn zeros(self, count: usize, least: usize) -> Node {
        repeat(
            parts().zero.clone(),
            least,
            self.after.map(|after| after.saturating_sub(count)),
        )
    }

    /// Make the digits that may come after the first `count` digits behind the point, with at least one that is not
    /// zero.
    fn positive(self, count: usize) -> Node {
        let parts = parts();
        let Some(after) = self.after else {
            let zeros = repeat(parts.zero.clone(), 0, None);
            return Node::sequence(vec![zeros, parts.nonzero.clone(), parts.digits.clone()]);
        };
        let mut options: Vec<Node> = (count..after)
            .map(|zeros| after_zeros(zeros - count, after - zeros - 1))
            .collect();
        match options.len() {
            0 => Node::no_text(),
            1 => options.remove(0),
            _ => Node::choice(options),
        }
    }
}

/// Make `zeros` zeros, a digit that is not zero, and at most `further` more digits.
fn after_zeros(zeros: usize, further: usize) -> Node {
    let nonzero = parts().nonzero.clone();
    if zeros == 0 && further == 0 {
        return nonzero;
    }
    let mut items = Vec::new();
    if zeros > 0 {
        items.push(Node::text("0".repeat(zeros)));
    }
    items.push(nonzero);
    if further > 0 {
        items.push(repeat(parts().digit.clone(), 0, Some(further)));
    }
    Node::sequence(items)
}

/// Make the integers from `minimum` to `maximum`, both included, without leading zeros and without "-0".
///
/// If a bound is missing, `digits` limits the number of digits; a bound must not have more.
pub fn integers(minimum: Option<&Decimal>, maximum: Option<&Decimal>, digits: Digits) -> Node {
    let low = minimum.map(Decimal::ceiling);
    let high = maximum.map(|maximum| maximum.floor(0));
    let mut found = Vec::new();
    if high.as_ref().map_or(true, |high| !high.is_negative()) {
        let least = low.clone().filter(|low| !low.is_negative()).unwrap_or_default();
        found.push(whole(&least, high.as_ref(), digits));
    }
    if low.as_ref().map_or(true, Decimal::is_negative) {
        let least = high.map_or(Decimal::from(1), |high| high.negated().max(Decimal::from(1)));
        let most = low.map(|low| low.negated());
        found.push(Node::sequence(vec![
            parts().minus.clone(),
            whole(&least, most.as_ref(), digits),
        ]));
    }
    Node::choice(found)
}

/// A bound of an interval; it is excluded if it is `strict`.
#[derive(Clone)]
pub struct Bound {
    pub value: Decimal,
    pub strict: bool,
}

impl Bound {
    fn at_zero(strict: bool) -> Bound {
        let value = Decimal::default();
        Bound { value, strict }
    }

    /// Return the bound with the opposite sign.
    fn negated(&self) -> Bound {
        Bound {
            value: self.value.negated(),
            strict: self.strict,
        }
    }

    fn whole(&self) -> Decimal {
        self.value.absolute().floor(0)
    }
}

/// Make the decimals of the interval, with or without a fraction; never in exponent notation, never "-0" or "-0.0".
///
/// The decimals have at most as many digits as `digits` says; the bounds must not have more.
pub fn numbers(low: Option<&Bound>, high: Option<&Bound>, digits: Digits) -> Node {
    let mut found = Vec::new();
    if high.map_or(true, |high| !high.value.is_negative()) {
        let zero = Bound::at_zero(false);
        let least = low.filter(|low| !low.value.is_negative()).unwrap_or(&zero);
        found.push(magnitudes(least, high, digits));
    }
    if low.map_or(true, |low| low.value.is_negative()) {
        let nearest = high.filter(|high| high.value.is_negative()).map(Bound::negated);
        let nearest = nearest.unwrap_or(Bound::at_zero(true));
        let farthest = low.map(Bound::negated);
        found.push(Node::sequence(vec![
            parts().minus.clone(),
            magnitudes(&nearest, farthest.as_ref(), digits),
        ]));
    }
    Node::choice(found)
}

/// Make the decimals from `low` (at least 0) to `high`, without a sign.
fn magnitudes(low: &Bound, high: Option<&Bound>, digits: Digits) -> Node {
    let at_least = at_least(low, digits);
    let Some(high) = high else {
        return at_least;
    };
    let at_most = at_most(high, digits);
    if low.value.is_zero() && !low.strict {
        return at_most;
    }
    Node::intersection(vec![at_least, at_most])
}

fn at_least(bound: &Bound, digits: Digits) -> Node {
    let next = bound.whole().plus(&Decimal::from(1));
    let above = Node::sequence(vec![whole(&next, None, digits), optional(digits.fraction())]);
    let fraction = fraction_at_least(&bound.value.fraction_digits(), bound.strict, digits);
    let same = Node::sequence(vec![Node::text(bound.value.whole_digits()), fraction]);
    Node::choice(vec![above, same])
}

fn at_most(bound: &Bound, digits: Digits) -> Node {
    let last = bound.whole().minus(&Decimal::from(1));
    let smaller = whole(&Decimal::default(), Some(&last), digits);
    let below = Node::sequence(vec![smaller, optional(digits.fraction())]);
    let fraction = fraction_at_most(&bound.value.fraction_digits(), digits, bound.strict);
    let same = Node::sequence(vec![Node::text(bound.value.whole_digits()), fraction]);
    Node::choice(vec![below, same])
}

/// Make the whole numbers from `low` (at least 0) to `high`, without leading zeros.
fn whole(low: &Decimal, high: Option<&Decimal>, digits: Digits) -> Node {
    let first = low.whole_digits();
    let Some(high) = high else {
        if low.is_zero() {
            return any_whole(digits.before);
        }
        let same = same_length(&first, &"9".repeat(first.len()));
        if digits.before.is_some_and(|before| before <= first.len()) {
            return same;
        }
        let further = repeat(
            parts().digit.clone(),
            first.len(),
            digits.before.map(|before| before - 1),
        );
        let longer = Node::sequence(vec![parts().nonzero.clone(), further]);
        return Node::choice(vec![same, longer]);
    };
    if high < low {
        return Node::no_text();
    }
    let last = high.whole_digits();
    let of_length = |length: usize| {
        let least = match length {
            1 => "0".to_owned(),
            _ => format!("1{}", "0".repeat(length - 1)),
        };
        let least = if length == first.len() { &first } else { &least };
        let greatest = "9".repeat(length);
        let greatest = if length == last.len() { &last } else { &greatest };
        same_length(least, greatest)
    };
    Node::choice((first.len()..=last.len()).map(of_length).collect())
}

fn any_whole(most: Option<usize>) -> Node {
    let parts = parts();
    kept(&parts.wholes, most, || {
        let further = match most {
            None => parts.digits.clone(),
            Some(most) => repeat(parts.digit.clone(), 0, Some(most - 1)),
        };
        let longer = Node::sequence(vec![parts.nonzero.clone(), further]);
        Node::choice(vec![parts.zero.clone(), longer])
    })
}

/// Make the digit strings from `low` to `high`, which have equal length, as alternatives that are not nested.
fn same_length(low: &str, high: &str) -> Node {
    let differs = low.bytes().zip(high.bytes()).position(|(one, other)| one != other);
    let (shared, low) = low.split_at(differs.unwrap_or(low.len()));
    let high = &high[shared.len()..];
    let prefix = Node::text(shared);
    if low.bytes().all(|digit| digit == b'0') && high.bytes().all(|digit| digit == b'9') {
        return Node::sequence(vec![prefix, exactly(low.len())]);
    }
    let mut found = Vec::new();
    let (first, last) = (low.as_bytes()[0], high.as_bytes()[0]);
    if last - first > 1 {
        found.push(Node::sequence(vec![
            between(first + 1, last - 1),
            exactly(low.len() - 1),
        ]));
    }
    for (bound, least) in [(low, b'0'), (high, b'9')] {
        // After the last digit that matters, any digits are allowed.
        let kept = bound[1..].trim_end_matches(char::from(least)).len() + 1;
        found.push(Node::sequence(vec![
            Node::text(&bound[..kept]),
            exactly(bound.len() - kept),
        ]));
        for index in 1..kept {
            let digit = bound.as_bytes()[index];
            let (from, to) = match least {
                b'0' => (digit + 1, b'9'),
                _ => (b'0', digit - 1),
            };
            if from <= to {
                found.push(Node::sequence(vec![
                    Node::text(&bound[..index]),
                    between(from, to),
                    exactly(bound.len() - index - 1),
                ]));
            }
        }
    }
    Node::sequence(vec![prefix, Node::choice(found)])
}

/// Make the text after the digits before the point, for a fraction of at least `bound`.
fn fraction_at_least(bound: &str, strict: bool, digits: Digits) -> Node {
    if bound.is_empty() && !strict {
        return optional(digits.fraction());
    }
    if bound.is_empty() {
        return Node::sequence(vec![Node::text("."), digits.positive(0)]);
    }
    let beyond = match strict {
        true => digits.positive(bound.len()),
        false => digits.further(bound.len()),
    };
    let mut found = vec![Node::sequence(vec![Node::text(bound), beyond])];
    for (index, digit) in bound.bytes().enumerate() {
        if digit != b'9' {
            found.push(Node::sequence(vec![
                Node::text(&bound[..index]),
                between(digit + 1, b'9'),
                digits.further(index + 1),
            ]));
        }
    }
    Node::sequence(vec![Node::text("."), Node::choice(found)])
}

/// Make the text after the digits before the point, for a fraction of at most `bound`.
pub fn fraction_at_most(bound: &str, digits: Digits, strict: bool) -> Node {
    if bound.is_empty() {
        return match strict {
            true => Node::no_text(),
            false => optional(Node::sequence(vec![Node::text("."), digits.zeros(0, 1)])),
        };
    }
    let mut found = Vec::new();
    if !strict {
        found.push(Node::sequence(vec![Node::text(bound), digits.zeros(bound.len(), 0)]));
    }
    for (index, digit) in bound.bytes().enumerate() {
        // A number that stops after the first digits is smaller, because the bound continues to a digit that is not 0.
        if index > 0 {
            found.push(Node::text(&bound[..index]));
        }
        if digit != b'0' {
            found.push(Node::sequence(vec![
                Node::text(&bound[..index]),
                between(b'0', digit - 1),
                digits.further(index + 1),
            ]));
        }
    }
    optional(Node::sequence(vec![Node::text("."), Node::choice(found)]))
}

fn exactly(count: usize) -> Node {
    repeat(parts().digit.clone(), count, Some(count))
}

fn between(low: u8, high: u8) -> Node {
    Node::chars([(low.into(), high.into())].into())
}
