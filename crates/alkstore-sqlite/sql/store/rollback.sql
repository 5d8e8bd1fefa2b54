ROLLBACK /* alkstore */
