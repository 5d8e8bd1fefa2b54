-- Deletes a dead job.
-- :id, :queue
DELETE FROM __alkstore_dead
WHERE id = :id AND queue = :queue
