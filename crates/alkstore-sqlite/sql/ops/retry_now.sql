-- Makes a delayed job ready.
-- :now, :now_us, :id, :queue
UPDATE __alkstore_job
SET lane = 0, run_at = :now, due_us = :now_us
WHERE id = :id AND queue = :queue AND lane = 1 AND worker_id IS NULL AND due_us > :now_us
    AND attempts < max_attempts
