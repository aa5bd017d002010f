//! Exact sets of JSON numbers.
//!
//! A set lies between two bounds, or lists its members. The intersection of two sets is one set, with the stricter
//! bounds and the least common multiple of the steps. The complement of a set is a union of as many sets as the set has
//! constraints. Both take linear time in the constraints and the listed members. An automaton of bounded size decides
//! whether a set is empty.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::decimal::Decimal;
use super::multiples::Steps;
use crate::base::tuning::{MAX_LISTED_MULTIPLES, MAX_MULTIPLE_STATES};

/// A set of integers without other constraints is listed if it has at most this many members, plus one.
const INTEGERS_LISTED: u64 = 2;

/// A set that contains the numbers between two bounds that are multiples of `multiple` and of no number in
/// `not_multiples`.
///
/// If there are `values`, they list the members, and the other fields have no effect except `pointed`. `pointed` tells
/// whether the members, which are then whole numbers, are spelled with a fraction: for draft 4 the number 2 is an
/// integer and 2.0 is not. If it is None, the set contains both spellings. `excluded` are single numbers. `is_step`
/// tells that `values` come from steps and bounds instead of a list in the schema; then zeros may follow a fraction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NumberSet {
    pub low: Option<Decimal>,
    pub high: Option<Decimal>,
    pub low_open: bool,
    pub high_open: bool,
    pub multiple: Option<Decimal>,
    pub not_multiples: Vec<Decimal>,
    pub excluded: BTreeSet<Decimal>,
    pub values: Option<Vec<Decimal>>,
    pub pointed: Option<bool>,
    pub is_step: bool,
}

impl NumberSet {
    pub fn any() -> Self {
        NumberSet::default()
    }

    pub fn any_integer() -> Self {
        NumberSet::multiples_of(Decimal::from(1))
    }

    pub fn multiples_of(step: Decimal) -> Self {
        NumberSet {
            multiple: Some(step),
            ..NumberSet::default()
        }
    }

    pub fn of_values(values: Vec<Decimal>) -> Self {
        NumberSet {
            values: Some(values),
            ..NumberSet::default()
        }
    }

    pub fn is_any(&self) -> bool {
        *self == NumberSet::default()
    }

    pub fn is_any_integer(&self) -> bool {
        self.is_whole() && *self == NumberSet::any_integer()
    }

    /// Return whether the step is 1.
    pub fn is_whole(&self) -> bool {
        self.multiple.as_ref().is_some_and(Decimal::is_one)
    }

    pub fn contains(&self, value: &Decimal) -> bool {
        if let Some(values) = &self.values {
            return values.contains(value);
        }
        let is_low = self
            .low
            .as_ref()
            .is_some_and(|low| value < low || self.low_open && value == low);
        let is_high = self
            .high
            .as_ref()
            .is_some_and(|high| value > high || self.high_open && value == high);
        !is_low
            && !is_high
            && self.multiple.as_ref().map_or(true, |step| value.is_multiple_of(step))
            && !self.not_multiples.iter().any(|step| value.is_multiple_of(step))
            && !self.excluded.contains(value)
    }

    /// Return the intersection; None if it is certainly empty.
    pub fn meet(&self, other: &NumberSet) -> Option<NumberSet> {
        if self.is_any() {
            return Some(other.clone());
        }
        if other.is_any() {
            return Some(self.clone());
        }
        let pointed = self.pointed.or(other.pointed);
        if self.pointed.is_some() && other.pointed.is_some() && self.pointed != other.pointed {
            return None;
        }
        if self.values.is_some() || other.values.is_some() {
            let (first, second) = if self.values.is_some() {
                (self, other)
            } else {
                (other, self)
            };
            let mut kept = first.values.clone().unwrap_or_default();
            kept.retain(|value| second.contains(value));
            let is_step = first.is_step && (second.values.is_none() || second.is_step);
            return NumberSet::listed(kept, pointed, is_step);
        }
        let (low, low_open) = stricter(
            (&self.low, self.low_open),
            (&other.low, other.low_open),
            Ordering::Greater,
        );
        let (high, high_open) = stricter(
            (&self.high, self.high_open),
            (&other.high, other.high_open),
            Ordering::Less,
        );
        let multiple = match (&self.multiple, &other.multiple) {
            (Some(one), Some(other)) => Some(one.least_common_multiple(other)),
            (one, other) => one.as_ref().or(other.as_ref()).cloned(),
        };
        let made = NumberSet {
            low,
            high,
            low_open,
            high_open,
            multiple,
            not_multiples: least_steps(self.not_multiples.iter().chain(&other.not_multiples)),
            excluded: self.excluded.union(&other.excluded).cloned().collect(),
            values: None,
            pointed,
            is_step: false,
        };
        made.narrowed()
    }

