//! The faults that can end an operation, and the meter that bounds the work of every operation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

#[cfg(feature = "count-allocations")]
use crate::base::counting::are_allocations_used_up;
use crate::base::stop;
use crate::base::tuning::MAX_AUTOMATA_GROWTH;

/// Why an operation ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The grammar derives no byte string at all.
    EmptyLanguage,
    /// A member of a list may be empty.
    EmptyMember,
    /// The serialised grammar, or an argument, is malformed.
    Malformed,
    /// One of the limits is used up.
    Limit(Limit),
    /// A panic happened in this call, or in an earlier one that changed the same data; the panic's number.
    Panic(u32),
    /// A signal arrived, see `stop`; the caller may repeat the call at once.
    Stopped,
}

/// The limits that the engine enforces; their order is part of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Nodes = 0,
    States = 1,
    CacheBytes = 2,
    Work = 3,
}

pub type Outcome<T> = Result<T, Fault>;

/// The limits that one grammar was compiled with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub nodes: u64,
    pub states: u64,
    pub cache_bytes: u64,
    pub work: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            nodes: 1_000_000,
            states: 200_000,
            cache_bytes: 64 << 20,
            work: 20_000_000,
        }
    }
}

/// The part of the shared automata that one grammar has caused.
#[derive(Default)]
pub struct Usage {
    states: AtomicU64,
    bytes: AtomicU64,
    work: Arc<AtomicU64>,
}

impl Usage {
    /// Return a usage that starts at zero, except that it goes on counting the steps of this one.
    pub fn renewed(&self) -> Self {
        Usage {
            work: self.work.clone(),
            ..Usage::default()
        }
    }

    /// Return the number of bytes by which the automata have grown.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Return the number of elementary steps of all calls that have ended.
    pub fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }
}

/// A meter that counts the elementary steps of one call, and the automaton states and bytes that its grammar causes.
pub struct Meter<'a> {
    /// Steps until the next check for interrupts, as far as `maximum_work` allows them.
    slice: u64,
    /// `reserve`: the rest of `maximum_work` after the slice. `beyond`: the rest of the slice after `maximum_work`.
    reserve: u64,
    beyond: u64,
    maximum_work: u64,
    usage: &'a Usage,
    max_states: u64,
}

impl<'a> Meter<'a> {
    pub fn new(work: u64, usage: &'a Usage, max_states: u64) -> Self {
        let granted = stop::take_slice();
        let slice = granted.min(work);
        Meter {
            slice,
            reserve: work - slice,
            beyond: granted - slice,
            maximum_work: work,
            usage,
            max_states,
        }
    }

    /// Subtract `amount` elementary steps from the steps that are left to this call.
    #[inline]
    pub fn work(&mut self, amount: usize) -> Outcome<()> {
        #[cfg(test)]
        panic_if_asked();
        #[cfg(feature = "count-allocations")]
        if are_allocations_used_up() {
            return Err(Fault::Limit(Limit::Work));
        }
        match self.slice.checked_sub(amount as u64) {
            Some(left) => {
                self.slice = left;
                Ok(())
            }
            None => self.next_slice(amount as u64),
        }
    }

    #[cold]
    fn next_slice(&mut self, amount: u64) -> Outcome<()> {
        let left = self.left().checked_sub(amount).ok_or(Fault::Limit(Limit::Work))?;
        if stop::look() {
            return Err(Fault::Stopped);
        }
        self.slice = stop::SLICE.min(left);
        self.reserve = left - self.slice;
        self.beyond = stop::SLICE - self.slice;
        Ok(())
    }

    /// Return the number of steps that are left.
    pub fn left(&self) -> u64 {
        self.slice + self.reserve
    }

    /// Count one new automaton state.
    pub fn state(&mut self) -> Outcome<()> {
        if self.usage.states.fetch_add(1, Ordering::Relaxed) >= self.max_states {
            self.usage.states.fetch_sub(1, Ordering::Relaxed);
            return Err(Fault::Limit(Limit::States));
        }
        Ok(())
    }

