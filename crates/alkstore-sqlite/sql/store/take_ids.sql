-- Gives out so many ids of each kind and returns the last ones.
-- :jobs, :events, :fencing_tokens, :notifications
UPDATE __alkstore_sequence
SET job = job + :jobs,
    event = event + :events,
    fencing_token = fencing_token + :fencing_tokens,
    notification = notification + :notifications
WHERE id = 1
RETURNING job, event, fencing_token, notification
