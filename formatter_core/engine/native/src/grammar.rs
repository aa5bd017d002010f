//! A compiled grammar: what all of its sequences share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::automaton::{Automaton, Source};
use crate::cache::Cache;
use crate::chart::{Chart, FrameRef};
use crate::decode::decode;
use crate::freeze::freeze;
use crate::lexicon::Lexicon;
use crate::limits::{Limits, Meter, Outcome, Usage};
use crate::mask::Mask;
use crate::network::Network;
use crate::stack::{Group, State};
use crate::trie::Vocabulary;

/// A vocabulary and the automata that its grammars share.
pub struct Engine {
    pub vocabulary: Arc<Vocabulary>,
    lexicon: Mutex<Arc<Lexicon>>,
}

impl Engine {
    pub fn new(vocabulary: Vocabulary) -> Self {
        let vocabulary = Arc::new(vocabulary);
        Engine {
            lexicon: Mutex::new(Arc::new(Lexicon::new(vocabulary.clone()))),
            vocabulary,
        }
    }

    /// The automata for a new grammar: the ones in use, unless they take too many bytes.
    pub fn lexicon(&self) -> Arc<Lexicon> {
        let mut current = self.lexicon.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_full() {
            *current = Arc::new(Lexicon::new(self.vocabulary.clone()));
        }
        current.clone()
    }
}

/// One part in so many of a grammar's memory is for automata, at most so many of them.
const AUTOMATA_SHARE: usize = 2;
const MOST_AUTOMATA: usize = 4;

pub struct Grammar {
    network: Network,
    lexicon: Arc<Lexicon>,
    limits: Limits,
    /// What this grammar has caused in the automata.
    usage: Usage,
    maximum_states: u64,
    cache: Mutex<Cache>,
    /// Automata that nobody works with.
    automata: Mutex<Vec<Automaton>>,
    /// The situation before any text.
    pub start: Arc<State>,
}

impl Grammar {
    /// Compile a serialised grammar.
    pub fn new(data: &[u8], engine: &Engine, limits: Limits) -> Outcome<Self> {
        let lexicon = engine.lexicon();
        let usage = Usage::default();
        let mut meter = Meter::new(limits.work, &usage, limits.states);
        let network = {
            let mut derivatives = lexicon.derivatives();
            let source = decode(data, &mut derivatives.terms, &limits, &mut meter)?;
            Network::new(source, &mut derivatives, &limits, &mut meter)?
        };
        let maximum_states = limits.states.saturating_mul(network.terminals().max(1) as u64);
        let bytes = usize::try_from(limits.cache_bytes).unwrap_or(usize::MAX);
        let mut cache = Cache::new(bytes - bytes / AUTOMATA_SHARE);
        let root: Arc<Group> = cache.root();
        let mut chart = Chart::new(&network, &lexicon);
        chart.push_places([(network.start, FrameRef::Frozen(&root, 0))].into_iter(), &mut meter)?;
        let start = freeze(&chart, &mut cache, &mut meter)?;
        let start = cache.state(start)?;
        drop(meter);
        Ok(Grammar {
            start,
            network,
            lexicon,
            limits,
            usage,
            maximum_states,
            cache: Mutex::new(cache),
            automata: Mutex::default(),
        })
    }

    pub fn vocabulary(&self) -> &Vocabulary {
        &self.lexicon.vocabulary
    }

    /// An estimate of the bytes that the grammar takes, with what it keeps of states and masks.
    pub fn bytes(&self) -> usize {
        let automata = lock(&self.automata).iter().map(Automaton::bytes).sum::<usize>();
        self.network.bytes() + self.cache().bytes() + automata
    }

    /// The elementary steps that this grammar has taken: to be compiled, and for all of its masks and moves.
    pub fn work(&self) -> u64 {
        self.usage.work()
    }

    /// The state after one more token; None if the token is not allowed.
    pub fn after_token(&self, state: &State, token: u32) -> Outcome<Option<Arc<State>>> {
        if token as usize >= self.vocabulary().len() {
            return Ok(None);
        }
        if let Some(next) = self.cache().after(state, token) {
            return Ok(Some(next));
        }
        let mut meter = self.meter();
        let next = match state.tokens.iter().any(|thread| thread.token == token) {
            true => self.after_named_token(state, token, &mut meter)?,
            false => self.after_text(state, self.vocabulary().token(token), &mut meter)?,
        };
        if let Some(next) = &next {
            self.cache().keep_move(state, token, next);
        }
        Ok(next)
    }

