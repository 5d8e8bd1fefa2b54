-- A stream's consumers.
-- :stream, :bound
SELECT
    consumer,
    offset,
    (
        SELECT count(*)
        FROM (
            SELECT event.offset
            FROM __alkstore_event AS event
            WHERE event.stream = :stream AND event.offset > c.offset
            LIMIT :bound
        )
    ) AS lag,
    offset > max(
        (SELECT coalesce(max(event.offset), 0) FROM __alkstore_event AS event
         WHERE event.stream = :stream),
        (SELECT coalesce(max(last_offset), 0) FROM __alkstore_trim WHERE stream = :stream)
    ) AS ahead_of_log,
    offset < (
        SELECT coalesce(max(last_offset), 0) FROM __alkstore_trim WHERE stream = :stream
    ) AS trimmed_past
FROM __alkstore_consumer AS c
WHERE stream = :stream
ORDER BY consumer
