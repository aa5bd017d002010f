//! Budgets: the number of tokens that are left, and the tokens that fit into the budget and into those of regions.

use std::sync::Arc;

use crate::base::damage::Guarded;
use crate::base::limits::{Meter, Outcome};
use crate::budgets::remainder::{Kept, Remainders};
use crate::grammar::stack::State;
use crate::masks::compiled::Grammar;
use crate::masks::gather::gather;
use crate::tokens::fitting::{Fitting, Room};

/// Tokens that a sequence must not use, and the remainders computed without them.
struct Avoided {
    tokens: Box<[u32]>,
    remainders: Guarded<Option<Remainders>>,
}

/// The budget of a whole text without a limit.
pub const UNLIMITED: u32 = u32::MAX;

/// The maximum number of tokens of a sequence.
#[derive(Clone)]
pub struct Budget {
    maximum: u32,
    /// None if all tokens may be used; then the remainders are cached with the grammar.
    avoided: Option<Arc<Avoided>>,
}

impl Budget {
    /// Make a budget. `avoided` lists the text tokens that are end ids of this sequence only.
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

    /// Return the room that is left after this many tokens.
    pub fn room(&self, tokens: u32) -> Room {
        let most = match self.maximum {
            UNLIMITED => UNLIMITED,
            maximum => maximum.saturating_sub(tokens),
        };
        Room { tokens, most }
    }

    /// Return a state after this many tokens, without threads that would leave a region too few tokens to end, and the
    /// fewest tokens known to complete it, the end id included. Return None if no thread is left.
    pub fn kept(&self, grammar: &Grammar, state: &Arc<State>, tokens: u32) -> Outcome<Option<(Arc<State>, u32)>> {
        let mut meter = grammar.meter();
        let parts = state.parts();
        if !grammar.has_regions() {
            let distance = self.with_remainders(grammar, &mut meter, |own, meter| own.distance(&parts, meter))?;
            return Ok(Some((state.clone(), distance)));
        }
        let kept = self.with_remainders(grammar, &mut meter, |own, meter| own.kept(&parts, tokens, meter))?;
        Ok(match kept {
            None => None,
            Some(Kept { parts: None, distance }) => Some((state.clone(), distance)),
            Some(Kept {
                parts: Some(parts),
                distance,
            }) => Some((grammar.cache()?.state(parts)?, distance)),
        })
    }

    /// Return the state as `kept` does, but only if the budget has room for its completion.
    pub fn within(&self, grammar: &Grammar, state: &Arc<State>, tokens: u32) -> Outcome<Option<Arc<State>>> {
        let room = self.room(tokens);
        let kept = self.kept(grammar, state, tokens)?;
        Ok(kept.and_then(|(state, distance)| (distance <= room.most).then_some(state)))
    }

    /// Return whether every token that may come after this many surely fits. The check is cheap, and it may return
    /// false although all tokens fit.
    #[inline]
    pub fn is_far(&self, grammar: &Grammar, state: &State, tokens: u32) -> Outcome<bool> {
        if self.avoided.is_some() {
            return Ok(false);
        }
        let room = self.room(tokens + 1);
        let is_far = room.most == UNLIMITED
            || match state.farthest.get() {
                Some(known) => *known <= room.most,
                None => self.find_farthest(grammar, state)? <= room.most,
            };
        Ok(is_far
            && (!grammar.has_regions()
                || match state.quiet_until.get() {
                    Some(known) => room.tokens <= *known,
                    None => room.tokens <= self.find_quiet_until(grammar, state)?,
                }))
    }

    /// Return whether every token surely fits, using only cached results.
    #[inline]
    pub fn is_known_far(&self, grammar: &Grammar, state: &State, tokens: u32) -> bool {
        let room = self.room(tokens + 1);
        self.avoided.is_none()
            && (room.most == UNLIMITED || state.farthest.get().is_some_and(|farthest| *farthest <= room.most))
            && (!grammar.has_regions() || state.quiet_until.get().is_some_and(|until| room.tokens <= *until))
    }

    #[cold]
    fn find_farthest(&self, grammar: &Grammar, state: &State) -> Outcome<u32> {
        let mut meter = grammar.meter();
        let found = self.with_remainders(grammar, &mut meter, |remainders, meter| {
            remainders.farthest(&state.parts(), meter)
        })?;
        Ok(*state.farthest.get_or_init(|| found))
    }

    #[cold]
    fn find_quiet_until(&self, grammar: &Grammar, state: &State) -> Outcome<u32> {
        let mut meter = grammar.meter();
        let found = self.with_remainders(grammar, &mut meter, |remainders, meter| {
            remainders.quiet_until(&state.parts(), meter)
        })?;
        Ok(*state.quiet_until.get_or_init(|| found))
    }

    /// Return the tokens that may come after `state`, grouped by the distance after them.
    pub fn fitting(&self, grammar: &Grammar, state: &Arc<State>) -> Outcome<Arc<Fitting>> {
        let is_shared = self.avoided.is_none();
        if let (true, Some(known)) = (is_shared, grammar.cache()?.fitting(state)) {
            return Ok(known);
        }
        let mut meter = grammar.meter();
        let found = self.with_remainders(grammar, &mut meter, |remainders, meter| {
            let mut gathered =
                grammar.with_automaton(|automaton, source| gather(state, automaton, remainders, source, meter))?;
            for token in grammar.named_tokens(state) {
                if let Some(next) = grammar.after_token(state, token)? {
                    gathered.add_named(token, remainders.reach(&next.parts(), meter)?);
                }
            }
            Ok(Arc::new(
                gathered.finish(grammar.vocabulary().words(), &grammar.memory().masks),
            ))
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
