"""The sample tables, what makes them, and the data pipeline: of a checkout, not of the package."""
