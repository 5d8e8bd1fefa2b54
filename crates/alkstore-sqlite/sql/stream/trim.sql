-- Deletes the events up to an offset.
-- :stream, :offset
DELETE FROM __alkstore_event
WHERE stream = :stream AND offset <= :offset
