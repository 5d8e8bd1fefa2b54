//! Payloads that arrive as JSON text, stored byte for byte; in batches, as such input comes.

use std::sync::Arc;

use alkstore::engine::outbox_queue;
use alkstore::engine::stamps::OUTBOX;
use alkstore::{EnqueueOpts, QueueOpts, Result, encode_payload_text, validate_shared_name};

use crate::SqliteStore;
use crate::queue::{NewJob, enqueue_batch};
use crate::stream::{NewEvent, publish_batch};

impl SqliteStore {
    /// Enqueues payloads that are JSON text, all or none, with these stamps.
    ///
    /// # Errors
    /// As [`Queue::enqueue_batch`](alkstore::Queue::enqueue_batch) and [`encode_payload_text`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
    /// # use alkstore::{QueueOpts, Store};
    /// # use alkstore_sqlite::{SqliteOpts, SqliteStore};
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = SqliteStore::open(folder.path().join("app.db"), SqliteOpts::default())?;
    /// let opts = QueueOpts::default();
    /// let text = r#"{"b": 1, "a": 12345678901234567890123}"#;
    /// let jobs = vec![(text.to_owned(), Default::default())];
    /// let ids = store.enqueue_text_batch("imports", &opts, jobs).await?;
    /// let job = store.queue("imports", opts).await?.get_job(ids[0]).await?.expect("enqueued");
    /// assert_eq!(job.payload, text.as_bytes());
    /// # Ok(()) }
    /// ```
    pub async fn enqueue_text_batch(
        &self,
        queue: &str,
        opts: &QueueOpts,
        jobs: Vec<(String, EnqueueOpts)>,
    ) -> Result<Vec<i64>> {
        validate_shared_name(queue)?;
        self.enqueue_texts(queue.into(), opts, jobs).await
    }

    /// Enqueues payloads that are JSON text into an outbox, all or none.
    ///
    /// # Errors
    /// As [`Outbox::enqueue`](alkstore::Outbox::enqueue) and [`encode_payload_text`].
    pub async fn outbox_enqueue_text_batch(
        &self,
        outbox: &str,
        jobs: Vec<(String, EnqueueOpts)>,
    ) -> Result<Vec<i64>> {
        validate_shared_name(outbox)?;
        self.enqueue_texts(outbox_queue(outbox).into(), &OUTBOX, jobs).await
    }

    /// Publishes payloads that are JSON text, all or none.
    ///
    /// # Errors
    /// As [`StreamHandle::publish_batch`](alkstore::StreamHandle::publish_batch) and
    /// [`encode_payload_text`].
    pub async fn publish_text_batch(
        &self,
        stream: &str,
        events: Vec<(Option<String>, String)>,
    ) -> Result<Vec<i64>> {
        validate_shared_name(stream)?;
        let now_us = self.core.clock.now_us();
        let new =
            |(key, text): (_, String)| NewEvent::new(now_us, key, || encode_payload_text(&text));
        let events: Vec<_> = events.into_iter().map(new).collect::<Result<_>>()?;
        let stream: Arc<str> = stream.into();
        self.core.write(move |write| publish_batch(write, &stream, &events)).await
    }

    async fn enqueue_texts(
        &self,
        queue: Arc<str>,
        opts: &QueueOpts,
        jobs: Vec<(String, EnqueueOpts)>,
    ) -> Result<Vec<i64>> {
        let now_us = self.core.clock.now_us();
        let new = |(text, job): &(String, EnqueueOpts)| {
            Ok(NewJob::new(now_us, job, opts, encode_payload_text(text)?))
        };
        let jobs: Vec<_> = jobs.iter().map(new).collect::<Result<_>>()?;
        self.core.write(move |write| enqueue_batch(write, &queue, &jobs)).await
    }
}
