//! Patterns of ECMA 262 as regular nodes: the common part of `syntax/regex`, which makes the same nodes in the same way.
//! Whatever may be invalid, or is rare, is left to that: look-around, back-references, properties, flags, named groups.

/// Longer patterns, deeper ones, and those with more anchors are left to others.
const LONGEST: usize = 1024;
const DEEPEST: u32 = 16;
const MOST_ANCHORS: u32 = 6;
/// Counts with more digits are left to others.
const MOST_DIGITS: usize = 4;

pub const LAST: u32 = 0x10_ffff;
type Class = &'static [(u32, u32)];
const NONE: Class = &[];
const DIGITS: Class = &[(0x30, 0x39)];
const WORD: Class = &[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)];
const LINE_ENDS: Class = &[(0x0a, 0x0a), (0x0d, 0x0d), (0x2028, 0x2029)];
/// White space and line ends (ECMA-262, sections 12.2 and 12.3).
const SPACE: Class = &[
    (0x09, 0x0d),
    (0x20, 0x20),
    (0xa0, 0xa0),
    (0x1680, 0x1680),
    (0x2000, 0x200a),
    (0x2028, 0x2029),
    (0x202f, 0x202f),
    (0x205f, 0x205f),
    (0x3000, 0x3000),
    (0xfeff, 0xfeff),
];

/// Where a list or a text begins and ends.
pub type Span = (u32, u32);

/// A node, or what holds anchors and is no set of texts by itself.
#[derive(Clone, Copy, PartialEq)]
pub enum Tree {
    Text(Span),
    Chars(Span),
    Sequence(Span),
    Choice(Span),
    /// The place of the item, the least count, the greatest plus one or 0, and whether it is greedy.
    Repeat(u32, u32, u32, bool),
    /// The end of the text, or its start.
    Anchor(bool),
    Concat(Span),
    Alternate(Span),
}

const EMPTY: Tree = Tree::Sequence((0, 0));

/// What follows a position: the whole text begins there, or ends, if it says so.
#[derive(Clone, Copy)]
struct Tail {
    at_start: bool,
    at_end: bool,
    node: Tree,
}

/// A pattern, and what its nodes hold.
pub struct Pattern<'a> {
    rest: &'a str,
    anchors: u32,
    items: Vec<Tree>,
    /// Sorted, disjoint, inclusive, and without surrogates.
    ranges: Vec<(u32, u32)>,
    text: Vec<u8>,
    /// Alternatives, and what stands side by side, that are not finished.
    branches: Vec<Tree>,
    row: Vec<Tree>,
    /// The texts in which the pattern is found.
    pub whole: Tree,
}

impl<'a> Pattern<'a> {
    /// None if that is left to others.
    pub fn read(pattern: &'a str) -> Option<Self> {
        (pattern.len() <= LONGEST).then_some(())?;
        let mut reader = Pattern {
            rest: pattern,
            anchors: 0,
            items: Vec::new(),
            ranges: Vec::new(),
            text: Vec::new(),
            branches: Vec::new(),
            row: Vec::new(),
            whole: EMPTY,
        };
        reader.whole = reader.found()?;
        Some(reader)
    }

    fn found(&mut self) -> Option<Tree> {
        let tree = self.alternatives(0)?;
        (self.rest.is_empty() && self.anchors <= MOST_ANCHORS).then_some(())?;
        let start = self.ranges.len();
        self.add_class(start, NONE, true);
        let any_char = self.one_of(start)?;
        let any_text = self.repeat(any_char, 0, 0, true);
        if is_node(tree) {
            if self.is_nullable(tree) {
                return Some(any_text);
            }
            self.row.extend([any_text, tree, any_text]);
            return Some(self.concat(0));
        }
        let mut tails = vec![Tail {
            at_start: false,
            at_end: false,
            node: EMPTY,
        }];
        for tree in [any_text, tree, any_text] {
            tails = self.follow(tree, &tails);
        }
        (!tails.is_empty()).then_some(())?;
        self.row.extend(tails.iter().map(|tail| tail.node));
        Some(self.choice(0))
    }

