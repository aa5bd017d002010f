//! A grammar as it is written: nodes with captures, in the order of preference. Masks need less, see `decode`.
//!
//! The format: numbers of 32 bits, and a text that they refer to. First the numbers of nodes, of rules, and of the start
//! rule; then the nodes, each after those that it is made of; then each rule's node.

use crate::decode::decode_members;
use crate::derive::Derivatives;
use crate::limits::{Fault, Limit, Limits, Meter, Outcome};
use crate::members::Members;
use crate::term::{Term, EMPTY, NOTHING, UNBOUNDED};

mod kind {
    pub const BYTES: u32 = 1;
    pub const CHARS: u32 = 2;
    pub const SEQUENCE: u32 = 3;
    pub const CHOICE: u32 = 4;
    pub const REPEAT: u32 = 5;
    pub const INTERSECTION: u32 = 6;
    pub const COMPLEMENT: u32 = 7;
    pub const SHORTEST: u32 = 8;
    pub const SUBSTRING: u32 = 9;
    pub const JSON_TEXT: u32 = 10;
    pub const TERMINAL: u32 = 11;
    pub const REFERENCE: u32 = 12;
    pub const TOKEN: u32 = 13;
    pub const CAPTURE: u32 = 14;
    pub const MEMBERS: u32 = 15;
}

pub enum Node {
    Bytes(Box<[u8]>),
    Chars(Box<[(u32, u32)]>),
    Substring(Box<str>),
    JsonText(Box<str>),
    Sequence(Box<[u32]>),
    Choice(Box<[u32]>),
    Intersection(Box<[u32]>),
    Complement(u32),
    Shortest(u32),
    Repeat {
        item: u32,
        minimum: u32,
        maximum: u32,
        greedy: bool,
    },
    Terminal(u32),
    Reference(u32),
    Token(u32),
    Capture {
        name: u32,
        item: u32,
    },
    /// A list of members, by its number: the separator, and the items of the ways.
    Members {
        list: u32,
        items: Box<[u32]>,
    },
}

impl Node {
    /// The nodes directly below.
    pub fn children(&self) -> &[u32] {
        match self {
            Node::Sequence(items) | Node::Choice(items) | Node::Intersection(items) | Node::Members { items, .. } => {
                items
            }
            Node::Complement(item)
            | Node::Shortest(item)
            | Node::Terminal(item)
            | Node::Repeat { item, .. }
            | Node::Capture { item, .. } => std::slice::from_ref(item),
            _ => &[],
        }
    }

    /// Whether it is one terminal, outside of which no other stands.
    pub fn is_leaf(&self) -> bool {
        matches!(
            self,
            Node::Bytes(_) | Node::Chars(_) | Node::Substring(_) | Node::JsonText(_) | Node::Terminal(_)
        )
    }
}

pub struct Written {
    pub nodes: Vec<Node>,
    /// The node of each rule.
    pub rules: Vec<u32>,
    pub start: u32,
    /// The lists of members, by number.
    pub members: Vec<Members>,
    /// The term of each node that is regular, else `NOTHING`.
    pub terms: Vec<Term>,
}

impl Written {
    /// Read a grammar; terms are made in `derivatives`.
    pub fn read(
        numbers: &[u32],
        text: &[u8],
        derivatives: &mut Derivatives,
        limits: &Limits,
        meter: &mut Meter,
    ) -> Outcome<Self> {
        let mut reader = Reader {
            numbers,
            text,
            members: Vec::new(),
        };
        let [count, rules, start] = reader.numbers()?;
        if u64::from(count) > limits.nodes.saturating_mul(2) {
            return Err(Fault::Limit(Limit::Nodes));
        }
        let mut nodes = Vec::new();
        for number in 0..count {
            meter.work(1)?;
            nodes.push(reader.node(number, rules, meter)?);
        }
        let mut bodies = Vec::new();
        for _ in 0..rules {
            bodies.push(reader.child(count)?);
        }
        if start >= rules || !reader.numbers.is_empty() {
            return Err(Fault::Malformed);
        }
        let mut written = Written {
            terms: vec![NOTHING; nodes.len()],
            nodes,
            rules: bodies,
            start,
            members: reader.members,
        };
        written.make_terms(derivatives, limits, meter)?;
        Ok(written)
    }

    fn make_terms(&mut self, derivatives: &mut Derivatives, limits: &Limits, meter: &mut Meter) -> Outcome<()> {
        let mut regular = vec![false; self.nodes.len()];
        for (number, node) in self.nodes.iter().enumerate().rev() {
            if matches!(node, Node::Members { items, .. } if !self.nodes[items[0] as usize].is_leaf()) {
                return Err(Fault::Malformed);
            }
            if matches!(node, Node::Terminal(_)) && regular[number] {
                return Err(Fault::Malformed);
            }
            if regular[number] || node.is_leaf() {
                regular[number] = true;
                node.children().iter().for_each(|child| regular[*child as usize] = true);
            }
        }
        for (number, is_regular) in regular.into_iter().enumerate() {
            if is_regular {
                let bytes = derivatives.terms.bytes();
                self.terms[number] = self.term(number, derivatives, limits, meter)?;
                meter.grow(derivatives.terms.bytes() - bytes)?;
            }
        }
        Ok(())
    }

