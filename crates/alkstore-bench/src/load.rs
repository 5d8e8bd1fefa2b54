//! How load is made: the same way for floors and engines.

use std::future::Future;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::line::Round;

/// The payload of every workload.
pub(crate) static PAYLOAD: LazyLock<Value> = LazyLock::new(|| {
    let body = "We have received your order and will tell you when it is on its w";
    json!({"order": 4711, "to": "ada", "body": body})
});

/// The payload as the 100 bytes that are stored.
pub(crate) static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let bytes = PAYLOAD.to_string().into_bytes();
    assert_eq!(bytes.len(), 100);
    bytes
});

/// Lets tasks repeat the operation for the plan's time, each awaiting one before the next.
pub(crate) fn rate<F, Fut>(round: &Round<'_>, tasks: usize, op: F) -> f64
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let time = round.plan.time;
    let (op, warm_up) = (op.clone(), op);
    round.runtime.block_on(async move {
        for _ in 0..20 {
            warm_up().await;
        }
        let start = Instant::now();
        let repeat = move |op: F| async move {
            let mut done = 0_u32;
            while start.elapsed() < time {
                op().await;
                done += 1;
            }
            done
        };
        let running: Vec<_> = (0..tasks).map(|_| tokio::spawn(repeat(op.clone()))).collect();
        let mut total = 0.0;
        for task in running {
            total += f64::from(task.await.expect("no operation panics"));
        }
        total / start.elapsed().as_secs_f64()
    })
}

/// The median time from the start of `produce` to when `consume` has what it made, as its inverse
/// (times per second). The consumer is asleep each time that something is made.
pub(crate) fn wakes<F, Fut, C, CFut>(round: &Round<'_>, produce: F, mut consume: C) -> f64
where
    F: Fn() -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
    C: FnMut() -> CFut + Send + 'static,
    CFut: Future<Output = ()> + Send,
{
    let n = round.plan.wakes;
    round.runtime.block_on(async move {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let consumer = tokio::spawn(async move {
            loop {
                consume().await;
                if tell.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
        let mut times = Vec::with_capacity(n);
        for _ in 0..n {
            tokio::time::sleep(Duration::from_millis(3)).await;
            let start = Instant::now();
            produce().await;
            let had: Instant = told.recv().await.expect("the consumer runs");
            times.push(had.duration_since(start));
        }
        consumer.abort();
        times.sort_unstable();
        1.0 / times[n / 2].as_secs_f64()
    })
}

/// Lets workers repeat the operation, which says how many jobs it did, until all are done.
pub(crate) fn drain<F, Fut>(round: &Round<'_>, jobs: usize, workers: usize, op: F) -> f64
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = usize> + Send,
{
    round.runtime.block_on(async move {
        let start = Instant::now();
        let repeat = |op: F| async move {
            let mut done = 0;
            loop {
                match op().await {
                    0 => return done,
                    n => done += n,
                }
            }
        };
        let running: Vec<_> = (0..workers).map(|_| tokio::spawn(repeat(op.clone()))).collect();
        let mut total = 0;
        for worker in running {
            total += worker.await.expect("no operation panics");
        }
        let elapsed = start.elapsed().as_secs_f64();
        assert_eq!(total, jobs, "every job once");
        jobs as f64 / elapsed
    })
}
