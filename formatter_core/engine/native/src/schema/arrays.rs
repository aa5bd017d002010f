//! Lowers arrays to rules: left-recursive lists, or one rule for each state if items are counted or must differ.

use std::rc::Rc;

use crate::base::hash::FastSet;
use crate::base::tuning::{
    MAX_COMPARED_POSITIONS, MAX_CONTAINS, MAX_CONTRADICTION_DEPTH, MAX_COUNTED_VALUES, MAX_LISTED_VALUES,
};
use crate::schema::bits::Bits;
use crate::schema::completion::can_be_complete;
use crate::schema::counting::Values;
use crate::schema::goals::{is_false, Goal};
use crate::schema::listing::Listing;
use crate::schema::load::{Literal, FALSE};
use crate::schema::lowering::Lowering;
use crate::schema::nodes::{any_of, in_order, small, Member, Members, Node, Way};
use crate::schema::ordered::Ordered;
use crate::schema::report::{Outcome, Why};
use crate::schema::shapes::{ArraySet, Contains};
use crate::schema::tokens::Token;

impl<'l> Lowering<'l> {
    /// Make the node of these arrays; None if there are certainly none.
    pub fn arrays(&mut self, arrays: &ArraySet, title: &str) -> Outcome<Option<Node>> {
        let (goals, mut arrays) = self.item_goals(arrays)?;
        if arrays.maximum.is_some_and(|maximum| arrays.minimum > maximum) {
            return Ok(None);
        }
        if let Some(repeated) = arrays.repeated.take() {
            self.refuse(&repeated, "uniqueItems", Why::Repeated, &[])?;
        }
        arrays
            .contains
            .retain(|wanted| wanted.minimum > 0 || wanted.maximum.is_some());
        let unique = arrays.unique.is_some() && !self.must_differ(&goals, &arrays)?;
        let contains = &arrays.contains;
        let is_plain = goals.len() == 1 && contains.iter().all(is_open) && contains.len() <= MAX_CONTAINS;
        if unique && is_plain && (contains.is_empty() || self.values(&goals)?.is_none()) {
            return self.distinct(&arrays, &goals[0], title);
        }
        if !unique && contains.is_empty() {
            return self.plain(&goals, arrays.minimum, arrays.maximum, title).map(Some);
        }
        // Branches that exclude each other produce the same alternatives many times.
        let key = (Rc::new(arrays), goals, unique);
        if let Some(known) = self.machines.get(&key) {
            return Ok(known.clone());
        }
        let node = self.counted(&key.0, &key.1, unique, title)?;
        self.machines.insert(key, node.clone());
        Ok(node)
    }

    /// Return the goals of the items, the last one for all further items, and the arrays, shortened before a position
    /// that no item can fill.
    fn item_goals(&mut self, arrays: &ArraySet) -> Outcome<(Vec<Goal>, ArraySet)> {
        let longest = arrays.parts.iter().map(|part| part.prefix.len()).max().unwrap_or(0);
        let mut goals = Vec::with_capacity(longest + 1);
        for index in 0..=longest {
            let literals: Vec<Literal> = arrays.parts.iter().map(|part| part.literal_at(index)).collect();
            goals.push(self.normalizer.conjoin(&literals)?);
        }
        let mut cut = arrays.to_change();
        for index in 0..goals.len() {
            if self.normalizer.is_empty(&goals[index], 2)? {
                let least = arrays.maximum.map_or(index as u64, |maximum| maximum.min(index as u64));
                goals.truncate(index);
                goals.push([FALSE].into());
                cut.maximum = Some(least);
                break;
            }
        }
        Ok((goals, cut))
    }

