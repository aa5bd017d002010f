//! Lists the values of a goal that has few: listed scalars, and arrays and objects of few values.

use crate::base::hash::FastSet;
use crate::base::tuning::{MAX_LISTED_ITEMS, MAX_LISTED_LEVELS, MAX_VALUES_TRIED};
use crate::schema::goals::{is_false, Goal};
use crate::schema::leaves::NumberSet;
use crate::schema::load::{Literal, FALSE, TRUE};
use crate::schema::normal::{values_of, Normalizer};
use crate::schema::ordered::Ordered;
use crate::schema::report::{Outcome, Stop};
use crate::schema::shapes::{ArraySet, Clause, Condition, Name, ObjectPart, ObjectSet, Same, Shape};
use crate::schema::single::{Scalar, Single};

/// A listed value.
pub struct Listed {
    /// A literal that is the same for equal values.
    pub identity: Literal,
    /// The literals of the value, one for each order of its keys: one literal if keys may come in any order, perhaps
    /// several if they come in the schema's order.
    pub literals: Vec<Literal>,
}

/// The reason why values are not listed.
enum Unlisted {
    /// There are too many values, or their number is unknown.
    Many,
    Stopped(Stop),
}

impl From<Stop> for Unlisted {
    fn from(stop: Stop) -> Self {
        Unlisted::Stopped(stop)
    }
}

type Few<T> = Result<T, Unlisted>;

/// A search that lists the values of goals.
pub struct Listing<'a, 'n> {
    pub normalizer: &'a mut Normalizer<'n>,
    pub in_any_order: bool,
}

impl Listing<'_, '_> {
    /// Return the values of a goal; None if there are more than `most`, or if they cannot be listed.
    pub fn of(&mut self, goal: &Goal, most: usize) -> Outcome<Option<Vec<Listed>>> {
        let shape = self.normalizer.goal(goal)?;
        let values = if shape.arrays.is_empty() && shape.objects.is_empty() {
            match values_of(&shape) {
                Some(values) if !has_pointed(&shape) => values.into_iter().map(Single::Scalar).collect(),
                _ => return Ok(None),
            }
        } else {
            match self.values(goal, MAX_LISTED_LEVELS) {
                Ok(values) => values,
                Err(Unlisted::Many) => return Ok(None),
                Err(Unlisted::Stopped(stop)) => return Err(stop),
            }
        };
        let mut found: Ordered<Literal, Vec<Literal>> = Ordered::new();
        for value in values {
            let (identity, literal) = self.normalizer.single(value, self.in_any_order)?;
            let literals = found.at(identity);
            if !literals.contains(&literal) {
                literals.push(literal);
            }
            if found.entries().len() > most {
                return Ok(None);
            }
        }
        let listed = found.into_entries().into_iter();
        Ok(Some(
            listed
                .map(|(identity, literals)| Listed { identity, literals })
                .collect(),
        ))
    }

    /// Return the values of a goal; values that differ only in the order of keys are separate.
    fn values(&mut self, goal: &Goal, levels: u32) -> Few<Vec<Single>> {
        if is_false(goal) {
            return Ok(Vec::new());
        }
        if levels == 0 {
            return Err(Unlisted::Many);
        }
        let shape = self.normalizer.goal(goal)?;
        let mut found = few_scalars(&shape)?;
        for arrays in &shape.arrays {
            found.extend(self.arrays(arrays, levels)?);
        }
        if !shape.objects.is_empty() {
            let order = self.normalizer.key_order(goal)?;
            for objects in &shape.objects {
                let names = match self.in_any_order {
                    true => order.names.clone(),
                    false => order.of(objects),
                };
                found.extend(self.objects(objects, names, levels)?);
            }
        }
        self.check(found.len())?;
        let mut distinct: Ordered<Single, Option<Single>> = Ordered::new();
        for value in found {
            let key = self.told_apart(&value);
            *distinct.at(key) = Some(value);
        }
        Ok(distinct
            .into_entries()
            .into_iter()
            .filter_map(|entry| entry.1)
            .collect())
    }

    /// Return a key that is equal for values with the same literal.
    fn told_apart(&self, value: &Single) -> Single {
        match self.in_any_order {
            true => value.in_one_order(),
            false => value.clone(),
        }
    }

