//! The grammar under construction: rules of nodes, and how its program is written.

use std::borrow::Cow;

use crate::hash::FastMap;
use crate::limits::{Fault, Outcome};
use crate::program::{operation, write_counted, write_number, Reader};
use crate::schema::lower::{Token, PUNCTUATION};

/// A node of a rule's body. Terminals stand here by number.
#[derive(Clone)]
pub enum Node {
    Terminal(u32),
    Rule(u32),
    /// The rule of any value, which comes after all others.
    Any,
    /// The rule of a schema that is lowered elsewhere.
    Hole(u32),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
    /// One or more members, each with its flags, and the separator. What has the flag `ANOTHER_WAY` is one of the
    /// member before, which has `SEVERAL_WAYS`.
    Members {
        separator: Box<Node>,
        members: Vec<(u8, Node)>,
        in_any_order: bool,
    },
}

impl Node {
    pub const NOTHING: Node = Node::Choice(Vec::new());

    pub fn is_nothing(&self) -> bool {
        self.options().is_empty()
    }

    /// Its alternatives, or itself.
    pub fn options(&self) -> &[Node] {
        match self {
            Node::Choice(options) => options,
            _ => std::slice::from_ref(self),
        }
    }
}

/// The flags of members in a program.
pub const OPTIONAL: u8 = 0;
pub const REQUIRED: u8 = 1;
pub const REPEATED: u8 = 2;
pub const SEVERAL_WAYS: u8 = 4;
/// Never written.
pub const ANOTHER_WAY: u8 = 16;
/// For conditions that the absence of a member meets, or a way.
const NO_CONDITIONS: u32 = 0;

/// The items one after the other, in one flat sequence.
pub fn in_order(items: Vec<Node>) -> Node {
    flat(items, true)
}

/// One of the items.
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

/// In a program: at least one, no maximum, no conditions.
const ONE_OR_MORE: [u8; 4] = [1, 0, 0, 0];

/// Whether a node derives something, given which rules and holes do.
pub fn derives(node: &Node, found: &[bool], holes: &[bool]) -> bool {
    match node {
        Node::Terminal(_) | Node::Any => true,
        Node::Rule(rule) => found[*rule as usize],
        Node::Hole(hole) => holes.get(*hole as usize) == Some(&true),
        Node::Sequence(items) => items.iter().all(|item| derives(item, found, holes)),
        Node::Choice(items) => items.iter().any(|item| derives(item, found, holes)),
        Node::Repeat(item, minimum, _) => *minimum == 0 || derives(item, found, holes),
        Node::Members { members, .. } => {
            let derive = |(_, item): &(u8, Node)| derives(item, found, holes);
            let mut required = members.iter().filter(|member| member.0 == REQUIRED).peekable();
            match required.peek() {
                Some(_) => required.all(derive),
                None => members.iter().any(derive),
            }
        }
    }
}

/// Whether the members that may come several times derive something, given which rules and holes do.
pub fn others_derive(node: &Node, found: &[bool], holes: &[bool]) -> bool {
    match node {
        Node::Sequence(items) => items.iter().all(|item| others_derive(item, found, holes)),
        Node::Members { members, .. } => {
            let mut others = members
                .iter()
                .filter(|(flags, _)| flags & (REPEATED | ANOTHER_WAY) != 0);
            others.all(|(_, item)| derives(item, found, holes))
        }
        _ => true,
    }
}

/// Call `found` for each rule and each hole that a node uses, with its depth there, where the node stands at one.
pub fn uses(node: &Node, depth: i32, found: &mut impl FnMut(&Node, i32)) {
    match node {
        Node::Rule(_) | Node::Hole(_) => found(node, depth),
        Node::Sequence(items) => {
            let mut depth = depth;
            for item in items {
                uses(item, depth, found);
                if let Node::Terminal(number) = item {
                    depth += Token::step(*number);
                }
            }
        }
        Node::Choice(items) => items.iter().for_each(|item| uses(item, depth, found)),
        Node::Repeat(item, ..) => uses(item, depth, found),
        Node::Members { members, .. } => members.iter().for_each(|(_, item)| uses(item, depth, found)),
        Node::Terminal(_) | Node::Any => {}
    }
}

