//! Computes the mask of a state: the tokens that may come next.
//!
//! The class of a terminal's automaton state gives the tokens that stay inside the terminal. Tokens that cross the
//! terminal's end are followed from there through the grammar's situations.

use std::sync::Arc;

use crate::base::hash::FastMap;
use crate::base::limits::{Meter, Outcome};
use crate::base::order::places_by;
use crate::grammar::stack::{runs, Frame, State, Thread};
use crate::masks::automaton::{after_any_value, frame_after, Automaton, Source, DEAD};
use crate::regular::term::{Term, EMPTY};
use crate::tokens::class::{Class, Rest, TokenSet};
use crate::tokens::classify::{class, class_for, takes_whole_walk, then};
use crate::tokens::mask::{ids_in, join, set, Bits, Mask};

/// Compute the mask of `state`.
pub fn allowed(state: &Arc<State>, automaton: &mut Automaton, source: Source, meter: &mut Meter) -> Outcome<Mask> {
    let mut mask = Builder {
        source,
        automaton,
        shared: Vec::new(),
        ids: Vec::new(),
        row: Vec::new(),
        has_walked: false,
        missing: None,
    };
    mask.automaton.held.clear();
    mask.add_state(state, meter)?;
    Ok(mask.finish())
}

struct Builder<'a> {
    source: Source<'a>,
    automaton: &'a mut Automaton,
    shared: Vec<Arc<Bits>>,
    ids: Vec<u32>,
    /// The bits of ids that were too many for the list `ids`.
    row: Vec<u32>,
    /// Tells whether a class was computed by a walk over the whole trie.
    has_walked: bool,
    /// The nodes at which the tokens end that were not allowed when `find_missing` last ran; None if that has not run
    /// or there were too many.
    missing: Option<Vec<u32>>,
}

/// If at most one token in this many is missing, a class may be computed for the missing tokens only.
const MISSING_SHARE: usize = 4;

/// If the remainders of tokens that fit a terminal have more nodes than this, they are not followed one by one. Instead
/// we use the class of the two terminals in a row, for up to `TERMINALS_BY_CLASS` terminals.
const REST_NODES_FOLLOWED: usize = 2048;
const TERMINALS_BY_CLASS: usize = 3;

/// From `FOLLOWED_TOGETHER_FROM` terminals on, those that few tokens fit are followed together, except a terminal with
/// that many threads. Terminals with at most `NARROW_FIRST_BYTES` first bytes then get no class. Above
/// `TERMINALS_WITH_CLASSES`, only terminals with a main target get one.
const FOLLOWED_TOGETHER_FROM: usize = 8;
const NARROW_FIRST_BYTES: usize = 4;
const TERMINALS_WITH_CLASSES: usize = 64;

