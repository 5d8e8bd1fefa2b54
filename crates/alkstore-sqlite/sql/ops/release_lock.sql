-- Frees a lock whoever holds it.
-- :name, :now_us
DELETE FROM __alkstore_lock
WHERE name = :name AND expires_us > :now_us
