//! What the rules of a schema stand for, for those who explain what may come next.

use std::sync::{Arc, OnceLock};

use crate::schema::json::Tree;

/// Stands between the pointers of a pair of schemas, before what the rule is of these, and at the end; no UTF-8 has these.
const AND: u8 = 0xfd;
const PART: u8 = 0xfe;
const END: u8 = 0xff;

/// What a rule stands for: a schema, or of one that allows several kinds of arrays and objects one kind by its number, from
/// 1 on; or the items of its arrays.
#[derive(Clone, Copy)]
pub struct Title {
    pub schema: u32,
    pub array: u32,
    pub object: u32,
    pub items: bool,
}

/// The schemas of rules, as JSON Pointers when they are asked for.
pub struct Titles {
    tree: Arc<Tree>,
    rules: Vec<Title>,
    /// Pairs of schemas, which are numbered behind the values of the text.
    pairs: Vec<[u32; 2]>,
    text: OnceLock<Vec<u8>>,
}

/// A program with what its rules stand for.
pub struct Written {
    pub program: Vec<u8>,
    pub titles: Titles,
}

impl Title {
    pub fn of(schema: u32) -> Title {
        let (array, object, items) = (0, 0, false);
        Title {
            schema,
            array,
            object,
            items,
        }
    }
}

impl Titles {
    pub fn new(tree: Arc<Tree>, rules: Vec<Title>, pairs: Vec<[u32; 2]>) -> Titles {
        let text = OnceLock::new();
        Titles {
            tree,
            rules,
            pairs,
            text,
        }
    }

    /// For each rule, the pointers to its schema or both of them, and in words what it is of these.
    pub fn text(&self) -> &[u8] {
        self.text.get_or_init(|| {
            let mut text = Vec::new();
            for title in &self.rules {
                match (title.schema as usize).checked_sub(self.tree.len()) {
                    None => text.extend(self.tree.pointer(title.schema).as_bytes()),
                    Some(pair) => {
                        let [one, other] = self.pairs[pair];
                        text.extend(self.tree.pointer(one).as_bytes());
                        text.push(AND);
                        text.extend(self.tree.pointer(other).as_bytes());
                    }
                }
                text.push(PART);
                for (kind, number) in [("array", title.array), ("object", title.object)] {
                    if number > 0 {
                        text.extend(format!(": {kind} {number}").as_bytes());
                    }
                }
                text.extend(if title.items { &b": items"[..] } else { b"" });
                text.push(END);
            }
            text
        })
    }
}
