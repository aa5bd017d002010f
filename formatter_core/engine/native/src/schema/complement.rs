//! Differences in the normal form: the JSON values of one shape that are not in another shape, exactly.
//!
//! The complement of a conjunction is a union: the values that break each of its constraints. To subtract a union, we
//! subtract one alternative after the other, so a difference may grow exponentially. Each step drops alternatives that
//! are known to be empty, and is metered.

use std::rc::Rc;
use std::sync::Arc;

use crate::base::hash::FastMap;
use crate::schema::leaves::{NumberSet, StringSet};
use crate::schema::load::{Literal, FALSE, TRUE};
use crate::schema::normal::Normalizer;
use crate::schema::report::Outcome;
use crate::schema::shapes::{
    each_once, meet_objects, ArrayPart, ArraySet, Clause, Condition, Contains, Name, Named, ObjectPart, ObjectSet,
    Same, Set, Shape, SomeKey,
};

/// Comparisons of a property with a clause of the conditions that take as long as one pair of alternatives (cost unit).
/// Later steps make such a comparison for each property and clause.
const CLAUSES_PER_PAIR: u64 = 40;

/// A set of values of one type that has a complement.
trait Difference: Set {
    /// Return all values of the type that are not in the set, as a union.
    fn others(&self) -> Outcome<Vec<Rc<Self>>>;

    /// Return the set, simplified; None if it is known to be empty.
    fn kept(set: Rc<Self>, normalizer: &mut Normalizer) -> Outcome<Option<Rc<Self>>>;
}

impl Difference for NumberSet {
    fn others(&self) -> Outcome<Vec<Rc<Self>>> {
        Ok(NumberSet::others(self).into_iter().map(Rc::new).collect())
    }

    fn kept(set: Rc<Self>, normalizer: &mut Normalizer) -> Outcome<Option<Rc<Self>>> {
        Ok((!normalizer.has_no_number(&set)?).then_some(set))
    }
}

impl Difference for StringSet {
    fn others(&self) -> Outcome<Vec<Rc<Self>>> {
        Ok(StringSet::others(self)?.into_iter().map(Rc::new).collect())
    }

    fn kept(set: Rc<Self>, normalizer: &mut Normalizer) -> Outcome<Option<Rc<Self>>> {
        Ok((!normalizer.has_no_string(&set)?).then_some(set))
    }
}

impl Difference for ArraySet {
    fn others(&self) -> Outcome<Vec<Rc<Self>>> {
        Ok(other_arrays(self).into_iter().map(Rc::new).collect())
    }

    fn kept(set: Rc<Self>, normalizer: &mut Normalizer) -> Outcome<Option<Rc<Self>>> {
        Ok((!normalizer.is_empty_array(&set)?).then_some(set))
    }
}

