//! Lowers objects: their properties become the members of a list, in order or in any order, with the conditions between
//! them.

use std::rc::Rc;

use crate::base::hash::{FastMap, FastSet};
use crate::schema::bits::Bits;
use crate::schema::completion::can_be_complete;
use crate::schema::goals::{is_false, Goal};
use crate::schema::keys::KeyClass;
use crate::schema::load::{Literal, FALSE};
use crate::schema::lowering::Lowering;
use crate::schema::nodes::{any_of, in_order, small, Member, Members, Node, Way};
use crate::schema::report::{Outcome, Stop, Why};
use crate::schema::shapes::{each_once, Clause, Name, ObjectSet};
use crate::schema::tokens::Token;

/// Minimum nodes of a member: its key, its value, and the sequence of both.
const NODES_OF_MEMBER: u64 = 3;

/// A named property: its key, and for each set of conditions that it may meet, the goal of its value.
struct Property {
    name: Name,
    key: u32,
    required: bool,
    values: Vec<(Goal, Bits)>,
    /// The conditions that are met if the property is absent.
    absent: Bits,
}

impl Lowering<'_> {
    /// Make the node of these objects; None if there are certainly none.
    pub fn objects(&mut self, objects: &Rc<ObjectSet>, names: Vec<Name>) -> Outcome<Option<Node>> {
        // Branches that exclude each other produce the same alternatives many times.
        let key = (Rc::clone(objects), names);
        if let Some(known) = self.lowered.get(&key) {
            return Ok(known.clone());
        }
        let node = self.new_objects(objects, &key.1)?;
        self.lowered.insert(key, node.clone());
        Ok(node)
    }

    fn new_objects(&mut self, objects: &Rc<ObjectSet>, names: &[Name]) -> Outcome<Option<Node>> {
        let mut objects = Rc::clone(objects);
        if !objects.conditions.is_empty() {
            match self.normalizer.simplified_at(objects, 2)? {
                Some(simple) => objects = simple,
                None => return Ok(None),
            }
        }
        let mut names = all_names(&objects, names);
        names.extend(self.listed_keys(&objects, &names)?);
        let properties = self.properties(&objects, &names)?;
        self.count_members(properties.len())?;
        let required = properties.iter().filter(|each| each.required).count();
        if required < objects.required.len() {
            return Ok(None);
        }
        let extras = self.extras(&objects, &names)?;
        let most = extras.is_empty().then_some(properties.len() as u64);
        if most.is_some_and(|most| most < objects.minimum) {
            return Ok(None);
        }
        if let (Some(most), Some(maximum)) = (most, objects.maximum) {
            if most <= maximum {
                let mut changed = objects.to_change();
                changed.maximum = None;
                objects = Rc::new(changed);
            }
        }
        let conditions = Conditions::of(&objects, &properties);
        let mut found = Vec::new();
        if objects.minimum == 0 && conditions.may_be_empty(&properties) {
            found.push(Node::token(Token::EmptyObject));
        }
        if !properties.is_empty() || !extras.is_empty() {
            let members = self.members_of(&objects, &conditions, properties, required, extras)?;
            if can_be_complete(&members)? {
                let members = Node::Members(Box::new(members));
                let brackets = [Token::OpenObject, Token::CloseObject].map(Node::token);
                let [open, close] = brackets;
                found.push(in_order(vec![open, members, close]));
            }
        }
        Ok((!found.is_empty()).then(|| any_of(found)))
    }

    /// Refuse too many members before we make them all: n branches with n names have n² members.
    fn count_members(&mut self, members: usize) -> Outcome<()> {
        self.members_made += members as u64;
        if self.members_made * NODES_OF_MEMBER > self.most.nodes {
            return Err(Stop::limit(Why::GrammarNodes, &["the grammar"]));
        }
        Ok(())
    }

    fn members_of(
        &mut self,
        objects: &ObjectSet,
        conditions: &Conditions,
        properties: Vec<Property>,
        required: usize,
        extras: Vec<KeyClass>,
    ) -> Outcome<Members> {
        let mut members = Vec::with_capacity(properties.len() + 1);
        for each in properties {
            let mut ways = Vec::with_capacity(each.values.len());
            for (value, met) in each.values {
                ways.push(self.way(each.key, &value, conditions.kept(&met))?);
            }
            members.push(Member {
                ways,
                required: each.required,
                absent: conditions.kept(&each.absent),
                ..Member::default()
            });
        }
        if !extras.is_empty() {
            // One extra key may occur twice, unless several keys are counted, or it matters which of the values counts.
            let are_counted = objects.minimum.saturating_sub(required as u64) > 1;
            let distinct = are_counted || extras.iter().any(|extra| extra.depends);
            let mut ways = Vec::with_capacity(extras.len());
            for extra in extras {
                ways.push(self.way(extra.key, &extra.goal, conditions.kept(&extra.met))?);
            }
            members.push(Member {
                ways,
                repeated: true,
                distinct,
                ..Member::default()
            });
        }
        let minimum = if objects.minimum > required as u64 {
            objects.minimum
        } else {
            1
        };
        Ok(Members {
            separator: Node::token(Token::Comma),
            ordered: !self.common.in_any_order || members.len() == 1,
            members,
            minimum: small(minimum),
            maximum: objects.maximum.map(small),
            conditions: conditions.kept.len() as u32,
            once: conditions.kept(&conditions.once),
        })
    }

    fn way(&mut self, key: u32, goal: &Goal, meets: Bits) -> Outcome<Way> {
        let item = Node::Sequence(vec![Node::Terminal(key), self.goal(goal)?]);
        Ok(Way { item, meets })
    }

    fn properties(&mut self, objects: &ObjectSet, names: &[Name]) -> Outcome<Vec<Property>> {
        let closed = objects
            .parts
            .iter()
            .filter(|part| part.rest == FALSE && part.patterns.is_empty());
        let closed: Vec<_> = closed.collect();
        let required: FastSet<Name> = objects.required.iter().copied().collect();
        let mut exclusive: FastMap<Name, Vec<(usize, Literal)>> = FastMap::default();
        for (clauses, place) in objects.exclusive.iter().zip(objects.conditions.len()..) {
            for (name, literal) in clauses.iter() {
                exclusive.entry(*name).or_default().push((place, *literal));
            }
        }
        let mut found = Vec::new();
        for name in names {
            if closed.iter().any(|part| part.named.get(*name).is_none()) {
                continue;
            }
            let goal = self.normalizer.property_goal(&objects.parts, *name)?;
            if is_false(&goal) {
                continue;
            }
            let decided = exclusive.get(name).map_or(&[][..], |decided| decided);
            let mut values = vec![(Rc::clone(&goal), Bits::default())];
            if !objects.conditions.is_empty() || !decided.is_empty() {
                values = self.ways(&objects.conditions, decided, *name, &goal)?;
            }
            let is_met = |each: &(usize, &Rc<[Clause]>)| each.1.contains(&Clause::Absent(*name));
            let absent = objects.conditions.iter().enumerate().filter(is_met);
            found.push(Property {
                name: *name,
                key: self.name(*name)?,
                required: required.contains(name),
                values,
                absent: Bits::of(absent.map(|(index, _)| index)),
            });
        }
        Ok(found)
    }
}