    fn after_text(&self, state: &State, text: &[u8], meter: &mut Meter) -> Outcome<Option<Arc<State>>> {
        let known = self.with_automaton(|automaton, source| automaton.known_state_after(state, text, source))?;
        if let Some(known) = known {
            return Ok(known);
        }
        let mut chart = Chart::new(&self.network, &self.lexicon);
        chart.push_threads(state.threads.iter());
        if text.is_empty() || !push_bytes(&mut chart, text, meter)? {
            return Ok(None);
        }
        self.state_of(&chart, meter).map(Some)
    }

    /// The state after a token that may come by its id, and perhaps as text too.
    fn after_named_token(&self, state: &State, token: u32, meter: &mut Meter) -> Outcome<Option<Arc<State>>> {
        let mut chart = Chart::new(&self.network, &self.lexicon);
        chart.push_state(state);
        let text = self.vocabulary().token(token);
        let is_text = !text.is_empty() && push_bytes(&mut chart, text, meter)?;
        let by_id = state.tokens.iter().filter(|thread| thread.token == token);
        let places = by_id.map(|thread| (thread.next, thread.frame.as_ref()));
        if is_text {
            chart.extend_places(places, meter)?;
        } else {
            chart.truncate(1);
            chart.push_places(places, meter)?;
        }
        self.state_of(&chart, meter).map(Some)
    }

    /// The state after some bytes; None if they are not allowed.
    pub fn after_bytes(&self, state: &Arc<State>, bytes: &[u8]) -> Outcome<Option<Arc<State>>> {
        let mut current = state.clone();
        // Long texts go in pieces: only the frames that are still needed are carried from one to the next.
        for piece in bytes.chunks(64) {
            let mut meter = self.meter();
            let mut chart = Chart::new(&self.network, &self.lexicon);
            chart.push_state(&current);
            if !push_bytes(&mut chart, piece, &mut meter)? {
                return Ok(None);
            }
            let next = self.state_of(&chart, &mut meter)?;
            drop(chart);
            current = next;
        }
        Ok(Some(current))
    }

    /// The mask of a state.
    pub fn mask(&self, state: &Arc<State>) -> Outcome<Arc<Mask>> {
        if let Some(mask) = self.cache().mask(state) {
            return Ok(mask);
        }
        let mut meter = self.meter();
        let mask = self.with_automaton(|automaton, source| Mask::new(state, automaton, *source, &mut meter))?;
        let mask = Arc::new(mask);
        self.cache().keep_mask(state, &mask);
        Ok(mask)
    }

    /// The longest byte string that begins every completion from `state`, at most `limit` bytes.
    pub fn forced_bytes(&self, state: &State, limit: usize) -> Outcome<Vec<u8>> {
        let mut meter = self.meter();
        let mut chart = Chart::new(&self.network, &self.lexicon);
        chart.push_state(state);
        let mut forced = Vec::new();
        while forced.len() < limit && !chart.can_stop() && chart.active_tokens().is_empty() {
            let states = chart.actives().iter().map(|active| active.state);
            let first = self.lexicon.first_bytes(states, &mut meter)?;
            let mut bytes = first.iter();
            let (Some(byte), None) = (bytes.next(), bytes.next()) else {
                break;
            };
            if !chart.push_byte(byte, &mut meter)? {
                break;
            }
            forced.push(byte);
        }
        Ok(forced)
    }

    /// Work with an automaton that nobody else works with.
    fn with_automaton<T>(&self, work: impl FnOnce(&mut Automaton, &Source) -> T) -> T {
        let free = lock(&self.automata).pop();
        let maximum = usize::try_from(self.limits.cache_bytes).unwrap_or(usize::MAX) / AUTOMATA_SHARE / MOST_AUTOMATA;
        let mut automaton = free.unwrap_or_else(|| Automaton::new(maximum));
        let source = Source {
            network: &self.network,
            lexicon: &self.lexicon,
            cache: &self.cache,
        };
        let result = work(&mut automaton, &source);
        let mut automata = lock(&self.automata);
        if automata.len() < MOST_AUTOMATA {
            automata.push(automaton);
        }
        result
    }

    fn state_of(&self, chart: &Chart, meter: &mut Meter) -> Outcome<Arc<State>> {
        let mut cache = self.cache();
        let parts = freeze(chart, &mut cache, meter)?;
        cache.state(parts)
    }

    fn meter(&self) -> Meter<'_> {
        Meter::new(self.limits.work, &self.usage, self.maximum_states)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        lock(&self.cache)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn push_bytes(chart: &mut Chart, bytes: &[u8], meter: &mut Meter) -> Outcome<bool> {
    for &byte in bytes {
        if !chart.push_byte(byte, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
