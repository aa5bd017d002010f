//! How classes are worked out: by a walk over the vocabulary's trie, or from the class of a state that is alike.

use std::sync::Arc;

use crate::base::limits::{Meter, Outcome};
use crate::base::order::{pair, places_by};
use crate::regular::term::{Kind, Term, UNBOUNDED};
use crate::tokens::class::{Class, Cut, End, Rest};
use crate::tokens::lexicon::{Lexicon, Step};
use crate::tokens::rounds::{rounds, whole_rounds};
use crate::tokens::token_ids::without;
use crate::tokens::walk::{Like, States, Walk};

/// The class of a state is worked out from those of at most this many others.
const MOST_COMPARED: u32 = 6;

/// Counts that take fewer bytes are not worth a detour where completions have to be searched for. Where it is known how long
/// those are, it is enough if a count takes some more bytes than that.
const MANY_ROUNDS: u32 = 32;
const SEVERAL_ROUNDS: u32 = 8;

/// Where so large a part of the vocabulary's trie would have to be walked again behind a term, classes are not composed.
const LARGE_PART: usize = 4;

/// What `state` means for the tokens of the vocabulary.
pub fn class(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Arc<Class>> {
    class_by(lexicon, state, MOST_COMPARED, meter)
}

/// Whether the class of `state` is not known, and would be worked out by a walk over the whole trie.
pub fn takes_whole_walk(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<bool> {
    if !lexicon.uncertain(state)? || lexicon.known_class(state)?.is_some() {
        return Ok(false);
    }
    if let Some(main) = main_state(lexicon, state, meter)? {
        return Ok(lexicon.known_class(main)?.is_none());
    }
    let head = {
        let mut derivatives = lexicon.derivatives()?;
        let head = match *derivatives.terms.kind(state) {
            Kind::Concatenation(head, _) => head,
            _ => state,
        };
        let is_one = matches!(
            derivatives.terms.kind(head),
            Kind::Intersection(_) | Kind::Alternation(_)
        );
        if !is_one || derivatives.uncounted(head, meter)?.0 != head {
            return Ok(false);
        }
        head
    };
    Ok(lexicon.known_class(head)?.is_none())
}

/// The class of `state` as far as it is about tokens that end at some nodes, which ascend; it says less of others.
pub fn class_for(lexicon: &Lexicon, state: Term, nodes: &[u32], meter: &mut Meter) -> Outcome<Arc<Class>> {
    let mut walk = Walk::new(lexicon, state, None, meter)?;
    walk.pass_over_all_but(nodes);
    walk.walk_trie(meter)?;
    walk.finish(meter).map(Arc::new)
}

/// The class of the terminal of `class` and one in `state` behind it.
pub fn then(class: &Class, lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Arc<Class>> {
    if let Some(class) = class.followed(state)? {
        return Ok(class);
    }
    let mut walk = Walk::new(lexicon, state, None, meter)?;
    follow(&mut walk, class, lexicon, state, meter, |_, _| Ok(true))?;
    let both = Arc::new(walk.finish(meter)?);
    class.keep_followed(state, &both)?;
    Ok(both)
}

/// Walk from `state` along the rests of the tokens that cross the end of the terminal of `class`, where `is_end` allows it.
fn follow(
    walk: &mut Walk,
    class: &Class,
    lexicon: &Lexicon,
    state: Term,
    meter: &mut Meter,
    mut is_end: impl FnMut(&Rest, &mut Meter) -> Outcome<bool>,
) -> Outcome<()> {
    let firsts = lexicon.first_bytes([state].into_iter(), meter)?;
    let found = class.rests(&lexicon.vocabulary.trie, &firsts, meter)?;
    let rests: Vec<_> = found.iter().flat_map(|rests| &rests.all).collect();
    for place in places_by(rests.iter().map(|rest| pair(rest.node, rest.depth))) {
        let rest = rests[place];
        if is_end(rest, meter)? {
            walk.rest(rest.node, rest.depth, rest.node_depth, meter)?;
        }
    }
    Ok(())
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
    let (uncounted, bytes) = lexicon.derivatives()?.uncounted(state, meter)?;
    // Without its counts a pattern of limited length is the pattern alone: it is the form with them that matters.
    let uncertain = lexicon.uncertain(state)?;
    // Where emptiness is plain from the form, no count that is out of reach can decide about anything.
    if uncounted != state && !uncertain && lexicon.vocabulary.longest < bytes {
        return class_by(lexicon, uncounted, compared, meter);
    }
    if let Some(main) = main_state(lexicon, state, meter)? {
        let class = class_by(lexicon, main, compared, meter)?;
        let like = Like::State(&class, lexicon.row(main, meter)?);
        return match uncertain {
            true => with_slack(lexicon, state, like, main, meter),
            false => walked(lexicon, state, Some(like), meter),
        };
    }
    if let Some((head, tail)) = parts(lexicon, state, meter)? {
        if let Some(class) = bounded(lexicon, (head, tail), compared, meter)? {
            return Ok(Arc::new(class));
        }
        let class = class_by(lexicon, head, compared, meter)?;
        if is_followed_easily(lexicon, &class, tail, meter)? {
            let mut walk = Walk::new(lexicon, tail, None, meter)?;
            walk.begin_inside(&class.inside);
            walk_tail(&mut walk, lexicon, &class, (head, tail), meter)?;
            return walk.finish(meter).map(Arc::new);
        }
    }
    if let Some(free) = without_minimum(lexicon, state, meter)? {
        let class = class_by(lexicon, free, compared, meter)?;
        return with_minimum(lexicon, &class, state, meter).map(Arc::new);
    }
    let is_close = uncertain && bytes < MANY_ROUNDS && {
        let slack = lexicon.known_class(uncounted)?.and_then(|class| class.known_slack());
        slack.map_or(true, |slack| slack + SEVERAL_ROUNDS >= bytes)
    };
    if uncounted == state || is_close {
        return walked(lexicon, state, None, meter);
    }
    let class = class_by(lexicon, uncounted, compared, meter)?;
    let slack = match uncertain {
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
    match uncertain {
        true => with_slack(lexicon, state, like, uncounted, meter),
        false => walked(lexicon, state, Some(like), meter),
    }
}

/// The other state that `state` soon leads to, and which most bytes do not leave: what is inside of a text, say.
fn main_state(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Option<Term>> {
    match lexicon.row(state, meter)?.main_target() {
        Some(main) if main != state => Ok((lexicon.row(main, meter)?.main_target() == Some(main)).then_some(main)),
        _ => Ok(None),
    }
}

/// A term that many bytes do not leave, such as the inside of a text, and what has to follow it.
///
/// What stays inside the first part is the same whatever follows, so that its class is worked out once.
fn parts(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Option<(Term, Term)>> {
    let (head, tail) = {
        let terms = &lexicon.derivatives()?.terms;
        match *terms.kind(state) {
            Kind::Concatenation(head, tail)
                if matches!(terms.kind(head), Kind::Repeat { .. } | Kind::Intersection(_)) && !terms.nullable(tail) =>
            {
                (head, tail)
            }
            _ => return Ok(None),
        }
    };
    Ok(lexicon.row(head, meter)?.main_target().map(|_| (head, tail)))
}

/// Whether the rests of the tokens that cross the end of the terminal of `class` are few that may go on with `tail`.
fn is_followed_easily(lexicon: &Lexicon, class: &Class, tail: Term, meter: &mut Meter) -> Outcome<bool> {
    let trie = &lexicon.vocabulary.trie;
    let firsts = lexicon.first_bytes([tail].into_iter(), meter)?;
    let rests = class.rests(trie, &firsts, meter)?;
    let weight: usize = rests.iter().map(|rests| rests.weight).sum();
    Ok(weight < trie.nodes().len() / LARGE_PART)
}

/// Walk from `tail` along the tokens that cross the end of `head`, whose class is given.
fn walk_tail(
    walk: &mut Walk,
    lexicon: &Lexicon,
    class: &Class,
    (head, tail): (Term, Term),
    meter: &mut Meter,
) -> Outcome<()> {
    if lexicon.derivatives()?.terms.nullable(head) {
        walk.walk_trie(meter)?;
    }
    follow(walk, class, lexicon, tail, meter, |_, _| Ok(true))
}

/// The class of a repetition with an upper bound, and a tail that begins otherwise than a round does: of the tokens of the
/// repetition without bounds those that take few enough rounds, and what follows where the number of rounds is allowed.
fn bounded(lexicon: &Lexicon, (head, tail): (Term, Term), compared: u32, meter: &mut Meter) -> Outcome<Option<Class>> {
    let (item, bounds, free) = {
        let terms = &mut lexicon.derivatives()?.terms;
        match *terms.kind(head) {
            Kind::Repeat { item, minimum, maximum } if maximum != UNBOUNDED && !terms.nullable(item) => {
                (item, minimum..=maximum, terms.repeat(item, 0, UNBOUNDED))
            }
            _ => return Ok(None),
        }
    };
    let firsts = lexicon.first_bytes([tail].into_iter(), meter)?;
    let is_clear = firsts.intersection(lexicon.row(item, meter)?.live_bytes()).is_empty();
    if !is_clear || lexicon.row(free, meter)?.main_target().is_none() {
        return Ok(None);
    }
    let class = class_by(lexicon, free, compared, meter)?;
    if !is_followed_easily(lexicon, &class, tail, meter)? {
        return Ok(None);
    }
    let Some(known) = class.rounds(|| rounds(lexicon, item, meter))? else {
        return Ok(None);
    };
    let firsts = class.rests(&lexicon.vocabulary.trie, &firsts, meter)?;
    let deepest = firsts.iter().flat_map(|rests| &rests.all).map(|rest| rest.depth).max();
    if *bounds.start() == 0 && deepest <= Some(*bounds.end()) {
        let whole = lexicon.derivatives()?.terms.concatenation(free, tail);
        let class = class_by(lexicon, whole, compared, meter)?;
        let inside = without(&class.inside, known.beyond(*bounds.end()), lexicon);
        return Ok(Some(class.with_inside(inside)));
    }
    let mut walk = Walk::new(lexicon, tail, None, meter)?;
    walk.begin_inside(&without(&class.inside, known.beyond(*bounds.end()), lexicon));
    if *bounds.start() == 0 {
        walk.walk_trie(meter)?;
    }
    follow(&mut walk, &class, lexicon, tail, meter, |rest, meter| {
        let before = &lexicon.vocabulary.token_at(rest.node)[..rest.depth as usize];
        Ok(bounds.contains(&whole_rounds(lexicon, item, before, meter)?))
    })?;
    walk.finish(meter).map(Some)
}

/// A repetition without its lower bound, which makes no difference to the tokens that stay inside.
fn without_minimum(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Option<Term>> {
    let free = {
        let terms = &mut lexicon.derivatives()?.terms;
        match *terms.kind(state) {
            Kind::Repeat {
                item,
                minimum: 1..,
                maximum,
            } => terms.repeat(item, 0, maximum),
            _ => return Ok(None),
        }
    };
    Ok(lexicon.row(free, meter)?.main_target().map(|_| free))
}

/// The class of `state`, which differs in its ends alone from the class given: it has fewer.
fn with_minimum(lexicon: &Lexicon, class: &Class, state: Term, meter: &mut Meter) -> Outcome<Class> {
    let vocabulary = &lexicon.vocabulary;
    let (mut cuts, mut ends): (Vec<Cut>, Vec<End>) = (Vec::new(), Vec::new());
    // Tokens follow each other in order, so the way of one begins with most of the way of the one before.
    let (mut way, mut followed): (Vec<Step>, &[u8]) = (Vec::new(), &[]);
    let mut steps = 0;
    for (cut, candidates) in class.cuts_between(0, u32::MAX) {
        let first_end = ends.len() as u32;
        let mut candidates = candidates.iter().peekable();
        let token = &vocabulary.token_at(cut.node)[..cut.depth as usize - 1];
        way.truncate(
            token
                .iter()
                .zip(followed)
                .take_while(|(byte, other)| byte == other)
                .count(),
        );
        followed = token;
        for (depth, byte) in (1..).zip(token) {
            if way.len() < depth as usize {
                let from = way.last().map_or(state, |step| step.state);
                way.push(lexicon.row(from, meter)?.step(*byte));
                steps += 1;
            }
            let end = candidates.next_if(|end| end.depth == depth);
            ends.extend(end.filter(|_| way[depth as usize - 1].accepts));
            if candidates.peek().is_none() {
                break;
            }
        }
        let last_end = ends.len() as u32;
        if last_end > first_end {
            cuts.push(Cut {
                first_end,
                last_end,
                ..*cut
            });
        }
    }
    meter.work(steps / 16 + 1)?;
    Ok(Class::from_parts(class.inside.clone(), cuts, ends, &lexicon.owner))
}

fn walked(lexicon: &Lexicon, state: Term, like: Option<Like>, meter: &mut Meter) -> Outcome<Arc<Class>> {
    let mut walk = Walk::new(lexicon, state, like, meter)?;
    // Where it goes on like another one, the same states are met.
    let others = like.map_or(Some(&[][..]), |like| like.class().met.as_deref());
    walk.states = others.map(|others| States::of(state).with(others));
    walk.walk_trie(meter)?;
    let met = walk.states.take();
    let mut class = walk.finish(meter)?;
    class.keep_met(met.map(|states| states.all.into()));
    Ok(Arc::new(class))
}

/// The class of a state like that of another one, and its slack: wherever a token leaves both alike, the other one's is
/// enough, which is known, or worked out once.
fn with_slack(lexicon: &Lexicon, state: Term, like: Like, other: Term, meter: &mut Meter) -> Outcome<Arc<Class>> {
    let common = slack(lexicon, like.class(), other, meter)?;
    let mut walk = Walk::new(lexicon, state, Some(like), meter)?;
    let own = longest_way(lexicon, &mut walk, state, meter, Walk::walk_trie)?;
    let class = walk.finish(meter)?;
    class.keep_slack(common.max(own));
    Ok(Arc::new(class))
}

/// How many bytes are missing at most to a match of `state`, whose class is given, after whatever token that stays inside.
fn slack(lexicon: &Lexicon, class: &Class, state: Term, meter: &mut Meter) -> Outcome<u32> {
    if let Some(slack) = class.known_slack() {
        return Ok(slack);
    }
    let known = |(head, tail)| Ok(lexicon.known_class(head)?.map(|class| (class, head, tail)));
    if let Some((before, head, tail)) = parts(lexicon, state, meter)?.map_or(Ok(None), known)? {
        if is_followed_easily(lexicon, &before, tail, meter)? {
            // Wherever the first part may be left open, all of the second one is missing too.
            let open = slack(lexicon, &before, head, meter)?;
            let whole = lexicon.longest_way([tail].into_iter(), meter)?;
            let mut walk = Walk::new(lexicon, tail, None, meter)?;
            let beyond = longest_way(lexicon, &mut walk, tail, meter, |walk, meter| {
                walk_tail(walk, lexicon, &before, (head, tail), meter)
            })?;
            return Ok(class.keep_slack(beyond.max(open.saturating_add(whole))));
        }
    }
    let slack = match &class.met {
        Some(met) => lexicon.longest_way(met.iter().copied(), meter)?,
        None => {
            let mut walk = Walk::new(lexicon, state, None, meter)?;
            longest_way(lexicon, &mut walk, state, meter, Walk::walk_trie)?
        }
    };
    Ok(class.keep_slack(slack))
}

/// The longest way to a match from any state that is met on a walk from `state`.
fn longest_way<'a>(
    lexicon: &'a Lexicon,
    walk: &mut Walk<'a>,
    state: Term,
    meter: &mut Meter,
    along: impl FnOnce(&mut Walk<'a>, &mut Meter) -> Outcome<()>,
) -> Outcome<u32> {
    walk.states = Some(States::of(state));
    along(walk, meter)?;
    let met = walk.states.take().unwrap_or_default();
    lexicon.longest_way(met.all.into_iter(), meter)
}
