//! A compiled grammar, with everything that its sequences share.

use std::mem::size_of;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::base::damage::{Guard, Guarded, Health};
use crate::base::heap::{self, Counted, Counter};
use crate::base::limits::{Limits, Meter, Outcome, Usage};
use crate::base::tuning::{
    AUTOMATA_SHARE, LEXICON_SHARE, MAX_AUTOMATA, MIN_LEXICON_BYTES, REHEARSAL_BYTES, REHEARSAL_WALKS,
};
use crate::budgets::remainder::Remainders;
use crate::grammar::network::Network;
use crate::grammar::stack::{Frozen, Group, State, Thread};
use crate::masks::allowed::allowed;
use crate::masks::automaton::{Automaton, Source};
use crate::masks::cache::Cache;
use crate::masks::deadlines::settle;
use crate::masks::engine::Engine;
use crate::masks::freeze::freeze;
use crate::masks::mask_parser::{Chart, FrameRef};
use crate::regular::term::Term;
use crate::tokens::lexicon::Lexicon;
use crate::tokens::mask::Mask;
use crate::tokens::trie::Vocabulary;

/// Counters for the bytes of a grammar and of all its successors, whether or not they still keep the objects.
#[derive(Clone, Default)]
pub struct Counters {
    networks: Counter,
    situations: Counter,
    remainders: Counter,
    /// Lexicons that are being freed.
    let_go: Counter,
    /// Masks, and the tokens that fit into budgets, with their own bit sets.
    pub masks: Counter,
    pub sequences: Counter,
}

/// Bytes of the objects that a grammar shares with its successors: nine counters and four other values.
const SHARED: usize = 13 * heap::COUNTS
    + 9 * size_of::<usize>()
    + 2 * size_of::<Health>().next_multiple_of(size_of::<usize>())
    + size_of::<Latest>()
    + size_of::<Mutex<Vec<Weak<Lexicon>>>>();

/// The bytes of a grammar by purpose, in the order of the C interface.
#[derive(Default)]
#[repr(C)]
pub struct GrammarMemory {
    pub network: usize,
    /// `automata`: lexicons that the grammar has to itself. `token_classes`: the classes and targets of their states.
    pub automata: usize,
    pub token_classes: usize,
    pub states: usize,
    /// The memories of member lists.
    pub members: usize,
    pub masks: usize,
    pub moves: usize,
    pub remainders: usize,
    pub sequences: usize,
}

/// The latest successor of a grammar.
type Latest = Guarded<Option<Arc<Grammar>>>;

/// A grammar with the lexicon that it started with. When the grammar has used up its share of that lexicon, a successor
/// with an empty lexicon replaces it: see `renewed`. Sequences move to the successor when they reach the limit.
///
/// The first grammar uses a lexicon that many grammars share. If members are distinct, the lexicon grows with every
/// text. Then no sequence uses the first grammar: all start with its successor, so that the memory is freed with the
/// format.
pub struct Grammar {
    network: Network,
    has_regions: bool,
    lexicon: Arc<Lexicon>,
    limits: Limits,
    /// The part of the lexicon that this grammar has caused.
    usage: Usage,
    counters: Counters,
    _memory: Counted,
    /// The lexicons of this grammar's successors that are still in use.
    lexicons: Arc<Mutex<Vec<Weak<Lexicon>>>>,
    maximum_states: u64,
    /// Maximum number of bytes that the grammar's own lexicon may take before a successor replaces the grammar; None
    /// for a shared lexicon.
    most_bytes: Option<u64>,
    health: Arc<Health>,
    cache: Guarded<Cache>,
    /// Automata that no thread is using.
    automata: Guarded<Vec<Automaton>>,
    /// Remainders that no thread is using.
    remainders: Guarded<Vec<Remainders>>,
    /// The state before any text.
    start: Arc<State>,
    /// Number of predecessors of this grammar.
    age: u64,
    latest: Weak<Latest>,
    /// The same object as `latest`, held only by the first grammar: this reference keeps the latest successor alive.
    own_latest: Option<Arc<Latest>>,
}

