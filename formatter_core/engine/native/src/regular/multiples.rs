//! The decimals that are multiples of a step, as an automaton whose states are computed, not listed.
//!
//! A decimal is a multiple of `step / 10^places` if its digits, with the point moved `places` to the right, form a
//! multiple of `step`. Reading from the left, a state records how many digits may still come and which number they must
//! form modulo `step`. Trailing zeros of a step are counted separately, so that the step itself is small.

/// A position in a plain JSON decimal that must be a multiple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Multiples {
    step: u32,
    places: u16,
    zeros: u16,
    stage: Stage,
    /// The number of further digits; as a number, they must equal `wanted` modulo `step`.
    ///
    /// After the point, these are all remaining digits that count. Before the point, they are the places after the
    /// point. If there are no places, they are the fewest digits that make a multiple, so that states with the same
    /// future are one state; they then include the zeros, and `wanted` is the number before the zeros.
    digits: u16,
    wanted: u32,
    /// Number of digits that may still come before the point; `ANY_DIGITS` for no limit, and 0 if none can come.
    left: u16,
}

/// The value of `left` that means no limit.
const ANY_DIGITS: u16 = u16::MAX;

/// The last part that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Start,
    Sign,
    Zero,
    Whole,
    Point,
    Fraction,
}

impl Multiples {
    /// Begin a decimal. `step` must be above 0, and `places` or `zeros` must be 0; `whole` is the maximum number of
    /// digits before the point, 0 for no limit.
    pub fn new(step: u32, places: u16, zeros: u16, whole: u16) -> Self {
        Multiples {
            step,
            places,
            zeros,
            stage: Stage::Start,
            digits: places,
            wanted: 0,
            left: if whole == 0 { ANY_DIGITS } else { whole },
        }
    }

    /// Return whether the decimal that was read is a multiple.
    pub fn accepts(&self) -> bool {
        match self.stage {
            Stage::Whole => self.wanted == 0 && self.digits == self.places,
            Stage::Zero | Stage::Fraction => self.wanted == 0,
            Stage::Start | Stage::Sign | Stage::Point => false,
        }
    }

    /// Return the state after a byte, or None if the byte leads to no multiple.
    pub fn after(&self, byte: u8) -> Option<Self> {
        let moved = |stage, digits, wanted| Multiples {
            stage,
            digits,
            wanted,
            left: 0,
            ..*self
        };
        let Multiples { digits, wanted, .. } = *self;
        match (self.stage, byte) {
            (Stage::Start, b'-') => Some(Multiples {
                stage: Stage::Sign,
                ..*self
            }),
            (Stage::Start | Stage::Sign, b'0') => Some(moved(Stage::Zero, digits, wanted)),
            (Stage::Start | Stage::Sign, b'1'..=b'9') | (Stage::Whole, b'0'..=b'9') => self.after_whole(byte - b'0'),
            (Stage::Zero | Stage::Whole, b'.') if digits == self.places && is_below(wanted, digits) => {
                Some(moved(Stage::Point, digits, wanted))
            }
            (Stage::Point | Stage::Fraction, b'0') if digits == 0 => Some(moved(Stage::Fraction, 0, 0)),
            (Stage::Point | Stage::Fraction, b'0'..=b'9') if digits > 0 => {
                let rest = self.less(wanted, byte - b'0', digits - 1);
                is_below(rest, digits - 1).then(|| moved(Stage::Fraction, digits - 1, rest))
            }
            _ => None,
        }
    }

    /// Return the number of bytes to the nearest multiple, if it is easy to compute.
    pub fn missing(&self) -> Option<u32> {
        match self.stage {
            _ if self.accepts() => Some(0),
            Stage::Start | Stage::Sign => Some(1),
            Stage::Whole if self.places == 0 => Some(self.digits.into()),
            Stage::Point if self.wanted == 0 => Some(1),
            _ => None,
        }
    }

    /// Return an upper bound of the number of bytes to a multiple from any state: the number of digits of the step with
    /// its zeros, or the number of places.
    pub fn farthest(&self) -> u32 {
        1 + u32::from(self.places).max(1 + self.step.ilog10() + u32::from(self.zeros))
    }

    fn after_whole(&self, digit: u8) -> Option<Self> {
        let (digits, wanted) = self.whole(digit);
        let left = if self.left == ANY_DIGITS {
            ANY_DIGITS
        } else {
            let needed = if self.places > 0 {
                self.enough(wanted, digits).0 - digits
            } else {
                digits
            };
            self.left.checked_sub(1).filter(|left| needed <= *left)?
        };
        Some(Multiples {
            stage: Stage::Whole,
            digits,
            wanted,
            left,
            ..*self
        })
    }

