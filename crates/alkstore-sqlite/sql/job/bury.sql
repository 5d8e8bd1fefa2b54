-- Copies a live job to the dead; bury_remove follows. A stray dead row of its id gives way.
-- :last_error, :died_at, :id
INSERT OR REPLACE INTO __alkstore_dead (
    id, queue, priority, run_at, attempts, max_attempts, worker_id, claimed_at, claim_expires_at,
    created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s,
    last_error, died_at, purge_at, payload
)
SELECT
    id, queue, priority, run_at, attempts, max_attempts, worker_id, claimed_at,
    CASE
        WHEN worker_id IS NULL THEN NULL
        WHEN due_us < 0 THEN (due_us + 1) / 1000000 - 1
        ELSE due_us / 1000000
    END,
    created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s,
    :last_error, :died_at,
    CASE
        WHEN dead_letter_retention_s > 9223372036854775807 - :died_at THEN NULL
        ELSE :died_at + dead_letter_retention_s
    END,
    payload
FROM __alkstore_job
WHERE id = :id
