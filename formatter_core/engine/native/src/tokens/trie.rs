//! A trie of byte strings and their ids, with its nodes in preorder.

use crate::base::byteset::Kinds;
use crate::base::hash::FastMap;
use crate::base::stop;
use crate::base::utf8::Places;

/// A node of a trie. Its descendants are the nodes after it, up to `end`.
///
/// Nodes are small, because walks over all of them spend most of their time waiting for memory.
#[derive(Clone, Copy)]
pub struct Node {
    /// The first node after this one's descendants.
    pub end: u32,
    /// An index into the trie's kinds: the kinds of bytes that occur below this node.
    below: u16,
    /// The length of the longest key that passes through this node, or `LONG`.
    pub longest: u8,
    /// The byte on the edge to this node.
    pub byte: u8,
}

/// The cost in elementary steps to add a key to a trie.
const STEPS_OF_A_KEY: u64 = 16;

/// The value for every length from 255 on.
pub const LONG: u8 = u8::MAX;

/// A node during construction, before all of its descendants are known.
struct Open {
    node: usize,
    /// The positions within a character at which the bytes below this node may begin, so that they form whole
    /// characters, except perhaps the last.
    begins: Places,
    /// The kinds of bytes that occur below this node.
    below: Kinds,
}

/// A trie of keys in ascending order, each with one or more ids. The root has no node: node 0 is its first child.
pub struct Trie {
    nodes: Box<[Node]>,
    /// First all kinds together, then each different set of kinds that occurs below a node.
    kinds: Box<[Kinds]>,
    ids: Box<[u32]>,
    /// For each node, the index in `ids` of the first id of its key and those below it; the last entry is the number of
    /// ids.
    first_ids: Box<[u32]>,
    /// For each byte, the first node whose first byte is not lower; the last entry is the number of nodes.
    roots: Box<[u32]>,
}

impl Trie {
    /// Make a trie from sorted keys with their ids. Empty keys are dropped. The trie is incomplete if the call must end,
    /// see `stop::ends_within`.
    pub fn new(entries: &[(&[u8], u32)]) -> Self {
        let mut nodes: Vec<Node> = Vec::with_capacity(2 * entries.len());
        let mut below = Vec::with_capacity(2 * entries.len());
        let mut ids = Vec::with_capacity(entries.len());
        let mut first_ids = Vec::with_capacity(2 * entries.len());
        let mut open: Vec<Open> = Vec::new();
        let mut previous: &[u8] = &[];
        for &(key, id) in entries.iter().filter(|(key, _)| !key.is_empty()) {
            if stop::ends_within(STEPS_OF_A_KEY) {
                break;
            }
            if key != previous {
                let shared = previous
                    .iter()
                    .zip(key)
                    .take_while(|(left, right)| left == right)
                    .count();
                close(&mut nodes, &mut below, &mut open, shared);
                for &byte in &key[shared..] {
                    open.push(Open {
                        node: nodes.len(),
                        begins: Places::ALL,
                        below: Kinds::default(),
                    });
                    first_ids.push(ids.len() as u32);
                    nodes.push(Node {
                        end: 0,
                        below: 0,
                        longest: 0,
                        byte,
                    });
                    below.push(Kinds::default());
                }
                if let Some(last) = nodes.last_mut() {
                    last.longest = u8::try_from(key.len()).unwrap_or(LONG);
                }
                previous = key;
            }
            ids.push(id);
        }
        close(&mut nodes, &mut below, &mut open, 0);
        let kinds = keep_kinds(&mut nodes, below);
        first_ids.push(ids.len() as u32);
        let mut roots = Vec::with_capacity(257);
        let mut root = 0;
        while let Some(node) = nodes.get(root) {
            roots.resize(usize::from(node.byte) + 1, root as u32);
            root = node.end as usize;
        }
        roots.resize(257, root as u32);
        Trie {
            roots: roots.into(),
            nodes: nodes.into(),
            kinds: kinds.into(),
            ids: ids.into(),
            first_ids: first_ids.into(),
        }
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Return the kinds of bytes that occur below `node`.
    #[inline]
    pub fn below(&self, node: usize) -> Kinds {
        self.kinds[usize::from(self.nodes[node].below)]
    }

    /// Return the nodes of the keys whose first byte is in a range.
    pub fn beginning_with(&self, low: u8, high: u8) -> std::ops::Range<usize> {
        self.roots[usize::from(low)] as usize..self.roots[usize::from(high) + 1] as usize
    }

    /// Return the ids of the key that ends at `node`; empty if none does.
    #[inline]
    pub fn ids(&self, node: usize) -> &[u32] {
        self.ids_between(node, node + 1)
    }

    /// Return the ids of the keys at and below `node`.
    #[inline]
    pub fn all_ids_below(&self, node: usize) -> &[u32] {
        self.ids_between(node, self.nodes[node].end as usize)
    }

    /// Return the ids of the keys at the nodes from `first` up to `end`.
    #[inline]
    pub fn ids_between(&self, first: usize, end: usize) -> &[u32] {
        &self.ids[self.first_ids[first] as usize..self.first_ids[end] as usize]
    }

    /// Return the ids of all keys, in the order of the keys.
    pub fn all_ids(&self) -> &[u32] {
        &self.ids
    }

    /// Return the index in `all_ids` from which the ids of the keys at `node` and after it begin.
    pub fn place_of(&self, node: u32) -> usize {
        self.first_ids[node as usize] as usize
    }

    /// Return the node that `byte` leads to from `node`.
    pub fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let end = self.nodes[node as usize].end;
        let mut child = node + 1;
        while child < end {
            let found = &self.nodes[child as usize];
            if found.byte >= byte {
                return (found.byte == byte).then_some(child);
            }
            child = found.end;
        }
        None
    }

