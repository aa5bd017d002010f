//! Brings goals to normal form (shapes): resolves references and combinators, each literal once.

use std::rc::Rc;

use crate::base::hash::{FastMap, FastSet};
use crate::base::limits::Meter;
use crate::base::tuning::{MAX_STRINGS_COMPARED, MAX_TRACKED_BRANCHES};
use crate::schema::goals::{Goal, Goals};
use crate::schema::keywords::{in_place, is_annotation, IN_PLACE};
use crate::schema::leaves::{Leaves, NumberSet, StringSet};
use crate::schema::load::{Literal, Loader, Location, Said, FALSE, TRUE};
use crate::schema::report::{Class, Outcome, Refusals, Stop, Why};
use crate::schema::shapes::{
    each_once, meet, unite, Name, Named, Names, ObjectPart, ObjectSet, Same, Shape, IS_FALSE, IS_TRUE,
};
use crate::schema::single::{Scalar, Single};

/// Above this many alternatives we write a conjunction as conditions where we can.
const ALTERNATIVES_MULTIPLIED: usize = 100;
/// Sets of strings compared in the time that a pair of alternatives takes (cost unit).
const STRINGS_PER_PAIR: usize = 12;

/// A key of the cache: a literal, whether evaluation is tracked, and whether refusals are strict.
type Key = (Literal, bool, bool);

/// The results of `emptiness`.
#[derive(Default)]
pub struct Known {
    pub numbers: FastMap<Rc<NumberSet>, bool>,
    pub strings: FastMap<Rc<StringSet>, bool>,
    pub empty: FastSet<Goal>,
    /// The depth to which each goal was searched.
    pub looked: FastMap<Goal, u32>,
    pub matches: FastMap<(Name, Name), bool>,
}

/// A cache that computes the meaning of goals and literals. The module `emptiness` adds its knowledge of emptiness, and
/// `assertions` the keywords for single types.
pub struct Normalizer<'a> {
    pub loader: Loader,
    pub leaves: &'a Leaves,
    pub names: Names,
    pub enforce_formats: bool,
    pub refusals: &'a mut Refusals,
    pub goals: Goals,
    pub known: Known,
    pub meter: Meter<'a>,
    pub value_parts: FastMap<(Name, Literal), Same<ObjectPart>>,
    /// True if it matters which keywords evaluate which properties and items.
    pub tracked: bool,
    /// The number of enclosing searches for contradictions.
    pub looking: u32,
    pub any: Rc<Shape>,
    none: Rc<Shape>,
    deepest: usize,
    shapes: FastMap<Key, Rc<Shape>>,
    /// The shapes of goals, by whether refusals are strict.
    of_goals: [FastMap<Goal, Rc<Shape>>; 2],
    open: FastSet<Key>,
    values: FastMap<Single, Literal>,
    /// The first literal of each value, whatever the order of its keys.
    identities: FastMap<Single, Literal>,
}

impl<'a> Normalizer<'a> {
    pub fn new(
        loader: Loader,
        leaves: &'a Leaves,
        enforce_formats: bool,
        refusals: &'a mut Refusals,
        deepest: usize,
        meter: Meter<'a>,
    ) -> Self {
        Normalizer {
            loader,
            leaves,
            names: Names::default(),
            enforce_formats,
            refusals,
            goals: Goals::default(),
            known: Known::default(),
            meter,
            value_parts: FastMap::default(),
            tracked: false,
            looking: 0,
            any: Rc::new(Shape::any()),
            none: Rc::default(),
            deepest,
            shapes: FastMap::default(),
            of_goals: Default::default(),
            open: FastSet::default(),
            values: FastMap::default(),
            identities: FastMap::default(),
        }
    }

    /// Make the goal of these literals: `[FALSE]` if one schema is both required and forbidden.
    pub fn conjoin(&mut self, literals: &[Literal]) -> Outcome<Goal> {
        self.goals.conjoin(&mut self.loader, literals)
    }

