-- The first schedules whose next boundary has come, beyond the unreadable ones of this tick.
-- :now_us, :limit
SELECT name, spec, queue, payload, priority, max_attempts, expires, next_fire_us, last_fire_us
FROM __alkstore_schedule
WHERE next_fire_us <= :now_us
ORDER BY next_fire_us
LIMIT :limit
