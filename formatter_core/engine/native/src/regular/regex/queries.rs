//! Queries about nodes, and helpers that build simple nodes. Each recurses over the nodes of one pattern; `lower`
//! bounds their height.

use super::classes::{self, Range, Ranges};
use super::node::{Kind, Node, Repeat};
use super::tree::Row;

/// Return the sequence of the items, as flat as possible.
pub fn in_order(items: impl IntoIterator<Item = Node>) -> Node {
    let mut row = Row::default();
    for item in items {
        match item.kind() {
            Kind::Sequence(parts) => parts.iter().for_each(|part| row.push(part.clone())),
            _ if item.is_nothing() => return item,
            _ => row.push(item),
        }
    }
    row.joined()
}

/// Return the choice between the items, in order.
pub fn any_of(mut items: Vec<Node>) -> Node {
    items.retain(|item| !item.is_nothing());
    match items.len() {
        1 => items.remove(0),
        _ => Node::choice(items),
    }
}

/// Return the intersection; `left` must match only well-formed UTF-8.
pub fn both(left: &Node, right: &Node) -> Node {
    if right.is_any_text() {
        return left.clone();
    }
    let is_no_text = matches!(right.kind(), Kind::Complement(item) if item.is_any_text());
    if left.is_nothing() || right.is_nothing() || is_no_text {
        return Node::nothing();
    }
    let mut items = match left.kind() {
        Kind::Intersection(items) => items.to_vec(),
        _ => vec![left.clone()],
    };
    items.push(right.clone());
    Node::intersection(items)
}

/// Return the part of the node that matches the empty text, with its captures.
pub fn empty_part(node: &Node) -> Node {
    if !node.is_nullable() {
        return Node::nothing();
    }
    match node.kind() {
        Kind::Capture(name, item) => Node::capture(name.clone(), empty_part(item)),
        Kind::Sequence(items) => in_order(items.iter().map(empty_part)),
        Kind::Choice(items) => {
            let first = items.iter().map(empty_part).find(|part| !part.is_nothing());
            first.unwrap_or_else(Node::nothing)
        }
        Kind::Repeat(repeat) => {
            let part = empty_part(&repeat.item);
            match repeat.minimum {
                0 if part.is_empty() || part.is_nothing() || !repeat.greedy => Node::empty(),
                0 => any_of(vec![part, Node::empty()]),
                _ if part.is_empty() => part,
                minimum => Node::repeat(part, minimum, Some(minimum), repeat.greedy),
            }
        }
        _ => Node::empty(),
    }
}

/// Return a node for the texts of `node` whose last character is one of these.
pub fn ending_in(node: &Node, characters: &[Range]) -> Node {
    if characters.is_empty() {
        return Node::nothing();
    }
    match node.kind() {
        Kind::Text(text) => {
            let is_last = |char: char| !classes::intersection(characters, &classes::single(char.into())).is_empty();
            match text.chars().next_back() {
                Some(last) if is_last(last) => node.clone(),
                _ => Node::nothing(),
            }
        }
        Kind::Chars(ranges) => Node::one_of(classes::intersection(ranges, characters)),
        Kind::Choice(items) => any_of(items.iter().map(|item| ending_in(item, characters)).collect()),
        Kind::Capture(name, item) => match ending_in(item, characters) {
            inner if inner.is_nothing() => inner,
            inner => Node::capture(name.clone(), inner),
        },
        Kind::Repeat(Repeat {
            item,
            minimum,
            maximum,
            greedy,
        }) => {
            let maximum = maximum.map(|maximum| maximum.saturating_sub(1));
            let earlier = match maximum {
                Some(0) => Node::empty(),
                _ => Node::repeat(item.clone(), minimum.saturating_sub(1), maximum, *greedy),
            };
            in_order([earlier, ending_in(item, characters)])
        }
        Kind::Sequence(items) => {
            let (mut found, mut after) = (Vec::new(), Node::empty());
            for (place, item) in items.iter().enumerate().rev() {
                let last = [ending_in(item, characters), after.clone()];
                found.push(in_order(items[..place].iter().cloned().chain(last)));
                if !item.is_nullable() {
                    break;
                }
                after = in_order([empty_part(item), after]);
            }
            any_of(found)
        }
        Kind::Intersection(_)
        | Kind::Complement(_)
        | Kind::JsonText(..)
        | Kind::ListedText(_)
        | Kind::Multiples { .. } => Node::nothing(),
    }
}

/// Return the number of characters of every text of the node, or None if they differ.
pub fn fixed_length(node: &Node) -> Option<u64> {
    match node.kind() {
        Kind::Text(text) => Some(text.chars().count() as u64),
        Kind::Chars(_) => Some(1),
        Kind::Sequence(items) => items
            .iter()
            .map(fixed_length)
            .try_fold(0, |sum: u64, length| Some(sum.saturating_add(length?))),
        Kind::Choice(items) => {
            let first = items.first().map_or(Some(0), fixed_length);
            first.filter(|_| items.iter().skip(1).all(|item| fixed_length(item) == first))
        }
        Kind::Repeat(repeat) if Some(repeat.minimum) == repeat.maximum => {
            fixed_length(&repeat.item).map(|length| length.saturating_mul(repeat.minimum.into()))
        }
        Kind::Intersection(items) => fixed_length(&items[0]),
        _ => None,
    }
}

/// Return a set that includes the first character of every text of the node.
pub fn first_characters(node: &Node) -> Ranges {
    match node.kind() {
        Kind::Text(text) => match text.chars().next() {
            Some(first) => classes::single(first.into()),
            None => classes::none(),
        },
        Kind::Chars(ranges) => ranges.clone(),
        Kind::Choice(items) => united(items.iter()),
        Kind::Repeat(repeat) => first_characters(&repeat.item),
        Kind::Capture(_, item) => first_characters(item),
        Kind::Intersection(items) => first_characters(&items[0]),
        Kind::Sequence(items) => {
            let first = items.iter().position(|item| !item.is_nullable());
            united(items[..first.map_or(items.len(), |place| place + 1)].iter())
        }
        Kind::Complement(_) | Kind::JsonText(..) | Kind::ListedText(_) | Kind::Multiples { .. } => classes::all(),
    }
}

fn united<'a>(items: impl Iterator<Item = &'a Node>) -> Ranges {
    let sets: Vec<Ranges> = items.map(first_characters).collect();
    classes::union(sets.iter().map(|set| &**set))
}