    /// Make the goal of a goal and one more literal.
    pub fn conjoin_with(&mut self, goal: &[Literal], literal: Literal) -> Outcome<Goal> {
        let mut literals = goal.to_vec();
        literals.push(literal);
        self.conjoin(&literals)
    }

    /// Return one literal that represents all equal schemas.
    pub fn same_schema(&mut self, literal: Literal) -> Outcome<Literal> {
        self.goals.same_schema(&mut self.loader, literal)
    }

    /// Return the values that satisfy every literal of a goal.
    pub fn goal(&mut self, goal: &Goal) -> Outcome<Rc<Shape>> {
        let strict = usize::from(self.refusals.is_strict());
        if let Some(known) = self.of_goals[strict].get(goal) {
            return Ok(Rc::clone(known));
        }
        let tracked = std::mem::replace(&mut self.tracked, false);
        let shape = self.new_goal(goal);
        self.tracked = tracked;
        let shape = shape?;
        self.of_goals[strict].insert(Rc::clone(goal), Rc::clone(&shape));
        Ok(shape)
    }

    fn new_goal(&mut self, goal: &Goal) -> Outcome<Rc<Shape>> {
        let (last, others) = match goal.split_last() {
            None => return Ok(Rc::clone(&self.any)),
            Some((only, [])) => return self.literal(*only),
            Some(split) => split,
        };
        if others.len() > 1 {
            // Conditionals about one property exclude its values one by one: each goal extends the previous one by one
            // literal.
            let before = self.of_goals[usize::from(self.refusals.is_strict())]
                .get(others)
                .cloned();
            if let Some(before) = before.filter(|before| before.objects.len() < 2) {
                let last = self.literal(*last)?;
                return self.met(&before, &last);
            }
        }
        self.all_of(goal)
    }

    /// Return the values that satisfy a literal.
    pub fn literal(&mut self, literal: Literal) -> Outcome<Rc<Shape>> {
        match literal {
            TRUE => return Ok(Rc::clone(&self.any)),
            FALSE => return Ok(Rc::clone(&self.none)),
            _ => {}
        }
        let key = (literal, self.tracked, self.refusals.is_strict());
        if let Some(known) = self.shapes.get(&key) {
            return Ok(Rc::clone(known));
        }
        let location = self.loader.location(literal);
        if self.open.contains(&key) {
            if self.looking > 0 {
                return Err(Stop::InProgress);
            }
            return Err(Stop::new(Class::Invalid, Why::Cycle, &location.pointer, "", &[]));
        }
        if self.open.len() >= self.deepest {
            let parts = ["the chain of schemas for the value", &self.deepest.to_string()];
            return Err(Stop::limit(Why::Depth, &parts).at(&location.pointer));
        }
        self.open.insert(key);
        let shape = self.worked_out(literal, &location);
        self.open.remove(&key);
        let shape = shape.map_err(|stop| stop.at(&location.pointer))?;
        self.shapes.insert(key, Rc::clone(&shape));
        Ok(shape)
    }

    fn worked_out(&mut self, literal: Literal, location: &Location) -> Outcome<Rc<Shape>> {
        if literal > 0 {
            return self.build(location);
        }
        self.refusals.begin_strict();
        let shape = self.negated(location, -literal);
        self.refusals.end_strict();
        match shape {
            // If keywords may be dropped, we drop those that cannot be negated.
            Err(Stop::Refused(refusal)) if refusal.is_unsupported() => {
                self.refusals.refuse(*refusal)?;
                Ok(Rc::clone(&self.any))
            }
            shape => shape,
        }
    }

