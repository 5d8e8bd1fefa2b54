//! From a URL to a store. Nothing else in this program knows which engine it talks to, but for
//! the SQL of the demo's own rows in `business.rs`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use alkstore::ops::{Inspect, Operate, QueueAddress, QueueKind};
use alkstore::{EnqueueOpts, QueueOpts, Store, async_trait};
use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::report::Usage;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// A SQLite file.
    Sqlite(PathBuf),
}

impl Location {
    /// Reads `--url`.
    pub(crate) fn parse(url: Option<&str>) -> Result<Self> {
        let Some(url) = url.filter(|url| !url.is_empty()) else {
            return Err(Usage(
                "which store? Give --url PATH, or set ALKSTORE_URL: the path of a SQLite file, as \
                 in --url app.db"
                    .to_owned(),
            )
            .into());
        };
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        match scheme {
            "postgres" | "postgresql" => Err(Usage(
                "this build has no Postgres engine: give the path of a SQLite file".to_owned(),
            )
            .into()),
            "sqlite" => {
                let path = &url["sqlite:".len()..];
                let path = path.strip_prefix("//").unwrap_or(path);
                if path.is_empty() {
                    return Err(Usage("sqlite: needs a path, as in sqlite:app.db".into()).into());
                }
                Ok(Self::Sqlite(path.into()))
            }
            // The URL itself may hold a password, so only its scheme is shown.
            _ if url.contains("://") => Err(Usage(format!(
                "no engine for {scheme:?} URLs: give the path of a SQLite file, or sqlite:PATH"
            ))
            .into()),
            _ => Ok(Self::Sqlite(url.into())),
        }
    }
}

impl fmt::Display for Location {
    /// As a URL that [`Location::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
        }
    }
}

/// Whether a store that is not there is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    Refuse,
}

/// What a commit survives once it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    /// A loss of power: each commit is synced to the disk.
    Full,
    /// The death of processes.
    Normal,
}

impl Durability {
    /// What it survives, in words.
    fn survived(self) -> &'static str {
        match self {
            Self::Full => "power loss",
            Self::Normal => "killed processes",
        }
    }
}

/// What every engine offers to this program.
#[async_trait]
pub(crate) trait Engine: Store + Inspect + Operate {
    /// Closes the store: what is open is rolled back, its threads end.
    async fn shut_down(&self);

    /// Enqueues payloads that are JSON text, as they are, all or none. An outbox has stamps of
    /// its own.
    async fn enqueue_texts(
        &self,
        queue: &QueueAddress,
        stamps: &QueueOpts,
        jobs: Vec<(String, EnqueueOpts)>,
    ) -> alkstore::Result<Vec<i64>>;

    /// Publishes payloads that are JSON text, as they are, all or none.
    async fn publish_texts(
        &self,
        stream: &str,
        events: Vec<(Option<String>, String)>,
    ) -> alkstore::Result<Vec<i64>>;
}

/// An open store and what it is.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Engine>,
    pub(crate) about: About,
}

/// What `init` prints.
#[derive(Serialize)]
pub(crate) struct About {
    pub(crate) engine: &'static str,
    pub(crate) location: String,
    pub(crate) created: bool,
    /// What a commit survives once it is reported.
    pub(crate) commits_survive: &'static str,
}

/// Opens the store and brings its tables up to date.
pub(crate) fn open(
    location: &Location,
    missing: IfMissing,
    durability: Durability,
) -> Result<Opened> {
    match location {
        Location::Sqlite(path) => sqlite::open(path, missing, durability),
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::path::Path;

    use alkstore_sqlite::{SqliteOpts, SqliteStore};
    use anyhow::Context;

    use super::*;

    pub(super) fn open(path: &Path, missing: IfMissing, durability: Durability) -> Result<Opened> {
        let shown = path.display();
        let there = path.try_exists().with_context(|| format!("cannot look for {shown}"))?;
        if !there && missing == IfMissing::Refuse {
            anyhow::bail!(
                "there is no store at {shown}: make one with alkstore init --url {shown}"
            );
        }
        let opts = SqliteOpts {
            create: missing == IfMissing::Create,
            durability: match durability {
                Durability::Full => alkstore_sqlite::Durability::Full,
                Durability::Normal => alkstore_sqlite::Durability::Normal,
            },
            ..SqliteOpts::default()
        };
        let store =
            SqliteStore::open(path, opts).with_context(|| format!("cannot open {shown}"))?;
        let about = About {
            engine: "sqlite",
            location: shown.to_string(),
            created: !there,
            commits_survive: durability.survived(),
        };
        Ok(Opened { store: Arc::new(store), about })
    }

    #[async_trait]
    impl Engine for SqliteStore {
        async fn shut_down(&self) {
            self.close().await;
        }

        async fn enqueue_texts(
            &self,
            queue: &QueueAddress,
            stamps: &QueueOpts,
            jobs: Vec<(String, EnqueueOpts)>,
        ) -> alkstore::Result<Vec<i64>> {
            match queue.kind {
                QueueKind::Outbox => self.outbox_enqueue_text_batch(&queue.name, jobs).await,
                _ => self.enqueue_text_batch(&queue.name, stamps, jobs).await,
            }
        }

        async fn publish_texts(
            &self,
            stream: &str,
            events: Vec<(Option<String>, String)>,
        ) -> alkstore::Result<Vec<i64>> {
            self.publish_text_batch(stream, events).await
        }
    }
}

#[cfg(not(feature = "sqlite"))]
compile_error!("an engine is needed: turn on the feature \"sqlite\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_path() {
        for (url, path) in [
            ("app.db", "app.db"),
            ("/var/lib/a?b%20c#d.db", "/var/lib/a?b%20c#d.db"),
            ("sqlite:app.db", "app.db"),
            ("sqlite:/tmp/app.db", "/tmp/app.db"),
            ("sqlite:///tmp/app.db", "/tmp/app.db"),
            ("C:\\data\\app.db", "C:\\data\\app.db"),
            (":memory:", ":memory:"),
        ] {
            assert_eq!(Location::parse(Some(url)).unwrap(), Location::Sqlite(path.into()), "{url}");
        }
    }

    #[test]
    fn a_location_shows_itself_as_a_url_that_leads_back_to_it() {
        for path in ["app.db", "/tmp/app.db", "//odd", "sqlite:odd"] {
            let location = Location::Sqlite(path.into());
            assert_eq!(Location::parse(Some(&location.to_string())).unwrap(), location);
        }
    }

    #[test]
    fn what_cannot_be_opened_is_named_without_its_password() {
        let refusal = |url| Location::parse(url).unwrap_err().to_string();
        assert!(refusal(None).contains("--url PATH"));
        assert!(refusal(Some("")).contains("ALKSTORE_URL"));
        assert!(refusal(Some("sqlite:")).contains("sqlite:app.db"));
        for url in ["postgres://u:secret@h/d", "postgresql://u:secret@h/d", "mysql://u:secret@h"] {
            let refusal = refusal(Some(url));
            assert!(refusal.contains("SQLite file") && !refusal.contains("secret"), "{refusal}");
        }
    }
}
