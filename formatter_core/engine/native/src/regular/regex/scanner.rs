//! The scanner that both readers share: positions, and a stack of open groups instead of recursion.

use std::rc::Rc;
use std::sync::Arc;

use super::classes::{Member, Members, Ranges};
use super::fault::{Outcome, Reason};
use super::node::Node;
use super::tree::{alternate, capture, concat, repeat, Look, Loop, Tree};
use super::Limits;
use crate::base::hash::FastMap;

/// The value for every character beyond ASCII.
pub const OTHER: u8 = 0xff;
/// A count with more digits than this is above any limit.
const COUNT_DIGITS_READ: usize = 20;

/// The meaning of a group for its contents.
pub enum Wrap {
    Nothing,
    Capture(Arc<str>),
    Look {
        ahead: bool,
        negated: bool,
        position: usize,
    },
}

/// An open group: the finished alternatives, and the items of the current one.
struct Frame {
    position: usize,
    flags: u32,
    wrap: Wrap,
    branches: Vec<Tree>,
    height: u32,
    items: Vec<Tree>,
    /// The height of the highest item so far.
    highest: u32,
    /// The height of the last item; 0 if no quantifier may follow.
    last: u32,
}

impl Frame {
    fn new(position: usize, flags: u32, wrap: Wrap) -> Self {
        Frame {
            position,
            flags,
            wrap,
            branches: Vec::new(),
            height: 0,
            items: Vec::new(),
            highest: 0,
            last: 0,
        }
    }

    fn end_branch(&mut self) {
        let is_list = self.items.len() > 1;
        self.branches.push(concat(std::mem::take(&mut self.items)));
        self.height = self.height.max(self.highest + u32::from(is_list));
        (self.highest, self.last) = (0, 0);
    }
}

/// The state of a reader: `at` is the position; a group restores `flags` when it closes.
pub struct Scanner<'a> {
    /// The code points of the pattern, lone surrogates included.
    pub pattern: &'a [u32],
    pub limits: &'a Limits,
    pub at: usize,
    pub flags: u32,
    nodes: u64,
    work: u64,
    frames: Vec<Frame>,
    /// The sets of escapes, by their text and flags, so that a frequent set exists once.
    escapes: FastMap<(&'a [u32], u32), Ranges>,
}

impl<'a> Scanner<'a> {
    pub fn new(pattern: &'a [u32], limits: &'a Limits, flags: u32) -> Self {
        Scanner {
            pattern,
            limits,
            at: 0,
            flags,
            nodes: 0,
            work: 0,
            frames: vec![Frame::new(0, 0, Wrap::Nothing)],
            escapes: FastMap::default(),
        }
    }

    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// Return the current character, or the one `ahead` characters after it; `OTHER` beyond ASCII, None at the end.
    pub fn peek(&self, ahead: usize) -> Option<u8> {
        let code = *self.pattern.get(self.at + ahead)?;
        Some(u8::try_from(code).ok().filter(u8::is_ascii).unwrap_or(OTHER))
    }

    pub fn is_next(&self, text: &[u8]) -> bool {
        text.iter()
            .enumerate()
            .all(|(place, byte)| self.peek(place) == Some(*byte))
    }

    /// Skip `text` if it comes next; return whether it did.
    pub fn take(&mut self, text: &[u8]) -> bool {
        let is_next = self.is_next(text);
        if is_next {
            self.at += text.len();
        }
        is_next
    }

    /// Skip the opening of a look-around whose group begins at `position`, if it comes next.
    pub fn take_look(&mut self, position: usize) -> Option<Wrap> {
        let (ahead, negated) = match (self.peek(0)?, self.peek(1)?, self.peek(2)) {
            (b'?', b'=', _) => (true, false),
            (b'?', b'!', _) => (true, true),
            (b'?', b'<', Some(b'=')) => (false, false),
            (b'?', b'<', Some(b'!')) => (false, true),
            _ => return None,
        };
        self.at += if ahead { 2 } else { 3 };
        Some(Wrap::Look {
            ahead,
            negated,
            position,
        })
    }