    /// Return the values outside a schema: we negate each keyword by itself, which gives few alternatives.
    fn negated(&mut self, location: &Location, literal: Literal) -> Outcome<Rc<Shape>> {
        if location.draft <= 7 && location.has("$ref") {
            let target = self.loader.resolve(location, "$ref")?;
            return self.literal(-target);
        }
        let any = Rc::clone(&self.any);
        let is_negated_alone = |keyword: &str| matches!(keyword, "$ref" | "allOf" | "anyOf" | "oneOf" | "not");
        let mut keywords = location.entries().map(|entry| entry.0);
        let is_whole = keywords.any(|keyword| in_place(keyword).is_some() && !is_negated_alone(keyword));
        if is_whole || location.is_synthetic() {
            let shape = self.literal(literal)?;
            return self.subtract(&any, &[shape]);
        }
        let typed = self.typed(location)?;
        let mut outside = vec![self.subtract(&any, &[typed])?];
        if location.has("$ref") {
            let target = self.loader.resolve(location, "$ref")?;
            outside.push(self.literal(-target)?);
        }
        if location.has("not") {
            let child = self.loader.child(location, "not")?;
            outside.push(self.literal(child)?);
        }
        if location.has("allOf") {
            for branch in self.branches(location, "allOf")? {
                outside.push(self.literal(-branch)?);
            }
        }
        if location.has("anyOf") {
            let branches = self.branches(location, "anyOf")?;
            outside.push(self.none_of(&branches)?);
        }
        if location.has("oneOf") {
            let branches = self.branches(location, "oneOf")?;
            outside.push(self.none_of(&branches)?);
            for (index, branch) in branches.iter().enumerate() {
                for other in &branches[..index] {
                    let (branch, other) = (self.literal(*branch)?, self.literal(*other)?);
                    outside.push(self.met(&branch, &other)?);
                }
            }
        }
        Ok(unite(outside, true))
    }

    fn none_of(&mut self, branches: &[Literal]) -> Outcome<Rc<Shape>> {
        let outside: Vec<Literal> = branches.iter().map(|branch| -branch).collect();
        self.all_of(&outside)
    }

    /// Return the values of a goal as literals, which are equal for equal values; None unless the values are a few
    /// scalars.
    pub fn listed(&mut self, goal: &Goal, most: usize) -> Outcome<Option<Vec<Literal>>> {
        let shape = self.goal(goal)?;
        match values_of(&shape).filter(|values| values.len() <= most) {
            None => Ok(None),
            Some(values) => values
                .into_iter()
                .map(|value| self.value(value))
                .collect::<Outcome<_>>()
                .map(Some),
        }
    }

    pub fn value(&mut self, value: Scalar) -> Outcome<Literal> {
        Ok(self.single(Single::Scalar(value), false)?.1)
    }

    /// Return a literal that identifies equal values, and the literal of this value. If `in_any_order`, the latter is
    /// the same for all orders of keys.
    pub fn single(&mut self, value: Single, in_any_order: bool) -> Outcome<(Literal, Literal)> {
        let same = value.in_one_order();
        let key = if in_any_order { same.clone() } else { value.clone() };
        let literal = match self.values.get(&key) {
            Some(known) => *known,
            None => {
                let pointer = format!("={value}");
                let literal = self.loader.synthetic(Said::Single(value), pointer, None)?;
                self.values.insert(key, literal);
                literal
            }
        };
        Ok((*self.identities.entry(same).or_insert(literal), literal))
    }

    /// Return the values that are in both shapes.
    pub fn met(&mut self, a: &Rc<Shape>, b: &Rc<Shape>) -> Outcome<Rc<Shape>> {
        if a.is_any() {
            return Ok(Rc::clone(b));
        }
        if b.is_any() {
            return Ok(Rc::clone(a));
        }
        self.spend(1 + (a.alternatives() * b.alternatives()) as u64)?;
        let strings = a.strings.len() * b.strings.len();
        self.spend((strings * strings.min(MAX_STRINGS_COMPARED) / STRINGS_PER_PAIR) as u64)?;
        if !a.objects.is_empty() && !b.objects.is_empty() {
            self.spend_sizes(&a.objects, &b.objects)?;
        }
        let met = meet(a, b, self.leaves)?;
        if met.objects.len() <= a.objects.len().max(b.objects.len()) {
            return Ok(met);
        }
        let mut objects = Vec::new();
        for item in &met.objects {
            objects.extend(self.simplified_at(Rc::clone(item), 2)?);
        }
        let objects = self.without_subsets(objects)?;
        Ok(Rc::new(met.with_objects(objects)))
    }

