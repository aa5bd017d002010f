//! Ends long calls of the main thread when the user interrupts the program.
//!
//! While a call runs without the GIL, CPython records signals, but runs no handler before the call has ended. So the
//! first long call installs `note` in place of CPython's own handler of SIGINT: `note` sets a flag and passes the
//! signal on to CPython's handler. The meter of a call in the main thread checks the flag every `SLICE` steps and ends
//! the call as a limit would, with all locks released. The caller then takes the GIL, runs Python's handlers, and
//! repeats the call if they raised nothing. If a signal came between calls, the next long call finds the flag and is
//! repeated once for nothing.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::OnceLock;

/// Elementary steps between two checks: about a millisecond.
pub const SLICE: u64 = 1 << 15;

const SIGINT: c_int = 2;

/// A handler as the system stores it: a function that takes a signal's number, or a small number for a predefined
/// action.
type Handler = *const c_void;

/// The CPython functions that this module needs, all in the stable ABI. Neither function needs the GIL: they wrap
/// `sigaction`, or `signal` where `sigaction` is missing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Signals {
    get: unsafe extern "C" fn(c_int) -> Handler,
    set: unsafe extern "C" fn(c_int, Handler) -> Handler,
}

struct Watch {
    signals: Signals,
    /// CPython's handler.
    inner: unsafe extern "C" fn(c_int),
}

static WATCH: OnceLock<Watch> = OnceLock::new();
static MAIN_THREAD: AtomicUsize = AtomicUsize::new(0);
/// Set when a signal has arrived that no call has seen.
static NOTED: AtomicBool = AtomicBool::new(false);
/// Set when the current call in the main thread must end.
static STOPPING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Steps of this thread's slice that are left while no meter counts.
    static LEFT: Cell<u64> = const { Cell::new(SLICE) };
    /// Steps of this thread's slice that are left for work that no meter counts.
    static UNMETERED: Cell<u64> = const { Cell::new(SLICE) };
}

/// Return the identifier of the calling thread, in the form that Python uses; 0 where Python's identifiers are of
/// another kind.
fn this_thread() -> usize {
    #[cfg(unix)]
    {
        extern "C" {
            fn pthread_self() -> usize;
        }
        // SAFETY: `pthread_self` has no preconditions and always succeeds; it returns a number or a pointer on all our
        // platforms.
        unsafe { pthread_self() }
    }
    #[cfg(not(unix))]
    0
}

/// Return whether this is the thread that runs Python's signal handlers.
fn is_main_thread() -> bool {
    let main = MAIN_THREAD.load(Ordering::Relaxed);
    main != 0 && main == this_thread()
}

/// Make the current thread the main thread: after a fork, the child has only the thread that forked.
pub fn after_fork_in_child() {
    if MAIN_THREAD.load(Ordering::Relaxed) != 0 {
        MAIN_THREAD.store(this_thread(), Ordering::Relaxed);
    }
    NOTED.store(false, Ordering::Relaxed);
}

unsafe extern "C" fn note(signal: c_int) {
    NOTED.store(true, Ordering::Relaxed);
    if let Some(watch) = WATCH.get() {
        // SAFETY: `inner` is CPython's handler, and it gets the same signal that the system passed to `note`.
        unsafe { (watch.inner)(signal) };
    }
}

/// Put `note` before CPython's handler, unless somebody else handles the signal. Their handler stays: two libraries
/// that each put themselves first again and again would end up calling each other.
fn watch() {
    if let Some(watch) = WATCH.get() {
        // SAFETY: both functions may be called at any time, see `Signals`; `note` is safe to run in a signal handler.
        unsafe {
            if (watch.signals.get)(SIGINT) == watch.inner as Handler {
                (watch.signals.set)(SIGINT, note as Handler);
            }
        }
    }
}

/// Return the base address of the executable or library that an address belongs to, or None.
fn image_of(address: *const c_void) -> Option<*const c_void> {
    #[cfg(unix)]
    {
        /// The C struct `Dl_info`.
        #[repr(C)]
        struct Found {
            file: *const c_void,
            base: *const c_void,
            name: *const c_void,
            address: *const c_void,
        }
        extern "C" {
            fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
        }
        let mut found = Found {
            file: null(),
            base: null(),
            name: null(),
            address: null(),
        };
        // SAFETY: `dladdr` accepts any address, and `found` has the layout of `Dl_info`, so there is room for the
        // result.
        let is_found = unsafe { dladdr(address, &mut found) } != 0;
        is_found.then_some(found.base)
    }
    #[cfg(not(unix))]
    None.filter(|_: &*const c_void| !address.is_null())
}

/// Let interrupts end long calls from now on. `main_thread` is the identifier of the thread that runs Python's
/// handlers.
///
/// # Safety
/// `signals` must be CPython's functions that `Signals` names.
pub unsafe fn watch_interrupts(signals: Signals, main_thread: usize) {
    // SAFETY: the caller guarantees that this is CPython's function, which may be called at any time, see `Signals`.
    let inner = unsafe { (signals.get)(SIGINT) };
    // Keep away from handlers that are not CPython's: they may take other arguments, for example three.
    let (image, python) = (image_of(inner), image_of(signals.set as *const c_void));
    if image.is_none() || image != python {
        return;
    }
    // SAFETY: `inner` lies in CPython's image, and CPython's only signal handler takes the signal's number.
    let inner = unsafe { transmute::<Handler, unsafe extern "C" fn(c_int)>(inner) };
    WATCH.get_or_init(|| Watch { signals, inner });
    MAIN_THREAD.store(main_thread, Ordering::Relaxed);
}

/// Take the rest of this thread's slice. Until it is given back the slice is empty, so a second meter checks at once.
pub fn take_slice() -> u64 {
    LEFT.replace(0)
}

pub fn give_slice(left: u64) {
    LEFT.set(left);
}

/// Check whether the current call must end.
#[cold]
pub fn look() -> bool {
    if is_main_thread() {
        watch();
        if NOTED.swap(false, Ordering::Relaxed) {
            STOPPING.store(true, Ordering::Relaxed);
        }
    }
    is_stopping()
}

/// Count elementary steps of work that no meter counts, and return whether the current call must end. Its results are
/// incomplete then: the work returns at once, and the call ends with `check_stop`.
#[inline]
pub fn ends_within(steps: u64) -> bool {
    match UNMETERED.get().checked_sub(steps) {
        Some(left) => {
            UNMETERED.set(left);
            false
        }
        None => {
            let ends = look();
            UNMETERED.set(if ends { 0 } else { SLICE });
            ends
        }
    }
}

/// Return whether the current call must end, without looking for new signals.
pub fn is_stopping() -> bool {
    STOPPING.load(Ordering::Relaxed) && is_main_thread()
}

/// Record that a call of this thread has ended.
#[inline]
pub fn finish() {
    if is_stopping() {
        STOPPING.store(false, Ordering::Relaxed);
    }
}

/// For tests: act as if a signal had arrived and this were the main thread.
#[cfg(test)]
pub fn interrupt() {
    MAIN_THREAD.store(this_thread(), Ordering::Relaxed);
    NOTED.store(true, Ordering::Relaxed);
}