    /// Count bytes by which the automata have grown.
    pub fn grow(&mut self, bytes: usize) -> Outcome<()> {
        if bytes == 0 {
            return Ok(());
        }
        let before = self.usage.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if before + bytes as u64 > MAX_AUTOMATA_GROWTH {
            return Err(Fault::Limit(Limit::States));
        }
        Ok(())
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        stop::give_slice(self.slice + self.beyond);
        let used = self.maximum_work - self.left();
        self.usage.work.fetch_add(used, Ordering::Relaxed);
    }
}

/// Return a fault if the current call was interrupted. Its results since then may be incomplete, so callers must
/// discard them.
pub fn check_stop() -> Outcome<()> {
    match stop::is_stopping() {
        true => Err(Fault::Stopped),
        false => Ok(()),
    }
}

#[cfg(test)]
thread_local! {
    static STEPS_TO_PANIC: std::cell::Cell<u64> = const { std::cell::Cell::new(u64::MAX) };
}

/// For tests: make the work of this thread panic after this many more steps.
#[cfg(test)]
pub fn panic_after(steps: u64) {
    STEPS_TO_PANIC.set(steps);
}

#[cfg(test)]
fn panic_if_asked() {
    let left = STEPS_TO_PANIC.get();
    if left == 0 {
        STEPS_TO_PANIC.set(u64::MAX);
        panic!("asked for by a test");
    }
    STEPS_TO_PANIC.set(left.saturating_sub(u64::from(left < u64::MAX)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::stop::{ends_within, finish, interrupt, SLICE};

    /// Return the number of steps of a meter until a fault, and the fault.
    fn steps_of(meter: &mut Meter) -> (u64, Fault) {
        for steps in 0.. {
            if let Err(fault) = meter.work(1) {
                return (steps, fault);
            }
        }
        unreachable!("there are fewer steps")
    }

    #[test]
    fn slices_change_no_limit() {
        let usage = Usage::default();
        for work in [0, 1, SLICE - 1, SLICE, SLICE + 1, 3 * SLICE + 7] {
            let mut outer = Meter::new(work, &usage, 1);
            let mut inner = Meter::new(work, &usage, 1);
            assert_eq!(steps_of(&mut inner), (work, Fault::Limit(Limit::Work)));
            assert_eq!(steps_of(&mut outer), (work, Fault::Limit(Limit::Work)));
            assert_eq!(outer.left(), 0);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_signal_ends_one_call() {
        let usage = Usage::default();
        interrupt();
        let (steps, fault) = steps_of(&mut Meter::new(u64::MAX, &usage, 1));
        assert!(steps <= SLICE);
        assert_eq!(fault, Fault::Stopped);
        // Further meters of the same call stop soon, too.
        let (steps, fault) = steps_of(&mut Meter::new(u64::MAX, &usage, 1));
        assert!(steps <= SLICE);
        assert_eq!((fault, check_stop()), (Fault::Stopped, Err(Fault::Stopped)));
        finish();
        assert_eq!(check_stop(), Ok(()));
        let mut meter = Meter::new(4 * SLICE, &usage, 1);
        assert_eq!(steps_of(&mut meter), (4 * SLICE, Fault::Limit(Limit::Work)));
        // Work without a meter stops, too, and goes on in the next call.
        interrupt();
        assert!((0..=SLICE).any(|_| ends_within(1)));
        assert!(ends_within(1));
        finish();
        assert!((0..=SLICE).all(|_| !ends_within(1)));
    }

    #[test]
    fn example_meter_ends_a_call() {
        let usage = Usage::default();
        let mut meter = Meter::new(100, &usage, 1);
        assert_eq!(meter.work(60), Ok(()));
        assert_eq!(meter.left(), 40);
        assert_eq!(meter.work(60), Err(Fault::Limit(Limit::Work)));
        drop(meter);
        assert_eq!(usage.work(), 60);
    }
}