    /// Return the number of digits that may follow `digit` before the point, and the number that they must form.
    fn whole(&self, digit: u8) -> (u16, u32) {
        if self.places > 0 {
            return (self.places, self.less(self.times_ten(self.wanted), digit, self.places));
        }
        if self.digits <= self.zeros && digit == 0 {
            return (self.digits.saturating_sub(1), 0);
        }
        let fewer = self.digits.saturating_sub(1 + self.zeros);
        let (fewer, wanted) = self.enough(self.less(self.wanted, digit, fewer), fewer);
        (fewer + self.zeros, wanted)
    }

    /// Return the least number of digits, at least `digits`, that can form the wanted number modulo the step, and that
    /// number.
    fn enough(&self, mut wanted: u32, mut digits: u16) -> (u16, u32) {
        while !is_below(wanted, digits) {
            digits += 1;
            wanted = self.times_ten(wanted);
        }
        (digits, wanted)
    }

    /// Return `wanted - digit * 10^digits`, modulo the step.
    fn less(&self, wanted: u32, digit: u8, digits: u16) -> u32 {
        let place = (0..digits).fold(1 % self.step, |power, _| self.times_ten(power));
        let (step, taken) = (u64::from(self.step), u64::from(digit) * u64::from(place));
        ((u64::from(wanted) + step - taken % step) % step) as u32
    }

    fn times_ten(&self, value: u32) -> u32 {
        (10 * u64::from(value) % u64::from(self.step)) as u32
    }
}

/// Return whether a number has at most `digits` digits.
fn is_below(value: u32, digits: u16) -> bool {
    10u64
        .checked_pow(digits.into())
        .map_or(true, |power| u64::from(value) < power)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return the number of bytes to the nearest multiple, found by trying all bytes.
    fn nearest(state: Multiples) -> u32 {
        let mut level = vec![state];
        for bytes in 0.. {
            if level.iter().any(Multiples::accepts) {
                return bytes;
            }
            let following = level
                .iter()
                .flat_map(|each| (0..=255).filter_map(|byte| each.after(byte)));
            level = following.collect();
        }
        u32::MAX
    }

    #[test]
    fn multiples_and_nothing_else_are_accepted() {
        for (step, places, zeros) in [
            (7, 0, 0),
            (1, 0, 3),
            (24, 0, 0),
            (12, 0, 2),
            (7, 0, 1),
            (1, 2, 0),
            (7, 1, 0),
            (125, 4, 0),
            (12, 1, 0),
        ] {
            let scale = 10i64.pow(places.into());
            for thousandths in 0..40_000i64 {
                let (whole, fraction) = (thousandths / 1000, thousandths % 1000);
                let mut texts = vec![format!("{whole}.{fraction:03}0")];
                if fraction == 0 {
                    texts.push(format!("-{whole}"));
                }
                let whole_step = i64::from(step) * 10i64.pow(zeros.into());
                let is_multiple = (thousandths * scale) % (1000 * whole_step) == 0;
                for text in texts {
                    let mut state = Some(Multiples::new(step, places, zeros, 0));
                    for byte in text.bytes() {
                        state = state.and_then(|state| state.after(byte));
                        let missing = state.and_then(|state| state.missing());
                        if missing.is_some() && thousandths % 197 == 0 {
                            assert_eq!(missing, state.map(nearest), "{text} of {step}");
                        }
                    }
                    assert_eq!(
                        state.is_some_and(|state| state.accepts()),
                        is_multiple,
                        "{text} of {step}"
                    );
                }
            }
        }
    }

    #[test]
    fn digits_before_the_point_are_bounded_and_no_state_is_without_an_end() {
        for (step, places, zeros) in [(7, 0, 0), (24, 0, 0), (12, 0, 1), (97, 0, 0), (7, 1, 0), (999, 1, 0)] {
            for most in 1..3u16 {
                let mut level = vec![(Multiples::new(step, places, zeros, most), 0)];
                while let Some((state, digits)) = level.pop() {
                    assert!(digits <= most, "{state:?}");
                    assert_ne!(nearest(state), u32::MAX, "{state:?}");
                    for digit in b'0'..=b'9' {
                        let next = state.after(digit).filter(|next| next.stage == Stage::Whole);
                        level.extend(next.map(|next| (next, digits + 1)));
                    }
                }
            }
        }
    }

    #[test]
    fn only_plain_decimals_are_read() {
        for text in ["01", "--1", "1.", ".5", "1e3", "", "-", "1.0.0", "+7"] {
            let start = Some(Multiples::new(1, 3, 0, 0));
            let end = text
                .bytes()
                .fold(start, |state, byte| state.and_then(|state| state.after(byte)));
            assert!(!end.is_some_and(|state| state.accepts()), "{text}");
        }
    }

    #[test]
    fn example_multiples_of_seven() {
        let after = |text: &str| {
            text.bytes()
                .try_fold(Multiples::new(7, 0, 0, 0), |state, byte| state.after(byte))
        };
        assert!(after("21").is_some_and(|state| state.accepts()));
        // "22" is no multiple of 7, but "224" is.
        assert!(after("22").is_some_and(|state| !state.accepts()));
        assert!(after("224").is_some_and(|state| state.accepts()));
        assert_eq!(after("x"), None);
    }
}
