//! The unnamed keys of an object, in classes. The values of a class must satisfy the same schemas.
//!
//! The patterns and the schemas for names are questions about a key. A cell contains keys with the same answers to all
//! earlier questions. Each question splits the cells; cells that are known to be empty are dropped.

use std::rc::Rc;
use std::sync::Arc;

use crate::base::hash::FastSet;
use crate::base::tuning::{
    MAX_KEY_CLASSES, MAX_NAMED_KEYS, MAX_SCHEMA_ALTERNATIVES, MAX_VALUE_ALTERNATIVES, MAX_VALUE_LITERALS,
};
use crate::schema::bits::Bits;
use crate::schema::cells::{Cell, Question};
use crate::schema::goals::{is_false, Goal};
use crate::schema::leaves::{StringSet, Test};
use crate::schema::load::{Literal, FALSE, TRUE};
use crate::schema::lowering::Lowering;
use crate::schema::ordered::Ordered;
use crate::schema::report::{Outcome, Stop, Why};
use crate::schema::shapes::{each_once, Clause, Condition, Name, ObjectPart, ObjectSet, Same, SomeKey};

/// A number of keys that no document uses up.
const ENOUGH_KEYS: u64 = 1_000_000;

/// A class of keys: the terminal of the keys with the colon, the goal of their values, and the conditions that these
/// meet.
pub struct KeyClass {
    pub key: u32,
    pub goal: Goal,
    pub met: Bits,
    /// True if other values of such keys meet other conditions; then it matters which of several equal keys counts.
    pub depends: bool,
}

/// The goals of a value, each with the conditions that are met if the value satisfies the goal.
type Ways = Vec<(Goal, Bits)>;
/// Literals that values may satisfy, each with the conditions that are met then.
type Deciding = Ordered<Literal, Bits>;

