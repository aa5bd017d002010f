//! An allocator that counts the bytes in use, built with the feature `count-allocations`. Tests compare this count with
//! what `memory` reports. They can also let meters report a limit after some number of allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
/// The number of allocations that are left until meters report a limit; `usize::MAX` for any number.
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

fn count_allocation() {
    let count = |left: usize| (left < usize::MAX).then(|| left.saturating_sub(1));
    // Without a number of allocations nothing is updated.
    let _ = LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
}

/// Return whether a test has set a number of allocations and they are used up.
pub fn are_allocations_used_up() -> bool {
    LEFT.load(Ordering::Relaxed) == 0
}

// SAFETY: every method forwards to the system's allocator, which meets the contract of `GlobalAlloc`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation();
        // SAFETY: the caller of `alloc` guarantees a layout of non-zero size, which `System.alloc` requires.
        let made = unsafe { System.alloc(layout) };
        if !made.is_null() {
            IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        }
        made
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_allocation();
        // SAFETY: the caller of `alloc_zeroed` guarantees a layout of non-zero size, which `System.alloc_zeroed`
        // requires.
        let made = unsafe { System.alloc_zeroed(layout) };
        if !made.is_null() {
            IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        }
        made
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_allocation();
        // SAFETY: `pointer` came from `System` with this layout, because this allocator gives out no other pointers;
        // the caller of `realloc` guarantees a valid new size.
        let made = unsafe { System.realloc(pointer, layout, size) };
        if !made.is_null() {
            IN_USE.fetch_add(size.wrapping_sub(layout.size()), Ordering::Relaxed);
        }
        made
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` with this layout, because this allocator gives out no other pointers.
        unsafe { System.dealloc(pointer, layout) };
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Return the number of bytes that the library has allocated and not freed.
#[no_mangle]
pub extern "C" fn fcn_test_allocated() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// Let all meters report that the work is used up after so many more allocations, until the next call of this function.
/// Return how many allocations were left.
#[no_mangle]
pub extern "C" fn fcn_test_limit_after(allocations: usize) -> usize {
    LEFT.swap(allocations, Ordering::Relaxed)
}
