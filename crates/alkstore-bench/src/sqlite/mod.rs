//! The workloads on SQLite.

mod drain;
mod enqueue;
mod floor;
mod streams;
mod wakes;

use std::sync::Arc;

use alkstore_sqlite::{SqliteOpts, SqliteStore};
use rusqlite::Connection;

use self::floor::group::Group;
use self::floor::raw::Raw;
use crate::line::{Floor, Line, Round};
use crate::{Durability, Result};

pub(crate) fn lines(durability: Durability) -> Vec<Line> {
    let mut lines = enqueue::lines(durability);
    lines.extend(drain::lines(durability));
    lines.extend(streams::lines(durability));
    lines.extend(wakes::lines(durability));
    lines
}

fn line<S>(
    workload: &'static str,
    name: &'static str,
    durability: Durability,
    floors: Vec<Floor>,
    ours: S,
) -> Line
where
    S: Fn(&Round<'_>, &SqliteStore) -> Result<f64> + 'static,
{
    let ours = Box::new(move |round: &Round<'_>| {
        let durability = match round.durability {
            Durability::Full => alkstore_sqlite::Durability::Full,
            Durability::Normal | Durability::None => alkstore_sqlite::Durability::Normal,
        };
        let opts = SqliteOpts { durability, ..Default::default() };
        let store = SqliteStore::open(round.dir.join("ours.db"), opts)?;
        let rate = ours(round, &store);
        round.runtime.block_on(store.close());
        rate
    });
    Line { engine: "sqlite", workload, name, durability, floors, ours }
}

fn floor<S>(name: &'static str, target: impl Into<Option<f64>>, side: S) -> Floor
where
    S: Fn(&Round<'_>) -> Result<f64> + 'static,
{
    Floor { name, target: target.into(), side: Box::new(side) }
}

fn connection(round: &Round<'_>) -> Result<Connection> {
    Ok(floor::create(&round.dir.join("floor.db"), round.durability)?)
}

fn raw(round: &Round<'_>) -> Result<Arc<Raw>> {
    Ok(Arc::new(Raw::new(connection(round)?)))
}

fn group(round: &Round<'_>) -> Result<Group> {
    Ok(Group::new(connection(round)?))
}
