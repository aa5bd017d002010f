//! What one automaton state means for the tokens of a vocabulary: which stay inside its terminal, and which cross
//! its end, so that the rest of them has to be checked with the grammar. All others are dead.
//!
//! Where many tokens cross, the class of a state can be carried on into a next terminal: the class of the two in a row.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::byteset::ByteSet;
use crate::hash::{FastMap, FastSet};
use crate::lexicon::{Lexicon, Row};
use crate::limits::{Meter, Outcome};
use crate::term::{Term, NOTHING};
use crate::trie::{Trie, Vocabulary};

/// A set of token ids.
pub enum TokenSet {
    /// One bit for each id, 32 to the word.
    Dense(Arc<[u32]>),
    Sparse(Box<[u32]>),
}

/// A subtree of the vocabulary's trie that the automaton does not enter, and where the terminal could have ended on
/// the way to it.
#[derive(Clone, Copy)]
struct Cut {
    node: u32,
    /// How many bytes lead to the node.
    depth: u32,
    /// A range of `Class::ends`.
    first_end: u32,
    last_end: u32,
}

/// A place where the terminal could have ended: after `depth` bytes. `byte` comes next, unless the cut is just there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct End {
    depth: u32,
    byte: u8,
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
    /// How many bytes are missing at most to a match, after whatever token; 0 where emptiness is plain to see.
    pub slack: u32,
    cuts: Box<[Cut]>,
    ends: Box<[End]>,
    rests: Mutex<FastMap<ByteSet, Arc<Rests>>>,
    followed: Mutex<FastMap<Term, Arc<Class>>>,
}

impl Class {
    /// The class of `state`. With `like`, the class of a state that is the same for all strings of at most so many
    /// bytes, only longer tokens are looked at.
    pub fn new(lexicon: &Lexicon, state: Term, like: Option<(&Class, u32)>, meter: &mut Meter) -> Outcome<Self> {
        let nodes = lexicon.vocabulary.trie.nodes().len();
        let mut walk = Walk::new(lexicon, state, meter)?;
        if let Some((class, length)) = like {
            walk.begin_like(class, length);
        }
        walk.subtrees(0, nodes, meter)?;
        walk.finish(meter)
    }