    fn plain(&mut self, goals: &[Goal], minimum: u64, maximum: Option<u64>, title: &str) -> Outcome<Node> {
        let (rest, prefix) = goals.split_last().expect("there is a goal for all further items");
        let mut options = Vec::new();
        if minimum == 0 {
            options.push(Node::token(Token::EmptyArray));
        }
        let mut lists: Vec<Node> = Vec::new();
        let mut current: Option<Node> = None;
        let most = maximum.map_or(prefix.len(), |maximum| prefix.len().min(maximum as usize));
        let mut is_last_listed = false;
        for (goal, length) in prefix[..most].iter().zip(1..) {
            let item = self.goal(goal)?;
            let mut list = match current {
                None => item,
                Some(list) => in_order(vec![list, Node::token(Token::Comma), item]),
            };
            is_last_listed = length >= minimum;
            if is_last_listed {
                list = self.rules.shared(&format!("{title}: {length} items"), list)?;
                lists.push(list.clone());
            }
            current = Some(list);
        }
        let count = prefix.len() as u64;
        if !is_false(rest) && maximum.map_or(true, |maximum| maximum > count) {
            let (minimum, maximum) = (minimum as i64 - count as i64, maximum.map(|maximum| maximum - count));
            let more = self.more(current, rest, minimum, maximum, title)?;
            if is_last_listed {
                lists.pop();
            }
            lists.push(more);
        }
        let [open, close] = [Token::OpenArray, Token::CloseArray].map(Node::token);
        options.extend(
            lists
                .into_iter()
                .map(|list| in_order(vec![open.clone(), list, close.clone()])),
        );
        Ok(any_of(options))
    }

    /// Make `start` followed by `minimum` to `maximum` further items; at least one item in all.
    fn more(
        &mut self,
        start: Option<Node>,
        rest: &Goal,
        mut minimum: i64,
        mut maximum: Option<u64>,
        title: &str,
    ) -> Outcome<Node> {
        let item = self.goal(rest)?;
        let further = in_order(vec![Node::token(Token::Comma), item.clone()]);
        let start = start.unwrap_or_else(|| {
            minimum -= 1;
            maximum = maximum.map(|maximum| maximum - 1);
            item
        });
        if maximum.is_none() && minimum <= 0 {
            let rule = self.rules.reserve(&format!("{title}: items"));
            let body = any_of(vec![start, in_order(vec![Node::Rule(rule), further])]);
            self.rules.define(rule, body)?;
            return Ok(Node::Rule(rule));
        }
        if maximum == Some(0) {
            return Ok(start);
        }
        let (minimum, maximum) = (small(minimum.max(0) as u64), maximum.map(small));
        Ok(in_order(vec![start, Node::Repeat(Box::new(further), minimum, maximum)]))
    }

    /// Make arrays whose items differ: each listed value becomes a member that occurs once; for other items, the engine
    /// remembers their values.
    fn distinct(&mut self, arrays: &ArraySet, goal: &Goal, title: &str) -> Outcome<Option<Node>> {
        let listed = match arrays.contains.is_empty() {
            true => self.listing().of(goal, MAX_LISTED_VALUES)?,
            false => None,
        };
        let (mut members, mut maximum) = (Vec::new(), arrays.maximum);
        if let Some(listed) = listed {
            for each in listed {
                let mut orders: Vec<Goal> = Vec::with_capacity(each.literals.len());
                for literal in each.literals {
                    let order: Goal = [literal].into();
                    if !self.normalizer.is_empty(&order, MAX_CONTRADICTION_DEPTH)? {
                        orders.push(order);
                    }
                }
                if !orders.is_empty() {
                    let ways = orders.iter().map(|order| self.goal(order));
                    members.push(Member::plain(ways.collect::<Outcome<_>>()?));
                }
            }
            maximum = maximum.filter(|maximum| *maximum < members.len() as u64);
        } else {
            let mut ways = Vec::new();
            for (each, met) in self.ways_of_items(goal, &arrays.contains)? {
                let shape = self.normalizer.goal(&each)?;
                let large = shape.numbers.iter().any(|numbers| numbers.has_large_steps());
                if !shape.arrays.is_empty() || !shape.objects.is_empty() || large {
                    let why = if large { Why::UniqueSteps } else { Why::UniqueStructures };
                    let pointer = arrays.unique.clone().unwrap_or_else(|| "".into());
                    self.refuse(&pointer, "uniqueItems", why, &[&MAX_LISTED_VALUES.to_string()])?;
                    let mut others = arrays.to_change();
                    others.unique = None;
                    return self.arrays(&others, title);
                }
                if let Some(item) = self.scalars(&shape, true)? {
                    ways.push(Way { item, meets: met });
                }
            }
            if !ways.is_empty() {
                members.push(Member {
                    ways,
                    repeated: true,
                    distinct: true,
                    ..Member::default()
                });
            }
        }
        let mut options = Vec::new();
        if arrays.minimum == 0 && arrays.contains.is_empty() {
            options.push(Node::token(Token::EmptyArray));
        }
        let are_some = !members.is_empty();
        let members = Members {
            separator: Node::token(Token::Comma),
            members,
            ordered: false,
            minimum: small(arrays.minimum.max(1)),
            maximum: maximum.map(small),
            conditions: arrays.contains.len() as u32,
            once: Bits::default(),
        };
        if are_some && can_be_complete(&members)? {
            let [open, close] = [Token::OpenArray, Token::CloseArray].map(Node::token);
            options.push(in_order(vec![open, Node::Members(Box::new(members)), close]));
        }
        Ok((!options.is_empty()).then(|| any_of(options)))
    }

