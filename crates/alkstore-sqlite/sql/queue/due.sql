-- Timed jobs whose time has come, and whether they have attempts left.
-- :queue, :now_us, :limit
SELECT id, attempts < max_attempts AS has_attempts
FROM __alkstore_job
WHERE queue = :queue AND lane = 1 AND due_us <= :now_us
ORDER BY due_us
LIMIT :limit
