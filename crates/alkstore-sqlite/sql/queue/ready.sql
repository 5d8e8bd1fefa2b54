-- The first ready jobs in claim order.
-- :queue, :limit
SELECT
    id, queue, payload, priority, run_at, attempts, max_attempts, worker_id, claimed_at, due_us,
    created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, claims
FROM __alkstore_job
WHERE queue = :queue AND lane = 0
ORDER BY priority DESC, run_at, id
LIMIT :limit
