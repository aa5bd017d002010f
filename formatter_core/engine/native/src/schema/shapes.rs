//! The sets of values that plain schemas allow: unions, intersections, and exclusive unions whose branches are apart.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use crate::schema::json::Value;
use crate::schema::locations::{
    schema_of, Array, Goal, Kind, Locations, Object, Part, Step, Types, INTEGER, LONGEST_CHAIN, LONGEST_TEXT, NUMBER,
};
use crate::schema::scalars::Scalars;

/// The most alternatives for arrays, and for objects.
const MOST_ALTERNATIVES: usize = 1000;
/// The most alternatives of those that are combined.
const MOST_COMBINED: usize = 100;
/// Steps to read what one schema says: unions of unions may read the same ones again and again.
pub const READING: usize = 16;
/// The most values of a property that tells branches apart.
const MOST_LISTED: usize = 64;
/// More exclusive branches are counted rather than kept apart, if each demands one property.
const FEW_BRANCHES: usize = 8;

/// The sets that a value may be in; `scalars` is a schema for them.
#[derive(Clone, Default)]
pub struct Shape<'a> {
    /// It may be any value, and nothing else is said.
    pub is_anything: bool,
    pub scalars: Option<Cow<'a, str>>,
    pub arrays: Vec<Array>,
    pub objects: Vec<Arc<Object>>,
}

const ANY_SCALARS: &str = r#"{"type":["null","boolean","number","string"]}"#;

impl Shape<'_> {
    fn anything() -> Self {
        Shape {
            is_anything: true,
            ..Shape::default()
        }
    }

    /// The arrays and objects that are among certain types, or anything.
    fn of_types(types: Types) -> Self {
        let Types::Some { arrays, objects } = types else {
            return Self::anything();
        };
        Shape {
            arrays: arrays.then(Array::default).into_iter().collect(),
            objects: objects.then(Arc::default).into_iter().collect(),
            ..Shape::default()
        }
    }

    /// The same, as a union even if it may be any value.
    fn by_type(self) -> Self {
        if !self.is_anything {
            return self;
        }
        Shape {
            is_anything: false,
            scalars: Some(ANY_SCALARS.into()),
            arrays: vec![Array::default()],
            objects: vec![Arc::default()],
        }
    }

    /// Whether it is objects of one kind alone.
    fn is_one_object(&self) -> bool {
        self.scalars.is_none() && self.arrays.is_empty() && self.objects.len() == 1
    }
}

/// None if objects that are left out have a pattern: nobody else would report that it is invalid.
fn leave_out(objects: &[Arc<Object>]) -> Option<()> {
    let mut parts = objects.iter().flat_map(|object| &object.parts);
    parts.all(|part| part.patterns.is_none()).then_some(())
}

/// Finds shapes, as long as the work lasts.
pub struct Shaper<'a> {
    pub locations: &'a Locations,
    pub work: Cell<u64>,
}

impl<'a> Shaper<'a> {
    pub fn spend(&self, steps: usize) -> Option<()> {
        self.work.set(self.work.get().checked_sub(steps as u64)?);
        Some(())
    }

