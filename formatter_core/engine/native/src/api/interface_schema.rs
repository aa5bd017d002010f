//! The C interface to the lowering of schemas. As in `interface`, every call answers with a number.

use std::str;
use std::sync::{Arc, OnceLock};

use crate::api::interface::{free, guarded, view};
use crate::base::limits::{check_stop, Fault, Outcome};
use crate::regular::regex::NODES;
use crate::regular::term::Spelling;
use crate::schema::{
    json_of, keywords, Common, Document, Most, Options, Schema, Tree, Value, Whitespace, Written, SCHEMAS,
};

/// Bytes that a schema keeps until the next call that uses it.
#[repr(C)]
pub struct Bytes {
    data: *const u8,
    length: usize,
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes::of(&[])
    }
}

/// What was made of a schema: the rules that were written, if they were, and the number of their nodes; or that it is
/// refused.
#[repr(C)]
#[derive(Default)]
pub struct Found {
    pub program: Bytes,
    pub nodes: u64,
    pub is_refused: u32,
}

/// Blanks of a user's own, see `Whitespace`. What is null is not given.
#[repr(C)]
pub struct Blanks {
    comma: *const u8,
    comma_length: usize,
    colon: *const u8,
    colon_length: usize,
    spaces: u32,
    indent: u32,
    lines: u32,
}

impl Blanks {
    /// # Safety
    /// `comma` and `colon` are null or point to as many bytes as the lengths say.
    unsafe fn whitespace(&self) -> Outcome<Whitespace> {
        let exact = |text: *const u8, length| match text.is_null() {
            true => Ok(None),
            // SAFETY: as the caller promises.
            false => unsafe { utf8(text, length) }.map(|text| Some(text.into())),
        };
        Ok(Whitespace {
            comma: exact(self.comma, self.comma_length)?,
            colon: exact(self.colon, self.colon_length)?,
            spaces: self.spaces,
            lines: self.lines != 0,
            indent: self.indent,
            as_written: false,
        })
    }
}

/// Make what schemas with the same options share, and put a handle at `made`: see `Options`. `flags` are 1 for canonical
/// spelling, 2 for members in any order, 4 for formats that are enforced; `whitespace` is 0 for flexible, 1 for compact, 2 for
/// one line, and 3 for what `blanks` says; `texts` are the characters to be escaped, and the markers, each ended by a zero byte.
///
/// # Safety
/// `texts` points to `length` bytes; `blanks` is null, or what it holds is null or points to as many bytes as its lengths say;
/// `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_common_new(
    flags: u32,
    whitespace: u32,
    texts: *const u8,
    length: usize,
    blanks: *const Blanks,
    made: *mut *mut Arc<Common>,
) -> i32 {
    guarded(|| {
        // SAFETY: callers give pointers to as many bytes as the lengths say.
        let (texts, own) = unsafe { (utf8(texts, length)?, blanks.as_ref().map(|blanks| blanks.whitespace())) };
        let mut texts = texts.split_terminator('\0');
        let escaped = texts.next().unwrap_or_default();
        let markers: Vec<&str> = texts.collect();
        let is_canonical = flags & 1 != 0;
        let common = Common::new(Options {
            spelling: if is_canonical {
                Spelling::Canonical
            } else {
                Spelling::Any
            },
            whitespace: match whitespace {
                0 if is_canonical => Whitespace::as_written(),
                0 => Whitespace::default(),
                1 => Whitespace::compact(),
                2 => Whitespace::one_line(),
                _ => own.transpose()?.unwrap_or_default(),
            },
            in_any_order: flags & 2 != 0,
            enforces_formats: flags & 4 != 0,
            escaped,
            markers: &markers,
        });
        // SAFETY: `made` may be written to, as the caller promises.
        unsafe { made.write(Box::into_raw(Box::new(Arc::new(common)))) };
        Ok(0)
    })
}

/// # Safety
/// `common` is a handle of `fcn_schema_common_new` that nobody uses any more, or null; schemas may still use what it stands
/// for.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_common_free(common: *mut Arc<Common>) {
    // SAFETY: as the caller promises.
    unsafe { free(common) }
}

/// JSON that was read: its text, written anew, see `Tree`.
#[repr(C)]
pub struct Json {
    pub text: *const u8,
    pub is_exact: u32,
}

impl Default for Json {
    /// An empty text.
    fn default() -> Self {
        Json {
            text: b"\0".as_ptr(),
            is_exact: 0,
        }
    }
}

