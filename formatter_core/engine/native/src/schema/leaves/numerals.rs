//! The spellings of the numbers in a set, as regular nodes.
//!
//! If any spelling counts, these are plain decimals of any length, and exponents if the set contains all numbers.
//! Canonical spellings have as many digits as a 64-bit integer and a double need, or as the bounds and steps of the set
//! need; so a model cannot write a number without end. The nodes grow with the digits of the bounds, and linearly with
//! the listed or excluded values.

use std::sync::OnceLock;

use super::decimal::Decimal;
use super::digits::{fraction_at_most, integers, numbers, optional, repeat, Bound, Digits, ANY_DIGITS};
use super::multiples::Step;
use super::numbers::NumberSet;
use super::terminal_program::inside;
use crate::base::tuning::{MAX_BOUND_DIGITS, MAX_COUNTED_STATES, MAX_MULTIPLE_STATES};
use crate::regular::regex::Node;
use crate::regular::term::Spelling;

/// Maximum digits of a canonical number before the point, and after it: what a 64-bit integer and a double need.
const USUAL: usize = 20;
const USUAL_DIGITS: Digits = Digits {
    before: Some(USUAL),
    after: Some(USUAL),
};
/// The largest double, as a decimal; `LARGEST_EXPONENT` is its number of digits before the point, less one.
const LARGEST: &str = "1.7976931348623157e308";
const LARGEST_EXPONENT: usize = 308;

/// Nodes that occur in many others, where their program is written once.
struct Parts {
    minus: Node,
    zeros: Node,
    /// Every number in every legal spelling.
    any_spelling: Node,
    /// The optional sign, and the digits before the point: each by itself, and both in sequence.
    sign: Node,
    whole: Node,
    without_fraction: Node,
    integer: Node,
    decimal: Node,
    /// Numbers as a careful writer spells them: those without an exponent, all of them, and the whole ones.
    canonical_decimal: Node,
    canonical_number: Node,
    canonical_integer: Node,
    largest: Decimal,
}

fn parts() -> &'static Parts {
    static PARTS: OnceLock<Parts> = OnceLock::new();
    PARTS.get_or_init(Parts::new)
}

impl Parts {
    fn new() -> Parts {
        let digit = Node::chars([(0x30, 0x39)].into());
        let nonzero = Node::chars([(0x31, 0x39)].into());
        let zeros = Node::sequence(vec![Node::text("."), repeat(Node::text("0"), 1, None)]);
        let (minus, plus) = (Node::text("-"), Node::text("+"));
        let e = Node::chars([(0x45, 0x45), (0x65, 0x65)].into());
        let whole = Node::choice(vec![
            Node::text("0"),
            Node::sequence(vec![nonzero.clone(), repeat(digit.clone(), 0, None)]),
        ]);
        let fraction = Node::sequence(vec![Node::text("."), repeat(digit.clone(), 1, None)]);
        let either_sign = Node::chars([(0x2b, 0x2b), (0x2d, 0x2d)].into());
        let exponent = Node::sequence(vec![e.clone(), optional(either_sign), repeat(digit.clone(), 1, None)]);
        let any_spelling = Node::sequence(vec![
            optional(minus.clone()),
            whole.clone(),
            optional(fraction.clone()),
            optional(exponent),
        ]);
        let sign = optional(minus.clone());
        let without_fraction = Node::sequence(vec![sign.clone(), whole.clone()]);
        let integer = Node::sequence(vec![sign.clone(), whole.clone(), optional(zeros.clone())]);
        let decimal = Node::sequence(vec![optional(minus.clone()), whole.clone(), optional(fraction)]);
        let canonical_decimal = numbers(None, None, USUAL_DIGITS);
        let exponential = exponential(&nonzero, &minus, &plus, &e);
        let canonical_number = Node::sequence(vec![Node::choice(vec![
            canonical_decimal.clone(),
            Node::sequence(vec![optional(minus.clone()), exponential]),
        ])]);
        let long = Node::sequence(vec![optional(minus.clone()), nonzero, repeat(digit, 0, Some(19))]);
        let canonical_integer = Node::sequence(vec![Node::choice(vec![Node::text("0"), long])]);
        Parts {
            minus,
            zeros,
            any_spelling: any_spelling.kept(),
            sign,
            whole,
            without_fraction,
            integer: integer.kept(),
            decimal,
            canonical_decimal,
            canonical_number: canonical_number.kept(),
            canonical_integer: canonical_integer.kept(),
            largest: Decimal::read(LARGEST).unwrap_or_default(),
        }
    }
}

