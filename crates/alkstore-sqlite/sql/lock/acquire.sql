-- Begins a tenure, over a lapsed one if there is one.
-- :name, :owner, :fencing_token, :expires_us
INSERT OR REPLACE INTO __alkstore_lock (name, owner, fencing_token, expires_us)
VALUES (:name, :owner, :fencing_token, :expires_us)
