//! Calls into the library, and forks of the process.
//!
//! A fork copies locks and tables as they are, but of all threads only the one that forks: what another thread was just
//! changing would stay locked and half written in the child for ever. So a fork waits until no thread is inside the
//! library, and calls that begin meanwhile wait for the fork. `pthread_atfork` sees every fork, whoever asks for it, and
//! no call waits for anything but other calls, so that nobody waits for ever.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Once;
use std::time::Duration;

use crate::base::stop;

/// The calls under way, and in the upper half the forks.
static STATE: AtomicU64 = AtomicU64::new(0);
const FORK: u64 = 1 << 32;
/// Forks are rare, and a lock to wait with would itself have to be renewed in the child.
const PAUSE: Duration = Duration::from_micros(50);

/// A call under way, until it is dropped.
pub struct Call(());

impl Call {
    #[inline]
    pub fn begin() -> Self {
        while STATE.fetch_add(1, Ordering::Acquire) >= FORK {
            wait_for_forks();
        }
        Call(())
    }
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        stop::finish();
        STATE.fetch_sub(1, Ordering::Release);
    }
}

#[cold]
fn wait_for_forks() {
    STATE.fetch_sub(1, Ordering::Release);
    while STATE.load(Ordering::Relaxed) >= FORK {
        std::thread::sleep(PAUSE);
    }
}

extern "C" fn before_fork() {
    STATE.fetch_add(FORK, Ordering::Relaxed);
    while STATE.load(Ordering::Acquire) % FORK > 0 {
        std::thread::sleep(PAUSE);
    }
}

extern "C" fn after_fork_in_parent() {
    STATE.fetch_sub(FORK, Ordering::Release);
}

extern "C" fn after_fork_in_child() {
    STATE.store(0, Ordering::Release);
    stop::after_fork_in_child();
}

/// Make forks wait for calls from now on.
pub fn watch_forks() {
    static WATCHED: Once = Once::new();
    #[cfg(unix)]
    WATCHED.call_once(|| {
        extern "C" {
            fn pthread_atfork(
                prepare: Option<extern "C" fn()>,
                parent: Option<extern "C" fn()>,
                child: Option<extern "C" fn()>,
            ) -> std::ffi::c_int;
        }
        // SAFETY: this is the function's declaration in POSIX; the three live as long as the library, which is never
        // unloaded, and neither panic nor call anything that a handler of a fork may not.
        let failed =
            unsafe { pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child)) };
        assert_eq!(failed, 0, "pthread_atfork failed: out of memory");
    });
}
