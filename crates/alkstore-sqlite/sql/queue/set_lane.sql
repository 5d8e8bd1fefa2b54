-- Moves a job to another lane.
-- :lane, :id
UPDATE __alkstore_job
SET lane = :lane
WHERE id = :id
