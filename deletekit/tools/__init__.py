"""What looks at a table and arranges it, beside the verbs that change rows."""
