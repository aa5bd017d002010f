//! Numbers within bounds, and their plain decimals as they are written inside of a terminal: byte for byte what
//! `schema/numbers.py` and `grammar/decimals.py` make of them.

use crate::program::operation;
use crate::schema::inside::{Inside, Part};
use crate::schema::json::{Tree, Value};

/// Numbers with as many digits before the point, or with more than `PLACES` after it, are left to others.
const LARGEST: u64 = 10_u64.pow(19) - 2;
const PLACES: usize = 18;
/// What follows a point is counted in this unit.
const UNIT: u64 = 10_u64.pow(PLACES as u32);
/// As many whole numbers, and one more, are listed one by one.
const MOST_LISTED: usize = 2;

/// A decimal, with its digits before the point and after it.
#[derive(Clone, Copy, PartialEq)]
pub struct Decimal {
    negative: bool,
    whole: u64,
    fraction: u64,
}

impl Decimal {
    /// A JSON number; None if it has many digits, or an exponent.
    pub fn read(text: &str) -> Option<Decimal> {
        let (mut whole, mut fraction, mut unit) = (0, 0, 0);
        for byte in text.bytes() {
            let digit = u64::from(byte.wrapping_sub(b'0'));
            match byte {
                b'-' => {}
                b'.' => unit = UNIT,
                b'0'..=b'9' if unit == 0 => {
                    (whole < LARGEST / 10).then_some(())?;
                    whole = whole * 10 + digit;
                }
                b'0'..=b'9' => {
                    unit /= 10;
                    (unit > 0).then_some(())?;
                    fraction += digit * unit;
                }
                _ => return None,
            }
        }
        Some(Decimal {
            negative: text.starts_with('-') && whole + fraction > 0,
            whole,
            fraction,
        })
    }

    pub fn is_whole(self) -> bool {
        self.fraction == 0
    }

    fn is_zero(self) -> bool {
        self.whole == 0 && self.is_whole()
    }

    /// It in the smallest unit.
    fn units(self) -> i128 {
        let units = i128::from(self.whole) * i128::from(UNIT) + i128::from(self.fraction);
        if self.negative {
            -units
        } else {
            units
        }
    }

    /// The whole number below it, or above; not itself if `open`.
    fn nearest(self, above: bool, open: bool) -> Decimal {
        let is_nearer_to_zero = above == self.negative && !self.is_zero();
        let (mut whole, mut negative) = (self.whole, self.negative);
        if !self.is_whole() {
            whole += u64::from(!is_nearer_to_zero);
        } else if open && is_nearer_to_zero {
            whole -= 1;
        } else if open {
            whole += 1;
            negative = !above;
        }
        Decimal {
            negative: negative && whole > 0,
            whole,
            fraction: 0,
        }
    }
}

#[derive(Clone, Copy)]
struct Bound {
    value: Decimal,
    open: bool,
}

const ZERO: Bound = Bound {
    value: Decimal {
        negative: false,
        whole: 0,
        fraction: 0,
    },
    open: false,
};

/// The bound that two keywords set together, if any; None if it is left to others.
fn bound(tree: &Tree, names: [&str; 2], draft: u32, above: bool) -> Option<Option<Bound>> {
    let mut found: Option<Bound> = None;
    for (place, name) in names.iter().enumerate() {
        let Some(value) = tree.get(tree.root, name) else {
            continue;
        };
        let open = place > 0;
        match (tree.value(value), &mut found) {
            (Value::Bool(is_open), Some(found)) if open => found.open = *is_open,
            (Value::Bool(_), None) if open => {}
            (Value::Number, _) if !open || draft > 4 => {
                let value = Decimal::read(tree.source(value))?;
                let is_weaker = |own: &Bound| own.value != value && (value.units() < own.value.units()) == above;
                if !found.as_ref().is_some_and(is_weaker) {
                    found = Some(Bound { value, open });
                }
            }
            _ => return None,
        }
    }
    Some(found)
}

