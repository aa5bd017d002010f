//! Records panics: their messages, and the data structures that they left half written.
//!
//! A panic is a bug in this crate. The call in which it happens fails, and so does every later call that needs the data
//! that was being changed. All other data stays usable.

use std::any::Any;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::base::limits::{Fault, Outcome};
use crate::base::tuning::{MAX_PANIC_CHARACTERS, MAX_PANIC_TEXTS};

/// The highest number that is counted; all later panics share the next one, which still fits into an answer.
const HIGHEST_NUMBER: u32 = i32::MAX as u32 / 2;

static LAST_NUMBER: AtomicU32 = AtomicU32::new(0);
static TEXTS: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());

thread_local! {
    /// The number of the panic that unwinds this thread, or 0.
    static UNWINDING: Cell<u32> = const { Cell::new(0) };
}

/// Return the number of the panic that unwinds this thread; assign one if it has none.
fn number() -> u32 {
    UNWINDING.with(|unwinding| {
        if unwinding.get() == 0 {
            let last = LAST_NUMBER.fetch_add(1, Ordering::Relaxed);
            unwinding.set(last.min(HIGHEST_NUMBER) + 1);
        }
        unwinding.get()
    })
}

/// Record a caught panic and return its fault.
pub fn caught(payload: &(dyn Any + Send)) -> Fault {
    let number = number();
    UNWINDING.with(|unwinding| unwinding.set(0));
    let text = match payload.downcast_ref::<String>() {
        Some(text) => text,
        None => payload
            .downcast_ref::<&str>()
            .copied()
            .unwrap_or("a panic without a text"),
    };
    if let (true, Ok(mut texts)) = (number <= MAX_PANIC_TEXTS, TEXTS.lock()) {
        texts.push((number, text.chars().take(MAX_PANIC_CHARACTERS).collect()));
    }
    Fault::Panic(number)
}

/// Return the message of the panic with this number, if it was kept.
pub fn text_of(number: u32) -> Option<String> {
    let texts = TEXTS.lock().ok()?;
    texts
        .iter()
        .find(|(known, _)| *known == number)
        .map(|(_, text)| text.clone())
}

/// A flag that tells whether an owner's data may be used. It may not after a panic under one of the owner's locks.
#[derive(Default)]
pub struct Health(AtomicU32);

impl Health {
    pub fn check(&self) -> Outcome<()> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            number => Err(Fault::Panic(number)),
        }
    }
}

/// A value behind a lock, with a shared owner. A panic under the lock makes all data of the owner unusable.
pub struct Guarded<T> {
    value: Mutex<T>,
    owner: Arc<Health>,
}

impl<T: Default> Default for Guarded<T> {
    /// Make a default value that has an owner of its own.
    fn default() -> Self {
        Guarded::new(T::default(), &Arc::default())
    }
}

impl<T> Guarded<T> {
    pub fn new(value: T, owner: &Arc<Health>) -> Self {
        Guarded {
            value: Mutex::new(value),
            owner: owner.clone(),
        }
    }

    pub fn lock(&self) -> Outcome<Guard<'_, T>> {
        let locked = self.value.lock();
        self.owner.check()?;
        match locked {
            Ok(value) => Ok(Guard {
                value,
                owner: &self.owner,
            }),
            // Unreachable: when a panic drops the guard, the guard marks the owner before it releases the lock.
            Err(_) => Err(Fault::Panic(0)),
        }
    }
}

pub struct Guard<'a, T> {
    value: MutexGuard<'a, T>,
    owner: &'a Health,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Keep the number of the first panic: it caused the later ones.
            let _ = self
                .owner
                .0
                .compare_exchange(0, number(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
