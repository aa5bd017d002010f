//! A compiled grammar: what all of its sequences share.

use std::mem::size_of;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::base::damage::{Guard, Guarded, Health};
use crate::base::heap::{self, Counted, Counter};
use crate::base::limits::{Limits, Meter, Outcome, Usage};
use crate::budgets::remainder::Remainders;
use crate::grammar::network::{Draft, Network};
use crate::grammar::stack::{Frozen, Group, State, Thread};
use crate::masks::allowed::allowed;
use crate::masks::automaton::{Automaton, Source};
use crate::masks::cache::Cache;
use crate::masks::deadlines::settle;
use crate::masks::freeze::freeze;
use crate::masks::mask_parser::{Chart, FrameRef};
use crate::regular::term::Term;
use crate::tokens::lexicon::Lexicon;
use crate::tokens::mask::Mask;
use crate::tokens::trie::Vocabulary;

/// A vocabulary and the automata that its grammars share.
pub struct Engine {
    pub vocabulary: Arc<Vocabulary>,
    lexicon: Guarded<Arc<Lexicon>>,
    /// Those that were in use before and that grammars still have.
    older: Mutex<Vec<Weak<Lexicon>>>,
    /// Memory to compile in, where nothing matters that is left of the grammar before.
    draft: Mutex<Draft>,
    draft_memory: Counter,
}

/// The bytes of a vocabulary by what they are for, in the order of the C interface.
#[derive(Default)]
#[repr(C)]
pub struct EngineMemory {
    /// Its tokens, and how they are found.
    pub tables: usize,
    /// The automata of terminals that its grammars share.
    pub automata: usize,
    /// What the automata's states mean for tokens.
    pub token_classes: usize,
    /// What the next grammar is compiled in.
    pub workspace: usize,
}

impl Engine {
    pub fn new(vocabulary: Vocabulary) -> Self {
        Self::of(Arc::new(vocabulary))
    }

    /// The same vocabulary with automata of its own: what is compiled there never makes a mask of another grammar wait.
    pub fn apart(&self) -> Self {
        Self::of(self.vocabulary.clone())
    }

    fn of(vocabulary: Arc<Vocabulary>) -> Self {
        Engine {
            lexicon: Guarded::new(Arc::new(Lexicon::new(vocabulary.clone())), &Arc::default()),
            older: Mutex::default(),
            draft: Mutex::default(),
            draft_memory: Counter::default(),
            vocabulary,
        }
    }

    /// Let go of the automata: new grammars begin with empty ones.
    pub fn renew(&self) -> Outcome<()> {
        let mut current = self.lexicon.lock()?;
        let before = std::mem::replace(&mut *current, Arc::new(Lexicon::new(self.vocabulary.clone())));
        drop(current);
        self.keep_count_of(&before);
        Ok(())
    }

    /// Go on counting automata as long as grammars have them.
    fn keep_count_of(&self, lexicon: &Arc<Lexicon>) {
        if let Ok(mut older) = self.older.lock() {
            older.retain(|lexicon| lexicon.strong_count() > 0);
            older.push(Arc::downgrade(lexicon));
        }
    }

    /// The bytes of all of it. No lock is held for long.
    pub fn memory(&self) -> Outcome<EngineMemory> {
        let vocabulary = heap::COUNTS + size_of::<Vocabulary>() + self.vocabulary.bytes();
        let lexicon = self.lexicon.lock()?.clone();
        let (mut automata, mut token_classes) = lexicon.memory()?;
        let older = self.older.lock().map_or_else(|_| Vec::new(), |older| older.clone());
        for lexicon in older.iter().filter_map(Weak::upgrade) {
            let more = lexicon.memory()?;
            (automata, token_classes) = (automata + more.0, token_classes + more.1);
        }
        Ok(EngineMemory {
            tables: size_of::<Self>() + vocabulary,
            automata,
            token_classes,
            workspace: self.draft_memory.bytes(),
        })
    }

    /// The automata for a new grammar: the ones in use, unless they take too many bytes or a panic has damaged them.
    pub fn lexicon(&self) -> Outcome<Arc<Lexicon>> {
        let mut current = self.lexicon.lock()?;
        if current.is_full().unwrap_or(true) {
            let before = std::mem::replace(&mut *current, Arc::new(Lexicon::new(self.vocabulary.clone())));
            self.keep_count_of(&before);
        }
        Ok(current.clone())
    }
}

/// One part in this many of a grammar's memory is for automata, at most this many of them.
const AUTOMATA_SHARE: usize = 2;
const MOST_AUTOMATA: usize = 4;

