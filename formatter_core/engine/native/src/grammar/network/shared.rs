//! Rules that many grammars share: their positions are built once and copied into each network.

use std::mem::{size_of, size_of_val};
use std::sync::{Arc, Weak};

use super::solve::{is_all, solve, NOT_NULLABLE, NULLABLE};
use super::{may_be_empty, Builder, Draft, Position, END};
use crate::base::hash::FastMap;
use crate::base::heap;
use crate::base::limits::{Fault, Limit, Outcome};
use crate::base::tuning::{MAX_TEMPLATES, MAX_TEMPLATE_PROGRAM};
use crate::grammar::decode::Item;
use crate::tokens::lexicon::Lexicon;

/// The positions of rules that use no other rules, without `END`. Rules and positions are numbered as if there were no
/// others.
pub struct Template {
    positions: Box<[Position]>,
    places: Box<[u32]>,
    starts: Box<[u32]>,
    facts: Box<[u8]>,
}

impl Template {
    /// Return the bytes on the heap, see `heap`.
    fn heap(&self) -> usize {
        let places = size_of_val(&*self.places) + size_of_val(&*self.starts) + size_of_val(&*self.facts);
        heap::COUNTS + size_of::<Self>() + size_of_val(&*self.positions) + places
    }
}

/// The templates of programs, with terms of one lexicon.
#[derive(Default)]
pub struct Templates {
    lexicon: Weak<Lexicon>,
    known: FastMap<Box<[u8]>, Arc<Template>>,
    /// Heap bytes of the entries.
    inner: usize,
}

impl Templates {
    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        heap::table(&self.known) + self.inner
    }

    /// Drop the templates if their terms belong to another lexicon.
    pub fn serve(&mut self, lexicon: &Arc<Lexicon>) {
        if !std::ptr::eq(self.lexicon.as_ptr(), Arc::as_ptr(lexicon)) {
            self.known.clear();
            self.inner = 0;
            self.lexicon = Arc::downgrade(lexicon);
        }
    }
}

impl Builder<'_, '_> {
    /// Add the positions of the rules with these programs.
    pub fn add_shared(&mut self, programs: &[u8]) -> Outcome<()> {
        let template = match self.draft.templates.known.get(programs) {
            Some(known) => known.clone(),
            None => self.new_template(programs)?,
        };
        let draft = &mut *self.draft;
        let (place, rule) = (draft.positions.len() as u32 - 1, draft.starts.len() as u32);
        let split = draft.places.len() as u32;
        self.meter.work(template.positions.len())?;
        if (draft.positions.len() + template.positions.len()) as u64 > self.limits.nodes.saturating_add(1) {
            return Err(Fault::Limit(Limit::Nodes));
        }
        let moved = |number: u32| if number == END { END } else { number + place };
        // All facts about these positions are known, so it does not matter for which rule they were built.
        draft
            .begins
            .resize(draft.begins.len() + template.starts.len(), place + 1);
        draft.starts.extend(template.starts.iter().map(|start| moved(*start)));
        draft.places.extend(template.places.iter().map(|place| moved(*place)));
        draft.facts.extend_from_slice(&template.facts);
        draft.positions.extend(template.positions.iter().map(|position| {
            let mut position = *position;
            match &mut position {
                Position::Call { rule: called, next } => {
                    *called += rule;
                    *next = moved(*next);
                }
                Position::Terminal { next, .. } | Position::Token { next, .. } => *next = moved(*next),
                Position::Split(places) => *places = places.moved(split),
                _ => {}
            }
            position
        }));
        Ok(())
    }

    fn new_template(&mut self, programs: &[u8]) -> Outcome<Arc<Template>> {
        let mut draft = Draft::default();
        let terms = &mut self.derivatives.terms;
        draft.source.read_shared(programs, terms, self.limits, self.meter)?;
        let is_list = |item: &Item| matches!(item, Item::Members { .. } | Item::Region { .. });
        if draft.source.items.iter().any(is_list) {
            return Err(Fault::Malformed);
        }
        let rules = draft.source.bodies.len();
        Builder::new(&mut draft, &[], self.derivatives, self.limits, self.meter).build()?;
        // A helper rule for a counted repeat would get a number that belongs to another rule.
        if draft.starts.len() > rules {
            return Err(Fault::Malformed);
        }
        solve(&mut draft, self.meter)?;
        if may_be_empty(&draft, &self.derivatives.terms) {
            return Err(Fault::EmptyMember);
        }
        for facts in &mut draft.facts {
            if *facts & NULLABLE == 0 {
                *facts |= NOT_NULLABLE;
            }
        }
        // Only whole grammars may leave out rules that can never be completed.
        if !draft.facts.iter().all(|facts| is_all(*facts)) {
            return Err(Fault::Malformed);
        }
        let template = Arc::new(Template {
            positions: draft.positions[1..].into(),
            places: draft.places[..].into(),
            starts: draft.starts[..].into(),
            facts: draft.facts[1..].into(),
        });
        if programs.len() <= MAX_TEMPLATE_PROGRAM {
            let templates = &mut self.draft.templates;
            if templates.known.len() >= MAX_TEMPLATES {
                templates.known.clear();
                templates.inner = 0;
            }
            templates.inner += programs.len() + template.heap();
            templates.known.insert(programs.into(), template.clone());
        }
        Ok(template)
    }
}
