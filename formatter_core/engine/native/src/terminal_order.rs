//! The order in which a terminal prefers its ends: what a backtracking matcher would try first.
//!
//! A terminal's inner choices count as if they were written out in the rule. They are followed for all ends at once by
//! a list of threads in order of preference (Pike's matcher; Cox, "Regular Expression Matching: the Virtual Machine
//! Approach", 2009), where a thread is an ordered partial derivative of the terminal. Of threads that have become one,
//! the better one stays. Most terminals simply prefer the longer one of two ends.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::hash::{FastMap, FastSet, Interner};
use crate::lexicon::Lexicon;
use crate::limits::{Fault, Limit, Meter, Outcome};
use crate::term::{Term, EMPTY, NOTHING, UNBOUNDED};
use crate::written::{Node, Written};

/// What a terminal prefers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Preferred {
    /// The longer one of two ends, where there can be two.
    Longest,
    /// The shorter one.
    Shortest,
    /// What its choices say.
    Ordered,
}

/// What is plain from a node's form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// No match begins with another one.
    OneEnd,
    Plain(Preferred),
}

/// What each node prefers, as far as nodes are regular.
pub fn preferences(written: &Written) -> Vec<Preferred> {
    let mut forms: Vec<Form> = Vec::with_capacity(written.nodes.len());
    for node in &written.nodes {
        let form = match node {
            Node::Bytes(_) | Node::Chars(_) | Node::Shortest(_) => Form::OneEnd,
            Node::Sequence(items) => {
                let mut forms = items.iter().map(|item| forms[*item as usize]);
                match forms.find(|form| *form != Form::OneEnd) {
                    None => Form::OneEnd,
                    Some(form) if forms.next().is_none() => form,
                    Some(_) => Form::Plain(Preferred::Ordered),
                }
            }
            Node::Choice(items) => match items[..] {
                [only] => forms[only as usize],
                _ => Form::Plain(Preferred::Ordered),
            },
            Node::Repeat {
                item,
                minimum,
                maximum,
                greedy,
            } => match (forms[*item as usize], minimum == maximum, greedy) {
                (Form::OneEnd, true, _) => Form::OneEnd,
                (Form::OneEnd, _, true) => Form::Plain(Preferred::Longest),
                (Form::OneEnd, _, false) => Form::Plain(Preferred::Shortest),
                (Form::Plain(Preferred::Longest), _, true) if *maximum == 1 => Form::Plain(Preferred::Longest),
                _ => Form::Plain(Preferred::Ordered),
            },
            Node::Terminal(item) => forms[*item as usize],
            _ => Form::Plain(Preferred::Longest),
        };
        forms.push(form);
    }
    let preferred = |form| match form {
        Form::OneEnd => Preferred::Longest,
        Form::Plain(preferred) => preferred,
    };
    forms.into_iter().map(preferred).collect()
}

/// The number of an ordered term.
type Ordered = u32;
const DONE: Ordered = 0;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Kind {
    Done,
    /// A state without inner choices.
    Atom(Term),
    Concatenation(Ordered, Ordered),
    Alternation(Box<[Ordered]>),
    Repeat {
        item: Ordered,
        minimum: u32,
        maximum: u32,
        greedy: bool,
    },
}

/// What a term may do, in order of preference: go on by a byte of a range, or end.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    End,
    Byte { low: u8, high: u8, target: Ordered },
}

type Ways = Rc<[Way]>;

/// How deep terminals are followed.
const DEEPEST: u32 = 2000;

/// Ordered terms, and the orders of the ends of terminals in one text.
pub struct Orders {
    kinds: Interner<Kind>,
    ways: FastMap<Ordered, Ways>,
    built: FastMap<u32, Ordered>,
    ends: FastMap<(u32, u32), Ends>,
}

/// Which of two ends of a terminal that begins at `start` comes first.
pub struct Question {
    pub node: u32,
    pub start: u32,
    pub one: u32,
    pub other: u32,
}

