"""A laboratory on drafts of Iceberg's format version 4: what the course shows of them, and nothing else uses.

Nothing here is a standard, and no table is written with it. `DRAFT` names the sources as they were read.
"""

DRAFT = "apache/iceberg@7f879b11366e17a676a03f15247a821751415529, 2026-08-21"
"""The drafts: `format/mumbling-spec.md`, unchanged since b299ebdab02a (#16518); the classes around `TrackedFile`."""