impl Grammar {
    /// Compile a serialised grammar.
    pub fn new(data: &[u8], engine: &Engine, limits: Limits) -> Outcome<Self> {
        let lexicon = engine.lexicon()?;
        let usage = Usage::default();
        let mut meter = Meter::new(limits.work, &usage, limits.states);
        let (mut terminals, mut uncertain) = (0, Vec::new());
        let network = {
            let mut draft = engine.draft.lock().unwrap_or_else(PoisonError::into_inner);
            draft.templates.serve(&lexicon);
            let mut derivatives = lexicon.derivatives()?;
            let network = Network::new(data, &mut draft, &mut derivatives, &limits, &mut meter);
            draft.forget_much();
            engine.draft_memory.set(draft.heap());
            let network = network?;
            for term in network.terms() {
                terminals += 1;
                if derivatives.terms.uncertain(term) {
                    uncertain.push((term, derivatives.terms.tangled(term)));
                }
            }
            network
        };
        let bytes = cache_bytes(&limits);
        let mut cache = Cache::new(bytes - bytes / AUTOMATA_SHARE, lexicon.clone(), network.memories());
        let start = start_of(&network, &lexicon, &mut cache, &mut meter)?;
        drop(meter);
        let latest = Arc::new(Latest::default());
        let health = Arc::default();
        let counters = Counters::default();
        let own = heap::COUNTS + size_of::<Grammar>() + SHARED + network.heap() + network.members_heap();
        let grammar = Grammar {
            _memory: Counted::new(own, &counters.networks),
            counters,
            lexicons: Arc::default(),
            start,
            maximum_states: limits.states.saturating_mul(terminals.max(1)),
            most_bytes: None,
            has_regions: network.has_regions(),
            network,
            lexicon,
            limits,
            usage,
            cache: Guarded::new(cache, &health),
            automata: Guarded::new(Vec::new(), &health),
            remainders: Guarded::new(Vec::new(), &health),
            health,
            age: 0,
            latest: Arc::downgrade(&latest),
            own_latest: Some(latest),
        };
        // If emptiness takes a search, the first mask may already reach a limit: report that now.
        if !uncertain.is_empty() {
            grammar.mask(&grammar.start)?;
        }
        let tangled = uncertain
            .into_iter()
            .filter_map(|(term, is_tangled)| is_tangled.then_some(term));
        grammar.rehearse(tangled)?;
        Ok(grammar)
    }

    /// Walk along `tangled` terminals, which may have many more states than their size suggests. A limit that masks
    /// would reach there is reported when the grammar is compiled. The first walk goes to a match, the others go to
    /// random states.
    fn rehearse(&self, tangled: impl Iterator<Item = Term>) -> Outcome<()> {
        let most = self.usage.work().saturating_add(self.limits.work);
        for term in tangled {
            if self.usage.work() > most {
                break;
            }
            let mut meter = self.meter();
            let mut chance = 1u32;
            for walk in 0..REHEARSAL_WALKS {
                let mut state = term;
                for _ in 0..REHEARSAL_BYTES {
                    if !self.lexicon.tangled(state)? {
                        break;
                    }
                    let row = self.lexicon.row(state, &mut meter)?;
                    let targets: Vec<u32> = row.live().map(|(_, _, step)| step.state).collect();
                    chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state = match targets.len() {
                        0 => break,
                        _ if walk == 0 => self.lexicon.nearest(&targets, &mut meter)?,
                        count => targets[(chance >> 8) as usize % count],
                    };
                }
            }
        }
        Ok(())
    }

    /// Return a successor with a lexicon of its own, and whether that is still empty. This grammar's caches are freed.
    pub fn renewed(&self) -> Outcome<(Arc<Self>, bool)> {
        let shared = self.latest.upgrade().unwrap_or_default();
        let mut latest = shared.lock()?;
        if let Some(latest) = latest.as_ref().filter(|latest| latest.age > self.age) {
            return Ok((latest.clone(), false));
        }
        let share = (cache_bytes(&self.limits) / LEXICON_SHARE).max(MIN_LEXICON_BYTES);
        let lexicon = Arc::new(self.lexicon.apart(share));
        let usage = self.usage.renewed();
        let mut meter = Meter::new(self.limits.work, &usage, self.maximum_states);
        let network = self.network.with_terms(&lexicon, &self.lexicon, &mut meter)?;
        let automata = std::mem::take(&mut *self.automata.lock()?);
        let remainders = std::mem::take(&mut *self.remainders.lock()?);
        let taken = (
            automata.iter().map(Automaton::heap).sum::<usize>(),
            remainders.iter().map(Remainders::heap).sum::<usize>(),
        );
        self.counters.situations.remove(taken.0);
        self.counters.remainders.remove(taken.1);
        let bytes = taken.0 + taken.1;
        let counter = self.counters.let_go.clone();
        let older = std::iter::once(self.lexicon.clone()).flat_map(move |lexicon| lexicon.let_go(&counter));
        let automata = automata.into_iter().flat_map(Automaton::let_go);
        let remainders = remainders.into_iter().map(|remainders| remainders.heap());
        let others = Box::new(automata.chain(remainders).chain(older));
        let mut cache = self.cache()?.renewed(lexicon.clone(), others, bytes);
        let start = start_of(&network, &lexicon, &mut cache, &mut meter)?;
        drop(meter);
        let health = Arc::default();
        if let Ok(mut lexicons) = self.lexicons.lock() {
            lexicons.retain(|lexicon| lexicon.strong_count() > 0);
            lexicons.push(Arc::downgrade(&lexicon));
        }
        let own = heap::COUNTS + size_of::<Grammar>() + network.heap();
        let renewed = Arc::new(Grammar {
            _memory: Counted::new(own, &self.counters.networks),
            counters: self.counters.clone(),
            lexicons: self.lexicons.clone(),
            start,
            network,
            lexicon,
            most_bytes: Some(usage.bytes().saturating_add(share as u64)),
            usage,
            cache: Guarded::new(cache, &health),
            automata: Guarded::new(Vec::new(), &health),
            remainders: Guarded::new(Vec::new(), &health),
            health,
            age: self.age + 1,
            latest: Arc::downgrade(&shared),
            own_latest: None,
            ..*self
        });
        *latest = Some(renewed.clone());
        Ok((renewed, true))
    }

