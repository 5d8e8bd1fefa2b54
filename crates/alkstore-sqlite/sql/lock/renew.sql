-- Gives a tenure a new end; a lapsed one that nobody took, too.
-- :name, :fencing_token, :expires_us
UPDATE __alkstore_lock
SET expires_us = :expires_us
WHERE name = :name AND fencing_token = :fencing_token
