-- Live jobs past their expiry, whatever their state.
-- :queue, :now, :limit
SELECT id
FROM __alkstore_job
WHERE queue = :queue AND expires_at <= :now
ORDER BY expires_at
LIMIT :limit
