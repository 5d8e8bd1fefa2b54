-- Removes a schedule.
-- :name
DELETE FROM __alkstore_schedule
WHERE name = :name
