//! Ends long calls of the main thread when the user interrupts the program.
//!
//! While a call runs without the GIL, CPython notes signals, but runs no handler before the call has ended. So the first
//! long call puts a function of ours before CPython's own handler of SIGINT: it leaves a note, and passes the signal on.
//! The meter of a call in the main thread looks for that note every `SLICE` steps and ends the call as a limit would, with
//! all locks released. The caller then takes the GIL, runs Python's handlers, and makes the call once more if they raised
//! nothing. A note that no long call has seen, because the signal came between calls, costs the next one a repetition.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::OnceLock;

/// Elementary steps between two looks: about a millisecond.
pub const SLICE: u64 = 1 << 15;

const SIGINT: c_int = 2;

/// A function that takes a signal's number, or a small number that stands for one of the system's own ways.
type Handler = *const c_void;

/// What is needed of CPython, all of it in the stable ABI. Neither function needs the GIL: they wrap `sigaction`, or
/// `signal` where that is missing.
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
/// A signal has come that no call has seen.
static NOTED: AtomicBool = AtomicBool::new(false);
/// The call under way in the main thread is to end.
static STOPPING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// What is left of the slice of this thread when no meter counts.
    static LEFT: Cell<u64> = const { Cell::new(SLICE) };
}

/// The number of the calling thread, as Python has it; 0 where threads have other numbers.
fn this_thread() -> usize {
    #[cfg(unix)]
    {
        extern "C" {
            fn pthread_self() -> usize;
        }
        // SAFETY: it always succeeds, and answers with a number or a pointer wherever we build for.
        unsafe { pthread_self() }
    }
    #[cfg(not(unix))]
    0
}

/// Whether the handlers of Python run in this thread.
fn is_main_thread() -> bool {
    let main = MAIN_THREAD.load(Ordering::Relaxed);
    main != 0 && main == this_thread()
}

/// A fork leaves only the thread that forks, which is the main thread from then on.
pub fn after_fork_in_child() {
    if MAIN_THREAD.load(Ordering::Relaxed) != 0 {
        MAIN_THREAD.store(this_thread(), Ordering::Relaxed);
    }
    NOTED.store(false, Ordering::Relaxed);
}

unsafe extern "C" fn note(signal: c_int) {
    NOTED.store(true, Ordering::Relaxed);
    if let Some(watch) = WATCH.get() {
        // SAFETY: this is how the system would have called it, with the same signal.
        unsafe { (watch.inner)(signal) };
    }
}

/// See to it that `note` comes first. Whoever else handles the signal in place of CPython keeps it: two libraries that
/// each put themselves first again and again would end up calling each other.
fn watch() {
    if let Some(watch) = WATCH.get() {
        // SAFETY: both functions may be called at any time, see `Signals`; `note` does what a handler of signals may do.
        unsafe {
            if (watch.signals.get)(SIGINT) == watch.inner as Handler {
                (watch.signals.set)(SIGINT, note as Handler);
            }
        }
    }
}

/// Where the executable or the library begins in memory that an address belongs to, if it belongs to one.
fn image_of(address: *const c_void) -> Option<*const c_void> {
    #[cfg(unix)]
    {
        /// `Dl_info`.
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
        // SAFETY: any address may be asked about, and there is room for the answer.
        let is_found = unsafe { dladdr(address, &mut found) } != 0;
        is_found.then_some(found.base)
    }
    #[cfg(not(unix))]
    None.filter(|_: &*const c_void| !address.is_null())
}

/// Let interrupts end long calls from now on. `main_thread` is the number of the thread that runs Python's handlers.
///
/// # Safety
/// `signals` are CPython's functions, as `Signals` names them.
pub unsafe fn watch_interrupts(signals: Signals, main_thread: usize) {
    // SAFETY: see `Signals`.
    let inner = unsafe { (signals.get)(SIGINT) };
    // Nothing is known of other handlers, such as those that take three arguments.
    let (image, python) = (image_of(inner), image_of(signals.set as *const c_void));
    if image.is_none() || image != python {
        return;
    }
    // SAFETY: CPython has one handler for all signals, which takes the signal's number.
    let inner = unsafe { transmute::<Handler, unsafe extern "C" fn(c_int)>(inner) };
    WATCH.get_or_init(|| Watch { signals, inner });
    MAIN_THREAD.store(main_thread, Ordering::Relaxed);
}

/// What is left of this thread's slice, which is nothing until it is given back: a second meter looks at once.
pub fn take_slice() -> u64 {
    LEFT.replace(0)
}

pub fn give_slice(left: u64) {
    LEFT.set(left);
}

/// Look whether the call under way is to end.
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

/// Whether the call under way was told to end.
pub fn is_stopping() -> bool {
    STOPPING.load(Ordering::Relaxed) && is_main_thread()
}

/// A call of this thread has ended.
#[inline]
pub fn finish() {
    if is_stopping() {
        STOPPING.store(false, Ordering::Relaxed);
    }
}

/// For tests: as if a signal had come while this was the main thread.
#[cfg(test)]
pub fn interrupt() {
    MAIN_THREAD.store(this_thread(), Ordering::Relaxed);
    NOTED.store(true, Ordering::Relaxed);
}
