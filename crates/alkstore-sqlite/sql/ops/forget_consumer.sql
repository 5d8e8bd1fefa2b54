-- Removes a consumer's checkpoint.
-- :stream, :consumer
DELETE FROM __alkstore_consumer
WHERE stream = :stream AND consumer = :consumer
