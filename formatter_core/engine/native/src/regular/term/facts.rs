//! The facts that are computed for every term when it is made.

use super::{each_part, Kind, Term, Terms, NOTHING, UNBOUNDED};

#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) nullable: bool,
    /// Set if the form does not show whether the term is empty, because of an intersection or a complement.
    pub(super) uncertain: bool,
    /// Set if there is a count in the part of the form in which alternatives are compared, see `drop_narrower`.
    pub(super) counted: bool,
    /// Set if there is a count anywhere in the term that `Derivatives::uncounted` may remove.
    pub(super) has_counts: bool,
    /// Set if more than two terms are intersected somewhere in the term.
    pub(super) tangled: bool,
    /// Set if other alternatives may obviously lie within the term, see `drop_absorbed`.
    pub(super) absorbs: bool,
    /// Set if the term is a sequence of byte sets.
    pub(super) is_chain: bool,
}

impl Terms {
    pub(super) fn facts_of(&self, kind: &Kind) -> Facts {
        let any_uncertain = |items: &[Term]| items.iter().any(|term| self.uncertain(*term));
        let (nullable, uncertain) = match kind {
            Kind::Nothing | Kind::Set(_) => (false, false),
            Kind::Empty | Kind::Substring { .. } => (true, false),
            Kind::Multiples(state) => (state.accepts(), false),
            Kind::Concatenation(first, second) => (
                self.nullable(*first) && self.nullable(*second),
                any_uncertain(&[*first, *second]),
            ),
            Kind::Alternation(items) => (items.iter().any(|term| self.nullable(*term)), any_uncertain(items)),
            Kind::Intersection(items) => (items.iter().all(|term| self.nullable(*term)), true),
            Kind::Complement(NOTHING) => (true, false),
            Kind::Complement(item) => (!self.nullable(*item), true),
            Kind::Repeat { item, minimum, .. } => (*minimum == 0, self.uncertain(*item)),
            Kind::First(item) | Kind::Shortest(item) => (false, self.uncertain(*item)),
        };
        let counted = match kind {
            Kind::Concatenation(first, second) => {
                self.facts[*first as usize].counted || self.facts[*second as usize].counted
            }
            Kind::Repeat { minimum, maximum, .. } => *minimum > 1 || *maximum != UNBOUNDED,
            _ => false,
        };
        let has_counts = match kind {
            Kind::Concatenation(first, second) => self.has_counts(*first) || self.has_counts(*second),
            Kind::Alternation(items) | Kind::Intersection(items) => items.iter().any(|item| self.has_counts(*item)),
            Kind::Repeat { minimum, maximum, .. } => *minimum > 1 || !matches!(*maximum, 1 | UNBOUNDED),
            _ => false,
        };
        let absorbs = match kind {
            Kind::Intersection(_) => true,
            Kind::Repeat { minimum, maximum, .. } => *minimum == 0 && *maximum == UNBOUNDED,
            Kind::Concatenation(first, _) => {
                matches!(self.kind(*first), Kind::Repeat { .. }) && self.facts[*first as usize].absorbs
            }
            _ => false,
        };
        let is_chain = match kind {
            Kind::Set(_) => true,
            Kind::Concatenation(first, second) => {
                matches!(self.kind(*first), Kind::Set(_)) && self.facts[*second as usize].is_chain
            }
            _ => false,
        };
        let mut tangled = matches!(kind, Kind::Intersection(items) if items.len() > 2);
        if uncertain && !tangled {
            each_part(kind, |part| tangled |= self.tangled(part));
        }
        Facts {
            nullable,
            uncertain,
            counted,
            has_counts,
            tangled,
            absorbs,
            is_chain,
        }
    }
}
