-- The last event's offset.
-- :stream
SELECT max(offset)
FROM __alkstore_event
WHERE stream = :stream
