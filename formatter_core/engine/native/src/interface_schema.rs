//! The C interface to the lowering of plain schemas. As in `interface`, every call answers with a number.

use std::str;
use std::sync::Arc;

use crate::interface::{free, guarded, truth, view};
use crate::limits::{Fault, Outcome};
use crate::schema::{json_of, Common, Progress, Schema, Titles, Tree, Written};
use crate::term::Spelling;

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

/// The state of a schema on its way to a program: its `Progress`, and its rules, once they are written, with the number of
/// their nodes.
#[repr(C)]
#[derive(Default)]
pub struct Found {
    pub program: Bytes,
    pub nodes: u64,
    pub progress: u32,
}

/// Read what stands inside of terminals that schemas share, and put a handle at `made`. See `Common::read`.
///
/// # Safety
/// `given` points to `size` bytes, `texts` to `length`, `formats` to `format_length`, `firsts` to `first_length`; `made` may
/// be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_common_new(
    draft: u32,
    is_canonical: u32,
    levels: u32,
    in_any_order: u32,
    given: *const u8,
    size: usize,
    texts: *const u8,
    length: usize,
    formats: *const u8,
    format_length: usize,
    firsts: *const u8,
    first_length: usize,
    made: *mut *mut Arc<Common>,
) -> i32 {
    guarded(|| {
        // SAFETY: the pointers fit the sizes, as the caller promises.
        let (given, texts) = unsafe { (view(given, size), utf8(texts, length)?) };
        // SAFETY: the same.
        let (formats, firsts) = unsafe { (utf8(formats, format_length)?, utf8(firsts, first_length)?) };
        let spelling = if is_canonical != 0 {
            Spelling::Canonical
        } else {
            Spelling::Any
        };
        let options = (spelling, levels, in_any_order != 0);
        let common = Arc::new(Common::read(draft, options, given, texts, formats, firsts)?);
        // SAFETY: `made` may be written to, as the caller promises.
        unsafe { made.write(Box::into_raw(Box::new(common))) };
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

/// JSON that was read: its text, written anew, see `Tree`, and where in it the value of `$schema` begins and ends; both are
/// 0 if there is none.
#[repr(C)]
pub struct Json {
    pub text: *const u8,
    pub dialect: u32,
    pub dialect_end: u32,
    pub is_exact: u32,
}

impl Default for Json {
    /// An empty text.
    fn default() -> Self {
        Json {
            text: b"\0".as_ptr(),
            dialect: 0,
            dialect_end: 0,
            is_exact: 0,
        }
    }
}

/// Read an object in JSON, from its text or from Python's data, see `json_of`. `made` holds a handle unless it is another
/// value, or one that is left to others.
///
/// # Safety
/// `source` points to `length` bytes; the others may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_json_read(
    source: *const u8,
    length: usize,
    is_data: u32,
    found: *mut Json,
    made: *mut *mut Arc<Tree>,
) -> i32 {
    guarded(|| {
        // SAFETY: the pointer fits the length, as the caller promises.
        let source = unsafe { view(source, length) };
        let tree = if is_data != 0 {
            json_of(source).and_then(|text| Tree::read(&text))
        } else {
            str::from_utf8(source).ok().and_then(Tree::read)
        };
        let Some(tree) = tree.filter(|tree| tree.entries(tree.root).is_some()) else {
            return Ok(0);
        };
        let dialect = tree.get(tree.root, "$schema").map(|value| tree.place(value));
        let (dialect, dialect_end) = dialect.unwrap_or_default();
        let json = Json {
            text: tree.text.as_ptr(),
            dialect,
            dialect_end,
            is_exact: u32::from(tree.is_exact),
        };
        // SAFETY: these may be written to, as the caller promises.
        unsafe {
            found.write(json);
            made.write(Box::into_raw(Box::new(Arc::new(tree))));
        }
        Ok(0)
    })
}

/// # Safety
/// `tree` is a handle of `fcn_json_read` that nobody uses any more, or null; schemas may still use what it stands for.
#[no_mangle]
pub unsafe extern "C" fn fcn_json_free(tree: *mut Arc<Tree>) {
    // SAFETY: as the caller promises.
    unsafe { free(tree) }
}

/// Do all that needs no others for the schema that JSON is, whether it is `alone` or its rules stand among others;
/// `made` holds a handle unless that is `Refused` or `Written`, `written` one if it is `Written`.
///
/// # Safety
/// `common` and `tree` are live handles; the others may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_new(
    common: *const Arc<Common>,
    tree: *const Arc<Tree>,
    maximum_nodes: u64,
    alone: u32,
    found: *mut Found,
    made: *mut *mut Schema,
    written: *mut *mut Written,
) -> i32 {
    guarded(|| {
        // SAFETY: the handles are live, as the caller promises.
        let (common, tree) = unsafe { (Arc::clone(&*common), Arc::clone(&*tree)) };
        let mut schema = Schema::new(tree, common);
        let progress = schema.as_mut().map_or(Ok(Progress::Refused), |schema| {
            schema.advance(maximum_nodes, alone != 0)
        })?;
        if let (Some(schema), Progress::NotPlain | Progress::Wanting | Progress::Written) = (schema, progress) {
            // SAFETY: these may be written to, as the caller promises.
            unsafe {
                found.write(Found {
                    nodes: schema.nodes,
                    progress: progress as u32,
                    ..Found::default()
                });
                match progress {
                    Progress::Written => written.write(Box::into_raw(Box::new(schema.into_written()))),
                    _ => made.write(Box::into_raw(Box::new(schema))),
                }
            }
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

/// Gives what the rules of a program stand for, see `Titles::text`; the bytes live as long as it.
///
/// # Safety
/// `program` is a live handle; `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_program_titles(program: *const Written, found: *mut Bytes) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        found.write(Bytes::of((*program).titles.text()));
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

/// The number of a goal plus one, or 0 if that of the schemas at JSON Pointers, each ended by the byte 0xFF, is not plain.
/// See `Schema::goal`.
///
/// # Safety
/// `schema` is a live handle that no other call uses; `pointers` points to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_goal(schema: *mut Schema, pointers: *const u8, length: usize) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live and nobody else's, and the pointers fit the length, as the caller promises.
        let (schema, pointers) = unsafe { (&mut *schema, view(pointers, length)) };
        Ok(schema.goal(pointers)?.map_or(0, |goal| goal as i32 + 1))
    })
}

/// The JSON Pointers of all holes, each ended by the byte 0xFF: the schemas that goals lead to which are lowered elsewhere.
///
/// # Safety
/// `schema` is a live handle; `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_holes(schema: *const Schema, found: *mut Bytes) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*schema).pointers));
        Ok(0)
    })
}

