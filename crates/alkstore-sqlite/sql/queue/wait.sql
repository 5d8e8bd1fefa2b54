-- Whether a job is ready, and the next time at which one may become so.
-- :queue
SELECT
    EXISTS (SELECT 1 FROM __alkstore_job WHERE queue = :queue AND lane = 0) AS ready,
    (SELECT min(due_us) FROM __alkstore_job WHERE queue = :queue AND lane = 1) AS due_us
