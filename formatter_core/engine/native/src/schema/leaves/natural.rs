//! Natural numbers of any size, on which exact decimals are built.
//!
//! A number is a list of digits in base 10^9, the least significant first, without leading zeros. Sums take linear
//! time, products and remainders quadratic time, and a greatest common divisor cubic time; no number in a schema has
//! more than 4,000 decimal digits.

use std::cmp::Ordering;

const BASE: u64 = 1_000_000_000;
/// The number of decimal digits in a limb.
const PLACES: usize = 9;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Natural(Vec<u32>);

impl Natural {
    pub fn from(mut number: u64) -> Self {
        let mut limbs = Vec::new();
        while number > 0 {
            limbs.push((number % BASE) as u32);
            number /= BASE;
        }
        Natural(limbs)
    }

    /// Read decimal digits, which may have leading zeros.
    pub fn read(digits: &[u8]) -> Self {
        let value = |part: &[u8]| part.iter().fold(0, |value, digit| 10 * value + u32::from(digit - b'0'));
        Natural(digits.rchunks(PLACES).map(value).collect()).trimmed()
    }

    pub fn power_of_ten(exponent: usize) -> Self {
        let mut limbs = vec![0; exponent / PLACES];
        limbs.push(10_u32.pow((exponent % PLACES) as u32));
        Natural(limbs)
    }

    /// Return the decimal digits; "0" for zero.
    pub fn digits(&self) -> String {
        let mut limbs = self.0.iter().rev();
        let first = limbs.next().map_or(0, |first| *first).to_string();
        limbs.fold(first, |text, limb| text + &format!("{limb:09}"))
    }

    pub fn to_u64(&self) -> Option<u64> {
        let add = |value: u64, limb: &u32| value.checked_mul(BASE)?.checked_add(u64::from(*limb));
        self.0.iter().rev().try_fold(0, add)
    }

    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    pub fn plus(&self, other: &Natural) -> Natural {
        let (mut sum, mut carry) = (Vec::with_capacity(self.0.len().max(other.0.len()) + 1), 0);
        for place in 0..self.0.len().max(other.0.len()) {
            let limb = |number: &Natural| number.0.get(place).map_or(0, |limb| u64::from(*limb));
            let value = limb(self) + limb(other) + carry;
            sum.push((value % BASE) as u32);
            carry = value / BASE;
        }
        sum.push(carry as u32);
        Natural(sum).trimmed()
    }

    /// Subtract a number that is not larger.
    pub fn minus(&self, other: &Natural) -> Natural {
        let mut borrowed = 0;
        let limbs = self.0.iter().enumerate().map(|(place, limb)| {
            let taken = other.0.get(place).map_or(0, |limb| i64::from(*limb)) + borrowed;
            let value = i64::from(*limb) - taken;
            borrowed = i64::from(value < 0);
            (value + borrowed * BASE as i64) as u32
        });
        Natural(limbs.collect()).trimmed()
    }

    pub fn times(&self, other: &Natural) -> Natural {
        let mut product = vec![0; self.0.len() + other.0.len()];
        for (place, limb) in self.0.iter().enumerate() {
            let mut carry = 0;
            for (slot, factor) in product[place..].iter_mut().zip(other.0.iter().chain([&0])) {
                let value = u64::from(*slot) + u64::from(*limb) * u64::from(*factor) + carry;
                *slot = (value % BASE) as u32;
                carry = value / BASE;
            }
        }
        Natural(product).trimmed()
    }

    /// Divide by a positive number; return the quotient and the remainder.
    pub fn divided(&self, divisor: &Natural) -> (Natural, Natural) {
        let (mut quotient, mut rest) = (vec![0; self.0.len()], Natural::default());
        for place in (0..self.0.len()).rev() {
            rest.0.insert(0, self.0[place]);
            rest = rest.trimmed();
            let digit = rest.fits(divisor);
            rest = rest.minus(&divisor.times(&Natural::from(digit)));
            quotient[place] = digit as u32;
        }
        (Natural(quotient).trimmed(), rest)
    }

    /// Return how often a divisor fits into the number, which is less than `BASE` times the divisor. We subtract a few
    /// guesses from the leading digits, none of which is too large.
    fn fits(&self, divisor: &Natural) -> u64 {
        let (mut found, mut rest) = (0, self.clone());
        while rest >= *divisor {
            let leading = |number: &Natural| {
                let limb = |place| number.0.get(place).map_or(0, |limb| u128::from(*limb));
                let last = divisor.0.len() - 1;
                let least = last.saturating_sub(1);
                let base = u128::from(BASE);
                let upper = limb(last + 1) * base + limb(last);
                if last > least {
                    upper * base + limb(least)
                } else {
                    upper
                }
            };
            let below = u128::from(divisor.0.len() > 2);
            let guess = (leading(&rest) / (leading(divisor) + below)).max(1) as u64;
            rest = rest.minus(&divisor.times(&Natural::from(guess)));
            found += guess;
        }
        found
    }

    pub fn is_multiple_of(&self, divisor: &Natural) -> bool {
        self.divided(divisor).1.is_zero()
    }

    pub fn greatest_common_divisor(&self, other: &Natural) -> Natural {
        let (mut one, mut other) = (self.clone(), other.clone());
        while !other.is_zero() {
            let rest = one.divided(&other).1;
            one = std::mem::replace(&mut other, rest);
        }
        one
    }

    pub fn least_common_multiple(&self, other: &Natural) -> Natural {
        self.times(&other.divided(&self.greatest_common_divisor(other)).0)
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Natural {
        Natural::read(text.as_bytes())
    }

    #[test]
    fn numbers_are_spelled_as_they_are_read() {
        for text in ["0", "7", "999999999", "1000000000", "123456789012345678901234567890"] {
            assert_eq!(number(text).digits(), text);
            assert_eq!(number(&format!("000{text}")), number(text));
        }
        assert_eq!(Natural::power_of_ten(20).digits(), format!("1{}", "0".repeat(20)));
        assert_eq!(number("18446744073709551615").to_u64(), Some(u64::MAX));
        assert_eq!(number("18446744073709551616").to_u64(), None);
    }

    #[test]
    fn division_undoes_multiplication() {
        let texts = [
            "1",
            "2",
            "999999999",
            "1000000001",
            "999999999999999999",
            "123456789123456789123456789",
            "5000000000000000000000000001",
        ];
        for one in texts {
            for other in texts {
                for rest in ["0", "1"] {
                    let (one, other, rest) = (number(one), number(other), number(rest));
                    let whole = one.times(&other).plus(&rest);
                    assert_eq!(whole.minus(&rest), other.times(&one));
                    if rest < other {
                        assert_eq!(whole.divided(&other), (one.clone(), rest));
                    }
                    assert!(one.least_common_multiple(&other).is_multiple_of(&other));
                    assert!(other.is_multiple_of(&one.greatest_common_divisor(&other)));
                }
            }
        }
        assert_eq!(number("84").greatest_common_divisor(&number("36")), number("12"));
        assert_eq!(number("84").least_common_multiple(&number("36")), number("252"));
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        let ordered = [
            "0",
            "3",
            "1000000000",
            "1000000001",
            "2000000000",
            "999999999999999999999",
        ];
        for pair in ordered.windows(2) {
            assert!(number(pair[0]) < number(pair[1]));
        }
    }
}
