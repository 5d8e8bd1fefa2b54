-- A consumer's checkpoint.
-- :stream, :consumer
SELECT offset
FROM __alkstore_consumer
WHERE stream = :stream AND consumer = :consumer