    /// Return the values that satisfy all of these literals.
    fn all_of(&mut self, literals: &[Literal]) -> Outcome<Rc<Shape>> {
        let shapes = literals
            .iter()
            .map(|literal| self.literal(*literal))
            .collect::<Outcome<_>>()?;
        self.all(shapes)
    }

    fn all(&mut self, mut shapes: Vec<Rc<Shape>>) -> Outcome<Rc<Shape>> {
        let products = shapes
            .iter()
            .fold(1_usize, |product, shape| product.saturating_mul(shape.objects.len()));
        if !self.tracked && products > ALTERNATIVES_MULTIPLIED && shapes.iter().all(|shape| !shape.objects.is_empty()) {
            shapes = self.as_conditions(shapes)?;
        }
        let mut met = Rc::clone(&self.any);
        for shape in &shapes {
            met = self.met(&met, shape)?;
        }
        Ok(met)
    }

    fn build(&mut self, location: &Location) -> Outcome<Rc<Shape>> {
        if location.draft <= 7 && location.has("$ref") {
            let target = self.loader.resolve(location, "$ref")?;
            return self.literal(target);
        }
        let in_place = location.in_place();
        if in_place.is_empty() {
            return self.typed(location);
        }
        let tracked = self.tracked;
        let is_tracked = |keyword| location.get(keyword).is_some();
        self.tracked |= is_tracked("unevaluatedProperties") || is_tracked("unevaluatedItems");
        let shape = self.combined(location, &in_place);
        self.tracked = tracked;
        shape
    }

    /// Return the values that a location allows: its keywords for single types, then the keywords at the indices
    /// `in_place`, which apply schemas.
    fn combined(&mut self, location: &Location, in_place: &[usize]) -> Outcome<Rc<Shape>> {
        let mut shape = self.typed(location)?;
        for keyword in in_place.iter().map(|place| IN_PLACE[*place]) {
            if location.is_synthetic() || location.get(keyword).is_some() || keyword == "const" {
                shape = self.applied(location, keyword, shape)?;
            }
        }
        self.with_rest(location, shape)
    }

    /// Return the shape with one more keyword applied.
    fn applied(&mut self, location: &Location, keyword: &str, shape: Rc<Shape>) -> Outcome<Rc<Shape>> {
        let other = match keyword {
            "const" if location.draft == 4 => return Ok(shape),
            "enum" | "const" => self.listed_by(location, keyword)?,
            "$ref" => {
                let target = self.loader.resolve(location, "$ref")?;
                self.literal(target)?
            }
            "$dynamicRef" | "$recursiveRef" => self.dynamic(location, keyword)?,
            "allOf" => return self.with_all_of(location, shape),
            "anyOf" => self.any_of(location)?,
            "dependentRequired" | "dependentSchemas" | "dependencies" => self.dependent(location, keyword)?,
            "oneOf" | "not" | "if" => return self.exact(location, keyword, shape),
            _ => return Ok(shape),
        };
        self.met(&shape, &other)
    }

    /// Return the shape with a keyword applied that needs differences. Such a keyword is refused as a whole, never
    /// dropped in part.
    fn exact(&mut self, location: &Location, keyword: &str, shape: Rc<Shape>) -> Outcome<Rc<Shape>> {
        self.refusals.begin_strict();
        let found = self.exactly(location, keyword, Rc::clone(&shape));
        self.refusals.end_strict();
        match found {
            Err(Stop::Refused(refusal)) if refusal.is_unsupported() && self.refusals.lenient => {
                self.refusals.refuse(refusal.within(&location.pointer, keyword))?;
                Ok(shape)
            }
            found => found,
        }
    }

    fn exactly(&mut self, location: &Location, keyword: &str, shape: Rc<Shape>) -> Outcome<Rc<Shape>> {
        if keyword == "oneOf" {
            let branches = self.branches(location, "oneOf")?;
            let branches = branches
                .into_iter()
                .map(|branch| self.literal(branch))
                .collect::<Outcome<_>>()?;
            return self.one_of(&shape, branches);
        }
        let literal = self.loader.child(location, keyword)?;
        if keyword == "not" {
            let outside = self.literal(literal)?;
            return self.subtract(&shape, &[outside]);
        }
        self.conditional(location, &shape, literal)
    }

