//! Decides which values of a list's distinct members are counted together. Members with several terms may come, and
//! some of these terms may have values in common.

use std::mem::{size_of, size_of_val};

use super::slack::Slack;
use super::RuleRemainders;
use crate::base::heap;
use crate::base::limits::{Meter, Outcome};
use crate::base::tuning::{MAX_VALUES_OF_OWN_KIND, VALUES_OF_OWN_KIND};
use crate::grammar::members::Members;
use crate::grammar::network::{Network, Position};
use crate::regular::distinct::{kind_of_first, Seen, Value};
use crate::regular::term::Term;
use crate::tokens::lexicon::Lexicon;

/// Values that are counted together.
pub struct Kind {
    /// The kinds of first bytes of these values, see `first_kinds`.
    pub begins: u8,
    /// All of the values, if there are so few that we know which have come.
    pub few: Option<Box<[Value]>>,
    /// Tells whether several terms may have the same values: then each value costs as much as the longest that may be
    /// left.
    pub is_flat: bool,
}

/// The first terminals of a list's distinct members.
pub struct DistinctTerms {
    /// For each way, its first term and the position after it.
    pub by_way: Box<[Option<(Term, u32)>]>,
    pub kinds: Box<[Kind]>,
    /// For each way, where its values are counted.
    pub sources: Box<[Option<Source>]>,
    /// Bounds of the length of a value that is left.
    pub slack: Slack,
}

impl DistinctTerms {
    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        let lists = size_of_val(&*self.by_way) + size_of_val(&*self.kinds) + size_of_val(&*self.sources);
        heap::COUNTS + size_of::<Self>() + lists
    }
}

/// The place where a way's values are counted.
#[derive(Clone)]
pub struct Source {
    pub kind: usize,
    /// The term of the values that are counted.
    pub term: Term,
    /// Ways that meet more conditions with some of the values that this way may have.
    pub better: Vec<u32>,
}

/// A term of distinct members, while the kinds are being computed.
#[derive(Clone)]
struct Language {
    term: Term,
    begins: u8,
    ways: Vec<u32>,
    /// All values of the term, if they are few.
    few: Option<Vec<Value>>,
}

impl RuleRemainders {
    /// Compute the kinds of a list's values, and the kind of each way's values.
    pub(super) fn find_kinds(
        &mut self,
        terms: &mut DistinctTerms,
        list: &Members,
        network: &Network,
        meter: &mut Meter,
    ) -> Outcome<()> {
        let most = list
            .still_needed(&list.first())
            .clamp(VALUES_OF_OWN_KIND, MAX_VALUES_OF_OWN_KIND) as usize;
        let mut languages: Vec<Language> = Vec::new();
        for (way, term) in (0..).zip(&terms.by_way) {
            let Some((term, _)) = *term else {
                continue;
            };
            if let Some(known) = languages.iter_mut().find(|known| known.term == term) {
                known.ways.push(way);
                continue;
            }
            languages.push(Language {
                term,
                begins: first_kinds(term, &self.lexicon, meter)?,
                ways: vec![way],
                few: None,
            });
        }
        let mut kinds: Vec<Kind> = Vec::new();
        if languages.len() > 1 {
            for language in &mut languages {
                let values = self.values(language.term, most + 1, meter)?;
                language.few = (values.lengths.len() <= most).then(|| values.found.clone());
            }
        }
        for group in self.groups(languages, meter)? {
            let apart = match group.len() {
                1 => None,
                _ => self.told_apart(&group, list, terms, network, meter)?,
            };
            for (kind, ways) in apart.unwrap_or_else(|| vec![together(&group)]) {
                for (way, term, better) in ways {
                    let kind = kinds.len();
                    terms.sources[way as usize] = Some(Source { kind, term, better });
                }
                kinds.push(kind);
            }
        }
        terms.kinds = kinds.into();
        Ok(())
    }

    /// Divide terms into groups, such that terms of different groups have no value in common.
    fn groups(&mut self, languages: Vec<Language>, meter: &mut Meter) -> Outcome<Vec<Vec<Language>>> {
        let mut groups: Vec<Vec<Language>> = Vec::new();
        for language in languages {
            let mut group = Vec::new();
            let mut apart = Vec::new();
            for other in groups {
                let mut is_shared = false;
                for known in &other {
                    is_shared = is_shared || self.may_share(known, &language, meter)?;
                }
                if is_shared {
                    group.extend(other);
                } else {
                    apart.push(other);
                }
            }
            group.push(language);
            apart.push(group);
            groups = apart;
        }
        Ok(groups)
    }

    /// Return whether two terms may have a value in common.
    fn may_share(&mut self, one: &Language, other: &Language, meter: &mut Meter) -> Outcome<bool> {
        if one.begins & other.begins == 0 {
            return Ok(false);
        }
        match (&one.few, &other.few) {
            (Some(few), Some(others)) => Ok(few.iter().any(|value| others.contains(value))),
            (Some(few), None) => self.lexicon.has_some(other.term, &set_of(few), meter),
            (None, Some(few)) => self.lexicon.has_some(one.term, &set_of(few), meter),
            (None, None) => Ok(true),
        }
    }

