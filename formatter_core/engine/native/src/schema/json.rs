//! JSON text as a tree of values. Each value has its place in the text, which is rewritten without insignificant blanks
//! and escapes.

use crate::base::heap;
use crate::base::span::Span;
use crate::base::stop;
use crate::base::tuning::MAX_JSON_DEPTH;

/// Objects with more entries have an index.
const ENTRIES_WITHOUT_INDEX: usize = 12;
/// Estimated bytes of text for each value.
const BYTES_OF_A_VALUE: usize = 12;
/// The cost in elementary steps to read a value.
pub const STEPS_OF_A_VALUE: u64 = 4;
/// Maximum characters of a number; longer numbers may have more digits than Python reads.
const NUMBER_CHARACTERS: usize = 40;
/// Maximum zeros at the beginning of a fraction; Python writes smaller fractions with an exponent.
const PLAIN_FRACTION_ZEROS: usize = 5;
/// Maximum factor by which an escape grows when it is rewritten.
const ESCAPE_GROWTH: usize = 3;

/// A string: its range in the text, or among the strings that contain escapes.
#[derive(Clone, Copy)]
pub struct Text {
    start: u32,
    end: u32,
    is_escaped: bool,
    /// True if the string contains half of a surrogate pair, which is written as its escape instead.
    is_lone: bool,
}

#[derive(Clone, Copy)]
pub enum Value {
    Null,
    Bool(bool),
    Number,
    String(Text),
    List(Span),
    Object(Object),
}

#[derive(Clone, Copy)]
pub struct Object {
    entries: Span,
    /// The index in `Tree::sorted` at which the sorted entries begin, if the object has many entries.
    sorted: Option<u32>,
}

/// A tree of JSON values, stored in a few lists so that it needs few allocations.
#[derive(Default)]
pub struct Tree {
    /// The rewritten text. If `is_exact`, it is the same for all spellings of the same values with the same order of
    /// keys. A zero byte ends it.
    pub text: String,
    values: Vec<(Value, (u32, u32))>,
    items: Vec<u32>,
    entries: Vec<(Text, u32)>,
    /// The indices of entries sorted by name, for objects that have many.
    sorted: Vec<u32>,
    /// The strings that have escapes in the text.
    escaped: String,
    /// For each string with lone surrogates, where it begins in `escaped`, and where its JSON is in the text.
    lone: Vec<(u32, (u32, u32))>,
    pub root: u32,
    /// True if all numbers are spelled as Python would write them after reading them.
    pub is_exact: bool,
}

impl Tree {
    /// Return the heap memory in bytes, see `heap`.
    pub fn heap(&self) -> usize {
        self.text.capacity()
            + heap::list(&self.values)
            + heap::list(&self.items)
            + heap::list(&self.entries)
            + heap::list(&self.sorted)
            + self.escaped.capacity()
    }

    /// Read a text; return None if it is not JSON, contains a duplicate key, or is too deeply nested, or if the call must
    /// end, see `stop::ends_within`.
    pub fn read(text: &str) -> Option<Tree> {
        u32::try_from(text.len().checked_mul(ESCAPE_GROWTH)?).ok()?;
        let tree = Tree {
            text: String::with_capacity(text.len() + 1),
            values: Vec::with_capacity(text.len() / BYTES_OF_A_VALUE),
            is_exact: true,
            ..Tree::default()
        };
        let mut reader = Reader {
            text,
            at: 0,
            tree,
            items: Vec::new(),
            entries: Vec::new(),
        };
        let root = reader.value(0)?;
        reader.blanks();
        let (is_whole, mut tree) = (reader.at == text.len(), reader.tree);
        tree.text.push('\0');
        tree.root = root;
        is_whole.then_some(tree)
    }

    pub fn value(&self, id: u32) -> &Value {
        &self.values[id as usize].0
    }

    /// Return the text of a value.
    pub fn source(&self, id: u32) -> &str {
        let (start, end) = self.place(id);
        &self.text[start as usize..end as usize]
    }

