//! An allocator that counts the bytes in use, in builds with the feature `count-allocations`: what `memory` says is compared
//! with it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let made = unsafe { System.alloc(layout) };
        if !made.is_null() {
            IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        }
        made
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let made = unsafe { System.alloc_zeroed(layout) };
        if !made.is_null() {
            IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        }
        made
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        let made = unsafe { System.realloc(pointer, layout, size) };
        if !made.is_null() {
            IN_USE.fetch_add(size.wrapping_sub(layout.size()), Ordering::Relaxed);
        }
        made
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) };
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bytes that the library has asked for and not given back.
#[no_mangle]
pub extern "C" fn fcn_test_allocated() -> usize {
    IN_USE.load(Ordering::Relaxed)
}