/// One part in this many of a grammar's memory, but no fewer bytes, is for automata that it has to itself; and as much again
/// is for what these mean for tokens.
const LEXICON_SHARE: usize = 8;
const LEAST_LEXICON_BYTES: usize = 1 << 20;

/// How often, and how far, a terminal is walked along when a grammar is compiled.
const REHEARSALS: u32 = 4;
const REHEARSED_BYTES: u32 = 48;

/// Bytes of a grammar and of all that have taken its place, whoever keeps what they are of.
#[derive(Clone, Default)]
pub struct Counters {
    networks: Counter,
    situations: Counter,
    remainders: Counter,
    /// Automata that are being let go.
    let_go: Counter,
    /// Masks, and the tokens that fit into budgets, with their own bit sets.
    pub masks: Counter,
    pub sequences: Counter,
}

/// The bytes of what a grammar shares with those that take its place: nine counters and four other values.
const SHARED: usize = 13 * heap::COUNTS
    + 9 * size_of::<usize>()
    + 2 * size_of::<Health>().next_multiple_of(size_of::<usize>())
    + size_of::<Latest>()
    + size_of::<Mutex<Vec<Weak<Lexicon>>>>();

/// The bytes of a grammar by what they are for, in the order of the C interface.
#[derive(Default)]
#[repr(C)]
pub struct GrammarMemory {
    pub network: usize,
    /// Automata that it has to itself, and what their states mean for tokens.
    pub automata: usize,
    pub token_classes: usize,
    pub states: usize,
    /// What has come of lists of members.
    pub members: usize,
    pub masks: usize,
    pub moves: usize,
    pub remainders: usize,
    pub sequences: usize,
}

/// The one that has taken a grammar's place last.
type Latest = Guarded<Option<Arc<Grammar>>>;

