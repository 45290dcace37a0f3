"""What several verbs share: modes, row changes, rows of Spark."""
