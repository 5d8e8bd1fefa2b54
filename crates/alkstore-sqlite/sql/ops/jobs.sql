-- Live jobs of a queue by id: all, or only the claimed or only the unclaimed ones.
-- :queue, :after, :claimed, :limit
SELECT
    id, queue, payload, priority, run_at, attempts, max_attempts, worker_id, claimed_at, due_us,
    created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, claims
FROM __alkstore_job
WHERE id IN (
    SELECT id FROM __alkstore_job WHERE queue = :queue AND lane = 0 AND id > :after
    AND (:claimed IS NULL OR (worker_id IS NOT NULL) = :claimed)
    UNION ALL
    SELECT id FROM __alkstore_job WHERE queue = :queue AND lane = 1 AND id > :after
    AND (:claimed IS NULL OR (worker_id IS NOT NULL) = :claimed)
    UNION ALL
    SELECT id FROM __alkstore_job
    WHERE queue = :queue AND expires_at IS NOT NULL AND lane = 2 AND id > :after
    AND (:claimed IS NULL OR (worker_id IS NOT NULL) = :claimed)
    ORDER BY id
    LIMIT :limit
)
ORDER BY id