/// A grammar with the automata that it began with. When it has used up its share of those, another one with empty ones
/// takes its place: `renewed`. Sequences move over when they come to the end of the share.
///
/// The automata of the first are those that many grammars share. Where members are distinct, whose automata grow with every
/// text, no sequence uses it: all begin with the one that has taken its place, so that what has grown goes with the format.
pub struct Grammar {
    network: Network,
    has_regions: bool,
    lexicon: Arc<Lexicon>,
    limits: Limits,
    /// What this grammar has caused in the automata.
    usage: Usage,
    counters: Counters,
    _memory: Counted,
    /// The automata of the grammars that have taken this one's place, where they are still in use.
    lexicons: Arc<Mutex<Vec<Weak<Lexicon>>>>,
    maximum_states: u64,
    /// How many bytes its automata may grow to in all before another grammar takes its place, where they are its own.
    most_bytes: Option<u64>,
    health: Arc<Health>,
    cache: Guarded<Cache>,
    /// Automata that nobody works with.
    automata: Guarded<Vec<Automaton>>,
    /// Remainders that nobody works with.
    remainders: Guarded<Vec<Remainders>>,
    /// The situation before any text.
    start: Arc<State>,
    /// How many grammars had this one's place before.
    age: u64,
    latest: Weak<Latest>,
    /// The same, in the first of them, which alone keeps the latest one alive.
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
        // Where emptiness has to be searched for, a limit can stand in the way of the very first mask: report that now.
        if !uncertain.is_empty() {
            grammar.mask(&grammar.start)?;
        }
        let tangled = uncertain
            .into_iter()
            .filter_map(|(term, is_tangled)| is_tangled.then_some(term));
        grammar.rehearse(tangled)?;
        Ok(grammar)
    }

    /// Walk along `tangled` terminals, whose states may be many more than they show: what masks there would fail for is
    /// reported when the grammar is compiled. The first walk goes to a match, the others anywhere.
    fn rehearse(&self, tangled: impl Iterator<Item = Term>) -> Outcome<()> {
        let most = self.usage.work().saturating_add(self.limits.work);
        for term in tangled {
            if self.usage.work() > most {
                break;
            }
            let mut meter = self.meter();
            let mut chance = 1u32;
            for walk in 0..REHEARSALS {
                let mut state = term;
                for _ in 0..REHEARSED_BYTES {
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

    /// The same grammar with automata of its own, and whether they are empty still; what this one keeps is let go.
    pub fn renewed(&self) -> Outcome<(Arc<Self>, bool)> {
        let shared = self.latest.upgrade().unwrap_or_default();
        let mut latest = shared.lock()?;
        if let Some(latest) = latest.as_ref().filter(|latest| latest.age > self.age) {
            return Ok((latest.clone(), false));
        }
        let share = (cache_bytes(&self.limits) / LEXICON_SHARE).max(LEAST_LEXICON_BYTES);
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

    /// The grammar that has this one's place.
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

    /// Whether another grammar should take this one's place: its automata have grown to more than their share.
    #[inline]
    pub fn is_overgrown(&self) -> bool {
        self.most_bytes.is_some_and(|most| self.usage.bytes() > most)
    }

    pub fn start(&self) -> &Arc<State> {
        &self.start
    }

    /// Whether a state is one of this grammar, and not of one whose place it has taken.
    pub fn owns(&self, state: &State) -> bool {
        Arc::ptr_eq(&state.lexicon, &self.lexicon)
    }

    /// The state here that is the same as one of a grammar whose place this one has taken.
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

    /// What it counts of what it makes.
    pub fn memory(&self) -> &Counters {
        &self.counters
    }

    /// The bytes of this grammar and of those that have taken its place. No lock is held for long.
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

    /// Whether a panic has left this grammar, or the automata that it shares, unfit for use.
    #[inline]
    pub fn check(&self) -> Outcome<()> {
        self.health.check()?;
        self.lexicon.owner.health.check()
    }

    /// `check`, of the grammar that has this one's place too.
    pub fn check_latest(&self) -> Outcome<()> {
        self.check()?;
        match self.latest.upgrade() {
            Some(latest) => latest.lock()?.as_ref().map_or(Ok(()), |latest| latest.check()),
            None => Ok(()),
        }
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

    /// The state after one more token, with its mask, where both were worked out before.
    pub fn known_step(&self, state: &State, token: u32) -> Outcome<Option<(Arc<State>, Arc<Mask>)>> {
        let cache = self.cache()?;
        Ok(cache
            .after(state, token)
            .filter(|next| !next.is_relative)
            .and_then(|next| cache.mask(&next).map(|mask| (next, mask))))
    }

    /// The mask of a state, if it was worked out before and is still kept.
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

    /// The state after a few bytes; None if they are not allowed.
    pub fn after_bytes(&self, state: &State, bytes: &[u8]) -> Outcome<Option<Arc<State>>> {
        let mut meter = self.meter();
        let mut chart = Chart::new(&self.network, &self.lexicon);
        chart.push_state(state);
        if !push_bytes(&mut chart, bytes, &mut meter)? {
            return Ok(None);
        }
        self.state_of(&chart, &mut meter).map(Some)
    }

    /// The mask of a state.
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

    /// Whether there are regions with budgets.
    pub fn has_regions(&self) -> bool {
        self.has_regions
    }

    /// The state with the deadlines of regions that its last token has opened, as the last one of `tokens`.
    pub fn settled(&self, state: Arc<State>, tokens: u32) -> Outcome<Arc<State>> {
        if !state.is_relative {
            return Ok(state);
        }
        let mut cache = self.cache()?;
        let parts = settle(state.parts(), tokens, &mut cache, &mut self.meter())?;
        cache.state(parts)
    }

    /// The budget of a region that is too small for its shortest text, and how many tokens that takes.
    pub fn too_small_region(&self) -> Outcome<Option<(u32, u32)>> {
        if !self.has_regions {
            return Ok(None);
        }
        self.with_remainders(&mut self.meter(), |remainders, _| Ok(remainders.too_small()))
    }

    /// The tokens of the vocabulary that may come by their ids, each once.
    pub fn named_tokens(&self, state: &State) -> Vec<u32> {
        let count = self.vocabulary().len() as u32;
        let mut tokens: Vec<u32> = state.tokens.iter().map(|thread| thread.token).collect();
        tokens.retain(|token| *token < count);
        tokens.dedup();
        tokens
    }

    /// Work with remainders that nobody else works with.
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
        if all.len() < MOST_AUTOMATA {
            self.counters.remainders.change(before, after);
            all.push(remainders);
        } else {
            self.counters.remainders.remove(before);
        }
        answer
    }

    /// Remainders that avoid some tokens.
    pub fn new_remainders(&self, avoided: &[u32], meter: &mut Meter) -> Outcome<Remainders> {
        Remainders::new(avoided, &self.network, &self.lexicon, meter)
    }

    /// Work with an automaton that nobody else works with.
    pub fn with_automaton<T>(&self, work: impl FnOnce(&mut Automaton, &Source) -> Outcome<T>) -> Outcome<T> {
        let free = self.automata.lock()?.pop();
        let maximum = cache_bytes(&self.limits) / AUTOMATA_SHARE / MOST_AUTOMATA;
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
        if automata.len() < MOST_AUTOMATA {
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

/// The bytes that a grammar may keep.
fn cache_bytes(limits: &Limits) -> usize {
    usize::try_from(limits.cache_bytes).unwrap_or(usize::MAX)
}

/// The state before any text.
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
