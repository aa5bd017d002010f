//! What one automaton state means for the tokens of a vocabulary: which stay inside its terminal, and which cross
//! its end, so that the rest of them has to be checked with the grammar. All others are dead.
//!
//! Where many tokens cross, the class of a state can be carried on into a next terminal: the class of the two in a row.

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
    /// These ids; `counter` is for the bytes of bit sets.
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

    /// See `heap`; without bit sets, which count themselves.
    pub fn heap(&self) -> usize {
        match self {
            TokenSet::Dense(_) => 0,
            TokenSet::Sparse(ids) => size_of_val(&**ids),
        }
    }

    /// The ids, ascending if they are many.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        let (words, ids): (&[u32], &[u32]) = match self {
            TokenSet::Dense(words) => (words, &[]),
            TokenSet::Sparse(ids) => (&[], ids),
        };
        ids_in(words).chain(ids.iter().copied())
    }
}

/// The tokens that stay inside a repetition, by how many rounds they take: the last one may be left open.
pub struct Rounds {
    ids: Box<[u32]>,
    /// Where the ids of each number of rounds begin, and the end of the last.
    starts: Box<[u32]>,
}

impl Rounds {
    /// From ids with their numbers of rounds.
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

    /// The ids that take more rounds than that.
    pub fn beyond(&self, maximum: u32) -> &[u32] {
        let start = self.starts.get((maximum as usize).saturating_add(1)).copied();
        &self.ids[start.map_or(self.ids.len(), |start| start as usize)..]
    }

    pub fn bytes(&self) -> usize {
        4 * (self.ids.len() + self.starts.len())
    }
}

/// A subtree of the vocabulary's trie that the automaton does not enter, and where the terminal could have ended on
/// the way to it.
#[derive(Clone, Copy)]
pub struct Cut {
    pub node: u32,
    /// How many bytes lead to the node.
    pub depth: u32,
    /// A range of the class's ends.
    pub first_end: u32,
    pub last_end: u32,
}

/// A place where the terminal could have ended: after `depth` bytes. `byte` comes next, unless the cut is just there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub depth: u32,
    pub byte: u8,
}

/// The rest of tokens that cross the terminal's end: of all those below a node of the vocabulary's trie, from byte
/// `depth` on. `node_depth` bytes lead to the node, so that they begin with what leads there from `depth` on.
#[derive(Clone, Copy)]
pub struct Rest {
    pub node: u32,
    pub depth: u32,
    pub node_depth: u32,
}

/// The rests with one first byte.
pub struct Rests {
    first: u8,
    pub all: Vec<Rest>,
    /// How many nodes of the trie lie on their way, counted as if none were shared.
    pub weight: usize,
}

/// The rests that were asked for at one time, and those that were asked for later. Reading them writes nothing: in a forked
/// process, memory that is written to is copied.
struct Part {
    rests: Vec<Rests>,
    next: OnceLock<Box<Part>>,
}

impl Part {
    /// See `heap`.
    fn heap(&self) -> usize {
        let rests = self.rests.iter().map(|rests| heap::list(&rests.all));
        heap::list(&self.rests) + rests.sum::<usize>()
    }

    fn bytes(&self) -> usize {
        let bytes = |rests: &Rests| size_of::<Rests>() + size_of::<Rest>() * rests.all.len();
        self.rests.iter().map(bytes).sum()
    }
}

/// All rests in short: the bytes that they begin with, and their weight.
struct Overview {
    firsts: ByteSet,
    weight: usize,
}

/// What the classes of one vocabulary share.
#[derive(Clone, Default)]
pub struct Owner {
    pub health: Arc<Health>,
    bytes: Arc<AtomicUsize>,
    /// What the classes, targets and bit sets that live take in fact, whoever keeps them.
    pub memory: Counter,
}