    /// None for what needs the algebra, has no value for certain, or takes too much.
    pub fn shape(&self, goal: Goal, room: u32) -> Option<Shape<'a>> {
        let schema = match goal {
            Goal::Anything => return Some(Shape::anything()),
            Goal::Nothing => return None,
            Goal::Schema(schema) => schema,
        };
        let room = room.checked_sub(1)?;
        self.spend(READING)?;
        if let Some([one, other]) = self.locations.pair(schema) {
            let one = self.shape(Goal::Schema(one), room)?;
            return self.met(&one, &self.shape(Goal::Schema(other), room)?);
        }
        self.said(self.locations.kind(schema), room)
    }

    fn said(&self, kind: &'a Kind, room: u32) -> Option<Shape<'a>> {
        let shapes = |goals: &[Goal]| {
            goals
                .iter()
                .map(|goal| self.shape(*goal, room))
                .collect::<Option<Vec<_>>>()
        };
        Some(match kind {
            Kind::Silent => Shape::anything(),
            Kind::Scalars(text) => Shape {
                scalars: Some(Cow::Borrowed(text)),
                ..Shape::default()
            },
            Kind::Typed { scalars, array, object } => Shape {
                is_anything: false,
                scalars: scalars.as_deref().map(Cow::Borrowed),
                arrays: array.iter().copied().collect(),
                objects: object.iter().cloned().collect(),
            },
            Kind::Reference(goal) => self.shape(*goal, room)?,
            Kind::Branches {
                goals,
                exclusive: false,
                types,
            } => self.of(self.united(shapes(goals)?, false)?, *types)?,
            Kind::Branches { goals, types, .. } => self.exclusive(&Shape::of_types(*types), shapes(goals)?)?,
            Kind::Combined { own, steps } => {
                let mut shape = self.said(own, room)?;
                let mut alternatives = shape.objects.len().max(1);
                for step in steps {
                    shape = match step {
                        Step::All(goal) => {
                            let other = self.shape(*goal, room)?;
                            alternatives *= other.objects.len().max(1);
                            self.met(&shape, &other)?
                        }
                        Step::Any(goals) => self.met(&shape, &self.united(shapes(goals)?, false)?)?,
                        Step::OneOfSome(_) if shape.objects.len() > 1 => return None,
                        Step::One(goals) | Step::OneOfSome(goals) => self.exclusive(&shape, shapes(goals)?)?,
                    };
                    (alternatives <= MOST_ALTERNATIVES).then_some(())?;
                }
                shape
            }
            Kind::Other => return None,
        })
    }

    /// The values of certain types.
    fn of(&self, shape: Shape<'a>, types: Types) -> Option<Shape<'a>> {
        let Types::Some { arrays, objects } = types else {
            return Some(shape);
        };
        let mut shape = shape.by_type();
        self.check_scalars(shape.scalars.take().as_deref())?;
        if !arrays {
            shape.arrays.clear();
        }
        if !objects {
            leave_out(&std::mem::take(&mut shape.objects))?;
        }
        Some(shape)
    }

    /// None unless a schema of scalars, which is left out, is certainly valid: nobody else would report that it is not.
    #[inline(never)]
    fn check_scalars(&self, text: Option<&str>) -> Option<()> {
        let Some(text) = text.filter(|text| *text != ANY_SCALARS) else {
            return Some(());
        };
        self.spend(text.len())?;
        let is_known = self.locations.knows_scalars(text) || Scalars::read(text, &self.locations.common).is_some();
        is_known.then_some(())
    }

    /// Whether a schema's values, and what their properties must satisfy, are found without the algebra.
    pub fn is_plain(&self, schema: u32) -> Option<()> {
        for object in self.shape(Goal::Schema(schema), LONGEST_CHAIN)?.objects {
            if object.parts.len() < 2 && object.parts.iter().all(|part| part.matched.is_none()) {
                continue;
            }
            self.locations.rest(&object)?;
            for part in &object.parts {
                for (name, _) in self.locations.properties(part) {
                    self.spend(object.parts.len())?;
                    let is_known = self.property(&object, name).is_some();
                    // It is asked again once the others are decided.
                    (is_known || !self.locations.pairs.borrow().undecided.is_empty()).then_some(())?;
                }
            }
        }
        self.locations.pairs.borrow().undecided.is_empty().then_some(())
    }

    /// What objects want of a property's value; None if that needs the algebra.
    pub fn property(&self, object: &Object, name: &str) -> Option<Goal> {
        if object.absent.iter().any(|absent| **absent == *name) {
            return Some(Goal::Nothing);
        }
        let goals = object
            .parts
            .iter()
            .flat_map(|part| self.locations.wanted_by(part, name));
        match self.locations.all(goals)? {
            (Goal::Schema(one), Goal::Schema(other)) => self.both([one, other]),
            (goal, _) => Some(goal),
        }
    }

    /// The goal of two schemas; None if it needs the algebra.
    pub fn both(&self, pair: [u32; 2]) -> Option<Goal> {
        let known = self.locations.pairs.borrow().numbers.get(&pair).copied();
        if let Some(known) = known {
            return known.map(Goal::Schema);
        }
        let mut are_plain = true;
        for schema in pair {
            let decided = self.locations.decided(schema);
            are_plain &= decided == Some(true);
            if decided.is_none() {
                self.locations.pairs.borrow_mut().undecided.push(schema);
            }
        }
        are_plain.then_some(())?;
        let is_plain = self.are_simple(pair).is_some();
        let mut pairs = self.locations.pairs.borrow_mut();
        let number = is_plain.then_some((self.locations.tree.len() + pairs.schemas.len()) as u32);
        pairs.numbers.insert(pair, number);
        pairs.schemas.extend(number.map(|_| pair));
        number.map(Goal::Schema)
    }

    /// Whether two schemas have values in common that are found without the algebra, and do not say the same.
    fn are_simple(&self, pair: [u32; 2]) -> Option<()> {
        let [one, other] = pair.map(|schema| self.shape(Goal::Schema(schema), LONGEST_CHAIN));
        let (one, other) = (one?, other?);
        let is_same = one.scalars == other.scalars && one.arrays == other.arrays && one.objects == other.objects;
        (!is_same).then_some(())?;
        let met = self.met(&one, &other)?;
        met.objects.iter().all(|object| object.parts.len() < 2).then_some(())?;
        if let Some(text) = &met.scalars {
            self.spend(text.len())?;
            let read = Scalars::read(text, &self.locations.common)?;
            return (!matches!(read, Scalars::Nothing)).then_some(());
        }
        (met.is_anything || !met.arrays.is_empty() || !met.objects.is_empty()).then_some(())
    }

    fn united(&self, mut branches: Vec<Shape<'a>>, exclusive: bool) -> Option<Shape<'a>> {
        if branches.len() == 1 {
            return branches.pop();
        }
        let mut union = Shape::default();
        let mut scalars = Vec::new();
        for branch in branches.into_iter().map(Shape::by_type) {
            scalars.extend(branch.scalars);
            self.add_new(&mut union.arrays, branch.arrays, |_| 1)?;
            self.add_new(&mut union.objects, branch.objects, said_by)?;
        }
        if union.arrays.contains(&Array::default()) {
            union.arrays = vec![Array::default()];
        }
        if union.objects.iter().any(|object| object.is_any()) {
            leave_out(&union.objects)?;
            union.objects = vec![Arc::default()];
        }
        union.scalars = union_of(scalars, if exclusive { "oneOf" } else { "anyOf" })?;
        Some(union)
    }

    /// The values of both.
    fn met(&self, a: &Shape<'a>, b: &Shape<'a>) -> Option<Shape<'a>> {
        if a.is_anything || b.is_anything {
            return Some(if a.is_anything { b.clone() } else { a.clone() });
        }
        let scalars = match (&a.scalars, &b.scalars) {
            (Some(a), Some(b)) if a == ANY_SCALARS || a == b => Some(b.clone()),
            (Some(a), Some(b)) if b == ANY_SCALARS => Some(a.clone()),
            (Some(a), Some(b)) => union_of(vec![a.clone(), b.clone()], "allOf")?,
            (a, b) => {
                self.check_scalars(a.as_deref().or(b.as_deref()))?;
                None
            }
        };
        if a.objects.is_empty() || b.objects.is_empty() {
            leave_out(&a.objects)?;
            leave_out(&b.objects)?;
        }
        let pairs = a.arrays.len() * b.arrays.len() + a.objects.len() * b.objects.len();
        (pairs <= MOST_COMBINED).then_some(())?;
        let mut arrays = Vec::new();
        for one in &a.arrays {
            for other in &b.arrays {
                self.add_new(&mut arrays, met_arrays(one, other)?, |_| 1)?;
            }
        }
        let mut objects = Vec::new();
        for one in &a.objects {
            for other in &b.objects {
                self.add_new(&mut objects, self.met_objects(one, other)?, said_by)?;
            }
        }
        // More of them are made simpler.
        (objects.len() <= a.objects.len().max(b.objects.len())).then_some(())?;
        Some(Shape {
            is_anything: false,
            scalars,
            arrays,
            objects,
        })
    }

    /// Add what is not known yet; None if it becomes too much. `length` is how much it takes to compare with another.
    fn add_new<T: PartialEq>(
        &self,
        known: &mut Vec<T>,
        others: impl IntoIterator<Item = T>,
        length: impl Fn(&T) -> usize,
    ) -> Option<()> {
        for other in others {
            self.spend(known.len() * length(&other))?;
            if !known.contains(&other) {
                known.push(other);
            }
        }
        (known.len() <= MOST_ALTERNATIVES).then_some(())
    }

    /// The objects of both; None within if there are none for certain.
    fn met_objects(&self, a: &Arc<Object>, b: &Arc<Object>) -> Option<Option<Arc<Object>>> {
        if a.is_any() || b.is_any() {
            return Some(Some(if a.is_any() { b.clone() } else { a.clone() }));
        }
        let (parts, required) = (a.parts.len() + b.parts.len(), a.required.len() + b.required.len());
        self.spend(READING + (1 + required) * (1 + parts) + a.required.len() * b.required.len())?;
        let mut met = Object::clone(a);
        met.parts
            .extend(b.parts.iter().filter(|part| !a.parts.contains(part)).cloned());
        met.required
            .extend(b.required.iter().filter(|name| !a.required.contains(name)).cloned());
        met.absent
            .extend(b.absent.iter().filter(|name| !a.absent.contains(name)).cloned());
        met.nonempty |= b.nonempty;
        // A pattern may match a name that only the others name.
        (met == **a || met == **b || met.parts.iter().all(|part| part.patterns.is_none())).then_some(())?;
        let empty = met.required.iter().any(|name| {
            let excludes = |part| self.locations.property_of(part, name) == Goal::Nothing;
            met.absent.contains(name) || met.parts.iter().any(excludes)
        });
        Some((!empty).then_some(Arc::new(met)))
    }

    /// The values of `shape` that are in just one of the branches; None unless these are apart, or one only requires a
    /// property.
    fn exclusive(&self, shape: &Shape<'a>, branches: Vec<Shape<'a>>) -> Option<Shape<'a>> {
        if let [branch] = &branches[..] {
            return self.met(shape, branch);
        }
        let branches: Vec<Shape> = branches.into_iter().map(Shape::by_type).collect();
        let demand_one = |branch: &Shape| match &branch.objects[..] {
            [] => true,
            [object] => self.demands_one(object),
            _ => false,
        };
        (branches.len() <= FEW_BRANCHES || !branches.iter().all(demand_one)).then_some(())?;
        let met: Option<Vec<Shape>> = branches.iter().map(|branch| self.met(shape, branch)).collect();
        let mut met = met?;
        let all_scalars = shape.is_anything;
        if !self.are_told_apart(&met) {
            for (place, option) in met.iter_mut().enumerate() {
                (option.objects.len() <= 1).then_some(())?;
                for (_, rival) in branches.iter().enumerate().filter(|(other, _)| *other != place) {
                    let scalars = option.scalars.is_some() && rival.scalars.is_some() && !all_scalars;
                    let arrays = !option.arrays.is_empty() && !rival.arrays.is_empty();
                    (!scalars && !arrays).then_some(())?;
                    for object in &mut option.objects {
                        self.set_apart(object, rival)?;
                    }
                }
            }
        }
        self.united(met, all_scalars)
    }

    /// Whether all that objects must have is one property, and nothing is said of others.
    fn demands_one(&self, object: &Object) -> bool {
        let [name] = &object.required[..] else {
            return false;
        };
        let says_no_more = |part: &Part| {
            let mut named = self.locations.properties(part);
            part.patterns.is_none()
                && part.rest == Goal::Anything
                && named.all(|(other, goal)| goal == Goal::Anything || *other == **name)
        };
        object.absent.is_empty() && object.parts.iter().all(says_no_more)
    }

    /// Take the objects of a rival out of others; None if that needs the algebra.
    fn set_apart(&self, object: &mut Arc<Object>, rival: &Shape<'a>) -> Option<()> {
        for other in &rival.objects {
            let Some(both) = self.met_objects(object, other)? else {
                continue;
            };
            self.spend(both.required.len() * both.parts.len())?;
            if both.required.iter().any(|name| self.is_contradicted(&both.parts, name)) {
                continue;
            }
            let [name] = &other.required[..] else {
                return None;
            };
            let only_requires = other.parts.is_empty() && other.absent.is_empty();
            (only_requires && !object.required.contains(name)).then_some(())?;
            Arc::make_mut(object).absent.push(name.clone());
        }
        Some(())
    }

    /// Whether two parts want values of different types of a property, or list different ones.
    fn is_contradicted(&self, parts: &[Part], name: &str) -> bool {
        let mut types = !0;
        for part in parts {
            types &= self.types(self.locations.property_of(part, name));
        }
        if types == 0 {
            return true;
        }
        let listed = parts
            .iter()
            .filter_map(|part| self.listed(self.locations.property_of(part, name)));
        let listed: Vec<Vec<&str>> = listed.collect();
        (1..listed.len()).any(|place| (0..place).any(|other| are_disjoint(&listed[place], &listed[other])))
    }

    /// Of which types the values of a goal may be, as bits; of all if that is not obvious.
    fn types(&self, goal: Goal) -> u8 {
        let tree = &self.locations.tree;
        let says = |schema| tree.get(schema, "$ref").is_none().then(|| tree.get(schema, "type"))?;
        let types = schema_of(goal)
            .and_then(says)
            .and_then(|value| self.locations.types(value));
        // Every integer is a number.
        types.map_or(!0, |types| if types & NUMBER != 0 { types | INTEGER } else { types })
    }

    /// Whether all are objects that require one property, whose listed values differ.
    fn are_told_apart(&self, shapes: &[Shape]) -> bool {
        if !shapes.iter().all(Shape::is_one_object) {
            return false;
        }
        let Some(first) = shapes.first() else {
            return false;
        };
        first.objects[0].required.iter().any(|name| {
            let mut known: Vec<&str> = Vec::new();
            shapes.iter().all(|shape| {
                let object = &shape.objects[0];
                let mut goals = object.parts.iter().map(|part| self.locations.property_of(part, name));
                let listed = goals.find_map(|goal| self.listed(goal));
                let apart = listed.as_ref().is_some_and(|listed| are_disjoint(&known, listed));
                known.extend(listed.unwrap_or_default());
                apart && object.required.contains(name)
            })
        })
    }

    /// The values of a goal, as texts, if it lists strings, words and small integers; some may be of other types than it
    /// allows.
    fn listed(&self, goal: Goal) -> Option<Vec<&'a str>> {
        let (locations, tree) = (self.locations, &self.locations.tree);
        let schema = schema_of(goal)?;
        matches!(locations.read(schema)?, Kind::Scalars(_)).then_some(())?;
        let values = match (tree.get(schema, "enum"), tree.get(schema, "const")) {
            (Some(values), _) => tree.items(values)?.to_vec(),
            (None, Some(value)) if locations.draft > 4 => vec![value],
            _ => return None,
        };
        self.spend(READING + values.len())?;
        (values.len() <= MOST_LISTED).then_some(())?;
        let text = |value: &u32| match tree.value(*value) {
            Value::String(_) if tree.source(*value).contains('\\') => None,
            Value::Number if !tree.source(*value).bytes().all(|byte| byte.is_ascii_digit()) => None,
            _ => Some(tree.source(*value)),
        };
        values.iter().map(text).collect()
    }
}