    /// Return where the text of a value begins and ends.
    pub fn place(&self, id: u32) -> (u32, u32) {
        self.values[id as usize].1
    }

    pub fn text(&self, text: &Text) -> &str {
        let within = if text.is_escaped { &self.escaped } else { &self.text };
        &within[text.start as usize..text.end as usize]
    }

    /// Return the JSON of a string that contains half of a surrogate pair.
    pub fn lone_surrogate(&self, text: &Text) -> Option<&str> {
        let found = self
            .lone
            .iter()
            .filter(|_| text.is_lone)
            .find(|entry| entry.0 == text.start);
        found.map(|(_, (start, end))| &self.text[*start as usize..*end as usize])
    }

    /// Return the content of a string.
    pub fn string(&self, id: u32) -> Option<&str> {
        match self.value(id) {
            Value::String(text) => Some(self.text(text)),
            _ => None,
        }
    }

    /// Return the items of a list.
    pub fn items(&self, id: u32) -> Option<&[u32]> {
        match self.value(id) {
            Value::List(items) => Some(items.of(&self.items)),
            _ => None,
        }
    }

    pub fn entries(&self, id: u32) -> Option<&[(Text, u32)]> {
        match self.value(id) {
            Value::Object(object) => Some(object.entries.of(&self.entries)),
            _ => None,
        }
    }

    /// Return the value of an object's key.
    pub fn get(&self, id: u32, name: &str) -> Option<u32> {
        let Value::Object(object) = self.value(id) else {
            return None;
        };
        let entries = object.entries.of(&self.entries);
        let Some(first) = object.sorted else {
            let found = entries.iter().find(|(key, _)| self.text(key) == name);
            return found.map(|entry| entry.1);
        };
        let sorted = &self.sorted[first as usize..][..entries.len()];
        let entry = |place: &u32| &entries[*place as usize];
        let found = sorted.binary_search_by(|place| self.text(&entry(place).0).cmp(name));
        found.ok().map(|found| entry(&sorted[found]).1)
    }

    /// Return how many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    tree: Tree,
    /// The items and entries so far of the lists and objects that are being read.
    items: Vec<u32>,
    entries: Vec<(Text, u32)>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Read and write a mark if it comes next; return whether it did.
    fn mark(&mut self, mark: u8) -> bool {
        self.blanks();
        let found = self.peek() == Some(mark);
        if found {
            self.at += 1;
            self.tree.text.push(char::from(mark));
        }
        found
    }

    fn value(&mut self, depth: u32) -> Option<u32> {
        if stop::ends_within(STEPS_OF_A_VALUE) {
            return None;
        }
        self.blanks();
        let start = self.tree.text.len();
        let value = match self.peek()? {
            b'{' if depth < MAX_JSON_DEPTH => self.object(depth)?,
            b'[' if depth < MAX_JSON_DEPTH => self.list(depth)?,
            b'"' => Value::String(self.string()?),
            b't' => self.word("true", Value::Bool(true))?,
            b'f' => self.word("false", Value::Bool(false))?,
            b'n' => self.word("null", Value::Null)?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return None,
        };
        let tree = &mut self.tree;
        tree.values.push((value, (start as u32, tree.text.len() as u32)));
        Some(tree.values.len() as u32 - 1)
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        self.text[self.at..].starts_with(word).then_some(())?;
        self.at += word.len();
        self.tree.text.push_str(word);
        Some(value)
    }

