-- Whether this claim of a job is live.
-- :id, :claims, :now_us
SELECT EXISTS (
    SELECT 1
    FROM __alkstore_job
    WHERE id = :id AND claims = :claims AND worker_id IS NOT NULL AND due_us > :now_us
)
