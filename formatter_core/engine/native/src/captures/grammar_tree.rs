//! A grammar as it is written: nodes with captures, in order of preference. Masks need less, see `decode`.

use std::mem::size_of_val;
use std::sync::Arc;

use crate::base::hash::FastMap;
use crate::base::heap::{self, Counter};
use crate::base::limits::{Fault, Limit, Limits, Meter, Outcome};
use crate::grammar::decode::read_members;
use crate::grammar::members::Members;
use crate::regular::derive::Derivatives;
use crate::regular::distinct::Seen;
use crate::regular::multiples::Multiples;
use crate::regular::program::{operation, pop_many, spelling_of, Place, Reader};
use crate::regular::term::{Spelling, Term, Terms, EMPTY, NOTHING};

pub enum Node {
    Bytes(Box<[u8]>),
    Chars(Box<[(u32, u32)]>),
    Substring(Box<str>),
    JsonText(Box<str>, Spelling),
    Multiples(Multiples),
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
    /// A list of members, by its number; `items` are the separator and the items of the alternatives.
    Members {
        list: u32,
        items: Box<[u32]>,
    },
}

impl Node {
    /// Return the heap memory in bytes, see `heap`.
    fn heap(&self) -> usize {
        match self {
            Node::Bytes(bytes) => bytes.len(),
            Node::Chars(ranges) => size_of_val(&**ranges),
            Node::Substring(text) | Node::JsonText(text, _) => text.len(),
            Node::Sequence(items) | Node::Choice(items) | Node::Intersection(items) | Node::Members { items, .. } => {
                size_of_val(&**items)
            }
            _ => 0,
        }
    }

    /// Return the direct children of the node.
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

    /// Return whether the node is one terminal that no other terminal contains.
    pub fn is_leaf(&self) -> bool {
        matches!(
            self,
            Node::Bytes(_) | Node::Chars(_) | Node::Substring(_) | Node::JsonText(..) | Node::Terminal(_)
        )
    }
}

/// A grammar whose nodes each come after their children.
pub struct Written {
    pub nodes: Vec<Node>,
    /// The node of each rule.
    pub rules: Vec<u32>,
    pub start: u32,
    /// The lists of members, by number.
    pub members: Vec<Members>,
    /// The term of each node that is regular, else `NOTHING`.
    pub terms: Vec<Term>,
    none_seen: Arc<Seen>,
}

impl Written {
    /// Return the counter of the memory that the memories of lists of members take, in all texts that are read.
    pub fn memories(&self) -> &Counter {
        self.none_seen.counter()
    }

    /// Return the heap memory in bytes, see `heap`.
    pub fn heap(&self) -> usize {
        heap::list(&self.nodes)
            + self.nodes.iter().map(Node::heap).sum::<usize>()
            + heap::list(&self.rules)
            + heap::list(&self.members)
            + self.members.iter().map(Members::heap).sum::<usize>()
            + heap::list(&self.terms)
    }

    /// Read a serialised grammar; its terms are created in `terms`.
    pub fn read(data: &[u8], terms: &mut Terms, limits: &Limits, meter: &mut Meter) -> Outcome<Self> {
        let (mut reader, rules, start) = Reader::of_grammar(data)?;
        let mut builder = Builder {
            bytes: terms.bytes(),
            made: terms,
            limits,
            meter,
            rules,
            first: 0,
            place: Place::Rule,
            stack: Vec::new(),
            finished: Vec::new(),
            kept: FastMap::default(),
            members: Vec::new(),
            none_seen: Arc::default(),
            nodes: Vec::new(),
            terms: Vec::new(),
        };
        let mut bodies = Vec::new();
        while bodies.len() < rules as usize {
            match reader.shared_rules(rules as usize - bodies.len())? {
                Some((data, _)) => builder.shared_rules(data, &mut bodies)?,
                None => bodies.push(builder.rule(&mut reader)?),
            }
        }
        reader.finish()?;
        Ok(Written {
            nodes: builder.nodes,
            members: builder.members,
            none_seen: builder.none_seen,
            terms: builder.terms,
            rules: bodies,
            start,
        })
    }
}

/// Count the strings that the start of a serialised grammar matches, at most `most`. The start must be one terminal.
pub fn count_matches(data: &[u8], most: u64, limits: &Limits, meter: &mut Meter) -> Outcome<u64> {
    let (mut derivatives, term) = term_of(data, limits, meter)?;
    derivatives.count(term, most, meter)
}

/// Return the term of the start of a serialised grammar. The start must be one terminal.
pub fn term_of(data: &[u8], limits: &Limits, meter: &mut Meter) -> Outcome<(Derivatives, Term)> {
    let mut derivatives = Derivatives::new();
    let written = Written::read(data, &mut derivatives.terms, limits, meter)?;
    let body = written.rules[written.start as usize] as usize;
    if !written.nodes[body].is_leaf() {
        return Err(Fault::Malformed);
    }
    Ok((derivatives, written.terms[body]))
}

