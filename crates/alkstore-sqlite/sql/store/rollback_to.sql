ROLLBACK TO __alkstore_step
