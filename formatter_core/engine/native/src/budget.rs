//! How many tokens of a budget are left, and which tokens fit into it.

use std::sync::Arc;

use crate::automaton::{Automaton, Source, DEAD};
use crate::damage::Guarded;
use crate::fitting::{Fitting, Gathered};
use crate::grammar::Grammar;
use crate::limits::{Meter, Outcome};
use crate::remainder::Remainders;
use crate::spelling::NEVER;
use crate::stack::State;
use crate::trie::Node;

/// Tokens that a sequence must not use, and what was worked out without them.
struct Avoided {
    tokens: Box<[u32]>,
    remainders: Guarded<Option<Remainders>>,
}

/// The tokens that a sequence may take in all.
#[derive(Clone)]
pub struct Budget {
    maximum: u32,
    /// None where all tokens may be used: then what is worked out is kept with the grammar.
    avoided: Option<Arc<Avoided>>,
}

impl Budget {
    /// `avoided`: the text tokens that mean an end to this sequence alone.
    pub fn new(maximum: u32, avoided: &[u32]) -> Self {
        let mut tokens = avoided.to_vec();
        tokens.sort_unstable();
        let avoided = (!tokens.is_empty()).then(|| {
            Arc::new(Avoided {
                tokens: tokens.into(),
                remainders: Guarded::default(),
            })
        });
        Budget { maximum, avoided }
    }

    /// How many tokens may come when so many have come.
    pub fn after(&self, tokens: u32) -> u32 {
        self.maximum.saturating_sub(tokens)
    }

    /// The same after one more.
    pub fn after_next(&self, tokens: u32) -> u32 {
        self.after(tokens).saturating_sub(1)
    }

    /// The fewest tokens known to complete a state, the end id included.
    pub fn distance(&self, grammar: &Grammar, state: &State) -> Outcome<u32> {
        let mut meter = grammar.meter();
        self.with_remainders(grammar, &mut meter, |remainders, meter| {
            remainders.distance(&state.parts(), meter)
        })
    }

    /// Whether every token that may come leaves a completion of at most `most` more tokens: it is cheap to say, and
    /// sometimes no although it is so.
    #[inline]
    pub fn is_far(&self, grammar: &Grammar, state: &State, most: u32) -> Outcome<bool> {
        let farthest = match (state.farthest.get(), &self.avoided) {
            (_, Some(_)) => NEVER,
            (Some(known), None) => *known,
            (None, None) => self.find_farthest(grammar, state)?,
        };
        Ok(farthest <= most)
    }

    /// The same, as far as was worked out before.
    #[inline]
    pub fn is_known_far(&self, state: &State, most: u32) -> bool {
        self.avoided.is_none() && state.farthest.get().is_some_and(|farthest| *farthest <= most)
    }

    #[cold]
    fn find_farthest(&self, grammar: &Grammar, state: &State) -> Outcome<u32> {
        let mut meter = grammar.meter();
        let found = self.with_remainders(grammar, &mut meter, |remainders, meter| {
            remainders.farthest(&state.parts(), meter)
        })?;
        Ok(*state.farthest.get_or_init(|| found))
    }

    /// The tokens that may come after `state`, by the distance after them.
    pub fn fitting(&self, grammar: &Grammar, state: &Arc<State>) -> Outcome<Arc<Fitting>> {
        let is_shared = self.avoided.is_none();
        if let (true, Some(known)) = (is_shared, grammar.cache()?.fitting(state)) {
            return Ok(known);
        }
        let mut meter = grammar.meter();
        let found = self.with_remainders(grammar, &mut meter, |remainders, meter| {
            let mut gathered = Gathered::default();
            grammar.with_automaton(|automaton, source| {
                let number = automaton.situation(state);
                walk(&mut gathered, number, automaton, remainders, source, meter)
            })?;
            for token in grammar.named_tokens(state) {
                if let Some(next) = grammar.after_token(state, token)? {
                    gathered.add_named(token, remainders.distance(&next.parts(), meter)?);
                }
            }
            Ok(Arc::new(gathered.finish(grammar.vocabulary().words())))
        })?;
        if is_shared {
            grammar.cache()?.keep_fitting(state, &found);
        }
        Ok(found)
    }

    fn with_remainders<T>(
        &self,
        grammar: &Grammar,
        meter: &mut Meter,
        work: impl FnOnce(&mut Remainders, &mut Meter) -> Outcome<T>,
    ) -> Outcome<T> {
        let Some(avoided) = &self.avoided else {
            return grammar.with_remainders(meter, work);
        };
        let mut own = avoided.remainders.lock()?;
        let mut remainders = match own.take().filter(|known| known.serve(grammar.lexicon())) {
            Some(known) => known,
            None => grammar.new_remainders(&avoided.tokens, meter)?,
        };
        let answer = work(&mut remainders, meter);
        *own = Some(remainders);
        answer
    }
}

/// Walk the vocabulary's trie from a situation, and gather the tokens that may come.
fn walk(
    gathered: &mut Gathered,
    number: u32,
    automaton: &mut Automaton,
    remainders: &mut Remainders,
    source: &Source,
    meter: &mut Meter,
) -> Outcome<()> {
    let trie = &source.lexicon.vocabulary.trie;
    let nodes = trie.nodes();
    let mut open: Vec<usize> = Vec::new();
    let mut visited = 0;
    let mut index = 0;
    automaton.held.clear();
    automaton.held.push(number);
    while index < nodes.len() {
        while open.last().is_some_and(|last| *last <= index) {
            open.pop();
            automaton.held.pop();
        }
        automaton.make_room();
        visited += 1;
        let node = &nodes[index];
        let below = node.end as usize;
        let from = automaton.held.last().copied().unwrap_or(DEAD);
        let to = automaton.step(from, node.byte, source, meter)?;
        if to == DEAD {
            index = below;
            continue;
        }
        let is_leaf = index + 1 == below;
        let is_same = !is_leaf
            && (node.below.is_within(automaton.stays(to, source, meter)?)
                || is_same_uncounted(node, open.len() as u32 + 1, to, automaton, remainders, source, meter)?);
        let ids = if is_same {
            trie.all_ids_below(index)
        } else {
            trie.ids(index)
        };
        if !ids.is_empty() {
            gathered.add(ids, automaton.distance(to, remainders, meter)?);
        }
        if is_same || is_leaf {
            index = below;
        } else {
            open.push(below);
            automaton.held.push(to);
            index += 1;
        }
    }
    automaton.held.clear();
    meter.work(visited / 16 + 1)
}

/// Whether every token below a node of the trie, `depth` bytes deep, leads from the situation there to one like it but for
/// counts that are far from used up, so that all of them may come and have the same distance after them.
fn is_same_uncounted(
    node: &Node,
    depth: u32,
    number: u32,
    automaton: &mut Automaton,
    remainders: &mut Remainders,
    source: &Source,
    meter: &mut Meter,
) -> Outcome<bool> {
    let Some((uncounted, bytes)) = automaton.uncounted(number, source, meter)? else {
        return Ok(false);
    };
    Ok(node.longest < u16::MAX
        && u32::from(node.longest) - depth < bytes
        && node.below.is_within(automaton.stays(uncounted, source, meter)?)
        && automaton.distance(uncounted, remainders, meter)? == automaton.distance(number, remainders, meter)?)
}
