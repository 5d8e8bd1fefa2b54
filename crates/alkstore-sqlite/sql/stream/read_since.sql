-- Events beyond an offset, in order.
-- :stream, :offset, :limit
SELECT offset, key, created_at, payload
FROM __alkstore_event
WHERE stream = :stream AND offset > :offset
ORDER BY offset
LIMIT :limit