    pub fn text(&self, span: Span) -> &[u8] {
        &self.text[span.0 as usize..span.1 as usize]
    }

    pub fn ranges(&self, span: Span) -> &[(u32, u32)] {
        &self.ranges[span.0 as usize..span.1 as usize]
    }

    pub fn items(&self, span: Span) -> &[Tree] {
        &self.items[span.0 as usize..span.1 as usize]
    }

    fn is_nullable(&self, node: Tree) -> bool {
        self.lengths(node).0 == 0
    }

    /// The least and the greatest length in characters, and whether every length between them comes for certain.
    #[inline(never)]
    pub fn lengths(&self, node: Tree) -> (u32, u32, bool) {
        match node {
            Tree::Text(span) => {
                let is_first = |byte: &&u8| **byte & 0xc0 != 0x80;
                let length = self.text(span).iter().filter(is_first).count() as u32;
                (length, length, true)
            }
            Tree::Sequence(span) => {
                let mut all = (0, 0, true);
                for item in self.items(span) {
                    let item = self.lengths(*item);
                    all.0 = item.0.saturating_add(all.0);
                    all.1 = item.1.saturating_add(all.1);
                    all.2 &= item.2;
                }
                all
            }
            Tree::Choice(span) => {
                let mut all = (u32::MAX, 0, true);
                for item in self.items(span) {
                    let item = self.lengths(*item);
                    all.2 &= item.2 && (item.0 == all.0 || all.0 == u32::MAX);
                    all.0 = item.0.min(all.0);
                    all.1 = item.1.max(all.1);
                }
                all
            }
            Tree::Repeat(item, minimum, maximum, _) => {
                let (least, most, all) = self.lengths(self.items[item as usize]);
                (
                    least.saturating_mul(minimum),
                    most.saturating_mul(maximum.wrapping_sub(1)),
                    all && (least <= 1 || minimum + 1 == maximum),
                )
            }
            _ => (1, 1, true),
        }
    }

    #[inline(never)]
    fn repeat(&mut self, item: Tree, minimum: u32, maximum: u32, greedy: bool) -> Tree {
        self.items.push(item);
        Tree::Repeat(self.items.len() as u32 - 1, minimum, maximum, greedy)
    }

    /// What stands in the row from a place on, one after the other: neighbours without anchors become one node.
    #[inline(never)]
    fn concat(&mut self, first: usize) -> Tree {
        if self.row.len() == first + 1 {
            return self.row.pop().unwrap_or(EMPTY);
        }
        let (end, parts) = (self.row.len(), self.branches.len());
        for place in first..end {
            let item = self.row[place];
            match item {
                Tree::Sequence(span) => self
                    .row
                    .extend_from_slice(&self.items[span.0 as usize..span.1 as usize]),
                _ if is_node(item) => self.push(end, item),
                _ => {
                    self.end_part(end);
                    self.branches.push(item);
                }
            }
        }
        if self.branches.len() == parts {
            let node = self.joined(end);
            self.row.truncate(first);
            return node;
        }
        self.end_part(end);
        self.row.truncate(first);
        self.row.extend_from_slice(&self.branches[parts..]);
        self.branches.truncate(parts);
        Tree::Concat(self.list(first))
    }

    /// What stands in the row from a place on becomes a part.
    #[inline(never)]
    fn end_part(&mut self, first: usize) {
        if self.row.len() > first {
            let node = self.joined(first);
            self.branches.push(node);
        }
    }

    /// Append a node to the row; a text after a text, from a place on, becomes part of that.
    #[inline(never)]
    fn push(&mut self, first: usize, node: Tree) {
        if self.row.len() > first {
            if let (Some(Tree::Text(last)), Tree::Text(text)) = (self.row.last_mut(), node) {
                if last.1 != text.0 {
                    let start = self.text.len() as u32;
                    self.text.extend_from_within(last.0 as usize..last.1 as usize);
                    self.text.extend_from_within(text.0 as usize..text.1 as usize);
                    *last = (start, self.text.len() as u32);
                } else {
                    last.1 = text.1;
                }
                return;
            }
        }
        self.row.push(node);
    }

