//! The C interface to the lowering of schemas. As in `interface`, every call returns a number.

use std::str;
use std::sync::{Arc, OnceLock};

use crate::api::interface::{free, guarded, view};
use crate::base::limits::{check_stop, Fault, Outcome};
use crate::regular::regex::NODES;
use crate::regular::term::Spelling;
use crate::schema::{
    json_of, keywords, Common, Document, Most, Options, Schema, Tree, Value, Whitespace, Written, SCHEMAS,
};

/// Bytes that a schema keeps until the next call that uses the schema.
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

/// The result of lowering a schema: the written rules, if there are any, and the number of their nodes; or that the
/// schema is refused.
#[repr(C)]
#[derive(Default)]
pub struct Found {
    pub program: Bytes,
    pub nodes: u64,
    pub is_refused: u32,
}

/// A user's own whitespace, see `Whitespace`. A null pointer means that a text is not given.
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
    /// `comma` and `colon` must be null or point to as many bytes as the lengths say.
    unsafe fn whitespace(&self) -> Outcome<Whitespace> {
        let exact = |text: *const u8, length| match text.is_null() {
            true => Ok(None),
            // SAFETY: the caller guarantees that a text that is not null points to `length` bytes.
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

/// Make the data that schemas with the same options share, and write a handle to `made`; see `Options`. `flags` are 1
/// for canonical spelling, 2 for members in any order, 4 for enforced formats. `whitespace` is 0 for flexible, 1 for
/// compact, 2 for one line, and 3 for the whitespace in `blanks`. `texts` are the characters to be escaped, and then
/// the markers, each ended by a zero byte.
///
/// # Safety
/// `texts` must point to `length` bytes; `blanks` must be null, or its texts must be null or point to as many bytes as
/// its lengths say; `made` must be valid for writes.
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
        // SAFETY: the caller guarantees that `texts` points to `length` bytes, and that `blanks` is null or its texts
        // match their lengths.
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
        // SAFETY: the caller guarantees that `made` is valid for writes.
        unsafe { made.write(Box::into_raw(Box::new(Arc::new(common)))) };
        Ok(0)
    })
}

/// # Safety
/// `common` must be null or a handle of `fcn_schema_common_new` that nobody uses any more. Schemas may still use the
/// shared data, of which they hold references of their own.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_common_free(common: *mut Arc<Common>) {
    // SAFETY: the caller guarantees that `common` is null or a handle that is not used again.
    unsafe { free(common) }
}

/// The text of a JSON document, rewritten, see `Tree`.
#[repr(C)]
pub struct Json {
    pub text: *const u8,
    pub is_exact: u32,
}

impl Default for Json {
    /// Return an empty text.
    fn default() -> Self {
        Json {
            text: b"\0".as_ptr(),
            is_exact: 0,
        }
    }
}

/// Read an object or a boolean in JSON, from its text or from Python's data, see `json_of`. `made` gets a handle,
/// unless the value is of another kind, or one that Python must read itself.
///
/// # Safety
/// `source` must point to `length` bytes; the other pointers must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_json_read(
    source: *const u8,
    length: usize,
    is_data: u32,
    found: *mut Json,
    made: *mut *mut Document,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that `source` points to `length` bytes.
        let source = unsafe { view(source, length) };
        let tree = if is_data != 0 {
            json_of(source).and_then(|text| Tree::read(&text))
        } else {
            str::from_utf8(source).ok().and_then(Tree::read)
        };
        check_stop()?;
        let is_schema = |tree: &Tree| matches!(tree.value(tree.root), Value::Object(_) | Value::Bool(_));
        let Some(tree) = tree.filter(is_schema) else {
            return Ok(0);
        };
        let json = Json {
            text: tree.text.as_ptr(),
            is_exact: u32::from(tree.is_exact),
        };
        // SAFETY: the caller guarantees that both pointers are valid for writes.
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
/// `document` and `other` must be live handles of `fcn_json_read`, and no other call may use `document`; `uri` must
/// point to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_json_refer(
    document: *mut Document,
    uri: *const u8,
    length: usize,
    other: *const Document,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that both handles are live, that no other call uses `document`, and that `uri`
        // points to `length` bytes.
        let (document, uri, other) = unsafe { (&mut *document, utf8(uri, length)?, &*other) };
        document.registry.insert(uri.into(), Arc::clone(&other.tree));
        Ok(0)
    })
}

/// # Safety
/// `document` must be null or a handle of `fcn_json_read` that nobody uses any more. Schemas may still use its tree, of
/// which they hold references of their own.
#[no_mangle]
pub unsafe extern "C" fn fcn_json_free(document: *mut Document) {
    // SAFETY: the caller guarantees that `document` is null or a handle that is not used again.
    unsafe { free(document) }
}

/// Lower the schema in a JSON document. `made` gets a handle of its rules; if the schema is `alone`, a whole grammar,
/// `written` gets a handle of its program instead. If the schema is refused, `written` gets a handle of the reason, see
/// `Written`. If `is_lenient`, keywords that cannot be enforced are dropped.
///
/// # Safety
/// `common` and `document` must be live handles; the other pointers must be valid for writes.
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
        // SAFETY: the caller guarantees that both handles are live.
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
                // SAFETY: the caller guarantees that `made` is valid for writes and that nobody else uses it.
                unsafe { made.write(Box::into_raw(Box::new(schema))) };
                return Ok(0);
            }
            Ok(schema) => schema.written()?,
            Err(refused) => Err(refused),
        };
        let is_refused = u32::from(answer.is_err());
        let (answer, nodes) = answer.unwrap_or_else(|refused| (refused, 0));
        // SAFETY: the caller guarantees that both pointers are valid for writes.
        unsafe {
            (*found).nodes = nodes;
            (*found).is_refused = is_refused;
            written.write(Box::into_raw(Box::new(answer)));
        }
        Ok(0)
    })
}

