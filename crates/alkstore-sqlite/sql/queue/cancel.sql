-- Deletes a live job.
-- :id, :queue
DELETE FROM __alkstore_job
WHERE id = :id AND queue = :queue