    /// Return the numbers outside the set, as a union.
    pub fn others(&self) -> Vec<NumberSet> {
        let mut found = Vec::new();
        if let Some(pointed) = self.pointed {
            // A whole number in its other spelling.
            found.push(NumberSet {
                pointed: Some(!pointed),
                ..NumberSet::any_integer()
            });
        }
        if let Some(values) = &self.values {
            found.push(NumberSet {
                excluded: values.iter().cloned().collect(),
                ..NumberSet::default()
            });
            return found;
        }
        if let Some(low) = &self.low {
            found.push(NumberSet {
                high: Some(low.clone()),
                high_open: !self.low_open,
                ..NumberSet::default()
            });
        }
        if let Some(high) = &self.high {
            found.push(NumberSet {
                low: Some(high.clone()),
                low_open: !self.high_open,
                ..NumberSet::default()
            });
        }
        if let Some(step) = &self.multiple {
            found.push(NumberSet {
                not_multiples: vec![step.clone()],
                ..NumberSet::default()
            });
        }
        found.extend(self.not_multiples.iter().cloned().map(NumberSet::multiples_of));
        if !self.excluded.is_empty() {
            found.push(NumberSet::of_values(self.excluded.iter().cloned().collect()));
        }
        found
    }

    /// Return the set, listed if it is small; None if it is certainly empty.
    pub fn narrowed(self) -> Option<NumberSet> {
        if let Some(step) = &self.multiple {
            if self.not_multiples.iter().any(|other| step.is_multiple_of(other)) {
                return None;
            }
        }
        let (Some(low), Some(high)) = (&self.low, &self.high) else {
            return Some(self);
        };
        if low > high || low == high && (self.low_open || self.high_open) {
            return None;
        }
        let Some(step) = &self.multiple else {
            if low != high {
                return Some(self);
            }
            let listed = NumberSet {
                pointed: self.pointed,
                ..NumberSet::of_values(vec![low.clone()])
            };
            return self.contains(low).then_some(listed);
        };
        let first = low.next_multiple(step);
        let has_more_than = |count: u64| first.plus(&step.times(count + 1)) <= *high;
        let is_plain = step.is_one() && self.excluded.is_empty() && self.not_multiples.is_empty();
        let most = if is_plain {
            INTEGERS_LISTED
        } else {
            MAX_LISTED_MULTIPLES
        };
        if has_more_than(most) {
            return Some(self);
        }
        let mut kept = Vec::new();
        let mut value = first;
        while value <= *high {
            let next = value.plus(step);
            if self.contains(&value) {
                kept.push(value);
            }
            value = next;
        }
        NumberSet::listed(kept, self.pointed, true)
    }

    fn listed(values: Vec<Decimal>, pointed: Option<bool>, is_step: bool) -> Option<NumberSet> {
        let is_step = is_step && !values.iter().all(Decimal::is_whole);
        (!values.is_empty()).then_some(NumberSet {
            values: Some(values),
            pointed,
            is_step,
            ..NumberSet::default()
        })
    }

    /// Return whether more than `MAX_MULTIPLE_STATES` states are needed to distinguish the multiples of the steps.
    pub fn has_large_steps(&self) -> bool {
        let steps = self
            .multiple
            .iter()
            .chain(&self.not_multiples)
            .filter(|step| !step.is_one());
        let steps: Vec<&Decimal> = steps.collect();
        if steps.is_empty() || self.values.is_some() {
            return false;
        }
        let length = |bound: &Option<Decimal>| bound.as_ref().map_or(1, Decimal::length);
        let digits = length(&self.low).max(length(&self.high)) as u64;
        digits.saturating_mul(Steps::of(&steps).states(MAX_MULTIPLE_STATES)) > MAX_MULTIPLE_STATES
    }
}

/// Return the bound that excludes more: the bound on the given side of the other one, or the open one if they are
/// equal.
fn stricter(one: (&Option<Decimal>, bool), other: (&Option<Decimal>, bool), side: Ordering) -> (Option<Decimal>, bool) {
    let other_is_stricter = match (one.0, other.0) {
        (Some(first), Some(second)) => match second.cmp(first) {
            Ordering::Equal => other.1 && !one.1,
            order => order == side,
        },
        (None, Some(_)) => true,
        (Some(_), None) => false,
        (None, None) => other.1 && !one.1,
    };
    let (bound, is_open) = if other_is_stricter { other } else { one };
    (bound.clone(), is_open)
}

/// Return the steps that are not multiples of others: a number that is no multiple of a step is no multiple of its
/// multiples.
fn least_steps<'a>(steps: impl Iterator<Item = &'a Decimal>) -> Vec<Decimal> {
    let mut found: Vec<Decimal> = Vec::new();
    for step in steps.collect::<BTreeSet<_>>() {
        if !found.iter().any(|other| step.is_multiple_of(other)) {
            found.push(step.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_set_of_numbers() {
        let [two, three, six, eight] = [2, 3, 6, 8].map(Decimal::from);
        let even = NumberSet::multiples_of(two);
        let both = even.meet(&NumberSet::multiples_of(three)).unwrap();
        assert!(both.contains(&six) && !both.contains(&eight));
        assert_eq!(
            even.meet(&NumberSet::of_values(vec![six.clone()])),
            Some(NumberSet::of_values(vec![six]))
        );
    }
}
