-- Moves the deadline of a live claim.
-- :id, :claims, :now_us, :due_us
UPDATE __alkstore_job
SET due_us = :due_us
WHERE id = :id AND claims = :claims AND worker_id IS NOT NULL AND due_us > :now_us
