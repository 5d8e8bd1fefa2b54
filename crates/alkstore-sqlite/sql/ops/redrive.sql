-- Copies a dead job to the live ones under a new id; discard follows.
-- :new_id, :now, :now_us, :id, :queue
INSERT INTO __alkstore_job (
    id, queue, lane, priority, run_at, due_us, attempts, max_attempts, claims, created_at,
    visibility_timeout_s, backoff_base_s, dead_letter_retention_s, payload
)
SELECT
    :new_id, queue, CASE WHEN max_attempts > 0 THEN 0 ELSE 1 END, priority, :now, :now_us, 0,
    max_attempts, 0, :now, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, payload
FROM __alkstore_dead
WHERE id = :id AND queue = :queue
