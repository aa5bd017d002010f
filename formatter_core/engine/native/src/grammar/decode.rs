//! Reads a serialised grammar for masks: items whose regular parts are terms, without captures and preferences.
//!
//! The terms of terminals, and of nodes that many grammars share, are cached by their program bytes.

mod lists;

use std::ops::Range;
use std::sync::Arc;

pub use self::lists::read_members;
use crate::base::heap;
use crate::base::limits::{Fault, Limit, Limits, Meter, Outcome};
use crate::base::span::Span;
use crate::base::tuning::MAX_KEPT_PROGRAM;
use crate::grammar::members::Members;
use crate::regular::distinct::Seen;
use crate::regular::program::{operation, pop_many, spelling_of, Place, Reader};
use crate::regular::term::{Term, Terms, EMPTY, NOTHING};

/// A node outside terminals.
#[derive(Clone, Copy)]
pub enum Item {
    /// `plain` is set if the terminal consists only of leaves, so that it may be merged with its neighbours.
    Terminal {
        term: Term,
        plain: bool,
    },
    Sequence(Span),
    Choice(Span),
    Repeat {
        item: u32,
        minimum: u32,
        maximum: u32,
    },
    Reference(u32),
    Token(u32),
    /// A region in which at most `budget` tokens may begin.
    Region {
        item: u32,
        budget: u32,
    },
    /// A list of members: its number, its separator, and the items of its ways.
    Members {
        number: u32,
        separator: Term,
        ways: Span,
    },
    /// One or more members in order, of which only the position has to be remembered.
    InOrder {
        separator: Term,
        members: Span,
    },
}

/// One member of an `InOrder` item.
#[derive(Clone, Copy)]
pub struct OneInOrder {
    pub item: u32,
    pub required: bool,
    pub repeated: bool,
}

/// The items of all rules, children before parents.
#[derive(Default)]
pub struct Source {
    pub items: Vec<Item>,
    /// The parts of items.
    pub parts: Vec<u32>,
    pub in_order: Vec<OneInOrder>,
    pub members: Vec<Members>,
    /// See `Members`.
    pub none_seen: Arc<Seen>,
    /// The item of each rule's body.
    pub bodies: Vec<u32>,
    pub start: u32,
    /// Rules that many grammars share, which are not read here: the number of the first rule, and the range of their
    /// programs.
    pub shared: Vec<(u32, Range<usize>)>,
    /// While reading: items that wait for their parent.
    waiting: Vec<u32>,
    /// While reading, for `AGAIN`: the terms of the terminals read so far; inside a terminal, the terms made there.
    finished: Vec<Term>,
}

impl Source {
    /// Return the item of a rule's body.
    pub fn body(&self, rule: u32) -> Item {
        self.items[self.bodies[rule as usize] as usize]
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        heap::list(&self.items)
            + heap::list(&self.parts)
            + heap::list(&self.in_order)
            + heap::list(&self.members)
            + heap::list(&self.bodies)
            + heap::list(&self.shared)
            + heap::list(&self.waiting)
            + heap::list(&self.finished)
    }

    /// Return the approximate capacity of all lists, in numbers.
    pub fn capacity(&self) -> usize {
        4 * self.items.capacity() + self.parts.capacity() + self.waiting.capacity() + self.finished.capacity()
    }

    /// Read a serialised grammar; terms are made in `terms`.
    pub fn read(&mut self, data: &[u8], terms: &mut Terms, limits: &Limits, meter: &mut Meter) -> Outcome<()> {
        let (mut reader, rules, start) = Reader::of_grammar(data)?;
        self.start = start;
        self.clear();
        let mut decoder = Decoder::new(self, rules, terms, limits, meter);
        while decoder.source.bodies.len() < rules as usize {
            let bodies = &decoder.source.bodies;
            match reader.shared_rules(rules as usize - bodies.len())? {
                Some((rules, count)) => {
                    let end = data.len() - reader.data.len();
                    decoder.shared_rules(end - rules.len()..end, count);
                }
                None => decoder.add_rule(&mut reader)?,
            }
        }
        reader.finish()
    }

