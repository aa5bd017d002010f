//! What one automaton state means for the tokens of a vocabulary: which stay inside its terminal, and which cross
//! its end, so that the rest of them has to be checked with the grammar. All others are dead.
//!
//! Where many tokens cross, the class of a state can be carried on into a next terminal: the class of the two in a row.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::byteset::ByteSet;
use crate::hash::{FastMap, FastSet};
use crate::lexicon::Lexicon;
use crate::limits::{Meter, Outcome};
use crate::term::Term;
use crate::trie::Trie;
use crate::walk::{Like, Walk};

/// A set of token ids.
pub enum TokenSet {
    /// One bit for each id, 32 to the word.
    Dense(Arc<[u32]>),
    Sparse(Box<[u32]>),
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rest {
    first: u8,
    pub node: u32,
    pub depth: u32,
    pub node_depth: u32,
}

/// All rests, by their first bytes.
pub struct Rests {
    all: Box<[Rest]>,
    /// For each first byte: where its rests end, and how many nodes lie below all of them.
    runs: Box<[(u8, u32, u32)]>,
}

impl Rests {
    fn new(mut all: Vec<Rest>, trie: &Trie) -> Self {
        all.sort_unstable();
        all.dedup();
        let mut runs: Vec<(u8, u32, u32)> = Vec::new();
        for (index, rest) in all.iter().enumerate() {
            let weight = rest.node_depth - rest.depth + trie.nodes()[rest.node as usize].end - rest.node;
            match runs.last_mut().filter(|run| run.0 == rest.first) {
                Some(run) => {
                    run.1 = index as u32 + 1;
                    run.2 = run.2.saturating_add(weight);
                }
                None => runs.push((rest.first, index as u32 + 1, weight)),
            }
        }
        Rests {
            all: all.into(),
            runs: runs.into(),
        }
    }

    /// Those that begin with one of `firsts`.
    pub fn beginning<'r>(&'r self, firsts: &'r ByteSet) -> impl Iterator<Item = &'r Rest> {
        let start = |index: usize| index.checked_sub(1).map_or(0, |before| self.runs[before].1);
        let runs = self.runs.iter().enumerate().filter(|(_, run)| firsts.contains(run.0));
        runs.flat_map(move |(index, run)| &self.all[start(index) as usize..run.1 as usize])
    }

    /// How many nodes of the trie lie on the way of those that begin with one of `firsts`.
    pub fn weight(&self, firsts: &ByteSet) -> usize {
        let runs = self.runs.iter().filter(|run| firsts.contains(run.0));
        runs.map(|run| run.2 as usize).sum()
    }

    /// How many nodes of the trie lie on the way of all.
    pub fn weight_of_all(&self) -> usize {
        self.runs.iter().map(|run| run.2 as usize).sum()
    }

