//! Applies `unevaluatedProperties` and `unevaluatedItems` to values that no other keyword evaluated.

use std::rc::Rc;

use crate::schema::load::{Literal, Location, TRUE};
use crate::schema::normal::Normalizer;
use crate::schema::report::{Outcome, Why};
use crate::schema::shapes::{
    each_once, meet_arrays, meet_objects, ArrayPart, ArraySet, Named, ObjectPart, ObjectSet, Same, Shape,
};

impl Normalizer<'_> {
    /// Return the shape with both keywords applied, if the location has them.
    pub fn with_rest(&mut self, location: &Location, mut shape: Rc<Shape>) -> Outcome<Rc<Shape>> {
        if location.get("unevaluatedProperties").is_some() {
            let literal = self.loader.child(location, "unevaluatedProperties")?;
            let objects = shape.objects.iter().filter_map(|item| rest_of_object(item, literal));
            shape = Rc::new(shape.with_objects(objects.collect()));
        }
        if location.get("unevaluatedItems").is_some() {
            let literal = self.loader.child(location, "unevaluatedItems")?;
            if literal != TRUE && shape.arrays.iter().any(|item| !item.contains.is_empty()) {
                let (keyword, why) = ("unevaluatedItems", Why::BesideContains);
                self.refusals.refuse_at(&location.pointer, keyword, why, &[])?;
                return Ok(shape);
            }
            let arrays = shape.arrays.iter().filter_map(|item| rest_of_array(item, literal));
            shape = Rc::new(shape.with_arrays(arrays.collect()));
        }
        Ok(shape)
    }
}

fn rest_of_object(objects: &Rc<ObjectSet>, literal: Literal) -> Option<Rc<ObjectSet>> {
    let parts = || objects.parts.iter().filter(|part| !part.silent);
    if parts().any(|part| part.evaluates) {
        return Some(Rc::clone(objects));
    }
    let patterns = parts().flat_map(|part| part.patterns.iter().map(|(pattern, _)| (*pattern, TRUE)));
    let rest = ObjectPart {
        named: Named::of(parts().flat_map(|part| part.named.names().map(|name| (name, TRUE)))),
        patterns: each_once(patterns),
        rest: literal,
        evaluates: true,
        ..ObjectPart::default()
    };
    let rest = ObjectSet {
        parts: vec![Same::new(rest)],
        ..ObjectSet::default()
    };
    meet_objects(objects, &rest).map(Rc::new)
}

fn rest_of_array(arrays: &Rc<ArraySet>, literal: Literal) -> Option<Rc<ArraySet>> {
    let parts = || arrays.parts.iter().filter(|part| !part.silent);
    if parts().any(|part| part.evaluates) {
        return Some(Rc::clone(arrays));
    }
    let longest = parts().map(|part| part.prefix.len()).max().unwrap_or(0);
    let rest = ArraySet {
        parts: vec![Same::new(ArrayPart {
            prefix: vec![TRUE; longest],
            rest: literal,
            evaluates: true,
            silent: false,
        })],
        ..ArraySet::default()
    };
    meet_arrays(arrays, &rest).map(Rc::new)
}
