//! How classes are worked out: by a walk over the vocabulary's trie, or from the class of a state that is alike.

use std::sync::Arc;

use crate::class::Class;
use crate::hash::FastSet;
use crate::lexicon::Lexicon;
use crate::limits::{Meter, Outcome};
use crate::term::Term;
use crate::walk::{Like, Walk};

/// The class of a state is worked out from those of at most this many others.
const MOST_COMPARED: u32 = 4;

/// What `state` means for the tokens of the vocabulary.
pub fn class(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Arc<Class>> {
    class_by(lexicon, state, MOST_COMPARED, meter)
}

/// The class of the terminal of `class` and one in `state` behind it.
pub fn then(class: &Class, lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Arc<Class>> {
    if let Some(class) = class.followed(state)? {
        return Ok(class);
    }
    let firsts = lexicon.first_bytes([state].into_iter(), meter)?;
    let mut walk = Walk::new(lexicon, state, None, meter)?;
    let found = class.rests(&lexicon.vocabulary.trie, &firsts, meter)?;
    let mut rests: Vec<_> = found.iter().flat_map(|rests| rests.all.iter().copied()).collect();
    rests.sort_unstable_by_key(|rest| (rest.node, rest.depth));
    for rest in rests {
        walk.rest(rest.node, rest.depth, rest.node_depth, meter)?;
    }
    let both = Arc::new(walk.finish(meter)?);
    class.keep_followed(state, &both)?;
    Ok(both)
}

/// The class of `state`, by comparison with those of at most `compared` other states, one by the other.
fn class_by(lexicon: &Lexicon, state: Term, compared: u32, meter: &mut Meter) -> Outcome<Arc<Class>> {
    if let Some(class) = lexicon.known_class(state)? {
        return Ok(class);
    }
    let class = make(lexicon, state, compared, meter)?;
    if Arc::strong_count(&class) == 1 {
        lexicon.owner.count(class.bytes());
    }
    lexicon.keep_class(state, &class)?;
    Ok(class)
}

fn make(lexicon: &Lexicon, state: Term, compared: u32, meter: &mut Meter) -> Outcome<Arc<Class>> {
    // Two states may each be like the other.
    let Some(compared) = compared.checked_sub(1) else {
        return walked(lexicon, state, None, meter);
    };
    // Many states soon lead to one that most bytes do not leave: what is inside of a text, say.
    if let Some(main) = lexicon.row(state, meter)?.main_target().filter(|main| *main != state) {
        if lexicon.row(main, meter)?.main_target() == Some(main) {
            let class = class_by(lexicon, main, compared, meter)?;
            let like = Like::State(&class, lexicon.row(main, meter)?);
            return match lexicon.uncertain(state)? {
                true => with_slack(lexicon, state, like, main, meter),
                false => walked(lexicon, state, Some(like), meter),
            };
        }
    }
    let (uncounted, bytes) = lexicon.derivatives()?.uncounted(state, meter)?;
    if uncounted == state {
        return walked(lexicon, state, None, meter);
    }
    let class = class_by(lexicon, uncounted, compared, meter)?;
    // Where emptiness is plain from the form, no count can decide about it.
    let slack = match lexicon.uncertain(uncounted)? {
        true => slack(lexicon, &class, uncounted, meter)?,
        false => 0,
    };
    if lexicon.vocabulary.longest.saturating_add(slack) < bytes {
        return Ok(class);
    }
    let like = Like::Uncounted {
        class: &class,
        row: lexicon.row(uncounted, meter)?,
        slack,
        bytes,
    };
    walked(lexicon, state, Some(like), meter)
}

fn walked(lexicon: &Lexicon, state: Term, like: Option<Like>, meter: &mut Meter) -> Outcome<Arc<Class>> {
    Walk::new(lexicon, state, like, meter)?.all(meter).map(Arc::new)
}

/// The class of a state like another one, and the slack on the way: that of the other class's `main` state is known, or
/// is worked out once.
fn with_slack(lexicon: &Lexicon, state: Term, like: Like, main: Term, meter: &mut Meter) -> Outcome<Arc<Class>> {
    let common = slack(lexicon, like.class(), main, meter)?;
    let mut walk = Walk::new(lexicon, state, Some(like), meter)?;
    let own = longest_way(lexicon, &mut walk, state, meter)?;
    let class = walk.finish(meter)?;
    class.keep_slack(common.max(own));
    Ok(Arc::new(class))
}

/// How many bytes are missing at most to a match of `state`, whose class is given, after whatever token that stays inside.
fn slack(lexicon: &Lexicon, class: &Class, state: Term, meter: &mut Meter) -> Outcome<u32> {
    if let Some(slack) = class.known_slack() {
        return Ok(slack);
    }
    let mut walk = Walk::new(lexicon, state, None, meter)?;
    let slack = longest_way(lexicon, &mut walk, state, meter)?;
    Ok(class.keep_slack(slack))
}

/// Walk the whole trie from `state`; the longest way to a match from any state that was met.
fn longest_way(lexicon: &Lexicon, walk: &mut Walk, state: Term, meter: &mut Meter) -> Outcome<u32> {
    walk.states = Some(FastSet::from_iter([state]));
    walk.subtrees(0, lexicon.vocabulary.trie.nodes().len(), meter)?;
    let states = std::mem::take(&mut walk.states);
    lexicon.longest_way(states.into_iter().flatten(), meter)
}
