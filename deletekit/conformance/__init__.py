"""Which engines read the deletes of a table right: a suite of small tables, a runner, and what both say of your table."""