impl Normalizer<'_> {
    /// Return the values of `shape` that are in no rival, without alternatives that are known to be empty.
    pub fn subtract(&mut self, shape: &Shape, rivals: &[Rc<Shape>]) -> Outcome<Rc<Shape>> {
        let mut left = shape.with_objects(Vec::new());
        for rival in rivals {
            let is_scalar = left.null || left.booleans > 0 || !left.numbers.is_empty() || !left.strings.is_empty();
            if !is_scalar && left.arrays.is_empty() {
                break;
            }
            left.null &= !rival.null;
            left.booleans &= !rival.booleans;
            left.numbers = self.outside(left.numbers, &rival.numbers)?;
            left.strings = self.outside(left.strings, &rival.strings)?;
            left.arrays = self.outside(left.arrays, &rival.arrays)?;
        }
        if !shape.objects.is_empty() {
            let rivals: Vec<Rc<ObjectSet>> = rivals.iter().flat_map(|rival| &rival.objects).cloned().collect();
            left.objects = self.objects_outside(&shape.objects, &rivals)?;
        }
        Ok(Rc::new(left))
    }

    /// Return the objects that are in no rival. If the complement of a rival is one set of conditions, we add these
    /// conditions; we simplify the conditions of all such rivals together.
    fn objects_outside(&mut self, objects: &[Rc<ObjectSet>], rivals: &[Rc<ObjectSet>]) -> Outcome<Vec<Rc<ObjectSet>>> {
        let mut outside: FastMap<Rc<ObjectSet>, Vec<Rc<ObjectSet>>> = FastMap::default();
        let mut singly: Vec<(Rc<ObjectSet>, Vec<Condition>)> = Vec::new();
        for rival in rivals {
            if outside.contains_key(rival) {
                continue;
            }
            let found = self.other_objects(rival)?;
            if let [only] = &found[..] {
                if only.are_conditions() {
                    singly.push((Rc::clone(rival), only.conditions.clone()));
                }
            }
            outside.insert(Rc::clone(rival), found);
        }
        let mut found = Vec::new();
        for item in objects {
            let mut conditions: Vec<Condition> = Vec::new();
            self.spend(singly.len() as u64)?;
            for (rival, broken) in &singly {
                if let Some(both) = meet_objects(item, rival) {
                    if self.simplified(Rc::new(both))?.is_some() {
                        conditions.extend(broken.iter().cloned());
                    }
                }
            }
            let are_conditions = !conditions.is_empty();
            let mut left = meet_objects(item, &ObjectSet::of_conditions(each_once(conditions))).map(Rc::new);
            if let (Some(met), true) = (&left, are_conditions) {
                left = self.simplified(Rc::clone(met))?;
            }
            if let Some(left) = left {
                let clauses: u64 = left.conditions.iter().map(|condition| condition.len() as u64).sum();
                self.spend(clauses * clauses / CLAUSES_PER_PAIR)?;
                found.push(left);
            }
        }
        let found = each_once(found);
        let is_single = |rival: &&Rc<ObjectSet>| singly.iter().any(|single| single.0 == **rival);
        let others: Vec<Rc<ObjectSet>> = rivals.iter().filter(|rival| !is_single(rival)).cloned().collect();
        self.spend_sizes(&found, &others)?;
        let mut items = found;
        for rival in others {
            if items.is_empty() {
                break;
            }
            let outside = &outside[&rival];
            items = self.without(items, &rival, |_| Ok(outside.clone()), |set, own| own.simplified(set))?;
        }
        self.without_subsets(items)
    }

    fn outside<T: Difference>(&mut self, mut items: Vec<Rc<T>>, rivals: &[Rc<T>]) -> Outcome<Vec<Rc<T>>> {
        for rival in rivals {
            if items.is_empty() {
                break;
            }
            items = self.without(items, rival, |rival| rival.others(), T::kept)?;
        }
        Ok(items)
    }

    /// Return the values of a union that are not in a rival.
    fn without<T: Set>(
        &mut self,
        items: Vec<Rc<T>>,
        rival: &Rc<T>,
        others: impl FnOnce(&T) -> Outcome<Vec<Rc<T>>>,
        simplified: impl Fn(Rc<T>, &mut Self) -> Outcome<Option<Rc<T>>>,
    ) -> Outcome<Vec<Rc<T>>> {
        let outside = others(rival)?;
        let mut kept = Vec::new();
        for item in items {
            self.spend(1)?;
            let both = T::meet(&item, rival, self.leaves)?;
            let is_apart = match both {
                Some(both) => simplified(both, self)?.is_none(),
                None => true,
            };
            if is_apart {
                kept.push(item);
                continue;
            }
            self.spend(outside.len() as u64)?;
            for other in &outside {
                if let Some(left) = T::meet(&item, other, self.leaves)? {
                    kept.extend(simplified(left, self)?);
                }
            }
        }
        Ok(each_once(kept))
    }

    /// Return the complement of a set of objects: objects with another count, and objects that break one of the other
    /// constraints. The latter is one condition, however many constraints there are.
    fn other_objects(&mut self, objects: &ObjectSet) -> Outcome<Vec<Rc<ObjectSet>>> {
        let mut found = Vec::new();
        if objects.minimum > objects.required.len() as u64 {
            found.push(ObjectSet {
                maximum: Some(objects.minimum - 1),
                ..ObjectSet::default()
            });
        }
        if let Some(maximum) = objects.maximum {
            found.push(ObjectSet {
                minimum: maximum + 1,
                ..ObjectSet::default()
            });
        }
        let mut broken: Vec<Clause> = objects.required.iter().map(|name| Clause::Absent(*name)).collect();
        for part in &objects.parts {
            for (name, literal) in part.named.entries() {
                if *literal != TRUE {
                    broken.push(Clause::HasValue(*name, self.same_schema(-literal)?));
                }
            }
            let mut some = |some: SomeKey| broken.push(Clause::SomeKey(Rc::new(some)));
            for (pattern, literal) in &part.patterns {
                if *literal != TRUE {
                    some(SomeKey {
                        pattern: Some(*pattern),
                        literal: -literal,
                        ..SomeKey::default()
                    });
                }
            }
            if part.rest != TRUE {
                let mut named: Vec<Name> = part.named.names().collect();
                named.sort_unstable();
                some(SomeKey {
                    named,
                    patterns: part.patterns.iter().map(|(pattern, _)| *pattern).collect(),
                    literal: -part.rest,
                    ..SomeKey::default()
                });
            }
            if part.names != TRUE {
                some(SomeKey {
                    names: -part.names,
                    ..SomeKey::default()
                });
            }
        }
        if !broken.is_empty() {
            found.push(ObjectSet::of_conditions(vec![each_once(broken).into()]));
        }
        for condition in &objects.conditions {
            found.push(self.unmet(condition)?);
        }
        for clauses in &objects.exclusive {
            let count = clauses.len() as u64;
            self.spend(count * count / 2)?;
            let clauses: Vec<Clause> = clauses.iter().map(|each| Clause::HasValue(each.0, each.1)).collect();
            found.push(self.unmet(&clauses)?);
            for (place, first) in clauses.iter().enumerate() {
                for second in &clauses[place + 1..] {
                    let both = [first, second].map(|clause| Condition::from([clause.clone()]));
                    found.push(ObjectSet::of_conditions(both.to_vec()));
                }
            }
        }
        Ok(found.into_iter().map(Rc::new).collect())
    }

    fn unmet(&mut self, condition: &[Clause]) -> Outcome<ObjectSet> {
        let (mut required, mut parts) = (Vec::new(), Vec::new());
        for clause in condition {
            match clause {
                Clause::Absent(name) => required.push(*name),
                Clause::HasValue(name, literal) => {
                    let outside = self.same_schema(-literal)?;
                    parts.push(self.value_part(*name, outside));
                }
                Clause::SomeKey(some) => parts.push(Same::new(no_key(some))),
            }
        }
        Ok(ObjectSet {
            parts,
            minimum: required.len() as u64,
            required,
            ..ObjectSet::default()
        })
    }

    /// Return the part that demands a literal of one property. Equal arguments give the identical part, so that
    /// alternatives can be compared.
    pub fn value_part(&mut self, name: Name, literal: Literal) -> Same<ObjectPart> {
        let made = || {
            Same::new(ObjectPart {
                named: Named::of([(name, literal)]),
                silent: true,
                ..ObjectPart::default()
            })
        };
        self.value_parts.entry((name, literal)).or_insert_with(made).clone()
    }
}

