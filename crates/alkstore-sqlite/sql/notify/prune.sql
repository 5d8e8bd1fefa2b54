-- Deletes a few channels that have been quiet for long.
-- :limit, :before_us
DELETE FROM __alkstore_notification
WHERE channel IN (
    SELECT channel
    FROM __alkstore_notification
    ORDER BY id
    LIMIT :limit
)
AND sent_us < :before_us
