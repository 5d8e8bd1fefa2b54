-- A live job.
-- :id, :queue
SELECT
    id, queue, payload, priority, run_at, attempts, max_attempts, worker_id, claimed_at, due_us,
    created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, claims
FROM __alkstore_job
WHERE id = :id AND queue = :queue
