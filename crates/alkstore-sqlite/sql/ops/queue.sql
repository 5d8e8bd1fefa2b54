-- A queue's figures, from at most so many rows of each lane.
-- :queue, :bound, :now_us, :now
SELECT
    count(*) FILTER (WHERE worker_id IS NULL) AS pending,
    count(*) FILTER (WHERE is_ready) AS ready,
    count(*) FILTER (WHERE worker_id IS NOT NULL) AS processing,
    (
        SELECT count(*)
        FROM (SELECT id FROM __alkstore_dead WHERE queue = :queue LIMIT :bound)
    ) AS dead,
    min(max(due_us, ifnull(claimed_at * 1000000, due_us))) FILTER (WHERE is_ready) AS ready_since_us
FROM (
    SELECT
        worker_id, claimed_at, due_us,
        lane <> 2 AND due_us <= :now_us AND attempts < max_attempts
        AND (expires_at IS NULL OR expires_at > :now) AS is_ready
    FROM (
        SELECT worker_id, claimed_at, lane, due_us, attempts, max_attempts, expires_at
        FROM (
            SELECT worker_id, claimed_at, lane, due_us, attempts, max_attempts, expires_at
            FROM __alkstore_job WHERE queue = :queue AND lane = 0 LIMIT :bound
        )
        UNION ALL
        SELECT worker_id, claimed_at, lane, due_us, attempts, max_attempts, expires_at
        FROM (
            SELECT worker_id, claimed_at, lane, due_us, attempts, max_attempts, expires_at
            FROM __alkstore_job WHERE queue = :queue AND lane = 1 LIMIT :bound
        )
        UNION ALL
        SELECT worker_id, claimed_at, lane, due_us, attempts, max_attempts, expires_at
        FROM (
            SELECT worker_id, claimed_at, lane, due_us, attempts, max_attempts, expires_at
            FROM __alkstore_job
            WHERE queue = :queue AND expires_at IS NOT NULL AND lane = 2 LIMIT :bound
        )
    )
)