    /// Make a list of what stands in the row from a place on.
    #[inline(never)]
    fn list(&mut self, first: usize) -> Span {
        let start = self.items.len() as u32;
        self.items.extend_from_slice(&self.row[first..]);
        self.row.truncate(first);
        (start, self.items.len() as u32)
    }

    #[inline(never)]
    fn joined(&mut self, first: usize) -> Tree {
        match self.row.len() - first {
            0 => EMPTY,
            1 => self.row.pop().unwrap_or(EMPTY),
            _ => Tree::Sequence(self.list(first)),
        }
    }

    #[inline(never)]
    fn choice(&mut self, first: usize) -> Tree {
        match self.row.len() - first {
            1 => self.row.pop().unwrap_or(EMPTY),
            _ => Tree::Choice(self.list(first)),
        }
    }

    /// The tails before a tree, given those after it.
    fn follow(&mut self, tree: Tree, tails: &[Tail]) -> Vec<Tail> {
        let mut tails = tails.to_vec();
        let before = self.row.len();
        match tree {
            Tree::Concat(span) => {
                for place in (span.0..span.1).rev() {
                    tails = self.follow(self.items[place as usize], &tails);
                }
                return tails;
            }
            Tree::Alternate(span) => {
                let mut found = Vec::new();
                for place in span.0..=span.1 {
                    let item = self.items.get(place as usize).filter(|_| place < span.1).copied();
                    match item {
                        // Neighbours without anchors stay together.
                        Some(item) if is_node(item) => self.row.push(item),
                        _ => {
                            if self.row.len() > before {
                                let nodes = self.choice(before);
                                found.append(&mut self.follow(nodes, &tails));
                            }
                            if let Some(item) = item {
                                found.append(&mut self.follow(item, &tails));
                            }
                        }
                    }
                }
                tails = found;
            }
            Tree::Anchor(false) => {
                tails.iter_mut().for_each(|tail| tail.at_start = true);
                return tails;
            }
            Tree::Anchor(true) => {
                tails.retain(|tail| self.is_nullable(tail.node));
                for tail in &mut tails {
                    tail.at_end = true;
                    tail.node = EMPTY;
                }
                return tails;
            }
            node => {
                // Before the start of the text there is nothing.
                let is_nullable = self.is_nullable(node);
                tails.retain(|tail| !tail.at_start || is_nullable);
                for tail in tails.iter_mut().filter(|tail| !tail.at_start) {
                    for item in [node, tail.node] {
                        match item {
                            Tree::Sequence(span) => {
                                for place in span.0..span.1 {
                                    self.push(before, self.items[place as usize]);
                                }
                            }
                            _ => self.push(before, item),
                        }
                    }
                    tail.node = self.joined(before);
                }
            }
        }
        // Those that differ only in the node are one.
        let mut merged = Vec::new();
        for (place, tail) in tails.iter().enumerate() {
            let is_same = |other: &Tail| (other.at_start, other.at_end) == (tail.at_start, tail.at_end);
            if !tails[..place].iter().any(is_same) {
                for other in tails[place..].iter().filter(|other| is_same(other)) {
                    self.row.push(other.node);
                }
                let node = self.choice(before);
                merged.push(Tail { node, ..*tail });
            }
        }
        merged
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    #[inline(never)]
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let char = chars.next()?;
        self.rest = chars.as_str();
        Some(char)
    }

