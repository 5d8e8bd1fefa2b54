COMMIT /* alkstore */