/// What stands inside of a terminal: its operations, and how many nodes they are.
#[derive(Clone, Default)]
pub struct Regular {
    pub program: Vec<u8>,
    pub size: u64,
}

impl Regular {
    /// A size, a length and a program.
    #[inline(never)]
    pub fn read(reader: &mut Reader) -> Outcome<Self> {
        let size = u64::from(reader.number()?);
        let program = reader.counted_bytes()?.to_vec();
        Ok(Regular { program, size })
    }
}

/// Writes rules of a grammar's program, see `program`.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    pub nodes: u64,
    terminals: &'a [Cow<'a, Regular>],
    /// The number of each terminal that has been written: those that are the same are written once.
    written: FastMap<&'a [u8], u32>,
    next: u32,
    /// The terminals that were written here, by their numbers from those of `know` on.
    pub new: Vec<u32>,
    first: u32,
    any: u32,
    /// The rules of holes.
    holes: &'a [u32],
    /// Where the punctuation of levels begins among the terminals, if there is any.
    levels: Option<u32>,
    /// In how many brackets what is written stands.
    depth: i32,
}

/// How deep punctuation is told apart by its depth: what is deeper, or under recursion, is as on the last level.
pub const LEVELS: i32 = 16;

impl<'a> Writer<'a> {
    /// `first` is the number of the first rule, and `any` that of the rule of any value from there on.
    pub fn new(
        out: &'a mut Vec<u8>,
        first: u32,
        any: u32,
        holes: &'a [u32],
        terminals: &'a [Cow<'a, Regular>],
        levels: Option<u32>,
    ) -> Self {
        Writer {
            out,
            nodes: 0,
            terminals,
            written: FastMap::default(),
            next: 0,
            new: Vec::new(),
            first,
            any,
            holes,
            levels,
            depth: 0,
        }
    }

    /// Take up terminals that were written before.
    pub fn know(&mut self, data: &'a [u8]) -> Outcome<()> {
        let mut reader = Reader { data };
        while !reader.data.is_empty() {
            if reader.byte()? != operation::TERMINAL {
                return Err(Fault::Malformed);
            }
            self.written.entry(reader.counted_bytes()?).or_insert(self.next);
            self.next += 1;
        }
        Ok(())
    }

    /// Write a rule that stands at a depth.
    pub fn rule(&mut self, body: &Node, depth: i32) {
        self.depth = depth;
        self.node(body);
        self.out.push(operation::RULE_END);
    }

    fn node(&mut self, node: &Node) {
        self.nodes += 1;
        match node {
            Node::Terminal(number) => self.terminal(self.at_depth(*number)),
            Node::Rule(rule) => self.reference(self.first + *rule),
            Node::Any => self.reference(self.first + self.any),
            Node::Hole(hole) => self.reference(self.holes[*hole as usize]),
            Node::Sequence(items) => self.list(operation::SEQUENCE, items),
            Node::Choice(items) => self.list(operation::CHOICE, items),
            Node::Repeat(item, minimum, maximum) => {
                self.node(item);
                self.out.push(operation::REPEAT);
                write_number(self.out, *minimum);
                write_number(self.out, maximum.map_or(0, |maximum| maximum + 1));
            }
            Node::Members {
                separator,
                members,
                in_any_order,
            } => {
                self.node(separator);
                for (_, item) in members {
                    self.node(item);
                }
                self.out.push(operation::MEMBERS);
                self.out.push(u8::from(!in_any_order));
                self.out.extend_from_slice(&ONE_OR_MORE);
                let is_other_way = |member: &&(u8, Node)| member.0 == ANOTHER_WAY;
                write_number(
                    self.out,
                    (members.len() - members.iter().filter(is_other_way).count()) as u32,
                );
                for (place, (flags, _)) in members.iter().enumerate().filter(|(_, member)| !is_other_way(member)) {
                    self.out.push(*flags);
                    if flags & SEVERAL_WAYS != 0 {
                        let ways = 1 + members[place + 1..].iter().take_while(is_other_way).count();
                        write_number(self.out, NO_CONDITIONS);
                        write_number(self.out, ways as u32);
                        (0..ways).for_each(|_| write_number(self.out, NO_CONDITIONS));
                    }
                }
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

    /// The number of a terminal at the depth that it stands at.
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
        let known = *self.written.entry(&regular.program).or_insert(self.next);
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
