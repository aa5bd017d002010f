//! The normal form: for each of the six JSON types, a union of constraints.
//!
//! Children are goals: conjunctions of literals (see `load`). They are computed only when they are lowered, so
//! recursion needs no special treatment here. A constraint on arrays or objects is a conjunction of *parts*, one for
//! each schema with keywords for items or properties. When a part is lowered, it is turned into goals for single items
//! and properties.

use std::cmp::{max, min};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::base::hash::{FastMap, FastSet};
use crate::schema::leaves::{largest_strings, Leaves, NumberSet, StringSet};
use crate::schema::load::{Literal, FALSE, TRUE};
use crate::schema::report::Outcome;

/// A name of a property or a pattern for names, by its number; see `Names`.
pub type Name = u32;

/// A table of texts with numbers, so that texts are compared and stored as numbers.
#[derive(Default)]
pub struct Names {
    texts: Vec<Arc<str>>,
    numbers: FastMap<Arc<str>, Name>,
}

impl Names {
    pub fn number(&mut self, text: &str) -> Name {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let (number, text) = (self.texts.len() as Name, Arc::from(text));
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    pub fn text(&self, name: Name) -> &Arc<str> {
        &self.texts[name as usize]
    }
}

/// A shared value that is equal only to itself.
pub struct Same<T>(Rc<T>);

impl<T> Same<T> {
    pub fn new(value: T) -> Self {
        Same(Rc::new(value))
    }
}

impl<T> Clone for Same<T> {
    fn clone(&self) -> Self {
        Same(Rc::clone(&self.0))
    }
}

impl<T> Deref for Same<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> PartialEq for Same<T> {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for Same<T> {}

impl<T> Hash for Same<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(Rc::as_ptr(&self.0) as usize);
    }
}

/// Constraints on the first items, and one on all other items.
pub struct ArrayPart {
    pub prefix: Vec<Literal>,
    pub rest: Literal,
    /// True if `rest` counts as evaluating the other items.
    pub evaluates: bool,
    /// True if no item counts as evaluated by this part.
    pub silent: bool,
}

impl ArrayPart {
    /// Return the literal of the item at `index`.
    pub fn literal_at(&self, index: usize) -> Literal {
        self.prefix.get(index).copied().unwrap_or(self.rest)
    }
}

/// A constraint on arrays: from the item `start` on, between `minimum` and `maximum` items satisfy `literal`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Contains {
    pub literal: Literal,
    pub minimum: u64,
    pub maximum: Option<u64>,
    pub start: u64,
    pub pointer: Arc<str>,
}

/// A set of arrays. `unique` is the pointer of a `uniqueItems`; `repeated` is the pointer of a `uniqueItems` that must
/// be violated.
#[derive(Clone, Default)]
pub struct ArraySet {
    pub parts: Vec<Same<ArrayPart>>,
    pub minimum: u64,
    pub maximum: Option<u64>,
    pub contains: Vec<Contains>,
    pub unique: Option<Arc<str>>,
    pub repeated: Option<Arc<str>>,
    /// True if this is `ANY_ARRAY` itself; a set that is merely equal to it absorbs no other sets.
    pub is_top: bool,
}

/// Literals by name, ordered by name.
#[derive(Clone, Default)]
pub struct Named {
    entries: Vec<(Name, Literal)>,
    places: FastMap<Name, u32>,
}

/// Up to this many names are searched one by one.
const LINEAR_NAMES: usize = 8;

impl Named {
    pub fn of(entries: impl IntoIterator<Item = (Name, Literal)>) -> Self {
        let mut named = Named::default();
        for (name, literal) in entries {
            named.set(name, literal);
        }
        named
    }

    /// Set the literal of a name; a new name is added at the end.
    pub fn set(&mut self, name: Name, literal: Literal) {
        if let Some(place) = self.place(name) {
            self.entries[place].1 = literal;
            return;
        }
        self.entries.push((name, literal));
        let count = self.entries.len();
        if count == LINEAR_NAMES + 1 {
            self.places = self.entries.iter().map(|entry| entry.0).zip(0..).collect();
        } else if count > LINEAR_NAMES {
            self.places.insert(name, count as u32 - 1);
        }
    }

