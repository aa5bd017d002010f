//! The order of an object's named keys: first the keys of its own `properties`, then the keys that we meet in a
//! left-to-right walk over its schemas.
//!
//! Objects that are in some branches of a union have the keys of these branches first, in the order of the branches.

use crate::base::hash::FastSet;
use crate::base::tuning::MAX_KEY_ORDER_DEPTH;
use crate::schema::goals::Goal;
use crate::schema::json::Value;
use crate::schema::keywords::in_place;
use crate::schema::load::{Literal, Location, Said, TRUE};
use crate::schema::normal::Normalizer;
use crate::schema::report::{Outcome, Stop, Why};
use crate::schema::shapes::{each_once, Name, ObjectSet};
use crate::schema::single::Single;

/// The names that a schema gives, with the branch of a union that contains the schema, if any.
struct Group {
    schema: Option<(usize, u32)>,
    in_branch: bool,
    names: Vec<Name>,
}

/// The named keys of a goal, in order.
#[derive(Default)]
pub struct KeyOrder {
    /// The names of `properties` and of listed objects in the order of the walk, then all other names.
    pub names: Vec<Name>,
    named: Vec<Group>,
    late: Vec<Group>,
    walked: FastSet<(Literal, bool)>,
}

impl KeyOrder {
    /// Return the named keys in the order in which some of the goal's objects have them.
    pub fn of(&self, objects: &ObjectSet) -> Vec<Name> {
        let own: FastSet<(usize, u32)> = objects.parts.iter().filter_map(|part| part.origin).collect();
        let is_other = |group: &&Group| group.in_branch && !group.schema.is_some_and(|schema| own.contains(&schema));
        let first = self.named.iter().filter(|group| !is_other(group));
        let others = self.named.iter().filter(is_other);
        names_of(first.chain(others).chain(&self.late))
    }
}

fn names_of<'g>(groups: impl Iterator<Item = &'g Group>) -> Vec<Name> {
    let names: Vec<Name> = groups.flat_map(|group| group.names.iter().copied()).collect();
    each_once(names)
}

impl Normalizer<'_> {
    /// Compute the order of the named keys of a goal's objects.
    pub fn key_order(&mut self, goal: &Goal) -> Outcome<KeyOrder> {
        let mut order = KeyOrder::default();
        for literal in goal.iter() {
            self.walk(&mut order, literal.abs(), false, MAX_KEY_ORDER_DEPTH)?;
        }
        order.names = names_of(order.named.iter().chain(&order.late));
        Ok(order)
    }

    fn walk(&mut self, order: &mut KeyOrder, literal: Literal, in_branch: bool, room: u32) -> Outcome<()> {
        if literal == TRUE || !order.walked.insert((literal, in_branch)) {
            return Ok(());
        }
        let too_deep = || {
            Stop::limit(
                Why::Depth,
                &["the chain of schemas for the keys", &MAX_KEY_ORDER_DEPTH.to_string()],
            )
        };
        let room = room.checked_sub(1).ok_or_else(too_deep)?;
        let location = self.loader.location(literal);
        let (tree, schema) = (
            location.tree(),
            match location.said {
                Said::Schema(schema) => Some((location.document, schema)),
                Said::Value(value) => {
                    let names = self.names_in(&location, value);
                    order.named.push(Group {
                        schema: None,
                        in_branch,
                        names,
                    });
                    return Ok(());
                }
                Said::Single(Single::Object(ref entries)) => {
                    let names = entries.iter().map(|(name, _)| self.names.number(name)).collect();
                    order.named.push(Group {
                        schema: None,
                        in_branch,
                        names,
                    });
                    return Ok(());
                }
                Said::Single(_) => return Ok(()),
            },
        );
        let only_reference = location.draft <= 7 && location.has("$ref");
        let is_said = |keyword: &str| !only_reference || keyword == "$ref";
        let entries: Vec<(&str, u32)> = location.entries().filter(|(keyword, _)| is_said(keyword)).collect();
        let first = entries.iter().filter(|(keyword, _)| *keyword == "properties");
        let others = entries.iter().filter(|(keyword, _)| *keyword != "properties");
        for (keyword, _) in first.chain(others) {
            let Some(value) = location.get(keyword) else {
                continue;
            };
            match *keyword {
                "properties" => {
                    let names = self.names_in(&location, value);
                    order.named.push(Group {
                        schema,
                        in_branch,
                        names,
                    });
                }
                "required" => {
                    let names = self.names_in(&location, value);
                    order.late.push(Group {
                        schema,
                        in_branch,
                        names,
                    });
                }
                "enum" | "const" => {
                    let one = [value];
                    let values = if *keyword == "enum" {
                        tree.items(value).unwrap_or(&[])
                    } else {
                        &one
                    };
                    for value in values.iter().filter(|value| tree.entries(**value).is_some()) {
                        let names = self.names_in(&location, *value);
                        order.named.push(Group {
                            schema,
                            in_branch,
                            names,
                        });
                    }
                }
                "dependentRequired" | "dependentSchemas" | "dependencies" => {
                    for (name, wanted) in tree.entries(value).unwrap_or(&[]) {
                        let name = tree.text(name);
                        let mut names = vec![self.names.number(name)];
                        let is_list = tree.items(*wanted).is_some();
                        if is_list {
                            names.extend(self.names_in(&location, *wanted));
                        }
                        order.late.push(Group {
                            schema,
                            in_branch,
                            names,
                        });
                        if !is_list {
                            let child = self.loader.child_at(&location, keyword, name, *wanted)?;
                            self.walk(order, child.abs(), in_branch, room)?;
                        }
                    }
                }
                _ if in_place(keyword).is_some() => {
                    let in_branch = in_branch || matches!(*keyword, "anyOf" | "oneOf" | "then" | "else");
                    for child in self.children_in_place(&location, keyword)? {
                        self.walk(order, child.abs(), in_branch, room)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn children_in_place(&mut self, location: &Location, keyword: &str) -> Outcome<Vec<Literal>> {
        match keyword {
            "$ref" | "$dynamicRef" | "$recursiveRef" => Ok(vec![self.loader.resolve(location, keyword)?]),
            "allOf" | "anyOf" | "oneOf" => self.loader.children(location, keyword),
            "not" | "if" | "then" | "else" => Ok(vec![self.loader.child(location, keyword)?]),
            _ => Ok(Vec::new()),
        }
    }

    /// Return the names that a keyword gives. If the type excludes objects, the keyword was not validated.
    fn names_in(&mut self, location: &Location, value: u32) -> Vec<Name> {
        let tree = location.tree();
        match tree.value(value) {
            Value::Object(_) => {
                let entries = tree.entries(value).unwrap_or(&[]).iter();
                let names = entries
                    .map(|(name, _)| name)
                    .filter(|name| tree.lone_surrogate(name).is_none());
                names.map(|name| self.names.number(tree.text(name))).collect()
            }
            Value::List(_) => {
                let items = tree.items(value).unwrap_or(&[]).iter();
                let texts = items.filter_map(|item| tree.string(*item));
                texts.map(|text| self.names.number(text)).collect()
            }
            _ => Vec::new(),
        }
    }
}
