-- All schedules.
SELECT name, spec, queue, payload, priority, max_attempts, expires, next_fire_us, last_fire_us
FROM __alkstore_schedule
ORDER BY name
