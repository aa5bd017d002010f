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
use crate::trie::{Trie, Vocabulary};
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

/// The rests of the tokens that cross the terminal's end, of those that begin with certain bytes.
#[derive(Default)]
pub struct Rests {
    /// About how many nodes their trie has, counted as if none were shared.
    pub weight: usize,
    trie: OnceLock<Trie>,
}

pub struct Class {
    /// The tokens after which the terminal can still go on or has just ended.
    pub inside: TokenSet,
    cuts: Box<[Cut]>,
    ends: Box<[End]>,
    slack: OnceLock<u32>,
    rests: Mutex<FastMap<ByteSet, Arc<Rests>>>,
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
        let mut places: Vec<(u32, u32, u32)> = Vec::new();
        self.for_each_rest(&lexicon.vocabulary.trie, &firsts, |cut, depth| {
            places.push((cut.node, depth, cut.depth))
        });
        places.sort_unstable();
        places.dedup();
        for (node, depth, node_depth) in places {
            walk.rest(node, depth, node_depth, meter)?;
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

    /// What is left, after the terminal's end, of the tokens that cross it, where that begins with one of `firsts`.
    pub fn rests(&self, lexicon: &Lexicon, firsts: ByteSet, meter: &mut Meter) -> Outcome<Arc<Rests>> {
        if let Some(rests) = lock(&self.rests).get(&firsts) {
            return Ok(rests.clone());
        }
        let vocabulary = &lexicon.vocabulary;
        let nodes = vocabulary.trie.nodes();
        let mut weight = 0;
        self.for_each_rest(&vocabulary.trie, &firsts, |cut, depth| {
            weight += (cut.depth - depth + nodes[cut.node as usize].end - cut.node) as usize;
        });
        meter.work(self.ends.len() / 16 + 1)?;
        let rests = Arc::new(Rests {
            weight,
            trie: OnceLock::new(),
        });
        lexicon.count_class_bytes(96);
        lock(&self.rests).insert(firsts, rests.clone());
        Ok(rests)
    }

    /// The trie of rests that begin with one of `firsts`.
    pub fn trie<'r>(
        &self,
        rests: &'r Rests,
        lexicon: &Lexicon,
        firsts: &ByteSet,
        meter: &mut Meter,
    ) -> Outcome<&'r Trie> {
        if let Some(trie) = rests.trie.get() {
            return Ok(trie);
        }
        meter.work(rests.weight / 4)?;
        let trie = self.build_trie(&lexicon.vocabulary, firsts);
        lexicon.count_class_bytes(trie.bytes());
        Ok(rests.trie.get_or_init(|| trie))
    }

    /// From what a walk has found.
    pub fn from_parts(inside: TokenSet, cuts: Vec<Cut>, ends: Vec<End>) -> Self {
        Class {
            inside,
            cuts: cuts.into(),
            ends: ends.into(),
            slack: OnceLock::new(),
            rests: Mutex::default(),
            followed: Mutex::default(),
        }
    }

    /// The cuts from node `first` up to node `end`, with the ends on the way to each.
    pub fn cuts_between(&self, first: u32, end: u32) -> impl Iterator<Item = (&Cut, &[End])> {
        let from = self.cuts.partition_point(|cut| cut.node < first);
        let cuts = self.cuts[from..].iter().take_while(move |cut| cut.node < end);
        cuts.map(|cut| (cut, &self.ends[cut.first_end as usize..cut.last_end as usize]))
    }

    fn build_trie(&self, vocabulary: &Vocabulary, firsts: &ByteSet) -> Trie {
        let mut entries: Vec<(&[u8], u32)> = Vec::new();
        self.for_each_rest(&vocabulary.trie, firsts, |cut, depth| {
            for ids in vocabulary.trie.ids_below(cut.node as usize) {
                let rest = &vocabulary.token(ids[0])[depth as usize..];
                entries.extend(ids.iter().map(|id| (rest, *id)));
            }
        });
        entries.sort_unstable();
        entries.dedup();
        Trie::new(&entries)
    }

    /// Every cut with every depth on the way to it where the terminal could have ended and one of `firsts` follows.
    fn for_each_rest(&self, trie: &Trie, firsts: &ByteSet, mut visit: impl FnMut(Cut, u32)) {
        for &cut in self.cuts.iter() {
            for end in &self.ends[cut.first_end as usize..cut.last_end as usize] {
                let at_cut = end.depth + 1 == cut.depth;
                let byte = if at_cut {
                    trie.nodes()[cut.node as usize].byte
                } else {
                    end.byte
                };
                if firsts.contains(byte) {
                    visit(cut, end.depth);
                }
            }
        }
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
