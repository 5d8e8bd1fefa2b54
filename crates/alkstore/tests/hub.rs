//! The hub under every interleaving of a few threads.
//!
//! Loom runs each test again and again, once per order in which locks can be taken, and reports a
//! wait that nobody ends. `LOOM_LOG=trace LOOM_LOCATION=1` shows the order that failed.

/// The hub's own file, on locks that loom controls. What is never awaited needs none of its kind.
#[path = "../src/engine/hub/signals.rs"]
#[expect(dead_code, unreachable_pub, reason = "it is a library's file")]
mod signals;

mod sync {
    pub(super) use std::sync::{Arc, PoisonError, Weak};

    pub(super) use loom::sync::{Mutex, MutexGuard};
}

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Wake, Waker};

use alkstore::{Error, Result};
use loom::future::block_on;
use loom::sync::atomic::AtomicI64;
use loom::thread;

use self::signals::{Event, Hub, Kind, Signal};

fn listen(hub: &Hub) -> Signal {
    hub.subscribe(Kind::Channel, "a")
}

/// Runs something on another thread.
fn aside(hub: &Hub, f: impl FnOnce(&Hub) + 'static) -> thread::JoinHandle<()> {
    let hub = hub.clone();
    thread::spawn(move || f(&hub))
}

/// Polls once, as a `select!` does before it drops the future.
fn poll_once(signal: &mut Signal, waker: &Waker) -> Poll<Option<Event>> {
    pin!(signal.recv()).poll(&mut Context::from_waker(waker))
}

#[test]
fn a_wake_is_never_lost_to_a_receiver_that_begins_to_wait() {
    loom::model(|| {
        let hub = Hub::new();
        let mut signal = listen(&hub);
        let waking = aside(&hub, |hub| hub.wake(Kind::Channel, "a"));
        assert_eq!(block_on(signal.recv()), Some(Event::Changed));
        waking.join().unwrap();
        assert!(matches!(signal.try_recv(), Ok(None)));
    });
}

#[test]
fn who_reads_again_after_each_wake_sees_all_that_was_written() {
    loom::model(|| {
        let hub = Hub::new();
        let written = Arc::new(AtomicI64::new(0));
        let mut signal = listen(&hub);
        let writing = {
            let written = written.clone();
            aside(&hub, move |hub| {
                for _ in 0..2 {
                    written.fetch_add(1, SeqCst);
                    hub.wake(Kind::Channel, "a");
                }
            })
        };
        while written.load(SeqCst) < 2 {
            assert_eq!(block_on(signal.recv()), Some(Event::Changed));
        }
        writing.join().unwrap();
    });
}

#[test]
fn a_wait_that_was_given_up_loses_no_wake() {
    loom::model(|| {
        let hub = Hub::new();
        let mut signal = listen(&hub);
        let waking = aside(&hub, |hub| hub.wake(Kind::Channel, "a"));
        if poll_once(&mut signal, Waker::noop()).is_pending() {
            assert_eq!(block_on(signal.recv()), Some(Event::Changed));
        }
        waking.join().unwrap();
    });
}

#[test]
fn a_listener_hears_what_commits_after_it_and_nothing_else() {
    loom::model(|| {
        let hub = Hub::new();
        let committed = Arc::new(AtomicI64::new(0));
        let notifying = {
            let committed = committed.clone();
            aside(&hub, move |hub| {
                for cause in 1..=2 {
                    committed.store(cause, SeqCst);
                    hub.wake_caused(Kind::Channel, "a", cause);
                }
            })
        };
        let mut signal = listen(&hub);
        let before = committed.load(SeqCst);
        signal.ignore_until(before);
        notifying.join().unwrap();
        let heard = signal.try_recv().unwrap();
        assert_eq!(heard.is_some(), before < 2, "{before} of 2 had committed");
    });
}

#[test]
fn shutting_ends_every_wait_after_what_was_there() {
    loom::model(|| {
        let hub = Hub::new();
        let mut signal = listen(&hub);
        let ending = aside(&hub, |hub| {
            hub.wake(Kind::Channel, "a");
            hub.reconnected();
            hub.shut();
        });
        let mut received = Vec::new();
        while let Some(event) = block_on(signal.recv()) {
            received.push(event);
        }
        ending.join().unwrap();
        received.sort_by_key(|event| *event == Event::Reconnected);
        assert_eq!(received, [Event::Changed, Event::Reconnected]);
    });
}