    #[inline(never)]
    fn take(&mut self, wanted: u8) -> bool {
        let found = self.rest.as_bytes().first() == Some(&wanted);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    /// Alternatives up to the end of their group.
    fn alternatives(&mut self, depth: u32) -> Option<Tree> {
        (depth <= DEEPEST).then_some(())?;
        let (first, branches) = (self.row.len(), self.branches.len());
        // Whether a quantifier may come next.
        let mut is_item = false;
        loop {
            let char = self.peek().filter(|char| *char != ')');
            let Some(char) = char.filter(|char| *char != '|') else {
                let branch = self.concat(first);
                self.branches.push(branch);
                is_item = false;
                if char.is_none() {
                    break;
                }
                self.next();
                continue;
            };
            self.next();
            let start = self.ranges.len();
            let counts = match char {
                '*' => Some((0, 0)),
                '+' => Some((1, 0)),
                '?' => Some((0, 2)),
                '{' => self.count()?,
                _ => None,
            };
            if let Some((minimum, maximum)) = counts {
                let greedy = !self.take(b'?');
                let item = self.row.pop().filter(|item| is_item && is_node(*item))?;
                let is_empty = maximum == 1 || matches!(item, Tree::Sequence((start, end)) if start == end);
                let node = match (minimum, maximum) {
                    _ if is_empty => EMPTY,
                    (1, 2) => item,
                    _ => self.repeat(item, minimum, maximum, greedy),
                };
                self.row.push(node);
                is_item = false;
                continue;
            }
            is_item = true;
            let item = match char {
                '^' | '$' => {
                    self.anchors += 1;
                    is_item = false;
                    Tree::Anchor(char == '$')
                }
                '(' => {
                    (!self.take(b'?') || self.take(b':')).then_some(())?;
                    let group = self.alternatives(depth + 1)?;
                    self.take(b')').then_some(())?;
                    group
                }
                '.' => {
                    self.add_class(start, LINE_ENDS, true);
                    self.one_of(start)?
                }
                '[' => {
                    self.class(start)?;
                    self.one_of(start)?
                }
                '\\' => {
                    let member = self.escape(false)?;
                    self.add_member(start, member);
                    self.one_of(start)?
                }
                _ => self.char(char),
            };
            self.row.push(item);
        }
        if self.branches.len() == branches + 1 {
            return self.branches.pop();
        }
        let are_nodes = self.branches[branches..].iter().all(|branch| is_node(*branch));
        self.row.extend_from_slice(&self.branches[branches..]);
        self.branches.truncate(branches);
        let span = self.list(first);
        Some(if are_nodes {
            Tree::Choice(span)
        } else {
            Tree::Alternate(span)
        })
    }

    fn char(&mut self, char: char) -> Tree {
        let start = self.text.len() as u32;
        self.text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        Tree::Text((start, self.text.len() as u32))
    }

    /// A count in braces, of which the first is read: the greatest is one more, or 0. None within if there is none.
    fn count(&mut self) -> Option<Option<(u32, u32)>> {
        let before = self.rest;
        let minimum = self.number()?;
        let maximum = if self.take(b',') { self.number()? } else { minimum };
        if minimum == 0 || !self.take(b'}') {
            self.rest = before;
            return Some(None);
        }
        (maximum == 0 || maximum >= minimum).then_some(Some((minimum - 1, maximum)))
    }

    /// A number plus one, or 0 if there is none; None for a large number.
    fn number(&mut self) -> Option<u32> {
        let (mut number, mut digits) = (0, 0);
        while let Some(digit) = self.peek().and_then(|char| char.to_digit(10)) {
            number = number * 10 + digit;
            digits += 1;
            (digits <= MOST_DIGITS).then_some(())?;
            self.next();
        }
        Some(if digits == 0 { 0 } else { number + 1 })
    }

    /// A class in brackets, of which the first is read, as the last ranges.
    fn class(&mut self, start: usize) -> Option<()> {
        let is_negated = self.take(b'^');
        while !self.take(b']') {
            let low = self.member()?;
            let ahead = self.rest.as_bytes();
            if ahead.first() != Some(&b'-') || ahead.get(1) == Some(&b']') {
                self.add_member(start, low);
                continue;
            }
            self.next();
            let high = self.member()?;
            if let (Member::One(low), Member::One(high)) = (low, high) {
                (low <= high).then_some(())?;
                self.add(start, low, high);
            } else {
                // The hyphen is a character.
                self.add(start, 0x2d, 0x2d);
                self.add_member(start, low);
                self.add_member(start, high);
            }
        }
        if is_negated {
            let ranges = self.ranges.split_off(start);
            self.add_class(start, &ranges, true);
        }
        Some(())
    }

    fn member(&mut self) -> Option<Member> {
        match self.next()? {
            '\\' => self.escape(true),
            char => Some(Member::One(char.into())),
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, in_class: bool) -> Option<Member> {
        let kind = self.next()?;
        let class = match kind.to_ascii_lowercase() {
            'd' => DIGITS,
            's' => SPACE,
            'w' => WORD,
            _ => NONE,
        };
        if !class.is_empty() {
            return Some(Member::Class(class, kind.is_ascii_uppercase()));
        }
        let code = match kind {
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'v' => 0x0b,
            'b' if in_class => 0x08,
            'x' => self.hexadecimal(2)?,
            'u' => self.hexadecimal(4)?,
            kind if kind.is_ascii_alphanumeric() => return None,
            kind => kind.into(),
        };
        char::from_u32(code).map(|_| Member::One(code))
    }

    fn hexadecimal(&mut self, digits: u32) -> Option<u32> {
        let mut code = 0;
        for _ in 0..digits {
            code = code * 16 + self.next()?.to_digit(16)?;
        }
        Some(code)
    }

    #[inline(never)]
    fn add_member(&mut self, start: usize, member: Member) {
        match member {
            Member::One(code) => self.add(start, code, code),
            Member::Class(class, is_negated) => self.add_class(start, class, is_negated),
        }
    }

    /// Add a class, or what is not in it, to the last ranges.
    #[inline(never)]
    fn add_class(&mut self, start: usize, class: &[(u32, u32)], is_negated: bool) {
        let mut next = 0;
        for (low, high) in class {
            if !is_negated {
                self.add(start, *low, *high);
            } else if *low > next {
                self.add(start, next, low - 1);
            }
            next = high + 1;
        }
        if is_negated && next <= LAST {
            self.add(start, next, LAST);
        }
    }

    /// Add a range without its surrogates to the last ranges.
    #[inline(never)]
    fn add(&mut self, start: usize, low: u32, high: u32) {
        insert(&mut self.ranges, start, low, high.min(0xd7ff));
        insert(&mut self.ranges, start, low.max(0xe000), high);
    }

    /// One character of the last ranges; None if there is none.
    #[inline(never)]
    fn one_of(&mut self, start: usize) -> Option<Tree> {
        match self.ranges[start..] {
            [] => None,
            [(low, high)] if low == high => char::from_u32(low).map(|char| self.char(char)),
            // The same as before has the same place.
            _ => {
                let (known, new) = self.ranges.split_at(start);
                let place = known.windows(new.len()).position(|window| window == new);
                let place = place.unwrap_or(start);
                let end = place + new.len();
                self.ranges.truncate(start.max(end));
                Some(Tree::Chars((place as u32, end as u32)))
            }
        }
    }
}

/// One character, or a class or what is not in it.
#[derive(Clone, Copy)]
enum Member {
    One(u32),
    Class(Class, bool),
}

/// Whether it holds no anchor.
fn is_node(tree: Tree) -> bool {
    !matches!(tree, Tree::Anchor(_) | Tree::Concat(_) | Tree::Alternate(_))
}

/// Add a range, if it is one, to sorted ranges that begin at a place.
#[inline(never)]
pub fn insert(ranges: &mut Vec<(u32, u32)>, start: usize, mut low: u32, mut high: u32) {
    if low > high {
        return;
    }
    let mut place = start;
    while place < ranges.len() && ranges[place].1 + 1 < low {
        place += 1;
    }
    while place < ranges.len() && ranges[place].0 <= high + 1 {
        low = low.min(ranges[place].0);
        high = high.max(ranges[place].1);
        ranges.remove(place);
    }
    ranges.insert(place, (low, high));
}
