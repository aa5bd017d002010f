//! Cheap, bounded checks of the normal form: which goals and alternatives are certainly empty. Also meters the work.

use std::rc::Rc;
use std::sync::Arc;

use crate::base::tuning::{MAX_CONTRADICTION_DEPTH, MAX_OBJECTS_COMPARED};
use crate::schema::goals::{is_false, Goal};
use crate::schema::leaves::{NumberSet, StringSet, Test};
use crate::schema::load::{Literal, FALSE, TRUE};
use crate::schema::normal::Normalizer;
use crate::schema::report::{Outcome, Stop, Why};
use crate::schema::shapes::{
    each_once, largest_objects, meet_objects, ArraySet, Clause, Condition, Name, Named, ObjectPart, ObjectSet, Same,
    Shape,
};

/// Above this many conditions with one clause each, we make one part of an object for all of them instead of one part
/// each.
const CONDITIONS_WRITTEN_SINGLY: usize = 8;
/// The cost of one pair of alternatives in elementary steps.
const PAIR_COST: u64 = 50;
/// The cost in elementary steps to check a clause of a condition, a part of an object, and a pattern of a part.
const CLAUSE_COST: u64 = 40;
const PART_COST: u64 = 6;
const PATTERN_COST: u64 = 20;
/// Steps of an automaton that take as long as one elementary step.
const AUTOMATON_STEP: u64 = 4;

