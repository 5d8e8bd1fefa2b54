-- A stream's figures.
-- :stream, :bound
SELECT
    (SELECT coalesce(min(offset), 0) FROM __alkstore_event WHERE stream = :stream) AS first,
    (SELECT coalesce(max(offset), 0) FROM __alkstore_event WHERE stream = :stream) AS head,
    (
        SELECT count(*)
        FROM (SELECT offset FROM __alkstore_event WHERE stream = :stream LIMIT :bound)
    ) AS length