    fn term(&self, number: usize, derivatives: &mut Derivatives, limits: &Limits, meter: &mut Meter) -> Outcome<Term> {
        let terms = &mut derivatives.terms;
        let of = |items: &[u32]| items.iter().map(|item| self.terms[*item as usize]).collect::<Vec<_>>();
        let node = &self.nodes[number];
        meter.work(node.children().len())?;
        Ok(match node {
            Node::Bytes(bytes) => terms.literal(bytes),
            Node::Chars(ranges) => terms.characters(ranges),
            Node::JsonText(text) => terms.json_text(text),
            Node::Substring(text) => {
                let text: Vec<char> = text.chars().collect();
                meter.work(8 * text.len())?;
                if 2 * text.len() as u64 > limits.states {
                    return Err(Fault::Limit(Limit::States));
                }
                terms.substring(&text)
            }
            Node::Sequence(items) => {
                let mut whole = EMPTY;
                for item in of(items).into_iter().rev() {
                    let before = terms.len();
                    whole = terms.concatenation(item, whole);
                    meter.work(1 + terms.len() - before)?;
                }
                whole
            }
            Node::Choice(items) => terms.alternation(of(items)),
            Node::Intersection(items) => terms.intersection(of(items)),
            Node::Complement(item) => terms.complement(self.terms[*item as usize]),
            Node::Shortest(item) => terms.shortest(self.terms[*item as usize]),
            Node::Repeat {
                item, minimum, maximum, ..
            } => terms.repeat(self.terms[*item as usize], *minimum, *maximum),
            Node::Terminal(item) => self.terms[*item as usize],
            Node::Reference(_) | Node::Token(_) | Node::Capture { .. } | Node::Members { .. } => {
                return Err(Fault::Malformed);
            }
        })
    }
}

struct Reader<'a> {
    numbers: &'a [u32],
    text: &'a [u8],
    members: Vec<Members>,
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Outcome<u32> {
        let (first, rest) = self.numbers.split_first().ok_or(Fault::Malformed)?;
        self.numbers = rest;
        Ok(*first)
    }

    fn numbers<const N: usize>(&mut self) -> Outcome<[u32; N]> {
        let mut found = [0; N];
        for number in &mut found {
            *number = self.number()?;
        }
        Ok(found)
    }

    /// As many numbers as the next number says.
    fn list(&mut self, each: usize, meter: &mut Meter) -> Outcome<&'a [u32]> {
        let length = (self.number()? as usize).checked_mul(each).ok_or(Fault::Malformed)?;
        if length > self.numbers.len() {
            return Err(Fault::Malformed);
        }
        meter.work(4 * length)?;
        let (list, rest) = self.numbers.split_at(length);
        self.numbers = rest;
        Ok(list)
    }

    /// One of the nodes before `end`.
    fn child(&mut self, end: u32) -> Outcome<u32> {
        Some(self.number()?)
            .filter(|child| *child < end)
            .ok_or(Fault::Malformed)
    }

    fn bytes(&mut self, meter: &mut Meter) -> Outcome<&'a [u8]> {
        let [start, length] = self.numbers()?;
        meter.work(4 * length as usize)?;
        let text = self
            .text
            .get(start as usize..)
            .and_then(|text| text.get(..length as usize));
        text.ok_or(Fault::Malformed)
    }

    fn string(&mut self, meter: &mut Meter) -> Outcome<Box<str>> {
        let text = std::str::from_utf8(self.bytes(meter)?).map_err(|_| Fault::Malformed)?;
        Ok(text.into())
    }

    fn node(&mut self, own: u32, rules: u32, meter: &mut Meter) -> Outcome<Node> {
        let kind = self.number()?;
        Ok(match kind {
            kind::BYTES => Node::Bytes(self.bytes(meter)?.into()),
            kind::CHARS => {
                let ranges: Box<[(u32, u32)]> = self
                    .list(2, meter)?
                    .chunks(2)
                    .map(|range| (range[0], range[1]))
                    .collect();
                if ranges.iter().any(|(low, high)| low > high || *high > 0x10_ffff) {
                    return Err(Fault::Malformed);
                }
                Node::Chars(ranges)
            }
            kind::SEQUENCE | kind::CHOICE | kind::INTERSECTION => {
                let items = self.list(1, meter)?;
                if items.iter().any(|item| *item >= own) {
                    return Err(Fault::Malformed);
                }
                match kind {
                    kind::SEQUENCE => Node::Sequence(items.into()),
                    kind::CHOICE => Node::Choice(items.into()),
                    _ => Node::Intersection(items.into()),
                }
            }
            kind::REPEAT => {
                let item = self.child(own)?;
                let [minimum, maximum, greedy] = self.numbers()?;
                if minimum > maximum || minimum == UNBOUNDED {
                    return Err(Fault::Malformed);
                }
                Node::Repeat {
                    item,
                    minimum,
                    maximum,
                    greedy: greedy != 0,
                }
            }
            kind::COMPLEMENT => Node::Complement(self.child(own)?),
            kind::SHORTEST => Node::Shortest(self.child(own)?),
            kind::TERMINAL => Node::Terminal(self.child(own)?),
            kind::SUBSTRING => Node::Substring(self.string(meter)?),
            kind::JSON_TEXT => Node::JsonText(self.string(meter)?),
            kind::REFERENCE => Node::Reference(self.child(rules)?),
            kind::TOKEN => Node::Token(self.number()?),
            kind::CAPTURE => {
                let name = self.number()?;
                Node::Capture {
                    name,
                    item: self.child(own)?,
                }
            }
            kind::MEMBERS => {
                let list = self.members.len() as u32;
                let members = decode_members(self.bytes(meter)?, list, meter)?;
                let items = self.list(1, meter)?;
                if items.len() != members.ways.len() + 1 || items.iter().any(|item| *item >= own) {
                    return Err(Fault::Malformed);
                }
                self.members.push(members);
                Node::Members {
                    list,
                    items: items.into(),
                }
            }
            _ => return Err(Fault::Malformed),
        })
    }
}
