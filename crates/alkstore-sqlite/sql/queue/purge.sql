-- Deletes dead jobs past their retention.
-- :queue, :now, :limit
DELETE FROM __alkstore_dead
WHERE id IN (
    SELECT id
    FROM __alkstore_dead
    WHERE queue = :queue AND purge_at <= :now
    ORDER BY purge_at
    LIMIT :limit
)
