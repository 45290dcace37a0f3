"""Delta Lake to Iceberg and back, deletes included: no data file is rewritten."""
