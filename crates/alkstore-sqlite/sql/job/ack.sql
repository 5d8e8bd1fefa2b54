-- Deletes a job while this claim of it is live.
-- :id, :claims, :now_us
DELETE FROM __alkstore_job
WHERE id = :id AND claims = :claims AND worker_id IS NOT NULL AND due_us > :now_us
