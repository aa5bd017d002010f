//! The C interface to regular expressions.

use std::cell::RefCell;

use crate::api::interface::{guarded, view, DONE};
use crate::api::interface_schema::Bytes;
use crate::base::limits::{check_stop, Fault};
use crate::regular::regex::{read, written, Dialect, Limits};

/// The result of reading a pattern: its nodes, see `encode`, which live until the thread's next call; or why the
/// pattern cannot be read: a `Reason`, the position, and the numbers that belong to the reason.
#[repr(C)]
#[derive(Default)]
pub struct Pattern {
    pub nodes: Bytes,
    pub position: u64,
    pub numbers: [u64; 2],
    pub reason: u32,
}

/// Read a pattern of a `Dialect`, given as code points. `limits` contains nodes, repeat, depth and work.
///
/// # Safety
/// `pattern` must point to `length` numbers, and `limits` to 4; `found` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn fcn_pattern_read(
    pattern: *const u32,
    length: usize,
    dialect: u32,
    limits: *const u64,
    found: *mut Pattern,
) -> i32 {
    thread_local! {
        static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    guarded(|| {
        // SAFETY: the caller guarantees that `pattern` points to `length` numbers and `limits` to 4.
        let (pattern, limits) = unsafe { (view(pattern, length), *limits.cast::<[u64; 4]>()) };
        let [nodes, repeat, depth, work] = limits;
        let depth = u32::try_from(depth).map_err(|_| Fault::Malformed)?;
        let dialect = match dialect {
            0 => Dialect::Rust,
            1 => Dialect::Ecma,
            2 => Dialect::RustWithLook,
            _ => return Err(Fault::Malformed),
        };
        let limits = Limits {
            nodes,
            repeat,
            depth,
            work,
        };
        let node = read(pattern, dialect, &limits);
        check_stop()?;
        let answer = match node {
            Ok(node) => Pattern {
                nodes: WRITTEN.with(|kept| {
                    let mut kept = kept.borrow_mut();
                    *kept = written(&node);
                    Bytes::of(&kept)
                }),
                ..Pattern::default()
            },
            Err(fault) => Pattern {
                position: fault.position as u64,
                numbers: fault.numbers,
                reason: fault.reason as u32,
                ..Pattern::default()
            },
        };
        // SAFETY: the caller guarantees that `found` is valid for writes and that nobody else uses it.
        unsafe { found.write(answer) };
        Ok(DONE)
    })
}