/// Return the named keys, including those that the walk over the schema does not find.
fn all_names(objects: &ObjectSet, names: &[Name]) -> Vec<Name> {
    let named = objects.parts.iter().flat_map(|part| part.named.names());
    let clauses = objects.conditions.iter().flat_map(|condition| condition.iter());
    let exclusive = objects
        .exclusive
        .iter()
        .flat_map(|clauses| clauses.iter().map(|clause| clause.0));
    each_once(
        names
            .iter()
            .copied()
            .chain(named)
            .chain(objects.required.iter().copied())
            .chain(clauses.filter_map(Clause::name))
            .chain(exclusive),
    )
}

/// The conditions that members must meet, without those that a property meets because it never occurs.
struct Conditions {
    /// The indices of the remaining conditions among all conditions.
    kept: Vec<usize>,
    once: Bits,
}

impl Conditions {
    fn of(objects: &ObjectSet, properties: &[Property]) -> Self {
        let known: FastSet<Name> = properties.iter().map(|each| each.name).collect();
        let never_comes = |clause: &Clause| matches!(clause, Clause::Absent(name) if !known.contains(name));
        let count = objects.conditions.len();
        let kept = (0..count).filter(|place| !objects.conditions[*place].iter().any(never_comes));
        let once = count..count + objects.exclusive.len();
        Conditions {
            kept: kept.chain(once.clone()).collect(),
            once: Bits::of(once),
        }
    }

    /// Convert bits of all conditions to bits of the remaining ones.
    fn kept(&self, bits: &Bits) -> Bits {
        if bits.is_empty() {
            return Bits::default();
        }
        let places = self.kept.iter().enumerate().filter(|(_, bit)| bits.has(**bit));
        Bits::of(places.map(|(place, _)| place))
    }

    fn may_be_empty(&self, properties: &[Property]) -> bool {
        let mut met = Bits::default();
        properties.iter().for_each(|each| met.add(&each.absent));
        !properties.iter().any(|each| each.required) && self.kept(&met) == Bits::of(0..self.kept.len())
    }
}
