//! The serialised grammar, read for masks: items whose regular parts are terms, without captures and preferences.
//!
//! The terms of terminals, and of nodes that many grammars hold, are kept by their programs.

use crate::limits::{Fault, Limit, Limits, Meter, Outcome};
use crate::members::{Member, Members, Step, Way};
use crate::program::{operation, pop_many, Place, Reader};
use crate::term::{Term, Terms, EMPTY, UNBOUNDED};

/// About how many bytes of a program make an item outside of terminals.
const BYTES_PER_ITEM: usize = 4;

/// Lists begin with room for so many.
pub const FEW: usize = 32;

/// Programs with more bytes are not kept: what is long is rarely the same.
const LONGEST_KEPT: usize = 4096;

/// A node outside of terminals.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    /// `plain`: made of leaves only, so that it may grow together with its neighbours.
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
    /// A region in which at most this number of tokens may begin.
    Region {
        item: u32,
        budget: u32,
    },
    /// A list of members, by its number; the separator, and the items of the ways.
    Members {
        number: u32,
        separator: Term,
        ways: Span,
    },
    /// Members of which nothing need be remembered but the place: one or more, in order.
    InOrder {
        separator: Term,
        members: Span,
    },
}

/// Where the parts of an item stand, together with those of all others.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    first: u32,
    end: u32,
}

impl Span {
    fn from<T>(first: usize, all: &[T]) -> Self {
        Span {
            first: first as u32,
            end: all.len() as u32,
        }
    }

    pub fn of<T>(self, all: &[T]) -> &[T] {
        &all[self.first as usize..self.end as usize]
    }
}

/// One of members in order.
#[derive(Clone, Copy, Debug)]
pub struct OneInOrder {
    pub item: u32,
    pub required: bool,
    pub repeated: bool,
}

/// The items of all rules, children before parents.
pub struct Source {
    pub items: Vec<Item>,
    /// The items that others consist of.
    pub parts: Vec<u32>,
    pub in_order: Vec<OneInOrder>,
    pub members: Vec<Members>,
    /// The item of each rule's body.
    pub bodies: Vec<u32>,
    pub start: u32,
}

/// Read a serialised grammar; terms are made in `terms`.
pub fn decode(data: &[u8], terms: &mut Terms, limits: &Limits, meter: &mut Meter) -> Outcome<Source> {
    let (mut reader, rules, start) = Reader::of_grammar(data)?;
    let mut decoder = Decoder {
        bytes: terms.bytes(),
        terms,
        limits,
        meter,
        rules,
        items: Vec::with_capacity(data.len() / BYTES_PER_ITEM),
        parts: Vec::with_capacity(data.len() / BYTES_PER_ITEM),
        in_order: Vec::new(),
        members: Vec::new(),
        stack: Vec::with_capacity(FEW),
        regular: Vec::new(),
        place: Place::Rule,
        finished: Vec::with_capacity(FEW),
        nodes: 0,
    };
    let mut bodies = Vec::with_capacity(FEW);
    for _ in 0..rules {
        bodies.push(decoder.rule(&mut reader)?);
    }
    if !reader.data.is_empty() {
        return Err(Fault::Malformed);
    }
    Ok(Source {
        items: decoder.items,
        parts: decoder.parts,
        in_order: decoder.in_order,
        members: decoder.members,
        bodies,
        start,
    })
}

struct Decoder<'a, 'm> {
    terms: &'a mut Terms,
    limits: &'a Limits,
    meter: &'a mut Meter<'m>,
    rules: u32,
    items: Vec<Item>,
    parts: Vec<u32>,
    in_order: Vec<OneInOrder>,
    members: Vec<Members>,
    /// Items that wait for their parent.
    stack: Vec<u32>,
    /// The same inside a terminal.
    regular: Vec<Term>,
    place: Place,
    /// The terms of terminals that were read, for `AGAIN`; inside of a terminal, those of what was made there.
    finished: Vec<Term>,
    nodes: u64,
    /// The bytes of all terms, as they were counted last.
    bytes: usize,
}

