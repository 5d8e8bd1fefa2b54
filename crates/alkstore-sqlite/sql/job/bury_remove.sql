-- Deletes a job that was copied to the dead.
-- :id
DELETE FROM __alkstore_job
WHERE id = :id
