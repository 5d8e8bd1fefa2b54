-- Ends a live claim as if it had not been made.
-- :now_us, :id, :claims
UPDATE __alkstore_job
SET lane = 0, attempts = attempts - 1, due_us = :now_us, worker_id = NULL, claimed_at = NULL
WHERE id = :id AND claims = :claims AND worker_id IS NOT NULL AND due_us > :now_us