    /// Read rules that many grammars share.
    pub fn read_shared(&mut self, data: &[u8], terms: &mut Terms, limits: &Limits, meter: &mut Meter) -> Outcome<()> {
        let mut reader = Reader { data };
        let rules = reader.number()?;
        self.clear();
        let mut decoder = Decoder::new(self, rules, terms, limits, meter);
        for _ in 0..rules {
            decoder.add_rule(&mut reader)?;
        }
        reader.finish()
    }

    fn clear(&mut self) {
        self.items.clear();
        self.parts.clear();
        self.in_order.clear();
        self.members.clear();
        self.none_seen = Arc::default();
        self.bodies.clear();
        self.shared.clear();
        self.waiting.clear();
        self.finished.clear();
    }
}

struct Decoder<'a, 'm> {
    source: &'a mut Source,
    terms: &'a mut Terms,
    limits: &'a Limits,
    meter: &'a mut Meter<'m>,
    rules: u32,
    /// The terms inside a terminal that wait for their parent; `Source::waiting` has the items outside.
    regular: Vec<Term>,
    place: Place,
    nodes: u64,
    /// Maximum number of nodes; each may be read twice.
    most: u64,
    /// The bytes of all terms at the last count.
    bytes: usize,
}

impl<'a, 'm> Decoder<'a, 'm> {
    fn new(
        source: &'a mut Source,
        rules: u32,
        terms: &'a mut Terms,
        limits: &'a Limits,
        meter: &'a mut Meter<'m>,
    ) -> Self {
        Decoder {
            bytes: terms.bytes(),
            source,
            terms,
            most: limits.nodes.saturating_mul(2),
            limits,
            meter,
            rules,
            regular: Vec::new(),
            place: Place::Rule,
            nodes: 0,
        }
    }

    /// Record rules whose programs are in this range; they are built separately.
    fn shared_rules(&mut self, place: Range<usize>, count: u32) {
        let source = &mut *self.source;
        source.shared.push((source.bodies.len() as u32, place));
        let body = source.items.len() as u32;
        source.items.push(Item::Choice(Span::EMPTY));
        source.bodies.extend((0..count).map(|_| body));
    }

    fn add_rule(&mut self, reader: &mut Reader) -> Outcome<()> {
        loop {
            match self.operation(reader)? {
                operation::RULE_END => break,
                // These operations are the most frequent.
                operation::TERMINAL => self.read_terminal(reader)?,
                operation::REFERENCE => self.reference(reader)?,
                operation => self.apply(operation, reader)?,
            }
            self.grow()?;
        }
        match self.source.waiting.pop() {
            Some(body) if self.source.waiting.is_empty() => {
                self.source.bodies.push(body);
                Ok(())
            }
            _ => Err(Fault::Malformed),
        }
    }

    #[inline]
    fn operation(&mut self, reader: &mut Reader) -> Outcome<u8> {
        self.nodes += 1;
        if self.nodes > self.most {
            return Err(Fault::Limit(Limit::Nodes));
        }
        self.meter.work(1)?;
        reader.byte()
    }

    /// Count the bytes by which the terms have grown.
    #[inline]
    fn grow(&mut self) -> Outcome<()> {
        let before = std::mem::replace(&mut self.bytes, self.terms.bytes());
        self.meter.grow(self.bytes - before)
    }

