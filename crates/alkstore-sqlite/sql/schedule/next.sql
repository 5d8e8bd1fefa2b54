-- The next boundary of all schedules.
SELECT min(next_fire_us)
FROM __alkstore_schedule
