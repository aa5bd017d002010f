//! What one automaton state means for the tokens of a vocabulary: which stay inside its terminal, and which cross
//! its end, so that a remainder of them has to be checked with the grammar. All others are dead.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::hash::FastMap;
use crate::lexicon::{Lexicon, Row};
use crate::limits::{Meter, Outcome};
use crate::term::{Term, NOTHING};
use crate::trie::{Trie, Vocabulary};

/// Bytes of classes that one lexicon keeps; beyond it they are all dropped and worked out again when needed.
const MAXIMUM_BYTES: usize = 128 << 20;

/// A set of token ids.
pub enum TokenSet {
    /// One bit for each id, 32 to the word.
    Dense(Arc<[u32]>),
    Sparse(Box<[u32]>),
}

impl TokenSet {
    pub fn new(ids: Vec<u32>, words: usize) -> Self {
        if ids.len() <= words / 2 {
            return TokenSet::Sparse(ids.into());
        }
        let mut bits = vec![0u32; words];
        for id in ids {
            bits[id as usize / 32] |= 1 << (id % 32);
        }
        TokenSet::Dense(bits.into())
    }

    pub fn bytes(&self) -> usize {
        match self {
            TokenSet::Dense(words) => 4 * words.len(),
            TokenSet::Sparse(ids) => 4 * ids.len(),
        }
    }
}

/// A subtree of the vocabulary's trie that the automaton does not enter, and the depths at which the terminal could
/// have ended on the way to it, as a range of `Class::ends`.
struct Cut {
    node: u32,
    first_end: u32,
    last_end: u32,
}

/// Where remainders begin that have the same first byte: a cut's node and a depth. The trie is built when asked for.
#[derive(Default)]
struct Remainders {
    places: Vec<(u32, u32)>,
    trie: OnceLock<Trie>,
}

pub struct Class {
    /// The tokens after which the terminal can still go on or has just ended.
    pub inside: TokenSet,
    cuts: Box<[Cut]>,
    ends: Box<[u32]>,
    remainders: OnceLock<FastMap<u8, Remainders>>,
    lazy_bytes: AtomicUsize,
}

/// A node on the way to the current one: the moves of its state, where it ends, how many ends lay before it.
struct Open<'a> {
    row: &'a Row,
    end: u32,
    ends_before: usize,
}

impl Class {
    /// Walk the whole trie, dead subtrees left out.
    pub fn new(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Self> {
        let trie = &lexicon.vocabulary.trie;
        let nodes = trie.nodes();
        let first_row = lexicon.row(state, meter)?;
        let mut open: Vec<Open> = Vec::new();
        let mut inside = Vec::new();
        let mut ending: Vec<u32> = Vec::new();
        let mut cuts: Vec<Cut> = Vec::new();
        let mut ends: Vec<u32> = Vec::new();
        let mut ends_are_written = false;
        let mut index = 0;
        let mut visited = 0usize;
        while index < nodes.len() {
            while open.last().is_some_and(|last| last.end as usize <= index) {
                ending.truncate(open.pop().map_or(0, |last| last.ends_before));
                ends_are_written = false;
            }
            let node = nodes[index];
            let row = open.last().map_or(first_row, |last| last.row);
            let step = row.step(node.byte);
            visited += 1;
            if step.state == NOTHING {
                if !ending.is_empty() {
                    if !ends_are_written {
                        ends.extend_from_slice(&ending);
                        ends_are_written = true;
                    }
                    cuts.push(Cut {
                        node: index as u32,
                        first_end: (ends.len() - ending.len()) as u32,
                        last_end: ends.len() as u32,
                    });
                }
                index = node.end as usize;
                continue;
            }
            inside.extend_from_slice(trie.ids(index));
            index += 1;
            if node.end as usize > index {
                open.push(Open {
                    row: lexicon.row(step.state, meter)?,
                    end: node.end,
                    ends_before: ending.len(),
                });
                if step.accepts {
                    ending.push(open.len() as u32);
                    ends_are_written = false;
                }
            }
        }
        meter.work(visited / 16 + 1)?;
        Ok(Class {
            inside: TokenSet::new(inside, lexicon.vocabulary.words()),
            cuts: cuts.into(),
            ends: ends.into(),
            remainders: OnceLock::new(),
            lazy_bytes: AtomicUsize::new(0),
        })
    }

    /// Whether any token crosses the terminal's end.
    pub fn has_remainders(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// What is left, after the terminal's end, of the tokens that cross it: those remainders that begin with `first`.
    pub fn remainders(&self, vocabulary: &Vocabulary, first: u8, meter: &mut Meter) -> Outcome<Option<&Trie>> {
        let by_first = match self.remainders.get() {
            Some(by_first) => by_first,
            None => {
                meter.work(self.ends.len() / 16)?;
                self.remainders.get_or_init(|| self.sort_remainders(vocabulary))
            }
        };
        let Some(remainders) = by_first.get(&first) else {
            return Ok(None);
        };
        if let Some(trie) = remainders.trie.get() {
            return Ok(Some(trie));
        }
        let mut entries: Vec<(&[u8], u32)> = Vec::new();
        for &(node, depth) in &remainders.places {
            for ids in vocabulary.trie.ids_below(node as usize) {
                let rest = &vocabulary.token(ids[0])[depth as usize..];
                entries.extend(ids.iter().map(|id| (rest, *id)));
            }
            meter.work(1)?;
        }
        meter.work(entries.len() / 4)?;
        entries.sort_unstable();
        let trie = Trie::new(&entries);
        self.lazy_bytes.fetch_add(trie.bytes(), Ordering::Relaxed);
        Ok(Some(remainders.trie.get_or_init(|| trie)))
    }

    fn sort_remainders(&self, vocabulary: &Vocabulary) -> FastMap<u8, Remainders> {
        let mut by_first: FastMap<u8, Remainders> = FastMap::default();
        let mut places = 0;
        for cut in self.cuts.iter() {
            let Some(ids) = vocabulary.trie.ids_below(cut.node as usize).next() else {
                continue;
            };
            let token = vocabulary.token(ids[0]);
            for &depth in &self.ends[cut.first_end as usize..cut.last_end as usize] {
                let remainders = by_first.entry(token[depth as usize]).or_default();
                remainders.places.push((cut.node, depth));
                places += 1;
            }
        }
        self.lazy_bytes.fetch_add(8 * places, Ordering::Relaxed);
        by_first
    }

    fn bytes(&self) -> usize {
        let fixed = std::mem::size_of::<Class>() + self.inside.bytes() + 12 * self.cuts.len() + 4 * self.ends.len();
        fixed + self.lazy_bytes.load(Ordering::Relaxed)
    }
}

/// The classes that are kept, by state.
#[derive(Default)]
pub struct Classes {
    by_state: FastMap<Term, Arc<Class>>,
    bytes: usize,
    checked_at: usize,
}

impl Classes {
    pub fn get(&self, state: Term) -> Option<Arc<Class>> {
        self.by_state.get(&state).cloned()
    }

    pub fn insert(&mut self, state: Term, class: &Arc<Class>) {
        self.by_state.insert(state, class.clone());
        self.bytes += 48 + class.bytes();
        // What classes worked out later is not in the running sum, so the sum is made anew now and then.
        if self.by_state.len() > self.checked_at + self.checked_at / 8 + 16 || self.bytes > MAXIMUM_BYTES {
            self.bytes = self
                .by_state
                .values()
                .map(|class| 48 + class.bytes() / Arc::strong_count(class))
                .sum();
            self.checked_at = self.by_state.len();
        }
        if self.bytes > MAXIMUM_BYTES {
            *self = Classes::default();
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
