//! The class of an automaton state sorts the tokens of a vocabulary. Some stay inside the state's terminal. Some cross
//! its end, so the grammar has to check their remaining bytes. All other tokens are dead.
//!
//! Where many tokens cross the end, a class can be extended into a next terminal: the result is the class of the two
//! terminals in a row.

use std::mem::{size_of, size_of_val};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::base::byteset::ByteSet;
use crate::base::damage::{Guarded, Health};
use crate::base::hash::FastMap;
use crate::base::heap::{self, Counted, Counter};
use crate::base::limits::{Meter, Outcome};
use crate::regular::term::Term;
use crate::tokens::mask::{bits_from, ids_in, join, set, Bits};
use crate::tokens::trie::Trie;

/// A set of token ids.
#[derive(Clone)]
pub enum TokenSet {
    Dense(Arc<Bits>),
    Sparse(Box<[u32]>),
}

impl TokenSet {
    /// Make a set of these ids; `counter` counts the bytes of bit sets.
    pub fn of(ids: Vec<u32>, words: usize, counter: &Counter) -> Self {
        if ids.len() <= words {
            return TokenSet::Sparse(ids.into());
        }
        TokenSet::Dense(Bits::new(bits_from(&ids, words), counter))
    }

    /// Add the ids to a row.
    pub fn write(&self, row: &mut [u32]) {
        match self {
            TokenSet::Dense(words) => join(row, words),
            TokenSet::Sparse(ids) => set(row, ids),
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            TokenSet::Dense(words) => 4 * words.len(),
            TokenSet::Sparse(ids) => 4 * ids.len(),
        }
    }

    /// Return the bytes on the heap (see `heap`), without those of bit sets, which count themselves.
    pub fn heap(&self) -> usize {
        match self {
            TokenSet::Dense(_) => 0,
            TokenSet::Sparse(ids) => size_of_val(&**ids),
        }
    }

    /// Return the ids; those of a dense set are in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        let (words, ids): (&[u32], &[u32]) = match self {
            TokenSet::Dense(words) => (words, &[]),
            TokenSet::Sparse(ids) => (&[], ids),
        };
        ids_in(words).chain(ids.iter().copied())
    }
}

/// The tokens that stay inside a repetition, grouped by the number of rounds that they take. The last round may be
/// incomplete.
pub struct Rounds {
    ids: Box<[u32]>,
    /// The index of the first id for each number of rounds, and the total number of ids.
    starts: Box<[u32]>,
}

impl Rounds {
    /// Group ids by their numbers of rounds; the pairs are (rounds, id).
    pub fn new(found: Vec<(u32, u32)>) -> Self {
        let most = found.iter().map(|(rounds, _)| *rounds).max().unwrap_or(0);
        let mut starts = vec![0; most as usize + 2];
        found.iter().for_each(|(rounds, _)| starts[*rounds as usize + 1] += 1);
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut next = starts.clone();
        let mut ids = vec![0; found.len()];
        for (rounds, id) in found {
            ids[next[rounds as usize] as usize] = id;
            next[rounds as usize] += 1;
        }
        Rounds {
            ids: ids.into(),
            starts: starts.into(),
        }
    }

    /// Return the ids that take more than `maximum` rounds.
    pub fn beyond(&self, maximum: u32) -> &[u32] {
        let start = self.starts.get((maximum as usize).saturating_add(1)).copied();
        &self.ids[start.map_or(self.ids.len(), |start| start as usize)..]
    }

    pub fn bytes(&self) -> usize {
        4 * (self.ids.len() + self.starts.len())
    }
}

/// A subtree of the vocabulary's trie that the automaton does not enter, with the positions on the path to it at which
/// the terminal could have ended.
#[derive(Clone, Copy)]
pub struct Cut {
    pub node: u32,
    /// Number of bytes on the path to the node.
    pub depth: u32,
    /// The range `first_end..last_end` of the class's ends.
    pub first_end: u32,
    pub last_end: u32,
}

/// A position after `depth` bytes at which the terminal could have ended. `byte` is the byte that follows, except
/// directly before the cut: there the cut's node has the byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub depth: u32,
    pub byte: u8,
}