    fn apply(&mut self, operation: u8, reader: &mut Reader) -> Outcome<()> {
        match operation {
            operation::JSON_TEXT | operation::CANONICAL_TEXT if self.place != Place::Rule => {
                let text = reader.text()?;
                let term = self
                    .terms
                    .charged_json_text(text, spelling_of(operation), 4, self.meter)?;
                self.regular(term);
            }
            operation::MULTIPLES if self.place != Place::Rule => {
                let multiples = reader.multiples()?;
                let term = self.terms.multiples(multiples);
                self.regular(term);
            }
            operation::KEPT if self.place == Place::Terminal => {
                let term = self.kept(reader.counted_bytes()?, Place::Kept)?;
                self.regular(term);
            }
            operation::BYTES => {
                let bytes = reader.counted_bytes()?;
                let term = self.terms.charged_literal(bytes, 1, self.meter)?;
                self.leaf(term);
            }
            operation::CHARS => {
                let ranges = reader.ranges()?;
                self.meter.work(4 * ranges.len())?;
                let term = self.terms.characters(&ranges);
                self.leaf(term);
            }
            operation::SUBSTRING => {
                let text = reader.text()?;
                let text: Vec<char> = text.chars().collect();
                self.meter.work(8 * text.len())?;
                if 2 * text.len() as u64 > self.limits.states {
                    return Err(Fault::Limit(Limit::States));
                }
                let term = self.terms.substring(&text);
                self.leaf(term);
            }
            operation::SEQUENCE | operation::CHOICE | operation::INTERSECTION => {
                let count = reader.number()? as usize;
                self.meter.work(count)?;
                if self.place != Place::Rule {
                    let items = pop_many(&mut self.regular, count)?;
                    let term = self.combine(operation, items)?;
                    self.regular(term);
                } else {
                    let first = self.first_of(count)?;
                    let item = match operation {
                        operation::SEQUENCE => self.sequence(first)?,
                        operation::CHOICE => self.choice(first..first + count)?,
                        _ => return Err(Fault::Malformed),
                    };
                    self.source.waiting.truncate(first);
                    self.push(item);
                }
            }
            operation::REPEAT | operation::LAZY_REPEAT => {
                let (minimum, maximum) = reader.bounds()?;
                self.repeat(minimum, maximum)?;
            }
            operation::CAPTURE if self.place == Place::Rule => {
                reader.number()?;
            }
            operation::COMPLEMENT | operation::SHORTEST if self.place != Place::Rule => {
                let item = self.regular.pop().ok_or(Fault::Malformed)?;
                let term = match operation {
                    operation::COMPLEMENT => self.terms.complement(item),
                    _ => self.terms.shortest(item),
                };
                self.regular(term);
            }
            operation::AGAIN => {
                let number = reader.number()? as usize;
                let term = *self.source.finished.get(number).ok_or(Fault::Malformed)?;
                if self.place != Place::Rule {
                    self.regular.push(term);
                } else {
                    self.push(Item::Terminal { term, plain: false });
                }
            }
            operation::TOKEN if self.place == Place::Rule => {
                let token = reader.number()?;
                self.push(Item::Token(token));
            }
            operation::REGION if self.place == Place::Rule => {
                let item = self.source.waiting.pop().ok_or(Fault::Malformed)?;
                let budget = reader.number()?;
                self.push(Item::Region { item, budget });
            }
            operation::MEMBERS if self.place == Place::Rule => self.list_of_members(reader)?,
            _ => return Err(Fault::Malformed),
        }
        Ok(())
    }

    #[inline]
    fn read_terminal(&mut self, reader: &mut Reader) -> Outcome<()> {
        let term = self.kept(reader.counted_bytes()?, Place::Terminal)?;
        self.source.finished.push(term);
        self.push(Item::Terminal { term, plain: false });
        Ok(())
    }

    #[inline]
    fn reference(&mut self, reader: &mut Reader) -> Outcome<()> {
        let rule = reader.number()?;
        if rule >= self.rules {
            return Err(Fault::Malformed);
        }
        self.push(Item::Reference(rule));
        Ok(())
    }

    fn list_of_members(&mut self, reader: &mut Reader) -> Outcome<()> {
        let mut ahead = *reader;
        if self.plain_members(&mut ahead)? {
            *reader = ahead;
            return Ok(());
        }
        let number = self.source.members.len() as u32;
        let members = read_members(reader, number, &self.source.none_seen, self.meter)?;
        let first = self.first_of(members.ways.len() + 1)?;
        let separator = self.separator(first)?;
        let item = if members.are_places() {
            self.in_order(separator, &members, first + 1)?
        } else {
            self.source.members.push(members);
            let begin = self.source.parts.len();
            self.source.parts.extend_from_slice(&self.source.waiting[first + 1..]);
            Item::Members {
                number,
                separator,
                ways: Span::from(begin, &self.source.parts),
            }
        };
        self.source.waiting.truncate(first);
        self.push(item);
        Ok(())
    }