    fn check(&mut self, number: usize) -> Few<()> {
        self.normalizer.spend(1 + number as u64)?;
        match number > MAX_VALUES_TRIED {
            true => Err(Unlisted::Many),
            false => Ok(()),
        }
    }

    fn arrays(&mut self, arrays: &ArraySet, levels: u32) -> Few<Vec<Single>> {
        let counts = arrays
            .contains
            .iter()
            .any(|each| each.minimum > 0 || each.maximum.is_some());
        if counts || arrays.repeated.is_some() {
            return Err(Unlisted::Many);
        }
        let mut lists: Vec<Vec<Single>> = vec![Vec::new()];
        let mut found = Vec::new();
        if arrays.minimum == 0 {
            found.push(Single::List(Vec::new()));
        }
        let mut index = 0;
        while arrays.maximum.map_or(true, |maximum| (index as u64) < maximum) {
            let literals: Vec<Literal> = arrays.parts.iter().map(|part| part.literal_at(index)).collect();
            let goal = self.normalizer.conjoin(&literals)?;
            if goal.is_empty() {
                return Err(Unlisted::Many);
            }
            let values = self.values(&goal, levels - 1)?;
            if index >= MAX_LISTED_ITEMS {
                return Err(Unlisted::Many);
            }
            self.check(lists.len() * values.len())?;
            lists = each_with_each(&lists, &values, |items, value| items.push(value.clone()));
            if arrays.unique.is_some() {
                lists.retain(|items| all_differ(items));
            }
            if lists.is_empty() {
                break;
            }
            index += 1;
            if index as u64 >= arrays.minimum {
                found.extend(lists.iter().cloned().map(Single::List));
                self.check(found.len())?;
            }
        }
        Ok(found)
    }

    fn objects(&mut self, objects: &ObjectSet, names: Vec<Name>, levels: u32) -> Few<Vec<Single>> {
        let Some(simple) = self.normalizer.simplified_at(objects.clone().into(), 2)? else {
            return Ok(Vec::new());
        };
        let is_closed = |part: &Same<ObjectPart>| part.rest == FALSE && part.patterns.is_empty();
        if !simple.parts.iter().any(is_closed) {
            return Err(Unlisted::Many);
        }
        let named = simple.parts.iter().flat_map(|part| part.named.names());
        let names = names.into_iter().chain(named).chain(simple.required.iter().copied());
        let mut goals: Ordered<Name, Goal> = Ordered::new();
        for name in names.collect::<Vec<_>>() {
            if goals.get(&name).is_none() {
                let goal = self.normalizer.property_goal(&simple.parts, name)?;
                if !is_false(&goal) {
                    *goals.at(name) = goal;
                }
            }
        }
        if !simple.required.iter().all(|name| goals.get(name).is_some()) {
            return Ok(Vec::new());
        }
        let mut made: Vec<Members> = vec![Members::new()];
        let mut tried = 1;
        let mut choices = Vec::with_capacity(goals.entries().len());
        for (name, goal) in goals.entries() {
            if goal.is_empty() {
                return Err(Unlisted::Many);
            }
            let values = self.values(goal, levels - 1)?.into_iter().map(Some);
            let absent = (!simple.required.contains(name)).then_some(None);
            let options: Vec<Option<Single>> = absent.into_iter().chain(values).collect();
            tried *= options.len();
            self.check(tried)?;
            choices.push((*name, options));
        }
        for (name, options) in &choices {
            made = each_with_each(&made, options, |members, value| {
                members.extend(value.clone().map(|value| (*name, value)));
            });
        }
        let most = simple.maximum.unwrap_or(choices.len() as u64);
        made.retain(|members| (simple.minimum..=most).contains(&(members.len() as u64)));
        for condition in &simple.conditions {
            made = self.held(made, condition, &goals, levels, |held| held > 0)?;
        }
        for exclusive in &simple.exclusive {
            let clauses = exclusive
                .iter()
                .map(|(name, literal)| Clause::HasValue(*name, *literal));
            made = self.held(made, &clauses.collect(), &goals, levels, |held| held == 1)?;
        }
        Ok(made.into_iter().map(|members| self.object(members)).collect())
    }

