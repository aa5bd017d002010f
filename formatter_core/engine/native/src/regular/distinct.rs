//! Distinct values: those that may come only once in a list. This module records the values that have come, finds the
//! value that a text begins with, and makes terms for the spellings of values.
//!
//! The next value matches its terminal's term without the spellings of the values that have come.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::size_of;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::base::hash::FastMap;
use crate::base::heap::{self, Counted, Counter};
use crate::base::limits::{Meter, Outcome};
use crate::base::order::pair;
use crate::base::tuning::MAX_FREE_STRING_STATES;
use crate::regular::derive::Derivatives;
use crate::regular::term::{self, Term, Terms, EMPTY, EVERYTHING, NOTHING, UNBOUNDED};

/// The value at the beginning of a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A JSON string, decoded. The text after its closing quote is ignored.
    Text(Box<str>),
    /// A plain decimal, without redundant zeros.
    Number(Box<str>),
    /// Any other text.
    Other(Box<[u8]>),
}

impl Value {
    pub fn of(text: &[u8]) -> Self {
        match text.first() {
            Some(b'"') => decoded(&text[1..]).map(|text| Value::Text(text.into())),
            _ => decimal(text).map(|digits| Value::Number(digits.into())),
        }
        .unwrap_or_else(|| Value::Other(text.into()))
    }

    /// Return whether a text begins with this value.
    pub fn begins(&self, text: &[u8]) -> bool {
        // Most texts are other strings without escapes, which need no decoding.
        let may_begin = match self {
            Value::Text(own) if !text.contains(&b'\\') => {
                let rest = text
                    .strip_prefix(b"\"")
                    .and_then(|rest| rest.strip_prefix(own.as_bytes()));
                rest.is_some_and(|rest| rest.first() == Some(&b'"'))
            }
            _ => true,
        };
        may_begin && *self == Value::of(text)
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        match self {
            Value::Text(text) | Value::Number(text) => text.len(),
            Value::Other(text) => text.len(),
        }
    }

    fn kind(&self) -> usize {
        match self {
            Value::Text(_) => kind_of_first(b'"'),
            Value::Number(_) => kind_of_first(b'0'),
            Value::Other(text) => kind_of_first(text.first().copied().unwrap_or_default()),
        }
    }
}

/// Return the kind of a value by its first byte: a quote, a byte that may begin a number, or another byte. Equal values
/// have the same kind.
pub fn kind_of_first(byte: u8) -> usize {
    match byte {
        b'"' => 0,
        b'-' | b'0'..=b'9' => 1,
        _ => 2,
    }
}

/// Decode a JSON string up to its closing quote.
fn decoded(text: &[u8]) -> Option<String> {
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    })?;
    let mut rest = std::str::from_utf8(&text[..end]).ok()?.chars();
    let mut found = String::new();
    while let Some(next) = rest.next() {
        let unit = match next {
            '\\' => match rest.next()? {
                'b' => 8,
                'f' => 12,
                'n' => 10,
                'r' => 13,
                't' => 9,
                'u' => hexadecimal(&mut rest)?,
                other => u32::from(Some(other).filter(|other| matches!(other, '"' | '\\' | '/'))?),
            },
            _ => u32::from(Some(next).filter(|next| *next >= ' ')?),
        };
        found.push(match unit {
            0xd800..=0xdbff => {
                let low = (rest.next()? == '\\' && rest.next()? == 'u').then(|| hexadecimal(&mut rest))??;
                let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                char::from_u32(0x10000 + ((unit - 0xd800) << 10) + low)?
            }
            _ => char::from_u32(unit)?,
        });
    }
    Some(found)
}

fn hexadecimal(digits: &mut std::str::Chars) -> Option<u32> {
    (0..4).try_fold(0, |number, _| Some(number << 4 | digits.next()?.to_digit(16)?))
}

