//! The parser's stack of calls, shared and immutable.
//!
//! A frame is one call of a rule: the places at which parsing continues after it, each with the frame that is active
//! there. Frames exist once: equal frames are the same object. So two texts that leave the parser in the same situation
//! leave it in the same state. Frames that refer to each other in a cycle, as left recursion makes them, are in one
//! group.

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

/// A place at which parsing continues after a call, and the frame there; a `group` of None means the edge's own group.
pub struct Edge {
    pub position: u32,
    pub member: u32,
    pub group: Option<Arc<Group>>,
}

/// The contents of a frame: its edges, its memory of a list of members, and the deadlines of its regions.
pub struct Called {
    pub edges: Box<[Edge]>,
    pub memory: Option<Arc<Memory>>,
    pub deadlines: Option<Deadlines>,
}

/// Frames that refer to each other, or a single frame.
pub struct Group {
    /// A number that is unique within a grammar and never reused.
    pub id: u64,
    members: Vec<Called>,
    bytes: usize,
    live_bytes: Counter,
}

/// The id of the group whose only frame is the end of the whole text.
pub const ROOT: u64 = 0;

impl Group {
    /// Make a group. `live_bytes` counts the bytes of all existing states and groups, without those of memories.
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

    /// Return the number of frames.
    pub fn len(&self) -> u32 {
        self.members.len() as u32
    }

    pub fn edges(&self, member: u32) -> &[Edge] {
        &self.members[member as usize].edges
    }

    pub fn memory(&self, member: u32) -> Option<&Arc<Memory>> {
        self.members[member as usize].memory.as_ref()
    }

    /// Return whether any of its frames is in a region.
    pub fn has_deadlines(&self) -> bool {
        self.members.iter().any(|frame| frame.deadlines.is_some())
    }

    pub fn deadlines(&self, member: u32) -> &Option<Deadlines> {
        &self.members[member as usize].deadlines
    }

    /// Return an estimate of its bytes, including the memories of its frames.
    pub fn bytes(&self) -> usize {
        let memories = self.members.iter().filter_map(|frame| frame.memory.as_ref());
        self.bytes + memories.map(|memory| memory.bytes()).sum::<usize>()
    }
}

impl Drop for Group {
    /// Free frames in a loop, not by recursion: they form chains as long as the text nests deep.
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

/// A reference to one frame of a group.
#[derive(Clone)]
pub struct Frame {
    pub group: Arc<Group>,
    pub member: u32,
}

impl Frame {
    /// Return a key that is unique among the frames of a grammar.
    pub fn key(&self) -> (u64, u32) {
        (self.group.id, self.member)
    }

    /// Return the deadlines of the regions that the frame is in.
    pub fn deadlines(&self) -> &Option<Deadlines> {
        self.group.deadlines(self.member)
    }
}

/// An active terminal: the state of its automaton, and the place at which parsing continues after it.
#[derive(Clone)]
pub struct Thread {
    pub state: Term,
    pub next: u32,
    pub frame: Frame,
}

impl Thread {
    /// Return a key that identifies the thread; threads with the same automaton state are adjacent in its order.
    pub fn key(&self) -> (u64, (u64, u32)) {
        (pair(self.state, self.next), self.frame.key())
    }
}

/// Split sorted threads into runs with the same automaton state.
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

/// A token that may come next by its id, and the place at which parsing continues after it.
#[derive(Clone)]
pub struct TokenThread {
    pub token: u32,
    pub next: u32,
    pub frame: Frame,
}

/// The parts of a state.
#[derive(Clone, Default)]
pub struct Frozen {
    pub threads: Vec<Thread>,
    pub tokens: Vec<TokenThread>,
    pub can_stop: bool,
}

impl Frozen {
    /// Make parts of threads only, which may be in any order.
    pub fn of_threads(mut threads: Vec<Thread>) -> Self {
        sort(&mut threads);
        Frozen {
            threads,
            ..Frozen::default()
        }
    }

    /// Return whether nothing can follow, not even the end.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.tokens.is_empty() && !self.can_stop
    }

    /// Return the key that identifies the state.
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

    /// Return a hash of the parts.
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

/// Sort threads and remove duplicates.
pub fn sort(threads: &mut Vec<Thread>) {
    sort_by(threads, Thread::key);
    threads.dedup_by_key(|thread| thread.key());
}

/// The state of the parser between two tokens.
pub struct State {
    pub id: u64,
    pub threads: Box<[Thread]>,
    pub tokens: Box<[TokenThread]>,
    pub can_stop: bool,
    /// An upper bound of the distance after any next token (see `Remainders`), once it was requested.
    pub farthest: OnceLock<u32>,
    /// The maximum number of tokens up to which any next token leaves every open region enough tokens to end, once it
    /// was requested.
    pub quiet_until: OnceLock<u32>,
    /// Tells whether the last token has opened regions, so that their deadlines are not known yet.
    pub is_relative: bool,
    /// The lexicon that the threads' automaton states belong to.
    pub lexicon: Arc<Lexicon>,
    bytes: usize,
    live_bytes: Counter,
}

impl State {
    /// Make a state. `live_bytes` counts the bytes of all existing states and groups.
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

    /// Return the parts of the state.
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

/// The numbers that identify a group or a state.
#[derive(PartialEq, Eq)]
pub struct Key(pub Box<[u64]>);

impl Key {
    /// Return the bytes on the heap, see `heap`.
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

    #[test]
    fn example_frame_returns_to_its_caller() {
        let live = Counter::default();
        let called = |edges: Box<[Edge]>| Called {
            edges,
            memory: None,
            deadlines: None,
        };
        let root = Group::new(ROOT, vec![called(Box::default())], &live);
        let edge = Edge {
            position: 7,
            member: 0,
            group: Some(root),
        };
        let call = Group::new(1, vec![called(Box::new([edge]))], &live);
        let [edge] = call.edges(0) else {
            panic!("the call has one caller")
        };
        assert_eq!((edge.position, edge.group.as_ref().unwrap().id), (7, ROOT));
    }
}
