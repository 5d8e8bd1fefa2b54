ROLLBACK TO __alkstore_tx
