//! The mask of a state: which tokens may come next.
//!
//! Tokens that stay inside a terminal under way are known from the class of its automaton's state; what crosses a
//! terminal's end is parsed from there on.

use std::sync::Arc;

use crate::byteset::ByteSet;
use crate::chart::{Chart, FrameRef};
use crate::class::{Class, TokenSet};
use crate::lexicon::Lexicon;
use crate::limits::{Meter, Outcome};
use crate::network::Network;
use crate::stack::{State, Thread};
use crate::trie::Trie;

/// A set of tokens: some shared bit sets, none of them empty, and single ids.
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
        let (wide, narrow) = mask.split_by_width(&state.threads, meter)?;
        let together = narrow.len() >= MANY_THREADS && mask.add_together(&narrow, &mut chart, meter)?;
        let one_by_one: &[&Thread] = if together { &[] } else { &narrow };
        for threads in [&wide[..], one_by_one] {
            for same in runs(threads, |thread| thread.state) {
                let class = lexicon.class(same[0].state, meter)?;
                let places = same.iter().map(|thread| (thread.next, thread.frame.as_ref())).collect();
                mask.add_class(&class, places, &mut chart, meter)?;
            }
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

    /// Whether no token may come.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.ids.is_empty()
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

/// So many threads of terminals that few tokens fit are followed through the vocabulary together, within a budget of so
/// many steps for each, rather than looked at by their classes.
const MANY_THREADS: usize = 8;
const STEPS_TOGETHER: usize = 64;

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
        let firsts = self.firsts(chart, meter)?;
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
            let trie = class.trie(&rests, self.lexicon, &firsts, meter)?;
            self.add_keys(trie, chart, usize::MAX, meter)?;
        }
        chart.truncate(columns);
        Ok(())
    }

    /// The threads in whose terminals most bytes lead on in the same way, and the others.
    fn split_by_width(&self, threads: &'a [Thread], meter: &mut Meter) -> Outcome<(Vec<&'a Thread>, Vec<&'a Thread>)> {
        let (mut wide, mut narrow) = (Vec::new(), Vec::new());
        for thread in threads {
            match self.lexicon.row(thread.state, meter)?.main_target() {
                Some(_) => wide.push(thread),
                None => narrow.push(thread),
            }
        }
        Ok((wide, narrow))
    }

    /// Add what may come while any of these threads is under way; false, with nothing added, if that takes too long.
    fn add_together(&mut self, threads: &[&'a Thread], chart: &mut Chart<'a>, meter: &mut Meter) -> Outcome<bool> {
        let before = self.ids.len();
        chart.push_threads(threads.iter().copied());
        let budget = STEPS_TOGETHER * threads.len();
        let done = self.add_keys(&self.lexicon.vocabulary.trie, chart, budget, meter)?;
        if !done {
            self.ids.truncate(before);
        }
        chart.truncate(0);
        Ok(done)
    }

    /// Add the keys of `trie` that the chart can go on with. False if that takes more than `budget` steps.
    fn add_keys(&mut self, trie: &Trie, chart: &mut Chart<'a>, budget: usize, meter: &mut Meter) -> Outcome<bool> {
        let columns = chart.columns();
        let nodes = trie.nodes();
        let mut open: Vec<(u32, ByteSet)> = Vec::new();
        let mut firsts = self.firsts(chart, meter)?;
        let mut index = 0;
        let mut steps = 0;
        while let Some(node) = nodes.get(index) {
            while open.last().is_some_and(|(end, _)| *end as usize <= index) {
                if let Some((_, outer)) = open.pop() {
                    firsts = outer;
                }
            }
            if !firsts.contains(node.byte) {
                index = node.end as usize;
                continue;
            }
            chart.truncate(columns + open.len());
            steps += chart.actives().len();
            if steps > budget {
                chart.truncate(columns);
                return Ok(false);
            }
            chart.push_byte(node.byte, meter)?;
            self.ids.extend_from_slice(trie.ids(index));
            index += 1;
            if node.end as usize > index {
                open.push((node.end, firsts));
                firsts = self.firsts(chart, meter)?;
            }
        }
        chart.truncate(columns);
        Ok(true)
    }

    /// The bytes that may follow the chart's last column.
    fn firsts(&self, chart: &Chart<'a>, meter: &mut Meter) -> Outcome<ByteSet> {
        meter.work(1)?;
        let states = chart.actives().iter().map(|active| active.state);
        self.lexicon.first_bytes(states, meter)
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