    fn branches(&mut self, location: &Location, keyword: &str) -> Outcome<Vec<Literal>> {
        let items = location.written(keyword).and_then(|value| location.tree().items(value));
        if items.map_or(true, |items| items.is_empty()) {
            return Err(location.invalid(keyword, "a non-empty list of schemas"));
        }
        self.loader.children(location, keyword)
    }

    /// Return `shape` with all branches of `allOf` applied.
    ///
    /// A branch that has only `oneOf` comes last: the requirements of the other branches may make its own branches
    /// disjoint.
    fn with_all_of(&mut self, location: &Location, shape: Rc<Shape>) -> Outcome<Rc<Shape>> {
        let branches = self.branches(location, "allOf")?;
        let mut exact = branches.iter().filter(|branch| self.is_one_of(**branch));
        if let (Some(exact), None, false) = (exact.next().copied(), exact.next(), self.tracked) {
            let mut shapes = vec![Rc::clone(&shape)];
            for branch in branches.iter().filter(|branch| **branch != exact) {
                shapes.push(self.literal(*branch)?);
            }
            let met = self.all(shapes)?;
            if met.objects.len() < 2 {
                let location = self.loader.location(exact);
                return self.exact(&location, "oneOf", met);
            }
        }
        let mut shapes = vec![shape];
        for branch in branches {
            shapes.push(self.literal(branch)?);
        }
        self.all(shapes)
    }

    fn is_one_of(&self, literal: Literal) -> bool {
        if literal.abs() == TRUE {
            return false;
        }
        let location = self.loader.location(literal);
        let mut said = location.entries().filter(|(keyword, _)| !is_annotation(keyword));
        said.next().is_some_and(|(keyword, _)| keyword == "oneOf") && said.next().is_none()
    }

    fn any_of(&mut self, location: &Location) -> Outcome<Rc<Shape>> {
        let branches = self.branches(location, "anyOf")?;
        let branches = branches.into_iter().map(|branch| self.literal(branch));
        let branches = branches.collect::<Outcome<Vec<_>>>()?;
        if !self.tracked || branches.len() == 1 {
            return Ok(unite(branches, !self.tracked));
        }
        if branches.len() > MAX_TRACKED_BRANCHES {
            let most = MAX_TRACKED_BRANCHES.to_string();
            let (class, why) = (Class::Unsupported, Why::TooManyBranches);
            return Err(Stop::new(class, why, &location.pointer, "anyOf", &[&most]));
        }
        let mut subsets = Vec::new();
        for bits in (1..1_usize << branches.len()).rev() {
            let subset = branches.iter().enumerate().filter(|(index, _)| bits >> index & 1 == 1);
            subsets.push(self.all(subset.map(|(_, branch)| Rc::clone(branch)).collect())?);
        }
        Ok(unite(subsets, false))
    }

    fn conditional(&mut self, location: &Location, shape: &Rc<Shape>, condition: Literal) -> Outcome<Rc<Shape>> {
        let mut branch = |keyword| match location.get(keyword) {
            Some(_) => self.loader.child(location, keyword),
            None => Ok(TRUE),
        };
        let (then, other) = (branch("then")?, branch("else")?);
        if then == TRUE && other == TRUE && !self.tracked {
            return Ok(Rc::clone(shape));
        }
        let condition = self.literal(condition)?;
        let held = self.met(shape, &condition)?;
        let then = self.literal(then)?;
        let held = self.met(&held, &then)?;
        let missed = self.subtract(shape, &[condition])?;
        let other = self.literal(other)?;
        let missed = self.met(&missed, &other)?;
        Ok(unite(vec![held, missed], !self.tracked))
    }

