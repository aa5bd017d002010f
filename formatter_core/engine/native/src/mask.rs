//! The mask of a state: which tokens may come next.
//!
//! Tokens that stay inside a terminal under way are known from the class of its automaton's state; what crosses a
//! terminal's end is parsed from there on.

use std::sync::Arc;

use crate::chart::{Chart, FrameRef};
use crate::class::TokenSet;
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
    pub fn new(state: &State, network: &Network, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<Self> {
        let mut mask = Builder {
            lexicon,
            shared: Vec::new(),
            ids: Vec::new(),
        };
        let mut chart = Chart::new(network, lexicon);
        let mut rest = &state.threads[..];
        while let Some(first) = rest.first() {
            let same = rest.iter().take_while(|thread| thread.state == first.state).count();
            let (threads, others) = rest.split_at(same);
            mask.add_threads(threads, &mut chart, meter)?;
            rest = others;
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

impl<'a> Builder<'a> {
    /// Add what may come while one automaton state is under way, whatever the threads that it is under way for.
    fn add_threads(&mut self, threads: &'a [Thread], chart: &mut Chart<'a>, meter: &mut Meter) -> Outcome<()> {
        let class = self.lexicon.class(threads[0].state, meter)?;
        match &class.inside {
            TokenSet::Sparse(ids) => self.ids.extend_from_slice(ids),
            TokenSet::Dense(words) if self.shared.iter().any(|other| Arc::ptr_eq(other, words)) => {}
            TokenSet::Dense(words) => self.shared.push(words.clone()),
        }
        if !class.has_remainders() {
            return Ok(());
        }
        let place = |thread: &'a Thread| (thread.next, FrameRef::Frozen(&thread.frame.group, thread.frame.member));
        chart.truncate(0);
        chart.push_places(threads.iter().map(place), meter)?;
        let states = chart.actives().iter().map(|active| active.state);
        for first in self.lexicon.first_bytes(states, meter)?.iter() {
            if let Some(remainders) = class.remainders(&self.lexicon.vocabulary, first, meter)? {
                self.add_remainders(remainders, chart, meter)?;
            }
        }
        Ok(())
    }

    /// Add the keys of `trie` that the chart can go on with.
    fn add_remainders(&mut self, trie: &Trie, chart: &mut Chart<'a>, meter: &mut Meter) -> Outcome<()> {
        let nodes = trie.nodes();
        let mut open: Vec<u32> = Vec::new();
        let mut index = 0;
        while let Some(node) = nodes.get(index) {
            while open.last().is_some_and(|end| *end as usize <= index) {
                open.pop();
            }
            chart.truncate(1 + open.len());
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
        chart.truncate(1);
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
