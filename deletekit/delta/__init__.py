"""Convert tables from Delta Lake to Iceberg and back, including their deletes, without rewriting data files."""