#[test]
fn who_subscribes_while_the_hub_shuts_is_closed() {
    loom::model(|| {
        let hub = Hub::new();
        let shutting = aside(&hub, Hub::shut);
        let mut signal = listen(&hub);
        assert_eq!(block_on(signal.recv()), None);
        shutting.join().unwrap();
        assert!(matches!(signal.try_recv(), Err(Error::Closed)));
        assert!(hub.is_idle());
    });
}

#[test]
fn receivers_that_are_closed_make_way_for_new_ones() {
    loom::model(|| {
        let hub = Hub::new();
        let mut early = listen(&hub);
        let closing = aside(&hub, Hub::close_receivers);
        let mut late = listen(&hub);
        assert_eq!(block_on(early.recv()), None);
        closing.join().unwrap();
        drop(early);
        hub.wake(Kind::Channel, "a");
        match late.try_recv() {
            Ok(Some(Event::Changed)) => assert!(!late.is_closed()),
            other => assert!(matches!(other, Err(Error::Closed)) && hub.is_idle(), "{other:?}"),
        }
    });
}

#[test]
fn dropping_receivers_amid_wakes_leaves_nothing_behind() {
    loom::model(|| {
        let hub = Hub::new();
        let (mut stays, goes) = (listen(&hub), listen(&hub));
        let waking = aside(&hub, |hub| hub.wake(Kind::Channel, "a"));
        let going = thread::spawn(move || drop(goes));
        assert_eq!(block_on(stays.recv()), Some(Event::Changed));
        waking.join().unwrap();
        going.join().unwrap();
        drop(stays);
        assert!(hub.is_idle());
    });
}

#[test]
fn dropping_a_receiver_amid_a_shutdown_hangs_neither() {
    loom::model(|| {
        let hub = Hub::new();
        let signal = listen(&hub);
        let shutting = aside(&hub, Hub::shut);
        drop(signal);
        shutting.join().unwrap();
        assert!(hub.is_idle());
    });
}

/// A waker that uses the hub when it is woken, and with which a receiver goes when it is dropped.
struct Meddling {
    hub: Hub,
    signal: StdMutex<Option<Signal>>,
    woken: AtomicBool,
}

impl Meddling {
    fn waker(hub: &Hub) -> (Arc<Self>, Waker) {
        let signal = StdMutex::new(Some(listen(hub)));
        let meddling = Arc::new(Self { hub: hub.clone(), signal, woken: AtomicBool::new(false) });
        (meddling.clone(), meddling.into())
    }
}

impl Wake for Meddling {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, SeqCst);
        drop(self.signal.lock().expect("no panic").take());
        self.hub.wake(Kind::Channel, "a");
    }
}

#[test]
fn wakers_may_use_the_hub() {
    let endings: [fn(&Hub); 3] =
        [|hub| hub.wake(Kind::Channel, "a"), Hub::close_receivers, Hub::shut];
    for ending in endings {
        loom::model(move || {
            let hub = Hub::new();
            let mut signal = listen(&hub);
            let (meddling, waker) = Meddling::waker(&hub);
            assert!(poll_once(&mut signal, &waker).is_pending());
            ending(&hub);
            assert!(meddling.woken.load(SeqCst));
        });
    }
}

#[test]
fn a_waker_that_is_replaced_may_use_the_hub_as_it_goes() {
    loom::model(|| {
        let hub = Hub::new();
        let mut signal = listen(&hub);
        let (meddling, waker) = Meddling::waker(&hub);
        drop(meddling);
        assert!(poll_once(&mut signal, &waker).is_pending());
        drop(waker);
        let waking = aside(&hub, |hub| hub.wake(Kind::Channel, "a"));
        // The receiver that goes with the old waker locks the hub, which the other thread has too.
        if poll_once(&mut signal, Waker::noop()).is_pending() {
            assert_eq!(block_on(signal.recv()), Some(Event::Changed));
        }
        waking.join().unwrap();
    });
}
