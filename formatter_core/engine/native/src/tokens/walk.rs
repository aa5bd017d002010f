//! A walk over the vocabulary's trie along an automaton, which collects a class.

use crate::base::byteset::Kinds;
use crate::base::hash::FastMap;
use crate::base::limits::{Meter, Outcome};
use crate::base::order::places_by;
use crate::regular::term::{Term, NOTHING};
use crate::tokens::class::{Class, Cut, End, TokenSet};
use crate::tokens::lexicon::{Lexicon, Row, Step};
use crate::tokens::moves::{Known, Moves, NO_NUMBER};
use crate::tokens::token_ids::Inside;
use crate::tokens::trie::{Node, LONG};

/// A similar class to start from; subtrees in which both classes agree are not walked again.
#[derive(Clone, Copy)]
pub enum Like<'a> {
    /// The class of the term without counts, with its moves and its slack; `bytes` is the number of bytes below which
    /// no count is used up.
    Uncounted {
        class: &'a Class,
        row: &'a Row,
        slack: u32,
        bytes: u32,
    },
    /// The class of a state, with that state's row. Both classes agree wherever the walk meets the same state that the
    /// row leads to.
    State(&'a Class, &'a Row),
}

impl<'a> Like<'a> {
    pub fn class(&self) -> &'a Class {
        match self {
            Like::Uncounted { class, .. } | Like::State(class, _) => class,
        }
    }
}

/// Maximum number of single bytes that a walk steps from a state before it computes all of the state's moves.
const BYTES_STEPPED_SINGLY: u32 = 2;

/// States met on a walk, each once.
#[derive(Default)]
pub struct States {
    pub all: Vec<Term>,
    bits: Vec<u64>,
}

impl States {
    pub fn of(first: Term) -> Self {
        let mut states = States::default();
        states.insert(first);
        states
    }

    /// Add other states.
    pub fn with(mut self, others: &[Term]) -> Self {
        others.iter().for_each(|state| self.insert(*state));
        self
    }

    #[inline]
    fn insert(&mut self, state: Term) {
        let (word, bit) = (state as usize / 64, 1 << (state % 64));
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        if self.bits[word] & bit == 0 {
            self.bits[word] |= bit;
            self.all.push(state);
        }
    }
}

/// A walk keeps its moves in a table after it has visited more nodes than this.
const MOVES_KEPT_AFTER_NODES: usize = 1024;

/// A node on the path to the current one.
struct Open<'a> {
    state: Term,
    /// The state's number in the table of moves.
    number: u16,
    /// None if only one byte may follow and the state's moves have not been computed.
    row: Option<&'a Row>,
    /// The moves of the similar state, if there is one and it is live.
    other: Option<&'a Row>,
    end: u32,
    /// `depth`, `ends_before`, `other_ends_before`: numbers of bytes and of ends on the path before this node.
    depth: u32,
    ends_before: u32,
    other_ends_before: u32,
}

/// A node that is not skipped: the step to it, the row and number of its state, and the step of the similar state.
struct Met<'a> {
    step: Step,
    row: Option<&'a Row>,
    number: u16,
    other: Option<Step>,
}

/// Data kept for a state in the table of moves: it decides whether the subtree below a node is skipped.
#[derive(Clone, Copy)]
struct Kept<'a> {
    row: &'a Row,
    /// Skip if all bytes below are of these kinds: they lead from the state to itself.
    stays: Kinds,
    /// Skip if all bytes below are of these kinds, and at most this many follow in a row.
    goes_on: (Kinds, u16),
    /// Check further (see `goes_on`) if all bytes below are of these kinds, and at most this many follow in a row.
    may_go_on: (Kinds, u16),
}

impl<'a> Kept<'a> {
    fn new(state: Term, row: &'a Row) -> Self {
        let (widest, kinds) = row.widest();
        let stays = row.stays();
        let leads_back = widest == state;
        Kept {
            row,
            stays,
            goes_on: (Kinds::default(), 0),
            may_go_on: (if leads_back { stays.with_characters() } else { kinds }, u16::MAX),
        }
    }
}

