-- Whether the record of applied migrations exists.
SELECT EXISTS (
    SELECT 1
    FROM sqlite_schema
    WHERE type = 'table' AND name = '__alkstore_migration'
)
