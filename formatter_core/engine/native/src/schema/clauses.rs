//! Turns unions of objects that constrain single properties into conditions: many alternatives become one.
//!
//! An alternative states *facts*, all of which hold. A fact is a condition, mostly about one property: the property is
//! present, it is absent, or its value satisfies a literal.

use std::rc::Rc;

use crate::base::hash::{FastMap, FastSet};
use crate::base::tuning::MAX_CLAUSE_LITERALS;
use crate::schema::load::{Literal, FALSE, TRUE};
use crate::schema::normal::Normalizer;
use crate::schema::report::Outcome;
use crate::schema::shapes::{each_once, Clause, Condition, Name, Named, ObjectSet, Shape};

impl Normalizer<'_> {
    /// Return the shapes, all of which hold, with as few alternatives for objects as conditions allow.
    pub fn as_conditions(&mut self, shapes: Vec<Rc<Shape>>) -> Outcome<Vec<Rc<Shape>>> {
        let mut changed = Vec::with_capacity(shapes.len());
        for shape in &shapes {
            changed.push(self.as_one(shape)?);
        }
        let mut literals: FastMap<Name, FastSet<Literal>> = FastMap::default();
        let conditions = changed
            .iter()
            .flat_map(|shape| &shape.objects)
            .flat_map(|objects| &objects.conditions);
        for clause in conditions.flat_map(|condition| condition.iter()) {
            match clause {
                Clause::HasValue(name, literal) if *literal != TRUE => {
                    literals.entry(*name).or_default().insert(*literal);
                }
                _ => {}
            }
        }
        let are_few = literals.values().all(|found| found.len() <= MAX_CLAUSE_LITERALS);
        Ok(if are_few { changed } else { shapes })
    }

    /// Return the shape with its objects as one alternative with one condition, if that is equivalent; else the shape.
    fn as_one(&mut self, shape: &Rc<Shape>) -> Outcome<Rc<Shape>> {
        let mut found = Vec::with_capacity(shape.objects.len());
        for objects in &shape.objects {
            found.extend(self.facts(objects)?);
        }
        if found.len() < shape.objects.len() || found.len() < 2 {
            return Ok(Rc::clone(shape));
        }
        let mut sole: FastSet<Clause> = FastSet::default();
        for facts in found.iter().filter(|facts| facts.len() == 1) {
            sole.extend(facts[0].iter().cloned());
        }
        let mut clauses = Vec::new();
        for facts in &found {
            // A fact whose negation is another alternative is redundant: (not a) or (a and b) is (not a) or b.
            let mut kept = Vec::new();
            for fact in facts {
                if facts.len() == 1 || !self.is_negation_in(fact, &sole)? {
                    kept.push(fact);
                }
            }
            match kept[..] {
                [fact] => clauses.extend(fact.iter().cloned()),
                [] => return Ok(Rc::new(shape.with_objects(vec![Rc::default()]))),
                _ => return Ok(Rc::clone(shape)),
            }
        }
        let condition = each_once(clauses).into();
        Ok(Rc::new(shape.with_objects(vec![Rc::new(ObjectSet::of_conditions(
            vec![condition],
        ))])))
    }

    /// Return the objects that are in exactly one of the branches; None unless each branch demands one property and
    /// these properties differ.
    pub fn exactly_one(&mut self, branches: &[Rc<Shape>]) -> Outcome<Option<ObjectSet>> {
        let mut clauses: Vec<(Name, Literal)> = Vec::new();
        let mut known = FastSet::default();
        for branch in branches.iter().filter(|branch| !branch.objects.is_empty()) {
            let facts = match &branch.objects[..] {
                [objects] => self.facts(objects)?,
                _ => None,
            };
            let facts = facts.unwrap_or_default();
            let clause = match &facts[..] {
                [fact] if fact.len() == 1 => Some(&fact[0]),
                _ => None,
            };
            match clause {
                Some(Clause::HasValue(name, literal)) if known.insert(*name) => clauses.push((*name, *literal)),
                _ => return Ok(None),
            }
        }
        Ok((!clauses.is_empty()).then(|| ObjectSet {
            exclusive: vec![clauses.into()],
            ..ObjectSet::default()
        }))
    }

    /// Return the facts that a set of objects demands; None if it demands anything else.
    fn facts(&mut self, objects: &ObjectSet) -> Outcome<Option<Vec<Condition>>> {
        let is_counted = objects.maximum.is_some() || objects.minimum > objects.required.len() as u64;
        if is_counted || !objects.exclusive.is_empty() {
            return Ok(None);
        }
        let mut literals = Named::of(objects.required.iter().map(|name| (*name, TRUE)));
        for part in &objects.parts {
            if !part.patterns.is_empty() || part.rest != TRUE || part.names != TRUE {
                return Ok(None);
            }
            for (name, literal) in part.named.entries() {
                if literals.get(*name).unwrap_or(TRUE) != TRUE {
                    return Ok(None);
                }
                literals.set(*name, self.same_schema(*literal)?);
            }
        }
        let required: FastSet<Name> = objects.required.iter().copied().collect();
        let facts = literals.entries().iter();
        let facts = facts.filter_map(|(name, literal)| fact(*name, *literal, required.contains(name)));
        Ok(Some(facts.chain(objects.conditions.iter().cloned()).collect()))
    }

    /// Return whether the clauses contain the whole negation of a fact. Each of the clauses is an alternative by
    /// itself.
    fn is_negation_in(&mut self, fact: &Condition, clauses: &FastSet<Clause>) -> Outcome<bool> {
        let broken = self.broken(fact)?;
        Ok(broken.is_some_and(|broken| broken.iter().all(|clause| clauses.contains(clause))))
    }

    /// Return the negation of a fact about one property; None for other facts.
    fn broken(&mut self, fact: &Condition) -> Outcome<Option<Vec<Clause>>> {
        Ok(match fact[..] {
            [Clause::HasValue(name, TRUE)] => Some(vec![Clause::Absent(name)]),
            [Clause::HasValue(name, literal)] => {
                let outside = self.same_schema(-literal)?;
                Some(vec![Clause::Absent(name), Clause::HasValue(name, outside)])
            }
            [Clause::Absent(name)] => Some(vec![Clause::HasValue(name, TRUE)]),
            [Clause::Absent(name), Clause::HasValue(other, literal)] if name == other => {
                Some(vec![Clause::HasValue(name, self.same_schema(-literal)?)])
            }
            _ => None,
        })
    }
}

/// Make the fact that a property has a literal; None if the fact always holds.
fn fact(name: Name, literal: Literal, required: bool) -> Option<Condition> {
    match (required, literal) {
        (true, _) => Some([Clause::HasValue(name, literal)].into()),
        (false, TRUE) => None,
        (false, FALSE) => Some([Clause::Absent(name)].into()),
        (false, _) => Some([Clause::Absent(name), Clause::HasValue(name, literal)].into()),
    }
}