impl Normalizer<'_> {
    /// Return whether a pattern matches in a name.
    pub fn matches(&mut self, pattern: Name, name: Name) -> Outcome<bool> {
        if let Some(known) = self.known.matches.get(&(pattern, name)) {
            return Ok(*known);
        }
        let test = Test::Pattern(Arc::clone(self.names.text(pattern)));
        let found = self.leaves.matches(&test, self.names.text(name))?;
        self.known.matches.insert((pattern, name), found);
        Ok(found)
    }

    /// Return whether a literal for names allows a name.
    pub fn allows_name(&mut self, literal: Literal, name: Name) -> Outcome<bool> {
        let shape = self.literal(literal)?;
        for strings in &shape.strings {
            if self.leaves.is_in(self.names.text(name), strings)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Return the goal of the value of a property; `[FALSE]` if the property must be absent.
    pub fn property_goal(&mut self, parts: &[Same<ObjectPart>], name: Name) -> Outcome<Goal> {
        let mut literals = Vec::with_capacity(parts.len());
        let mut steps = 0;
        for part in parts {
            steps += PART_COST + PATTERN_COST * (part.patterns.len() as u64 + u64::from(part.names != TRUE));
            let own = part.named.get(name);
            literals.extend(own);
            let mut covered = own.is_some();
            for (pattern, literal) in &part.patterns {
                if self.matches(*pattern, name)? {
                    covered = true;
                    literals.push(*literal);
                }
            }
            if !covered {
                literals.push(part.rest);
            }
            if part.names != TRUE && !self.allows_name(part.names, name)? {
                return Ok([FALSE].into());
            }
        }
        self.spend_steps(steps)?;
        self.conjoin(&literals)
    }

    /// Return whether a cheap check proves that no value satisfies a goal.
    pub fn is_empty(&mut self, goal: &Goal, depth: u32) -> Outcome<bool> {
        if goal.is_empty() || depth == 0 {
            return Ok(false);
        }
        if is_false(goal) {
            return Ok(true);
        }
        let looked = self.known.looked.get(goal).copied().unwrap_or(0);
        if !self.known.empty.contains(goal) && looked < depth {
            self.known.looked.insert(Rc::clone(goal), depth);
            match self.looking(|own| {
                let shape = own.goal(goal)?;
                own.is_empty_shape(&shape, depth)
            }) {
                Ok(true) => {
                    self.known.empty.insert(Rc::clone(goal));
                }
                Ok(false) => {}
                Err(Stop::InProgress) => return Ok(false),
                Err(stop) => return Err(stop),
            }
        }
        Ok(self.known.empty.contains(goal))
    }

    /// Run a search in which a schema that is still being computed is not an error.
    pub fn looking<T>(&mut self, find: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        self.looking += 1;
        let found = find(self);
        self.looking -= 1;
        found
    }

    /// Return whether a cheap check proves that a shape is empty.
    fn is_empty_shape(&mut self, shape: &Shape, depth: u32) -> Outcome<bool> {
        if shape.null || shape.booleans > 0 {
            return Ok(false);
        }
        for numbers in &shape.numbers {
            if !self.has_no_number(numbers)? {
                return Ok(false);
            }
        }
        for strings in &shape.strings {
            if !self.has_no_string(strings)? {
                return Ok(false);
            }
        }
        for arrays in &shape.arrays {
            if !self.is_empty_array_at(arrays, depth)? {
                return Ok(false);
            }
        }
        for objects in &shape.objects {
            if self.simplified_at(Rc::clone(objects), depth)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Return whether a set of numbers is known to be empty.
    pub fn has_no_number(&mut self, numbers: &Rc<NumberSet>) -> Outcome<bool> {
        if numbers.is_any() || numbers.is_any_integer() {
            return Ok(false);
        }
        if let Some(known) = self.known.numbers.get(numbers) {
            return Ok(*known);
        }
        let (is_empty, steps) = self.leaves.decide_no_number(numbers);
        self.known.numbers.insert(Rc::clone(numbers), is_empty);
        self.spend_steps(AUTOMATON_STEP * steps)?;
        Ok(is_empty)
    }

    /// Return whether a set of strings is known to be empty.
    pub fn has_no_string(&mut self, strings: &Rc<StringSet>) -> Outcome<bool> {
        if strings.is_any() {
            return Ok(false);
        }
        if let Some(known) = self.known.strings.get(strings) {
            return Ok(*known);
        }
        let (is_empty, steps) = self.leaves.decide_no_string(strings);
        self.known.strings.insert(Rc::clone(strings), is_empty);
        self.spend_steps(AUTOMATON_STEP * steps)?;
        Ok(is_empty)
    }

    /// Count the texts of a set, at most `most`.
    pub fn count_texts(&mut self, strings: &StringSet, most: u64) -> Outcome<u64> {
        let (count, steps) = self.leaves.count_texts(strings, most)?;
        self.spend_steps(AUTOMATON_STEP * steps)?;
        Ok(count)
    }

    /// Return whether a set of arrays is known to be empty.
    pub fn is_empty_array(&mut self, arrays: &ArraySet) -> Outcome<bool> {
        self.is_empty_array_at(arrays, MAX_CONTRADICTION_DEPTH)
    }

    fn is_empty_array_at(&mut self, arrays: &ArraySet, depth: u32) -> Outcome<bool> {
        let longest = arrays.parts.iter().map(|part| part.prefix.len()).max().unwrap_or(0);
        let count = arrays.minimum.min(longest as u64 + 1);
        self.spend_steps(PART_COST * (arrays.parts.len() as u64 * (1 + count) + arrays.contains.len() as u64))?;
        for index in 0..count as usize {
            let literals: Vec<Literal> = arrays.parts.iter().map(|part| part.literal_at(index)).collect();
            let goal = self.conjoin(&literals)?;
            if self.is_empty(&goal, depth - 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Return the objects without constraints that always hold; None if there are none.
    pub fn simplified(&mut self, objects: Rc<ObjectSet>) -> Outcome<Option<Rc<ObjectSet>>> {
        self.simplified_at(objects, MAX_CONTRADICTION_DEPTH)
    }

    pub fn simplified_at(&mut self, mut objects: Rc<ObjectSet>, depth: u32) -> Outcome<Option<Rc<ObjectSet>>> {
        loop {
            let mut goals = Vec::with_capacity(objects.required.len());
            for name in &objects.required {
                goals.push(self.property_goal(&objects.parts, *name)?);
            }
            if goals.iter().any(|goal| is_false(goal)) {
                return Ok(None);
            }
            // Listed values decide most often, and cost least.
            goals.sort_by_key(|goal| !goal.iter().any(|literal| self.is_listed(*literal)));
            for goal in &goals {
                if self.is_empty(goal, depth - 1)? {
                    return Ok(None);
                }
            }
            if objects.conditions.is_empty() {
                return Ok(Some(objects));
            }
            match self.with_simple_conditions(&objects, depth)? {
                None => return Ok(None),
                Some((plain, None)) => return Ok(Some(Rc::new(plain))),
                Some((plain, Some(told))) => match meet_objects(&plain, &told) {
                    None => return Ok(None),
                    Some(met) => objects = Rc::new(met),
                },
            }
        }
    }

    /// Return the objects with their undecided conditions, and the constraints of conditions that only one clause can
    /// meet: these are plain constraints, and may decide other conditions. Return None if a condition cannot be met.
    fn with_simple_conditions(
        &mut self,
        objects: &ObjectSet,
        depth: u32,
    ) -> Outcome<Option<(ObjectSet, Option<ObjectSet>)>> {
        let clauses: u64 = objects.conditions.iter().map(|condition| condition.len() as u64).sum();
        self.spend_steps(CLAUSE_COST * clauses)?;
        let mut conditions: Vec<Condition> = Vec::new();
        for condition in &objects.conditions {
            let (mut open, mut is_met) = (Vec::new(), false);
            for clause in condition.iter() {
                match self.holds(objects, clause, depth)? {
                    Some(true) => {
                        is_met = true;
                        break;
                    }
                    Some(false) => {}
                    None => open.push(clause.clone()),
                }
            }
            if !is_met {
                if open.is_empty() {
                    return Ok(None);
                }
                conditions.push(open.into());
            }
        }
        let is_sole = |each: &Condition| each.len() == 1 && each[0].name().is_some();
        let soles: Vec<Clause> = each_once(
            conditions
                .iter()
                .filter(|each| is_sole(each))
                .map(|each| each[0].clone()),
        );
        let mut plain = objects.to_change();
        plain.conditions = each_once(conditions.into_iter().filter(|each| !is_sole(each)));
        if soles.is_empty() {
            return Ok(Some((plain, None)));
        }
        let (mut told, mut required) = (Vec::new(), Vec::new());
        for clause in soles {
            let (name, literal) = match clause {
                Clause::Absent(name) => (name, FALSE),
                Clause::HasValue(name, literal) => {
                    required.push(name);
                    (name, literal)
                }
                Clause::SomeKey(_) => continue,
            };
            if literal != TRUE {
                told.push((name, literal));
            }
        }
        let named = Named::of(told.iter().copied());
        let parts = if told.len() > CONDITIONS_WRITTEN_SINGLY && named.entries().len() == told.len() {
            vec![Same::new(ObjectPart {
                named,
                silent: true,
                ..ObjectPart::default()
            })]
        } else {
            told.iter()
                .map(|(name, literal)| self.value_part(*name, *literal))
                .collect()
        };
        let told = ObjectSet {
            parts,
            required: each_once(required),
            ..ObjectSet::default()
        };
        Ok(Some((plain, Some(told))))
    }

    /// Return whether a clause holds for all the objects (true) or for none of them (false); None if unknown.
    fn holds(&mut self, objects: &ObjectSet, clause: &Clause, depth: u32) -> Outcome<Option<bool>> {
        let Some(name) = clause.name() else {
            return Ok(None);
        };
        let goal = self.property_goal(&objects.parts, name)?;
        let required = objects.required.contains(&name);
        let Clause::HasValue(_, literal) = clause else {
            return Ok(if required {
                Some(false)
            } else {
                is_false(&goal).then_some(true)
            });
        };
        if is_false(&goal) {
            return Ok(Some(false));
        }
        let both = self.conjoin_with(&goal, *literal)?;
        if self.is_empty(&both, depth - 1)? {
            return Ok(Some(false));
        }
        Ok((required && self.implies_at(&goal, *literal, depth - 1)?).then_some(true))
    }

    /// Return whether every value that satisfies a goal is known to satisfy a literal.
    pub fn implies(&mut self, goal: &Goal, literal: Literal) -> Outcome<bool> {
        self.implies_at(goal, literal, 2)
    }

    fn implies_at(&mut self, goal: &Goal, literal: Literal, depth: u32) -> Outcome<bool> {
        if goal.contains(&literal) {
            return Ok(true);
        }
        let outside = self.conjoin_with(goal, -literal)?;
        self.is_empty(&outside, depth)
    }

    fn is_listed(&self, literal: Literal) -> bool {
        let location = self.loader.location(literal);
        location.is_synthetic() || location.has("enum") || location.has("const")
    }

    /// Charge for combining pairs of alternatives.
    pub fn spend(&mut self, pairs: u64) -> Outcome<()> {
        self.spend_steps(pairs.saturating_mul(PAIR_COST))
    }

    /// Charge for the constraints of all pairs of objects.
    pub fn spend_sizes(&mut self, first: &[Rc<ObjectSet>], second: &[Rc<ObjectSet>]) -> Outcome<()> {
        let size = |objects: &Rc<ObjectSet>| objects.parts.len() + objects.required.len() + objects.conditions.len();
        let sizes = |all: &[Rc<ObjectSet>]| all.iter().map(size).sum::<usize>() as u64;
        self.spend_steps(second.len() as u64 * sizes(first) + first.len() as u64 * sizes(second))
    }

    pub fn spend_steps(&mut self, steps: u64) -> Outcome<()> {
        let steps = usize::try_from(steps).unwrap_or(usize::MAX);
        self.meter.work(steps).map_err(|_| Stop::limit(Why::Work, &[]))
    }

    /// Return the union without alternatives that are subsets of others, unless `unevaluated…` depends on them.
    pub fn without_subsets(&mut self, objects: Vec<Rc<ObjectSet>>) -> Outcome<Vec<Rc<ObjectSet>>> {
        if self.tracked || objects.len() < 2 || objects.len() > MAX_OBJECTS_COMPARED {
            return Ok(objects);
        }
        let count = objects.len() as u64;
        self.spend(count * count / PAIR_COST)?;
        Ok(largest_objects(&objects))
    }
}
