-- The greatest offset of the first few events up to a horizon.
-- :stream, :horizon, :limit
SELECT max(offset)
FROM (
    SELECT offset
    FROM __alkstore_event
    WHERE stream = :stream AND offset <= :horizon
    ORDER BY offset
    LIMIT :limit
)
