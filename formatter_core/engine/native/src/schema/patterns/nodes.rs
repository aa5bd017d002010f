//! Lists of nodes, flat and with neighbouring texts joined.

use super::{is_node, Pattern, Span, Tree, EMPTY};

impl Pattern<'_> {
    #[inline(never)]
    pub(super) fn repeat(&mut self, item: Tree, minimum: u32, maximum: u32, greedy: bool) -> Tree {
        self.items.push(item);
        Tree::Repeat(self.items.len() as u32 - 1, minimum, maximum, greedy)
    }

    /// What stands in the row from a place on, one after the other: neighbours without anchors become one node.
    #[inline(never)]
    pub(super) fn concat(&mut self, first: usize) -> Tree {
        if self.row.len() == first + 1 {
            return self.row.pop().unwrap_or(EMPTY);
        }
        let (end, parts) = (self.row.len(), self.branches.len());
        for place in first..end {
            let item = self.row[place];
            match item {
                Tree::Sequence(span) => self
                    .row
                    .extend_from_slice(&self.items[span.0 as usize..span.1 as usize]),
                _ if is_node(item) => self.push(end, item),
                _ => {
                    self.end_part(end);
                    self.branches.push(item);
                }
            }
        }
        if self.branches.len() == parts {
            let node = self.joined(end);
            self.row.truncate(first);
            return node;
        }
        self.end_part(end);
        self.row.truncate(first);
        self.row.extend_from_slice(&self.branches[parts..]);
        self.branches.truncate(parts);
        Tree::Concat(self.list(first))
    }

    /// What stands in the row from a place on becomes a part.
    #[inline(never)]
    fn end_part(&mut self, first: usize) {
        if self.row.len() > first {
            let node = self.joined(first);
            self.branches.push(node);
        }
    }

    /// Append a node to the row; a text after a text, from a place on, becomes part of that.
    #[inline(never)]
    pub(super) fn push(&mut self, first: usize, node: Tree) {
        if self.row.len() > first {
            if let (Some(Tree::Text(last)), Tree::Text(text)) = (self.row.last_mut(), node) {
                if last.1 != text.0 {
                    let start = self.text.len() as u32;
                    self.text.extend_from_within(last.0 as usize..last.1 as usize);
                    self.text.extend_from_within(text.0 as usize..text.1 as usize);
                    *last = (start, self.text.len() as u32);
                } else {
                    last.1 = text.1;
                }
                return;
            }
        }
        self.row.push(node);
    }

    /// Make a list of what stands in the row from a place on.
    #[inline(never)]
    pub(super) fn list(&mut self, first: usize) -> Span {
        let start = self.items.len() as u32;
        self.items.extend_from_slice(&self.row[first..]);
        self.row.truncate(first);
        (start, self.items.len() as u32)
    }

    #[inline(never)]
    pub(super) fn joined(&mut self, first: usize) -> Tree {
        match self.row.len() - first {
            0 => EMPTY,
            1 => self.row.pop().unwrap_or(EMPTY),
            _ => Tree::Sequence(self.list(first)),
        }
    }

    #[inline(never)]
    pub(super) fn choice(&mut self, first: usize) -> Tree {
        match self.row.len() - first {
            1 => self.row.pop().unwrap_or(EMPTY),
            _ => Tree::Choice(self.list(first)),
        }
    }

    pub(super) fn char(&mut self, char: char) -> Tree {
        let start = self.text.len() as u32;
        self.text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        Tree::Text((start, self.text.len() as u32))
    }
}
