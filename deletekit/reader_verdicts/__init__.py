"""What engines do with each kind of delete, and what of it bears on a snapshot."""