/// Make a digit that is not zero, an optional fraction, and an exponent, within the range of a double; without a sign.
///
/// An exponent has a zero before its digit only as Python writes it (`1e-07`).
fn exponential(nonzero: &Node, minus: &Node, plus: &Node, e: &Node) -> Node {
    let from_one = |most: i64| integers(Some(&Decimal::from(1)), Some(&Decimal::from(most)), ANY_DIGITS);
    let fraction = optional(USUAL_DIGITS.fraction());
    let padded = Node::sequence(vec![Node::text("0"), nonzero.clone()]);
    let large = Node::sequence(vec![optional(plus.clone()), from_one(307)]);
    let small = Node::sequence(vec![minus.clone(), Node::choice(vec![from_one(323), padded])]);
    let largest = Node::sequence(vec![
        Node::text("1"),
        fraction_at_most("7976931348623157", USUAL_DIGITS, false),
        e.clone(),
    ]);
    let smallest = Node::sequence(vec![
        Node::chars([(0x35, 0x39)].into()),
        fraction.clone(),
        e.clone(),
        Node::text("-324"),
    ]);
    let exponents = Node::choice(vec![large, small]);
    let usual = Node::sequence(vec![nonzero.clone(), fraction, e.clone(), exponents]);
    let largest = Node::sequence(vec![largest, optional(plus.clone()), Node::text("308")]);
    Node::choice(vec![usual, largest, smallest])
}

/// Make the program of the decimals between two bounds, without exponents; only whole numbers if `whole`. Canonical
/// numbers have the usual number of digits, or as many as the bounds need. Return None if a bound cannot be read.
pub fn number_program(low: Option<&str>, high: Option<&str>, whole: bool, canonical: bool) -> Option<Vec<u8>> {
    let read = |bound: Option<&str>| match bound {
        None => Some(None),
        Some(text) => Decimal::read(text).map(Some),
    };
    let wanted = NumberSet {
        low: read(low)?,
        high: read(high)?,
        multiple: whole.then(|| Decimal::from(1)),
        ..NumberSet::any()
    };
    let node = match (canonical, whole) {
        (true, _) => number_node(&wanted, Spelling::Canonical, true),
        (false, true) => integers(wanted.low.as_ref(), wanted.high.as_ref(), ANY_DIGITS),
        (false, false) => decimals(&wanted, ANY_DIGITS),
    };
    Some(inside(&node))
}

/// Make the spellings of the numbers in the set: plain decimals, and exponents if the set contains all numbers and
/// `plain` is false.
///
/// Steps that are too large are ignored, see `NumberSet::has_large_steps`.
pub fn number_node(numbers: &NumberSet, spelling: Spelling, plain: bool) -> Node {
    let mut numbers = numbers.clone();
    if numbers.has_large_steps() {
        numbers.multiple = None;
        numbers.not_multiples.clear();
    }
    if let Some(values) = &numbers.values {
        return Node::choice(
            values
                .iter()
                .flat_map(|value| listed(value, &numbers, spelling, plain))
                .collect(),
        );
    }
    let within = without_idle_bounds(&numbers);
    if spelling == Spelling::Canonical {
        return canonical(within, plain);
    }
    let parts = parts();
    if numbers.is_any() && !plain {
        return parts.any_spelling.clone();
    }
    let mut node = interval(&numbers);
    if let Some(step) = numbers.multiple.as_ref().filter(|step| !step.is_one()) {
        let multiples = Step::of(step).node(0);
        node = match node.identity() == parts.decimal.identity() {
            true => multiples,
            false => Node::intersection(vec![node, multiples]),
        };
        if numbers.pointed.is_some() {
            let spelled = Node::sequence(vec![parts.without_fraction.clone(), tail(numbers.pointed)]);
            node = Node::intersection(vec![node, spelled]);
        }
    }
    node = without_excluded(node, &numbers);
    match within.is_any() && !plain {
        true => Node::choice(vec![node, parts.canonical_number.clone()]),
        false => node,
    }
}

fn without_excluded(mut node: Node, numbers: &NumberSet) -> Node {
    for step in &numbers.not_multiples {
        let multiples = match step.is_one() {
            true => parts().integer.clone(),
            false => Step::of(step).node(0),
        };
        node = Node::intersection(vec![node, Node::complement(multiples)]);
    }
    if !numbers.excluded.is_empty() {
        let excluded = numbers
            .excluded
            .iter()
            .map(|value| every_decimal(value, None))
            .collect();
        node = Node::intersection(vec![node, Node::complement(Node::choice(excluded))]);
    }
    node
}