    fn number(&mut self) -> Option<Value> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let whole = self.digits()?;
        (whole == "0" || !whole.starts_with('0')).then_some(())?;
        if self.peek() == Some(b'.') {
            self.at += 1;
            let places = self.digits()?;
            let zeros = places.bytes().take_while(|digit| *digit == b'0').count();
            self.tree.is_exact &= whole != "0" || zeros <= PLAIN_FRACTION_ZEROS && zeros < places.len();
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
            self.tree.is_exact = false;
        }
        let number = &self.text[start..self.at];
        self.tree.is_exact &= number.len() <= NUMBER_CHARACTERS && number != "-0";
        self.tree.text.push_str(number);
        Some(Value::Number)
    }

    fn digits(&mut self) -> Option<&'a str> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        (self.at > start).then_some(&self.text[start..self.at])
    }

    fn list(&mut self, depth: u32) -> Option<Value> {
        self.mark(b'[');
        let first = self.items.len();
        if !self.mark(b']') {
            loop {
                let item = self.value(depth + 1)?;
                self.items.push(item);
                if self.mark(b']') {
                    break;
                }
                self.mark(b',').then_some(())?;
            }
        }
        let begin = self.tree.items.len();
        self.tree.items.extend(self.items.drain(first..));
        Some(Value::List(Span::from(begin, &self.tree.items)))
    }

    fn object(&mut self, depth: u32) -> Option<Value> {
        self.mark(b'{');
        let first = self.entries.len();
        if !self.mark(b'}') {
            loop {
                self.blanks();
                (self.peek() == Some(b'"')).then_some(())?;
                let name = self.string()?;
                self.mark(b':').then_some(())?;
                let value = self.value(depth + 1)?;
                self.entries.push((name, value));
                if self.mark(b'}') {
                    break;
                }
                self.mark(b',').then_some(())?;
            }
        }
        self.indexed(first).map(Value::Object)
    }

    /// Make the object of the entries from `first` on, with an index if there are many.
    fn indexed(&mut self, first: usize) -> Option<Object> {
        let (tree, entries) = (&mut self.tree, &self.entries[first..]);
        let mut sorted = None;
        if entries.len() <= ENTRIES_WITHOUT_INDEX {
            let name = |place: usize| (tree.text(&entries[place].0), entries[place].0.is_lone);
            let is_new = |place: usize| (0..place).all(|other| name(other) != name(place));
            (1..entries.len()).all(is_new).then_some(())?;
        } else {
            let mut names: Vec<((&[u8], bool), u32)> = entries
                .iter()
                .map(|entry| (tree.text(&entry.0).as_bytes(), entry.0.is_lone))
                .zip(0..)
                .collect();
            names.sort_unstable();
            names.windows(2).all(|pair| pair[0].0 != pair[1].0).then_some(())?;
            let places: Vec<u32> = names.iter().map(|(_, place)| *place).collect();
            sorted = Some(tree.sorted.len() as u32);
            tree.sorted.extend(places);
        }
        let begin = tree.entries.len();
        tree.entries.extend(self.entries.drain(first..));
        let entries = Span::from(begin, &tree.entries);
        Some(Object { entries, sorted })
    }

    fn string(&mut self) -> Option<Text> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    self.at += 2;
                }
                0..=31 => return None,
                _ => self.at += 1,
            }
        }
        let source = &self.text[start..self.at];
        self.at += 1;
        let tree = &mut self.tree;
        let place = tree.text.len() as u32;
        tree.text.push('"');
        let text = if escaped {
            let begun = tree.escaped.len();
            let units = unescaped(source.as_bytes())?;
            let is_lone = match String::from_utf8(units) {
                Ok(content) => {
                    escape(&content, &mut tree.text);
                    tree.escaped.push_str(&content);
                    false
                }
                Err(units) => {
                    write_lone(units.as_bytes(), &mut tree.text, &mut tree.escaped)?;
                    true
                }
            };
            let text = Text::new(begun, tree.escaped.len(), true);
            Text { is_lone, ..text }
        } else {
            let begun = tree.text.len();
            tree.text.push_str(source);
            Text::new(begun, tree.text.len(), false)
        };
        tree.text.push('"');
        if text.is_lone {
            tree.lone.push((text.start, (place, tree.text.len() as u32)));
        }
        Some(text)
    }
}

impl Text {
    fn new(start: usize, end: usize, is_escaped: bool) -> Text {
        let (start, end) = (start as u32, end as u32);
        Text {
            start,
            end,
            is_escaped,
            is_lone: false,
        }
    }
}

