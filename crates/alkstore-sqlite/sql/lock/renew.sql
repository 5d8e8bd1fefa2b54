-- Gives a tenure a new end; a lapsed one that nobody took, too.
-- :expires_us, :name, :fencing_token
UPDATE __alkstore_lock
SET expires_us = :expires_us
WHERE name = :name AND fencing_token = :fencing_token
