//! Computes classes: by a walk over the vocabulary's trie, or from the class of a similar state.

use std::sync::Arc;

use crate::base::limits::{Meter, Outcome};
use crate::base::order::{pair, places_by};
use crate::base::tuning::MAX_CLASSES_COMPARED;
use crate::regular::term::{Kind, Term, UNBOUNDED};
use crate::tokens::class::{Class, Cut, End, Rest};
use crate::tokens::lexicon::{Lexicon, Step};
use crate::tokens::rounds::{rounds, whole_rounds};
use crate::tokens::token_ids::without;
use crate::tokens::walk::{Like, States, Walk};

/// Minimum number of bytes that a count must allow before its class is derived from the class without counts, if
/// completions have to be searched for.
const BYTES_IF_SEARCHED: u32 = 32;
/// If the length of completions is known, a count needs only this many more bytes than that length.
const BYTES_BEYOND_SLACK: u32 = 8;

/// If a second walk behind a term would visit at least one part in this many of the vocabulary's trie, classes are not
/// composed.
const SECOND_WALK_SHARE: usize = 4;

/// Return the class of `state`: the effect of each token of the vocabulary.
pub fn class(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Arc<Class>> {
    class_by(lexicon, state, MAX_CLASSES_COMPARED, meter)
}

/// Return whether the class of `state` is unknown and would take a walk over the whole trie.
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

/// Compute the class of `state` for the tokens that end at these nodes, which must be in ascending order. The class is
/// incomplete for other tokens.
pub fn class_for(lexicon: &Lexicon, state: Term, nodes: &[u32], meter: &mut Meter) -> Outcome<Arc<Class>> {
    let mut walk = Walk::new(lexicon, state, None, meter)?;
    walk.pass_over_all_but(nodes);
    walk.walk_trie(meter)?;
    walk.finish(meter).map(Arc::new)
}

/// Return the class of the terminal of `class` followed by one in `state`.
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

/// Walk from `state` along the remainders of the tokens that cross the end of the terminal of `class`, where `is_end`
/// allows that end.
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

/// Return the class of `state`, computed through a chain of at most `compared` other states.
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
    // The limit prevents an endless loop: each of two states may be similar to the other.
    let Some(compared) = compared.checked_sub(1) else {
        return walked(lexicon, state, None, meter);
    };
    let (uncounted, bytes) = lexicon.derivatives()?.uncounted(state, meter)?;
    // Without its counts, a pattern of limited length is only the pattern: `uncertain` must see the form with counts.
    let uncertain = lexicon.uncertain(state)?;
    // If the term's form shows whether it is empty, a count beyond the longest token cannot change any result.
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
    let is_close = uncertain && bytes < BYTES_IF_SEARCHED && {
        let slack = lexicon.known_class(uncounted)?.and_then(|class| class.known_slack());
        slack.map_or(true, |slack| slack + BYTES_BEYOND_SLACK >= bytes)
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

/// Return another state that `state` soon leads to and that leads to itself with most bytes, for example the inside of
/// a string.
fn main_state(lexicon: &Lexicon, state: Term, meter: &mut Meter) -> Outcome<Option<Term>> {
    match lexicon.row(state, meter)?.main_target() {
        Some(main) if main != state => Ok((lexicon.row(main, meter)?.main_target() == Some(main)).then_some(main)),
        _ => Ok(None),
    }
}

/// Split a term into a head that leads to itself with many bytes, for example the inside of a string, and the tail that
/// has to follow.
///
/// The tokens that stay inside the head do not depend on the tail, so the head's class is computed once.
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

/// Return whether only few remainders of the tokens that cross the end of the terminal of `class` may go on with
/// `tail`.
fn is_followed_easily(lexicon: &Lexicon, class: &Class, tail: Term, meter: &mut Meter) -> Outcome<bool> {
    let trie = &lexicon.vocabulary.trie;
    let firsts = lexicon.first_bytes([tail].into_iter(), meter)?;
    let rests = class.rests(trie, &firsts, meter)?;
    let weight: usize = rests.iter().map(|rests| rests.weight).sum();
    Ok(weight < trie.nodes().len() / SECOND_WALK_SHARE)
}

/// Walk from `tail` along the tokens that cross the end of `head`; `class` is the class of `head`.
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

/// Compute the class of a bounded repetition whose tail begins with other bytes than a round does. From the class of
/// the unbounded repetition it keeps the tokens that take few enough rounds, and it follows the tail where the number
/// of rounds is allowed.
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

/// Return a repetition without its lower bound, which has no effect on the tokens that stay inside.
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

/// Return the class of `state` from the given class, which differs only in that it has more ends.
fn with_minimum(lexicon: &Lexicon, class: &Class, state: Term, meter: &mut Meter) -> Outcome<Class> {
    let vocabulary = &lexicon.vocabulary;
    let (mut cuts, mut ends): (Vec<Cut>, Vec<End>) = (Vec::new(), Vec::new());
    // Tokens are sorted, so the path of each shares most of its beginning with the path of the token before it.
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
    // Where this state continues like the similar one, the walk meets the same states.
    let others = like.map_or(Some(&[][..]), |like| like.class().met.as_deref());
    walk.states = others.map(|others| States::of(state).with(others));
    walk.walk_trie(meter)?;
    let met = walk.states.take();
    let mut class = walk.finish(meter)?;
    class.keep_met(met.map(|states| states.all.into()));
    Ok(Arc::new(class))
}

/// Compute the class of a state from that of a similar one, and its slack. Where both states lead to the same state,
/// the slack of the other state bounds this one; it is cached or computed once.
fn with_slack(lexicon: &Lexicon, state: Term, like: Like, other: Term, meter: &mut Meter) -> Outcome<Arc<Class>> {
    let common = slack(lexicon, like.class(), other, meter)?;
    let mut walk = Walk::new(lexicon, state, Some(like), meter)?;
    let own = longest_way(lexicon, &mut walk, state, meter, Walk::walk_trie)?;
    let class = walk.finish(meter)?;
    class.keep_slack(common.max(own));
    Ok(Arc::new(class))
}

/// Return the maximum number of bytes that a match of `state` still needs after any token that stays inside; `class` is
/// the class of `state`.
fn slack(lexicon: &Lexicon, class: &Class, state: Term, meter: &mut Meter) -> Outcome<u32> {
    if let Some(slack) = class.known_slack() {
        return Ok(slack);
    }
    let known = |(head, tail)| Ok(lexicon.known_class(head)?.map(|class| (class, head, tail)));
    if let Some((before, head, tail)) = parts(lexicon, state, meter)?.map_or(Ok(None), known)? {
        if is_followed_easily(lexicon, &before, tail, meter)? {
            // Wherever the head may be incomplete, all of the tail is missing as well.
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

/// Return the maximum distance to a match over all states that a walk from `state` meets.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Usage;
    use crate::tokens::trie::tests::vocabulary;

    #[test]
    fn example_class_of_a_terminal() {
        let usage = Usage::default();
        let mut meter = Meter::new(10_000, &usage, 1_000);
        let lexicon = Lexicon::new(vocabulary(&["a", "ab", "abc", "b"]));
        let ab = lexicon.derivatives().unwrap().terms.literal(b"ab");
        let class = class(&lexicon, ab, &mut meter).unwrap();
        // "a" and "ab" stay inside the terminal; "abc" crosses its end, and what follows decides about it.
        assert_eq!(class.inside.ids().collect::<Vec<_>>(), [0, 1]);
        assert!(class.has_rests());
    }
}