/// The remainders, from byte `depth` on, of all tokens at and below a node of the vocabulary's trie; the terminal ends
/// at `depth`. The path to the node has `node_depth` bytes, so all these remainders share the bytes between `depth` and
/// `node_depth`.
#[derive(Clone, Copy)]
pub struct Rest {
    pub node: u32,
    pub depth: u32,
    pub node_depth: u32,
}

/// The remainders with the same first byte.
pub struct Rests {
    first: u8,
    pub all: Vec<Rest>,
    /// Number of trie nodes on the paths of these remainders, counted as if they shared none.
    pub weight: usize,
}

/// The remainders found by one request; `next` has those found by later requests. Reading them writes nothing, because
/// a forked process copies each memory page that is written to.
struct Part {
    rests: Vec<Rests>,
    next: OnceLock<Box<Part>>,
}

impl Part {
    /// Return the bytes on the heap, see `heap`.
    fn heap(&self) -> usize {
        let rests = self.rests.iter().map(|rests| heap::list(&rests.all));
        heap::list(&self.rests) + rests.sum::<usize>()
    }

    fn bytes(&self) -> usize {
        let bytes = |rests: &Rests| size_of::<Rests>() + size_of::<Rest>() * rests.all.len();
        self.rests.iter().map(bytes).sum()
    }
}

/// A summary of all remainders: their first bytes, and their weight.
struct Overview {
    firsts: ByteSet,
    weight: usize,
}

/// Data that all classes of one vocabulary share.
#[derive(Clone, Default)]
pub struct Owner {
    pub health: Arc<Health>,
    bytes: Arc<AtomicUsize>,
    /// Bytes of all classes, targets and bit sets that exist, whether or not the lexicon still keeps them.
    pub memory: Counter,
}

impl Owner {
    /// Count the bytes of a new class, or the bytes by which a class has grown.
    pub fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes + 48, Ordering::Relaxed);
    }

    /// Return the number of bytes counted so far.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Return the bytes of all classes, targets and bit sets that exist.
    pub fn memory(&self) -> usize {
        self.memory.bytes()
    }

    /// Return an owner for a class that is not kept: its bytes are not counted with the others.
    pub fn apart(&self) -> Self {
        Owner {
            health: self.health.clone(),
            bytes: Arc::default(),
            memory: self.memory.clone(),
        }
    }

    /// Reset the count to zero.
    pub fn forget(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }
}

/// The tokens that cross a terminal's end, and cached results about them.
struct Crossing {
    cuts: Box<[Cut]>,
    ends: Box<[End]>,
    overview: OnceLock<Overview>,
    rests: OnceLock<Box<Part>>,
    followed: Guarded<FastMap<Term, Arc<Class>>>,
    memory: Counted,
}

pub struct Class {
    /// The tokens after which the terminal can continue or has just ended.
    pub inside: TokenSet,
    crossing: Arc<Crossing>,
    /// The states that the class's tokens lead to, if the slack may be requested: see `known_slack`.
    pub met: Option<Box<[Term]>>,
    slack: OnceLock<u32>,
    /// The rounds of an unbounded repetition; None if a round could end at several positions.
    rounds: OnceLock<Option<Rounds>>,
    owner: Owner,
    memory: Counted,
}

impl Class {
    /// Return the slack if it is known: the maximum number of bytes that a match of this class's state still needs
    /// after any token that stays inside.
    pub fn known_slack(&self) -> Option<u32> {
        self.slack.get().copied()
    }

    /// Store the slack, unless one is stored already, and return the stored one.
    pub fn keep_slack(&self, slack: u32) -> u32 {
        *self.slack.get_or_init(|| slack)
    }

    /// Return the number of rounds of this repetition that each token takes; the first call computes it with `find`.
    pub fn rounds(&self, find: impl FnOnce() -> Outcome<Option<Rounds>>) -> Outcome<Option<&Rounds>> {
        if self.rounds.get().is_none() {
            let found = find()?;
            self.owner.count(found.as_ref().map_or(0, Rounds::bytes));
            self.rounds.get_or_init(|| {
                self.memory.grow(found.as_ref().map_or(0, Rounds::bytes));
                found
            });
        }
        Ok(self.rounds.get().and_then(Option::as_ref))
    }

