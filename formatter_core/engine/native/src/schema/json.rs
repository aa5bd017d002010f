//! JSON text as a tree of values, each with its place in the text.

/// Deeper text is left to others.
const MAXIMUM_DEPTH: u32 = 200;
/// Objects with more entries have an index.
const FEW_ENTRIES: usize = 12;
/// There is rarely more than one value in so many bytes.
const BYTES_OF_A_VALUE: usize = 12;

/// A string: most stand in the text as they are.
pub enum Text {
    Plain(u32, u32),
    Escaped(Box<str>),
}

pub enum Value {
    Null,
    Bool(bool),
    Number,
    String(Text),
    List(Box<[u32]>),
    Object(Object),
}

pub struct Object {
    pub entries: Box<[(Text, u32)]>,
    /// The entries in the order of their names, where there are many.
    sorted: Box<[u32]>,
}

pub struct Tree {
    text: Box<str>,
    values: Vec<(Value, (u32, u32))>,
    pub root: u32,
}

impl Tree {
    /// The values of a text; None if it is not JSON, names a key twice, or is deeply nested.
    pub fn read(text: &str) -> Option<Tree> {
        let mut reader = Reader {
            text,
            at: 0,
            values: Vec::with_capacity(text.len() / BYTES_OF_A_VALUE),
            items: Vec::new(),
            entries: Vec::new(),
        };
        u32::try_from(text.len()).ok()?;
        let root = reader.value(0)?;
        reader.blanks();
        let values = reader.values;
        (reader.at == text.len()).then(|| Tree {
            text: text.into(),
            values,
            root,
        })
    }

    pub fn value(&self, id: u32) -> &Value {
        &self.values[id as usize].0
    }

    /// The text of a value.
    pub fn source(&self, id: u32) -> &str {
        let (start, end) = self.values[id as usize].1;
        &self.text[start as usize..end as usize]
    }

    pub fn text<'a>(&'a self, text: &'a Text) -> &'a str {
        text.of(&self.text)
    }

    /// A string's content.
    pub fn string(&self, id: u32) -> Option<&str> {
        match self.value(id) {
            Value::String(text) => Some(self.text(text)),
            _ => None,
        }
    }

    pub fn entries(&self, id: u32) -> Option<&[(Text, u32)]> {
        match self.value(id) {
            Value::Object(object) => Some(&object.entries),
            _ => None,
        }
    }

    /// The value of an object's key.
    pub fn get(&self, id: u32, name: &str) -> Option<u32> {
        let Value::Object(object) = self.value(id) else {
            return None;
        };
        if object.sorted.is_empty() {
            let found = object.entries.iter().find(|(key, _)| self.text(key) == name);
            return found.map(|entry| entry.1);
        }
        let entry = |place: &u32| &object.entries[*place as usize];
        let found = object
            .sorted
            .binary_search_by(|place| self.text(&entry(place).0).cmp(name));
        found.ok().map(|found| entry(&object.sorted[found]).1)
    }

    /// The JSON Pointer of a value.
    pub fn pointer(&self, id: u32) -> String {
        let mut pointer = String::new();
        let (start, _) = self.values[id as usize].1;
        let holds = |value: u32| (self.values[value as usize].1 .1) > start;
        let mut at = self.root;
        // The values in an object or a list stand in the text in their order.
        while at != id {
            at = match self.value(at) {
                Value::List(items) => {
                    let place = items.partition_point(|item| !holds(*item));
                    pointer.push_str(&format!("/{place}"));
                    items[place]
                }
                Value::Object(object) => {
                    let place = object.entries.partition_point(|entry| !holds(entry.1));
                    let (name, value) = &object.entries[place];
                    pointer.push('/');
                    pointer.push_str(&self.text(name).replace('~', "~0").replace('/', "~1"));
                    *value
                }
                _ => break,
            };
        }
        pointer
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }
}

impl Text {
    fn of<'a>(&'a self, text: &'a str) -> &'a str {
        match self {
            Text::Plain(start, end) => &text[*start as usize..*end as usize],
            Text::Escaped(text) => text,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    values: Vec<(Value, (u32, u32))>,
    /// The items and entries so far of the lists and objects that are being read.
    items: Vec<u32>,
    entries: Vec<(Text, u32)>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn mark(&mut self, mark: u8) -> bool {
        self.blanks();
        let found = self.peek() == Some(mark);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: u32) -> Option<u32> {
        self.blanks();
        let start = self.at;
        let value = match self.peek()? {
            b'{' if depth < MAXIMUM_DEPTH => self.object(depth)?,
            b'[' if depth < MAXIMUM_DEPTH => self.list(depth)?,
            b'"' => Value::String(self.string()?),
            b't' => self.word("true", Value::Bool(true))?,
            b'f' => self.word("false", Value::Bool(false))?,
            b'n' => self.word("null", Value::Null)?,
            b'-' | b'0'..=b'9' => {
                while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.peek() {
                    self.at += 1;
                }
                Value::Number
            }
            _ => return None,
        };
        self.values.push((value, (start as u32, self.at as u32)));
        Some(self.values.len() as u32 - 1)
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        let found = self.text[self.at..].starts_with(word);
        self.at += word.len();
        found.then_some(value)
    }

    fn list(&mut self, depth: u32) -> Option<Value> {
        self.at += 1;
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
        Some(Value::List(self.items.drain(first..).collect()))
    }

    fn object(&mut self, depth: u32) -> Option<Value> {
        self.at += 1;
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
        let entries = self.entries.drain(first..).collect();
        self.indexed(entries).map(Value::Object)
    }

    fn indexed(&self, entries: Box<[(Text, u32)]>) -> Option<Object> {
        let name = |place: usize| entries[place].0.of(self.text);
        let mut sorted: Vec<u32> = Vec::new();
        if entries.len() <= FEW_ENTRIES {
            let twice = (1..entries.len()).any(|place| (0..place).any(|other| name(place) == name(other)));
            (!twice).then_some(())?;
        } else {
            sorted.extend(0..entries.len() as u32);
            sorted.sort_unstable_by(|a, b| name(*a as usize).cmp(name(*b as usize)));
            let twice = sorted
                .windows(2)
                .any(|pair| name(pair[0] as usize) == name(pair[1] as usize));
            (!twice).then_some(())?;
        }
        Some(Object {
            entries,
            sorted: sorted.into(),
        })
    }

    fn string(&mut self) -> Option<Text> {
        self.at += 1;
        let start = self.at;
        let bytes = self.text.as_bytes();
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
        let end = self.at;
        self.at += 1;
        if !escaped {
            return Some(Text::Plain(start as u32, end as u32));
        }
        unescaped(&bytes[start..end]).map(|text| Text::Escaped(text.into()))
    }
}

/// A string's content; None for escapes that are not JSON's, and for lone surrogates.
fn unescaped(mut source: &[u8]) -> Option<String> {
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
                    source = source.strip_prefix(b"\\u")?;
                    let low = unit(&mut source)?;
                    (0xdc00..0xe000).contains(&low).then_some(())?;
                    code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                }
                let char = char::from_u32(code)?;
                found.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        });
    }
    String::from_utf8(found).ok()
}

/// The four hexadecimal digits of an escape.
fn unit(source: &mut &[u8]) -> Option<u32> {
    if source.len() < 4 {
        return None;
    }
    let (digits, rest) = source.split_at(4);
    *source = rest;
    let mut digits = digits.iter().map(|digit| (*digit as char).to_digit(16));
    digits.try_fold(0, |code, digit| Some(code * 16 + digit?))
}
