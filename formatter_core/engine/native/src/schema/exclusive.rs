//! Computes `oneOf`: the values that are in exactly one branch.
//!
//! If the branches are obviously disjoint, or one property distinguishes them, we only unite them. If there are many
//! branches and each demands a different property, we write that exactly one of these demands is met. Otherwise each
//! branch excludes all others, which takes one difference for each branch.

use std::rc::Rc;

use crate::base::hash::{FastMap, FastSet};
use crate::base::tuning::MAX_CONTRADICTION_DEPTH;
use crate::schema::goals::Goal;
use crate::schema::leaves::Decimal;
use crate::schema::load::FALSE;
use crate::schema::normal::{values_of, Normalizer};
use crate::schema::report::{Outcome, Stop};
use crate::schema::shapes::{each_once, unite, Name, ObjectPart, ObjectSet, Same, Shape};
use crate::schema::single::Scalar;

/// Above this many branches we count a `oneOf` where we can; otherwise each branch excludes the others.
const BRANCHES_EXCLUDED_SINGLY: usize = 8;

impl Normalizer<'_> {
    /// Return the values of `shape` that are in exactly one branch.
    pub fn one_of(&mut self, shape: &Rc<Shape>, mut branches: Vec<Rc<Shape>>) -> Outcome<Rc<Shape>> {
        if let [only] = &branches[..] {
            return self.met(shape, only);
        }
        let mut options = Vec::new();
        if branches.len() > BRANCHES_EXCLUDED_SINGLY && !self.tracked {
            if let Some(objects) = self.exactly_one(&branches)? {
                let objects = Rc::new(Shape::of_objects(vec![Rc::new(objects)]));
                options.push(self.met(shape, &objects)?);
                branches = without_objects(&branches);
            }
        }
        let mut met = Vec::with_capacity(branches.len());
        for branch in &branches {
            met.push(self.met(shape, branch)?);
        }
        if self.are_apart(&met)? {
            options.extend(met);
            return self.apart(options);
        }
        if !self.tracked && met.len() > 2 {
            if let Some(found) = self.by_tag(&met)? {
                options.push(found);
                met = without_objects(&met);
                branches.clone_from(&met);
            }
        }
        for (index, option) in met.iter().enumerate() {
            let mut others = branches.clone();
            others.remove(index);
            options.push(self.subtract(option, &others)?);
        }
        Ok(unite(options, !self.tracked))
    }

    /// Unite shapes that are disjoint.
    fn apart(&mut self, shapes: Vec<Rc<Shape>>) -> Outcome<Rc<Shape>> {
        let mut kept = Vec::with_capacity(shapes.len());
        for each in shapes {
            let objects = self.without_subsets(each.objects.clone())?;
            kept.push(Rc::new(each.with_objects(objects)));
        }
        Ok(unite(kept, !self.tracked))
    }

    /// Return whether all shapes are objects that require one property whose values differ from shape to shape.
    fn are_apart(&mut self, shapes: &[Rc<Shape>]) -> Outcome<bool> {
        let are_objects = |shape: &Rc<Shape>| {
            let is_other = shape.alternatives() > shape.objects.len() || shape.null || shape.booleans > 0;
            !shape.objects.is_empty() && !is_other
        };
        if shapes.is_empty() || !shapes.iter().all(are_objects) {
            return Ok(false);
        }
        let unions: Vec<Vec<Rc<ObjectSet>>> = shapes.iter().map(|shape| shape.objects.clone()).collect();
        for name in &unions[0][0].required {
            let all_have = unions.iter().flatten().all(|each| each.required.contains(name));
            if all_have && self.tells_apart(*name, &unions)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Return the objects that are in exactly one branch, if the values of one property differ from branch to branch.
    ///
    /// An object that has the property is in at most one branch. For objects without the property, we compute `oneOf`
    /// of what the branches demand then.
    fn by_tag(&mut self, branches: &[Rc<Shape>]) -> Outcome<Option<Rc<Shape>>> {
        let unions = branches.iter().map(|branch| branch.objects.clone());
        let unions: Vec<Vec<Rc<ObjectSet>>> = unions.filter(|union| !union.is_empty()).collect();
        if unions.len() < 3 {
            return Ok(None);
        }
        let first = Rc::clone(&unions[0][0]);
        let mut found = None;
        for name in each_once(first.parts.iter().flat_map(|part| part.named.names())) {
            if self.tells_apart(name, &unions)? {
                found = Some(name);
                break;
            }
        }
        let Some(tag) = found else {
            return Ok(None);
        };
        self.spend(2 * unions.iter().map(Vec::len).sum::<usize>() as u64)?;
        let tagged = ObjectSet {
            required: vec![tag],
            minimum: 1,
            ..ObjectSet::default()
        };
        let tagged = Rc::new(Shape::of_objects(vec![Rc::new(tagged)]));
        let mut present = Vec::with_capacity(unions.len());
        for union in &unions {
            present.push(self.met(&Rc::new(Shape::of_objects(union.clone())), &tagged)?);
        }
        let mut known = FastMap::default();
        let mut absent = Vec::new();
        for union in &unions {
            let untagged = union.iter().filter(|each| !each.required.contains(&tag));
            let objects: Vec<Rc<ObjectSet>> = untagged
                .map(|each| self.without_property(each, tag, &mut known))
                .collect();
            if !objects.is_empty() {
                absent.push(Rc::new(Shape::of_objects(objects)));
            }
        }
        let objects = Rc::new(Shape::of_objects(self.any.objects.clone()));
        let untagged = self.one_of(&objects, absent)?;
        let present = self.apart(present)?;
        Ok(Some(unite(vec![present, untagged], true)))
    }

    /// Return the objects of a set that do not have a property; `known` caches the changed parts.
    fn without_property(
        &mut self,
        objects: &ObjectSet,
        name: Name,
        known: &mut FastMap<Same<ObjectPart>, Same<ObjectPart>>,
    ) -> Rc<ObjectSet> {
        let mut parts = Vec::with_capacity(objects.parts.len());
        for part in &objects.parts {
            if part.named.get(name).is_some() && !known.contains_key(part) {
                let mut changed: ObjectPart = (**part).clone();
                changed.named.set(name, FALSE);
                known.insert(part.clone(), Same::new(changed));
            }
            parts.push(known.get(part).unwrap_or(part).clone());
        }
        if parts
            .iter()
            .all(|part: &Same<ObjectPart>| part.named.get(name) != Some(FALSE))
        {
            parts.push(self.value_part(name, FALSE));
        }
        let mut changed = objects.to_change();
        changed.parts = parts;
        Rc::new(changed)
    }

    /// Return whether the values of a property, if it is present, differ from union to union; all unions but one must
    /// list the values.
    fn tells_apart(&mut self, name: Name, unions: &[Vec<Rc<ObjectSet>>]) -> Outcome<bool> {
        match self.looking(|own| own.values_differ(name, unions)) {
            Err(Stop::InProgress) => Ok(false),
            found => found,
        }
    }

    fn values_differ(&mut self, name: Name, unions: &[Vec<Rc<ObjectSet>>]) -> Outcome<bool> {
        let mut known: FastSet<Scalar> = FastSet::default();
        let mut listed: Vec<Scalar> = Vec::new();
        let mut unlisted: Vec<Goal> = Vec::new();
        for union in unions {
            let (mut own, mut others) = (Vec::new(), Vec::new());
            for each in union {
                let goal = self.property_goal(&each.parts, name)?;
                let shape = self.goal(&goal)?;
                match values_of(&shape) {
                    Some(values) => own.extend(values),
                    None => others.push(goal),
                }
            }
            let are_known = own.iter().any(|value| known.contains(&as_number(value)));
            if are_known || !unlisted.is_empty() && !others.is_empty() {
                return Ok(false);
            }
            known.extend(own.iter().map(as_number));
            listed.extend(own);
            unlisted.extend(others);
        }
        if known.is_empty() {
            return Ok(false);
        }
        for goal in &unlisted {
            for value in &listed {
                let literal = self.value(value.clone())?;
                let both = self.conjoin_with(goal, literal)?;
                if !self.is_empty(&both, MAX_CONTRADICTION_DEPTH)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

fn without_objects(shapes: &[Rc<Shape>]) -> Vec<Rc<Shape>> {
    shapes
        .iter()
        .map(|shape| Rc::new(shape.with_objects(Vec::new())))
        .collect()
}

/// Return a value in which false and 0 are equal, and so are true and 1.
fn as_number(value: &Scalar) -> Scalar {
    match value {
        Scalar::Bool(value) => Scalar::Number(Decimal::from(i64::from(*value))),
        value => value.clone(),
    }
}