    /// Return the position of the next such character.
    pub fn find(&self, char: u8) -> Option<usize> {
        let rest = self.pattern.get(self.at..)?;
        rest.iter()
            .position(|code| *code == char.into())
            .map(|place| self.at + place)
    }

    /// Skip the wanted characters; return their number.
    pub fn skip(&mut self, mut is_wanted: impl FnMut(u8) -> bool) -> usize {
        let start = self.at;
        while self.peek(0).is_some_and(&mut is_wanted) {
            self.at += 1;
        }
        self.at - start
    }

    /// Return a piece of the pattern as text, for look-ups by name; no known name has surrogates.
    pub fn text(&self, begin: usize, end: usize) -> String {
        let codes = self.pattern[begin..end].iter();
        codes
            .map(|code| char::from_u32(*code).unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    }

    /// Add a run of plain characters at once, except the last, because a quantifier may follow it.
    pub fn read_run(&mut self, special: &[u8]) -> Outcome<bool> {
        let rest = &self.pattern[self.at..];
        let is_plain = |code: &u32| match u8::try_from(*code) {
            Ok(byte) if byte.is_ascii() => !special.contains(&byte),
            _ => char::from_u32(*code).is_some(),
        };
        let mut length = rest.iter().position(|code| !is_plain(code)).unwrap_or(rest.len());
        let is_quantifier = |code: &u32| b"*+?{".iter().any(|sign| u32::from(*sign) == *code);
        if length == 0 {
            return Ok(false);
        }
        if length > 1 && rest.get(length).is_some_and(is_quantifier) {
            length -= 1;
        }
        let text: String = rest[..length].iter().copied().filter_map(char::from_u32).collect();
        self.at += length;
        self.add(Node::text(text).into())?;
        Ok(true)
    }

    /// Return the number in the decimal digits that end at the position; a number with too many digits is above the
    /// limit.
    pub fn number(&self, digits: usize) -> u64 {
        if digits >= COUNT_DIGITS_READ {
            return self.limits.repeat + 1;
        }
        let digits = self.pattern[self.at - digits..self.at].iter();
        digits.fold(0, |number, digit| 10 * number + u64::from(digit - 0x30))
    }

    /// Return the number in hexadecimal digits, or a large number if it does not fit.
    pub fn hexadecimal(&self, begin: usize, end: usize) -> u32 {
        let digits = self.pattern[begin..end].iter();
        let digits = digits.filter_map(|digit| char::from_u32(*digit)?.to_digit(16));
        digits.fold(0, |code: u32, digit| code.saturating_mul(16).saturating_add(digit))
    }

    /// Append an item to the current alternative.
    pub fn add(&mut self, tree: Tree) -> Outcome<()> {
        let frame = self.frame();
        frame.items.push(tree);
        frame.last = 1;
        frame.highest = frame.highest.max(1);
        self.nodes += 1;
        match self.nodes > self.limits.nodes {
            true => Err(Reason::Nodes.at(0)),
            false => Ok(()),
        }
    }

    /// Append one character of a set.
    pub fn add_class(&mut self, ranges: Ranges) -> Outcome<()> {
        self.add(Node::one_of(ranges).into())
    }

    /// Return the set of an escape that begins at `start` and ends at the position; reuse the set of an equal escape.
    pub fn shared(&mut self, start: usize, ranges: Ranges) -> Member {
        let text = &self.pattern[start..self.at];
        Member::Class(self.escapes.entry((text, self.flags)).or_insert(ranges).clone())
    }

    /// Add a set to a class, and charge steps: each of its ranges is read, sorted, merged and perhaps negated.
    pub fn collect(&mut self, members: &mut Members, member: Member) -> Outcome<()> {
        let count = members.add(member);
        self.spend(4 * count)
    }

    /// Add a range, which begins at `position`, to a class.
    pub fn collect_range(&mut self, members: &mut Members, low: u32, high: u32, position: usize) -> Outcome<()> {
        if low > high {
            return Err(Reason::RangeSwapped.at(position));
        }
        let count = members.add_range(low, high);
        self.spend(4 * count)
    }

    /// Charge elementary steps for the pattern's classes.
    pub fn spend(&mut self, steps: usize) -> Outcome<()> {
        self.work += steps as u64;
        match self.work > self.limits.work {
            true => Err(Reason::ClassWork.at(0)),
            false => Ok(()),
        }
    }

    /// Forbid a quantifier after the last item.
    pub fn forbid_quantifier(&mut self) {
        self.frame().last = 0;
    }

    /// Apply a quantifier, which begins at `position`, to the last item.
    pub fn repeat(&mut self, bounds: (u64, Option<u64>), greedy: bool, position: usize) -> Outcome<()> {
        let most = self.limits.repeat;
        let frame = self.frame();
        if frame.last == 0 {
            return Err(Reason::NothingToRepeat.at(position));
        }
        let (minimum, maximum) = bounds;
        if let Some(maximum) = maximum.filter(|maximum| *maximum < minimum) {
            return Err(Reason::BoundsSwapped.with(position, [minimum, maximum]));
        }
        let (Ok(least), true) = (u32::try_from(minimum), minimum.max(maximum.unwrap_or(0)) <= most) else {
            return Err(Reason::Repeat.at(position));
        };
        if let Some(item) = frame.items.pop() {
            frame.items.push(repeat(Loop {
                item,
                minimum: least,
                maximum: maximum.map(|maximum| maximum as u32),
                greedy,
                position,
            }));
        }
        let height = frame.last + 1;
        self.grow(height)
    }

    /// Read a `|` and begin the next alternative.
    pub fn read_bar(&mut self) {
        self.at += 1;
        self.frame().end_branch();
    }

    /// Begin a group.
    pub fn open(&mut self, position: usize, wrap: Wrap) -> Outcome<()> {
        if self.frames.len() > self.limits.depth as usize {
            return Err(Reason::GroupDepth.at(0));
        }
        self.frames.push(Frame::new(position, self.flags, wrap));
        Ok(())
    }

    /// Read a `)` and end the innermost group.
    pub fn read_close(&mut self) -> Outcome<()> {
        let position = self.at;
        self.at += 1;
        if self.frames.len() == 1 {
            return Err(Reason::NoGroupToClose.at(position));
        }
        let Some(mut frame) = self.frames.pop() else {
            return Ok(());
        };
        frame.end_branch();
        let mut height = frame.height + u32::from(frame.branches.len() > 1);
        let tree = alternate(frame.branches);
        let tree = match frame.wrap {
            Wrap::Nothing => tree,
            wrap => {
                height += 1;
                wrapped(wrap, tree)
            }
        };
        self.flags = frame.flags;
        self.add(tree)?;
        self.grow(height.max(1))
    }

    /// Return the tree of the whole pattern, once its end is reached.
    pub fn finish(&mut self) -> Outcome<Tree> {
        let is_open = self.frames.len() > 1;
        let frame = self.frame();
        if is_open {
            return Err(Reason::GroupNotClosed.at(frame.position));
        }
        frame.end_branch();
        Ok(alternate(std::mem::take(&mut frame.branches)))
    }

    fn frame(&mut self) -> &mut Frame {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn grow(&mut self, height: u32) -> Outcome<()> {
        if height > self.limits.depth {
            return Err(Reason::Depth.at(0));
        }
        let frame = self.frame();
        frame.last = height;
        frame.highest = frame.highest.max(height);
        Ok(())
    }
}

fn wrapped(wrap: Wrap, item: Tree) -> Tree {
    match wrap {
        Wrap::Nothing => item,
        Wrap::Capture(name) => capture(name, item),
        Wrap::Look {
            ahead,
            negated,
            position,
        } => Tree::Look(Rc::new(Look {
            item,
            ahead,
            negated,
            position,
        })),
    }
}
