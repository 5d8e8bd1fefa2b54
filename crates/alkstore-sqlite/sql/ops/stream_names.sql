-- The streams that hold an event or a consumer, one seek each.
WITH RECURSIVE
    events (stream) AS (
        SELECT min(stream) FROM __alkstore_event
        UNION ALL
        SELECT (SELECT min(e.stream) FROM __alkstore_event AS e WHERE e.stream > events.stream)
        FROM events
        WHERE events.stream IS NOT NULL
    ),
    consumers (stream) AS (
        SELECT min(stream) FROM __alkstore_consumer
        UNION ALL
        SELECT (
            SELECT min(c.stream) FROM __alkstore_consumer AS c WHERE c.stream > consumers.stream
        )
        FROM consumers
        WHERE consumers.stream IS NOT NULL
    )
SELECT stream FROM events WHERE stream IS NOT NULL
UNION
SELECT stream FROM consumers WHERE stream IS NOT NULL
ORDER BY stream
