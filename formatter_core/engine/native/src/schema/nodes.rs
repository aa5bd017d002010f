//! The grammar under construction: rules of nodes, and the writer of its program.

use std::borrow::Cow;
use std::mem::size_of;

use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Fault, Outcome};
use crate::regular::program::{operation, write_counted, write_number, Reader};
use crate::schema::bits::Bits;
use crate::schema::tokens::{Token, PUNCTUATION};

/// A node of a rule's body. It refers to terminals by number.
#[derive(Clone)]
pub enum Node {
    Terminal(u32),
    Rule(u32),
    /// The rule of any value, which comes after all other rules.
    Any,
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
    Members(Box<Members>),
}

/// A list of one or more members with separators. Each member occurs at most once, unless it is repeated.
#[derive(Clone)]
pub struct Members {
    pub separator: Node,
    pub members: Vec<Member>,
    /// True if the members come in the order in which they are written.
    pub ordered: bool,
    pub minimum: u32,
    pub maximum: Option<u32>,
    /// The number of conditions. All conditions must be met in the end; each condition in `once` by just one member.
    pub conditions: u32,
    pub once: Bits,
}

/// A member, which has one or more alternatives.
#[derive(Clone, Default)]
pub struct Member {
    pub ways: Vec<Way>,
    pub required: bool,
    pub repeated: bool,
    /// True if each occurrence of the member must begin with a different value.
    pub distinct: bool,
    /// The conditions that are met if the member does not occur.
    pub absent: Bits,
}

/// An alternative of a member, and the conditions that it meets.
#[derive(Clone)]
pub struct Way {
    pub item: Node,
    pub meets: Bits,
}

impl Member {
    /// Make a member that meets no conditions.
    pub fn plain(items: Vec<Node>) -> Self {
        let way = |item| Way {
            item,
            meets: Bits::default(),
        };
        Member {
            ways: items.into_iter().map(way).collect(),
            ..Member::default()
        }
    }
}

/// Convert a count for a program; a count above any limit becomes the largest number.
pub fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Members {
    /// Return the heap memory in bytes, see `heap`.
    fn heap(&self) -> usize {
        let way = |way: &Way| way.item.heap() + way.meets.heap();
        let member = |member: &Member| {
            heap::list(&member.ways) + member.ways.iter().map(way).sum::<usize>() + member.absent.heap()
        };
        let members = self.members.iter().map(member).sum::<usize>();
        self.separator.heap() + heap::list(&self.members) + members + self.once.heap()
    }

    pub fn items(&self) -> impl Iterator<Item = &Node> {
        self.members.iter().flat_map(|member| &member.ways).map(|way| &way.item)
    }
}

impl Node {
    pub const NOTHING: Node = Node::Choice(Vec::new());

    /// Return the heap memory in bytes, see `heap`.
    pub fn heap(&self) -> usize {
        match self {
            Node::Terminal(_) | Node::Rule(_) | Node::Any => 0,
            Node::Sequence(items) | Node::Choice(items) => {
                heap::list(items) + items.iter().map(Node::heap).sum::<usize>()
            }
            Node::Repeat(item, ..) => size_of::<Node>() + item.heap(),
            Node::Members(members) => size_of::<Members>() + members.heap(),
        }
    }

    pub fn token(token: Token) -> Node {
        Node::Terminal(token as u32)
    }

    pub fn is_nothing(&self) -> bool {
        self.options().is_empty()
    }

    /// Return the alternatives of a choice, or the node itself.
    pub fn options(&self) -> &[Node] {
        match self {
            Node::Choice(options) => options,
            _ => std::slice::from_ref(self),
        }
    }
}

/// The flags of members in a program.
const REQUIRED: u8 = 1;
const REPEATED: u8 = 2;
const SEVERAL_WAYS: u8 = 4;
const DISTINCT: u8 = 8;

/// Make a flat sequence of the items.
pub fn in_order(items: Vec<Node>) -> Node {
    flat(items, true)
}

/// Make a choice of the items.
pub fn any_of(items: Vec<Node>) -> Node {
    flat(items, false)
}

#[inline(never)]
fn flat(items: Vec<Node>, in_order: bool) -> Node {
    let mut flat = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Node::Sequence(items) if in_order => flat.extend(items),
            Node::Choice(items) if !in_order => flat.extend(items),
            item => flat.push(item),
        }
    }
    match (flat.len(), in_order) {
        (1, _) => flat.remove(0),
        (_, true) => Node::Sequence(flat),
        (_, false) => Node::Choice(flat),
    }
}

/// Return whether a node derives something; `found` tells which rules do.
pub fn derives(node: &Node, found: &[bool]) -> bool {
    match node {
        Node::Terminal(_) | Node::Any => true,
        Node::Rule(rule) => found[*rule as usize],
        Node::Sequence(items) => items.iter().all(|item| derives(item, found)),
        Node::Choice(items) => items.iter().any(|item| derives(item, found)),
        Node::Repeat(item, minimum, _) => *minimum == 0 || derives(item, found),
        Node::Members(members) => {
            let derive = |member: &Member| member.ways.iter().any(|way| derives(&way.item, found));
            let mut required = members.members.iter().filter(|member| member.required).peekable();
            match required.peek() {
                Some(_) => required.all(derive),
                None => members.members.iter().any(derive),
            }
        }
    }
}

/// The inside of a terminal: its operations, the number and the height of its nodes, and the largest count of a repeat.
/// There are no operations if there are more nodes than any grammar may have.
#[derive(Clone, Default)]
pub struct Regular {
    pub program: Vec<u8>,
    pub size: u64,
    pub height: u32,
    pub repeat: u32,
}

