-- Deletes a few locks that lapsed long ago.
-- :before_us, :limit
DELETE FROM __alkstore_lock
WHERE name IN (
    SELECT name
    FROM __alkstore_lock
    WHERE expires_us < :before_us
    ORDER BY expires_us
    LIMIT :limit
)