impl Owner {
    /// Count bytes that a class takes, or that it has grown by.
    pub fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes + 48, Ordering::Relaxed);
    }

    /// The bytes that were counted.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The bytes of all classes, targets and bit sets that live.
    pub fn memory(&self) -> usize {
        self.memory.bytes()
    }

    /// For a class that is not kept: what it takes is not counted with the others.
    pub fn apart(&self) -> Self {
        Owner {
            health: self.health.clone(),
            bytes: Arc::default(),
            memory: self.memory.clone(),
        }
    }

    /// Begin to count again.
    pub fn forget(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }
}

/// The tokens that cross a terminal's end, and what has been worked out about them.
struct Crossing {
    cuts: Box<[Cut]>,
    ends: Box<[End]>,
    overview: OnceLock<Overview>,
    rests: OnceLock<Box<Part>>,
    followed: Guarded<FastMap<Term, Arc<Class>>>,
    memory: Counted,
}

pub struct Class {
    /// The tokens after which the terminal can still go on or has just ended.
    pub inside: TokenSet,
    crossing: Arc<Crossing>,
    /// The states that its tokens lead to, where they may be asked for: see `known_slack`.
    pub met: Option<Box<[Term]>>,
    slack: OnceLock<u32>,
    /// Of a repetition without bounds; none where rounds may end in several places.
    rounds: OnceLock<Option<Rounds>>,
    owner: Owner,
    memory: Counted,
}

impl Class {
    /// How many bytes are missing at most to a match of this class's state after whatever token that stays inside, where
    /// that was worked out before.
    pub fn known_slack(&self) -> Option<u32> {
        self.slack.get().copied()
    }

    /// Keep the slack; what was kept before stays.
    pub fn keep_slack(&self, slack: u32) -> u32 {
        *self.slack.get_or_init(|| slack)
    }

    /// How many rounds of this repetition each token takes: as `find` says, which is asked once.
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

    /// The class of this one's terminal and one in `state` behind it, where that was worked out before.
    pub fn followed(&self, state: Term) -> Outcome<Option<Arc<Class>>> {
        Ok(self.crossing.followed.lock()?.get(&state).cloned())
    }

    /// Keep the class of this one's terminal and one in `state` behind it.
    pub fn keep_followed(&self, state: Term, class: &Arc<Class>) -> Outcome<()> {
        self.owner.count(class.bytes() + 64);
        let mut followed = self.crossing.followed.lock()?;
        let before = heap::table(&*followed);
        followed.insert(state, class.clone());
        self.crossing.memory.grow(heap::table(&*followed) - before);
        Ok(())
    }

    /// Whether any token crosses the terminal's end.
    pub fn has_rests(&self) -> bool {
        !self.crossing.cuts.is_empty()
    }

    /// How many nodes of the trie lie on the way of the tokens that cross the terminal's end, after that.
    pub fn weight(&self, trie: &Trie, meter: &mut Meter) -> Outcome<usize> {
        Ok(self.overview(trie, meter)?.weight)
    }

    /// What is left, after the terminal's end, of the tokens that cross it, where that begins with one of `firsts`.
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
        // Counted first: lists that grow would each be moved several times.
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

    /// Every cut with every depth on the way to it where the terminal could have ended: the byte after that, the rest,
    /// and its weight.
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

    /// From what a walk has found, for the owner of all classes.
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

    /// A class of which the same tokens cross the end, and others stay inside.
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

    /// Keep the states that its tokens lead to.
    pub fn keep_met(&mut self, met: Option<Box<[Term]>>) {
        self.memory.grow(met.as_deref().map_or(0, size_of_val));
        self.met = met;
    }

    /// The cuts from node `first` up to node `end`, with the ends on the way to each.
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

/// What a class counts of itself.
fn own_memory(inside: &TokenSet, owner: &Owner) -> Counted {
    Counted::new(heap::COUNTS + size_of::<Class>() + inside.heap(), &owner.memory)
}

/// The tokens that stay inside a terminal, or end it, by the state that they lead to.
pub struct Targets {
    pub all: Vec<(Term, TokenSet)>,
    /// Nodes of the vocabulary's trie, with how many bytes lead to them, where the terminal may have ended and yet may go on:
    /// something else may too. None stands below another one.
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
