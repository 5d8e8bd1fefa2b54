-- Registers or replaces a schedule.
-- :name, :spec, :queue, :payload, :priority, :max_attempts, :expires, :next_fire_us, :last_fire_us
INSERT OR REPLACE INTO __alkstore_schedule (
    name, spec, queue, payload, priority, max_attempts, expires, next_fire_us, last_fire_us
)
VALUES (
    :name, :spec, :queue, :payload, :priority, :max_attempts, :expires, :next_fire_us,
    :last_fire_us
)