    fn dependent(&mut self, location: &Location, keyword: &str) -> Outcome<Rc<Shape>> {
        let tree = location.tree();
        let entries = location.written(keyword).and_then(|value| tree.entries(value));
        let Some(entries) = entries else {
            return Err(location.invalid(keyword, "an object"));
        };
        let mut shapes = Vec::with_capacity(entries.len());
        for (text, wanted) in entries {
            if !self.is_spelt(location, keyword, text)? {
                continue;
            }
            let name = self.names.number(tree.text(text));
            let absent = ObjectSet {
                parts: vec![Same::new(ObjectPart {
                    named: Named::of([(name, FALSE)]),
                    silent: true,
                    ..ObjectPart::default()
                })],
                ..ObjectSet::default()
            };
            let mut required = vec![name];
            let items = tree.items(*wanted);
            let are_names = |items: &[u32]| items.iter().all(|item| tree.string(*item).is_some());
            if items.is_some_and(are_names) {
                required.extend(self.names_of(location, keyword, items.unwrap_or(&[]))?);
                required = each_once(required);
            } else if keyword == "dependentRequired" || items.is_some() {
                return Err(location.invalid(keyword, "an object with a list of names for each name"));
            }
            let present = ObjectSet {
                minimum: required.len() as u64,
                required,
                ..ObjectSet::default()
            };
            let mut present = vec![Rc::new(present)];
            if items.is_none() {
                let child = self.loader.child_at(location, keyword, tree.text(text), *wanted)?;
                let wanted = self.literal(child)?;
                present = self.met(&Rc::new(Shape::of_objects(present)), &wanted)?.objects.clone();
            }
            present.insert(0, Rc::new(absent));
            shapes.push(Rc::new(self.any.with_objects(present)));
        }
        self.all(shapes)
    }

    /// Resolve a dynamic reference that means the same from every schema that can reach it.
    fn dynamic(&mut self, location: &Location, keyword: &str) -> Outcome<Rc<Shape>> {
        let reference = location
            .written(keyword)
            .and_then(|value| location.tree().string(value));
        let anchor = reference
            .and_then(|reference| reference.split_once('#'))
            .map_or("", |split| split.1);
        if self.loader.dynamic_resources(anchor) > 1 {
            self.refusals
                .refuse_at(&location.pointer, keyword, Why::SeveralAnchors, &[anchor])?;
            return Ok(Rc::clone(&self.any));
        }
        let target = self.loader.resolve(location, keyword)?;
        self.literal(target)
    }
}

/// Return the values of a shape if all are listed; else None.
pub fn values_of(shape: &Shape) -> Option<Vec<Scalar>> {
    let mut found = Vec::new();
    if shape.null {
        found.push(Scalar::Null);
    }
    for (bit, value) in [(IS_FALSE, false), (IS_TRUE, true)] {
        if shape.booleans & bit > 0 {
            found.push(Scalar::Bool(value));
        }
    }
    for numbers in &shape.numbers {
        found.extend(numbers.values.as_ref()?.iter().cloned().map(Scalar::Number));
    }
    for strings in &shape.strings {
        found.extend(strings.values.as_ref()?.iter().cloned().map(Scalar::Text));
    }
    (shape.arrays.is_empty() && shape.objects.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Usage;
    use crate::regular::term::Spelling;
    use crate::schema::json::Tree;
    use crate::schema::Document;

    #[test]
    fn example_normal_form_of_a_schema() {
        let text = r#"{"allOf": [{"type": ["string", "null"]}, {"type": ["null", "array"]}]}"#;
        let loader = Loader::new(&Document::new(Tree::read(text).unwrap()), 1_000).unwrap();
        let (root, leaves) = (loader.root, Leaves::new(Spelling::Any));
        let (usage, mut refusals) = (Usage::default(), Refusals::default());
        let meter = Meter::new(10_000, &usage, 1);
        let mut normalizer = Normalizer::new(loader, &leaves, true, &mut refusals, 100, meter);
        let shape = normalizer.literal(root).unwrap();
        assert!(shape.null && shape.booleans == 0 && shape.alternatives() == 0);
    }
}