    /// Return the goals that items may satisfy, each with the `contains` that they then meet.
    fn ways_of_items(&mut self, goal: &Goal, contains: &[Contains]) -> Outcome<Vec<(Goal, Bits)>> {
        let mut ways: Ordered<Goal, Bits> = Ordered::new();
        ways.at(Rc::clone(goal));
        for (index, wanted) in contains.iter().enumerate() {
            for (known, met) in ways.entries().to_vec() {
                let both = self.normalizer.conjoin_with(&known, wanted.literal)?;
                let found = ways.at(both);
                found.add(&met);
                found.set(index);
            }
        }
        Ok(ways.into_entries())
    }

    /// Return whether items always differ: there is at most one, or no two positions share a value.
    fn must_differ(&mut self, goals: &[Goal], arrays: &ArraySet) -> Outcome<bool> {
        let Some(maximum) = arrays.maximum else {
            return Ok(false);
        };
        if maximum <= 1 {
            return Ok(true);
        }
        let is_cut = goals.last().is_some_and(|goal| is_false(goal));
        let positions = goals.len() as u64 - u64::from(is_cut);
        if maximum > positions.min(MAX_COMPARED_POSITIONS) {
            return Ok(false);
        }
        for (index, first) in goals[..maximum as usize].iter().enumerate() {
            for second in &goals[..index] {
                let both: Vec<Literal> = first.iter().chain(second.iter()).copied().collect();
                let both = self.normalizer.conjoin(&both)?;
                if !self.normalizer.is_empty(&both, MAX_CONTRADICTION_DEPTH)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Make one rule for each state: the number of items so far, the counts of `contains`, and the values used.
    fn counted(&mut self, arrays: &ArraySet, goals: &[Goal], unique: bool, title: &str) -> Outcome<Option<Node>> {
        let mut values = None;
        if unique {
            values = self.values(goals)?;
            if values.is_none() {
                let pointer = arrays.unique.clone().unwrap_or_else(|| "".into());
                let most = MAX_COUNTED_VALUES.to_string();
                self.refuse(&pointer, "uniqueItems", Why::UniqueCounted, &[&most])?;
                if arrays.contains.is_empty() {
                    return self.plain(goals, arrays.minimum, arrays.maximum, title).map(Some);
                }
            }
        }
        self.counted_by_state(arrays, goals, values.as_ref(), title)
    }

    fn listing(&mut self) -> Listing<'_, 'l> {
        Listing {
            in_any_order: self.common.in_any_order,
            normalizer: &mut self.normalizer,
        }
    }

    /// Return the values of each goal; None if they are not listed or too many.
    fn values(&mut self, goals: &[Goal]) -> Outcome<Option<Values>> {
        let (mut found, mut distinct) = (Values::default(), FastSet::default());
        for goal in goals {
            let Some(listed) = self.listing().of(goal, MAX_COUNTED_VALUES)? else {
                return Ok(None);
            };
            distinct.extend(listed.iter().map(|each| each.identity));
            found.insert(Rc::clone(goal), listed);
        }
        Ok((distinct.len() <= MAX_COUNTED_VALUES).then_some(found))
    }
}

/// Return whether one item at any position suffices, and any number of them is allowed.
fn is_open(wanted: &Contains) -> bool {
    wanted.start == 0 && wanted.minimum == 1 && wanted.maximum.is_none()
}
