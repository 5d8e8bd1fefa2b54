//! Waiting awake for a moment, where that has paid off lately.
//!
//! Waking a thread takes longer than most operations here. So the writer stays awake for the next
//! operation of a caller that comes back at once, and a caller that is alone stays awake for its
//! answer. Waits in vain make further ones rare.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// Between two tries, so many occasions at most are passed over.
const RAREST: u32 = 64;

/// Decides whether to wait awake.
#[derive(Debug)]
pub(super) struct Patience {
    longest: Duration,
    /// Occasions to pass over before the next try.
    pass: AtomicU32,
    /// How many were passed over before the last try.
    passed: AtomicU32,
}

impl Patience {
    pub(super) const fn new(longest: Duration) -> Self {
        Self { longest, pass: AtomicU32::new(0), passed: AtomicU32::new(0) }
    }

    /// Waits until `look` says how it ended, or not at all.
    pub(super) fn wait<T>(&self, mut look: impl FnMut() -> Look<T>) -> Option<T> {
        let started = self.begin()?;
        loop {
            match self.step(started, &mut look) {
                Poll::Ready(ended) => return ended,
                Poll::Pending => std::thread::yield_now(),
            }
        }
    }

    /// The same in a task, which lets others of its runtime have their turns.
    pub(super) async fn attend<T>(&self, mut look: impl FnMut() -> Look<T>) -> Option<T> {
        let started = self.begin()?;
        poll_fn(|cx| {
            let step = self.step(started, &mut look);
            if step.is_pending() {
                cx.waker().wake_by_ref();
            }
            step
        })
        .await
    }

    fn begin(&self) -> Option<Instant> {
        let fewer = |pass: u32| pass.checked_sub(1);
        match self.pass.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer) {
            Ok(_) => None,
            Err(_) => Some(Instant::now()),
        }
    }

    fn step<T>(&self, started: Instant, look: &mut impl FnMut() -> Look<T>) -> Poll<Option<T>> {
        match look() {
            Look::There(there) => {
                self.passed.store(0, Ordering::Relaxed);
                Poll::Ready(Some(there))
            }
            Look::NotYet if started.elapsed() < self.longest => Poll::Pending,
            Look::NotYet => {
                self.in_vain();
                Poll::Ready(None)
            }
            Look::GiveUp => Poll::Ready(None),
        }
    }

    fn in_vain(&self) {
        let passed = self.passed.load(Ordering::Relaxed);
        let pass = (passed * 2 + 1).min(RAREST);
        self.passed.store(pass, Ordering::Relaxed);
        self.pass.store(pass, Ordering::Relaxed);
    }
}

/// What there is while waiting.
pub(super) enum Look<T> {
    There(T),
    NotYet,
    /// Waiting on would do harm; it says nothing about the next time.
    GiveUp,
}

/// Somebody who waits for an answer.
#[derive(Debug)]
pub(super) struct Caller<'a>(&'a AtomicUsize);

impl<'a> Caller<'a> {
    pub(super) fn new(callers: &'a AtomicUsize) -> Self {
        callers.fetch_add(1, Ordering::Relaxed);
        Self(callers)
    }

    /// Looks for the answer. Beside other callers it gives up: they may need this thread to make
    /// their calls, and calls that are made together are answered together.
    pub(super) fn look<T>(&self, answered: &mut oneshot::Receiver<T>) -> Look<T> {
        match answered.try_recv() {
            Ok(answer) => Look::There(answer),
            Err(TryRecvError::Empty) if self.0.load(Ordering::Relaxed) == 1 => Look::NotYet,
            Err(_) => Look::GiveUp,
        }
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_in_vain_become_rare_and_one_that_pays_off_ends_that() {
        let patience = Patience::new(Duration::from_micros(10));
        let looks = |there: bool| {
            let mut looked = false;
            patience.wait(|| {
                looked = true;
                if there { Look::There(()) } else { Look::NotYet }
            });
            looked
        };
        assert!(looks(true) && looks(true) && looks(false));
        assert_eq!((0..1_000).filter(|_| looks(false)).count(), 1 + 1 + 1 + 1 + 1 + 1 + 13);
        while !looks(true) {}
        assert!(looks(true), "at once again");
    }
}