    /// Return the class of this class's terminal followed by one in `state`, if it is cached.
    pub fn followed(&self, state: Term) -> Outcome<Option<Arc<Class>>> {
        Ok(self.crossing.followed.lock()?.get(&state).cloned())
    }

    /// Cache the class of this class's terminal followed by one in `state`.
    pub fn keep_followed(&self, state: Term, class: &Arc<Class>) -> Outcome<()> {
        self.owner.count(class.bytes() + 64);
        let mut followed = self.crossing.followed.lock()?;
        let before = heap::table(&*followed);
        followed.insert(state, class.clone());
        self.crossing.memory.grow(heap::table(&*followed) - before);
        Ok(())
    }

    /// Return whether any token crosses the terminal's end.
    pub fn has_rests(&self) -> bool {
        !self.crossing.cuts.is_empty()
    }

    /// Return the number of trie nodes on the paths of the tokens that cross the terminal's end, counted from that end.
    pub fn weight(&self, trie: &Trie, meter: &mut Meter) -> Outcome<usize> {
        Ok(self.overview(trie, meter)?.weight)
    }

    /// Return the remainders, after the terminal's end, of the tokens that cross it, if they begin with one of
    /// `firsts`.
    pub fn rests(&self, trie: &Trie, firsts: &ByteSet, meter: &mut Meter) -> Outcome<Vec<&Rests>> {
        let mut wanted = self.overview(trie, meter)?.firsts.intersection(firsts);
        let (mut found, mut place) = (Vec::new(), &self.crossing.rests);
        while !wanted.is_empty() {
            let part = match place.get() {
                Some(part) => part,
                None => {
                    let part = self.find_rests(trie, &wanted, meter)?;
                    place.get_or_init(|| {
                        self.owner.count(part.bytes());
                        self.crossing.memory.grow(size_of::<Part>() + part.heap());
                        Box::new(part)
                    })
                }
            };
            let asked = part.rests.iter().filter(|rests| wanted.contains(rests.first));
            found.extend(asked);
            part.rests.iter().for_each(|rests| wanted.remove(rests.first));
            place = &part.next;
        }
        Ok(found)
    }

    fn find_rests(&self, trie: &Trie, firsts: &ByteSet, meter: &mut Meter) -> Outcome<Part> {
        meter.work(self.crossing.ends.len() / 8 + 1)?;
        // Count the remainders first: lists that grow would each be moved several times.
        let mut counts = [0; 256];
        self.for_each_rest(trie, |first, _, _| counts[usize::from(first)] += 1);
        let (mut rests, mut place) = (Vec::with_capacity(firsts.len()), [0; 256]);
        for first in firsts.iter() {
            place[usize::from(first)] = rests.len();
            rests.push(Rests {
                first,
                all: Vec::with_capacity(counts[usize::from(first)]),
                weight: 0,
            });
        }
        self.for_each_rest(trie, |first, rest, weight| {
            if firsts.contains(first) {
                let rests = &mut rests[place[usize::from(first)]];
                rests.all.push(rest);
                rests.weight += weight;
            }
        });
        Ok(Part {
            rests,
            next: OnceLock::new(),
        })
    }

    fn overview(&self, trie: &Trie, meter: &mut Meter) -> Outcome<&Overview> {
        if let Some(overview) = self.crossing.overview.get() {
            return Ok(overview);
        }
        meter.work(self.crossing.ends.len() / 16 + 1)?;
        let (mut firsts, mut weight) = (ByteSet::default(), 0);
        self.for_each_rest(trie, |first, _, more| {
            firsts.insert(first);
            weight += more;
        });
        Ok(self.crossing.overview.get_or_init(|| Overview { firsts, weight }))
    }

    /// Visit every cut with every position on the path to it at which the terminal could have ended. `visit` gets the
    /// first byte of the remainder, the remainder, and its weight.
    fn for_each_rest(&self, trie: &Trie, mut visit: impl FnMut(u8, Rest, usize)) {
        let nodes = trie.nodes();
        for &cut in self.crossing.cuts.iter() {
            let node = &nodes[cut.node as usize];
            for end in &self.crossing.ends[cut.first_end as usize..cut.last_end as usize] {
                let at_cut = end.depth + 1 == cut.depth;
                let rest = Rest {
                    node: cut.node,
                    depth: end.depth,
                    node_depth: cut.depth,
                };
                let weight = (cut.depth - end.depth + node.end - cut.node) as usize;
                visit(if at_cut { node.byte } else { end.byte }, rest, weight);
            }
        }
    }