/// Return the set without bounds that every double satisfies.
fn without_idle_bounds(numbers: &NumberSet) -> NumberSet {
    let (mut within, largest) = (numbers.clone(), &parts().largest);
    if within.low.as_ref().is_some_and(|low| *low <= largest.negated()) {
        (within.low, within.low_open) = (None, false);
    }
    if within.high.as_ref().is_some_and(|high| high >= largest) {
        (within.high, within.high_open) = (None, false);
    }
    within
}

fn canonical(numbers: NumberSet, plain: bool) -> Node {
    let parts = parts();
    if numbers.is_any() {
        return match plain {
            true => parts.canonical_decimal.clone(),
            false => parts.canonical_number.clone(),
        };
    }
    let unpointed = NumberSet {
        pointed: None,
        ..numbers.clone()
    };
    if numbers.pointed != Some(true) && unpointed.is_any_integer() {
        return parts.canonical_integer.clone();
    }
    let mut digits = digits_of(&numbers);
    let numbers = within(numbers, digits);
    let mut steps = None;
    if let Some(step) = numbers.multiple.as_ref().filter(|step| !step.is_one()) {
        // The multiples count the digits before the point themselves; a product of states would be larger.
        let step = Step::of(step);
        let is_counted = step.states(MAX_MULTIPLE_STATES) <= MAX_COUNTED_STATES;
        steps = Some(step.node(digits.before.filter(|_| is_counted).unwrap_or(0)));
        digits.before = None;
    }
    let mut node = match numbers.multiple.as_ref().filter(|step| step.is_whole()) {
        None => decimals(&numbers, digits),
        Some(_) => {
            let (least, greatest) = whole_bounds(&numbers);
            let node = integers(least.as_ref(), greatest.as_ref(), digits);
            match numbers.pointed {
                Some(true) => Node::sequence(vec![node, Node::text("."), digits.zeros(0, 1)]),
                _ => node,
            }
        }
    };
    if let Some(steps) = steps {
        node = Node::intersection(vec![node, steps]);
    }
    without_excluded(node, &numbers)
}

/// Return how many digits the canonical numbers of a set have: the usual numbers, or more if the set needs them.
fn digits_of(numbers: &NumberSet) -> Digits {
    let step = numbers.multiple.clone().unwrap_or_default();
    let bounds = || numbers.low.iter().chain(&numbers.high);
    // There must be some numbers beyond the bound that is nearer to zero.
    let beyond = nearest(numbers).plus(&step.clone().max(Decimal::from(1)));
    let lengths = bounds()
        .map(Decimal::length)
        .filter(|length| *length <= MAX_BOUND_DIGITS);
    let before = lengths.chain([USUAL, beyond.length()]).max();
    let places = bounds()
        .map(Decimal::places)
        .filter(|places| *places < MAX_BOUND_DIGITS)
        .map(|places| places + 1);
    let mut after = places.chain([USUAL, step.places()]).max();
    if let (Some(low), Some(high)) = (&numbers.low, &numbers.high) {
        if high.minus(low) <= Decimal::unit(USUAL) {
            after = after.max(Some(1 + low.places().max(high.places())));
        }
    }
    Digits { before, after }
}

/// Return the distance of the set from zero.
fn nearest(numbers: &NumberSet) -> Decimal {
    let low = numbers.low.clone().unwrap_or_default();
    let high = numbers.high.clone().unwrap_or_default();
    low.max(high.negated()).max(Decimal::default())
}

/// Return the numbers of a set that have at most these digits and that a double can represent. The new bounds have no
/// more digits.
fn within(mut numbers: NumberSet, digits: Digits) -> NumberSet {
    let (before, after) = (digits.before.unwrap_or(0), digits.after.unwrap_or(0));
    let largest = &parts().largest;
    if before > LARGEST_EXPONENT && nearest(&numbers) < *largest {
        let least = largest.negated();
        numbers.low = Some(numbers.low.map_or(least.clone(), |low| low.max(least)));
        numbers.high = Some(numbers.high.map_or(largest.clone(), |high| high.min(largest.clone())));
    }
    if let Some(low) = numbers.low.take() {
        if low.length() > before {
            numbers.low_open = false;
        } else if low.places() > after {
            (numbers.low, numbers.low_open) = (Some(low.floor(after)), true);
        } else {
            numbers.low = Some(low);
        }
    }
    if let Some(high) = numbers.high.take() {
        if high.length() > before {
            numbers.high_open = false;
        } else if high.places() > after {
            (numbers.high, numbers.high_open) = (Some(high.floor(after)), false);
        } else {
            numbers.high = Some(high);
        }
    }
    numbers
}

