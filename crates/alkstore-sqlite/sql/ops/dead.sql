-- Dead jobs of a queue by id.
-- :queue, :after, :limit
SELECT
    id, queue, payload, priority, run_at, attempts, max_attempts, worker_id, claimed_at,
    claim_expires_at, created_at, expires_at, visibility_timeout_s, backoff_base_s,
    dead_letter_retention_s, last_error, died_at
FROM __alkstore_dead
WHERE queue = :queue AND id > :after
ORDER BY id
LIMIT :limit