/// A writer that writes rules of a grammar's program, see `program`.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    pub nodes: u64,
    terminals: &'a [Cow<'a, Regular>],
    /// The numbers of the terminals that were written before, by their programs.
    before: FastMap<&'a [u8], u32>,
    /// The numbers of the terminals in these rules, by their index in `terminals`.
    written: FastMap<u32, u32>,
    next: u32,
    /// The indices of the terminals that were written here for the first time; their numbers continue those of `know`.
    pub new: Vec<u32>,
    first: u32,
    any: u32,
    /// The index of the first punctuation terminal that belongs to a level, if there are levels.
    levels: Option<u32>,
    /// The number of brackets around the node that is being written.
    depth: i32,
}

/// The number of depths that have their own punctuation. Deeper punctuation, and punctuation under recursion, is that
/// of the last level.
pub const LEVELS: i32 = 16;

impl<'a> Writer<'a> {
    /// Make a writer. `first` is the number of the first rule; `any`, relative to `first`, is that of the rule of any
    /// value.
    pub fn new(
        out: &'a mut Vec<u8>,
        first: u32,
        any: u32,
        terminals: &'a [Cow<'a, Regular>],
        levels: Option<u32>,
    ) -> Self {
        Writer {
            out,
            nodes: 0,
            terminals,
            before: FastMap::default(),
            written: FastMap::default(),
            next: 0,
            new: Vec::new(),
            first,
            any,
            levels,
            depth: 0,
        }
    }

    /// Record the terminals that were written before.
    pub fn know(&mut self, data: &'a [u8]) -> Outcome<()> {
        let mut reader = Reader { data };
        while !reader.data.is_empty() {
            if reader.byte()? != operation::TERMINAL {
                return Err(Fault::Malformed);
            }
            self.before.entry(reader.counted_bytes()?).or_insert(self.next);
            self.next += 1;
        }
        Ok(())
    }

    /// Write a rule at a depth.
    pub fn rule(&mut self, body: &Node, depth: i32) {
        self.depth = depth;
        self.node(body);
        self.out.push(operation::RULE_END);
    }

    /// Write a rule that is the same at every depth.
    pub fn fixed_rule(&mut self, body: &Node) {
        let levels = self.levels.take();
        self.rule(body, 0);
        self.levels = levels;
    }

    fn node(&mut self, node: &Node) {
        self.nodes += 1;
        match node {
            Node::Terminal(number) => self.terminal(self.at_depth(*number)),
            Node::Rule(rule) => self.reference(self.first + *rule),
            Node::Any => self.reference(self.first + self.any),
            Node::Sequence(items) => self.list(operation::SEQUENCE, items),
            Node::Choice(items) => self.list(operation::CHOICE, items),
            Node::Repeat(item, minimum, maximum) => {
                self.node(item);
                self.out.push(operation::REPEAT);
                write_number(self.out, *minimum);
                write_number(self.out, maximum.map_or(0, |maximum| maximum + 1));
            }
            Node::Members(members) => self.members(members),
        }
    }

    fn members(&mut self, members: &Members) {
        self.node(&members.separator);
        for item in members.items() {
            self.node(item);
        }
        self.out.push(operation::MEMBERS);
        self.out.push(u8::from(members.ordered));
        write_number(self.out, members.minimum);
        write_number(self.out, members.maximum.map_or(0, |maximum| maximum + 1));
        write_number(self.out, members.conditions);
        write_bits(self.out, &members.once);
        write_number(self.out, members.members.len() as u32);
        for member in &members.members {
            let mut flags = if member.required { REQUIRED } else { 0 };
            flags |= if member.repeated { REPEATED } else { 0 };
            flags |= if member.distinct { DISTINCT } else { 0 };
            let is_small = matches!(&member.ways[..], [way] if way.meets.is_empty()) && member.absent.is_empty();
            if is_small {
                self.out.push(flags);
                continue;
            }
            self.out.push(flags | SEVERAL_WAYS);
            write_bits(self.out, &member.absent);
            write_number(self.out, member.ways.len() as u32);
            for way in &member.ways {
                write_bits(self.out, &way.meets);
            }
        }
    }

    fn list(&mut self, operation: u8, items: &[Node]) {
        let depth = self.depth;
        for item in items {
            self.node(item);
            match item {
                Node::Terminal(number) if operation == operation::SEQUENCE => self.depth += Token::step(*number),
                _ => {}
            }
        }
        self.depth = depth;
        self.out.push(operation);
        write_number(self.out, items.len() as u32);
    }

    fn reference(&mut self, rule: u32) {
        self.out.push(operation::REFERENCE);
        write_number(self.out, rule);
    }

    /// Return the number of a terminal at the present depth.
    fn at_depth(&self, number: u32) -> u32 {
        let Some(first) = self.levels.filter(|_| number < PUNCTUATION) else {
            return number;
        };
        let is_inside = number == Token::Comma as u32 || Token::step(number) < 0;
        let level = (self.depth - i32::from(is_inside)).clamp(0, LEVELS - 1);
        first + level as u32 * PUNCTUATION + number
    }

    fn terminal(&mut self, number: u32) {
        let regular = &self.terminals[number as usize];
        let (before, next) = (&self.before, self.next);
        let new = || before.get(&*regular.program).copied().unwrap_or(next);
        let known = *self.written.entry(number).or_insert_with(new);
        if known < self.next {
            self.out.push(operation::AGAIN);
            write_number(self.out, known);
        } else {
            self.next += 1;
            self.new.push(number);
            write_counted(self.out, operation::TERMINAL, &regular.program);
            self.nodes += regular.size;
        }
    }
}

/// Write the number of set bits, then their indices.
fn write_bits(out: &mut Vec<u8>, bits: &Bits) {
    write_number(out, bits.places().count() as u32);
    bits.places().for_each(|place| write_number(out, place as u32));
}
