"""What a table is: metadata, snapshots, the catalog and storage. State is read-only; changes are values."""
