//! Numbers as plain decimals inside of a terminal: byte for byte what `schema/numbers.py` and `grammar/decimals.py` make.

use super::decimal::{Decimal, Digits};
use super::{Bound, Interval, Numbers, ZERO};
use crate::program::operation;
use crate::schema::inside::{Inside, Part};
use crate::term::Spelling;

/// How many digits a canonical number has at most before the point, and after it: more than those that `Decimal` reads.
pub const USUAL_DIGITS: u32 = 20;

impl Inside<'_> {
    fn is_canonical(&self) -> bool {
        self.spelling() == Spelling::Canonical
    }

    /// The greatest count of digits that may follow so many; None if there is none.
    pub fn digits_left(&self, count: usize) -> Option<u32> {
        self.is_canonical().then_some(USUAL_DIGITS - count as u32)
    }

    /// A set of numbers; how many alternatives these are.
    #[inline(never)]
    pub fn numbers(&mut self, numbers: &Numbers) -> usize {
        match numbers {
            Numbers::Listed { values, plain } => self.listed_numbers(values, *plain),
            Numbers::Between(interval) if interval.is_bounded() => self.interval(*interval),
            Numbers::Between(interval) => self.unbounded(*interval),
        }
    }

    /// All numbers, or all whole ones.
    fn unbounded(&mut self, interval: Interval) -> usize {
        if !interval.plain || self.is_canonical() {
            self.of_type(interval.whole);
            return 1;
        }
        self.part(Part::Sign);
        self.repeat(0, Some(1));
        self.bytes(b"0");
        self.chars(&[(0x31, 0x39)]);
        self.chars(&[(0x30, 0x39)]);
        self.repeat(0, None);
        self.list(operation::SEQUENCE, 2);
        self.list(operation::CHOICE, 2);
        self.part(Part::Empty);
        self.list(operation::SEQUENCE, 3);
        1
    }

    fn interval(&mut self, interval: Interval) -> usize {
        let Interval {
            low,
            high,
            whole,
            plain,
        } = interval;
        let allows_zero = |bound: Option<Bound>, is_low| match bound {
            Some(bound) if bound.value.is_zero() => !bound.open,
            Some(bound) => bound.value.negative == is_low,
            None => true,
        };
        let with_zero = !self.is_canonical() && allows_zero(low, true) && allows_zero(high, false);
        let tail = if plain { Part::Empty } else { Part::Tail };
        let mut options;
        if whole {
            let low = low.map(|bound| bound.value.nearest(true, bound.open));
            let high = high.map(|bound| bound.value.nearest(false, bound.open));
            options = self.integers(low, high);
            if !self.is_canonical() {
                self.list(operation::CHOICE, options);
                self.part(tail);
                self.list(operation::SEQUENCE, 2);
                options = 1;
            }
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
        options
    }

    /// These numbers; how many they are. In any spelling, whole ones may have a fraction unless `plain`.
    fn listed_numbers(&mut self, values: &[Decimal], plain: bool) -> usize {
        for value in values {
            let mut text = Digits::of(value.whole);
            let mut parts = 2;
            if !value.is_whole() {
                text.add(b".");
                text.add(Digits::after_point(value.fraction).text());
            } else if value.is_zero() && !self.is_canonical() {
                self.part(Part::Sign);
                self.repeat(0, Some(1));
                parts = 3;
            }
            if value.negative {
                text.add_minus();
            }
            self.bytes(text.text());
            if self.is_canonical() {
                continue;
            }
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

    /// Whole numbers between bounds; how many alternatives these are.
    fn integers(&mut self, low: Option<Decimal>, high: Option<Decimal>) -> usize {
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
        options
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
            self.repeat(1, self.digits_left(0));
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
            if !above {
                self.part(Part::Zero);
                self.repeat(0, self.digits_left(digits.len()));
            } else if open {
                self.positive(digits.len());
            } else {
                self.further(digits.len());
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
                self.further(place + 1);
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

    /// Digits after so many that follow the point already.
    #[inline(never)]
    fn further(&mut self, count: usize) {
        match self.digits_left(count) {
            None => self.part(Part::Digits),
            most => {
                self.part(Part::Digit);
                self.repeat(0, most);
            }
        }
    }

    /// The same, one of them not zero.
    fn positive(&mut self, count: usize) {
        let Some(most) = self.digits_left(count) else {
            self.part(Part::Zero);
            self.repeat(0, None);
            self.part(Part::NonZero);
            self.part(Part::Digits);
            return self.list(operation::SEQUENCE, 3);
        };
        for zeros in 0..most {
            let further = most - zeros - 1;
            if zeros > 0 {
                self.bytes(&vec![b'0'; zeros as usize]);
            }
            self.part(Part::NonZero);
            if further > 0 {
                self.part(Part::Digit);
                self.repeat(0, Some(further));
            }
            let items = 1 + usize::from(zeros > 0) + usize::from(further > 0);
            if items > 1 {
                self.list(operation::SEQUENCE, items);
            }
        }
        if most > 1 {
            self.list(operation::CHOICE, most as usize);
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
                let least = Digits::of(last).text().len();
                self.part(Part::NonZero);
                self.part(Part::Digit);
                self.repeat(least as u32, self.digits_left(1));
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
