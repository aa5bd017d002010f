//! What one automaton state means for the tokens of a vocabulary: which stay inside its terminal, and which cross
//! its end, so that the rest of them has to be checked with the grammar. All others are dead.
//!
//! Where many tokens cross, the class of a state can be carried on into a next terminal: the class of the two in a row.

use std::sync::{Arc, OnceLock};

use crate::byteset::ByteSet;
use crate::damage::{Guarded, Health};
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
#[derive(Clone, Copy)]
pub struct Rest {
    pub node: u32,
    pub depth: u32,
    pub node_depth: u32,
}

/// The rests with one first byte.
#[derive(Default)]
pub struct Rests {
    pub all: Vec<Rest>,
    /// How many nodes of the trie lie on their way, counted as if none were shared.
    pub weight: usize,
}

/// All rests in short: the bytes that they begin with, and their weight.
struct Overview {
    firsts: ByteSet,
    weight: usize,
}

pub struct Class {
    /// The tokens after which the terminal can still go on or has just ended.
    pub inside: TokenSet,
    cuts: Box<[Cut]>,
    ends: Box<[End]>,
    slack: OnceLock<u32>,
    overview: OnceLock<Overview>,
    rests: Guarded<FastMap<u8, Arc<Rests>>>,
    followed: Guarded<FastMap<Term, Arc<Class>>>,
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
        if let Some(class) = self.followed.lock()?.get(&state) {
            return Ok(class.clone());
        }
        let firsts = lexicon.first_bytes([state].into_iter(), meter)?;
        let mut walk = Walk::new(lexicon, state, None, meter)?;
        let found = self.rests(lexicon, &firsts, meter)?;
        let mut rests: Vec<Rest> = found.iter().flat_map(|rests| rests.all.iter().copied()).collect();
        rests.sort_unstable_by_key(|rest| (rest.node, rest.depth));
        for rest in rests {
            walk.rest(rest.node, rest.depth, rest.node_depth, meter)?;
        }
        let class = Arc::new(walk.finish(meter)?);
        lexicon.count_class_bytes(class.bytes() + 64);
        self.followed.lock()?.insert(state, class.clone());
        Ok(class)
    }

    /// Whether any token crosses the terminal's end.
    pub fn has_rests(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// How many nodes of the trie lie on the way of the tokens that cross the terminal's end, after that.
    pub fn weight(&self, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<usize> {
        Ok(self.overview(lexicon, meter)?.weight)
    }

    /// What is left, after the terminal's end, of the tokens that cross it, where that begins with one of `firsts`.
    pub fn rests(&self, lexicon: &Lexicon, firsts: &ByteSet, meter: &mut Meter) -> Outcome<Vec<Arc<Rests>>> {
        let wanted = self.overview(lexicon, meter)?.firsts.intersection(firsts);
        let mut known = self.rests.lock()?;
        let mut missing = wanted;
        known.keys().for_each(|byte| missing.remove(*byte));
        if !missing.is_empty() {
            meter.work(self.ends.len() / 16 + 1)?;
            let mut found: FastMap<u8, Rests> = FastMap::default();
            self.for_each_rest(&lexicon.vocabulary.trie, |first, rest, weight| {
                if missing.contains(first) {
                    let rests = found.entry(first).or_default();
                    rests.all.push(rest);
                    rests.weight += weight;
                }
            });
            for (first, rests) in found {
                lexicon.count_class_bytes(std::mem::size_of::<Rest>() * rests.all.len());
                known.insert(first, Arc::new(rests));
            }
        }
        Ok(wanted.iter().filter_map(|byte| known.get(&byte).cloned()).collect())
    }

    fn overview(&self, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<&Overview> {
        if let Some(overview) = self.overview.get() {
            return Ok(overview);
        }
        meter.work(self.ends.len() / 16 + 1)?;
        let (mut firsts, mut weight) = (ByteSet::default(), 0);
        self.for_each_rest(&lexicon.vocabulary.trie, |first, _, more| {
            firsts.insert(first);
            weight += more;
        });
        Ok(self.overview.get_or_init(|| Overview { firsts, weight }))
    }

    /// Every cut with every depth on the way to it where the terminal could have ended: the byte after that, the rest,
    /// and its weight.
    fn for_each_rest(&self, trie: &Trie, mut visit: impl FnMut(u8, Rest, usize)) {
        let nodes = trie.nodes();
        for &cut in self.cuts.iter() {
            let node = &nodes[cut.node as usize];
            for end in &self.ends[cut.first_end as usize..cut.last_end as usize] {
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
    pub fn from_parts(inside: TokenSet, cuts: Vec<Cut>, ends: Vec<End>, owner: &Arc<Health>) -> Self {
        Class {
            inside,
            cuts: cuts.into(),
            ends: ends.into(),
            slack: OnceLock::new(),
            overview: OnceLock::new(),
            rests: Guarded::new(FastMap::default(), owner),
            followed: Guarded::new(FastMap::default(), owner),
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
