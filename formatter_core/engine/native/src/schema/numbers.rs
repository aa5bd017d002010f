//! Sets of numbers that schemas list or bound, and their intersections.

mod decimal;
mod written;

pub use decimal::Decimal;

use crate::schema::json::{Tree, Value};

/// As many whole numbers, and one more, are listed one by one.
const MOST_LISTED: usize = 2;

#[derive(Clone, Copy, PartialEq)]
pub struct Bound {
    value: Decimal,
    open: bool,
}

const ZERO: Bound = Bound {
    value: Decimal::ZERO,
    open: false,
};

/// Numbers between bounds, or whole ones; `plain` ones have no point.
#[derive(Clone, Copy, PartialEq)]
pub struct Interval {
    low: Option<Bound>,
    high: Option<Bound>,
    pub whole: bool,
    pub plain: bool,
}

#[derive(Clone, PartialEq)]
pub enum Numbers {
    /// These, in this order; whole ones have no point if `plain`.
    Listed {
        values: Vec<Decimal>,
        plain: bool,
    },
    Between(Interval),
}

impl Interval {
    pub const ALL: Interval = Interval {
        low: None,
        high: None,
        whole: false,
        plain: false,
    };

    pub fn whole(plain: bool) -> Interval {
        Interval {
            whole: true,
            plain,
            ..Interval::ALL
        }
    }

    /// What the keywords for bounds say; None if it is left to others.
    pub fn read(tree: &Tree, schema: u32, draft: u32) -> Option<Interval> {
        let low = bound(tree, schema, ["minimum", "exclusiveMinimum"], draft, true)?;
        let high = bound(tree, schema, ["maximum", "exclusiveMaximum"], draft, false)?;
        (low.is_some() || high.is_some()).then_some(Interval {
            low,
            high,
            ..Interval::ALL
        })
    }

    pub fn is_bounded(self) -> bool {
        self.low.is_some() || self.high.is_some()
    }

    fn contains(self, value: Decimal) -> bool {
        let is_beyond = |bound: Option<Bound>, above: bool| {
            bound.is_some_and(|bound| {
                bound.open && value == bound.value
                    || value != bound.value && (value.units() < bound.value.units()) == above
            })
        };
        !is_beyond(self.low, true) && !is_beyond(self.high, false) && (!self.whole || value.is_whole())
    }

    /// The same numbers, listed if they are few; None if there are none.
    pub fn narrowed(self) -> Option<Numbers> {
        let (Some(low), Some(high)) = (self.low, self.high) else {
            return Some(Numbers::Between(self));
        };
        let is_one = low.value == high.value;
        (low.value.units() <= high.value.units() && !(is_one && (low.open || high.open))).then_some(())?;
        let mut values = vec![low.value];
        if self.whole {
            let mut value = low.value.nearest(true, false);
            values = vec![value];
            for _ in 0..MOST_LISTED {
                value = value.nearest(true, true);
                values.push(value);
            }
            if value.units() < high.value.nearest(false, false).units() {
                return Some(Numbers::Between(self));
            }
            values.retain(|value| self.contains(*value));
        } else if !is_one {
            return Some(Numbers::Between(self));
        }
        let plain = self.plain;
        (!values.is_empty()).then_some(Numbers::Listed { values, plain })
    }

    fn met(self, other: Interval) -> Option<Numbers> {
        Interval {
            low: stricter(self.low, other.low, true),
            high: stricter(self.high, other.high, false),
            whole: self.whole || other.whole,
            plain: self.plain || other.plain,
        }
        .narrowed()
    }
}

impl Numbers {
    /// Whether they are all of a type.
    pub fn is_any_of_type(&self) -> bool {
        matches!(self, Numbers::Between(interval) if !interval.is_bounded())
    }

    /// Whether some are listed that are spelled with an exponent.
    pub fn have_exponents(&self) -> bool {
        matches!(self, Numbers::Listed { values, .. } if values.iter().any(|value| value.has_exponent()))
    }

    pub fn is_any(&self) -> bool {
        *self == Numbers::Between(Interval::ALL)
    }

    /// The numbers of both; None if there are none.
    pub fn met(&self, other: &Numbers) -> Option<Numbers> {
        let (listed, own, plain) = match (self, other) {
            (Numbers::Between(one), Numbers::Between(other)) => return one.met(*other),
            (Numbers::Listed { values, plain }, other) => (other, values, *plain),
            (other, Numbers::Listed { values, plain }) => (other, values, *plain),
        };
        let (is_in, more): (&dyn Fn(&Decimal) -> bool, bool) = match listed {
            Numbers::Between(interval) => (&|value| interval.contains(*value), interval.plain),
            Numbers::Listed { values, plain } => (&|value| values.contains(value), *plain),
        };
        let values: Vec<Decimal> = own.iter().copied().filter(is_in).collect();
        let plain = plain || more;
        (!values.is_empty()).then_some(Numbers::Listed { values, plain })
    }
}

/// The one of two bounds that excludes more.
fn stricter(one: Option<Bound>, other: Option<Bound>, above: bool) -> Option<Bound> {
    match (one, other) {
        (Some(one), Some(other)) if one.value == other.value => Some(if one.open { one } else { other }),
        (Some(one), Some(other)) if (one.value.units() < other.value.units()) == above => Some(other),
        (one, other) => one.or(other),
    }
}

/// The bound that two keywords set together, if any; None if it is left to others.
#[inline(never)]
fn bound(tree: &Tree, schema: u32, names: [&str; 2], draft: u32, above: bool) -> Option<Option<Bound>> {
    let mut found: Option<Bound> = None;
    for (place, name) in names.iter().enumerate() {
        let Some(value) = tree.get(schema, name) else {
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
