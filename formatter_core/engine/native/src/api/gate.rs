//! A gate between calls into the library and forks of the process.
//!
//! A fork copies locks and tables as they are, but only the thread that forks exists in the child. Data that another
//! thread was just changing would stay locked and incomplete in the child for ever. So a fork waits until no thread is
//! inside the library, and calls that begin meanwhile wait for the fork. `pthread_atfork` handles every fork, whoever
//! requests it. Calls wait only for forks, and forks only for calls, so nobody waits for ever.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Once;
use std::time::Duration;

use crate::base::stop;

/// The number of running calls, and in the upper half the number of forks.
static STATE: AtomicU64 = AtomicU64::new(0);
const FORK: u64 = 1 << 32;
/// The time between two checks while we wait. Forks are rare, and the child would have to renew a lock that we wait
/// with.
const PAUSE: Duration = Duration::from_micros(50);

/// A running call; it ends when the value is dropped.
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
        // SAFETY: this is the POSIX declaration of the function. The three handlers live as long as the library, which
        // is never unloaded. They do not panic, and call only functions that a fork handler may call.
        let failed =
            unsafe { pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child)) };
        assert_eq!(failed, 0, "pthread_atfork failed: out of memory");
    });
}
