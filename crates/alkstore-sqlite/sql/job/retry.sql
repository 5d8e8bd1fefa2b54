-- Ends a live claim; the job waits for its next one.
-- :lane, :run_at, :due_us, :id, :claims, :now_us
UPDATE __alkstore_job
SET lane = :lane, run_at = :run_at, due_us = :due_us, worker_id = NULL, claimed_at = NULL
WHERE id = :id AND claims = :claims AND worker_id IS NOT NULL AND due_us > :now_us