/// Give the bytes of a program; they live as long as the program.
///
/// # Safety
/// `program` must be a live handle; `found` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_program_bytes(program: *const Written, found: *mut Bytes) -> i32 {
    // SAFETY: the caller guarantees that the handle is live and that `found` is valid for writes.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*program).program));
        Ok(0)
    })
}

/// Give the names of a program's rules, each ended by the byte 0xFF; the bytes live as long as the program.
///
/// # Safety
/// `program` must be a live handle; `found` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_program_names(program: *const Written, found: *mut Bytes) -> i32 {
    // SAFETY: the caller guarantees that the handle is live and that `found` is valid for writes.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*program).names));
        Ok(0)
    })
}

/// Give the keywords that are not enforced, see `Written`; the bytes live as long as the program.
///
/// # Safety
/// `program` must be a live handle; `found` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_program_dropped(program: *const Written, found: *mut Bytes) -> i32 {
    // SAFETY: the caller guarantees that the handle is live and that `found` is valid for writes.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*program).dropped));
        Ok(0)
    })
}

/// Write the memory in bytes that the process uses for schemas, and for the patterns of schemas and regular
/// expressions.
///
/// # Safety
/// `memory` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_schemas_memory(memory: *mut [usize; 2]) -> i32 {
    // SAFETY: the caller guarantees that `memory` is valid for writes.
    guarded(|| unsafe {
        memory.write([SCHEMAS.bytes(), NODES.bytes()]);
        Ok(0)
    })
}

/// # Safety
/// `program` must be null or a handle of `fcn_schema_new` that nobody uses any more.
#[no_mangle]
pub unsafe extern "C" fn fcn_program_free(program: *mut Written) {
    // SAFETY: the caller guarantees that `program` is null or a handle that is not used again.
    unsafe { free(program) }
}

/// # Safety
/// `schema` must be null or a handle of `fcn_schema_new` that nobody uses any more.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_free(schema: *mut Schema) {
    // SAFETY: the caller guarantees that `schema` is null or a handle that is not used again.
    unsafe { free(schema) }
}

/// Count the rules.
///
/// # Safety
/// `schema` must be a live handle.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_count(schema: *const Schema) -> i32 {
    // SAFETY: the caller guarantees that the handle is live. Nobody changes the schema now, because calls that change a
    // schema use it exclusively.
    guarded(|| Ok(unsafe { &*schema }.count() as i32))
}

/// Give the programs of the terminals that first occur in the rules that were written last, and return their number;
/// see `Schema::write`. The bytes live until the next call that writes.
///
/// # Safety
/// `schema` must be a live handle; `found` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_new_terminals(schema: *const Schema, found: *mut Bytes) -> i32 {
    // SAFETY: the caller guarantees that the handle is live, that nobody changes the schema meanwhile, and that `found`
    // is valid for writes.
    guarded(|| unsafe {
        let (programs, count) = &(*schema).new_terminals;
        found.write(Bytes::of(programs));
        Ok(*count as i32)
    })
}

/// Give the names of a schema's rules, each ended by the byte 0xFF; the bytes live as long as the schema.
///
/// # Safety
/// `schema` must be a live handle; `found` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_names(schema: *const Schema, found: *mut Bytes) -> i32 {
    // SAFETY: the caller guarantees that the handle is live and that `found` is valid for writes.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*schema).names));
        Ok(0)
    })
}

/// Give the keywords that are not enforced, see `Written`; the bytes live as long as the schema.
///
/// # Safety
/// `schema` must be a live handle; `found` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_dropped(schema: *const Schema, found: *mut Bytes) -> i32 {
    // SAFETY: the caller guarantees that the handle is live and that `found` is valid for writes.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*schema).dropped));
        Ok(0)
    })
}

/// Give the keywords of JSON Schema as text, see `keywords::all`.
///
/// # Safety
/// `found` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_keywords(found: *mut Bytes) -> i32 {
    static ALL: OnceLock<String> = OnceLock::new();
    // SAFETY: the caller guarantees that `found` is valid for writes.
    guarded(|| unsafe {
        found.write(Bytes::of(ALL.get_or_init(keywords::all).as_bytes()));
        Ok(0)
    })
}

/// Write the rules, see `Schema::write`; `found` gets their program.
///
/// # Safety
/// `schema` must be a live handle that no other call uses; `written` must point to `size` bytes; `found` must be valid
/// for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_write(
    schema: *mut Schema,
    first: u32,
    written: *const u8,
    size: usize,
    found: *mut Found,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that no other call uses the live handle `schema`, and that `written` points to
        // `size` bytes.
        let (schema, written) = unsafe { (&mut *schema, view(written, size)) };
        schema.write(first, written)?;
        schema.count_memory();
        let (program, nodes) = (Bytes::of(&schema.program), schema.nodes);
        // SAFETY: the caller guarantees that `found` is valid for writes.
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
/// `text` must point to `length` bytes.
pub unsafe fn utf8<'a>(text: *const u8, length: usize) -> Outcome<&'a str> {
    // SAFETY: the caller guarantees that `text` points to `length` bytes.
    str::from_utf8(unsafe { view(text, length) }).map_err(|_| Fault::Malformed)
}
