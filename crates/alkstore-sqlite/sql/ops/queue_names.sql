-- The queues that hold a job, live or dead, one seek each.
WITH RECURSIVE
    ready (queue) AS (
        SELECT min(queue) FROM __alkstore_job WHERE lane = 0
        UNION ALL
        SELECT (
            SELECT min(job.queue) FROM __alkstore_job AS job
            WHERE job.lane = 0 AND job.queue > ready.queue
        )
        FROM ready
        WHERE ready.queue IS NOT NULL
    ),
    timed (queue) AS (
        SELECT min(queue) FROM __alkstore_job WHERE lane = 1
        UNION ALL
        SELECT (
            SELECT min(job.queue) FROM __alkstore_job AS job
            WHERE job.lane = 1 AND job.queue > timed.queue
        )
        FROM timed
        WHERE timed.queue IS NOT NULL
    ),
    expiring (queue) AS (
        SELECT min(queue) FROM __alkstore_job WHERE expires_at IS NOT NULL
        UNION ALL
        SELECT (
            SELECT min(job.queue) FROM __alkstore_job AS job
            WHERE job.expires_at IS NOT NULL AND job.queue > expiring.queue
        )
        FROM expiring
        WHERE expiring.queue IS NOT NULL
    ),
    dead (queue) AS (
        SELECT min(queue) FROM __alkstore_dead
        UNION ALL
        SELECT (SELECT min(job.queue) FROM __alkstore_dead AS job WHERE job.queue > dead.queue)
        FROM dead
        WHERE dead.queue IS NOT NULL
    )
SELECT queue FROM ready WHERE queue IS NOT NULL
UNION
SELECT queue FROM timed WHERE queue IS NOT NULL
UNION
SELECT queue FROM expiring WHERE queue IS NOT NULL
UNION
SELECT queue FROM dead WHERE queue IS NOT NULL
ORDER BY queue
