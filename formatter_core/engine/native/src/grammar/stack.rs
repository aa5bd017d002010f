//! Stacks of calls, shared and immutable: what the parser has to come back to.
//!
//! A frame is one call of a rule: the places where parsing goes on after it, each with the frame that holds there.
//! Frames exist once (equal ones are one), so that two texts that leave the parser in the same situation leave it in
//! the same state. Frames that refer to each other in a circle, which left recursion makes, stand in one group.

use std::hash::{Hash, Hasher};
use std::mem::{size_of, size_of_val};
use std::sync::{Arc, OnceLock};

use crate::base::hash::FastHasher;
use crate::base::heap::{self, Counter};
use crate::base::order::{pair, sort_by};
use crate::grammar::members::Memory;
use crate::grammar::regions::{are_relative, Deadlines};
use crate::regular::term::Term;
use crate::tokens::lexicon::Lexicon;

/// Where parsing goes on after a call, and with which frame; `group` None stands for the edge's own group.
pub struct Edge {
    pub position: u32,
    pub member: u32,
    pub group: Option<Arc<Group>>,
}

/// What a frame consists of: where to go on, what has come of a list of members, and the regions that it stands in.
pub struct Called {
    pub edges: Box<[Edge]>,
    pub memory: Option<Arc<Memory>>,
    pub deadlines: Option<Deadlines>,
}

/// Frames that stand together.
pub struct Group {
    /// Unique within a grammar, and never used again.
    pub id: u64,
    members: Vec<Called>,
    bytes: usize,
    live_bytes: Counter,
}

/// The id of the group whose one frame is the end of the whole text.
pub const ROOT: u64 = 0;

impl Group {
    /// `live_bytes` counts the bytes of all states and groups that exist, without those of memories.
    pub fn new(id: u64, members: Vec<Called>, live_bytes: &Counter) -> Arc<Self> {
        let of_frame = |frame: &Called| {
            let deadlines = frame.deadlines.as_ref().map(|open| heap::COUNTS + size_of_val(&**open));
            size_of_val(&*frame.edges) + deadlines.unwrap_or(0)
        };
        let frames: usize = members.iter().map(of_frame).sum();
        let bytes = heap::COUNTS + size_of::<Group>() + heap::list(&members) + frames;
        live_bytes.add(bytes);
        Arc::new(Group {
            id,
            members,
            bytes,
            live_bytes: live_bytes.clone(),
        })
    }

    /// How many frames there are.
    pub fn len(&self) -> u32 {
        self.members.len() as u32
    }

    pub fn edges(&self, member: u32) -> &[Edge] {
        &self.members[member as usize].edges
    }

    pub fn memory(&self, member: u32) -> Option<&Arc<Memory>> {
        self.members[member as usize].memory.as_ref()
    }

    /// Whether any of its frames stand in regions.
    pub fn has_deadlines(&self) -> bool {
        self.members.iter().any(|frame| frame.deadlines.is_some())
    }

    pub fn deadlines(&self, member: u32) -> &Option<Deadlines> {
        &self.members[member as usize].deadlines
    }

    /// An estimate of its bytes, with what has come of lists of members.
    pub fn bytes(&self) -> usize {
        let memories = self.members.iter().filter_map(|frame| frame.memory.as_ref());
        self.bytes + memories.map(|memory| memory.bytes()).sum::<usize>()
    }
}

impl Drop for Group {
    /// Frames form chains as long as the text nests deep, so that they are let go in a loop and not by recursion.
    fn drop(&mut self) {
        self.live_bytes.remove(self.bytes);
        let mut members = std::mem::take(&mut self.members);
        let mut waiting: Vec<Arc<Group>> = Vec::new();
        loop {
            let edges = members.into_iter().flat_map(|frame| Vec::from(frame.edges));
            waiting.extend(edges.filter_map(|edge| edge.group));
            members = loop {
                match waiting.pop().map(Arc::into_inner) {
                    None => return,
                    Some(None) => {}
                    Some(Some(mut group)) => break std::mem::take(&mut group.members),
                }
            };
        }
    }
}

/// One frame.
#[derive(Clone)]
pub struct Frame {
    pub group: Arc<Group>,
    pub member: u32,
}

impl Frame {
    /// Unique among the frames of a grammar.
    pub fn key(&self) -> (u64, u32) {
        (self.group.id, self.member)
    }

    /// When the regions that it stands in have to be over.
    pub fn deadlines(&self) -> &Option<Deadlines> {
        self.group.deadlines(self.member)
    }
}

/// A terminal under way: the state of its automaton, and where parsing goes on after it.
#[derive(Clone)]
pub struct Thread {
    pub state: Term,
    pub next: u32,
    pub frame: Frame,
}

impl Thread {
    /// What makes two threads equal, and puts those whose terminals are in the same state side by side.
    pub fn key(&self) -> (u64, (u64, u32)) {
        (pair(self.state, self.next), self.frame.key())
    }
}

/// Threads whose terminals are in the same state, together; they stand side by side.
pub fn runs(threads: &[Thread]) -> impl Iterator<Item = &[Thread]> {
    let mut rest = threads;
    std::iter::from_fn(move || {
        let first = rest.first()?.state;
        let same = rest.iter().take_while(|thread| thread.state == first).count();
        let (run, others) = rest.split_at(same);
        rest = others;
        Some(run)
    })
}