    /// Return the grammar that new sequences use: the latest successor, or this grammar.
    pub fn current(self: Arc<Self>) -> Outcome<Arc<Self>> {
        let latest = match self.latest.upgrade() {
            Some(latest) => latest.lock()?.clone(),
            None => None,
        };
        match latest {
            Some(latest) => Ok(latest),
            None if self.network.has_distinct() && self.most_bytes.is_none() => Ok(self.renewed()?.0),
            None => Ok(self),
        }
    }

    /// Return whether a successor should replace this grammar, because its lexicon has outgrown its share.
    #[inline]
    pub fn is_overgrown(&self) -> bool {
        self.most_bytes.is_some_and(|most| self.usage.bytes() > most)
    }

    pub fn start(&self) -> &Arc<State> {
        &self.start
    }

    /// Return whether a state belongs to this grammar, not to a predecessor.
    pub fn owns(&self, state: &State) -> bool {
        Arc::ptr_eq(&state.lexicon, &self.lexicon)
    }

    /// Return the state of this grammar that is equal to a state of a predecessor.
    pub fn adopt(&self, state: &Arc<State>) -> Outcome<Arc<State>> {
        if self.owns(state) {
            return Ok(state.clone());
        }
        let states: Vec<u32> = state.threads.iter().map(|thread| thread.state).collect();
        let states = self.lexicon.copy(&states, &state.lexicon, &mut self.meter())?;
        let threads = state.threads.iter().zip(states).map(|(thread, state)| Thread {
            state,
            ..thread.clone()
        });
        self.cache()?.state(Frozen {
            tokens: state.tokens.to_vec(),
            can_stop: state.can_stop,
            ..Frozen::of_threads(threads.collect())
        })
    }

    pub fn vocabulary(&self) -> &Vocabulary {
        &self.lexicon.vocabulary
    }

    /// Return the counters of the objects that this grammar makes.
    pub fn memory(&self) -> &Counters {
        &self.counters
    }

    /// Return the bytes of this grammar and of its successors. No lock is held for long.
    pub fn memory_by_kind(&self) -> Outcome<GrammarMemory> {
        let latest = match &self.own_latest {
            Some(latest) => latest.lock()?.clone(),
            None => None,
        };
        let counters = &self.counters;
        let lists = |grammar: &Grammar| -> Outcome<(usize, usize)> {
            let automata = heap::list(&*grammar.automata.lock()?);
            Ok((automata, heap::list(&*grammar.remainders.lock()?)))
        };
        let (mut automata, mut remainders) = lists(self)?;
        let mut memory = GrammarMemory {
            network: counters.networks.bytes(),
            automata: counters.let_go.bytes(),
            states: self.cache()?.memory(),
            members: self.network.memories().bytes(),
            masks: counters.masks.bytes(),
            moves: counters.situations.bytes(),
            remainders: counters.remainders.bytes(),
            sequences: counters.sequences.bytes(),
            ..GrammarMemory::default()
        };
        if let Some(latest) = latest {
            memory.states += latest.cache()?.tables_memory();
            let more = lists(&latest)?;
            (automata, remainders) = (automata + more.0, remainders + more.1);
        }
        memory.moves += automata;
        memory.remainders += remainders;
        let lexicons = self.lexicons.lock().map_or_else(|_| Vec::new(), |all| all.clone());
        for lexicon in lexicons.iter().filter_map(Weak::upgrade) {
            let (automata, classes) = lexicon.memory()?;
            memory.automata += automata;
            memory.token_classes += classes;
        }
        Ok(memory)
    }

