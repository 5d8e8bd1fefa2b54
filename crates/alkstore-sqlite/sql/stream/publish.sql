-- Appends an event.
-- :stream, :offset, :key, :created_at, :payload
INSERT INTO __alkstore_event (stream, offset, key, created_at, payload)
VALUES (:stream, :offset, :key, :created_at, :payload)