    /// Read members in order of the most frequent kind: each member has one way, and is required, repeated, or neither.
    /// Return false if they are of another kind.
    fn plain_members(&mut self, reader: &mut Reader) -> Outcome<bool> {
        // Check that the list is ordered, needs at least one member (a minimum of 0 means 1), and has no maximum and no
        // conditions.
        let head = [
            reader.number()?,
            reader.number()?.max(1),
            reader.number()?,
            reader.number()?,
            reader.number()?,
        ];
        if head != [1, 1, 0, 0, 0] {
            return Ok(false);
        }
        let count = reader.number()? as usize;
        self.meter.work(2 * count)?;
        let begin = self.source.in_order.len();
        for _ in 0..count {
            let flags = reader.number()?;
            if flags > 2 {
                self.source.in_order.truncate(begin);
                return Ok(false);
            }
            self.source.in_order.push(OneInOrder {
                item: 0,
                required: flags == 1,
                repeated: flags == 2,
            });
        }
        let first = self.first_of(count + 1)?;
        let separator = self.separator(first)?;
        let members = Span::from(begin, &self.source.in_order);
        let items = self.source.waiting.drain(first..).skip(1);
        let listed = self.source.in_order[begin..].iter_mut();
        listed.zip(items).for_each(|(member, item)| member.item = item);
        self.push(Item::InOrder { separator, members });
        Ok(true)
    }

    /// Return the index of the first of the last `count` items that wait for their parent.
    fn first_of(&self, count: usize) -> Outcome<usize> {
        self.source.waiting.len().checked_sub(count).ok_or(Fault::Malformed)
    }

    /// Return the separator of a list of members.
    fn separator(&self, place: usize) -> Outcome<Term> {
        match self.source.items[self.source.waiting[place] as usize] {
            Item::Terminal { term, .. } => Ok(term),
            _ => Err(Fault::Malformed),
        }
    }

    /// Make an item for members in order; the waiting items from `first` on are their ways.
    fn in_order(&mut self, separator: Term, list: &Members, first: usize) -> Outcome<Item> {
        let begin = self.source.in_order.len();
        for member in &list.members {
            let ways = first + member.first_way as usize..first + member.last_way as usize;
            let item = match self.source.waiting[ways.clone()] {
                [only] => only,
                _ => {
                    let choice = self.choice(ways)?;
                    self.source.items.push(choice);
                    self.source.items.len() as u32 - 1
                }
            };
            self.source.in_order.push(OneInOrder {
                item,
                required: member.required,
                repeated: member.repeated,
            });
        }
        let members = Span::from(begin, &self.source.in_order);
        Ok(Item::InOrder { separator, members })
    }

    /// Return the term of a separate program, from the cache if it is there.
    #[inline]
    fn kept(&mut self, program: &[u8], place: Place) -> Outcome<Term> {
        match self.terms.kept(program) {
            Some(term) => Ok(term),
            None => self.read_kept(program, place),
        }
    }

    fn read_kept(&mut self, program: &[u8], place: Place) -> Outcome<Term> {
        let outside = std::mem::replace(&mut self.place, place);
        let finished = std::mem::take(&mut self.source.finished);
        let waiting = std::mem::take(&mut self.regular);
        let mut reader = Reader { data: program };
        while !reader.data.is_empty() {
            let operation = self.operation(&mut reader)?;
            self.apply(operation, &mut reader)?;
            self.grow()?;
        }
        self.place = outside;
        self.source.finished = finished;
        match std::mem::replace(&mut self.regular, waiting)[..] {
            [term] => {
                if program.len() <= MAX_KEPT_PROGRAM {
                    self.terms.keep(program, term);
                }
                Ok(term)
            }
            _ => Err(Fault::Malformed),
        }
    }

    fn leaf(&mut self, term: Term) {
        if self.place != Place::Rule {
            self.regular(term);
        } else {
            self.push(Item::Terminal { term, plain: true });
        }
    }

    fn regular(&mut self, term: Term) {
        self.regular.push(term);
        self.source.finished.push(term);
    }

    #[inline]
    fn push(&mut self, item: Item) {
        self.source.waiting.push(self.source.items.len() as u32);
        self.source.items.push(item);
    }

    fn combine(&mut self, operation: u8, items: Vec<Term>) -> Outcome<Term> {
        match operation {
            operation::SEQUENCE => {
                let mut whole = EMPTY;
                for item in items.into_iter().rev() {
                    self.meter.work(1)?;
                    whole = match self.terms.is_chain(whole) {
                        true => self.terms.before_chain(item, whole, self.meter)?,
                        false => self.terms.charged_concatenation(item, whole, self.meter)?,
                    };
                }
                Ok(whole)
            }
            operation::CHOICE => self.terms.tree(items, self.meter),
            _ => Ok(self.terms.intersection(items)),
        }
    }