    fn place(&self, name: Name) -> Option<usize> {
        if self.entries.len() <= LINEAR_NAMES {
            return self.entries.iter().position(|entry| entry.0 == name);
        }
        self.places.get(&name).map(|place| *place as usize)
    }

    pub fn get(&self, name: Name) -> Option<Literal> {
        self.place(name).map(|place| self.entries[place].1)
    }

    pub fn entries(&self) -> &[(Name, Literal)] {
        &self.entries
    }

    pub fn names(&self) -> impl Iterator<Item = Name> + '_ {
        self.entries.iter().map(|entry| entry.0)
    }
}

/// Literals for properties: by name, by pattern, and for properties that neither covers.
#[derive(Clone)]
pub struct ObjectPart {
    pub named: Named,
    pub patterns: Vec<(Name, Literal)>,
    pub rest: Literal,
    /// A literal for the names themselves.
    pub names: Literal,
    /// True if `rest` counts as evaluating the other properties.
    pub evaluates: bool,
    /// True if no property counts as evaluated by this part.
    pub silent: bool,
    /// The schema from which the whole part comes, if it is a single one.
    pub origin: Option<(usize, u32)>,
}

impl Default for ObjectPart {
    fn default() -> Self {
        ObjectPart {
            named: Named::default(),
            patterns: Vec::new(),
            rest: TRUE,
            names: TRUE,
            evaluates: false,
            silent: false,
            origin: None,
        }
    }
}

/// A property with a name that `named` and `patterns` do not cover, that `pattern` matches and that satisfies `names`;
/// its value satisfies `literal`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SomeKey {
    /// Sorted names.
    pub named: Vec<Name>,
    pub patterns: Vec<Name>,
    pub pattern: Option<Name>,
    pub literal: Literal,
    pub names: Literal,
}