/// Return a plain decimal without redundant zeros.
fn decimal(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || whole.len() > 1 && whole.starts_with('0') {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let sign = if digits.len() < text.len() && (whole != "0" || !fraction.is_empty()) {
        "-"
    } else {
        ""
    };
    let point = if fraction.is_empty() { "" } else { "." };
    Some([sign, whole, point, fraction].concat())
}

/// A set of texts, as a tree of shared prefixes. A change copies the path to the changed node.
#[derive(Debug)]
struct Node {
    /// The common prefix of the texts below, without the labels of the nodes above.
    label: Box<str>,
    /// Tells whether a text ends here.
    is_end: bool,
    /// The child nodes, sorted by their first characters.
    below: Vec<Arc<Node>>,
    /// The term for the spellings of the label and what may follow it, with the id of the terms that it belongs to (see
    /// `Derivatives::id`).
    term: AtomicU64,
    memory: Counted,
}

impl Node {
    /// Return a copy of the node with one more text, which must begin with the label.
    fn with(&self, text: &str) -> Node {
        let mut below = self.below.clone();
        let rest = &text[self.label.len()..];
        let Some(first) = rest.chars().next() else {
            return self.like(&self.label, true, below);
        };
        match self.place(first) {
            Err(place) => below.insert(place, Arc::new(self.like(rest, true, Vec::new()))),
            Ok(place) => {
                let next = &below[place];
                let pairs = next.label.char_indices().zip(rest.chars());
                let common = pairs.take_while(|((_, one), other)| one == other).last();
                let end = common.map_or(0, |((start, one), _)| start + one.len_utf8());
                let changed = match end == next.label.len() {
                    true => next.with(rest),
                    false => {
                        let later = self.like(&next.label[end..], next.is_end, next.below.clone());
                        self.like(&rest[..end], false, vec![Arc::new(later)]).with(rest)
                    }
                };
                below[place] = Arc::new(changed);
            }
        }
        self.like(&self.label, self.is_end, below)
    }

    /// Return an estimate of the bytes on the path to a text.
    fn bytes_to(&self, text: &str) -> usize {
        let own = size_of::<Node>() + 16 + self.label.len() + size_of::<Arc<Node>>() * self.below.len();
        let rest = text.strip_prefix(&*self.label).unwrap_or_default();
        let next = rest.chars().next().and_then(|first| self.place(first).ok());
        own + next.map_or(0, |place| self.below[place].bytes_to(rest))
    }

    fn contains(&self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix(&*self.label) else {
            return false;
        };
        match rest.chars().next() {
            None => self.is_end,
            Some(first) => self.place(first).is_ok_and(|place| self.below[place].contains(rest)),
        }
    }

    /// Return the index of the child whose label begins with this character, or the index at which to insert it.
    fn place(&self, first: char) -> Result<usize, usize> {
        self.below
            .binary_search_by_key(&Some(first), |node| node.label.chars().next())
    }

    fn new(label: &str, is_end: bool, below: Vec<Arc<Node>>, counter: &Counter) -> Self {
        let bytes = heap::COUNTS + size_of::<Node>() + label.len() + heap::list(&below);
        Node {
            label: label.into(),
            is_end,
            below,
            term: AtomicU64::new(0),
            memory: Counted::new(bytes, counter),
        }
    }

    /// Make a node whose bytes the same counter counts.
    fn like(&self, label: &str, is_end: bool, below: Vec<Arc<Node>>) -> Self {
        Node::new(label, is_end, below, self.memory.counter())
    }

    /// Return a term for the spellings of the texts from here on, in the terms with this id.
    fn spellings(&self, of: Spelling, id: u32, terms: &mut Terms) -> Term {
        let known = self.term.load(Ordering::Relaxed);
        if known >> 32 == u64::from(id) {
            return known as Term;
        }
        let after = of.after(&self.label);
        let mut ways = if self.is_end {
            vec![after.end(terms)]
        } else {
            Vec::new()
        };
        ways.extend(self.below.iter().map(|node| node.spellings(after, id, terms)));
        let rest = terms.alternation(ways);
        let term = of.before(&self.label, rest, terms);
        self.term.store(pair(id, term), Ordering::Relaxed);
        term
    }
}

/// The way in which the values of a kind are spelled.
#[derive(Clone, Copy)]
enum Spelling {
    Text,
    Number { has_point: bool },
    Other,
}

impl Spelling {
    fn after(self, label: &str) -> Self {
        match self {
            Spelling::Number { has_point } => Spelling::Number {
                has_point: has_point || label.contains('.'),
            },
            _ => self,
        }
    }

    fn before(self, label: &str, rest: Term, terms: &mut Terms) -> Term {
        match self {
            Spelling::Text => {
                let text = terms.json_text(label, term::Spelling::Any);
                terms.concatenation(text, rest)
            }
            _ => terms.literal_then(&label.chars().map(|byte| byte as u8).collect::<Vec<u8>>(), rest),
        }
    }

    fn end(self, terms: &mut Terms) -> Term {
        match self {
            Spelling::Text => terms.literal_then(b"\"", EVERYTHING),
            Spelling::Other => EMPTY,
            Spelling::Number { has_point } => {
                let zero = terms.literal(b"0");
                if has_point {
                    return terms.repeat(zero, 0, UNBOUNDED);
                }
                let zeros = terms.repeat(zero, 1, UNBOUNDED);
                let fraction = terms.literal_then(b".", zeros);
                terms.alternation(vec![EMPTY, fraction])
            }
        }
    }
}

/// The values that have come.
#[derive(Clone, Debug)]
pub struct Seen {
    texts: Arc<Node>,
    numbers: Arc<Node>,
    others: Arc<Node>,
    /// Number of values.
    pub count: u32,
    /// Number of values of each kind, see `kind_of_first`.
    pub counts: [u32; 3],
    /// A fingerprint of the set of values, independent of their order (128 bits of SipHash).
    pub fingerprint: [u64; 2],
    /// An estimate of the bytes that the last value took.
    pub grown: usize,
    memory: Counted,
}

impl Default for Seen {
    fn default() -> Self {
        Seen::counted(&Counter::default())
    }
}

impl Seen {
    /// Make an empty set; `counter` counts the bytes of the values that are added.
    pub fn counted(counter: &Counter) -> Self {
        let none = Arc::new(Node::new("", false, Vec::new(), counter));
        Seen {
            texts: none.clone(),
            numbers: none.clone(),
            others: none,
            count: 0,
            counts: [0; 3],
            fingerprint: [0; 2],
            grown: 0,
            memory: Counted::new(heap::COUNTS + size_of::<Seen>(), counter),
        }
    }

    /// Return the counter that counts the bytes.
    pub fn counter(&self) -> &Counter {
        self.memory.counter()
    }

    /// Return the set with one more value.
    pub fn with(&self, value: &Value) -> Self {
        let mut seen = self.clone();
        seen.count += 1;
        seen.counts[value.kind()] += 1;
        for (salt, part) in seen.fingerprint.iter_mut().enumerate() {
            let mut hasher = DefaultHasher::new();
            (salt, value).hash(&mut hasher);
            *part = part.wrapping_add(hasher.finish());
        }
        match value {
            Value::Text(text) => {
                seen.texts = Arc::new(seen.texts.with(text));
                seen.grown = size_of::<Seen>() + seen.texts.bytes_to(text);
            }
            Value::Number(digits) => {
                let mut numbers = seen.numbers.with(digits);
                if &**digits == "0" {
                    numbers = numbers.with("-0");
                }
                seen.grown = size_of::<Seen>() + numbers.bytes_to(digits);
                seen.numbers = Arc::new(numbers);
            }
            Value::Other(text) => {
                let text = as_characters(text);
                seen.others = Arc::new(seen.others.with(&text));
                seen.grown = size_of::<Seen>() + seen.others.bytes_to(&text);
            }
        }
        seen
    }

    /// Return the set with one more, unknown value that begins with this byte.
    pub fn with_unknown(&self, first: u8) -> Self {
        let mut seen = self.clone();
        seen.count += 1;
        seen.counts[kind_of_first(first)] += 1;
        seen.fingerprint = seen.fingerprint.map(|part| part.rotate_left(1).wrapping_add(1));
        seen
    }

    /// Return whether a value has come.
    pub fn contains(&self, value: &Value) -> bool {
        match value {
            Value::Text(text) => self.texts.contains(text),
            Value::Number(digits) => self.numbers.contains(digits),
            Value::Other(text) => self.others.contains(&as_characters(text)),
        }
    }
}

/// Return a text with one character for each byte.
fn as_characters(text: &[u8]) -> String {
    text.iter().map(|byte| char::from(*byte)).collect()
}

impl Derivatives {
    /// Return a term for the strings of `term` that begin with none of these values; `NOTHING` if there are none.
    pub fn without(&mut self, term: Term, seen: &Seen, meter: &mut Meter) -> Outcome<Term> {
        if seen.count == 0 {
            return Ok(term);
        }
        let left = self.part(term, seen, false, meter)?;
        Ok(if self.live(left, meter)? { left } else { NOTHING })
    }

    /// Return whether a term matches any string that begins with one of these values.
    pub fn has_some(&mut self, term: Term, seen: &Seen, meter: &mut Meter) -> Outcome<bool> {
        let part = self.part(term, seen, true, meter)?;
        self.live(part, meter)
    }

    /// Return a term for the strings of `term` that begin with one of these values (if `is_one` is set) or with none of
    /// them.
    fn part(&mut self, term: Term, seen: &Seen, is_one: bool, meter: &mut Meter) -> Outcome<Term> {
        let before = (self.terms.len(), self.terms.bytes());
        let (id, terms) = (self.id, &mut self.terms);
        let texts = seen.texts.spellings(Spelling::Text, id, terms);
        let texts = terms.literal_then(b"\"", texts);
        let numbers = seen.numbers.spellings(Spelling::Number { has_point: false }, id, terms);
        let others = seen.others.spellings(Spelling::Other, id, terms);
        let spellings = terms.alternation(vec![texts, numbers, others]);
        let wanted = if is_one { spellings } else { terms.complement(spellings) };
        let part = terms.intersection(vec![term, wanted]);
        meter.work(terms.len() - before.0 + 1)?;
        meter.grow(terms.bytes() - before.1)?;
        Ok(part)
    }

    /// Return the number of values that some terms spell, if it is below `most`; otherwise `UNBOUNDED`.
    pub fn count_values(&mut self, terms: &[Term], most: u32, meter: &mut Meter) -> Outcome<u32> {
        for term in terms {
            if self.strings_are_free(*term, meter)? {
                return Ok(UNBOUNDED);
            }
        }
        let all = self.terms.alternation(terms.to_vec());
        let mut seen = Seen::default();
        for count in 0..most {
            let mut state = self.without(all, &seen, meter)?;
            if !self.live(state, meter)? {
                return Ok(count);
            }
            let mut text = Vec::new();
            while !self.terms.nullable(state) {
                let mut nearest = (u32::MAX, 0, NOTHING);
                for place in self.moves(state, meter)?.places() {
                    let step = self.step(place);
                    if self.live(step.target, meter)? {
                        nearest = nearest.min((self.way_to_match(step.target, meter)?, step.low, step.target));
                    }
                }
                text.push(nearest.1);
                state = nearest.2;
            }
            seen = seen.with(&Value::of(&text));
        }
        Ok(UNBOUNDED)
    }

    /// Return whether the strings that `term` spells are free: each one ends with a quote, and each incomplete one has
    /// infinitely many continuations. Then any string that was begun can be completed, whichever values are excluded.
    /// The result may be false if this is hard to see.
    pub fn strings_are_free(&mut self, term: Term, meter: &mut Meter) -> Outcome<bool> {
        if let Some(are_free) = self.free.get(&term) {
            return Ok(*are_free);
        }
        let are_free = self.find_free_strings(term, meter)?;
        self.free.insert(term, are_free);
        Ok(are_free)
    }

    fn find_free_strings(&mut self, term: Term, meter: &mut Meter) -> Outcome<bool> {
        let moves = self.moves(term, meter)?;
        let quoted = self.steps(moves).iter().find(|step| step.low == b'"').copied();
        let Some(start) = quoted.filter(|step| step.high == b'"').map(|step| step.target) else {
            return Ok(false);
        };
        let mut states = vec![start];
        let mut known: FastMap<Term, usize> = FastMap::from_iter([(start, 0)]);
        let mut before: Vec<Vec<usize>> = vec![Vec::new()];
        let mut index = 0;
        while index < states.len() {
            for place in self.moves(states[index], meter)?.places() {
                let step = self.step(place);
                if !self.live(step.target, meter)? {
                    continue;
                }
                if self.terms.nullable(step.target) {
                    if (step.low, step.high) != (b'"', b'"') {
                        return Ok(false);
                    }
                    continue;
                }
                let next = *known.entry(step.target).or_insert(states.len());
                if next == states.len() {
                    states.push(step.target);
                    before.push(Vec::new());
                }
                before[next].push(index);
            }
            index += 1;
            if states.len() > MAX_FREE_STRING_STATES {
                return Ok(false);
            }
        }
        // A state is free if it leads to a cycle: such states remain when we repeatedly remove states that lead
        // nowhere.
        let mut after = vec![0; states.len()];
        before.iter().flatten().for_each(|from| after[*from] += 1);
        Ok(!after.contains(&0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_json() {
        let text = |text: &str| Value::Text(text.into());
        let number = |digits: &str| Value::Number(digits.into());
        let cases = [
            ("\"a\"", text("a")),
            ("\"\\u0061\" : ", text("a")),
            ("\"\\ud83d\\uDE00\\/\"", text("😀/")),
            ("-0.00", number("0")),
            ("10", number("10")),
            ("-1.50", number("-1.5")),
            ("1e0", Value::Other(b"1e0"[..].into())),
            ("\"\\ud83d\"", Value::Other(b"\"\\ud83d\""[..].into())),
            ("true", Value::Other(b"true"[..].into())),
        ];
        for (written, value) in cases {
            assert_eq!(Value::of(written.as_bytes()), value, "{written}");
        }
    }

    #[test]
    fn the_order_of_values_does_not_matter() {
        let [one, two] = ["1", "2"].map(|text| Value::of(text.as_bytes()));
        let none = Seen::default();
        let (forth, back) = (none.with(&one).with(&two), none.with(&two).with(&one));
        assert_eq!(forth.fingerprint, back.fingerprint);
        assert_eq!(forth.count, 2);
    }

    #[test]
    fn values_that_have_come_are_left_out() {
        let usage = crate::base::limits::Usage::default();
        let mut meter = Meter::new(1_000_000, &usage, 1_000);
        let mut derivatives = Derivatives::new();
        let ways = ["\"a\"", "\"\\u0061\"", "\"b\"", "1", "1.0"].map(|text| derivatives.terms.literal(text.as_bytes()));
        assert_eq!(derivatives.count_values(&ways, 9, &mut meter), Ok(3));
        assert_eq!(derivatives.count_values(&ways, 3, &mut meter), Ok(UNBOUNDED));
        let mut seen = Seen::default();
        for text in ["\"ab\"", "\"abc\"", "\"ad\"", "\"\"", "-0", "10", "1.5", "true"] {
            seen = seen.with(&Value::of(text.as_bytes()));
            let term = derivatives.terms.literal(text.as_bytes());
            assert_eq!(derivatives.without(term, &seen, &mut meter), Ok(NOTHING), "{text}");
            assert!(seen.contains(&Value::of(text.as_bytes())));
        }
        for text in ["\"a\"", "\"abd\"", "1", "-1.5", "1.50001", "tru", "0.01"] {
            let term = derivatives.terms.literal(text.as_bytes());
            assert_ne!(derivatives.without(term, &seen, &mut meter), Ok(NOTHING), "{text}");
            assert!(!seen.contains(&Value::of(text.as_bytes())));
        }
    }

    #[test]
    fn example_values_that_have_come() {
        let seen = Seen::default().with(&Value::of(b"1.50"));
        assert!(seen.contains(&Value::of(b"1.5")));
        assert!(!seen.contains(&Value::of(b"\"1.5\"")));
    }
}
