//! The C interface to parts of schemas, for notations other than JSON. As in `interface`, every call returns a number.

use std::cell::RefCell;

use crate::api::interface::guarded;
use crate::api::interface_schema::{utf8, Bytes};
use crate::base::limits::{check_stop, Fault, Outcome};
use crate::schema::{number_program, Document, Most, Plain, Texts};

thread_local! {
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Keep bytes until the thread's next call, and return where they are.
fn kept(bytes: Vec<u8>) -> Bytes {
    WRITTEN.with(|kept| {
        *kept.borrow_mut() = bytes;
        Bytes::of(&kept.borrow())
    })
}

/// The values that a schema allows, see `Plain`. `program` is that of its texts, or why the schema is refused. `texts`
/// is 0 for none, 1 for some, 2 for all.
#[repr(C)]
#[derive(Default)]
pub struct PlainFound {
    pub program: Bytes,
    pub texts: u32,
    pub others: u32,
    pub holds: u32,
    pub is_refused: u32,
}

/// Read the texts and the other types of a schema, and whether `text` is among the texts, if it is not null.
///
/// # Safety
/// `document` must be a live handle of `fcn_json_read`; `text` must be null or point to `length` bytes; `found` must be
/// valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_schema_texts(
    document: *const Document,
    enforces_formats: u32,
    maximum_nodes: u64,
    maximum_work: u64,
    maximum_depth: u32,
    text: *const u8,
    length: usize,
    found: *mut PlainFound,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that `document` is a live handle, and that `text` is null or points to `length`
        // bytes.
        let (document, text) = unsafe { (&*document, optional(text, length)?) };
        let most = Most {
            nodes: maximum_nodes,
            work: maximum_work,
            repeat: u32::MAX,
            depth: maximum_depth,
        };
        let plain = Plain::new(document, enforces_formats != 0, most, text);
        check_stop()?;
        let answer = match plain {
            Ok(plain) => {
                let (texts, program) = match plain.texts {
                    Texts::None => (0, Vec::new()),
                    Texts::Some(program) => (1, program),
                    Texts::All => (2, Vec::new()),
                };
                PlainFound {
                    program: kept(program),
                    texts,
                    others: plain.others,
                    holds: u32::from(plain.holds),
                    is_refused: 0,
                }
            }
            Err(refusal) => PlainFound {
                program: kept(refusal),
                is_refused: 1,
                ..PlainFound::default()
            },
        };
        // SAFETY: the caller guarantees that `found` is valid for writes and that nobody else uses it.
        unsafe { found.write(answer) };
        Ok(0)
    })
}

/// Make the program of the numbers between two bounds, which are decimals or null: only whole numbers if `whole`, in
/// canonical spelling or with any number of digits.
///
/// # Safety
/// `low` and `high` must be null or point to as many bytes as their lengths say; `found` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_number_program(
    low: *const u8,
    low_length: usize,
    high: *const u8,
    high_length: usize,
    whole: u32,
    canonical: u32,
    found: *mut Bytes,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller guarantees that both bounds are null or match their lengths.
        let (low, high) = unsafe { (optional(low, low_length)?, optional(high, high_length)?) };
        let program = number_program(low, high, whole != 0, canonical != 0).ok_or(Fault::Malformed)?;
        // SAFETY: the caller guarantees that `found` is valid for writes and that nobody else uses it.
        unsafe { found.write(kept(program)) };
        Ok(0)
    })
}

/// # Safety
/// `text` must be null or point to `length` bytes.
unsafe fn optional<'a>(text: *const u8, length: usize) -> Outcome<Option<&'a str>> {
    match text.is_null() {
        true => Ok(None),
        // SAFETY: the caller guarantees that `text` points to `length` bytes if it is not null.
        false => unsafe { utf8(text, length) }.map(Some),
    }
}
