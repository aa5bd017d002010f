//! The mask of a state: which tokens may come next.
//!
//! Tokens that stay inside a terminal under way are known from the class of its automaton's state; what crosses a
//! terminal's end is parsed from there on.

use std::sync::Arc;

use crate::chart::{Chart, FrameRef};
use crate::class::{Class, TokenSet};
use crate::lexicon::Lexicon;
use crate::limits::{Meter, Outcome};
use crate::network::Network;
use crate::stack::{State, Thread};
use crate::trie::Trie;

/// A set of tokens: some shared bit sets, and single ids.
pub struct Mask {
    shared: Vec<Arc<[u32]>>,
    ids: Box<[u32]>,
}

impl Mask {
    /// Work out the mask of `state`.
    pub fn new<'a>(state: &'a State, network: &'a Network, lexicon: &'a Lexicon, meter: &mut Meter) -> Outcome<Self> {
        let mut mask = Builder {
            lexicon,
            shared: Vec::new(),
            ids: Vec::new(),
        };
        let mut chart = Chart::new(network, lexicon);
        for same in runs(&state.threads, |thread| thread.state) {
            let class = lexicon.class(same[0].state, meter)?;
            let place = |thread: &'a Thread| (thread.next, FrameRef::Frozen(&thread.frame.group, thread.frame.member));
            mask.add_class(&class, same.iter().map(place).collect(), &mut chart, meter)?;
        }
        mask.ids.extend(state.tokens.iter().map(|thread| thread.token));
        Ok(mask.finish())
    }

    /// Write the mask to a row of exactly as many words as the vocabulary takes.
    pub fn write(&self, row: &mut [u32]) {
        match self.shared.split_first() {
            None => row.fill(0),
            Some((first, rest)) => {
                row.copy_from_slice(first);
                for words in rest {
                    row.iter_mut().zip(words.iter()).for_each(|(word, more)| *word |= more);
                }
            }
        }
        for id in self.ids.iter() {
            row[*id as usize / 32] |= 1 << (id % 32);
        }
    }

    pub fn bytes(&self) -> usize {
        let share = |words: &Arc<[u32]>| 16 + 4 * words.len() / Arc::strong_count(words);
        64 + self.shared.iter().map(share).sum::<usize>() + 4 * self.ids.len()
    }
}

struct Builder<'a> {
    lexicon: &'a Lexicon,
    shared: Vec<Arc<[u32]>>,
    ids: Vec<u32>,
}

/// Rests of tokens are parsed byte by byte where their trie is small, or where too many terminals are under way; else
/// the class of the terminals in a row is asked for.
const FEW: usize = 256;
const STATES_BY_CLASS: usize = 8;
const TERMINALS_BY_CLASS: usize = 3;

type Place<'a> = (u32, FrameRef<'a>);

impl<'a> Builder<'a> {
    /// Add the tokens of `class`, whose terminal goes on at `places`: the chart's last column is where it began.
    fn add_class(
        &mut self,
        class: &Class,
        places: Vec<Place<'a>>,
        chart: &mut Chart<'a>,
        meter: &mut Meter,
    ) -> Outcome<()> {
        match &class.inside {
            TokenSet::Sparse(ids) => self.ids.extend_from_slice(ids),
            TokenSet::Dense(words) if self.shared.iter().any(|other| Arc::ptr_eq(other, words)) => {}
            TokenSet::Dense(words) => self.shared.push(words.clone()),
        }
        if !class.has_rests() {
            return Ok(());
        }
        let columns = chart.columns();
        chart.push_places(places.into_iter(), meter)?;
        let states = chart.actives().iter().map(|active| active.state);
        let firsts = self.lexicon.first_bytes(states, meter)?;
        let rests = class.rests(self.lexicon, firsts, meter)?;
        let mut actives = chart.actives().to_vec();
        actives.sort_unstable_by_key(|active| active.state);
        let states = runs(&actives, |active| active.state).count();
        if columns < TERMINALS_BY_CLASS && states <= STATES_BY_CLASS && rests.weight > FEW * states * states {
            for same in runs(&actives, |active| active.state) {
                let class = class.then(self.lexicon, same[0].state, meter)?;
                let places = same.iter().map(|active| (active.next, active.frame)).collect();
                self.add_class(&class, places, chart, meter)?;
            }
        } else {
            self.add_rests(class.trie(&rests, self.lexicon, &firsts, meter)?, chart, meter)?;
        }
        chart.truncate(columns);
        Ok(())
    }

    /// Add the keys of `trie` that the chart can go on with.
    fn add_rests(&mut self, trie: &Trie, chart: &mut Chart<'a>, meter: &mut Meter) -> Outcome<()> {
        let columns = chart.columns();
        let nodes = trie.nodes();
        let mut open: Vec<u32> = Vec::new();
        let mut index = 0;
        while let Some(node) = nodes.get(index) {
            while open.last().is_some_and(|end| *end as usize <= index) {
                open.pop();
            }
            chart.truncate(columns + open.len());
            let alive = chart.push_byte(node.byte, meter)?;
            if alive {
                self.ids.extend_from_slice(trie.ids(index));
            }
            if !alive || chart.actives().is_empty() {
                index = node.end as usize;
                continue;
            }
            index += 1;
            if node.end as usize > index {
                open.push(node.end);
            }
        }
        chart.truncate(columns);
        Ok(())
    }

    fn finish(mut self) -> Mask {
        let count = self.lexicon.vocabulary.len() as u32;
        let words = self.lexicon.vocabulary.words();
        self.ids.retain(|id| *id < count);
        self.ids.sort_unstable();
        self.ids.dedup();
        let mask = Mask {
            shared: self.shared,
            ids: self.ids.into(),
        };
        if mask.ids.len() <= words / 2 && mask.shared.len() <= 2 {
            return mask;
        }
        let mut row = vec![0; words];
        mask.write(&mut row);
        Mask {
            shared: vec![row.into()],
            ids: Box::default(),
        }
    }
}

/// The longest runs of neighbours with the same key.
fn runs<T, K: PartialEq>(items: &[T], key: impl Fn(&T) -> K) -> impl Iterator<Item = &[T]> {
    let mut rest = items;
    std::iter::from_fn(move || {
        let first = key(rest.first()?);
        let same = rest.iter().take_while(|item| key(item) == first).count();
        let (run, others) = rest.split_at(same);
        rest = others;
        Some(run)
    })
}