pub struct Walk<'a> {
    lexicon: &'a Lexicon,
    first_row: &'a Row,
    open: Vec<Open<'a>>,
    /// The bytes on the path to the current node.
    path: Vec<u8>,
    /// The positions on the path at which the terminal could have ended.
    ending: Vec<End>,
    ending_is_written: bool,
    /// The depths at which the similar state's terminal could have ended.
    other_ending: Vec<u32>,
    inside: Inside,
    /// Ranges of nodes whose tokens are removed from the inside of the similar class: the first node, and the node
    /// after the last.
    removed: Vec<(u32, u32)>,
    cuts: Vec<Cut>,
    ends: Vec<End>,
    like: Option<Like<'a>>,
    /// The nodes that the caller asked about, in ascending order; None for all nodes.
    only: Option<&'a [u32]>,
    /// The states met on the walk, if the caller asked for them.
    pub states: Option<States>,
    /// Cached results of removing the counts from states.
    uncounted: FastMap<Term, (Term, u32)>,
    /// Number of single bytes stepped from each state before its row is computed.
    left_by: FastMap<Term, u32>,
    /// For each state for which `leads_on` has failed: the number of bytes that was too much for it.
    too_far: FastMap<Term, u16>,
    moves: Moves<Kept<'a>>,
    visited: usize,
}

impl<'a> Walk<'a> {
    pub fn new(lexicon: &'a Lexicon, state: Term, like: Option<Like<'a>>, meter: &mut Meter) -> Outcome<Self> {
        let words = lexicon.vocabulary.words();
        Ok(Walk {
            lexicon,
            first_row: lexicon.row(state, meter)?,
            open: Vec::new(),
            path: Vec::new(),
            ending: Vec::new(),
            ending_is_written: false,
            other_ending: Vec::new(),
            inside: match like {
                None => Inside::List(Vec::new()),
                Some(like) => Inside::bits_of(&like.class().inside, words),
            },
            removed: Vec::new(),
            cuts: Vec::new(),
            ends: Vec::new(),
            like,
            only: None,
            states: None,
            uncounted: FastMap::default(),
            left_by: FastMap::default(),
            too_far: FastMap::default(),
            moves: Moves::default(),
            visited: 0,
        })
    }

    /// Start with these tokens inside.
    pub fn begin_inside(&mut self, tokens: &TokenSet) {
        self.inside = Inside::bits_of(tokens, self.lexicon.vocabulary.words());
    }

    /// Skip all subtrees that include none of these nodes, which must be in ascending order.
    pub fn pass_over_all_but(&mut self, nodes: &'a [u32]) {
        self.only = Some(nodes);
    }

    /// Walk along all tokens.
    pub fn walk_trie(&mut self, meter: &mut Meter) -> Outcome<()> {
        let trie = &self.lexicon.vocabulary.trie;
        if self.like.is_some() {
            return self.subtrees(0, trie.nodes().len(), meter);
        }
        for (low, high, _) in self.first_row.live() {
            let range = trie.beginning_with(low, high);
            self.subtrees(range.start, range.end, meter)?;
        }
        Ok(())
    }