    /// Return the term of a waiting item if it is a terminal, and whether the terminal is plain.
    #[inline]
    fn terminal(&self, place: usize) -> Option<(Term, bool)> {
        match self.source.items[self.source.waiting[place] as usize] {
            Item::Terminal { term, plain } => Some((term, plain)),
            _ => None,
        }
    }

    /// Make a sequence of the waiting items from `first` on. Adjacent plain terminals become one.
    fn sequence(&mut self, first: usize) -> Outcome<Item> {
        let begin = self.source.parts.len();
        let end = self.source.waiting.len();
        let mut place = first;
        while place < end {
            let plain = |place| self.terminal(place).filter(|(_, plain)| *plain);
            let run = (place..end).map_while(plain).count();
            if run < 2 {
                self.source.parts.push(self.source.waiting[place]);
                place += 1;
                continue;
            }
            let terms = (place..place + run).filter_map(plain).map(|(term, _)| term).collect();
            let term = self.combine(operation::SEQUENCE, terms)?;
            self.add_part(Item::Terminal { term, plain: true });
            place += run;
        }
        if self.source.parts.len() == begin {
            return Ok(Item::Terminal {
                term: EMPTY,
                plain: true,
            });
        }
        Ok(self.of_parts(begin, Item::Sequence))
    }

    /// Make a choice between waiting items. Terminals among them become one, because a mask does not depend on which of
    /// them matches.
    fn choice(&mut self, places: Range<usize>) -> Outcome<Item> {
        let begin = self.source.parts.len();
        let is_empty = places.is_empty();
        let (mut last, mut count, mut all_plain) = (NOTHING, 0, true);
        for place in places.clone() {
            match self.terminal(place) {
                Some((term, plain)) => {
                    (last, count) = (term, count + 1);
                    all_plain &= plain;
                }
                None => self.source.parts.push(self.source.waiting[place]),
            }
        }
        if count > 0 || is_empty {
            let term = match count {
                0 | 1 => last,
                _ => {
                    let terms = places.filter_map(|place| self.terminal(place));
                    let terms = terms.map(|(term, _)| term).collect();
                    self.terms.tree(terms, self.meter)?
                }
            };
            self.add_part(Item::Terminal { term, plain: all_plain });
        }
        Ok(self.of_parts(begin, Item::Choice))
    }

    fn add_part(&mut self, item: Item) {
        self.source.parts.push(self.source.items.len() as u32);
        self.source.items.push(item);
    }

    /// Make an item of the parts from `begin` on; if there is only one part, return that part.
    fn of_parts(&mut self, begin: usize, item: impl FnOnce(Span) -> Item) -> Item {
        match self.source.parts[begin..] {
            [only] => {
                self.source.parts.truncate(begin);
                self.source.items[only as usize]
            }
            _ => item(Span::from(begin, &self.source.parts)),
        }
    }

    fn repeat(&mut self, minimum: u32, maximum: u32) -> Outcome<()> {
        if self.place != Place::Rule {
            let item = self.regular.pop().ok_or(Fault::Malformed)?;
            let term = self.terms.repeat(item, minimum, maximum);
            self.regular(term);
            return Ok(());
        }
        let item = self.source.waiting.pop().ok_or(Fault::Malformed)?;
        let repeated = match self.source.items[item as usize] {
            Item::Terminal { term, plain } => Item::Terminal {
                term: self.terms.repeat(term, minimum, maximum),
                plain,
            },
            _ => Item::Repeat { item, minimum, maximum },
        };
        self.push(repeated);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Usage;
    use crate::regular::program::tests::NESTED;

    #[test]
    fn example_program_is_decoded() {
        let (limits, usage) = (Limits::default(), Usage::default());
        let mut meter = Meter::new(limits.work, &usage, limits.states);
        let (mut source, mut terms) = (Source::default(), Terms::new());
        source.read(NESTED, &mut terms, &limits, &mut meter).unwrap();
        let Item::Choice(alternatives) = source.body(0) else {
            panic!("the rule is a choice");
        };
        assert_eq!(alternatives.of(&source.parts).len(), 2);
    }
}