    fn object(&self, members: Members) -> Single {
        let names = &self.normalizer.names;
        let named = |(name, value)| (names.text(name).clone(), value);
        Single::Object(members.into_iter().map(named).collect())
    }

    /// Return the objects for which exactly as many clauses hold as are wanted.
    fn held(
        &mut self,
        mut objects: Vec<Members>,
        condition: &Condition,
        goals: &Ordered<Name, Goal>,
        levels: u32,
        wanted: impl Fn(usize) -> bool,
    ) -> Few<Vec<Members>> {
        let mut values: Vec<Option<FastSet<Single>>> = Vec::with_capacity(condition.len());
        for clause in condition.iter() {
            values.push(match clause {
                Clause::SomeKey(_) => return Err(Unlisted::Many),
                Clause::HasValue(name, literal) if *literal != TRUE => match goals.get(name) {
                    None => None,
                    Some(goal) => {
                        let goal = self.normalizer.conjoin_with(goal, *literal)?;
                        let values = self.values(&goal, levels - 1)?;
                        Some(values.iter().map(Single::in_one_order).collect())
                    }
                },
                _ => None,
            });
        }
        objects.retain(|members| {
            let value = |name: &Name| members.iter().find(|member| member.0 == *name).map(|member| &member.1);
            let holds = |clause: &Clause, values: &Option<FastSet<Single>>| match clause {
                Clause::Absent(name) => value(name).is_none(),
                Clause::HasValue(name, _) => value(name).is_some_and(|value| match values {
                    Some(values) => values.contains(&value.in_one_order()),
                    None => true,
                }),
                Clause::SomeKey(_) => false,
            };
            let clauses = condition.iter().zip(&values);
            wanted(clauses.filter(|(clause, values)| holds(clause, values)).count())
        });
        Ok(objects)
    }
}

/// The keys of an object with their values.
type Members = Vec<(Name, Single)>;

/// Return each of the beginnings with each of the options added.
fn each_with_each<T: Clone, O>(beginnings: &[T], options: &[O], add: impl Fn(&mut T, &O)) -> Vec<T> {
    let mut made = Vec::with_capacity(beginnings.len() * options.len());
    for beginning in beginnings {
        for option in options {
            let mut longer = beginning.clone();
            add(&mut longer, option);
            made.push(longer);
        }
    }
    made
}

fn all_differ(items: &[Single]) -> bool {
    let mut known = FastSet::default();
    items.iter().all(|item| known.insert(item.in_one_order()))
}

/// Return whether some numbers have only one of two spellings; a listed value would allow both.
fn has_pointed(shape: &Shape) -> bool {
    shape.numbers.iter().any(|numbers| numbers.pointed.is_some())
}

/// Return the scalars of a shape; unlike `values_of`, include bounded integers.
fn few_scalars(shape: &Shape) -> Few<Vec<Single>> {
    if has_pointed(shape) {
        return Err(Unlisted::Many);
    }
    let mut scalars = shape.with_objects(Vec::new()).with_arrays(Vec::new());
    scalars.numbers.retain(|numbers| numbers.values.is_some());
    let mut found = values_of(&scalars).ok_or(Unlisted::Many)?;
    for numbers in shape.numbers.iter().filter(|numbers| numbers.values.is_none()) {
        found.extend(whole_numbers(numbers)?);
    }
    Ok(found.into_iter().map(Single::Scalar).collect())
}

/// Return the multiples of a step between two bounds.
fn whole_numbers(numbers: &NumberSet) -> Few<Vec<Scalar>> {
    let (Some(low), Some(high), Some(step)) = (&numbers.low, &numbers.high, &numbers.multiple) else {
        return Err(Unlisted::Many);
    };
    if low.plus(&step.times(MAX_VALUES_TRIED as u64)) < *high {
        return Err(Unlisted::Many);
    }
    let (mut found, mut next) = (Vec::new(), low.next_multiple(step));
    while next <= *high {
        let following = next.plus(step);
        if numbers.contains(&next) {
            found.push(Scalar::Number(next));
        }
        next = following;
    }
    Ok(found)
}
