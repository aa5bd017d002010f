//! The spellings in a JSON string of the texts that a pattern matches: byte for byte what `grammar/json_text.py` makes.

use crate::program::operation;
use crate::regex::{intersection, of, Kind, Node, Repeat, ALL};
use crate::schema::inside::{Inside, Part};

/// What classes are kept by, with a number; digits by their bounds, which are less.
const OF_CLASSES: u32 = u32::MAX;
/// The numbers of values of a hexadecimal digit, and of either half of a surrogate pair.
const NIBBLE: u32 = 16;
const HALF: u32 = 0x400;

type Digits = [(u32, u32); 4];

impl Inside<'_> {
    /// The spellings of the texts of a node.
    pub fn spelled(&mut self, node: &Node) {
        match node.kind() {
            Kind::Text(text) => self.text(text.as_bytes()),
            Kind::Chars(ranges) => self.class(ranges),
            Kind::Sequence(items) => self.all_spelled(operation::SEQUENCE, items),
            Kind::Choice(items) => self.all_spelled(operation::CHOICE, items),
            Kind::Repeat(Repeat {
                item,
                minimum,
                maximum,
                greedy,
            }) => {
                self.spelled(item);
                let operation = if *greedy {
                    operation::REPEAT
                } else {
                    operation::LAZY_REPEAT
                };
                self.repeat_by(operation, *minimum, maximum.map_or(0, |maximum| maximum + 1));
            }
            Kind::Intersection(items) => self.all_spelled(operation::INTERSECTION, items),
            Kind::Complement(item) => {
                self.part(Part::AnyBody);
                self.spelled(item);
                self.operation(operation::COMPLEMENT);
                self.list(operation::INTERSECTION, 2);
            }
            Kind::Capture(_, item) => self.spelled(item),
        }
    }

    fn all_spelled(&mut self, operation: u8, items: &[Node]) {
        items.iter().for_each(|item| self.spelled(item));
        self.list(operation, items.len());
    }

    /// The spellings of a character of a class.
    fn class(&mut self, ranges: &[(u32, u32)]) {
        if ranges == ALL {
            return self.part(Part::AnyChar);
        }
        let key = (OF_CLASSES, self.number_of_class(ranges));
        if self.has(key) {
            return;
        }
        let before = self.regular.size;
        let (raw_ranges, long_ranges) = self.spelling().ranges();
        let raw = intersection(ranges, raw_ranges);
        let short = self.spelling().short_escapes();
        let short = short.filter(|(code, _)| ranges.iter().any(|(low, high)| (*low..=*high).contains(code)));
        let short = of(short.map(|(_, letter)| (letter.into(), letter.into())));
        let mut long = Vec::new();
        for (low, high) in ranges {
            for part in long_ranges {
                let cut = (part.0.max(*low), part.1.min(*high));
                long.extend((cut.0 <= cut.1).then_some(cut));
            }
        }
        if !raw.is_empty() {
            self.raw_chars(&raw);
        }
        let has_long = !long.is_empty() || raw.is_empty() && short.is_empty();
        if !has_long && short.is_empty() {
            return self.keep(key, before);
        }
        self.bytes(b"\\");
        if !short.is_empty() {
            self.chars(&short);
        }
        if has_long {
            self.long_escapes(&long);
        }
        self.one_of(usize::from(has_long) + usize::from(!short.is_empty()));
        self.list(operation::SEQUENCE, 2);
        self.one_of(1 + usize::from(!raw.is_empty()));
        self.keep(key, before);
    }

    fn long_escapes(&mut self, ranges: &[(u32, u32)]) {
        self.bytes(b"u");
        let mut options = 0;
        for (low, high) in ranges {
            if *low <= 0xffff {
                options += self.products(*low, (*high).min(0xffff), NIBBLE);
            }
            if *high > 0xffff {
                options += self.products((*low).max(0x1_0000) - 0x1_0000, high - 0x1_0000, HALF);
            }
        }
        match options {
            0 => self.part(Part::Nothing),
            _ => self.one_of(options),
        }
        self.list(operation::SEQUENCE, 2);
    }

    fn one_of(&mut self, options: usize) {
        if options > 1 {
            self.list(operation::CHOICE, options);
        }
    }

    /// The numbers between two, as hexadecimal digits or pairs of surrogates; how many alternatives these are.
    fn products(&mut self, low: u32, high: u32, base: u32) -> usize {
        let mut digits = [(0, base - 1); 4];
        let place = if base == NIBBLE { 0 } else { 2 };
        self.product((low, high), place, &mut digits, base)
    }

    /// The same for the digits from a place on, behind those that are known.
    fn product(&mut self, bounds: (u32, u32), place: usize, digits: &mut Digits, base: u32) -> usize {
        let any = digits[place];
        let size = base.pow(3 - place as u32);
        let (mut first, mut last) = (bounds.0 / size, bounds.1 / size);
        let (low, high) = (bounds.0 % size, bounds.1 % size);
        let mut options = 0;
        if place < 3 && first == last {
            digits[place] = (first, last);
            options = self.product((low, high), place + 1, digits, base);
            digits[place] = any;
            return options;
        }
        if low > 0 {
            digits[place] = (first, first);
            options += self.product((low, size - 1), place + 1, digits, base);
            first += 1;
        }
        let end = last;
        let is_cut = high < size - 1;
        last -= u32::from(is_cut);
        if first <= last {
            digits[place] = (first, last);
            self.product_of(digits, base);
            options += 1;
        }
        if is_cut {
            digits[place] = (end, end);
            options += self.product((0, high), place + 1, digits, base);
        }
        digits[place] = any;
        options
    }

    fn product_of(&mut self, digits: &Digits, base: u32) {
        if base == NIBBLE {
            for digit in digits {
                self.nibble(*digit);
            }
            return self.list(operation::SEQUENCE, 4);
        }
        let [_, _, lead, trail] = *digits;
        for (place, (low, high)) in [(0xd800, lead), (0xdc00, trail)] {
            if place > 0xd800 {
                self.bytes(b"\\u");
            }
            let options = self.products(place + low, place + high, NIBBLE);
            self.one_of(options);
        }
        self.list(operation::SEQUENCE, 3);
    }

    /// A hexadecimal digit in either case.
    fn nibble(&mut self, digit: (u32, u32)) {
        let (low, high) = digit;
        let key = (low, high);
        if self.has(key) {
            return;
        }
        let mut ranges = [(0x30 + low, 0x30 + high.min(9)); 3];
        for (range, first) in ranges[1..].iter_mut().zip([0x41, 0x61]) {
            *range = (first + low.max(10) - 10, first + high.max(10) - 10);
        }
        let first = usize::from(low > 9);
        let end = if high > 9 { 3 } else { 1 };
        let before = self.regular.size;
        self.chars(&ranges[first..end]);
        self.keep(key, before);
    }
}
