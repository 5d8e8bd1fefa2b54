-- Moves a schedule to its next boundary.
-- :next_fire_us, :last_fire_us, :name
UPDATE __alkstore_schedule
SET next_fire_us = :next_fire_us, last_fire_us = :last_fire_us
WHERE name = :name