    pub fn bytes(&self) -> usize {
        std::mem::size_of_val(&*self.nodes)
            + std::mem::size_of_val(&*self.kinds)
            + 4 * (self.ids.len() + self.first_ids.len() + self.roots.len())
    }
}

/// Store in each node the index of the set of kinds that occur below it, and return these sets; there are few different
/// ones. If there are too many to index, a node gets the set of all kinds: then fewer subtrees are skipped as a whole.
fn keep_kinds(nodes: &mut [Node], below: Vec<Kinds>) -> Vec<Kinds> {
    let mut kept = vec![Kinds::ALL];
    let mut numbers: FastMap<Kinds, u16> = FastMap::default();
    for (node, kinds) in nodes.iter_mut().zip(below) {
        node.below = *numbers.entry(kinds).or_insert_with(|| match u16::try_from(kept.len()) {
            Ok(number) => {
                kept.push(kinds);
                number
            }
            Err(_) => 0,
        });
    }
    kept
}

/// Close the open nodes from `depth` on: all of their descendants are known.
fn close(nodes: &mut [Node], below: &mut [Kinds], open: &mut Vec<Open>, depth: usize) {
    let end = nodes.len() as u32;
    while open.len() > depth {
        let Some(child) = open.pop() else {
            return;
        };
        below[child.node] = match child.begins.has_first() {
            true => child.below,
            false => child.below.loose(),
        };
        let node = &mut nodes[child.node];
        node.end = end;
        let Node { byte, longest, .. } = *node;
        if let Some(parent) = open.last_mut() {
            parent.begins = parent.begins.and(child.begins.before(byte));
            parent.below = parent.below.union(child.below).union(Kinds::of(byte));
            let longest_there = &mut nodes[parent.node].longest;
            *longest_there = longest.max(*longest_there);
        }
    }
}

const NO_NODE: u32 = u32::MAX;

/// The tokens of a model: the bytes of each id, and a trie of the tokens that are text.
pub struct Vocabulary {
    pub trie: Trie,
    text: Box<[u8]>,
    starts: Box<[u32]>,
    /// The node of the trie at which each token ends, or `NO_NODE`.
    nodes: Box<[u32]>,
    /// The length of the longest token in bytes.
    pub longest: u32,
}

impl Vocabulary {
    /// Make a vocabulary from the bytes of all tokens. `starts` has the index of each token's first byte, and the end
    /// of the last token; a token without bytes is not text.
    pub fn new(text: &[u8], starts: &[u32]) -> Option<Self> {
        let in_order = starts.windows(2).all(|pair| pair[0] <= pair[1]);
        if !in_order || starts.is_empty() || *starts.last()? as usize > text.len() {
            return None;
        }
        let slice = |pair: &[u32]| &text[pair[0] as usize..pair[1] as usize];
        let mut entries: Vec<(&[u8], u32)> = starts.windows(2).map(slice).zip(0..).collect();
        entries.retain(|(token, _)| !token.is_empty());
        entries.sort_unstable();
        let trie = Trie::new(&entries);
        let mut nodes = vec![NO_NODE; starts.len() - 1];
        for node in 0..trie.nodes.len() {
            trie.ids(node).iter().for_each(|id| nodes[*id as usize] = node as u32);
        }
        Some(Vocabulary {
            trie,
            nodes: nodes.into(),
            text: text.into(),
            starts: starts.into(),
            longest: entries.iter().map(|(token, _)| token.len() as u32).max().unwrap_or(0),
        })
    }

