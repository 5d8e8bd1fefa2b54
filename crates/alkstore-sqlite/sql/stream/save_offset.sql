-- Raises a consumer's checkpoint; an absent one counts as 0.
-- :stream, :consumer, :offset
INSERT INTO __alkstore_consumer (stream, consumer, offset)
SELECT :stream, :consumer, :offset
WHERE :offset > coalesce(
    (SELECT offset FROM __alkstore_consumer WHERE stream = :stream AND consumer = :consumer), 0
)
ON CONFLICT (stream, consumer) DO UPDATE SET offset = excluded.offset