/// A token that may come next by its id, and where parsing goes on after it.
#[derive(Clone)]
pub struct TokenThread {
    pub token: u32,
    pub next: u32,
    pub frame: Frame,
}

/// What a state consists of.
#[derive(Clone, Default)]
pub struct Frozen {
    pub threads: Vec<Thread>,
    pub tokens: Vec<TokenThread>,
    pub can_stop: bool,
}

impl Frozen {
    /// Of threads alone, in whatever order.
    pub fn of_threads(mut threads: Vec<Thread>) -> Self {
        sort(&mut threads);
        Frozen {
            threads,
            ..Frozen::default()
        }
    }

    /// Whether nothing goes on.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.tokens.is_empty() && !self.can_stop
    }

    /// What makes two states equal.
    pub fn key(&self) -> Key {
        let (threads, tokens) = (&self.threads, &self.tokens);
        let mut key = Vec::with_capacity(3 * (threads.len() + tokens.len()) + 1);
        key.push((threads.len() as u64) << 1 | u64::from(self.can_stop));
        for thread in threads {
            let (group, member) = thread.frame.key();
            key.extend([pair(thread.state, thread.next), group, u64::from(member)]);
        }
        for thread in tokens {
            let (group, member) = thread.frame.key();
            key.extend([pair(thread.token, thread.next), group, u64::from(member)]);
        }
        Key(key.into())
    }

    /// The same for equal ones.
    pub fn hash(&self) -> u64 {
        let mut hasher = FastHasher::default();
        hasher.write_u64((self.threads.len() as u64) << 1 | u64::from(self.can_stop));
        for thread in &self.threads {
            let (group, member) = thread.frame.key();
            hasher.write_u64(pair(thread.state, thread.next));
            hasher.write_u64(group ^ u64::from(member) << 48);
        }
        for thread in &self.tokens {
            hasher.write_u64(pair(thread.token, thread.next));
        }
        hasher.finish()
    }

    pub fn bytes(&self) -> usize {
        size_of::<Thread>() * self.threads.len() + size_of::<TokenThread>() * self.tokens.len()
    }
}

impl PartialEq for Frozen {
    fn eq(&self, other: &Self) -> bool {
        let token = |one: &TokenThread| (one.token, one.next, one.frame.key());
        self.can_stop == other.can_stop
            && self
                .threads
                .iter()
                .map(Thread::key)
                .eq(other.threads.iter().map(Thread::key))
            && self.tokens.iter().map(token).eq(other.tokens.iter().map(token))
    }
}

/// Sort threads, and leave out those that are there twice.
pub fn sort(threads: &mut Vec<Thread>) {
    sort_by(threads, Thread::key);
    threads.dedup_by_key(|thread| thread.key());
}

/// The situation of the parser between two tokens.
pub struct State {
    pub id: u64,
    pub threads: Box<[Thread]>,
    pub tokens: Box<[TokenThread]>,
    pub can_stop: bool,
    /// An upper bound of the distance after whatever token, see `Remainders`, once it was asked for.
    pub farthest: OnceLock<u32>,
    /// Up to how many tokens whatever token leaves all open regions time to end, once it was asked for.
    pub quiet_until: OnceLock<u32>,
    /// Whether regions were opened by the last token, so that their deadlines are not known yet.
    pub is_relative: bool,
    /// What the threads' states are states of.
    pub lexicon: Arc<Lexicon>,
    bytes: usize,
    live_bytes: Counter,
}

impl State {
    /// `live_bytes` counts the bytes of all states and groups that exist.
    pub fn new(id: u64, parts: Frozen, lexicon: Arc<Lexicon>, live_bytes: &Counter) -> Arc<Self> {
        let bytes = heap::COUNTS + size_of::<State>() + parts.bytes();
        live_bytes.add(bytes);
        let threads = parts.threads.iter().map(|thread| &thread.frame);
        let tokens = parts.tokens.iter().map(|thread| &thread.frame);
        Arc::new(State {
            id,
            is_relative: threads.chain(tokens).any(|frame| are_relative(frame.deadlines())),
            threads: parts.threads.into(),
            tokens: parts.tokens.into(),
            can_stop: parts.can_stop,
            farthest: OnceLock::new(),
            quiet_until: OnceLock::new(),
            lexicon,
            bytes,
            live_bytes: live_bytes.clone(),
        })
    }

    /// What it consists of.
    pub fn parts(&self) -> Frozen {
        Frozen {
            threads: self.threads.to_vec(),
            tokens: self.tokens.to_vec(),
            can_stop: self.can_stop,
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.live_bytes.remove(self.bytes);
    }
}

/// What makes two groups or two states equal, as numbers.
#[derive(PartialEq, Eq)]
pub struct Key(pub Box<[u64]>);

impl Key {
    /// See `heap`.
    pub fn heap(&self) -> usize {
        size_of_val(&*self.0)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.iter().for_each(|word| hasher.write_u64(*word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_frames_are_let_go_without_recursion() {
        let live = Counter::default();
        let called = |edges: Box<[Edge]>| {
            vec![Called {
                edges,
                memory: None,
                deadlines: None,
            }]
        };
        let mut top = Group::new(ROOT, called(Box::default()), &live);
        for id in 1..1_000_000 {
            let edge = Edge {
                position: 0,
                member: 0,
                group: Some(top),
            };
            top = Group::new(id, called(Box::new([edge])), &live);
        }
        drop(top);
        assert_eq!(live.bytes(), 0);
    }
}