    fn bytes(&self) -> usize {
        std::mem::size_of::<Rest>() * self.all.len() + 12 * self.runs.len()
    }
}

pub struct Class {
    /// The tokens after which the terminal can still go on or has just ended.
    pub inside: TokenSet,
    cuts: Box<[Cut]>,
    ends: Box<[End]>,
    slack: OnceLock<u32>,
    rests: OnceLock<Rests>,
    followed: Mutex<FastMap<Term, Arc<Class>>>,
}

impl Class {
    /// The class of `state`.
    pub fn new(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Self> {
        Walk::new(lexicon, state, None, meter)?.all(meter)
    }

    /// The class of a state that is like other ones in many places.
    pub fn like(lexicon: &Lexicon, state: Term, like: Like, meter: &mut Meter) -> Outcome<Self> {
        Walk::new(lexicon, state, Some(like), meter)?.all(meter)
    }

    /// The same as `like` with `Like::State`, and the slack on the way: that of the other class's `main` state is known,
    /// or is worked out once.
    pub fn like_with_slack(lexicon: &Lexicon, state: Term, like: Like, main: Term, meter: &mut Meter) -> Outcome<Self> {
        let common = like.class().slack(lexicon, main, meter)?;
        let mut walk = Walk::new(lexicon, state, Some(like), meter)?;
        walk.states = Some(FastSet::from_iter([state]));
        walk.subtrees(0, lexicon.vocabulary.trie.nodes().len(), meter)?;
        let states = std::mem::take(&mut walk.states);
        let slack = common.max(lexicon.longest_way(states.into_iter().flatten(), meter)?);
        let class = walk.finish(meter)?;
        class.slack.get_or_init(|| slack);
        Ok(class)
    }

    /// How many bytes are missing at most to a match of this class's `state`, after whatever token that stays inside.
    pub fn slack(&self, lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<u32> {
        if let Some(slack) = self.slack.get() {
            return Ok(*slack);
        }
        let mut walk = Walk::new(lexicon, state, None, meter)?;
        walk.states = Some(FastSet::from_iter([state]));
        walk.subtrees(0, lexicon.vocabulary.trie.nodes().len(), meter)?;
        let slack = lexicon.longest_way(walk.states.into_iter().flatten(), meter)?;
        Ok(*self.slack.get_or_init(|| slack))
    }

    /// The class of this one's terminal and one in `state` behind it.
    pub fn then(&self, lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Arc<Class>> {
        if let Some(class) = lock(&self.followed).get(&state) {
            return Ok(class.clone());
        }
        let firsts = lexicon.first_bytes([state].into_iter(), meter)?;
        let mut walk = Walk::new(lexicon, state, None, meter)?;
        let mut rests: Vec<&Rest> = self.rests(lexicon, meter)?.beginning(&firsts).collect();
        rests.sort_unstable_by_key(|rest| (rest.node, rest.depth));
        for rest in rests {
            walk.rest(rest.node, rest.depth, rest.node_depth, meter)?;
        }
        let class = Arc::new(walk.finish(meter)?);
        lexicon.count_class_bytes(class.bytes() + 64);
        lock(&self.followed).insert(state, class.clone());
        Ok(class)
    }

    /// Whether any token crosses the terminal's end.
    pub fn has_rests(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// What is left, after the terminal's end, of the tokens that cross it.
    pub fn rests(&self, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<&Rests> {
        if let Some(rests) = self.rests.get() {
            return Ok(rests);
        }
        let nodes = lexicon.vocabulary.trie.nodes();
        let mut all = Vec::new();
        for &cut in self.cuts.iter() {
            for end in &self.ends[cut.first_end as usize..cut.last_end as usize] {
                let at_cut = end.depth + 1 == cut.depth;
                all.push(Rest {
                    first: if at_cut {
                        nodes[cut.node as usize].byte
                    } else {
                        end.byte
                    },
                    node: cut.node,
                    depth: end.depth,
                    node_depth: cut.depth,
                });
            }
        }
        meter.work(all.len() / 16 + 1)?;
        let rests = Rests::new(all, &lexicon.vocabulary.trie);
        lexicon.count_class_bytes(rests.bytes());
        Ok(self.rests.get_or_init(|| rests))
    }

    /// From what a walk has found.
    pub fn from_parts(inside: TokenSet, cuts: Vec<Cut>, ends: Vec<End>) -> Self {
        Class {
            inside,
            cuts: cuts.into(),
            ends: ends.into(),
            slack: OnceLock::new(),
            rests: OnceLock::new(),
            followed: Mutex::default(),
        }
    }

    /// The cuts from node `first` up to node `end`, with the ends on the way to each.
    pub fn cuts_between(&self, first: u32, end: u32) -> impl Iterator<Item = (&Cut, &[End])> {
        let from = self.cuts.partition_point(|cut| cut.node < first);
        let cuts = self.cuts[from..].iter().take_while(move |cut| cut.node < end);
        cuts.map(|cut| (cut, &self.ends[cut.first_end as usize..cut.last_end as usize]))
    }

    pub fn bytes(&self) -> usize {
        let inside = match &self.inside {
            TokenSet::Dense(words) => 4 * words.len(),
            TokenSet::Sparse(ids) => 4 * ids.len(),
        };
        std::mem::size_of::<Class>() + inside + 16 * self.cuts.len() + 8 * self.ends.len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
