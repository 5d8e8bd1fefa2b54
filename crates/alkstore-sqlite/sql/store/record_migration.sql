-- Records an applied migration.
-- :version, :applied_at
INSERT INTO __alkstore_migration (version, applied_at)
VALUES (:version, :applied_at)
