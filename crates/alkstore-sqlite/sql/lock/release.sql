-- Ends a tenure that is not over.
-- :name, :fencing_token, :now_us
DELETE FROM __alkstore_lock
WHERE name = :name AND fencing_token = :fencing_token AND expires_us > :now_us