fn are_disjoint(a: &[&str], b: &[&str]) -> bool {
    !a.iter().any(|value| b.contains(value))
}

/// The arrays of both: None for what needs the algebra, None within if there are none.
fn met_arrays(a: &Array, b: &Array) -> Option<Option<Array>> {
    let items = match (a.items, b.items) {
        (Some(a), Some(b)) if a.0 != b.0 => return None,
        (items, other) => items.or(other),
    };
    let minimum = a.minimum.max(b.minimum);
    let maximum = a.maximum.into_iter().chain(b.maximum).min();
    let array = Array {
        items,
        minimum,
        maximum,
    };
    Some((minimum <= maximum.unwrap_or(minimum)).then_some(array))
}

/// One schema for the scalars of several; None within if there are none.
fn union_of<'a>(mut scalars: Vec<Cow<'a, str>>, keyword: &str) -> Option<Option<Cow<'a, str>>> {
    if scalars.len() < 2 {
        return Some(scalars.pop());
    }
    let text = format!("{{\"{keyword}\":[{}]}}", scalars.join(","));
    (text.len() <= LONGEST_TEXT).then(|| Some(text.into()))
}

/// How much it takes at most to compare objects with others.
fn said_by(object: &Arc<Object>) -> usize {
    1 + object.parts.len() + object.required.len() + object.absent.len()
}