    /// Return a fault if a panic has damaged this grammar or the lexicon that it uses.
    #[inline]
    pub fn check(&self) -> Outcome<()> {
        self.health.check()?;
        self.lexicon.owner.health.check()
    }

    /// Run `check` for this grammar and for its latest successor.
    pub fn check_latest(&self) -> Outcome<()> {
        self.check()?;
        match self.latest.upgrade() {
            Some(latest) => latest.lock()?.as_ref().map_or(Ok(()), |latest| latest.check()),
            None => Ok(()),
        }
    }

    /// Return the number of elementary steps that this grammar has taken: for its compilation, masks and moves.
    pub fn work(&self) -> u64 {
        self.usage.work()
    }

    /// Return the state after one more token; None if the token is not allowed.
    pub fn after_token(&self, state: &State, token: u32) -> Outcome<Option<Arc<State>>> {
        if token as usize >= self.vocabulary().len() {
            return Ok(None);
        }
        if let Some(next) = self.cache()?.after(state, token) {
            return Ok(Some(next));
        }
        let mut meter = self.meter();
        let next = match state.tokens.iter().any(|thread| thread.token == token) {
            true => self.after_named_token(state, token, &mut meter)?,
            false => self.after_text(state, self.vocabulary().token(token), &mut meter)?,
        };
        if let Some(next) = &next {
            self.cache()?.keep_move(state, token, next);
        }
        Ok(next)
    }

    /// Return the state after one more token, and its mask, if both are cached.
    pub fn known_step(&self, state: &State, token: u32) -> Outcome<Option<(Arc<State>, Arc<Mask>)>> {
        let cache = self.cache()?;
        Ok(cache
            .after(state, token)
            .filter(|next| !next.is_relative)
            .and_then(|next| cache.mask(&next).map(|mask| (next, mask))))
    }

    /// Return the mask of a state, if it is cached.
    pub fn known_mask(&self, state: &State) -> Outcome<Option<Arc<Mask>>> {
        Ok(self.cache()?.mask(state))
    }

    fn after_text(&self, state: &State, text: &[u8], meter: &mut Meter) -> Outcome<Option<Arc<State>>> {
        let known =
            |automaton: &mut Automaton, source: &Source| automaton.known_state_after(state, text, source, meter);
        if let Some(known) = self.with_automaton(known)? {
            return Ok(known);
        }
        let mut chart = Chart::new(&self.network, &self.lexicon);
        chart.push_threads(state.threads.iter());
        if text.is_empty() || !push_bytes(&mut chart, text, meter)? {
            return Ok(None);
        }
        self.state_of(&chart, meter).map(Some)
    }

    /// Return the state after a token that the grammar names by id; the token may also match as text.
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

    /// Return the state after a few bytes; None if they are not allowed.
    pub fn after_bytes(&self, state: &State, bytes: &[u8]) -> Outcome<Option<Arc<State>>> {
        let mut meter = self.meter();
        let mut chart = Chart::new(&self.network, &self.lexicon);
        chart.push_state(state);
        if !push_bytes(&mut chart, bytes, &mut meter)? {
            return Ok(None);
        }
        self.state_of(&chart, &mut meter).map(Some)
    }

    /// Return the mask of a state.
    pub fn mask(&self, state: &Arc<State>) -> Outcome<Arc<Mask>> {
        if let Some(mask) = self.cache()?.mask(state) {
            return Ok(mask);
        }
        let mut meter = self.meter();
        let mask = self.with_automaton(|automaton, source| allowed(state, automaton, *source, &mut meter))?;
        let mask = Arc::new(mask);
        self.cache()?.keep_mask(state, &mask);
        Ok(mask)
    }

    /// Return the longest common prefix of all completions from `state`, at most `limit` bytes.
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

    /// Return whether the grammar has regions with budgets.
    pub fn has_regions(&self) -> bool {
        self.has_regions
    }

    /// Return the state with fixed deadlines for the regions that its last token has opened; that token is the last of
    /// `tokens`.
    pub fn settled(&self, state: Arc<State>, tokens: u32) -> Outcome<Arc<State>> {
        if !state.is_relative {
            return Ok(state);
        }
        let mut cache = self.cache()?;
        let parts = settle(state.parts(), tokens, &mut cache, &mut self.meter())?;
        cache.state(parts)
    }

