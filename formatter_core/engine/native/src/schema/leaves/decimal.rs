//! Exact decimals of any size: the numbers of schemas, and their sums, products and remainders.

use std::cmp::Ordering;
use std::hash::Hash;

use super::natural::Natural;
use crate::base::tuning::MAX_DECIMAL_DIGITS;

/// A number `digits * 10^exponent`, possibly negative. Each number has one form, because `digits` has no trailing
/// zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Decimal {
    is_negative: bool,
    digits: Natural,
    exponent: i32,
}

impl Decimal {
    /// Read a JSON number; return None if it has too many digits without an exponent.
    pub fn read(text: &str) -> Option<Decimal> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_negative = whole.starts_with('-');
        let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Decimal::default());
        }
        let exponent = exponent
            .parse::<i64>()
            .ok()
            .filter(|exponent| exponent.abs() <= MAX_DECIMAL_DIGITS * 2)?;
        let adjusted = digits.len() as i64 - 1 + exponent - fraction.len() as i64;
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let length = if is_plain {
            digits.len() as i64 - 1
        } else {
            adjusted.abs() + text.len() as i64
        };
        if length > MAX_DECIMAL_DIGITS - i64::from(is_plain) {
            return None;
        }
        let exponent = (exponent - fraction.len() as i64) as i32;
        Some(Decimal::normal(is_negative, Natural::read(digits.as_bytes()), exponent))
    }

    pub fn from(number: i64) -> Decimal {
        Decimal::normal(number < 0, Natural::from(number.unsigned_abs()), 0)
    }

    /// Return the smallest positive number with this many places after the point.
    pub fn unit(places: usize) -> Decimal {
        Decimal::normal(false, Natural::from(1), -(places as i32))
    }

    fn normal(is_negative: bool, digits: Natural, exponent: i32) -> Decimal {
        let text = digits.digits();
        let zeros = text.len() - text.trim_end_matches('0').len();
        if zeros == text.len() {
            return Decimal::default();
        }
        let digits = match zeros {
            0 => digits,
            _ => Natural::read(&text.as_bytes()[..text.len() - zeros]),
        };
        Decimal {
            is_negative,
            digits,
            exponent: exponent + zeros as i32,
        }
    }

    pub fn is_negative(&self) -> bool {
        self.is_negative
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_zero()
    }

    pub fn is_one(&self) -> bool {
        *self == Decimal::from(1)
    }

    pub fn is_whole(&self) -> bool {
        self.exponent >= 0
    }

    /// Return the value of a whole number that is not negative; the largest `u64` if it is too large.
    pub fn to_u64(&self) -> Option<u64> {
        let is_count = self.is_whole() && !self.is_negative;
        is_count.then(|| self.scaled(0).to_u64().unwrap_or(u64::MAX))
    }

    /// Return the absolute value in units of `10^exponent`; `exponent` must not exceed the number's own exponent.
    fn scaled(&self, exponent: i32) -> Natural {
        match (self.exponent - exponent) as usize {
            0 => self.digits.clone(),
            zeros => self.digits.times(&Natural::power_of_ten(zeros)),
        }
    }

    /// Return the absolute values of two numbers in their largest common unit, and the exponent of that unit.
    fn aligned(&self, other: &Decimal) -> (Natural, Natural, i32) {
        let exponent = self.exponent.min(other.exponent);
        (self.scaled(exponent), other.scaled(exponent), exponent)
    }

    pub fn negated(&self) -> Decimal {
        Decimal {
            is_negative: !self.is_negative && !self.is_zero(),
            ..self.clone()
        }
    }

    pub fn absolute(&self) -> Decimal {
        Decimal {
            is_negative: false,
            ..self.clone()
        }
    }

    pub fn plus(&self, other: &Decimal) -> Decimal {
        let (one, two, exponent) = self.aligned(other);
        let (is_negative, sum) = match (self.is_negative == other.is_negative, one >= two) {
            (true, _) => (self.is_negative, one.plus(&two)),
            (false, true) => (self.is_negative, one.minus(&two)),
            (false, false) => (other.is_negative, two.minus(&one)),
        };
        Decimal::normal(is_negative, sum, exponent)
    }

    pub fn minus(&self, other: &Decimal) -> Decimal {
        self.plus(&other.negated())
    }

    pub fn times(&self, factor: u64) -> Decimal {
        Decimal::normal(
            self.is_negative,
            self.digits.times(&Natural::from(factor)),
            self.exponent,
        )
    }

    pub fn is_multiple_of(&self, step: &Decimal) -> bool {
        let (own, step, _) = self.aligned(step);
        own.is_multiple_of(&step)
    }

    /// Return the least common multiple of two positive numbers.
    pub fn least_common_multiple(&self, other: &Decimal) -> Decimal {
        let (one, two, exponent) = self.aligned(other);
        Decimal::normal(false, one.least_common_multiple(&two), exponent)
    }

    /// Return the least multiple of a step that is not below the number.
    pub fn next_multiple(&self, step: &Decimal) -> Decimal {
        let (own, unit, exponent) = self.aligned(step);
        let rest = Decimal::normal(false, own.divided(&unit).1, exponent);
        match self.is_negative || rest.is_zero() {
            true => self.plus(&rest),
            false => self.plus(step).minus(&rest),
        }
    }

    /// Return the greatest number with this many places after the point that is not above the number.
    pub fn floor(&self, places: usize) -> Decimal {
        let unit = Decimal::unit(places);
        self.negated().next_multiple(&unit).negated()
    }

    /// Return the least whole number that is not below the number.
    pub fn ceiling(&self) -> Decimal {
        self.next_multiple(&Decimal::from(1))
    }

    /// Return the digits before the point, or "0" if there are none.
    pub fn whole_digits(&self) -> String {
        match self.exponent {
            0.. => self.scaled(0).digits(),
            _ => self.digits.divided(&Natural::power_of_ten(self.places())).0.digits(),
        }
    }

    /// Return the digits after the point, without trailing zeros.
    pub fn fraction_digits(&self) -> String {
        match self.places() {
            0 => String::new(),
            places => {
                let digits = self.digits.digits();
                let after = &digits[digits.len().saturating_sub(places)..];
                "0".repeat(places - after.len()) + after
            }
        }
    }

    /// Return how many digits the number has after the point.
    pub fn places(&self) -> usize {
        self.exponent.min(0).unsigned_abs() as usize
    }

    /// Return how many digits the number has before the point, at least one.
    pub fn length(&self) -> usize {
        self.whole_digits().len()
    }

    /// Return the shortest plain decimal of the number.
    pub fn plain(&self) -> String {
        let sign = if self.is_negative { "-" } else { "" };
        let point = if self.is_whole() { "" } else { "." };
        format!("{sign}{}{point}{}", self.whole_digits(), self.fraction_digits())
    }

    /// Return the digits as a whole number without trailing zeros, and the exponent of ten.
    pub fn parts(&self) -> (&Natural, i32) {
        (&self.digits, self.exponent)
    }

    /// Return the number as a fraction in lowest terms, as Python writes it.
    pub fn fraction_text(&self) -> String {
        if self.is_whole() {
            return self.plain();
        }
        let below = Natural::power_of_ten(self.places());
        let shared = self.digits.greatest_common_divisor(&below);
        let sign = if self.is_negative { "-" } else { "" };
        let (above, below) = (self.digits.divided(&shared).0, below.divided(&shared).0);
        format!("{sign}{}/{}", above.digits(), below.digits())
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (is_negative, _) => {
                let (one, two, _) = self.aligned(other);
                let order = one.cmp(&two);
                if is_negative {
                    order.reverse()
                } else {
                    order
                }
            }
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::read(text).expect("a number that is not too long")
    }

    #[test]
    fn numbers_have_one_form() {
        for (text, plain) in [
            ("0", "0"),
            ("-0.0", "0"),
            ("1.50", "1.5"),
            ("12e2", "1200"),
            ("-1.2e-3", "-0.0012"),
            ("1E+2", "100"),
            ("10", "10"),
            ("0.1", "0.1"),
            ("1234567890123456789.5", "1234567890123456789.5"),
        ] {
            assert_eq!(number(text).plain(), plain);
            assert_eq!(number(text), number(plain));
        }
        assert!(Decimal::read("1e9999").is_none());
        assert!(Decimal::read(&"9".repeat(4001)).is_none());
        assert!(Decimal::read(&"9".repeat(4000)).is_some());
        assert_eq!(
            number("1e99999999999999999999".replace("1e", "0e").as_str()),
            Decimal::default()
        );
    }

    #[test]
    fn sums_and_multiples_are_exact() {
        assert_eq!(number("0.1").plus(&number("0.2")), number("0.3"));
        assert_eq!(number("1").minus(&number("2.5")), number("-1.5"));
        assert_eq!(number("-2.5").times(4), number("-10"));
        assert!(number("-0.3").is_multiple_of(&number("0.1")));
        assert!(!number("0.3").is_multiple_of(&number("0.2")));
        assert_eq!(number("0.4").least_common_multiple(&number("0.6")), number("1.2"));
        for (value, step, next) in [
            ("5", "2", "6"),
            ("-5", "2", "-4"),
            ("4", "2", "4"),
            ("0.05", "0.1", "0.1"),
        ] {
            assert_eq!(number(value).next_multiple(&number(step)), number(next));
        }
        assert_eq!(number("-1.25").floor(1), number("-1.3"));
        assert_eq!(number("1.25").floor(1), number("1.2"));
        assert_eq!(number("-1.25").ceiling(), number("-1"));
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        let ordered = ["-10", "-9.9", "-0.1", "0", "0.09", "0.1", "1", "9", "10", "1e3"];
        for pair in ordered.windows(2) {
            assert!(number(pair[0]) < number(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn fractions_are_in_lowest_terms() {
        assert_eq!(number("-0.75").fraction_text(), "-3/4");
        assert_eq!(number("20").fraction_text(), "20");
    }
}
