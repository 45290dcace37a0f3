"""The rules that the suite tests: by section of the spec, the id of each, and what a reader does who breaks it."""

BY_SECTION = {
    "Delete Formats": {
        "equality-deletes-apply": "ignores equality deletes",
        "position-deletes-apply": "ignores position delete files",
        "vectors-apply": "ignores deletion vectors",
    },
    "Scan Planning": {
        "strictly-older": "applies equality deletes to data of the same sequence number too",
        "same-or-older": "applies position deletes and vectors to data of lower sequence numbers only",
        "older-data-only": "applies deletes whatever the sequence numbers are",
        "partition-scope": "applies the equality deletes of one partition to all",
        "global-scope": "applies an unpartitioned equality delete to data files of its own spec only",
        "spec-scope": "compares partition values without the spec id",
        "void-spec-scope": "does not take a spec with void fields alone for unpartitioned",
        "several-delete-files-union": "applies only the newest delete file of each kind",
        "vector-wins": "applies position delete files to a data file that has a vector",
        "equality-beside-vector": "ignores equality deletes for a data file that has a vector",
        "missing-metrics": "skips an equality delete without bounds",
        "no-prune-by-null-count": "takes a missing count of NULLs for none",
        "nan-outside-bounds": "skips an equality delete whose bounds and the data file's do not meet, NaN or not",
        "bounds-truncated": "takes the lower bound of an equality delete for its key",
    },
    "Sequence Number Inheritance": {
        "inherited-sequence": "takes 0 for a sequence number that is inherited",
        "explicit-sequence": "takes the manifest's sequence number for the one that an entry has",
    },
    "Equality Delete Files": {
        "null-equals-null": "never matches NULL",
        "null-is-no-other-value": "loses a row with NULL in a key column where the delete has a value",
        "nan-equals-nan": "never matches NaN",
        "negative-zero": "takes -0.0 for 0.0",
        "exact-strings": "compares texts without case and in one Unicode form",
        "exact-numbers": "compares whole numbers and decimals as doubles",
        "exact-times": "compares timestamps by the millisecond",
        "all-columns-match": "deletes a row when one of the key columns matches",
        "own-equality-ids": "takes the key columns of the first equality delete for all",
        "key-by-id": "takes the columns of an equality delete file by their place",
        "extra-columns-ignored": "compares all columns of an equality delete file",
        "nested-key": "looks for a nested key at the top of the row, and reads NULL",
        "nested-key-not-projected": "reads a nested key that was not asked for as NULL, in rows and in deletes",
        "null-struct-leaf": "does not take the leaf of a NULL struct for NULL",
        "promoted-key": "never matches keys that were written with another type",
        "renamed-key": "finds key columns by name",
        "dropped-key": "ignores deletes by a column that was dropped",
        "added-key": "never matches a column that a data file does not have",
        "default-key": "takes NULL for the initial default of a missing key column",
        "key-not-projected": "ignores equality deletes by a column that was not asked for",
        "avro-deletes": "ignores delete files in Avro",
        "orc-deletes": "ignores delete files in ORC",
    },
    "Column Projection": {
        "identity-partition-value": "takes NULL for a key column that only the partition has",
        "name-mapping": "finds the columns of a file without ids by their place",
    },
    "Position Delete Files": {
        "path-exact": "applies positions without looking at the path",
        "positions-from-zero": "counts positions from one",
        "position-before-filter": "counts positions after equality deletes have removed rows",
        "position-behind-end": "takes a position behind the end of a file for its last row",
        "duplicate-positions": "takes a position that comes twice for not deleted",
        "unsorted-positions": "loses positions that come after a greater one",
        "row-groups-positions": "counts positions from the start of each row group",
    },
    "Deletion Vectors": {
        "several-blobs-one-puffin": "reads the first blob for each vector of a Puffin file",
        "vector-at-its-offset": "takes the first of several vectors that one read brought for the others too",
        "sparse-keys-vector": "takes the number of a bitmap in a vector for its key",
        "high-positions": "drops the upper 32 bits of a position",
        "run-length-minus-one": "loses the last position of each run in a bitmap",
    },
    "Version 3": {
        "upgrade-keeps-deletes": "ignores position delete files in a table of version 3",
    },
    "Entries in Manifests": {
        "removed-deletes-do-not-apply": "applies deletes that were removed",
        "removed-files-not-read": "reads data files that were removed",
        "existing-entries-count": "reads only entries that were added, and not those that were carried over",
    },
    "Snapshots": {
        "ref-own-deletes": "applies deletes of all snapshots to each",
        "snapshot-schema": "reads a tag with the current schema",
    },
    "Snapshot Reference": {
        "current-snapshot": "reads the newest snapshot for main",
    },
    "Row Lineage": {
        "row-lineage": "counts row ids over live rows only",
    },
}
RULES = {rule: says for rules in BY_SECTION.values() for rule, says in rules.items()}
SECTIONS = {rule: section for section, rules in BY_SECTION.items() for rule in rules}
"""The section of the Iceberg spec that a rule is in; what a vector is made of is in the Puffin spec."""
