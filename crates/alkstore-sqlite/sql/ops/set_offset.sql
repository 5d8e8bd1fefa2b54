-- Sets a consumer's checkpoint, also to a lower one.
-- :stream, :consumer, :offset
INSERT OR REPLACE INTO __alkstore_consumer (stream, consumer, offset)
VALUES (:stream, :consumer, :offset)
