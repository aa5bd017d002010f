//! Steps of multiples, and the number of states that distinguish their multiples from other decimals.
//!
//! See `crate::regular::multiples` for the automaton: its states are the remainders that later digits may still
//! complete.

use super::decimal::Decimal;
use super::natural::Natural;
use crate::regular::regex::Node;

/// A step of multiples: a whole number without trailing zeros, and the places after the point.
pub struct Step<'a> {
    digits: &'a Natural,
    /// Negative for a step that ends with zeros.
    places: i32,
}

impl<'a> Step<'a> {
    pub fn of(step: &'a Decimal) -> Self {
        let (digits, exponent) = step.parts();
        Step {
            digits,
            places: -exponent,
        }
    }

    /// Make the multiples with at most `digits` digits before the point; 0 means any number of digits. A step that does
    /// not fit into 64 bits counts as large, see `NumberSet::has_large_steps`, and is never written.
    pub fn node(&self, digits: usize) -> Node {
        Node::multiples(self.digits.to_u64().unwrap_or(u64::MAX), self.places, digits as u32)
    }

    /// Estimate the number of states for each number of remaining digits, without the states from which only zeros lead
    /// on.
    ///
    /// If there are more states than `most`, the result is some number above `most`.
    pub fn states(&self, most: u64) -> u64 {
        let ten = Natural::from(10);
        let (mut count, mut power, mut digits) = (0_u64, Natural::from(1), 0);
        while count <= most {
            let shared = power.greatest_common_divisor(self.digits);
            let (whole, rest) = power.clone().min(self.digits.clone()).divided(&shared);
            count = count
                .saturating_add(saturated(&whole))
                .saturating_add(u64::from(!rest.is_zero()));
            if digits >= self.places && (self.places > 0 || power >= *self.digits) {
                break;
            }
            digits += 1;
            power = power.times(&ten);
        }
        if self.places > 0 {
            let shared = power.greatest_common_divisor(self.digits);
            return count.saturating_add(saturated(&self.digits.divided(&shared).0));
        }
        count.min(saturated(self.digits))
    }
}

/// Several steps of one set.
pub struct Steps<'a>(Vec<Step<'a>>);

impl<'a> Steps<'a> {
    pub fn of(steps: &[&'a Decimal]) -> Self {
        Steps(steps.iter().map(|step| Step::of(step)).collect())
    }

    /// Estimate the states that distinguish the multiples of all steps, for each number of digits before the point.
    pub fn states(&self, most: u64) -> u64 {
        let places = self.0.iter().map(|step| step.places).max().unwrap_or(0);
        let aligned = |step: &Step| {
            step.digits
                .times(&Natural::power_of_ten((places - step.places) as usize))
        };
        let remainders = self
            .0
            .iter()
            .map(aligned)
            .reduce(|one, other| one.least_common_multiple(&other));
        let remainders = saturated(&remainders.unwrap_or_default());
        let counts = self.0.iter().map(|step| step.states(most));
        let product = counts.fold(1_u64, u64::saturating_mul);
        product.min(remainders.saturating_mul(1 + u64::from(places.max(0).unsigned_abs())))
    }
}

fn saturated(number: &Natural) -> u64 {
    number.to_u64().unwrap_or(u64::MAX)
}
