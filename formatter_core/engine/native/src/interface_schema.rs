//! The C interface to the lowering of plain schemas. As in `interface`, every call answers with a number.

use std::str;

use crate::interface::{guarded, truth, view};
use crate::limits::{Fault, Outcome};
use crate::schema::Schema;

/// Read a schema's text; `made` holds a handle only if the answer is 1. See `Schema::read`.
///
/// # Safety
/// `text` points to `length` bytes; `made` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_new(text: *const u8, length: usize, draft: u32, made: *mut *mut Schema) -> i32 {
    guarded(|| {
        // SAFETY: the pointer fits the length, as the caller promises.
        let text = str::from_utf8(unsafe { view(text, length) }).map_err(|_| Fault::Malformed)?;
        let schema = Schema::read(text, draft);
        let is_read = schema.is_some();
        if let Some(schema) = schema {
            // SAFETY: `made` may be written to, as the caller promises.
            unsafe { made.write(Box::into_raw(Box::new(schema))) };
        }
        Ok(truth(is_read))
    })
}

/// # Safety
/// `schema` is a handle of `fcn_schema_new` that nobody uses any more.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_free(schema: *mut Schema) {
    guarded(|| {
        // SAFETY: the handle came from a box, and is nobody else's, as the caller promises.
        drop(unsafe { Box::from_raw(schema) });
        Ok(0)
    });
}

/// The number of a goal plus one, or 0 if the schema at a JSON Pointer is not plain. See `Schema::goal`.
///
/// # Safety
/// `schema` is a live handle that no other call uses; `pointer` points to `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_goal(schema: *mut Schema, pointer: *const u8, length: usize) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live and nobody else's, and the pointer fits the length, as the caller promises.
        let (schema, pointer) = unsafe { (&mut *schema, view(pointer, length)) };
        let pointer = str::from_utf8(pointer).map_err(|_| Fault::Malformed)?;
        Ok(schema.goal(pointer).map_or(0, |goal| goal as i32 + 1))
    })
}

/// How many bytes the JSON Pointers of all holes have, see `fcn_schema_holes`: the schemas that goals lead to which are
/// lowered elsewhere.
///
/// # Safety
/// `schema` is a live handle; `length` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_find_holes(schema: *const Schema, length: *mut usize) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        length.write((*schema).pointers.len());
        Ok(0)
    })
}

/// The JSON Pointers of holes, each ended by a zero byte.
///
/// # Safety
/// `schema` is a live handle; `data` has room for as many bytes as `fcn_schema_find_holes` has said.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_holes(schema: *const Schema, data: *mut u8) -> i32 {
    // SAFETY: the handle is live, and there is room, as the caller promises.
    guarded(|| unsafe { copy_to(data, &(*schema).pointers) })
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
        unsafe { copy_to(goals, &found) }?;
        Ok(truth(all))
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

/// How many bytes the schemas of scalars have whose programs are needed, see `fcn_schema_wanted`.
///
/// # Safety
/// `schema` is a live handle; `length` may be written to.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_find_wanted(schema: *const Schema, length: *mut usize) -> i32 {
    // SAFETY: the handle is live, and the other may be written to, as the caller promises.
    guarded(|| unsafe {
        length.write((*schema).wanted.len());
        Ok(0)
    })
}

/// The schemas of scalars whose programs are needed, each ended by a zero byte.
///
/// # Safety
/// `schema` is a live handle; `data` has room for as many bytes as `fcn_schema_find_wanted` has said.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_wanted(schema: *const Schema, data: *mut u8) -> i32 {
    // SAFETY: the handle is live, and there is room, as the caller promises.
    guarded(|| unsafe { copy_to(data, &(*schema).wanted) })
}

/// Write the rules, see `Schema::write`: how many bytes they have, and how many nodes.
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
    length: *mut usize,
    nodes: *mut u64,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle is live and nobody else's, and the pointers fit the sizes, as the caller promises.
        let (schema, holes) = unsafe { (&mut *schema, view(holes, hole_count)) };
        // SAFETY: the pointers fit the sizes, as the caller promises.
        let (given, written) = unsafe { (view(given, size), view(written, written_size)) };
        let count = schema.write(first, holes, given, written)?;
        // SAFETY: these may be written to, as the caller promises.
        unsafe {
            length.write(schema.program.len());
            nodes.write(count);
        }
        Ok(0)
    })
}

/// The rules that `fcn_schema_write` has written.
///
/// # Safety
/// `schema` is a live handle; `data` has room for as many bytes as `fcn_schema_write` has said.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_program(schema: *const Schema, data: *mut u8) -> i32 {
    // SAFETY: the handle is live, and there is room, as the caller promises.
    guarded(|| unsafe { copy_to(data, &(*schema).program) })
}

/// # Safety
/// `data` has room for all of `bytes`.
unsafe fn copy_to(data: *mut u8, bytes: &[u8]) -> Outcome<i32> {
    // SAFETY: there is room, as the caller promises.
    unsafe { data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(0)
}
