-- Moves a schedule to its next boundary.
-- :name, :next_fire_us, :last_fire_us
UPDATE __alkstore_schedule
SET next_fire_us = :next_fire_us, last_fire_us = :last_fire_us
WHERE name = :name
