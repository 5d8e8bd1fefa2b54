//! A connection that runs [`Stmt`]s and nothing else.

use rusqlite::{CachedStatement, Connection, Params, Result, Row};

use crate::sql::Stmt;

/// A connection of the engine. Its statements are prepared once and cached.
#[derive(Debug)]
pub(crate) struct Session(Connection);

impl Session {
    pub(crate) fn new(connection: Connection) -> Self {
        connection.set_prepared_statement_cache_capacity(128);
        Self(connection)
    }

    /// The connection itself, for the application's own SQL and for settings.
    pub(crate) fn connection(&self) -> &Connection {
        &self.0
    }

    pub(crate) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.0
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) fn run(&self, stmt: &Stmt, params: impl Params) -> Result<usize> {
        self.0.prepare_cached(stmt.text())?.execute(params)
    }

    /// Runs a statement that the cache must not hold: from there the application's SQL could run
    /// it past the authorizer.
    pub(crate) fn run_uncached(&self, stmt: &Stmt) -> Result<()> {
        self.0.execute_batch(stmt.text())
    }

    /// A statement to run several times.
    pub(crate) fn prepared(&self, stmt: &Stmt) -> Result<CachedStatement<'_>> {
        self.0.prepare_cached(stmt.text())
    }

    /// The one row of a query that always has one.
    pub(crate) fn one<T>(
        &self,
        stmt: &Stmt,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.0.prepare_cached(stmt.text())?.query_row(params, read)
    }

    /// The first row of a query, if there is one.
    pub(crate) fn first<T>(
        &self,
        stmt: &Stmt,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut prepared = self.0.prepare_cached(stmt.text())?;
        let mut rows = prepared.query(params)?;
        rows.next()?.map(read).transpose()
    }

    /// All rows of a query.
    pub(crate) fn all<T>(
        &self,
        stmt: &Stmt,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.0.prepare_cached(stmt.text())?.query_map(params, read)?.collect()
    }

    /// The rows of a query up to and including the first after which `go_on` is false.
    pub(crate) fn all_while<T>(
        &self,
        stmt: &Stmt,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
        mut go_on: impl FnMut(&T) -> bool,
    ) -> Result<Vec<T>> {
        let mut prepared = self.0.prepare_cached(stmt.text())?;
        let mut rows = prepared.query(params)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(read(row)?);
            if !all.last().is_some_and(&mut go_on) {
                break;
            }
        }
        Ok(all)
    }
}
