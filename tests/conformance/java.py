"""Make the tables that Spark and Iceberg Java write: `python -m tests.conformance.java [NAME ...]`, with a JDK.

They come from the recipes of the interop corpus, at the sentinel root. Names and ids in them are random, so a table
that is made again is another one: the files are golden.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from conformance.engines import rows_of
from conformance.run import load_suite, unpack
from tests.conformance.build import SENTINEL, Json, absolute, location, reachable, write_case, write_suite
from tests.conformance.oracle import Oracle
from tests.conformance.recipes import Recipe
from tests.interop.corpus import MODULES, TUNING, session
from tests.interop.corpus_case import Case
from tests.interop.corpus_case import Recipe as CorpusRecipe
from tests.interop.corpus_java import load_file_writers
from tests.interop.corpus_scene import NAMESPACE, Scene

CATALOG = "dk"
HOME = Path(SENTINEL.removeprefix("file://"))
LINEAGE = ("id", "_row_id", "_last_updated_sequence_number")

# Recipe of the corpus, the rule, and the columns that an engine is asked for; none for all.
SPARK: list[tuple[str, str, tuple[str, ...]]] = [
    ("cow_delete_v2", "removed-files-not-read", ()),
    ("v1_table", "removed-files-not-read", ()),
    ("position_delete_file_scoped", "positions-from-zero", ()),
    ("position_delete_partition_scoped", "path-exact", ()),
    ("vectors_in_one_puffin", "several-blobs-one-puffin", ()),
    ("merge_on_read_update_and_merge_v3", "positions-from-zero", ()),
    ("upgrade_folds_position_deletes", "positions-from-zero", ()),
    ("vector_for_one_file_of_a_shared_delete", "upgrade-keeps-deletes", ()),
    ("partitions_of_odd_texts_v2", "positions-from-zero", ()),
    ("lineage_lost_by_equality_upsert", "strictly-older", LINEAGE),
]
JAVA: list[tuple[str, str, tuple[str, ...]]] = [
    ("v1_upgraded_to_v2_and_v3", "upgrade-keeps-deletes", ()),
    ("position_delete_with_row", "path-exact", ()),
    ("positions_that_are_not_v3", "position-behind-end", ()),
    ("vector_overrides_position_deletes", "vector-wins", ()),
    ("equality_int_key_v2", "key-not-projected", ("name",)),
    ("equality_string_key_v3", "exact-strings", ()),
    ("equality_null_key_alone", "missing-metrics", ()),
    ("equality_negative_zero", "negative-zero", ()),
    ("equality_nan_key", "nan-equals-nan", ()),
    ("equality_nan_outside_bounds", "nan-outside-bounds", ()),
    ("equality_long_boolean_binary_keys", "all-columns-match", ()),
    ("equality_timestamp_ns_key", "exact-times", ()),
    ("equality_nested_key", "nested-key", ()),
    ("equality_nested_null_key", "null-struct-leaf", ()),
    ("equality_nested_key_not_projected", "nested-key-not-projected", ("id",)),
    ("equality_promoted_before_delete_v2", "promoted-key", ()),
    ("equality_renamed_key", "renamed-key", ()),
    ("equality_dropped_key_v2", "dropped-key", ()),
    ("equality_dropped_and_readded_key_v3", "renamed-key", ()),
    ("equality_added_key_v2", "added-key", ()),
    ("equality_key_with_initial_default", "default-key", ()),
    ("equality_extra_columns", "extra-columns-ignored", ()),
    ("equality_column_order", "key-by-id", ()),
    ("upsert_twice_in_one_commit_v2", "same-or-older", ()),
    ("equality_and_position_deletes_v3", "equality-beside-vector", ()),
    ("equality_in_one_partition_v2", "partition-scope", ()),
    ("equality_global_in_partitioned_table_v3", "global-scope", ()),
    ("equality_of_a_void_spec_v2", "void-spec-scope", ()),
    ("partition_field_replaced_v2", "partition-scope", ()),
    ("metrics_switched_off_v2", "missing-metrics", ()),
    ("metrics_cut_short", "bounds-truncated", ()),
    ("avro_everything_v2", "avro-deletes", ()),
    ("orc_everything_v2", "orc-deletes", ()),
    ("branches_with_their_own_deletes_v3", "ref-own-deletes", ()),
    ("refs_and_schemas_v2", "snapshot-schema", ()),
    ("older_snapshot_made_current", "current-snapshot", ()),
    ("rewritten_with_an_old_sequence_number_v2", "explicit-sequence", ()),
]


class SentinelScene(Scene):
    """A scene whose table lies at the sentinel root, which Hadoop's file system spells `file:/tmp/...`."""

    def create(self, columns: str, *args: Any, **options: Any) -> None:
        super().create(columns, *args, **{"location": f"{SENTINEL}/{self._recipe.name}/table", **options})


def picked() -> list[tuple[CorpusRecipe, Recipe]]:
    """Each recipe of the corpus that is in the suite, and as a recipe of the suite."""
    known = {recipe.name: recipe for module in MODULES for recipe in module.RECIPES}
    found = []
    for writer, listed in (("spark", SPARK), ("iceberg-java", JAVA)):
        for name, rule, columns in listed:
            of = known[name]
            suites = Recipe(name, rule, of.description, of.format_version, of.features, writer, columns, print)
            found.append((of, suites))
    return found


def keep(suite: Path, case: Case, recipe: Recipe) -> Json:
    """Put a table that was just made into an unpacked suite, if the oracle finds what Spark found."""
    home = HOME / recipe.name / "table"
    files = {p.relative_to(home).as_posix(): p.read_bytes() for p in home.rglob("*") if p.is_file()}
    metadata = f"metadata/{case.metadata_location.rpartition('/')[2]}"
    kept, root = reachable(files, metadata), location(files, metadata)
    oracle = Oracle(absolute(kept, root), f"{root}/{metadata}")
    for read in case.reads:
        if read.kind in ("current", "ref"):
            rows, found = case.rows(read), oracle.read(read.args.get("ref", "main"))
            assert rows_of(rows) == found["rows"], f"{recipe.name} {read.kind} {read.args}: {found['rows']}"
    return write_case(suite, recipe, kept, metadata, f"python -m tests.conformance.java {recipe.name}")


def main(*names: str) -> None:
    """Make the tables whose names begin with one of these."""
    with tempfile.TemporaryDirectory(prefix="deletekit-suite-") as folder:
        out = Path(folder)
        suite = Path(shutil.copytree(unpack(), out / "suite"))
        cases = {case.name: dict(case.about) for case in load_suite(suite)}
        spark = session(out, CATALOG)
        for key, value in TUNING.items():
            spark.conf.set(key, value)
        spark.sql(f"CREATE NAMESPACE {CATALOG}.{NAMESPACE}")
        writers = load_file_writers(spark, out / "classes")
        for of, recipe in picked():
            if recipe.name.startswith(names or ("",)):
                shutil.rmtree(HOME / recipe.name, ignore_errors=True)
                scene = SentinelScene(spark, CATALOG, writers, of, out)
                try:
                    of.make(scene)
                    cases[recipe.name] = keep(suite, scene.finish(), recipe)
                    print("made", recipe.name, flush=True)
                except Exception as error:  # noqa: BLE001  # the others are made, and the person looks at this one
                    print(f"FAILED {recipe.name}: {type(error).__name__}: {error}", flush=True)
                shutil.rmtree(HOME / recipe.name, ignore_errors=True)
        spark.stop()
        write_suite(suite, cases.values())


if __name__ == "__main__":
    main(*sys.argv[1:])
