"""Which engines read the deletes of a table right: a suite of tables, a runner, and what they say of your table."""
