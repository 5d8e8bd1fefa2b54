-- The channels that were notified beyond an id, in order.
-- :id
SELECT channel, id
FROM __alkstore_notification
WHERE id > :id
ORDER BY id
