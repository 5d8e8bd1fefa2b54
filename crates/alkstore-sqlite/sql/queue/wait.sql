-- Whether a claim would find a ready job, and the next time at which one may become ready. Behind
-- many expired ones it may say that there is one; a claim moves those out of the way.
-- :queue, :limit, :now
SELECT
    EXISTS (
        SELECT 1
        FROM (
            SELECT expires_at
            FROM __alkstore_job
            WHERE queue = :queue AND lane = 0
            ORDER BY priority DESC, run_at, id
            LIMIT :limit
        )
        WHERE expires_at IS NULL OR expires_at > :now
    )
    OR :limit = (
        SELECT count(*)
        FROM (SELECT id FROM __alkstore_job WHERE queue = :queue AND lane = 0 LIMIT :limit)
    ) AS ready,
    (SELECT min(due_us) FROM __alkstore_job WHERE queue = :queue AND lane = 1) AS due_us