/// Whether every rule derives something, given which holes do; which goals do. See `Schema::all_derive`.
///
/// # Safety
/// `schema` is a live handle that no other call uses; `holes` points to `hole_count` bytes, and `goal_count` bytes of `goals`
/// may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_all_derive(
    schema: *mut Schema,
    holes: *const u8,
    hole_count: usize,
    goals: *mut u8,
    goal_count: usize,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live and nobody else's, and the pointer fits the length, as the caller promises.
        let (schema, holes) = unsafe { (&mut *schema, view(holes, hole_count)) };
        let holes: Vec<bool> = holes.iter().map(|derived| *derived != 0).collect();
        let mut found = vec![0; goal_count];
        let all = schema.all_derive(&holes, &mut found);
        // SAFETY: there is room, as the caller promises.
        unsafe { goals.copy_from_nonoverlapping(found.as_ptr(), goal_count) };
        Ok(truth(all))
    })
}

/// The depths that holes stand at, given those of goals, each plus one, or 0 for what stands nowhere. See `Schema::depths`.
///
/// # Safety
/// `schema` is a live handle that no other call uses; `goals` points to `goal_count` bytes, and `hole_count` bytes of `holes`
/// may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_depths(
    schema: *mut Schema,
    goals: *const u8,
    goal_count: usize,
    holes: *mut u8,
    hole_count: usize,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live and nobody else's, and the pointer fits the length, as the caller promises.
        let (schema, goals) = unsafe { (&mut *schema, view(goals, goal_count)) };
        let found = schema.depths(goals);
        if found.len() != hole_count {
            return Err(Fault::Malformed);
        }
        // SAFETY: there is room, as the caller promises.
        unsafe { holes.copy_from_nonoverlapping(found.as_ptr(), hole_count) };
        Ok(0)
    })
}

