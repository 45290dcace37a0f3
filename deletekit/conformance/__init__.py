"""Which engines read the deletes of a table right: a suite of small tables, a runner, and what they say of a table."""
