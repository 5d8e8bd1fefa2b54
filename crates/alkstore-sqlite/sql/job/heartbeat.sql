-- Moves the deadline of a live claim.
-- :due_us, :id, :claims, :now_us
UPDATE __alkstore_job
SET due_us = :due_us
WHERE id = :id AND claims = :claims AND worker_id IS NOT NULL AND due_us > :now_us
