-- Deletes a validly claimed job of this queue, whichever claim it is.
-- :id, :queue, :now_us
DELETE FROM __alkstore_job
WHERE id = :id AND queue = :queue AND worker_id IS NOT NULL AND due_us > :now_us