    /// Return separate kinds for terms with common values, if for each of the few values one way is the best. Values
    /// that come in any other way are counted without them.
    fn told_apart(
        &mut self,
        group: &[Language],
        list: &Members,
        terms: &DistinctTerms,
        network: &Network,
        meter: &mut Meter,
    ) -> Outcome<Option<Vec<(Kind, OwnWays)>>> {
        let each = group.iter().flat_map(|language| {
            let alone = |way: &u32| Language {
                ways: vec![*way],
                ..language.clone()
            };
            language.ways.iter().map(alone)
        });
        let group: Vec<Language> = each.collect();
        let is_whole = |language: &Language| {
            let way = language.ways[0] as usize;
            let after = terms.by_way[way].map(|(_, next)| network.position(next));
            list.ways[way].member == list.ways[group[0].ways[0] as usize].member
                && matches!(after, Some(Position::Value { next, .. })
                    if matches!(network.position(*next), Position::Came { .. }))
        };
        if !list.once.is_empty() || !group.iter().all(is_whole) {
            return Ok(None);
        }
        let meets = |language: &Language| &list.ways[language.ways[0] as usize].meets;
        let is_better = |one: &Language, other: &Language| meets(other).iter().all(|bit| meets(one).contains(bit));
        let (few, many): (Vec<_>, Vec<_>) = group.iter().partition(|language| language.few.is_some());
        let has = |language: &Language, value: &Value| language.few.as_ref().is_some_and(|few| few.contains(value));
        let all = few.iter().flat_map(|language| language.few.iter().flatten());
        let mut best: Vec<(&Value, usize)> = Vec::new();
        for value in all {
            if best.iter().any(|(known, _)| *known == value) {
                continue;
            }
            let of_all = |one: &&Language| few.iter().all(|other| !has(other, value) || is_better(one, other));
            let Some(found) = few.iter().position(|one| has(one, value) && of_all(one)) else {
                return Ok(None);
            };
            best.push((value, found));
        }
        meter.work(best.len() * best.len() + 1)?;
        let known = set_of(best.iter().map(|(value, _)| *value));
        let mut kinds = Vec::new();
        for (index, language) in few.iter().enumerate() {
            let own = best
                .iter()
                .filter(|(_, found)| *found == index)
                .map(|(value, _)| (*value).clone());
            let own: Box<[Value]> = own.collect();
            let set = set_of(own.iter());
            for other in &many {
                if !own.is_empty() && !is_better(language, other) && self.lexicon.has_some(other.term, &set, meter)? {
                    return Ok(None);
                }
            }
            let others = best
                .iter()
                .filter(|(value, found)| *found != index && has(language, value));
            let mut better: Vec<u32> = others.map(|(_, found)| few[*found].ways[0]).collect();
            better.sort_unstable();
            better.dedup();
            let others = best.iter().filter(|(_, found)| *found != index);
            let others = set_of(others.map(|(value, _)| *value));
            let term = self.lexicon.without(language.term, &others, meter)?;
            let kind = Kind {
                begins: language.begins,
                few: Some(own),
                is_flat: false,
            };
            kinds.push((kind, vec![(language.ways[0], term, better)]));
        }
        let mut ways = Vec::new();
        for language in &many {
            let term = self.lexicon.without(language.term, &known, meter)?;
            let better = few.iter().map(|language| language.ways[0]).collect();
            ways.push((language.ways[0], term, better));
        }
        let kind = Kind {
            begins: many.iter().fold(0, |begins, language| begins | language.begins),
            few: None,
            is_flat: many.len() > 1,
        };
        kinds.push((kind, ways));
        Ok(Some(kinds))
    }
}

/// Ways, each with the term of its counted values and the ways that are better for other values.
type OwnWays = Vec<(u32, Term, Vec<u32>)>;

/// Return one kind for terms that have no separate kinds.
fn together(group: &[Language]) -> (Kind, OwnWays) {
    let kind = Kind {
        begins: group.iter().fold(0, |begins, language| begins | language.begins),
        few: match group {
            [language] => language.few.clone().map(Vec::into_boxed_slice),
            _ => None,
        },
        is_flat: group.len() > 1,
    };
    let each = group
        .iter()
        .flat_map(|language| language.ways.iter().map(|way| (*way, language.term, Vec::new())));
    (kind, each.collect())
}

fn set_of<'a>(values: impl IntoIterator<Item = &'a Value>) -> Seen {
    values.into_iter().fold(Seen::default(), |seen, value| seen.with(value))
}

/// Return the kinds of first bytes of a term's texts, as bits: see `Seen::counts`.
pub fn first_kinds(term: Term, lexicon: &Lexicon, meter: &mut Meter) -> Outcome<u8> {
    let mut kinds = 0;
    for byte in lexicon.row(term, meter)?.live_bytes().iter() {
        kinds |= 1 << kind_of_first(byte);
    }
    Ok(kinds)
}
