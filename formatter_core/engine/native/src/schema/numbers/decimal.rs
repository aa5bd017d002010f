//! Decimals of limited length, and their digits.

/// Larger numbers are left to others, and those with more than `PLACES` digits after the point.
const LARGEST: u64 = 10_u64.pow(19) - 2;
const PLACES: usize = 18;
/// What follows a point is counted in this unit.
const UNIT: u64 = 10_u64.pow(PLACES as u32);

/// A decimal, with its digits before the point and after it.
#[derive(Clone, Copy, PartialEq)]
pub struct Decimal {
    pub negative: bool,
    pub whole: u64,
    pub fraction: u64,
}

impl Decimal {
    pub const ZERO: Decimal = Decimal {
        negative: false,
        whole: 0,
        fraction: 0,
    };

    /// A JSON number; None if it has many digits, or an exponent.
    pub fn read(text: &str) -> Option<Decimal> {
        let (mut whole, mut fraction, mut unit) = (0, 0, 0);
        for byte in text.bytes() {
            let digit = u64::from(byte.wrapping_sub(b'0'));
            match byte {
                b'-' => {}
                b'.' => unit = UNIT,
                b'0'..=b'9' if unit == 0 => {
                    whole = u64::checked_mul(whole, 10)?.checked_add(digit)?;
                    (whole <= LARGEST).then_some(())?;
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

    /// Whether Python writes the float with an exponent.
    pub fn has_exponent(self) -> bool {
        self.whole == 0 && self.fraction > 0 && self.fraction < UNIT / 10_000
    }

    pub fn is_zero(self) -> bool {
        self.whole == 0 && self.is_whole()
    }

    /// It in the smallest unit.
    pub fn units(self) -> i128 {
        let units = i128::from(self.whole) * i128::from(UNIT) + i128::from(self.fraction);
        if self.negative {
            -units
        } else {
            units
        }
    }

    /// The whole number below it, or above; not itself if `open`.
    pub fn nearest(self, above: bool, open: bool) -> Decimal {
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

/// Some digits, with room for a sign before them, and for a point and more digits after them.
pub struct Digits {
    digits: [u8; 48],
    first: usize,
    end: usize,
}

/// Where the digits of whole numbers end.
const MIDDLE: usize = 24;

impl Digits {
    #[inline(never)]
    pub fn of(mut number: u64) -> Digits {
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
    pub fn after_point(fraction: u64) -> Digits {
        let mut made = Digits::of(fraction);
        made.first = MIDDLE - PLACES;
        while made.end > made.first && made.digits[made.end - 1] == b'0' {
            made.end -= 1;
        }
        made
    }

    pub fn add(&mut self, text: &[u8]) {
        self.digits[self.end..self.end + text.len()].copy_from_slice(text);
        self.end += text.len();
    }

    pub fn add_minus(&mut self) {
        self.first -= 1;
        self.digits[self.first] = b'-';
    }

    pub fn text(&self) -> &[u8] {
        &self.digits[self.first..self.end]
    }
}
