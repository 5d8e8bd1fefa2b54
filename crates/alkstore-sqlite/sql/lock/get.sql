-- A lock's row, lapsed or not.
-- :name
SELECT owner, fencing_token, expires_us
FROM __alkstore_lock
WHERE name = :name