fn other_arrays(arrays: &ArraySet) -> Vec<ArraySet> {
    let mut found = Vec::new();
    let of_length = |minimum, maximum| ArraySet {
        minimum,
        maximum,
        ..ArraySet::default()
    };
    if arrays.minimum > 0 {
        found.push(of_length(0, Some(arrays.minimum - 1)));
    }
    if let Some(maximum) = arrays.maximum {
        found.push(of_length(maximum + 1, None));
    }
    for part in &arrays.parts {
        for (index, literal) in part.prefix.iter().enumerate() {
            if *literal != TRUE {
                let mut prefix = vec![TRUE; index];
                prefix.push(-literal);
                let mut other = of_length(index as u64 + 1, None);
                other.parts.push(Same::new(ArrayPart {
                    prefix,
                    rest: TRUE,
                    evaluates: false,
                    silent: true,
                }));
                found.push(other);
            }
        }
        let start = part.prefix.len() as u64;
        if part.rest != TRUE {
            let mut other = of_length(start + 1, None);
            if part.rest != FALSE {
                other.contains.push(Contains {
                    literal: -part.rest,
                    minimum: 1,
                    maximum: None,
                    start,
                    pointer: "".into(),
                });
            }
            found.push(other);
        }
    }
    for wanted in &arrays.contains {
        if wanted.minimum > 0 {
            let mut fewer = of_length(0, None);
            fewer.contains.push(Contains {
                minimum: 0,
                maximum: Some(wanted.minimum - 1),
                ..wanted.clone()
            });
            found.push(fewer);
        }
        if let Some(maximum) = wanted.maximum {
            let mut more = of_length(wanted.start + maximum + 1, None);
            more.contains.push(Contains {
                minimum: maximum + 1,
                maximum: None,
                ..wanted.clone()
            });
            found.push(more);
        }
    }
    if let Some(unique) = &arrays.unique {
        let mut other = of_length(2, None);
        other.repeated = Some(Arc::clone(unique));
        found.push(other);
    }
    if let Some(repeated) = &arrays.repeated {
        let mut other = of_length(0, None);
        other.unique = Some(Arc::clone(repeated));
        found.push(other);
    }
    found
}

/// Make the part that is satisfied if there is no such key.
fn no_key(some: &SomeKey) -> ObjectPart {
    let silent = ObjectPart {
        silent: true,
        ..ObjectPart::default()
    };
    if some.names != TRUE {
        return ObjectPart {
            names: -some.names,
            ..silent
        };
    }
    if let Some(pattern) = some.pattern {
        return ObjectPart {
            patterns: vec![(pattern, -some.literal)],
            ..silent
        };
    }
    ObjectPart {
        named: Named::of(some.named.iter().map(|name| (*name, TRUE))),
        patterns: some.patterns.iter().map(|pattern| (*pattern, TRUE)).collect(),
        rest: -some.literal,
        ..silent
    }
}
