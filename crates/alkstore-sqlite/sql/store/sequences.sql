-- The last id of each kind.
SELECT job, event, fencing_token, notification
FROM __alkstore_sequence
WHERE id = 1
