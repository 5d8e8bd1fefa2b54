-- A dead job.
-- :id, :queue
SELECT
    id, queue, payload, priority, run_at, attempts, max_attempts, worker_id, claimed_at,
    claim_expires_at, created_at, expires_at, visibility_timeout_s, backoff_base_s,
    dead_letter_retention_s, last_error, died_at
FROM __alkstore_dead
WHERE id = :id AND queue = :queue