impl Orders {
    pub fn new() -> Self {
        let mut kinds = Interner::new();
        kinds.intern(Kind::Done);
        Orders {
            kinds,
            ways: FastMap::default(),
            built: FastMap::default(),
            ends: FastMap::default(),
        }
    }

    /// Compare two ends; `text` goes at least as far, and numbers past 255 are no bytes.
    pub fn compare(
        &mut self,
        asked: &Question,
        text: &[u16],
        written: &Written,
        lexicon: &Lexicon,
        meter: &mut Meter,
    ) -> Outcome<Ordering> {
        let key = (asked.node, asked.start);
        let mut ends = match self.ends.remove(&key) {
            Some(ends) => ends,
            None => {
                let root = self.build(asked.node, written, 0)?;
                Ends::new(root, asked.start)
            }
        };
        let last = asked.one.max(asked.other);
        self.find_end(&mut ends, lexicon, meter)?;
        while ends.position < last && !ends.threads.is_empty() {
            let step = text[ends.position as usize];
            self.advance(&mut ends, step, lexicon, meter)?;
            self.find_end(&mut ends, lexicon, meter)?;
        }
        meter.work(if ends.ranks.is_empty() { ends.list.len() } else { 1 })?;
        ends.rank();
        let rank = |end: u32| ends.ranks.get(&end).copied().unwrap_or(u32::MAX);
        let order = rank(asked.one).cmp(&rank(asked.other));
        self.ends.insert(key, ends);
        Ok(order)
    }

