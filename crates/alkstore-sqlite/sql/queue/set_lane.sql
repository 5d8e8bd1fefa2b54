-- Moves a job to another lane.
-- :id, :lane
UPDATE __alkstore_job
SET lane = :lane
WHERE id = :id