impl Inside<'_> {
    /// What a schema says of numbers, or of whole numbers: how many alternatives these are. None if it says nothing, allows
    /// none, or is left to others.
    pub fn bounded(&mut self, tree: &Tree, whole: bool, draft: u32) -> Option<usize> {
        let low = bound(tree, ["minimum", "exclusiveMinimum"], draft, true)?;
        let high = bound(tree, ["maximum", "exclusiveMaximum"], draft, false)?;
        let is_free = low.is_none() && high.is_none();
        (!is_free && tree.get(tree.root, "multipleOf").is_none()).then_some(())?;
        let plain = whole && draft == 4;
        if let (Some(low), Some(high)) = (low, high) {
            let is_empty = low.value == high.value && (low.open || high.open);
            (low.value.units() <= high.value.units() && !is_empty).then_some(())?;
            if !whole && low.value == high.value {
                return Some(self.listed_numbers(&[low.value], plain));
            }
            let last = high.value.nearest(false, false);
            let mut values = [low.value.nearest(true, false); MOST_LISTED + 1];
            for place in 1..values.len() {
                values[place] = values[place - 1].nearest(true, true);
            }
            if whole && values[MOST_LISTED].units() >= last.units() {
                let is_within = |value: &Decimal| {
                    let is_excluded = low.open && *value == low.value || high.open && *value == high.value;
                    value.units() <= last.units() && !is_excluded
                };
                // Only the first and the last may be excluded, or those at the end be too large.
                let first = usize::from(!is_within(&values[0]));
                let count = values[first..].iter().take_while(|value| is_within(value)).count();
                (count > 0).then_some(())?;
                return Some(self.listed_numbers(&values[first..first + count], plain));
            }
        }
        let allows_zero = |bound: Option<Bound>, is_low| match bound {
            Some(bound) if bound.value.is_zero() => !bound.open,
            Some(bound) => bound.value.negative == is_low,
            None => true,
        };
        let with_zero = allows_zero(low, true) && allows_zero(high, false);
        let tail = if plain { Part::Empty } else { Part::Tail };
        let mut options = 1;
        if whole {
            let low = low.map(|bound| bound.value.nearest(true, bound.open));
            let high = high.map(|bound| bound.value.nearest(false, bound.open));
            self.integers(low, high);
            self.part(tail);
            self.list(operation::SEQUENCE, 2);
        } else {
            options = self.decimals(low, high);
            if with_zero {
                self.list(operation::CHOICE, options);
                options = 1;
            }
        }
        if with_zero {
            self.bytes(b"-0");
            self.part(tail);
            self.list(operation::SEQUENCE, 2);
            options += 1;
        }
        Some(options)
    }

    /// These numbers; how many they are. Whole ones may have a fraction unless `plain`.
    pub fn listed_numbers(&mut self, values: &[Decimal], plain: bool) -> usize {
        for value in values {
            let mut text = Digits::of(value.whole);
            let mut parts = 2;
            if !value.is_whole() {
                text.add(b".");
                text.add(Digits::after_point(value.fraction).text());
            } else if value.is_zero() {
                self.part(Part::Sign);
                self.repeat(0, Some(1));
                parts = 3;
            }
            if value.negative {
                text.first -= 1;
                text.digits[text.first] = b'-';
            }
            self.bytes(text.text());
            if !value.is_whole() {
                self.bytes(b"0");
                self.repeat(0, None);
            } else if plain {
                self.part(Part::Empty);
            } else {
                self.part(Part::Zeros);
                self.repeat(0, Some(1));
            }
            self.list(operation::SEQUENCE, parts);
        }
        values.len()
    }

    fn integers(&mut self, low: Option<Decimal>, high: Option<Decimal>) {
        let mut options = 0;
        if !high.is_some_and(|high| high.negative) {
            let least = low.filter(|low| !low.negative).map_or(0, |low| low.whole);
            self.whole(least, high.map(|high| high.whole));
            options += 1;
        }
        if !low.is_some_and(|low| !low.negative) {
            let least = high.filter(|high| high.negative).map_or(1, |high| high.whole);
            self.part(Part::Minus);
            self.whole(least, low.map(|low| low.whole));
            self.list(operation::SEQUENCE, 2);
            options += 1;
        }
        self.list(operation::CHOICE, options);
    }

    /// Numbers between bounds; how many alternatives these are.
    fn decimals(&mut self, low: Option<Bound>, high: Option<Bound>) -> usize {
        let mut options = 0;
        if !high.is_some_and(|high| high.value.negative) {
            let least = low.filter(|low| !low.value.negative).unwrap_or(ZERO);
            self.magnitudes(least, high);
            options += 1;
        }
        if !low.is_some_and(|low| !low.value.negative) {
            let above_zero = Bound { open: true, ..ZERO };
            let least = high.filter(|high| high.value.negative).unwrap_or(above_zero);
            self.part(Part::Minus);
            self.magnitudes(least, low);
            self.list(operation::SEQUENCE, 2);
            options += 1;
        }
        options
    }

    /// Decimals between bounds, whatever their signs.
    #[inline(never)]
    fn magnitudes(&mut self, low: Bound, high: Option<Bound>) {
        let from_zero = low.value.is_zero() && !low.open;
        if !from_zero || high.is_none() {
            self.side(low, true);
        }
        if let Some(high) = high {
            self.side(high, false);
            if !from_zero {
                self.list(operation::INTERSECTION, 2);
            }
        }
    }

    /// Decimals above a bound, or below it: those with other digits before the point, and those with the same.
    #[inline(never)]
    fn side(&mut self, bound: Bound, above: bool) {
        let Bound { value, open } = bound;
        match value.whole.checked_sub(1) {
            _ if above => self.whole(value.whole + 1, None),
            Some(before) => self.whole(0, Some(before)),
            None => self.part(Part::Nothing),
        }
        self.part(Part::Fraction);
        self.repeat(0, Some(1));
        self.list(operation::SEQUENCE, 2);
        self.bytes(Digits::of(value.whole).text());
        if !value.is_whole() || open && above {
            self.fraction(value.fraction, open, above);
        } else if above {
            self.part(Part::Fraction);
            self.repeat(0, Some(1));
        } else if open {
            self.part(Part::Nothing);
        } else {
            self.bytes(b".");
            self.part(Part::Zero);
            self.repeat(1, None);
            self.list(operation::SEQUENCE, 2);
            self.repeat(0, Some(1));
        }
        self.list(operation::SEQUENCE, 2);
        self.list(operation::CHOICE, 2);
    }

    /// A point and digits above those of a fraction, or below.
    fn fraction(&mut self, fraction: u64, open: bool, above: bool) {
        let digits = Digits::after_point(fraction);
        let digits = digits.text();
        let mut options = 0;
        self.bytes(b".");
        if above || !open {
            if !digits.is_empty() {
                self.bytes(digits);
            }
            if open || !above {
                self.part(Part::Zero);
                self.repeat(0, None);
            }
            if above && open {
                self.part(Part::NonZero);
            }
            if above {
                self.part(Part::Digits);
            }
            if above && open {
                self.list(operation::SEQUENCE, 3);
            }
            options = 1;
            if !digits.is_empty() {
                self.list(operation::SEQUENCE, 2);
            }
        }
        for (place, digit) in digits.iter().enumerate() {
            let (low, high) = if above { (digit + 1, b'9') } else { (b'0', digit - 1) };
            if place > 0 && !above {
                self.bytes(&digits[..place]);
                options += 1;
            }
            if low <= high {
                self.bytes(&digits[..place]);
                self.digit(low, high);
                self.part(Part::Digits);
                self.list(operation::SEQUENCE, 3);
                options += 1;
            }
        }
        if !digits.is_empty() {
            self.list(operation::CHOICE, options);
        }
        self.list(operation::SEQUENCE, 2);
        if !above {
            self.repeat(0, Some(1));
        }
    }

    #[inline(never)]
    fn digit(&mut self, low: u8, high: u8) {
        self.chars(&[(low.into(), high.into())]);
    }

    #[inline(never)]
    fn digits(&mut self, count: usize) {
        self.part(Part::Digit);
        self.repeat(count as u32, Some(count as u32));
    }

    /// Whole numbers without zeros at the beginning.
    #[inline(never)]
    fn whole(&mut self, low: u64, high: Option<u64>) {
        if let (0, None) = (low, high) {
            return self.part(Part::Whole);
        }
        let most = high.unwrap_or(u64::MAX);
        let (mut options, mut first) = (0, low);
        let mut power = 10_u64;
        while first <= most {
            while power <= first {
                power = power.saturating_mul(10);
            }
            let last = most.min(power - 1);
            self.same_length(&Digits::of(first), &Digits::of(last));
            options += 1;
            first = last + 1;
            if high.is_none() {
                self.part(Part::NonZero);
                self.part(Part::Digit);
                self.repeat(Digits::of(last).text().len() as u32, None);
                self.list(operation::SEQUENCE, 2);
                options = 2;
                break;
            }
        }
        if options == 0 {
            return self.part(Part::Nothing);
        }
        self.list(operation::CHOICE, options);
    }

    /// Digits between two that are equally long.
    fn same_length(&mut self, low: &Digits, high: &Digits) {
        let (low, high) = (low.text(), high.text());
        let shared = low.iter().zip(high).take_while(|(low, high)| low == high).count();
        self.bytes(&low[..shared]);
        let (low, high) = (&low[shared..], &high[shared..]);
        if low.iter().all(|digit| *digit == b'0') && high.iter().all(|digit| *digit == b'9') {
            self.digits(low.len());
            return self.list(operation::SEQUENCE, 2);
        }
        let mut options = 0;
        if high[0] - low[0] > 1 {
            self.digit(low[0] + 1, high[0] - 1);
            self.digits(low.len() - 1);
            self.list(operation::SEQUENCE, 2);
            options += 1;
        }
        for (bound, least) in [(low, b'0'), (high, b'9')] {
            // Behind the last digit that counts, any digits will do.
            let free = bound[1..].iter().rev().take_while(|digit| **digit == least).count();
            let kept = bound.len() - free;
            self.bytes(&bound[..kept]);
            self.digits(free);
            self.list(operation::SEQUENCE, 2);
            options += 1;
            for place in 1..kept {
                let digit = bound[place];
                let (first, last) = if least == b'0' {
                    (digit + 1, b'9')
                } else {
                    (b'0', digit - 1)
                };
                if first <= last {
                    self.bytes(&bound[..place]);
                    self.digit(first, last);
                    self.digits(bound.len() - place - 1);
                    self.list(operation::SEQUENCE, 3);
                    options += 1;
                }
            }
        }
        self.list(operation::CHOICE, options);
        self.list(operation::SEQUENCE, 2);
    }
}

/// Some digits, with room for a sign before them, and for a point and more digits after them.
struct Digits {
    digits: [u8; 48],
    first: usize,
    end: usize,
}

/// Where the digits of whole numbers end.
const MIDDLE: usize = 24;

impl Digits {
    #[inline(never)]
    fn of(mut number: u64) -> Digits {
        let mut made = Digits {
            digits: [b'0'; 48],
            first: MIDDLE,
            end: MIDDLE,
        };
        while number > 0 || made.first == MIDDLE {
            made.first -= 1;
            made.digits[made.first] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        made
    }

    /// Those after a point, without the zeros at the end.
    fn after_point(fraction: u64) -> Digits {
        let mut made = Digits::of(fraction);
        made.first = MIDDLE - PLACES;
        while made.end > made.first && made.digits[made.end - 1] == b'0' {
            made.end -= 1;
        }
        made
    }

    fn add(&mut self, text: &[u8]) {
        self.digits[self.end..self.end + text.len()].copy_from_slice(text);
        self.end += text.len();
    }

    fn text(&self) -> &[u8] {
        &self.digits[self.first..self.end]
    }
}