/// Write the content of a string with lone surrogates (from `unescaped`) as JSON, and as a text with escapes for these
/// surrogates, so that patterns keep their meaning.
fn write_lone(mut units: &[u8], json: &mut String, content: &mut String) -> Option<()> {
    while let Err(fault) = std::str::from_utf8(units) {
        let (valid, rest) = units.split_at(fault.valid_up_to());
        let valid = std::str::from_utf8(valid).ok()?;
        escape(valid, json);
        content.push_str(valid);
        let (half, rest) = (rest.len() >= 3).then(|| rest.split_at(3))?;
        let code = 0xd000 | u32::from(half[1] & 0x3f) << 6 | u32::from(half[2] & 0x3f);
        json.push_str(&format!("\\u{code:04x}"));
        // An unpaired backslash at the end already begins an escape; another backslash would be escaped by it.
        let slashes = content.len() - content.trim_end_matches('\\').len();
        content.push_str(&format!("{}u{code:04x}", if slashes % 2 == 0 { "\\" } else { "" }));
        units = rest;
    }
    let rest = std::str::from_utf8(units).ok()?;
    escape(rest, json);
    content.push_str(rest);
    Some(())
}

/// Write a string's content with as few escapes as JSON needs.
pub fn escape(content: &str, written: &mut String) {
    if !content.bytes().any(|byte| matches!(byte, b'"' | b'\\' | 0..=31)) {
        return written.push_str(content);
    }
    for char in content.chars() {
        match char {
            '"' | '\\' => written.extend(['\\', char]),
            '\0'..='\x1f' => written.push_str(&format!("\\u{:04x}", u32::from(char))),
            _ => written.push(char),
        }
    }
}

/// Return a string's content in UTF-8, with half of a surrogate pair encoded like any other code point; None for
/// escapes that JSON does not have.
fn unescaped(mut source: &[u8]) -> Option<Vec<u8>> {
    let mut found = Vec::with_capacity(source.len());
    while let Some((&byte, rest)) = source.split_first() {
        source = rest;
        if byte != b'\\' {
            found.push(byte);
            continue;
        }
        let (&escape, rest) = source.split_first()?;
        source = rest;
        found.push(match escape {
            b'"' | b'\\' | b'/' => escape,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut code = unit(&mut source)?;
                if (0xd800..0xdc00).contains(&code) {
                    let mut rest = source.strip_prefix(b"\\u").unwrap_or(b"");
                    if let Some(low) = unit(&mut rest).filter(|low| (0xdc00..0xe000).contains(low)) {
                        code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                        source = rest;
                    }
                }
                match char::from_u32(code) {
                    Some(char) => found.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
                    None => found.extend(
                        [0xe0 | code >> 12, 0x80 | code >> 6 & 0x3f, 0x80 | code & 0x3f].map(|byte| byte as u8),
                    ),
                }
                continue;
            }
            _ => return None,
        });
    }
    Some(found)
}

/// Read the four hexadecimal digits of an escape.
fn unit(source: &mut &[u8]) -> Option<u32> {
    if source.len() < 4 {
        return None;
    }
    let (digits, rest) = source.split_at(4);
    *source = rest;
    let mut digits = digits.iter().map(|digit| (*digit as char).to_digit(16));
    digits.try_fold(0, |code, digit| Some(code * 16 + digit?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_tree_of_a_text() {
        let tree = Tree::read(r#"{"type": "array", "items": [1, "\u0061"]}"#).unwrap();
        assert_eq!(
            tree.get(tree.root, "type").and_then(|id| tree.string(id)),
            Some("array")
        );
        let items = tree.get(tree.root, "items").and_then(|id| tree.items(id)).unwrap();
        assert_eq!(tree.source(items[0]), "1");
        assert_eq!(tree.string(items[1]), Some("a"));
        assert!(Tree::read("{").is_none());
    }
}
