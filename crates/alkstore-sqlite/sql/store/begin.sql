BEGIN IMMEDIATE /* alkstore */