/// Make the rules of all goals; how many, or 0 if that cannot be done here. See `Schema::lower`.
///
/// # Safety
/// `schema` is a live handle that no other call uses; `any` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_lower(
    schema: *mut Schema,
    wants_any: u32,
    maximum_nodes: u64,
    any: *mut u32,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live and nobody else's, as the caller promises.
        let lowered = unsafe { &mut *schema }.lower(wants_any != 0, maximum_nodes);
        let (count, rule) = lowered.unwrap_or_default();
        // SAFETY: it may be written to, as the caller promises.
        unsafe { any.write(rule) };
        Ok(count as i32)
    })
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

/// What the rules stand for, but for those of any value, as a handle; see `fcn_titles_text`.
///
/// # Safety
/// `schema` is a live handle that no other call uses; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_titles(schema: *const Schema, made: *mut *mut Titles) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        made.write(Box::into_raw(Box::new((*schema).titles())));
        Ok(0)
    })
}

/// The text of titles, see `Titles::text`; it lives as long as these.
///
/// # Safety
/// `titles` is a live handle; `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_titles_text(titles: *const Titles, found: *mut Bytes) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        found.write(Bytes::of((*titles).text()));
        Ok(0)
    })
}

/// # Safety
/// `titles` is a handle of `fcn_schema_titles` that nobody uses any more, or null.
#[no_mangle]
pub unsafe extern "C" fn fcn_titles_free(titles: *mut Titles) {
    // SAFETY: as the caller promises.
    unsafe { free(titles) }
}

/// The schemas of scalars whose programs are needed, each ended by a zero byte.
///
/// # Safety
/// `schema` is a live handle; `found` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_wanted(schema: *const Schema, found: *mut Bytes) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        found.write(Bytes::of(&(*schema).wanted));
        Ok(0)
    })
}

/// Write the rules, see `Schema::write`; `found` is their program.
///
/// # Safety
/// `schema` is a live handle that no other call uses; `holes` points to `hole_count` numbers, `given` to `size` bytes,
/// `written` to `written_size`; the others may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_write(
    schema: *mut Schema,
    first: u32,
    holes: *const u32,
    hole_count: usize,
    given: *const u8,
    size: usize,
    written: *const u8,
    written_size: usize,
    found: *mut Found,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live and nobody else's, and the pointers fit the sizes, as the caller promises.
        let (schema, holes) = unsafe { (&mut *schema, view(holes, hole_count)) };
        // SAFETY: the pointers fit the sizes, as the caller promises.
        let (given, written) = unsafe { (view(given, size), view(written, written_size)) };
        schema.write(first, holes, given, written)?;
        // SAFETY: it may be written to, as the caller promises.
        unsafe { found.write(Found::of(schema, Progress::Written)) };
        Ok(0)
    })
}

impl Bytes {
    pub fn of(bytes: &[u8]) -> Self {
        let (data, length) = (bytes.as_ptr(), bytes.len());
        Bytes { data, length }
    }
}

impl Found {
    fn of(schema: &Schema, progress: Progress) -> Self {
        Found {
            program: Bytes::of(&schema.program),
            nodes: schema.nodes,
            progress: progress as u32,
        }
    }
}

/// # Safety
/// `text` points to `length` bytes.
unsafe fn utf8<'a>(text: *const u8, length: usize) -> Outcome<&'a str> {
    // SAFETY: as the caller promises.
    str::from_utf8(unsafe { view(text, length) }).map_err(|_| Fault::Malformed)
}
