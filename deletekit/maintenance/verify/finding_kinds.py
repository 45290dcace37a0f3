"""List every kind of finding, with the rule that it stands for. A published kind keeps its name and meaning."""

from collections.abc import Mapping

KINDS: Mapping[str, str] = {
    # any file
    "missing-file": "every file that metadata, a manifest list or a live entry names is there",
    "unreadable-file": "it is whole and of its format",
    "not-checked": "a legal file that deletekit cannot read, such as an encrypted one",
    "file-size": "a live file has file_size_in_bytes bytes",
    # table metadata
    "metadata-field": "fields that the format version requires are there",
    "duplicate-id": "ids of schemas, fields, specs, sort orders and snapshots are given once",
    "reference": "an id of a schema, spec, sort order, field or snapshot resolves",
    "current-snapshot": "current-snapshot-id is the head of main",
    "ref": "a ref is a branch or a tag, and main is a branch",
    "schema-format-version": "column types and defaults exist in the table's format version",
    "partition-spec": "a partition field has a source column, and its id one meaning",
    "last-column-id": "no field id is above it",
    "last-partition-id": "no partition field id is above it",
    "last-sequence-number": "no snapshot's sequence number is above it",
    "snapshot-sequence": "a snapshot's sequence number is its own and above its parent's",
    "snapshot-parent": "following parents ends",
    "timestamp-order": "snapshots, logs and last-updated-ms follow each other, with a minute of clock skew allowed",
    "snapshot-log": "the snapshot log names known snapshots and ends with the current one",
    "next-row-id": "a snapshot takes its row ids below next-row-id",
    "snapshot-row-ids": "snapshots of v3 take row ids that no other takes",
    "name-mapping": "the default name mapping can be read",
    # manifest lists
    "manifest-list-metadata": "a manifest list's Avro metadata is its snapshot's",
    "manifest-length": "a manifest has manifest_length bytes",
    "manifest-spec": "a manifest's partition spec is the table's, field by field",
    "manifest-content": "a manifest holds data files or delete files, as its row and its own metadata say",
    "manifest-version": "a manifest's format version is not above the table's",
    "manifest-sequence": "a manifest's sequence number is that of the snapshot that added it",
    "manifest-min-sequence": "min_sequence_number is the lowest of the live entries",
    "manifest-count": "files and rows added, existing and deleted are counted right",
    "manifest-partitions": "partition summaries bound the live partitions",
    "manifest-row-id": "data manifests of v3 snapshots have a first_row_id, delete manifests none",
    # manifest entries
    "entry-sequence": "sequence numbers are explicit, and not above the manifest's",
    "entry-snapshot": "added and deleted entries name the snapshot that wrote their manifest",
    "delete-kind": "the format version takes this kind of delete",
    "delete-file-field": "a delete has the fields of its kind and no others",
    "equality-id": "equality ids are columns of some schema, outside lists and maps",
    "metrics": "nulls are not more than values, and lower bounds not above upper ones",
    "split-offsets": "split offsets ascend, lie in the file, and are where its row groups begin",
    # one snapshot
    "duplicate-file": "no file is live twice",
    "duplicate-deletion-vector": "a data file has at most one live deletion vector",
    "dangling-deletion-vector": "(legal) the data file of a deletion vector is live",
    "dangling-position-delete": "(legal) a position delete file applies to some live data file",
    "dangling-equality-delete": "(legal) an equality delete file applies to some live data file",
    "lost-files": "what the parent lists is listed or deleted, and as many files as the summary says",
    "delete-partition": "a delete of one data file has that file's spec and partition",
    "delete-sequence": "a deletion vector is not older than its data file",
    "row-id-overlap": "row ids of live data files are disjoint and below next-row-id",
    "summary-total": "the summary's totals are those of the live files",
    "summary-count": "the summary's counters are those of the entries that the snapshot added and deleted",
    "key-index": "(legal) the key index that a sink's snapshot names is whole, and this table's",
    "sequence-deletes": "(legal) the deletes that a sink's snapshot remembers are there",
    "file-log": "(legal) the logs of applied files that a sink's snapshot names are whole, and this sink's and table's",
    # delete files and footers
    "record-count": "record_count is the number of rows, or of positions of a deletion vector",
    "puffin-footer": "a Puffin file begins and ends as one, and has a footer",
    "puffin-blob": "the footer describes the blob as the manifest does",
    "deletion-vector": "a deletion vector lies in its file and has the right length, magic, checksum and bitmaps",
    "position-out-of-range": "(legal) positions lie within the data file's rows",
    "field-ids": "columns have field ids, or the table a name mapping; position deletes have the reserved ids",
    "delete-type": "a delete file's own metadata names its kind",
    "delete-scope": "a delete file of one data file names that file only",
    "delete-order": "position deletes are sorted by file_path and pos",
    "equality-column": "every equality id is a column of the delete file",
    # metrics and rows
    "dropped-equality-delete": "no rewrite removed an equality delete while older live rows have one of its keys",
    "bounds": "bounds bound the values",
    "value-count": "value_counts are the rows",
    "null-count": "null_value_counts are the nulls",
    "nan-count": "nan_value_counts are the NaNs",
    "column-type": "a column can be read as the table's type",
    "required-null": "a required column holds no null",
    "partition-value": "every row belongs to its file's partition",
    "row-id": "stored row ids and sequence numbers have been given out",
}

REPAIRS: Mapping[str, str] = {
    "duplicate-deletion-vector": "merge them into one",
    "dangling-deletion-vector": "remove it",
    "dangling-position-delete": "remove it",
    "dangling-equality-delete": "remove it",
    "summary-total": "commit a snapshot with the right totals",
    "puffin-footer": "rewrite the deletion vector into a new Puffin file",
    "dropped-equality-delete": "hide the rows that came back, by position; only when it is asked for by its name",
}
"""What `repair` does about a kind. All others are for a person to decide."""

REWRITES = ("bounds", "value-count", "null-count", "nan-count")
"""Kinds about metrics of data files, which only `verify(level="data")` finds. `repair` leaves them, because a new file
has new metrics: `compact(rewrite_all=True)` mends them.
"""