    /// Make a class from the results of a walk; `owner` is the owner of all classes.
    pub fn from_parts(inside: TokenSet, cuts: Vec<Cut>, ends: Vec<End>, owner: &Owner) -> Self {
        let (cuts, ends): (Box<[Cut]>, Box<[End]>) = (cuts.into(), ends.into());
        let bytes = heap::COUNTS + size_of::<Crossing>() + size_of_val(&*cuts) + size_of_val(&*ends);
        let crossing = Crossing {
            memory: Counted::new(bytes, &owner.memory),
            cuts,
            ends,
            overview: OnceLock::new(),
            rests: OnceLock::new(),
            followed: Guarded::new(FastMap::default(), &owner.health),
        };
        Class {
            memory: own_memory(&inside, owner),
            inside,
            crossing: crossing.into(),
            met: None,
            slack: OnceLock::new(),
            rounds: OnceLock::new(),
            owner: owner.clone(),
        }
    }

    /// Make a class with the same tokens that cross the end, and other tokens that stay inside.
    pub fn with_inside(&self, inside: TokenSet) -> Self {
        Class {
            memory: own_memory(&inside, &self.owner),
            inside,
            crossing: self.crossing.clone(),
            met: None,
            slack: OnceLock::new(),
            rounds: OnceLock::new(),
            owner: self.owner.clone(),
        }
    }

    /// Store the states that the class's tokens lead to.
    pub fn keep_met(&mut self, met: Option<Box<[Term]>>) {
        self.memory.grow(met.as_deref().map_or(0, size_of_val));
        self.met = met;
    }

    /// Return the cuts from node `first` up to node `end`, each with the ends on the path to it.
    pub fn cuts_between(&self, first: u32, end: u32) -> impl Iterator<Item = (&Cut, &[End])> {
        let from = self.crossing.cuts.partition_point(|cut| cut.node < first);
        let cuts = self.crossing.cuts[from..].iter().take_while(move |cut| cut.node < end);
        cuts.map(|cut| (cut, &self.crossing.ends[cut.first_end as usize..cut.last_end as usize]))
    }

    pub fn bytes(&self) -> usize {
        let met = self.met.as_ref().map_or(0, |states| 4 * states.len());
        let crossing = match Arc::strong_count(&self.crossing) {
            1 => size_of::<Crossing>() + 16 * self.crossing.cuts.len() + 8 * self.crossing.ends.len(),
            _ => 0,
        };
        size_of::<Class>() + met + self.inside.bytes() + crossing
    }
}

/// Count the memory of a class itself.
fn own_memory(inside: &TokenSet, owner: &Owner) -> Counted {
    Counted::new(heap::COUNTS + size_of::<Class>() + inside.heap(), &owner.memory)
}

/// The tokens that stay inside a terminal, or end exactly at its end, grouped by the state that they lead to.
pub struct Targets {
    pub all: Vec<(Term, TokenSet)>,
    /// Nodes of the vocabulary's trie, each with its depth in bytes, at which the terminal may have ended but may also
    /// continue: from there, another terminal may follow. No such node is below another one.
    pub early: Box<[(u32, u32)]>,
    _memory: Counted,
}

impl Targets {
    pub fn new(all: Vec<(Term, TokenSet)>, early: Vec<(u32, u32)>, owner: &Owner) -> Self {
        let early: Box<[(u32, u32)]> = early.into();
        let sets = all.iter().map(|(_, tokens)| tokens.heap()).sum::<usize>();
        let bytes = heap::COUNTS + size_of::<Self>() + heap::list(&all) + sets + size_of_val(&*early);
        Targets {
            all,
            early,
            _memory: Counted::new(bytes, &owner.memory),
        }
    }

    pub fn bytes(&self) -> usize {
        self.all.iter().map(|(_, tokens)| 48 + tokens.bytes()).sum::<usize>() + 8 * self.early.len()
    }
}