    /// Return the budget of a region that is too small for its shortest text, and the number of tokens of that text.
    pub fn too_small_region(&self) -> Outcome<Option<(u32, u32)>> {
        if !self.has_regions {
            return Ok(None);
        }
        self.with_remainders(&mut self.meter(), |remainders, _| Ok(remainders.too_small()))
    }

    /// Return the tokens of the vocabulary that the state allows by id, each once.
    pub fn named_tokens(&self, state: &State) -> Vec<u32> {
        let count = self.vocabulary().len() as u32;
        let mut tokens: Vec<u32> = state.tokens.iter().map(|thread| thread.token).collect();
        tokens.retain(|token| *token < count);
        tokens.dedup();
        tokens
    }

    /// Run `work` with remainders that no other thread is using.
    pub fn with_remainders<T>(
        &self,
        meter: &mut Meter,
        work: impl FnOnce(&mut Remainders, &mut Meter) -> Outcome<T>,
    ) -> Outcome<T> {
        let free = self.remainders.lock()?.pop().filter(|known| {
            let serves = known.serve(&self.lexicon);
            if !serves {
                self.counters.remainders.remove(known.heap());
            }
            serves
        });
        let (mut remainders, before) = match free {
            Some(known) => {
                let bytes = known.heap();
                (known, bytes)
            }
            None => (self.new_remainders(&[], meter)?, 0),
        };
        let answer = work(&mut remainders, meter);
        let after = remainders.heap();
        let mut all = self.remainders.lock()?;
        if all.len() < MAX_AUTOMATA {
            self.counters.remainders.change(before, after);
            all.push(remainders);
        } else {
            self.counters.remainders.remove(before);
        }
        answer
    }

    /// Return remainders that avoid some tokens.
    pub fn new_remainders(&self, avoided: &[u32], meter: &mut Meter) -> Outcome<Remainders> {
        Remainders::new(avoided, &self.network, &self.lexicon, meter)
    }

    /// Run `work` with an automaton that no other thread is using.
    pub fn with_automaton<T>(&self, work: impl FnOnce(&mut Automaton, &Source) -> Outcome<T>) -> Outcome<T> {
        let free = self.automata.lock()?.pop();
        let maximum = cache_bytes(&self.limits) / AUTOMATA_SHARE / MAX_AUTOMATA;
        let before = free.as_ref().map_or(0, Automaton::heap);
        let mut automaton = free.unwrap_or_else(|| Automaton::new(maximum));
        let source = Source {
            network: &self.network,
            lexicon: &self.lexicon,
            cache: &self.cache,
            masks: &self.counters.masks,
        };
        let result = work(&mut automaton, &source);
        let after = automaton.heap();
        let mut automata = self.automata.lock()?;
        if automata.len() < MAX_AUTOMATA {
            self.counters.situations.change(before, after);
            automata.push(automaton);
        } else {
            self.counters.situations.remove(before);
        }
        result
    }

    fn state_of(&self, chart: &Chart, meter: &mut Meter) -> Outcome<Arc<State>> {
        let mut cache = self.cache()?;
        let parts = freeze(chart, &mut cache, meter)?;
        cache.state(parts)
    }

    pub fn lexicon(&self) -> &Arc<Lexicon> {
        &self.lexicon
    }

    pub fn meter(&self) -> Meter<'_> {
        Meter::new(self.limits.work, &self.usage, self.maximum_states)
    }

    /// For tests: see `Sequence::panic_in`.
    pub fn panic_in(&self, place: u32) -> Outcome<i32> {
        let _cache = if place == 1 { Some(self.cache()?) } else { None };
        let _terms = if place == 2 {
            Some(self.lexicon.derivatives()?)
        } else {
            None
        };
        panic!("a panic asked for at place {place}")
    }

    pub fn cache(&self) -> Outcome<Guard<'_, Cache>> {
        self.cache.lock()
    }
}

/// Return the number of bytes that a grammar may keep.
fn cache_bytes(limits: &Limits) -> usize {
    usize::try_from(limits.cache_bytes).unwrap_or(usize::MAX)
}

/// Return the state before any text.
fn start_of(network: &Network, lexicon: &Lexicon, cache: &mut Cache, meter: &mut Meter) -> Outcome<Arc<State>> {
    let root: Arc<Group> = cache.root();
    let mut chart = Chart::new(network, lexicon);
    chart.push_places([(network.start, FrameRef::Frozen(&root, 0))].into_iter(), meter)?;
    let start = freeze(&chart, cache, meter)?;
    cache.state(start)
}

fn push_bytes(chart: &mut Chart, bytes: &[u8], meter: &mut Meter) -> Outcome<bool> {
    for &byte in bytes {
        if !chart.push_byte(byte, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