/// Read an object or a boolean in JSON, from its text or from Python's data, see `json_of`. `made` holds a handle unless it
/// is another value, or one that is left to others.
///
/// # Safety
/// `source` points to `length` bytes; the others may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_json_read(
    source: *const u8,
    length: usize,
    is_data: u32,
    found: *mut Json,
    made: *mut *mut Document,
) -> i32 {
    guarded(|| {
        // SAFETY: callers give a pointer to as many bytes as the length says.
        let source = unsafe { view(source, length) };
        let tree = if is_data != 0 {
            json_of(source).and_then(|text| Tree::read(&text))
        } else {
            str::from_utf8(source).ok().and_then(Tree::read)
        };
        let is_schema = |tree: &Tree| matches!(tree.value(tree.root), Value::Object(_) | Value::Bool(_));
        let Some(tree) = tree.filter(is_schema) else {
            return Ok(0);
        };
        let json = Json {
            text: tree.text.as_ptr(),
            is_exact: u32::from(tree.is_exact),
        };
        // SAFETY: these may be written to, as the caller promises.
        unsafe {
            found.write(json);
            made.write(Box::into_raw(Box::new(Document::new(tree))));
        }
        Ok(0)
    })
}

/// Let a schema refer to another one by its URI.
///
/// # Safety
/// `document` and `other` are live handles of `fcn_json_read`, of which no other call uses the first; `uri` points to
/// `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_json_refer(
    document: *mut Document,
    uri: *const u8,
    length: usize,
    other: *const Document,
) -> i32 {
    guarded(|| {
        // SAFETY: callers keep both handles alive, and give a pointer to as many bytes as the length says.
        let (document, uri, other) = unsafe { (&mut *document, utf8(uri, length)?, &*other) };
        document.registry.insert(uri.into(), Arc::clone(&other.tree));
        Ok(0)
    })
}

/// # Safety
/// `document` is a handle of `fcn_json_read` that nobody uses any more, or null; schemas may still use what it stands for.
#[no_mangle]
pub unsafe extern "C" fn fcn_json_free(document: *mut Document) {
    // SAFETY: as the caller promises.
    unsafe { free(document) }
}

/// Lower the schema that JSON is. `made` holds a handle of its rules, or `written` one of its program if it is `alone`, a
/// whole grammar. If it is refused, `written` holds one of why, see `Written`. If it `is_lenient`, keywords that cannot be
/// enforced are dropped.
///
/// # Safety
/// `common` and `document` are live handles; the others may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_new(
    common: *const Arc<Common>,
    document: *const Document,
    maximum_nodes: u64,
    maximum_work: u64,
    maximum_repeat: u32,
    maximum_depth: u32,
    is_lenient: u32,
    alone: u32,
    found: *mut Found,
    made: *mut *mut Schema,
    written: *mut *mut Written,
) -> i32 {
    guarded(|| {
        // SAFETY: the handles are live, as the caller promises.
        let (common, document) = unsafe { (Arc::clone(&*common), &*document) };
        let most = Most {
            nodes: maximum_nodes,
            work: maximum_work,
            repeat: maximum_repeat,
            depth: maximum_depth,
        };
        let schema = Schema::new(document, common, most, is_lenient != 0);
        check_stop()?;
        let answer = match schema {
            Ok(schema) if alone == 0 => {
                schema.count_memory();
                // SAFETY: callers give a place of their own for it.
                unsafe { made.write(Box::into_raw(Box::new(schema))) };
                return Ok(0);
            }
            Ok(schema) => schema.written()?,
            Err(refused) => Err(refused),
        };
        let is_refused = u32::from(answer.is_err());
        let (answer, nodes) = answer.unwrap_or_else(|refused| (refused, 0));
        // SAFETY: these may be written to, as the caller promises.
        unsafe {
            (*found).nodes = nodes;
            (*found).is_refused = is_refused;
            written.write(Box::into_raw(Box::new(answer)));
        }
        Ok(0)
    })
}

/// The bytes of a program; they live as long as it.
///
/// # Safety
/// `program` is a live handle; `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_program_bytes(program: *const Written, found: *mut Bytes) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*program).program));
        Ok(0)
    })
}

/// Gives the names of a program's rules, each ended by the byte 0xFF; the bytes live as long as it.
///
/// # Safety
/// `program` is a live handle; `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_program_names(program: *const Written, found: *mut Bytes) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*program).names));
        Ok(0)
    })
}

