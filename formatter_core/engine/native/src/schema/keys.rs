//! The unnamed keys of an object, in classes whose values must satisfy the same schemas.
//!
//! The patterns and the schemas for names are questions about a key. Each question splits the cells of keys that answered
//! all before alike, and cells that are known to be empty go.

use std::rc::Rc;
use std::sync::Arc;

use crate::base::hash::FastSet;
use crate::schema::bits::Bits;
use crate::schema::cells::{Cell, Question};
use crate::schema::goals::{is_false, Goal};
use crate::schema::leaves::{StringSet, Test};
use crate::schema::load::{Literal, FALSE, TRUE};
use crate::schema::lowering::Lowering;
use crate::schema::ordered::Ordered;
use crate::schema::report::{Outcome, Stop, Why};
use crate::schema::shapes::{each_once, Clause, Condition, Name, ObjectPart, ObjectSet, Same, SomeKey};

const MOST_CLASSES: usize = 64;
const MOST_WAYS: usize = 256;
/// So many literals, each of which a value satisfies or not, are `MOST_WAYS`.
const MOST_LITERALS: usize = MOST_WAYS.ilog2() as usize;
/// The same in the whole schema, of values that several schemas tell apart: each is read beside the others.
const MOST_WAYS_IN_ALL: u64 = 1_000;
/// Up to this many keys of a class are named where values decide what they meet.
const MOST_NAMED: u64 = 64;
/// No document uses up this many keys.
const ENOUGH_KEYS: u64 = 1_000_000;

/// A class of keys: their terminal with the colon, the goal of their values, and the conditions that these meet.
pub struct KeyClass {
    pub key: u32,
    pub goal: Goal,
    pub met: Bits,
    /// Whether other values of such keys meet others, so that it matters which of several equal keys counts.
    pub depends: bool,
}

/// The goals of a value, each with the conditions that are met then.
type Ways = Vec<(Goal, Bits)>;
/// Literals that values may satisfy, each with the conditions that they meet then.
type Deciding = Ordered<Literal, Bits>;

impl Lowering<'_> {
    /// The classes of keys other than `names` that may occur.
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

    /// Unnamed keys to be named: those of small classes in which a value decides what a key meets.
    ///
    /// Used up by other values, no key of such a class would be left that meets it.
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
                if count <= MOST_NAMED {
                    let texts = self.normalizer.leaves.texts(&strings)?;
                    found.extend(texts.iter().map(|text| self.normalizer.names.number(text)));
                }
            }
            let is_used_up = objects.maximum.map_or(true, |maximum| maximum > count);
            if MOST_NAMED < count && count < ENOUGH_KEYS && is_used_up {
                return Err(Stop::limit(Why::NamedKeys, &[&MOST_NAMED.to_string()]));
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

    /// The conditions that a named property may meet, each with what its value satisfies then.
    ///
    /// `exclusive` are conditions of which it matters whether they are met, each with the literal that decides.
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

    /// The goal as ways in which values meet conditions: `always` those, with a literal those that it decides.
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
        if literals.len() + exclusive.len() > MOST_LITERALS {
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
        if self.told_apart > MOST_WAYS_IN_ALL {
            return Err(self.too_many(Why::Branches, MOST_WAYS_IN_ALL, of));
        }
        Ok(found)
    }

    /// The error of too many ways in which the values of a property, or of an unnamed key, meet conditions.
    fn too_many(&self, why: Why, most: u64, of: Option<Name>) -> Stop {
        let name = of.map(|name| &**self.normalizer.names.text(name));
        let most = most.to_string();
        match name {
            Some(name) => Stop::limit(why, &[&most, name]),
            None => Stop::limit(why, &[&most]),
        }
    }

    /// The ways of many literals that only tell values apart: one for each value, and one for all others.
    fn ways_of_values(
        &mut self,
        goal: &Goal,
        always: &Bits,
        literals: &[(Literal, Bits)],
        of: Option<Name>,
    ) -> Outcome<Ordered<Goal, Bits>> {
        let mut told: Vec<(Vec<Literal>, bool, &Bits)> = Vec::new();
        for (literal, bits) in literals {
            let values = self.normalizer.listed(&[*literal].into(), MOST_WAYS)?;
            let without = self.normalizer.listed(&[-*literal].into(), MOST_WAYS)?;
            let is_negated = values.is_none();
            if is_negated && without.is_none() {
                break;
            }
            let values = values.filter(|values| !values.is_empty());
            told.push((values.or(without).unwrap_or_default(), is_negated, bits));
        }
        let named = each_once(told.iter().flat_map(|(values, ..)| values.iter().copied()));
        if told.len() < literals.len() || named.len() >= MOST_WAYS {
            return Err(self.too_many(Why::Combinations, MOST_WAYS as u64, of));
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
            if cells.len() > MOST_CLASSES {
                return Err(Stop::limit(Why::KeyClasses, &[&MOST_CLASSES.to_string()]));
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

    /// The names for which the answer is yes.
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

    /// What the values of the keys in a cell must satisfy.
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

    /// The conditions that any property with such a key meets, and those that literals decide.
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

/// What decides what the values of an object's keys must satisfy.
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
