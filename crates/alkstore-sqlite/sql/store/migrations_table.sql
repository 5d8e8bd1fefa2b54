-- Creates the record of applied migrations.
CREATE TABLE IF NOT EXISTS __alkstore_migration (
    version INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
)
