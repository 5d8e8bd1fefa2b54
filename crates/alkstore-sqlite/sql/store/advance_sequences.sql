-- Raises the last id of each kind.
-- :job, :event, :fencing_token, :notification
UPDATE __alkstore_sequence
SET job = max(job, :job),
    event = max(event, :event),
    fencing_token = max(fencing_token, :fencing_token),
    notification = max(notification, :notification)
WHERE id = 1
