-- A schedule's spec and boundaries.
-- :name
SELECT spec, next_fire_us, last_fire_us
FROM __alkstore_schedule
WHERE name = :name