impl Lowering<'_> {
    /// Compute the classes of the keys other than `names` that may occur.
    pub fn extras(&mut self, objects: &ObjectSet, names: &[Name]) -> Outcome<Vec<KeyClass>> {
        let is_closed = |part: &Same<ObjectPart>| part.rest == FALSE && part.patterns.is_empty();
        if objects.parts.iter().any(is_closed) {
            return Ok(Vec::new());
        }
        let cells = self.cells(objects)?;
        let mut groups: Ordered<(Goal, Bits, bool), Vec<Rc<StringSet>>> = Ordered::new();
        for cell in cells.iter() {
            let goal = self.goal_of(&objects.parts, cell)?;
            let (always, literals) = self.deciding(&objects.conditions, cell, &goal)?;
            let depends = !literals.entries().is_empty();
            let strings = match depends {
                true => self.unnamed(cell, names)?,
                false => cell.strings.clone(),
            };
            if strings.is_empty() {
                continue;
            }
            for (way, met) in self.ways_of(&goal, always, literals, &[], None)? {
                groups.at((way, met, depends)).extend(strings.iter().cloned());
            }
        }
        let mut groups = groups.into_entries();
        let all: usize = cells.iter().map(|cell| cell.strings.len()).sum();
        if let [(_, strings)] = &mut groups[..] {
            if strings.len() == all {
                *strings = vec![Rc::new(StringSet::any())];
            }
        }
        let mut classes = Vec::with_capacity(groups.len());
        for ((goal, met, depends), strings) in groups {
            let key = self.key(&strings, names)?;
            classes.push(KeyClass {
                key,
                goal,
                met,
                depends,
            });
        }
        Ok(classes)
    }

    /// Return the unnamed keys that we must name: those of small classes in which a value decides which conditions a
    /// key meets.
    ///
    /// Other values could use up all keys of such a class; then no key would remain that meets the condition.
    pub fn listed_keys(&mut self, objects: &ObjectSet, names: &[Name]) -> Outcome<Vec<Name>> {
        let mut clauses = objects.conditions.iter().flat_map(|condition| condition.iter());
        if !clauses.any(|clause| matches!(clause, Clause::SomeKey(some) if some.literal != TRUE)) {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for cell in self.cells(objects)?.iter() {
            let goal = self.goal_of(&objects.parts, cell)?;
            if is_false(&goal) || self.deciding(&objects.conditions, cell, &goal)?.1.entries().is_empty() {
                continue;
            }
            let mut count = 0;
            for strings in self.unnamed(cell, names)? {
                count += self.normalizer.count_texts(&strings, ENOUGH_KEYS)?;
                if count <= MAX_NAMED_KEYS {
                    let texts = self.normalizer.leaves.texts(&strings)?;
                    found.extend(texts.iter().map(|text| self.normalizer.names.number(text)));
                }
            }
            let is_used_up = objects.maximum.map_or(true, |maximum| maximum > count);
            if MAX_NAMED_KEYS < count && count < ENOUGH_KEYS && is_used_up {
                return Err(Stop::limit(Why::NamedKeys, &[&MAX_NAMED_KEYS.to_string()]));
            }
        }
        Ok(each_once(found))
    }

    fn unnamed(&mut self, cell: &Cell, names: &[Name]) -> Outcome<Vec<Rc<StringSet>>> {
        if names.is_empty() {
            return Ok(cell.strings.clone());
        }
        let others = Rc::new(self.other_than(names));
        self.both(&cell.strings, &[others])
    }

    pub fn other_than(&self, names: &[Name]) -> StringSet {
        StringSet {
            excluded: names
                .iter()
                .map(|name| Arc::clone(self.normalizer.names.text(*name)))
                .collect(),
            ..StringSet::any()
        }
    }

    /// Compute the sets of conditions that a named property may meet, each with the goal that its value then satisfies.
    ///
    /// `exclusive` contains the conditions for which it also matters that they are not met, each with the literal that
    /// decides it.
    pub fn ways(
        &mut self,
        conditions: &[Condition],
        exclusive: &[(usize, Literal)],
        name: Name,
        goal: &Goal,
    ) -> Outcome<Ways> {
        let (mut always, mut literals) = (Bits::default(), Deciding::new());
        for (index, condition) in conditions.iter().enumerate() {
            for clause in condition.iter() {
                let literal = match clause {
                    Clause::SomeKey(some) if self.is_covered(some, name)? => some.literal,
                    Clause::HasValue(other, literal) if *other == name => *literal,
                    _ => continue,
                };
                self.decide(goal, literal, index, &mut always, &mut literals)?;
            }
        }
        self.ways_of(goal, always, literals, exclusive, Some(name))
    }

    fn decide(
        &mut self,
        goal: &Goal,
        literal: Literal,
        index: usize,
        always: &mut Bits,
        literals: &mut Deciding,
    ) -> Outcome<()> {
        if literal == TRUE || self.normalizer.implies(goal, literal)? {
            always.set(index);
        } else {
            literals.at(literal).set(index);
        }
        Ok(())
    }

    /// Split a goal by the conditions that its values meet: always the conditions `always`, and those of each literal
    /// that they satisfy.
    fn ways_of(
        &mut self,
        goal: &Goal,
        always: Bits,
        literals: Deciding,
        exclusive: &[(usize, Literal)],
        of: Option<Name>,
    ) -> Outcome<Ways> {
        let mut literals = literals.into_entries();
        let mut exclusive = exclusive.to_vec();
        let mut ways: Ordered<Goal, Bits> = Ordered::new();
        if literals.len() + exclusive.len() > MAX_VALUE_LITERALS {
            literals.extend(exclusive.drain(..).map(|(bit, literal)| (literal, Bits::of([bit]))));
            ways = self.ways_of_values(goal, &always, &literals, of)?;
            literals.clear();
        } else {
            ways.at(Rc::clone(goal)).add(&always);
        }
        let are_several = literals.len() + exclusive.len() > 1;
        for (literal, bits) in literals {
            for (known, met) in ways.entries().to_vec() {
                let both = self.normalizer.conjoin_with(&known, literal)?;
                let found = ways.at(both);
                found.add(&met);
                found.add(&bits);
            }
        }
        for (bit, literal) in exclusive {
            let mut split: Ordered<Goal, Bits> = Ordered::new();
            for (known, met) in ways.entries() {
                let inside = self.normalizer.conjoin_with(known, literal)?;
                let outside = self.normalizer.conjoin_with(known, -literal)?;
                let found = split.at(inside);
                found.add(met);
                found.set(bit);
                split.at(outside).add(met);
            }
            ways = split;
        }
        let mut found = Vec::new();
        for (way, met) in ways.into_entries() {
            if !is_false(&way) && !self.normalizer.is_empty(&way, 2)? {
                found.push((way, met));
                self.told_apart += u64::from(are_several);
            }
        }
        if self.told_apart > MAX_SCHEMA_ALTERNATIVES {
            return Err(self.too_many(Why::Branches, MAX_SCHEMA_ALTERNATIVES, of));
        }
        Ok(found)
    }

    /// Make the error for too many alternatives of the values of a property, or of an unnamed key.
    fn too_many(&self, why: Why, most: u64, of: Option<Name>) -> Stop {
        let name = of.map(|name| &**self.normalizer.names.text(name));
        let most = most.to_string();
        match name {
            Some(name) => Stop::limit(why, &[&most, name]),
            None => Stop::limit(why, &[&most]),
        }
    }

    /// Split a goal by many literals that each allow a few values: one alternative for each value, and one for all
    /// other values.
    fn ways_of_values(
        &mut self,
        goal: &Goal,
        always: &Bits,
        literals: &[(Literal, Bits)],
        of: Option<Name>,
    ) -> Outcome<Ordered<Goal, Bits>> {
        let mut told: Vec<(Vec<Literal>, bool, &Bits)> = Vec::new();
        for (literal, bits) in literals {
            let values = self.normalizer.listed(&[*literal].into(), MAX_VALUE_ALTERNATIVES)?;
            let without = self.normalizer.listed(&[-*literal].into(), MAX_VALUE_ALTERNATIVES)?;
            let is_negated = values.is_none();
            if is_negated && without.is_none() {
                break;
            }
            let values = values.filter(|values| !values.is_empty());
            told.push((values.or(without).unwrap_or_default(), is_negated, bits));
        }
        let named = each_once(told.iter().flat_map(|(values, ..)| values.iter().copied()));
        if told.len() < literals.len() || named.len() >= MAX_VALUE_ALTERNATIVES {
            return Err(self.too_many(Why::Combinations, MAX_VALUE_ALTERNATIVES as u64, of));
        }
        let mut ways: Ordered<Goal, Bits> = Ordered::new();
        for each in named.iter().map(Some).chain([None]) {
            let mut met = always.clone();
            for (values, is_negated, bits) in &told {
                if each.is_some_and(|each| values.contains(each)) != *is_negated {
                    met.add(bits);
                }
            }
            let mut way = goal.to_vec();
            match each {
                Some(each) => way.push(*each),
                None => way.extend(named.iter().map(|other| -other)),
            }
            ways.at(self.normalizer.conjoin(&way)?).add(&met);
        }
        Ok(ways)
    }

    fn is_covered(&mut self, some: &SomeKey, name: Name) -> Outcome<bool> {
        if some.named.contains(&name) {
            return Ok(false);
        }
        for pattern in &some.patterns {
            if self.normalizer.matches(*pattern, name)? {
                return Ok(false);
            }
        }
        if let Some(pattern) = some.pattern {
            if !self.normalizer.matches(pattern, name)? {
                return Ok(false);
            }
        }
        Ok(some.names == TRUE || self.normalizer.allows_name(some.names, name)?)
    }

    fn cells(&mut self, objects: &ObjectSet) -> Outcome<Rc<[Cell]>> {
        let questions = questions(objects);
        if let Some(known) = self.cells.get(&questions) {
            return Ok(Rc::clone(known));
        }
        let cells: Rc<[Cell]> = self.sort(&questions)?.into();
        self.cells.insert(questions, Rc::clone(&cells));
        Ok(cells)
    }

    fn sort(&mut self, questions: &[Question]) -> Outcome<Vec<Cell>> {
        let mut cells = vec![Cell {
            strings: vec![Rc::new(StringSet::any())],
            yes: FastSet::default(),
        }];
        for question in questions {
            let asked = self.members(*question)?;
            let mut others = vec![Rc::new(StringSet::any())];
            for strings in &asked {
                let outside = strings.others()?;
                let mut met = Vec::new();
                for one in &others {
                    for two in &outside {
                        met.extend(self.normalizer.leaves.meet_strings(one, two)?.map(Rc::new));
                    }
                }
                others = met;
            }
            let mut split = Vec::with_capacity(2 * cells.len());
            for cell in cells {
                let inside = self.both(&cell.strings, &asked)?;
                let outside = self.both(&cell.strings, &others)?;
                if !inside.is_empty() {
                    let mut yes = cell.yes.clone();
                    yes.insert(*question);
                    split.push(Cell { strings: inside, yes });
                }
                if !outside.is_empty() {
                    let yes = cell.yes;
                    split.push(Cell { strings: outside, yes });
                }
            }
            cells = split;
            if cells.len() > MAX_KEY_CLASSES {
                return Err(Stop::limit(Why::KeyClasses, &[&MAX_KEY_CLASSES.to_string()]));
            }
        }
        Ok(cells)
    }

    fn both(&mut self, first: &[Rc<StringSet>], second: &[Rc<StringSet>]) -> Outcome<Vec<Rc<StringSet>>> {
        let mut met = Vec::new();
        for one in first {
            for two in second {
                if let Some(each) = self.normalizer.leaves.meet_strings(one, two)? {
                    met.push(Rc::new(each));
                }
            }
        }
        let mut kept = Vec::with_capacity(met.len());
        for each in met {
            if !self.normalizer.has_no_string(&each)? {
                kept.push(each);
            }
        }
        Ok(kept)
    }

    /// Return the names for which the answer is yes.
    fn members(&mut self, question: Question) -> Outcome<Vec<Rc<StringSet>>> {
        let pattern = match question {
            Question::Pattern(pattern) => self.normalizer.names.text(pattern),
            Question::Names(literal) => {
                let shape = self.normalizer.literal(literal)?;
                return Ok(shape
                    .strings
                    .iter()
                    .map(|strings| Rc::new(strings.as_enforced()))
                    .collect());
            }
        };
        let strings = match &**pattern {
            "" | "^" | ".*" | "^.*" => StringSet::any(),
            _ => StringSet::passing(Test::Pattern(Arc::clone(pattern))),
        };
        Ok(vec![Rc::new(strings)])
    }

    /// Return the goal of the values of the keys in a cell.
    fn goal_of(&mut self, parts: &[Same<ObjectPart>], cell: &Cell) -> Outcome<Goal> {
        let mut literals = Vec::new();
        for part in parts {
            if part.names != TRUE && !cell.yes.contains(&Question::Names(part.names)) {
                return Ok([FALSE].into());
            }
            let before = literals.len();
            let matched = part.patterns.iter();
            let matched = matched.filter(|(pattern, _)| cell.yes.contains(&Question::Pattern(*pattern)));
            literals.extend(matched.map(|(_, literal)| *literal));
            if literals.len() == before {
                literals.push(part.rest);
            }
        }
        self.normalizer.conjoin(&literals)
    }

    /// Return the conditions that every property with such a key meets, and the conditions that literals decide.
    fn deciding(&mut self, conditions: &[Condition], cell: &Cell, goal: &Goal) -> Outcome<(Bits, Deciding)> {
        let (mut always, mut literals) = (Bits::default(), Deciding::new());
        for (index, condition) in conditions.iter().enumerate() {
            for clause in condition.iter() {
                match clause {
                    Clause::SomeKey(some) if covers(some, cell) => {
                        self.decide(goal, some.literal, index, &mut always, &mut literals)?;
                    }
                    _ => {}
                }
            }
        }
        Ok((always, literals))
    }
}

fn covers(some: &SomeKey, cell: &Cell) -> bool {
    let has = |pattern: &Name| cell.yes.contains(&Question::Pattern(*pattern));
    !some.patterns.iter().any(has)
        && some.pattern.as_ref().map_or(true, has)
        && (some.names == TRUE || cell.yes.contains(&Question::Names(some.names)))
}

/// Return the questions that decide what the values of an object's keys must satisfy.
fn questions(objects: &ObjectSet) -> Vec<Question> {
    let mut found = Vec::new();
    let ask_names = |names: Literal| (names != TRUE).then_some(Question::Names(names));
    for part in &objects.parts {
        if part.patterns.iter().any(|(_, literal)| *literal != part.rest) {
            found.extend(part.patterns.iter().map(|(pattern, _)| Question::Pattern(*pattern)));
        }
        found.extend(ask_names(part.names));
    }
    for clause in objects.conditions.iter().flat_map(|condition| condition.iter()) {
        if let Clause::SomeKey(some) = clause {
            found.extend(some.patterns.iter().copied().map(Question::Pattern));
            found.extend(some.pattern.map(Question::Pattern));
            found.extend(ask_names(some.names));
        }
    }
    each_once(found)
}
