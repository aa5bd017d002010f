//! The rules of a grammar under construction.

use std::rc::Rc;

use crate::base::hash::FastMap;
use crate::schema::goals::Goal;
use crate::schema::nodes::Node;
use crate::schema::report::{Outcome, Stop, Why};

/// Rules with their titles, and the goals that still have to be lowered.
pub struct Rules {
    pub bodies: Vec<Node>,
    pub titles: Vec<Rc<str>>,
    pub pending: Vec<(Goal, u32)>,
    pub goals: FastMap<Goal, Node>,
    pub uses_any: bool,
    /// The number of times that each title was requested.
    wanted: FastMap<Rc<str>, u32>,
    nodes: u64,
    most: u64,
}

impl Rules {
    /// Make an empty set of rules with at most `most` nodes.
    pub fn new(most: u64) -> Self {
        Rules {
            bodies: Vec::new(),
            titles: Vec::new(),
            pending: Vec::new(),
            goals: FastMap::default(),
            uses_any: false,
            wanted: FastMap::default(),
            nodes: 0,
            most,
        }
    }

    /// Reserve a rule that is defined later; its title is made unique.
    pub fn reserve(&mut self, wanted: &str) -> u32 {
        let mut title: Rc<str> = wanted.into();
        if let Some(known) = self.wanted.get(wanted) {
            let mut count = *known;
            while self.wanted.contains_key(&title) {
                count += 1;
                title = format!("{wanted} ({count})").into();
            }
            self.wanted.insert(wanted.into(), count);
        }
        self.wanted.insert(Rc::clone(&title), 1);
        self.titles.push(title);
        self.bodies.push(Node::NOTHING);
        self.bodies.len() as u32 - 1
    }

    /// Define the body of a reserved rule.
    pub fn define(&mut self, rule: u32, body: Node) -> Outcome<()> {
        self.nodes += match &body {
            Node::Choice(options) => options.len() as u64,
            _ => 1,
        };
        if self.nodes > self.most {
            return Err(Stop::limit(Why::GrammarNodes, &["the schema's grammar"]));
        }
        self.bodies[rule as usize] = body;
        Ok(())
    }

    /// Add a new rule.
    pub fn add(&mut self, wanted: &str, body: Node) -> Outcome<Node> {
        let rule = self.reserve(wanted);
        self.define(rule, body)?;
        Ok(Node::Rule(rule))
    }

    /// Return a node for a `body` that is used several times: the body itself if it is small, else a rule.
    pub fn shared(&mut self, wanted: &str, body: Node) -> Outcome<Node> {
        match body {
            Node::Sequence(_) | Node::Choice(_) => self.add(wanted, body),
            body => Ok(body),
        }
    }
}