/// Make the decimals between the bounds, with any number of digits; only whole numbers if the step is 1.
fn interval(wanted: &NumberSet) -> Node {
    let parts = parts();
    let is_bounded = wanted.low.is_some() || wanted.high.is_some();
    if !wanted.is_whole() {
        return match is_bounded {
            true => with_negative_zero(decimals(wanted, ANY_DIGITS), wanted, optional(parts.zeros.clone())),
            false => parts.decimal.clone(),
        };
    }
    let tail = tail(wanted.pointed);
    if !is_bounded {
        return match wanted.pointed {
            None => parts.integer.clone(),
            Some(_) => Node::sequence(vec![parts.sign.clone(), parts.whole.clone(), tail]),
        };
    }
    let (least, greatest) = whole_bounds(wanted);
    let whole = integers(least.as_ref(), greatest.as_ref(), ANY_DIGITS);
    with_negative_zero(Node::sequence(vec![whole, tail.clone()]), wanted, tail)
}

fn decimals(wanted: &NumberSet, digits: Digits) -> Node {
    let bound = |value: &Option<Decimal>, strict| value.clone().map(|value| Bound { value, strict });
    let (low, high) = (
        bound(&wanted.low, wanted.low_open),
        bound(&wanted.high, wanted.high_open),
    );
    numbers(low.as_ref(), high.as_ref(), digits)
}

/// Return the least and the greatest whole number.
fn whole_bounds(wanted: &NumberSet) -> (Option<Decimal>, Option<Decimal>) {
    let one = Decimal::from(1);
    let least = wanted.low.as_ref().map(|low| match wanted.low_open && low.is_whole() {
        true => low.plus(&one),
        false => low.ceiling(),
    });
    let greatest = wanted
        .high
        .as_ref()
        .map(|high| match wanted.high_open && high.is_whole() {
            true => high.minus(&one),
            false => high.floor(0),
        });
    (least, greatest)
}

fn with_negative_zero(node: Node, wanted: &NumberSet, tail: Node) -> Node {
    match wanted.contains(&Decimal::default()) {
        true => Node::choice(vec![node, Node::sequence(vec![Node::text("-0"), tail])]),
        false => node,
    }
}

/// Make the spellings of one of the values of a set.
///
/// The canonical spelling depends on the value alone: a whole value is an integer, and any other value is written as
/// `json.dumps` writes the float, or as a plain decimal if no float has this value.
fn listed(value: &Decimal, numbers: &NumberSet, spelling: Spelling, plain: bool) -> Vec<Node> {
    let decimal = value.plain();
    let float = exponent_form(value).filter(|_| !plain);
    if spelling == Spelling::Any {
        let others = float.map(Node::text);
        return [every_decimal(value, numbers.pointed)]
            .into_iter()
            .chain(others)
            .collect();
    }
    if numbers.is_step {
        let places = value.places();
        let most = Digits {
            before: None,
            after: Some(USUAL.max(places)),
        };
        let zeros = most.zeros(places, usize::from(places == 0));
        let tail = match places {
            0 => optional(Node::sequence(vec![Node::text("."), zeros])),
            _ => zeros,
        };
        return vec![Node::sequence(vec![Node::text(decimal), tail])];
    }
    let tail = if numbers.pointed == Some(true) { ".0" } else { "" };
    vec![Node::text(float.unwrap_or(decimal) + tail)]
}

/// Return how Python writes the float that has this value, if it uses a negative exponent.
fn exponent_form(value: &Decimal) -> Option<String> {
    if value.absolute() >= Decimal::from(1) || value.is_zero() {
        return None;
    }
    let float: f64 = value.plain().parse().ok()?;
    let text = format!("{float:e}");
    let (mantissa, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let is_exact = Decimal::read(&text).as_ref() == Some(value);
    (exponent < -4 && is_exact).then(|| format!("{mantissa}e-{:02}", exponent.unsigned_abs()))
}

fn every_decimal(value: &Decimal, pointed: Option<bool>) -> Node {
    let text = value.plain();
    if !value.is_whole() {
        return Node::sequence(vec![Node::text(text), repeat(Node::text("0"), 0, None)]);
    }
    let sign = value.is_zero().then(|| optional(parts().minus.clone()));
    let items = sign.into_iter().chain([Node::text(text), tail(pointed)]);
    Node::sequence(items.collect())
}

/// Make the text that may follow the digits of a whole number.
fn tail(pointed: Option<bool>) -> Node {
    let zeros = parts().zeros.clone();
    match pointed {
        None => optional(zeros),
        Some(true) => zeros,
        Some(false) => Node::empty_text(),
    }
}
