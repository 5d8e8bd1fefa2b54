-- The locks that are held.
-- :now_us
SELECT name, owner, fencing_token, expires_us
FROM __alkstore_lock
WHERE expires_us > :now_us
ORDER BY name