    /// Where the end at the present position stands, which is that of the first thread that may end.
    fn find_end(&mut self, ends: &mut Ends, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<()> {
        if ends.end.is_some() {
            return Ok(());
        }
        for index in 0..ends.threads.len() {
            let (term, place) = ends.threads[index];
            meter.work(1)?;
            if self.ways_of(term, lexicon, meter, 0)?.contains(&Way::End) {
                ends.end = Some((index, ends.insert(place, Some(ends.position))));
                break;
            }
        }
        Ok(())
    }

    fn advance(&mut self, ends: &mut Ends, byte: u16, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<()> {
        let mut following: Vec<(Ordered, u32)> = Vec::new();
        let mut seen: FastSet<Ordered> = FastSet::default();
        let end = ends.end.take();
        for (index, (term, mut place)) in std::mem::take(&mut ends.threads).into_iter().enumerate() {
            let ways = self.ways_of(term, lexicon, meter, 0)?;
            meter.work(ways.len() + 1)?;
            for way in ways.iter() {
                match (*way, end) {
                    // What is preferred to the end was put before it.
                    (Way::End, Some((ended, end))) if ended == index => place = end,
                    (Way::Byte { low, high, target }, _)
                        if u16::from(low) <= byte && byte <= u16::from(high) && seen.insert(target) =>
                    {
                        place = ends.insert(place, None);
                        following.push((target, place));
                    }
                    _ => {}
                }
            }
        }
        ends.threads = following;
        ends.position += 1;
        Ok(())
    }

    fn build(&mut self, number: u32, written: &Written, depth: u32) -> Outcome<Ordered> {
        if let Some(&built) = self.built.get(&number) {
            return Ok(built);
        }
        if depth > DEEPEST {
            return Err(Fault::Limit(Limit::Work));
        }
        let built = match &written.nodes[number as usize] {
            Node::Sequence(items) => {
                let mut whole = DONE;
                for item in items.iter().rev() {
                    let item = self.build(*item, written, depth + 1)?;
                    whole = self.concatenation(item, whole);
                }
                whole
            }
            Node::Choice(items) => {
                let items: Outcome<Vec<_>> = items.iter().map(|item| self.build(*item, written, depth + 1)).collect();
                self.intern(Kind::Alternation(items?.into()))
            }
            Node::Repeat {
                item,
                minimum,
                maximum,
                greedy,
            } => {
                let item = self.build(*item, written, depth + 1)?;
                self.repeat(item, *minimum, *maximum, *greedy)
            }
            Node::Terminal(item) => self.build(*item, written, depth + 1)?,
            _ => self.atom(written.terms[number as usize]),
        };
        self.built.insert(number, built);
        Ok(built)
    }

    fn intern(&mut self, kind: Kind) -> Ordered {
        self.kinds.intern(kind).0
    }

    fn atom(&mut self, term: Term) -> Ordered {
        match term {
            EMPTY => DONE,
            NOTHING => self.intern(Kind::Alternation(Box::default())),
            _ => self.intern(Kind::Atom(term)),
        }
    }

    fn concatenation(&mut self, head: Ordered, tail: Ordered) -> Ordered {
        match (head, tail) {
            (DONE, _) => tail,
            (_, DONE) => head,
            _ => self.intern(Kind::Concatenation(head, tail)),
        }
    }

    fn repeat(&mut self, item: Ordered, minimum: u32, maximum: u32, greedy: bool) -> Ordered {
        match maximum {
            0 => DONE,
            _ => self.intern(Kind::Repeat {
                item,
                minimum,
                maximum,
                greedy,
            }),
        }
    }

    fn ways_of(&mut self, term: Ordered, lexicon: &Lexicon, meter: &mut Meter, depth: u32) -> Outcome<Ways> {
        if term == DONE {
            return Ok([Way::End].into());
        }
        if let Some(ways) = self.ways.get(&term) {
            return Ok(ways.clone());
        }
        if depth > DEEPEST {
            return Err(Fault::Limit(Limit::Work));
        }
        let ways: Ways = match self.kinds.get(term).clone() {
            Kind::Done => [Way::End].into(),
            Kind::Atom(state) => self.ways_of_atom(state, lexicon, meter)?.into(),
            Kind::Alternation(items) => {
                let mut ways = Vec::new();
                for item in items.iter() {
                    ways.extend_from_slice(&self.ways_of(*item, lexicon, meter, depth + 1)?);
                }
                once(ways).into()
            }
            Kind::Concatenation(..) => self.ways_of_chain(term, lexicon, meter, depth)?,
            Kind::Repeat {
                item,
                minimum,
                maximum,
                greedy,
            } => {
                let ways = self.ways_of(item, lexicon, meter, depth + 1)?;
                self.ways_of_repeat(&ways, item, (minimum, maximum), greedy, meter)?
            }
        };
        meter.work(4 * ways.len() + 4)?;
        self.ways.insert(term, ways.clone());
        Ok(ways)
    }

    fn ways_of_atom(&mut self, state: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<Vec<Way>> {
        if !lexicon.derivatives()?.live(state, meter)? {
            return Ok(Vec::new());
        }
        let mut ways = Vec::new();
        for (low, high, step) in lexicon.row(state, meter)?.live() {
            let target = self.atom(step.state);
            ways.push(Way::Byte { low, high, target });
        }
        if lexicon.derivatives()?.terms.nullable(state) {
            ways.push(Way::End);
        }
        Ok(ways)
    }

    /// From the last part backwards, not by recursion: a sequence may have very many items.
    fn ways_of_chain(&mut self, term: Ordered, lexicon: &Lexicon, meter: &mut Meter, depth: u32) -> Outcome<Ways> {
        let mut chain: Vec<(Ordered, Ways, Ordered)> = Vec::new();
        let mut last = term;
        let mut tail: Ways = loop {
            if let (Some(ways), false) = (self.ways.get(&last), chain.is_empty()) {
                break ways.clone();
            }
            let &Kind::Concatenation(head, rest) = self.kinds.get(last) else {
                break self.ways_of(last, lexicon, meter, depth + 1)?;
            };
            let ways = self.ways_of(head, lexicon, meter, depth + 1)?;
            let goes_on = ways.contains(&Way::End);
            chain.push((last, ways, rest));
            if !goes_on {
                break Vec::new().into();
            }
            last = rest;
        };
        while let Some((part, ways, rest)) = chain.pop() {
            tail = self.followed(&ways, rest, &tail, meter)?;
            self.ways.insert(part, tail.clone());
        }
        Ok(tail)
    }

    fn ways_of_repeat(
        &mut self,
        ways: &Ways,
        item: Ordered,
        (minimum, maximum): (u32, u32),
        greedy: bool,
        meter: &mut Meter,
    ) -> Outcome<Ways> {
        // Rounds that must be and may be empty let the next round begin; so, again, from the last one backwards.
        let least = if ways.contains(&Way::End) { 0 } else { minimum };
        let mut result: Ways = Vec::new().into();
        for count in least..=minimum {
            let left = match maximum {
                UNBOUNDED => UNBOUNDED,
                _ => maximum - minimum + count,
            };
            let fewer = if left == UNBOUNDED {
                left
            } else {
                left.saturating_sub(1)
            };
            let rest = self.repeat(item, count.saturating_sub(1), fewer, greedy);
            result = if left == 0 {
                [Way::End].into()
            } else if count > 0 {
                self.followed(ways, rest, &result, meter)?
            } else {
                let rounds = self.followed(ways, rest, &[], meter)?;
                let rounds = rounds.iter().copied().filter(|way| *way != Way::End);
                if greedy {
                    rounds.chain([Way::End]).collect()
                } else {
                    [Way::End].into_iter().chain(rounds).collect()
                }
            };
            let known = self.repeat(item, count, left, greedy);
            self.ways.insert(known, result.clone());
        }
        Ok(result)
    }

    /// The ways of a part with `tail` after it, whose own ways take the place of the part's end.
    fn followed(&mut self, ways: &[Way], tail: Ordered, tail_ways: &[Way], meter: &mut Meter) -> Outcome<Ways> {
        let mut result = Vec::with_capacity(ways.len());
        for way in ways {
            match *way {
                Way::End => result.extend_from_slice(tail_ways),
                Way::Byte { low, high, target } => {
                    let target = self.concatenation(target, tail);
                    result.push(Way::Byte { low, high, target });
                }
            }
        }
        meter.work(result.len() + 1)?;
        Ok(once(result).into())
    }
}

/// The ways without those that stand further ahead already.
fn once(ways: Vec<Way>) -> Vec<Way> {
    let mut seen = FastSet::default();
    ways.into_iter().filter(|way| seen.insert(*way)).collect()
}

/// The ends of one terminal from one position on, as far as the text was followed.
struct Ends {
    position: u32,
    threads: Vec<(Ordered, u32)>,
    /// The thread that ends at the position, and where that end stands.
    end: Option<(usize, u32)>,
    /// A linked list in order of preference: ends, and places where threads will put theirs; and what comes after.
    list: Vec<(Option<u32>, u32)>,
    ranks: FastMap<u32, u32>,
}

const LAST: u32 = u32::MAX;

impl Ends {
    fn new(root: Ordered, start: u32) -> Self {
        Ends {
            position: start,
            threads: vec![(root, 0)],
            end: None,
            list: vec![(None, LAST)],
            ranks: FastMap::default(),
        }
    }

    fn insert(&mut self, place: u32, end: Option<u32>) -> u32 {
        if end.is_some() {
            self.ranks.clear();
        }
        let after = self.list[place as usize].1;
        self.list.push((end, after));
        let new = self.list.len() as u32 - 1;
        self.list[place as usize].1 = new;
        new
    }

    fn rank(&mut self) {
        if !self.ranks.is_empty() {
            return;
        }
        let mut place = 0;
        while place != LAST {
            let (end, after) = self.list[place as usize];
            if let Some(end) = end {
                self.ranks.insert(end, self.ranks.len() as u32);
            }
            place = after;
        }
    }
}
