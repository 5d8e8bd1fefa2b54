-- Stores the last id of each kind.
-- :job, :event, :fencing_token, :notification
UPDATE __alkstore_sequence
SET job = :job, event = :event, fencing_token = :fencing_token, notification = :notification
WHERE id = 1