impl Default for SomeKey {
    fn default() -> Self {
        SomeKey {
            named: Vec::new(),
            patterns: Vec::new(),
            pattern: None,
            literal: TRUE,
            names: TRUE,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Clause {
    /// A property is absent.
    Absent(Name),
    /// A property is present, and its value satisfies a literal.
    HasValue(Name, Literal),
    SomeKey(Rc<SomeKey>),
}

impl Clause {
    /// Return the one property that the clause is about, if there is one.
    pub fn name(&self) -> Option<Name> {
        match self {
            Clause::Absent(name) | Clause::HasValue(name, _) => Some(*name),
            Clause::SomeKey(_) => None,
        }
    }
}

/// A disjunction: at least one of these clauses holds.
pub type Condition = Rc<[Clause]>;

/// A set of objects. Every condition holds, and just one clause of each of `exclusive`, which are about different
/// names.
#[derive(Clone, Default)]
pub struct ObjectSet {
    pub parts: Vec<Same<ObjectPart>>,
    pub required: Vec<Name>,
    pub minimum: u64,
    pub maximum: Option<u64>,
    pub conditions: Vec<Condition>,
    /// Lists of properties, each with the literal that its value satisfies.
    pub exclusive: Vec<Rc<[(Name, Literal)]>>,
    pub is_top: bool,
}

impl ArraySet {
    /// Return `ANY_ARRAY`.
    pub fn any() -> Rc<Self> {
        let is_top = true;
        Rc::new(ArraySet {
            is_top,
            ..ArraySet::default()
        })
    }

    /// Return a copy that may be changed.
    pub fn to_change(&self) -> Self {
        let is_top = false;
        ArraySet { is_top, ..self.clone() }
    }

    fn key(&self) -> impl PartialEq + Hash + '_ {
        let ArraySet {
            parts,
            minimum,
            maximum,
            contains,
            unique,
            repeated,
            ..
        } = self;
        (parts, minimum, maximum, contains, unique, repeated)
    }
}

impl PartialEq for ArraySet {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ArraySet {}

impl Hash for ArraySet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl ObjectSet {
    /// Return `ANY_OBJECT`.
    pub fn any() -> Rc<Self> {
        let is_top = true;
        Rc::new(ObjectSet {
            is_top,
            ..ObjectSet::default()
        })
    }

    /// Return a copy that may be changed.
    pub fn to_change(&self) -> Self {
        let is_top = false;
        ObjectSet { is_top, ..self.clone() }
    }

    pub fn of_conditions(conditions: Vec<Condition>) -> Self {
        ObjectSet {
            conditions,
            ..ObjectSet::default()
        }
    }

    /// Return whether the set consists only of conditions.
    pub fn are_conditions(&self) -> bool {
        *self == ObjectSet::of_conditions(self.conditions.clone())
    }

    fn key(&self) -> impl PartialEq + Hash + '_ {
        let ObjectSet {
            parts,
            required,
            minimum,
            maximum,
            conditions,
            exclusive,
            ..
        } = self;
        (parts, required, minimum, maximum, conditions, exclusive)
    }
}

impl PartialEq for ObjectSet {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ObjectSet {}

impl Hash for ObjectSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// The bits of `Shape::booleans`.
pub const IS_FALSE: u8 = 1;
pub const IS_TRUE: u8 = 2;
pub const BOOLEANS: u8 = IS_FALSE | IS_TRUE;

/// A set of JSON values.
#[derive(Clone, Default)]
pub struct Shape {
    pub null: bool,
    pub booleans: u8,
    pub numbers: Vec<Rc<NumberSet>>,
    pub strings: Vec<Rc<StringSet>>,
    pub arrays: Vec<Rc<ArraySet>>,
    pub objects: Vec<Rc<ObjectSet>>,
    /// True if this is `ANY` itself, which represents schemas without constraints.
    is_any: bool,
}

impl Shape {
    pub fn any() -> Shape {
        Shape {
            null: true,
            booleans: BOOLEANS,
            numbers: vec![Rc::new(NumberSet::any())],
            strings: vec![Rc::new(StringSet::any())],
            arrays: vec![ArraySet::any()],
            objects: vec![ObjectSet::any()],
            is_any: true,
        }
    }

    pub fn is_any(&self) -> bool {
        self.is_any
    }

    pub fn of_objects(objects: Vec<Rc<ObjectSet>>) -> Shape {
        Shape {
            objects,
            ..Shape::default()
        }
    }

    /// Return the shape with other objects.
    pub fn with_objects(&self, objects: Vec<Rc<ObjectSet>>) -> Shape {
        Shape {
            null: self.null,
            booleans: self.booleans,
            numbers: self.numbers.clone(),
            strings: self.strings.clone(),
            arrays: self.arrays.clone(),
            objects,
            is_any: false,
        }
    }

    /// Return the shape with other arrays.
    pub fn with_arrays(&self, arrays: Vec<Rc<ArraySet>>) -> Shape {
        let mut changed = self.with_objects(self.objects.clone());
        changed.arrays = arrays;
        changed
    }

    /// Return how many sets the shape is the union of.
    pub fn alternatives(&self) -> usize {
        self.numbers.len() + self.strings.len() + self.arrays.len() + self.objects.len()
    }
}

/// A set of values of one type.
pub trait Set: Eq + Hash + Sized {
    /// Return whether the set is the top element: it contains all values of its type and absorbs other sets.
    fn is_top(&self) -> bool;

    /// Return the intersection; None if it is certainly empty.
    fn meet(one: &Rc<Self>, other: &Rc<Self>, leaves: &Leaves) -> Outcome<Option<Rc<Self>>>;
}

impl Set for NumberSet {
    fn is_top(&self) -> bool {
        self.is_any()
    }

    fn meet(one: &Rc<Self>, other: &Rc<Self>, _: &Leaves) -> Outcome<Option<Rc<Self>>> {
        Ok(NumberSet::meet(one, other).map(Rc::new))
    }
}

impl Set for StringSet {
    fn is_top(&self) -> bool {
        self.is_any()
    }

    fn meet(one: &Rc<Self>, other: &Rc<Self>, leaves: &Leaves) -> Outcome<Option<Rc<Self>>> {
        Ok(leaves.meet_strings(one, other)?.map(Rc::new))
    }
}

impl Set for ArraySet {
    fn is_top(&self) -> bool {
        self.is_top
    }

    fn meet(a: &Rc<Self>, b: &Rc<Self>, _: &Leaves) -> Outcome<Option<Rc<Self>>> {
        Ok(meet_arrays(a, b).map(Rc::new))
    }
}

impl Set for ObjectSet {
    fn is_top(&self) -> bool {
        self.is_top
    }

    fn meet(a: &Rc<Self>, b: &Rc<Self>, _: &Leaves) -> Outcome<Option<Rc<Self>>> {
        Ok(meet_objects(a, b).map(Rc::new))
    }
}

/// Return the values that are in both shapes.
pub fn meet(a: &Rc<Shape>, b: &Rc<Shape>, leaves: &Leaves) -> Outcome<Rc<Shape>> {
    if a.is_any {
        return Ok(Rc::clone(b));
    }
    if b.is_any || Rc::ptr_eq(a, b) {
        return Ok(Rc::clone(a));
    }
    Ok(Rc::new(Shape {
        null: a.null && b.null,
        booleans: a.booleans & b.booleans,
        numbers: product(&a.numbers, &b.numbers, leaves)?,
        strings: largest(product(&a.strings, &b.strings, leaves)?),
        arrays: product(&a.arrays, &b.arrays, leaves)?,
        objects: product(&a.objects, &b.objects, leaves)?,
        is_any: false,
    }))
}

/// Return the union of the shapes. `absorb` drops alternatives beside one that contains every value of its type.
pub fn unite(shapes: Vec<Rc<Shape>>, absorb: bool) -> Rc<Shape> {
    if let [shape] = &shapes[..] {
        return Rc::clone(shape);
    }
    let mut made = Shape::default();
    for shape in &shapes {
        made.null |= shape.null;
        made.booleans |= shape.booleans;
    }
    made.numbers = united(&shapes, |shape| &shape.numbers, true);
    made.strings = largest(united(&shapes, |shape| &shape.strings, true));
    made.arrays = united(&shapes, |shape| &shape.arrays, absorb);
    made.objects = united(&shapes, |shape| &shape.objects, absorb);
    Rc::new(made)
}

fn largest(union: Vec<Rc<StringSet>>) -> Vec<Rc<StringSet>> {
    if union.len() < 2 {
        return union;
    }
    let union = union.iter().map(|strings| (**strings).clone()).collect();
    largest_strings(union).into_iter().map(Rc::new).collect()
}

/// Return the intersection; None if it is certainly empty.
pub fn meet_arrays(a: &ArraySet, b: &ArraySet) -> Option<ArraySet> {
    let (minimum, maximum) = (max(a.minimum, b.minimum), least(a.maximum, b.maximum));
    if maximum.is_some_and(|maximum| minimum > maximum) {
        return None;
    }
    let unique = a.unique.as_ref().or(b.unique.as_ref()).cloned();
    let repeated = a.repeated.as_ref().or(b.repeated.as_ref()).cloned();
    if unique.is_some() && repeated.is_some() {
        return None;
    }
    Some(ArraySet {
        parts: joined(&a.parts, &b.parts),
        minimum,
        maximum,
        contains: joined(&a.contains, &b.contains),
        unique,
        repeated,
        is_top: false,
    })
}

/// Return the intersection; None if it is certainly empty.
pub fn meet_objects(a: &ObjectSet, b: &ObjectSet) -> Option<ObjectSet> {
    let parts = joined(&a.parts, &b.parts);
    let required = joined(&a.required, &b.required);
    let minimum = max(max(a.minimum, b.minimum), required.len() as u64);
    let maximum = least(a.maximum, b.maximum);
    if maximum.is_some_and(|maximum| minimum > maximum) {
        return None;
    }
    if !required.is_empty() && parts.iter().any(|part| excludes(part, &required)) {
        return None;
    }
    Some(ObjectSet {
        parts,
        required,
        minimum,
        maximum,
        conditions: joined(&a.conditions, &b.conditions),
        exclusive: joined(&a.exclusive, &b.exclusive),
        is_top: false,
    })
}

/// Return whether a part obviously forbids one of these names.
fn excludes(part: &ObjectPart, wanted: &[Name]) -> bool {
    let is_closed = part.rest == FALSE && part.patterns.is_empty();
    let is_out = |name: &Name| match part.named.get(*name) {
        Some(literal) => literal == FALSE,
        None => is_closed,
    };
    wanted.iter().any(is_out)
}

/// Return the union without alternatives that are obviously subsets of others.
pub fn largest_objects(objects: &[Rc<ObjectSet>]) -> Vec<Rc<ObjectSet>> {
    #[derive(PartialEq, Eq, Hash)]
    enum Mark<'a> {
        Part(&'a Same<ObjectPart>),
        Required(Name),
        Condition(&'a Condition),
        Exclusive(&'a Rc<[(Name, Literal)]>),
    }
    fn marks(each: &ObjectSet) -> FastSet<Mark<'_>> {
        let parts = each.parts.iter().map(Mark::Part);
        let required = each.required.iter().copied().map(Mark::Required);
        let conditions = each.conditions.iter().map(Mark::Condition);
        parts
            .chain(required)
            .chain(conditions)
            .chain(each.exclusive.iter().map(Mark::Exclusive))
            .collect()
    }
    let marks: Vec<FastSet<Mark>> = objects.iter().map(|each| marks(each)).collect();
    let mut order: Vec<usize> = (0..objects.len()).collect();
    order.sort_by_key(|index| marks[*index].len());
    let mut kept: Vec<usize> = Vec::new();
    for index in order {
        let each = &objects[index];
        let holds = |other: &usize| {
            let wide = &objects[*other];
            marks[*other].is_subset(&marks[index])
                && wide.minimum <= each.minimum
                && least(wide.maximum, each.maximum) == each.maximum
        };
        if !kept.iter().any(holds) {
            kept.push(index);
        }
    }
    kept.sort_unstable();
    kept.into_iter().map(|index| Rc::clone(&objects[index])).collect()
}

fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(min(a, b)),
        _ => a.or(b),
    }
}

/// Return each item once, in order of first occurrence.
pub fn each_once<T: Eq + Hash + Clone>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let items = items.into_iter();
    let mut found: Vec<T> = Vec::with_capacity(items.size_hint().0);
    let mut known: FastSet<T> = FastSet::default();
    for item in items {
        let is_new = if found.len() < LINEAR_NAMES {
            !found.contains(&item)
        } else {
            if known.is_empty() {
                known.extend(found.iter().cloned());
            }
            known.insert(item.clone())
        };
        if is_new {
            found.push(item);
        }
    }
    found
}

fn joined<T: Eq + Hash + Clone>(a: &[T], b: &[T]) -> Vec<T> {
    match (a, b) {
        ([], _) => b.to_vec(),
        (_, []) => a.to_vec(),
        _ => each_once(a.iter().chain(b).cloned()),
    }
}

fn product<T: Set>(a: &[Rc<T>], b: &[Rc<T>], leaves: &Leaves) -> Outcome<Vec<Rc<T>>> {
    if a.is_empty() || b.is_empty() {
        return Ok(Vec::new());
    }
    if a.len() == 1 && a[0].is_top() {
        return Ok(b.to_vec());
    }
    if b.len() == 1 && b[0].is_top() {
        return Ok(a.to_vec());
    }
    let mut met = Vec::new();
    for first in a {
        for second in b {
            met.extend(T::meet(first, second, leaves)?);
        }
    }
    Ok(each_once(met))
}

fn united<T: Set>(shapes: &[Rc<Shape>], items: impl Fn(&Shape) -> &[Rc<T>], absorb: bool) -> Vec<Rc<T>> {
    let kept = each_once(shapes.iter().flat_map(|shape| items(shape)).cloned());
    match kept.iter().find(|item| absorb && item.is_top()) {
        Some(top) => vec![Rc::clone(top)],
        None => kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regular::term::Spelling;

    #[test]
    fn example_shapes_are_sets_of_values() {
        let leaves = Leaves::new(Spelling::Any);
        let any = Rc::new(Shape::any());
        let objects = Rc::new(Shape::of_objects(vec![ObjectSet::any()]));
        let texts = Rc::new(Shape {
            strings: vec![Rc::new(StringSet::any())],
            ..Shape::default()
        });
        assert_eq!(meet(&any, &objects, &leaves).unwrap().alternatives(), 1);
        assert_eq!(meet(&texts, &objects, &leaves).unwrap().alternatives(), 0);
        assert_eq!(unite(vec![texts, objects], true).alternatives(), 2);
    }
}
