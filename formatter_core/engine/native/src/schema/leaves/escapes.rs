//! Listed texts in which some characters have their `\u` escapes, such as characters that a vocabulary cannot spell.

use super::terminal_program::listed;
use super::Terminal;
use crate::regular::regex::{Kind, Node};

/// Return the terminal with these characters escaped in its listed texts.
pub fn with_escapes(terminal: &Terminal, characters: &[char]) -> Terminal {
    match has_any(terminal.item(), characters) {
        true => Terminal::new(escaped(terminal.item(), characters)),
        false => terminal.clone(),
    }
}

fn has_any(node: &Node, characters: &[char]) -> bool {
    match node.kind() {
        Kind::ListedText(text) => text.contains(characters),
        Kind::Sequence(items) | Kind::Choice(items) | Kind::Intersection(items) => {
            items.iter().any(|item| has_any(item, characters))
        }
        Kind::Repeat(repeat) => has_any(&repeat.item, characters),
        Kind::Complement(item) | Kind::Capture(_, item) => has_any(item, characters),
        Kind::Text(_) | Kind::JsonText(..) | Kind::Chars(_) | Kind::Multiples { .. } => false,
    }
}

/// Return the node with the characters escaped; a node without them is returned unchanged.
fn escaped(node: &Node, characters: &[char]) -> Node {
    if !has_any(node, characters) {
        return node.clone();
    }
    match node.kind() {
        Kind::ListedText(text) => Node::text(text.chars().map(|char| spelled(char, characters)).collect::<String>()),
        _ => node.map_children(|child| escaped(child, characters)),
    }
}

/// Return the one spelling of a character; a character beyond the basic plane has two escapes.
fn spelled(char: char, characters: &[char]) -> String {
    match characters.contains(&char) {
        true => char
            .encode_utf16(&mut [0; 2])
            .iter()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect(),
        false => listed(char.encode_utf8(&mut [0; 4])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_texts_have_escapes() {
        let kept = Node::text("é");
        let node = Node::sequence(vec![
            kept.clone(),
            Node::choice(vec![Node::listed_text("a\"é😀"), kept]),
        ]);
        let found = with_escapes(&Terminal::new(node), &['é', '😀', 'x']);
        let Kind::Sequence(items) = found.item().kind() else {
            panic!("another node: {found:?}")
        };
        assert!(matches!(items[0].kind(), Kind::Text(text) if &**text == "é"));
        let Kind::Choice(items) = items[1].kind() else {
            panic!("another node: {found:?}")
        };
        assert!(matches!(items[0].kind(), Kind::Text(text) if &**text == r#"a\"\u00e9\ud83d\ude00"#));
    }
}