    /// Walk the subtrees of the siblings from `index` up to `end`.
    fn subtrees(&mut self, mut index: usize, end: usize, meter: &mut Meter) -> Outcome<()> {
        let trie = &self.lexicon.vocabulary.trie;
        let nodes = trie.nodes();
        let floor = self.open.len();
        // Nodes that are not skipped are inside; `inside_from` is the first one not yet added.
        let mut inside_from = index;
        while index < end {
            while self.open.len() > floor && self.open.last().is_some_and(|last| last.end as usize <= index) {
                self.leave();
            }
            index = self.along_kept_moves(index, end, &mut inside_from);
            let Some(node) = nodes[..end].get(index).copied() else {
                break;
            };
            self.visited += 1;
            let Some(met) = self.meet(&node, index, meter)? else {
                self.add_inside(inside_from, index);
                index = node.end as usize;
                inside_from = index;
                continue;
            };
            index += 1;
            if node.end as usize == index {
                continue;
            }
            let state = met.step.state;
            if match met.row {
                Some(row) => self.goes_on(&node, index - 1, (state, row, met.number), meter)?,
                None => false,
            } {
                index = node.end as usize;
            } else {
                self.enter(node.byte, met.step, met.row, met.number, node.end);
                if let (Some(other), Some(last)) = (met.other, self.open.last_mut()) {
                    last.other = Some(self.lexicon.row(other.state, meter)?);
                    if other.accepts {
                        self.other_ending.push(self.path.len() as u32);
                    }
                }
            }
        }
        self.add_inside(inside_from, end);
        while self.open.len() > floor {
            self.leave();
        }
        Ok(())
    }

    /// Follow the moves in the table from a node on. Return the first node for which there is no move, or which needs
    /// further checks. A long walk spends nearly all of its time here.
    fn along_kept_moves(&mut self, mut index: usize, end: usize, inside_from: &mut usize) -> usize {
        if self.only.is_some() {
            return index;
        }
        let trie = &self.lexicon.vocabulary.trie;
        let nodes = &trie.nodes()[..end];
        while let Some(node) = nodes.get(index) {
            while self.open.last().is_some_and(|last| last.end as usize <= index) {
                self.leave();
            }
            let from = self.open.last().map_or(NO_NUMBER, |last| last.number);
            match self.moves.get(from, node.byte) {
                Known::Unknown => break,
                Known::Dead => {
                    self.cut(index);
                    self.add_inside(*inside_from, index);
                    index = node.end as usize;
                    *inside_from = index;
                }
                Known::Live(..) if node.end as usize == index + 1 => index += 1,
                Known::Live(step, kept, number) => {
                    let (below, missing) = (trie.below(index), self.missing(node));
                    let allows = |(kinds, most): (Kinds, u16)| missing <= most && below.is_within(kinds);
                    if below.is_within(kept.stays) || allows(kept.goes_on) {
                        index = node.end as usize;
                    } else if allows(kept.may_go_on) {
                        break;
                    } else {
                        self.enter(node.byte, step, Some(kept.row), number, node.end);
                        index += 1;
                    }
                }
            }
            self.visited += 1;
        }
        index
    }

    /// Add the tokens that end at the nodes from `first` up to `end`. The range is usually empty; then there is no
    /// look-up.
    #[inline]
    fn add_inside(&mut self, first: usize, end: usize) {
        if first < end {
            let vocabulary = &self.lexicon.vocabulary;
            self.inside
                .add(vocabulary.trie.ids_between(first, end), vocabulary.words());
        }
    }

    /// Return a bound on the number of bytes that follow `node`, a child of the current node, in any token.
    #[inline]
    fn missing(&self, node: &Node) -> u16 {
        match node.longest {
            LONG => u16::MAX,
            longest => u16::from(longest) - self.path.len() as u16 - 1,
        }
    }