impl Builder<'_> {
    fn add_state(&mut self, state: &Arc<State>, meter: &mut Meter) -> Outcome<()> {
        let lexicon = self.source.lexicon;
        let count = lexicon.vocabulary.len() as u32;
        let named = state.tokens.iter().map(|thread| thread.token);
        self.ids.extend(named.filter(|token| *token < count));
        let mut light: Vec<&[Thread]> = Vec::new();
        let terminals = runs(&state.threads).count();
        // Put expensive classes last: by then few tokens may be missing, so that the class is needed for those only.
        let (mut ordered, mut last) = (Vec::with_capacity(terminals), Vec::new());
        for same in runs(&state.threads) {
            match terminals > 1 && takes_whole_walk(lexicon, same[0].state, meter)? {
                true => last.push((same, true)),
                false => ordered.push((same, false)),
            }
        }
        ordered.append(&mut last);
        for (same, is_much_work) in ordered {
            let is_shared = same.len() >= FOLLOWED_TOGETHER_FROM;
            let (row, tail) = lexicon.first_row(same[0].state, meter)?;
            let is_wide = row.main_target().is_some();
            let is_narrow = row.live_bytes().len() <= NARROW_FIRST_BYTES;
            let is_many = terminals > TERMINALS_WITH_CLASSES;
            // After each byte of a gap, for example, every other terminal may begin.
            let is_gap = is_many && tail == EMPTY && row.live().any(|(_, _, step)| step.accepts && step.state != EMPTY);
            let keeps_text = same.iter().any(|thread| self.source.network.keeps_text(thread.next));
            let by_class = is_shared || is_gap || keeps_text;
            if !by_class && (is_many && !is_wide || terminals >= FOLLOWED_TOGETHER_FROM && is_narrow) {
                light.push(same);
                continue;
            }
            let class = match is_much_work {
                true => self.class_for_missing(same[0].state, meter)?,
                false => class(lexicon, same[0].state, meter)?,
            };
            let is_followed = by_class || is_wide || is_much_work || terminals < FOLLOWED_TOGETHER_FROM;
            if is_followed || class.weight(&lexicon.vocabulary.trie, meter)? > REST_NODES_FOLLOWED {
                self.add_class(&class, same, 1, meter)?;
            } else {
                light.push(same);
            }
        }
        if light.is_empty() {
            return Ok(());
        }
        let number = if light.len() == terminals {
            self.automaton.situation(state)
        } else {
            let places = places_by(light.iter().map(|same| u64::from(same[0].state)));
            let threads = places.flat_map(|place| light[place]);
            self.automaton.of_threads(threads.cloned().collect())
        };
        self.automaton.held.push(number);
        // From the root, visit only the bytes that lead on: most of its nodes are dead.
        for (low, high) in self.automaton.live(number, &self.source, meter)?.ranges() {
            let range = lexicon.vocabulary.trie.beginning_with(low, high);
            self.walk(range.start, range.end, meter)?;
        }
        self.automaton.held.pop();
        Ok(())
    }

    /// Return the class of a state; if few tokens are missing so far, compute it for those only.
    fn class_for_missing(&mut self, state: Term, meter: &mut Meter) -> Outcome<Arc<Class>> {
        let lexicon = self.source.lexicon;
        self.find_missing(meter)?;
        if let Some(missing) = &self.missing {
            if lexicon.is_seldom_asked_for(state)? || self.has_walked {
                return class_for(lexicon, state, missing, meter);
            }
        }
        self.has_walked = true;
        class(lexicon, state, meter)
    }

    /// Find the nodes at which the tokens end that are not allowed so far, in ascending order. Store nothing if they
    /// are many.
    fn find_missing(&mut self, meter: &mut Meter) -> Outcome<()> {
        if self.shared.is_empty() && self.row.is_empty() {
            return Ok(());
        }
        let vocabulary = &self.source.lexicon.vocabulary;
        let mut row = self.row.clone();
        row.resize(vocabulary.words(), 0);
        self.shared.iter().for_each(|words| join(&mut row, words));
        set(&mut row, &self.ids);
        let is_missing = |id: &u32| row[*id as usize / 32] >> (id % 32) & 1 == 0;
        if let Some(missing) = &mut self.missing {
            meter.work(missing.len() / 16 + 1)?;
            missing.retain(|node| vocabulary.trie.ids(*node as usize).iter().any(is_missing));
            return Ok(());
        }
        row.iter_mut().for_each(|word| *word = !*word);
        let missing: u32 = row.iter().map(|word| word.count_ones()).sum();
        if missing as usize > vocabulary.len() / MISSING_SHARE {
            return Ok(());
        }
        let mut nodes: Vec<u32> = ids_in(&row).filter_map(|id| vocabulary.node_of(id)).collect();
        nodes.sort_unstable();
        meter.work(nodes.len() / 16 + 1)?;
        self.missing = Some(nodes);
        Ok(())
    }

    /// Add the tokens of `class`, the class of `terminals` terminals in a row, the last of which is that of `threads`.
    fn add_class(&mut self, class: &Class, threads: &[Thread], terminals: usize, meter: &mut Meter) -> Outcome<()> {
        match &class.inside {
            TokenSet::Sparse(ids) => self.add_ids(ids),
            TokenSet::Dense(words) if self.shared.iter().any(|other| Arc::ptr_eq(other, words)) => {}
            TokenSet::Dense(words) => self.shared.push(words.clone()),
        }
        if !class.has_rests() {
            return Ok(());
        }
        let (source, lexicon) = (self.source, self.source.lexicon);
        let keeps_text = |thread: &&Thread| source.network.keeps_text(thread.next);
        for thread in threads.iter().filter(keeps_text) {
            self.add_rests_of_value(class, thread, meter)?;
        }
        let places: Vec<(u32, Frame)> = threads
            .iter()
            .filter(|thread| !keeps_text(thread))
            .map(|thread| (thread.next, thread.frame.clone()))
            .collect();
        let mut number = self.automaton.at_places(&places, &source, meter)?;
        if number == DEAD {
            return Ok(());
        }
        let mut rests = class.rests(
            &lexicon.vocabulary.trie,
            &self.automaton.live(number, &source, meter)?,
            meter,
        )?;
        let weight: usize = rests.iter().map(|rests| rests.weight).sum();
        if terminals < TERMINALS_BY_CLASS && weight > REST_NODES_FOLLOWED {
            let (mut wide, mut narrow) = (Vec::new(), Vec::new());
            for thread in self.automaton.threads(number) {
                match lexicon.first_row(thread.state, meter)?.0.main_target() {
                    Some(_) => wide.push(thread.clone()),
                    None => narrow.push(thread.clone()),
                }
            }
            for same in runs(&wide) {
                let both = then(class, lexicon, same[0].state, meter)?;
                self.add_class(&both, same, terminals + 1, meter)?;
            }
            number = self.automaton.of_threads(narrow);
            if number == DEAD {
                return Ok(());
            }
            rests = class.rests(
                &lexicon.vocabulary.trie,
                &self.automaton.live(number, &source, meter)?,
                meter,
            )?;
        }
        self.automaton.held.push(number);
        for rest in rests.iter().flat_map(|rests| rests.all.iter()) {
            self.add_rest(rest, meter)?;
        }
        self.automaton.held.pop();
        Ok(())
    }

    /// Add the tokens that cross the end of a distinct member's first terminal. Their next situation depends on the
    /// member's value, but for most tokens the value has no effect: these are followed as if no value had come.
    fn add_rests_of_value(&mut self, class: &Class, thread: &Thread, meter: &mut Meter) -> Outcome<()> {
        let source = self.source;
        let vocabulary = &source.lexicon.vocabulary;
        let Some((next, is_free, frame)) = after_any_value(thread, &source, meter)? else {
            return Ok(());
        };
        let any = self.automaton.at_places(&[(next, frame)], &source, meter)?;
        if any == DEAD {
            return Ok(());
        }
        let live = self.automaton.live(any, &source, meter)?;
        let mut by_text: FastMap<&[u8], Vec<Rest>> = FastMap::default();
        self.automaton.held.push(any);
        for rests in class.rests(&vocabulary.trie, &live, meter)? {
            meter.work(rests.all.len())?;
            for rest in &rests.all {
                let depth = rest.depth as usize;
                let mut ids = vocabulary.trie.all_ids_below(rest.node as usize).iter();
                if is_free && !ids.any(|id| depends_on_value(&vocabulary.token(*id)[depth..])) {
                    self.add_rest(rest, meter)?;
                } else {
                    let token = vocabulary.token_at(rest.node);
                    if self.leads_on(&token[depth..rest.node_depth as usize - 1], meter)? {
                        by_text.entry(&token[..depth]).or_default().push(*rest);
                    }
                }
            }
        }
        self.automaton.held.pop();
        for (text, rests) in by_text {
            let place = (thread.next, frame_after(thread, text, &source, meter)?);
            let number = self.automaton.at_places(&[place], &source, meter)?;
            if number == DEAD {
                continue;
            }
            self.automaton.held.push(number);
            for rest in &rests {
                self.add_rest(rest, meter)?;
            }
            self.automaton.held.pop();
        }
        Ok(())
    }

    /// Return whether these bytes lead on from the situation that was held last.
    fn leads_on(&mut self, bytes: &[u8], meter: &mut Meter) -> Outcome<bool> {
        let mut number = self.automaton.held.last().copied().unwrap_or(DEAD);
        for &byte in bytes {
            if number == DEAD {
                break;
            }
            number = self.automaton.step(number, byte, &self.source, meter)?;
        }
        Ok(number != DEAD)
    }

    /// Add the tokens of a remainder that lead on from the situation that was held last.
    fn add_rest(&mut self, rest: &Rest, meter: &mut Meter) -> Outcome<()> {
        let vocabulary = &self.source.lexicon.vocabulary;
        let Some(mut number) = self.automaton.held.last().copied() else {
            return Ok(());
        };
        let between = rest.depth as usize..rest.node_depth as usize - 1;
        if !between.is_empty() {
            for &byte in &vocabulary.token_at(rest.node)[between] {
                number = self.automaton.step(number, byte, &self.source, meter)?;
                if number == DEAD {
                    return Ok(());
                }
            }
        }
        self.automaton.held.push(number);
        let end = vocabulary.trie.nodes()[rest.node as usize].end;
        self.walk(rest.node as usize, end as usize, meter)?;
        self.automaton.held.pop();
        Ok(())
    }

    /// Add the tokens at and below the siblings from `index` up to `end` that lead on from the situation that was held
    /// last.
    fn walk(&mut self, mut index: usize, end: usize, meter: &mut Meter) -> Outcome<()> {
        let source = self.source;
        let trie = &source.lexicon.vocabulary.trie;
        let nodes = trie.nodes();
        let mut open: Vec<usize> = Vec::new();
        let mut visited = 0;
        while index < end {
            while open.last().is_some_and(|last| *last <= index) {
                open.pop();
                self.automaton.held.pop();
            }
            self.automaton.make_room();
            visited += 1;
            let node = &nodes[index];
            let below = node.end as usize;
            let from = self.automaton.held.last().copied().unwrap_or(DEAD);
            let to = self.automaton.step(from, node.byte, &source, meter)?;
            if to == DEAD {
                index = below;
            } else if index + 1 == below {
                self.add_ids(trie.ids(index));
                index = below;
            } else if trie.below(index).is_within(self.automaton.stays(to, &source, meter)?) {
                self.add_ids(trie.all_ids_below(index));
                index = below;
            } else {
                self.add_ids(trie.ids(index));
                open.push(below);
                self.automaton.held.push(to);
                index += 1;
            }
        }
        let held = self.automaton.held.len() - open.len();
        self.automaton.held.truncate(held);
        meter.work(visited / 16 + 1)
    }

    fn add_ids(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
        if self.ids.len() > self.source.lexicon.vocabulary.words() {
            self.list_as_bits();
        }
    }

    fn list_as_bits(&mut self) {
        self.row.resize(self.source.lexicon.vocabulary.words(), 0);
        set(&mut self.row, &self.ids);
        self.ids.clear();
    }

    fn finish(mut self) -> Mask {
        // A list that takes at most half the memory of a bit set is also faster to write.
        let most = self.source.lexicon.vocabulary.words() / 2;
        if self.row.is_empty() && self.ids.len() > most {
            self.ids.sort_unstable();
            self.ids.dedup();
        }
        if self.row.is_empty() && self.ids.len() <= most && self.shared.len() <= 2 {
            return Mask::new(self.shared.into(), self.ids.into(), self.source.masks);
        }
        self.list_as_bits();
        self.shared.iter().for_each(|words| join(&mut self.row, words));
        let bits = Bits::new(self.row, self.source.masks);
        Mask::new([bits].into(), Box::default(), self.source.masks)
    }
}

/// Return whether the rest of a token after a value may depend on that value: another value may end in it, or one may
/// begin that is not the prefix of a free string.
fn depends_on_value(rest: &[u8]) -> bool {
    let begins = |byte: &u8| !matches!(byte, b',' | b']' | b'}' | b':' | b' ' | b'\n' | b'\t' | b'\r');
    match rest.iter().position(begins) {
        None => false,
        Some(place) => rest[place] != b'"' || rest[place + 1..].contains(&b'"'),
    }
}