    /// The class of `state`, with its slack.
    pub fn with_slack(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Self> {
        let mut walk = Walk::new(lexicon, state, meter)?;
        if lexicon.uncertain(state) {
            walk.states = Some(FastSet::from_iter([state]));
        }
        walk.subtrees(0, lexicon.vocabulary.trie.nodes().len(), meter)?;
        walk.finish(meter)
    }

    /// The class of this one's terminal and one in `state` behind it.
    pub fn then(&self, lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Arc<Class>> {
        if let Some(class) = lock(&self.followed).get(&state) {
            return Ok(class.clone());
        }
        let firsts = lexicon.first_bytes([state].into_iter(), meter)?;
        let mut walk = Walk::new(lexicon, state, meter)?;
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

/// A node on the way to the current one.
struct Open<'a> {
    row: &'a Row,
    end: u32,
    /// How many ends lay before it.
    ends_before: usize,
}

/// A walk over the vocabulary's trie, along an automaton.
struct Walk<'a> {
    lexicon: &'a Lexicon,
    first_row: &'a Row,
    open: Vec<Open<'a>>,
    /// The bytes to the current node.
    path: Vec<u8>,
    ending: Vec<End>,
    ending_is_written: bool,
    inside: Inside,
    cuts: Vec<Cut>,
    ends: Vec<End>,
    like: Option<(&'a Class, u32)>,
    /// The states that were met, where they are asked for.
    states: Option<FastSet<Term>>,
    last_state: Term,
    visited: usize,
}

/// Token ids while they are gathered: listed while they are few.
enum Inside {
    List(Vec<u32>),
    Bits(Vec<u32>),
}

impl<'a> Walk<'a> {
    fn new(lexicon: &'a Lexicon, state: Term, meter: &mut Meter) -> Outcome<Self> {
        Ok(Walk {
            lexicon,
            first_row: lexicon.row(state, meter)?,
            open: Vec::new(),
            path: Vec::new(),
            ending: Vec::new(),
            ending_is_written: false,
            inside: Inside::List(Vec::new()),
            cuts: Vec::new(),
            ends: Vec::new(),
            like: None,
            states: None,
            last_state: NOTHING,
            visited: 0,
        })
    }

    /// Begin with what is inside of `class`; tokens of at most `length` bytes are left as they are there.
    fn begin_like(&mut self, class: &'a Class, length: u32) {
        let mut bits = vec![0; self.lexicon.vocabulary.words()];
        match &class.inside {
            TokenSet::Dense(words) => bits.copy_from_slice(words),
            TokenSet::Sparse(ids) => ids.iter().for_each(|id| bits[*id as usize / 32] |= 1 << (id % 32)),
        }
        self.inside = Inside::Bits(bits);
        self.like = Some((class, length));
    }

    /// The subtrees of the nodes from `index` up to `end`, which stand side by side.
    fn subtrees(&mut self, mut index: usize, end: usize, meter: &mut Meter) -> Outcome<()> {
        let trie = &self.lexicon.vocabulary.trie;
        let nodes = trie.nodes();
        let floor = self.open.len();
        while index < end {
            while self.open.len() > floor && self.open.last().is_some_and(|last| last.end as usize <= index) {
                self.leave();
            }
            let node = nodes[index];
            if self.like.is_some_and(|(_, length)| u32::from(node.longest) <= length) {
                self.copy_cuts(index as u32, node.end);
                index = node.end as usize;
                continue;
            }
            self.visited += 1;
            let row = self.open.last().map_or(self.first_row, |last| last.row);
            let step = row.step(node.byte);
            if step.state == NOTHING {
                self.cut(index);
                index = node.end as usize;
                continue;
            }
            if step.state != self.last_state {
                self.last_state = step.state;
                self.states.as_mut().map(|states| states.insert(step.state));
            }
            self.inside.add(trie.ids(index), self.lexicon.vocabulary.words());
            index += 1;
            if node.end as usize > index {
                self.enter(node.byte, self.lexicon.row(step.state, meter)?, node.end, step.accepts);
            }
        }
        while self.open.len() > floor {
            self.leave();
        }
        Ok(())
    }

    /// The tokens below `node`, `node_depth` bytes deep, from byte `depth` on.
    fn rest(&mut self, node: u32, depth: u32, node_depth: u32, meter: &mut Meter) -> Outcome<()> {
        let trie = &self.lexicon.vocabulary.trie;
        let vocabulary = &self.lexicon.vocabulary;
        let token = trie
            .ids_below(node as usize)
            .next()
            .map_or(&[][..], |ids| vocabulary.token(ids[0]));
        let end = trie.nodes()[node as usize].end;
        self.path.extend_from_slice(&token[..depth as usize]);
        let mut alive = true;
        for &byte in &token[depth as usize..node_depth as usize - 1] {
            let row = self.open.last().map_or(self.first_row, |last| last.row);
            let step = row.step(byte);
            self.visited += 1;
            if step.state == NOTHING {
                alive = false;
                break;
            }
            self.enter(byte, self.lexicon.row(step.state, meter)?, end, step.accepts);
        }
        if alive {
            self.subtrees(node as usize, end as usize, meter)?;
        } else {
            self.cut_at(node, node_depth, &token[..node_depth as usize]);
        }
        while !self.open.is_empty() {
            self.leave();
        }
        self.path.clear();
        Ok(())
    }

    fn enter(&mut self, byte: u8, row: &'a Row, end: u32, accepts: bool) {
        self.forget_written();
        self.path.push(byte);
        self.open.push(Open {
            row,
            end,
            ends_before: self.ending.len(),
        });
        if accepts {
            let depth = self.path.len() as u32;
            self.ending.push(End { depth, byte: 0 });
            self.ending_is_written = false;
        }
    }

    fn leave(&mut self) {
        if let Some(last) = self.open.pop() {
            self.path.pop();
            if self.ending.len() > last.ends_before {
                self.ending.truncate(last.ends_before);
                self.ending_is_written = false;
            }
            self.forget_written();
        }
    }

    /// What was written holds the byte after each end: that of the last end changes with the step from there.
    fn forget_written(&mut self) {
        if self
            .ending
            .last()
            .is_some_and(|end| end.depth as usize == self.path.len())
        {
            self.ending_is_written = false;
        }
    }

    fn cut(&mut self, node: usize) {
        if let Inside::Bits(bits) = &mut self.inside {
            if self.like.is_some() {
                let ids = self.lexicon.vocabulary.trie.ids_below(node).flatten();
                ids.for_each(|id| bits[*id as usize / 32] &= !(1 << (id % 32)));
            }
        }
        let path = std::mem::take(&mut self.path);
        self.cut_at(node as u32, path.len() as u32 + 1, &path);
        self.path = path;
    }

    /// Note the ends on the way to a dead subtree; `path` has at least all bytes but the node's own.
    fn cut_at(&mut self, node: u32, depth: u32, path: &[u8]) {
        if self.ending.is_empty() {
            return;
        }
        if !self.ending_is_written {
            self.ending_is_written = true;
            self.ends.extend(self.ending.iter().map(|end| End {
                depth: end.depth,
                byte: path.get(end.depth as usize).copied().unwrap_or(0),
            }));
        }
        let last_end = self.ends.len() as u32;
        self.cuts.push(Cut {
            node,
            depth,
            first_end: last_end - self.ending.len() as u32,
            last_end,
        });
    }

    /// Take over the cuts from node `first` up to node `end` of the class that this one is like.
    fn copy_cuts(&mut self, first: u32, end: u32) {
        let Some((class, _)) = self.like else {
            return;
        };
        let from = class.cuts.partition_point(|cut| cut.node < first);
        let mut copied: Option<(Cut, u32)> = None;
        for cut in class.cuts[from..].iter().take_while(|cut| cut.node < end) {
            let start = match copied {
                Some((last, start)) if last.first_end == cut.first_end && last.last_end == cut.last_end => start,
                _ => {
                    let start = self.ends.len() as u32;
                    self.ends
                        .extend_from_slice(&class.ends[cut.first_end as usize..cut.last_end as usize]);
                    self.ending_is_written = false;
                    start
                }
            };
            copied = Some((*cut, start));
            self.cuts.push(Cut {
                first_end: start,
                last_end: start + cut.last_end - cut.first_end,
                ..*cut
            });
        }
    }

    fn finish(self, meter: &mut Meter) -> Outcome<Class> {
        meter.work(self.visited / 16 + 1)?;
        let slack = self.lexicon.slack(self.states.into_iter().flatten(), meter)?;
        Ok(Class {
            slack,
            inside: self.inside.finish(self.lexicon.vocabulary.words()),
            cuts: self.cuts.into(),
            ends: self.ends.into(),
            rests: Mutex::default(),
            followed: Mutex::default(),
        })
    }
}

impl Inside {
    fn add(&mut self, ids: &[u32], words: usize) {
        match self {
            Inside::List(list) => {
                list.extend_from_slice(ids);
                if list.len() > words {
                    let mut bits = vec![0u32; words];
                    list.iter().for_each(|id| bits[*id as usize / 32] |= 1 << (id % 32));
                    *self = Inside::Bits(bits);
                }
            }
            Inside::Bits(bits) => ids.iter().for_each(|id| bits[*id as usize / 32] |= 1 << (id % 32)),
        }
    }

    fn finish(self, words: usize) -> TokenSet {
        match self {
            Inside::Bits(bits) => TokenSet::Dense(bits.into()),
            Inside::List(mut list) => {
                list.sort_unstable();
                list.dedup();
                if list.len() <= words / 2 {
                    return TokenSet::Sparse(list.into());
                }
                let mut bits = vec![0u32; words];
                list.iter().for_each(|id| bits[*id as usize / 32] |= 1 << (id % 32));
                TokenSet::Dense(bits.into())
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
