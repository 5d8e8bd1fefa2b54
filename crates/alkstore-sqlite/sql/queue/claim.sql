-- Claims a ready job.
-- :worker_id, :claimed_at, :due_us, :id
UPDATE __alkstore_job
SET lane = 1,
    attempts = attempts + 1,
    claims = claims + 1,
    worker_id = :worker_id,
    claimed_at = :claimed_at,
    due_us = :due_us
WHERE id = :id