    /// Step to a node. Return None if it is skipped: it is dead, it agrees with the similar state, or nobody asked
    /// about it.
    #[inline(always)]
    fn meet(&mut self, node: &Node, index: usize, meter: &mut Meter) -> Outcome<Option<Met<'a>>> {
        let trie = &self.lexicon.vocabulary.trie;
        if let Some(only) = &mut self.only {
            let passed = only.iter().take_while(|next| (**next as usize) < index).count();
            *only = &only[passed..];
            if only.first().map_or(true, |next| *next >= node.end) {
                return Ok(None);
            }
        }
        let from = self.open.last().map_or(NO_NUMBER, |last| last.number);
        match self.moves.get(from, node.byte) {
            Known::Dead => {
                self.cut(index);
                return Ok(None);
            }
            Known::Live(step, kept, number) => {
                return Ok(Some(Met {
                    step,
                    row: Some(kept.row),
                    number,
                    other: None,
                }))
            }
            Known::Unknown => {}
        }
        let step = self.step(node.byte, meter)?;
        let other = self
            .other_row()
            .map(|row| row.step(node.byte))
            .filter(|step| step.state != NOTHING);
        if self.is_alike(node, step, other, meter)? {
            self.copy_cuts(index as u32, node.end);
            return Ok(None);
        }
        if step.state == NOTHING {
            if self.like.is_some() {
                match self.removed.last_mut() {
                    Some((_, end)) if *end as usize == index => *end = node.end,
                    _ => self.removed.push((index as u32, node.end)),
                }
            }
            self.moves.set_dead(from, node.byte);
            self.cut(index);
            return Ok(None);
        }
        if let Some(states) = &mut self.states {
            states.insert(step.state);
        }
        let has_one_child = || trie.nodes()[index + 1].end == node.end;
        let row = match self.lexicon.known_row(step.state) {
            None if node.end as usize == index + 1 || has_one_child() && self.is_left_seldom(step.state)? => None,
            _ => Some(self.lexicon.row(step.state, meter)?),
        };
        Ok(Some(Met {
            step,
            row,
            number: self.keep_move(from, node.byte, step, row),
            other,
        }))
    }

    /// Return whether all tokens below a node stay inside from the node's state.
    fn goes_on(
        &mut self,
        node: &Node,
        index: usize,
        (state, row, number): (Term, &Row, u16),
        meter: &mut Meter,
    ) -> Outcome<bool> {
        let below = self.lexicon.vocabulary.trie.below(index);
        if below.is_within(row.stays()) {
            return Ok(true);
        }
        let (next, kinds) = row.widest();
        if next == state {
            let characters = row.stays().with_characters();
            if !below.is_within(characters) {
                return Ok(false);
            }
            let worth = node.end as usize - index - 1;
            let found = self.lexicon.within_characters(state, row, worth, meter)?;
            if let (Some(met), Some(states)) = (found, &mut self.states) {
                met.iter().for_each(|state| states.insert(*state));
            }
            if let (Some(_), Some(kept)) = (found, self.moves.kept(number)) {
                kept.goes_on = (characters, u16::MAX);
            }
            return Ok(found.is_some());
        }
        let missing = self.missing(node);
        let is_too_far = |least: &u16| *least <= missing;
        if missing == u16::MAX || !below.is_within(kinds) || self.too_far.get(&state).is_some_and(is_too_far) {
            return Ok(false);
        }
        let found = self.leads_on(below, (next, kinds), missing, meter)?;
        if found.is_none() {
            self.too_far.insert(state, missing);
        }
        match (self.moves.kept(number), found) {
            (Some(kept), Some(kinds)) if kept.goes_on.1 < missing => kept.goes_on = (kinds, missing),
            (Some(kept), None) => kept.may_go_on.1 = missing - 1,
            _ => {}
        }
        Ok(found.is_some())
    }

    /// Return the kinds of bytes that all lead from each of `length` states to the same next state, if they include all
    /// kinds below a node; for example in strings of limited length. The first state has led to `next` with `kinds`.
    fn leads_on(
        &mut self,
        below: Kinds,
        (mut next, mut kinds): (Term, Kinds),
        length: u16,
        meter: &mut Meter,
    ) -> Outcome<Option<Kinds>> {
        let mut met = vec![next];
        for _ in 1..length {
            let further;
            (next, further) = self.lexicon.row(next, meter)?.widest();
            self.visited += 1;
            if !below.is_within(further) {
                return Ok(None);
            }
            kinds = kinds.intersection(further);
            met.push(next);
        }
        if let Some(states) = &mut self.states {
            met.into_iter().for_each(|state| states.insert(state));
        }
        Ok(Some(kinds))
    }

    /// Walk along the tokens below `node`, from byte `depth` on; the path to the node has `node_depth` bytes.
    pub fn rest(&mut self, node: u32, depth: u32, node_depth: u32, meter: &mut Meter) -> Outcome<()> {
        let vocabulary = &self.lexicon.vocabulary;
        let token = vocabulary.token_at(node);
        let end = vocabulary.trie.nodes()[node as usize].end;
        self.path.extend_from_slice(&token[..depth as usize]);
        let mut alive = true;
        for &byte in &token[depth as usize..node_depth as usize - 1] {
            let step = self.step(byte, meter)?;
            self.visited += 1;
            if step.state == NOTHING {
                alive = false;
                break;
            }
            self.enter(byte, step, Some(self.lexicon.row(step.state, meter)?), NO_NUMBER, end);
        }
        if alive {
            self.subtrees(node as usize, end as usize, meter)?;
        } else if !self.ending.is_empty() {
            self.path
                .extend_from_slice(&token[self.path.len()..node_depth as usize]);
            self.cut_at(node, node_depth);
        }
        while !self.open.is_empty() {
            self.leave();
        }
        self.path.clear();
        Ok(())
    }

    /// Return the class that the walk has collected.
    pub fn finish(mut self, meter: &mut Meter) -> Outcome<Class> {
        meter.work(self.visited / 16 + 1)?;
        let trie = &self.lexicon.vocabulary.trie;
        let removed = self.removed.into_iter();
        let places = removed.map(|(node, end)| (trie.place_of(node), trie.place_of(end)));
        self.inside.remove_between(places.collect(), trie.all_ids());
        let places = places_by(self.cuts.iter().map(|cut| u64::from(cut.node)));
        let cuts = places.map(|place| self.cuts[place]).collect();
        let inside = self.inside.finish(self.lexicon);
        let owner = match self.only {
            Some(_) => &self.lexicon.owner.apart(),
            None => &self.lexicon.owner,
        };
        Ok(Class::from_parts(inside, cuts, self.ends, owner))
    }

    /// Return the step that a byte makes from the current node.
    #[inline]
    fn step(&self, byte: u8, meter: &mut Meter) -> Outcome<Step> {
        match self.open.last() {
            None => Ok(self.first_row.step(byte)),
            Some(Open { row: Some(row), .. }) => Ok(row.step(byte)),
            Some(last) => self.lexicon.step_alone(last.state, byte, meter),
        }
    }

    /// Count a single byte stepped from a state. Return whether there were few so far and the state's moves are
    /// expensive.
    fn is_left_seldom(&mut self, state: Term) -> Outcome<bool> {
        if !self.lexicon.uncertain(state)? {
            return Ok(false);
        }
        let times = self.left_by.entry(state).or_insert(0);
        *times += 1;
        Ok(*times <= BYTES_STEPPED_SINGLY)
    }

    /// Store a move if the walk is long and has no similar class; return the number of the state that it leads to.
    fn keep_move(&mut self, from: u16, byte: u8, step: Step, row: Option<&'a Row>) -> u16 {
        match row {
            Some(row) if self.visited > MOVES_KEPT_AFTER_NODES && self.like.is_none() => {
                self.moves.set(from, byte, step, Kept::new(step.state, row))
            }
            _ => NO_NUMBER,
        }
    }

    fn enter(&mut self, byte: u8, step: Step, row: Option<&'a Row>, number: u16, end: u32) {
        self.forget_written();
        match self.open.last_mut() {
            // The node before has no other descendants: both are left together, so they share an entry.
            Some(last) if last.end == end => {
                (last.state, last.row, last.number) = (step.state, row, number);
                last.other = None;
            }
            _ => self.open.push(Open {
                state: step.state,
                number,
                row,
                other: None,
                end,
                depth: self.path.len() as u32,
                ends_before: self.ending.len() as u32,
                other_ends_before: self.other_ending.len() as u32,
            }),
        }
        self.path.push(byte);
        if step.accepts {
            let depth = self.path.len() as u32;
            self.ending.push(End { depth, byte: 0 });
            self.ending_is_written = false;
        }
    }

    fn leave(&mut self) {
        if let Some(last) = self.open.pop() {
            self.path.truncate(last.depth as usize);
            if self.ending.len() > last.ends_before as usize {
                self.ending.truncate(last.ends_before as usize);
                self.ending_is_written = false;
            }
            self.other_ending.truncate(last.other_ends_before as usize);
            self.forget_written();
        }
    }

    /// Discard the written ends if they include an end at the current depth: each includes the byte after it, and the
    /// next step sets that byte.
    fn forget_written(&mut self) {
        if self
            .ending
            .last()
            .is_some_and(|end| end.depth as usize == self.path.len())
        {
            self.ending_is_written = false;
        }
    }

    fn other_row(&self) -> Option<&'a Row> {
        match (self.open.last(), self.like) {
            (Some(last), _) => last.other,
            (None, Some(Like::State(_, row) | Like::Uncounted { row, .. })) => Some(row),
            (None, None) => None,
        }
    }

    /// Return whether this state and the similar one have the same results for everything below a node.
    fn is_alike(&mut self, node: &Node, step: Step, other: Option<Step>, meter: &mut Meter) -> Outcome<bool> {
        let Some(other) = other else {
            return Ok(false);
        };
        if other.state == step.state {
            return Ok(self.ends_agree());
        }
        let Some(Like::Uncounted { slack, bytes, .. }) = self.like else {
            return Ok(false);
        };
        if node.longest == LONG {
            return Ok(false);
        }
        // Both terms match the same strings while no count can be used up. They can also complete the same strings if
        // there is room for a completion; the longest completion needed has `slack` bytes.
        let longest = u32::from(node.longest);
        if longest.saturating_add(slack) < bytes {
            return Ok(true);
        }
        if step.state == NOTHING || !self.ends_agree() {
            return Ok(false);
        }
        let (uncounted, bytes) = match self.uncounted.get(&step.state) {
            Some(known) => *known,
            None => {
                let found = self.lexicon.derivatives()?.uncounted(step.state, meter)?;
                *self.uncounted.entry(step.state).or_insert(found)
            }
        };
        let rest = longest - self.path.len() as u32 - 1;
        Ok(uncounted == other.state && rest.saturating_add(slack) < bytes)
    }

    /// Return whether the terminals of this state and of the similar one could have ended at the same positions so far.
    fn ends_agree(&self) -> bool {
        let depths = self.ending.iter().map(|end| end.depth);
        self.ending.len() == self.other_ending.len() && depths.eq(self.other_ending.iter().copied())
    }

    /// Record the ends on the path to a dead subtree below the current node.
    #[inline]
    fn cut(&mut self, node: usize) {
        if !self.ending.is_empty() {
            self.cut_at(node as u32, self.path.len() as u32 + 1);
        }
    }

    /// Record the ends on the path to a dead subtree at depth `depth`.
    fn cut_at(&mut self, node: u32, depth: u32) {
        if !self.ending_is_written {
            self.ending_is_written = true;
            self.ends.extend(self.ending.iter().map(|end| End {
                depth: end.depth,
                byte: self.path.get(end.depth as usize).copied().unwrap_or(0),
            }));
        }
        let last_end = self.ends.len() as u32;
        self.cuts.push(Cut {
            node,
            depth,
            first_end: last_end - self.ending.len() as u32,
            last_end,
        });
    }

    /// Copy the cuts from node `first` up to node `end` from the similar class.
    fn copy_cuts(&mut self, first: u32, end: u32) {
        let Some(class) = self.like.map(|like| like.class()) else {
            return;
        };
        let mut last: Option<(u32, u32, u32)> = None;
        for (cut, ends) in class.cuts_between(first, end) {
            let start = match last {
                Some((first_end, last_end, start)) if (first_end, last_end) == (cut.first_end, cut.last_end) => start,
                _ => {
                    let start = self.ends.len() as u32;
                    self.ends.extend_from_slice(ends);
                    self.ending_is_written = false;
                    start
                }
            };
            last = Some((cut.first_end, cut.last_end, start));
            self.cuts.push(Cut {
                first_end: start,
                last_end: start + ends.len() as u32,
                ..*cut
            });
        }
    }
}