/// Gives the keywords that are not enforced, see `Written`; the bytes live as long as the program.
///
/// # Safety
/// `program` is a live handle; `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_program_dropped(program: *const Written, found: *mut Bytes) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*program).dropped));
        Ok(0)
    })
}

/// The bytes that the process has of schemas, and of the patterns that those and regular expressions are made of.
///
/// # Safety
/// `memory` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schemas_memory(memory: *mut [usize; 2]) -> i32 {
    // SAFETY: as the caller promises.
    guarded(|| unsafe {
        memory.write([SCHEMAS.bytes(), NODES.bytes()]);
        Ok(0)
    })
}

/// # Safety
/// `program` is a handle of `fcn_schema_new` that nobody uses any more, or null.
#[no_mangle]
pub unsafe extern "C" fn fcn_program_free(program: *mut Written) {
    // SAFETY: as the caller promises.
    unsafe { free(program) }
}

/// # Safety
/// `schema` is a handle of `fcn_schema_new` that nobody uses any more, or null.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_free(schema: *mut Schema) {
    // SAFETY: as the caller promises.
    unsafe { free(schema) }
}

/// Count the rules.
///
/// # Safety
/// `schema` is a live handle.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_count(schema: *const Schema) -> i32 {
    // SAFETY: a live handle points to a schema that nobody changes: calls that would change it have it to themselves.
    guarded(|| Ok(unsafe { &*schema }.count() as i32))
}

/// Show the programs of the terminals that stand in no earlier rule than those that were written last, and count them; see
/// `Schema::write`. The bytes live until the next call that writes.
///
/// # Safety
/// `schema` is a live handle; `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_new_terminals(schema: *const Schema, found: *mut Bytes) -> i32 {
    // SAFETY: a live handle points to a schema that nobody changes meanwhile; `found` is the caller's own struct.
    guarded(|| unsafe {
        let (programs, count) = &(*schema).new_terminals;
        found.write(Bytes::of(programs));
        Ok(*count as i32)
    })
}

/// Gives the names of a schema's rules, each ended by the byte 0xFF; the bytes live as long as it.
///
/// # Safety
/// `schema` is a live handle; `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_names(schema: *const Schema, found: *mut Bytes) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*schema).names));
        Ok(0)
    })
}

/// Gives the keywords that are not enforced, see `Written`; the bytes live as long as the schema.
///
/// # Safety
/// `schema` is a live handle; `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_dropped(schema: *const Schema, found: *mut Bytes) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*schema).dropped));
        Ok(0)
    })
}

/// Gives the keywords of JSON Schema as text, see `keywords::all`.
///
/// # Safety
/// `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_keywords(found: *mut Bytes) -> i32 {
    static ALL: OnceLock<String> = OnceLock::new();
    // SAFETY: it may be written to, as the caller promises.
    guarded(|| unsafe {
        found.write(Bytes::of(ALL.get_or_init(keywords::all).as_bytes()));
        Ok(0)
    })
}

/// Write the rules, see `Schema::write`; `found` is their program.
///
/// # Safety
/// `schema` is a live handle that no other call uses; `written` points to `size` bytes; `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_write(
    schema: *mut Schema,
    first: u32,
    written: *const u8,
    size: usize,
    found: *mut Found,
) -> i32 {
    guarded(|| {
        // SAFETY: callers have the handle for themselves, and give a pointer to as many bytes as the size says.
        let (schema, written) = unsafe { (&mut *schema, view(written, size)) };
        schema.write(first, written)?;
        schema.count_memory();
        let (program, nodes) = (Bytes::of(&schema.program), schema.nodes);
        // SAFETY: it may be written to, as the caller promises.
        unsafe {
            (*found).program = program;
            (*found).nodes = nodes;
        }
        Ok(0)
    })
}

impl Bytes {
    pub fn of(bytes: &[u8]) -> Self {
        let (data, length) = (bytes.as_ptr(), bytes.len());
        Bytes { data, length }
    }
}

/// # Safety
/// `text` points to `length` bytes.
pub unsafe fn utf8<'a>(text: *const u8, length: usize) -> Outcome<&'a str> {
    // SAFETY: as the caller promises.
    str::from_utf8(unsafe { view(text, length) }).map_err(|_| Fault::Malformed)
}
