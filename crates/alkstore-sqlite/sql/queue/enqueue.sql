-- Adds a job.
-- :id, :queue, :lane, :priority, :run_at, :due_us, :max_attempts, :created_at, :expires_at,
-- :visibility_timeout_s, :backoff_base_s, :dead_letter_retention_s, :payload
INSERT INTO __alkstore_job (
    id, queue, lane, priority, run_at, due_us, attempts, max_attempts, claims, created_at,
    expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, payload
)
VALUES (
    :id, :queue, :lane, :priority, :run_at, :due_us, 0, :max_attempts, 0, :created_at,
    :expires_at, :visibility_timeout_s, :backoff_base_s, :dead_letter_retention_s, :payload
)
