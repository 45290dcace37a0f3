"""The conformance suite: small tables with the rows that a right reader finds in them, and what wrong readers find."""