    /// Return the number of token ids.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Return the number of 32-bit words in a mask.
    pub fn words(&self) -> usize {
        self.len().div_ceil(32)
    }

    /// Return the bytes of a token; empty if it is not text or does not exist.
    pub fn token(&self, id: u32) -> &[u8] {
        match self.starts.get(id as usize..).and_then(|rest| rest.get(..2)) {
            Some(pair) => &self.text[pair[0] as usize..pair[1] as usize],
            None => &[],
        }
    }

    /// Return the node of the trie at which a token ends, if it is text.
    pub fn node_of(&self, id: u32) -> Option<u32> {
        self.nodes.get(id as usize).copied().filter(|node| *node != NO_NODE)
    }

    /// Return the tokens that spell a prefix of a text, grouped by the length of the prefix, the shortest first.
    pub fn beginnings(&self, text: &[u8]) -> Vec<&[u32]> {
        let Some((first, rest)) = text.split_first() else {
            return Vec::new();
        };
        let mut node = self.trie.beginning_with(*first, *first).next().map(|node| node as u32);
        let mut found = Vec::new();
        for byte in rest.iter().map(Some).chain([None]) {
            let Some(known) = node else {
                break;
            };
            let ids = self.trie.ids(known as usize);
            if !ids.is_empty() {
                found.push(ids);
            }
            node = byte.and_then(|byte| self.trie.child(known, *byte));
        }
        found
    }

    /// Return the bytes of one token that passes through a node of the trie.
    pub fn token_at(&self, node: u32) -> &[u8] {
        let ids = self.trie.all_ids_below(node as usize);
        ids.first().map_or(&[], |id| self.token(*id))
    }

    pub fn bytes(&self) -> usize {
        self.trie.bytes() + self.text.len() + 4 * (self.starts.len() + self.nodes.len())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn nodes_are_in_preorder_and_know_their_ids() {
        let vocabulary = Vocabulary::new(b"abaabbab", &[0, 2, 3, 5, 5, 6, 8]).unwrap();
        // Tokens: 0 "ab", 1 "a", 2 "ab", 3 none, 4 "b", 5 "ab".
        let shape: Vec<(u8, u32)> = vocabulary
            .trie
            .nodes()
            .iter()
            .map(|node| (node.byte, node.end))
            .collect();
        assert_eq!(shape, [(b'a', 2), (b'b', 2), (b'b', 3)]);
        assert_eq!(vocabulary.trie.ids(0), [1]);
        assert_eq!(vocabulary.trie.ids(1), [0, 2, 5]);
        assert_eq!(vocabulary.trie.all_ids_below(0), [1, 0, 2, 5]);
        assert_eq!(vocabulary.token(4), b"b");
        assert!(vocabulary.token(3).is_empty() && vocabulary.token(99).is_empty());
        assert_eq!(
            vocabulary
                .trie
                .nodes()
                .iter()
                .map(|node| node.longest)
                .collect::<Vec<_>>(),
            [2, 2, 1]
        );
    }

    #[test]
    fn starts_out_of_order_are_refused() {
        assert!(Vocabulary::new(b"ab", &[0, 2, 1]).is_none());
        assert!(Vocabulary::new(b"ab", &[0, 3]).is_none());
        assert!(Vocabulary::new(b"", &[]).is_none());
    }

    /// Make a vocabulary of these tokens, with ids from 0; examples of other modules use it.
    pub fn vocabulary(tokens: &[&str]) -> Arc<Vocabulary> {
        let ends = tokens.iter().scan(0, |end, token| {
            *end += token.len() as u32;
            Some(*end)
        });
        let starts: Vec<u32> = std::iter::once(0).chain(ends).collect();
        Arc::new(Vocabulary::new(tokens.concat().as_bytes(), &starts).unwrap())
    }

    #[test]
    fn example_trie_of_a_vocabulary() {
        let vocabulary = vocabulary(&["ab", "a", "b"]);
        let trie = &vocabulary.trie;
        let a = vocabulary.node_of(1).unwrap();
        let ab = trie.child(a, b'b').unwrap();
        assert_eq!(trie.ids(ab as usize), [0]);
        assert_eq!(trie.all_ids_below(a as usize), [1, 0]);
        assert_eq!(vocabulary.beginnings(b"abb"), [&[1][..], &[0]]);
    }
}