struct Builder<'a, 'm> {
    made: &'a mut Terms,
    /// The memory of all terms in bytes, when we counted it last.
    bytes: usize,
    limits: &'a Limits,
    meter: &'a mut Meter<'m>,
    /// The number of rules that can be referred to, and the number of the first one.
    rules: u32,
    first: u32,
    place: Place,
    /// Nodes that wait for their parent.
    stack: Vec<u32>,
    /// The terminals that were read, for `AGAIN`; inside a terminal, the nodes that were made there.
    finished: Vec<u32>,
    /// The nodes of embedded programs, by their bytes.
    kept: FastMap<&'a [u8], u32>,
    members: Vec<Members>,
    none_seen: Arc<Seen>,
    nodes: Vec<Node>,
    terms: Vec<Term>,
}

impl<'a> Builder<'a, '_> {
    /// Read the shared rules, which refer only to each other.
    fn shared_rules(&mut self, data: &'a [u8], bodies: &mut Vec<u32>) -> Outcome<()> {
        let mut reader = Reader { data };
        let count = reader.number()?;
        let rules = std::mem::replace(&mut self.rules, count);
        let first = std::mem::replace(&mut self.first, bodies.len() as u32);
        let finished = std::mem::take(&mut self.finished);
        for _ in 0..count {
            bodies.push(self.rule(&mut reader)?);
        }
        (self.rules, self.first, self.finished) = (rules, first, finished);
        reader.finish()
    }

    fn rule(&mut self, reader: &mut Reader<'a>) -> Outcome<u32> {
        loop {
            match reader.byte()? {
                operation::RULE_END => break,
                other => self.apply(other, reader)?,
            }
        }
        self.only()
    }

    /// Return the one node that is the root of all others.
    fn only(&mut self) -> Outcome<u32> {
        match std::mem::take(&mut self.stack)[..] {
            [node] => Ok(node),
            _ => Err(Fault::Malformed),
        }
    }

    fn apply(&mut self, operation: u8, reader: &mut Reader<'a>) -> Outcome<()> {
        self.meter.work(1)?;
        let is_regular = self.place != Place::Rule;
        let node = match operation {
            operation::BYTES => Node::Bytes(reader.counted_bytes()?.into()),
            operation::CHARS => Node::Chars(reader.ranges()?.into()),
            operation::SUBSTRING => Node::Substring(reader.text()?.into()),
            operation::SEQUENCE => Node::Sequence(self.items(reader)?),
            operation::CHOICE => Node::Choice(self.items(reader)?),
            operation::REPEAT | operation::LAZY_REPEAT => {
                let (minimum, maximum) = reader.bounds()?;
                Node::Repeat {
                    item: self.item()?,
                    minimum,
                    maximum,
                    greedy: operation == operation::REPEAT,
                }
            }
            operation::JSON_TEXT | operation::CANONICAL_TEXT if is_regular => {
                Node::JsonText(reader.text()?.into(), spelling_of(operation))
            }
            operation::MULTIPLES if is_regular => Node::Multiples(reader.multiples()?),
            operation::INTERSECTION if is_regular => Node::Intersection(self.items(reader)?),
            operation::COMPLEMENT if is_regular => Node::Complement(self.item()?),
            operation::SHORTEST if is_regular => Node::Shortest(self.item()?),
            operation::TERMINAL if !is_regular => Node::Terminal(self.alone(reader.counted_bytes()?, Place::Terminal)?),
            operation::REFERENCE if !is_regular => {
                let rule = Some(reader.number()?).filter(|rule| *rule < self.rules);
                Node::Reference(self.first + rule.ok_or(Fault::Malformed)?)
            }
            operation::TOKEN if !is_regular => Node::Token(reader.number()?),
            operation::CAPTURE if !is_regular => Node::Capture {
                name: reader.number()?,
                item: self.item()?,
            },
            operation::REGION if !is_regular => {
                // This number is a token count; a text by itself has no tokens to count.
                reader.number()?;
                return Ok(());
            }
            operation::MEMBERS if !is_regular => self.list_of_members(reader)?,
            operation::KEPT if self.place == Place::Terminal => {
                let node = self.alone(reader.counted_bytes()?, Place::Kept)?;
                self.finished.push(node);
                self.stack.push(node);
                return Ok(());
            }
            operation::AGAIN => {
                let number = reader.number()? as usize;
                self.stack.push(*self.finished.get(number).ok_or(Fault::Malformed)?);
                return Ok(());
            }
            _ => return Err(Fault::Malformed),
        };
        self.push(node)
    }

    fn list_of_members(&mut self, reader: &mut Reader) -> Outcome<Node> {
        let list = self.members.len() as u32;
        let members = read_members(reader, list, &self.none_seen, self.meter)?;
        let items = pop_many(&mut self.stack, 1 + members.ways.len())?;
        if !self.nodes[items[0] as usize].is_leaf() {
            return Err(Fault::Malformed);
        }
        self.members.push(members);
        Ok(Node::Members {
            list,
            items: items.into(),
        })
    }

    /// Return the node of an embedded program.
    fn alone(&mut self, program: &'a [u8], place: Place) -> Outcome<u32> {
        if let Some(&node) = self.kept.get(program) {
            return Ok(node);
        }
        let outside = std::mem::replace(&mut self.place, place);
        let finished = std::mem::take(&mut self.finished);
        let waiting = std::mem::take(&mut self.stack);
        let mut reader = Reader { data: program };
        while !reader.data.is_empty() {
            let operation = reader.byte()?;
            self.apply(operation, &mut reader)?;
        }
        let node = self.only()?;
        self.place = outside;
        self.finished = finished;
        self.stack = waiting;
        self.kept.insert(program, node);
        Ok(node)
    }

    fn item(&mut self) -> Outcome<u32> {
        self.stack.pop().ok_or(Fault::Malformed)
    }

    fn items(&mut self, reader: &mut Reader) -> Outcome<Box<[u32]>> {
        let items = pop_many(&mut self.stack, reader.number()? as usize)?;
        Ok(items.into())
    }

    fn push(&mut self, node: Node) -> Outcome<()> {
        let number = self.nodes.len() as u32;
        if u64::from(number) >= self.limits.nodes.saturating_mul(2) {
            return Err(Fault::Limit(Limit::Nodes));
        }
        let is_regular = self.place != Place::Rule;
        let term = match is_regular || node.is_leaf() {
            true => self.term(&node)?,
            false => NOTHING,
        };
        let before = std::mem::replace(&mut self.bytes, self.made.bytes());
        self.meter.grow(self.bytes - before)?;
        if is_regular || matches!(node, Node::Terminal(_)) {
            self.finished.push(number);
        }
        self.stack.push(number);
        self.nodes.push(node);
        self.terms.push(term);
        Ok(())
    }

    fn term(&mut self, node: &Node) -> Outcome<Term> {
        let (made, meter) = (&mut *self.made, &mut *self.meter);
        let of = |items: &[u32]| items.iter().map(|item| self.terms[*item as usize]).collect::<Vec<_>>();
        meter.work(node.children().len())?;
        Ok(match node {
            Node::Bytes(bytes) => made.charged_literal(bytes, 4, meter)?,
            Node::Chars(ranges) => {
                meter.work(8 * ranges.len())?;
                made.characters(ranges)
            }
            Node::JsonText(text, spelling) => made.charged_json_text(text, *spelling, 4, meter)?,
            Node::Multiples(multiples) => made.multiples(*multiples),
            Node::Substring(text) => {
                let text: Vec<char> = text.chars().collect();
                meter.work(8 * text.len())?;
                if 2 * text.len() as u64 > self.limits.states {
                    return Err(Fault::Limit(Limit::States));
                }
                made.substring(&text)
            }
            Node::Sequence(items) => {
                let mut whole = EMPTY;
                for item in of(items).into_iter().rev() {
                    meter.work(1)?;
                    whole = made.charged_concatenation(item, whole, meter)?;
                }
                whole
            }
            Node::Choice(items) => made.tree(of(items), meter)?,
            Node::Intersection(items) => made.intersection(of(items)),
            Node::Complement(item) => made.complement(self.terms[*item as usize]),
            Node::Shortest(item) => made.shortest(self.terms[*item as usize]),
            Node::Repeat {
                item, minimum, maximum, ..
            } => made.repeat(self.terms[*item as usize], *minimum, *maximum),
            Node::Terminal(item) => self.terms[*item as usize],
            Node::Reference(_) | Node::Token(_) | Node::Capture { .. } | Node::Members { .. } => {
                return Err(Fault::Malformed);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Usage;
    use crate::regular::program::tests::NESTED;

    #[test]
    fn example_tree_keeps_the_order_of_alternatives() {
        let (limits, usage) = (Limits::default(), Usage::default());
        let mut meter = Meter::new(limits.work, &usage, limits.states);
        let written = Written::read(NESTED, &mut Terms::new(), &limits, &mut meter).unwrap();
        let root = &written.nodes[written.rules[0] as usize];
        let [nested, plain] = root.children() else {
            panic!("two alternatives")
        };
        assert!(matches!(&written.nodes[*nested as usize], Node::Sequence(parts) if parts.len() == 3));
        assert!(matches!(&written.nodes[*plain as usize], Node::Bytes(text) if **text == *b"x"));
    }
}
