-- Remembers how far a stream was trimmed.
-- :stream, :offset
INSERT INTO __alkstore_trim (stream, last_offset)
VALUES (:stream, :offset)
ON CONFLICT (stream) DO UPDATE SET last_offset = max(last_offset, excluded.last_offset)