impl Decoder<'_, '_> {
    fn rule(&mut self, reader: &mut Reader) -> Outcome<u32> {
        loop {
            let operation = self.operation(reader)?;
            if operation == operation::RULE_END {
                break;
            }
            self.apply(operation, reader)?;
            self.grow()?;
        }
        match self.stack.pop() {
            Some(body) if self.stack.is_empty() => Ok(body),
            _ => Err(Fault::Malformed),
        }
    }

    fn operation(&mut self, reader: &mut Reader) -> Outcome<u8> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes.saturating_mul(2) {
            return Err(Fault::Limit(Limit::Nodes));
        }
        self.meter.work(1)?;
        reader.byte()
    }

    /// Count the bytes that the terms have grown by.
    fn grow(&mut self) -> Outcome<()> {
        let before = std::mem::replace(&mut self.bytes, self.terms.bytes());
        self.meter.grow(self.bytes - before)
    }

    fn apply(&mut self, operation: u8, reader: &mut Reader) -> Outcome<()> {
        match operation {
            operation::JSON_TEXT if self.place != Place::Rule => {
                let text = reader.text()?;
                self.meter.work(4 * text.len())?;
                let term = self.terms.json_text(text);
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
                self.meter.work(bytes.len())?;
                let term = self.terms.literal(bytes);
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
                    let item = self.with_last(count, |decoder, items| decoder.combine_items(operation, items))?;
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
            operation::TERMINAL if self.place == Place::Rule => {
                let term = self.kept(reader.counted_bytes()?, Place::Terminal)?;
                self.finished.push(term);
                self.push(Item::Terminal { term, plain: false });
            }
            operation::AGAIN => {
                let number = reader.number()? as usize;
                let term = *self.finished.get(number).ok_or(Fault::Malformed)?;
                if self.place != Place::Rule {
                    self.regular.push(term);
                } else {
                    self.push(Item::Terminal { term, plain: false });
                }
            }
            operation::REFERENCE if self.place == Place::Rule => {
                let rule = reader.number()?;
                if rule >= self.rules {
                    return Err(Fault::Malformed);
                }
                self.push(Item::Reference(rule));
            }
            operation::TOKEN if self.place == Place::Rule => {
                let token = reader.number()?;
                self.push(Item::Token(token));
            }
            operation::REGION if self.place == Place::Rule => {
                let item = self.stack.pop().ok_or(Fault::Malformed)?;
                let budget = reader.number()?;
                self.push(Item::Region { item, budget });
            }
            operation::MEMBERS if self.place == Place::Rule => self.list_of_members(reader)?,
            _ => return Err(Fault::Malformed),
        }
        Ok(())
    }

    fn list_of_members(&mut self, reader: &mut Reader) -> Outcome<()> {
        let number = self.members.len() as u32;
        let members = read_members(reader, number, self.meter)?;
        let count = members.ways.len() + 1;
        let item = self.with_last(count, |decoder, items| {
            let Item::Terminal { term: separator, .. } = decoder.items[items[0] as usize] else {
                return Err(Fault::Malformed);
            };
            let ways = &items[1..];
            if members.are_places() {
                return decoder.in_order(separator, &members, ways);
            }
            decoder.members.push(members);
            let first = decoder.parts.len();
            decoder.parts.extend_from_slice(ways);
            let ways = Span::from(first, &decoder.parts);
            Ok(Item::Members {
                number,
                separator,
                ways,
            })
        })?;
        self.push(item);
        Ok(())
    }

    /// What is made of the last `count` items that wait for their parent.
    fn with_last(&mut self, count: usize, make: impl FnOnce(&mut Self, &[u32]) -> Outcome<Item>) -> Outcome<Item> {
        let first = self.stack.len().checked_sub(count).ok_or(Fault::Malformed)?;
        let mut stack = std::mem::take(&mut self.stack);
        let item = make(self, &stack[first..])?;
        stack.truncate(first);
        self.stack = stack;
        Ok(item)
    }

    fn in_order(&mut self, separator: Term, list: &Members, ways: &[u32]) -> Outcome<Item> {
        let first = self.in_order.len();
        for member in &list.members {
            let item = match ways[member.first_way as usize..member.last_way as usize] {
                [only] => only,
                ref several => {
                    let choice = self.choice(several)?;
                    self.items.push(choice);
                    self.items.len() as u32 - 1
                }
            };
            self.in_order.push(OneInOrder {
                item,
                required: member.required,
                repeated: member.repeated,
            });
        }
        let members = Span::from(first, &self.in_order);
        Ok(Item::InOrder { separator, members })
    }

    /// The term of a program that stands alone.
    fn kept(&mut self, program: &[u8], place: Place) -> Outcome<Term> {
        if let Some(term) = self.terms.kept(program) {
            return Ok(term);
        }
        let outside = std::mem::replace(&mut self.place, place);
        let finished = std::mem::take(&mut self.finished);
        let waiting = std::mem::take(&mut self.regular);
        let mut reader = Reader { data: program };
        while !reader.data.is_empty() {
            let operation = self.operation(&mut reader)?;
            self.apply(operation, &mut reader)?;
            self.grow()?;
        }
        self.place = outside;
        self.finished = finished;
        match std::mem::replace(&mut self.regular, waiting)[..] {
            [term] => {
                if program.len() <= LONGEST_KEPT {
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
        self.finished.push(term);
    }

    #[inline]
    fn push(&mut self, item: Item) {
        self.stack.push(self.items.len() as u32);
        self.items.push(item);
    }

    fn combine(&mut self, operation: u8, items: Vec<Term>) -> Outcome<Term> {
        match operation {
            operation::SEQUENCE => {
                let mut whole = EMPTY;
                for item in items.into_iter().rev() {
                    let before = self.terms.len();
                    whole = self.terms.concatenation(item, whole);
                    self.meter.work(1 + self.terms.len() - before)?;
                }
                Ok(whole)
            }
            operation::CHOICE => Ok(self.terms.alternation(items)),
            _ => Ok(self.terms.intersection(items)),
        }
    }

    fn combine_items(&mut self, operation: u8, items: &[u32]) -> Outcome<Item> {
        match operation {
            operation::SEQUENCE => self.sequence(items),
            operation::CHOICE => self.choice(items),
            _ => Err(Fault::Malformed),
        }
    }

    /// Neighbouring plain terminals become one.
    fn sequence(&mut self, items: &[u32]) -> Outcome<Item> {
        let first = self.parts.len();
        let mut rest = items;
        while let [item, others @ ..] = rest {
            let plain = |item: &u32| match self.items[*item as usize] {
                Item::Terminal { term, plain: true } => Some(term),
                _ => None,
            };
            let run = rest.iter().map_while(plain).count();
            if run < 2 {
                self.parts.push(*item);
                rest = others;
                continue;
            }
            let terms = rest[..run].iter().filter_map(plain).collect();
            let term = self.combine(operation::SEQUENCE, terms)?;
            self.add_part(Item::Terminal { term, plain: true });
            rest = &rest[run..];
        }
        if self.parts.len() == first {
            return Ok(Item::Terminal {
                term: EMPTY,
                plain: true,
            });
        }
        Ok(self.of_parts(first, Item::Sequence))
    }

    /// Terminals among the alternatives become one: which of them is taken does not matter to a mask.
    fn choice(&mut self, items: &[u32]) -> Outcome<Item> {
        let first = self.parts.len();
        let mut terms: Vec<Term> = Vec::new();
        let mut all_plain = true;
        for &item in items {
            match self.items[item as usize] {
                Item::Terminal { term, plain } => {
                    all_plain &= plain;
                    terms.push(term);
                }
                _ => self.parts.push(item),
            }
        }
        if !terms.is_empty() || items.is_empty() {
            let term = match terms[..] {
                [only] => only,
                _ => self.terms.alternation(terms),
            };
            self.add_part(Item::Terminal { term, plain: all_plain });
        }
        Ok(self.of_parts(first, Item::Choice))
    }

    fn add_part(&mut self, item: Item) {
        self.parts.push(self.items.len() as u32);
        self.items.push(item);
    }

    /// The item that consists of the parts from `first` on, or the only one.
    fn of_parts(&mut self, first: usize, item: impl FnOnce(Span) -> Item) -> Item {
        match self.parts[first..] {
            [only] => {
                self.parts.truncate(first);
                self.items[only as usize]
            }
            _ => item(Span::from(first, &self.parts)),
        }
    }

    fn repeat(&mut self, minimum: u32, maximum: u32) -> Outcome<()> {
        if self.place != Place::Rule {
            let item = self.regular.pop().ok_or(Fault::Malformed)?;
            let term = self.terms.repeat(item, minimum, maximum);
            self.regular(term);
            return Ok(());
        }
        let item = self.stack.pop().ok_or(Fault::Malformed)?;
        let repeated = match self.items[item as usize] {
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

/// Conditions are searched through by recursion, one level for each.
const MOST_CONDITIONS: u32 = 4096;

/// What the operation for a list of members takes.
pub fn read_members(reader: &mut Reader, id: u32, meter: &mut Meter) -> Outcome<Members> {
    let ordered = reader.number()? != 0;
    let minimum = reader.number()?.max(1);
    let maximum = reader.number()?.checked_sub(1).unwrap_or(UNBOUNDED);
    let conditions = reader.number()?;
    if conditions > MOST_CONDITIONS {
        return Err(Fault::Limit(Limit::Nodes));
    }
    let once = read_bits(reader, conditions, meter)?;
    let mut members: Vec<Member> = Vec::new();
    let mut ways: Vec<Way> = Vec::new();
    let mut meeting: Vec<Vec<Step>> = vec![Vec::new(); conditions as usize];
    for member in 0..reader.number()? {
        meter.work(1)?;
        let flags = reader.number()?;
        let (mut absent, mut count) = (Vec::new(), 1);
        if flags & 4 != 0 {
            absent = read_bits(reader, conditions, meter)?;
            count = reader.number()?;
        }
        let first_way = ways.len() as u32;
        for _ in 0..count {
            meter.work(1)?;
            let meets = match flags & 4 {
                0 => Vec::new(),
                _ => read_bits(reader, conditions, meter)?,
            };
            let way = ways.len() as u32;
            meets.iter().for_each(|bit| meeting[*bit as usize].push(Step::Way(way)));
            ways.push(Way { member, meets });
        }
        absent
            .iter()
            .for_each(|bit| meeting[*bit as usize].push(Step::Leave(member)));
        members.push(Member {
            required: flags & 1 != 0,
            repeated: flags & 2 != 0,
            distinct: flags & 8 != 0,
            absent,
            first_way,
            last_way: ways.len() as u32,
        });
    }
    Ok(Members {
        id,
        ordered,
        minimum,
        maximum,
        conditions,
        once,
        live: vec![false; ways.len()],
        lacking: members.iter().filter(|member| member.required).count(),
        may_come: false,
        values: UNBOUNDED,
        starts: Vec::new(),
        separator: 0,
        members,
        ways,
        meeting,
    })
}

/// The numbers of bits, of which there are as many as `most`.
fn read_bits(reader: &mut Reader, most: u32, meter: &mut Meter) -> Outcome<Vec<u32>> {
    let mut bits = Vec::new();
    for _ in 0..reader.number()? {
        meter.work(1)?;
        bits.push(
            Some(reader.number()?)
                .filter(|bit| *bit < most)
                .ok_or(Fault::Malformed)?,
        );
    }
    Ok(bits)
}
