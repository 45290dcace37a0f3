"""Which engines read the deletes of a table right: what is known of them, and the least change that helps."""
