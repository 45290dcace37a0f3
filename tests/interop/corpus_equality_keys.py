"""Cases of equality deletes by the type and value of their key. Iceberg Java writes them: Spark cannot."""

import datetime as dt
import uuid

import pyarrow as pa

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import Scene

RECIPES = Recipes()


@RECIPES.add("equality-delete", "key-int", "projection")
def equality_int_key(scene: Scene) -> None:
    """One int key, deleted, inserted again later. Catches deletes that hit rows added after them, and projections
    without the key (the delete is lost, or the key leaks into the answer).
    """
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    scene.delete_equal(["id"], {"id": 2})
    scene.insert("(2, 'again'), (4, 'd')")
    scene.current(ids=[1, 2, 3, 4])
    scene.columns("name")
    scene.where("name = 'b'", ids=[])
    scene.where("id >= 2", ids=[2, 3, 4])
    scene.history([1, 2, 3], [1, 3], [1, 2, 3, 4])
    scene.deleted(dead=[2])
    if scene.version == 3:
        scene.lineage()


@RECIPES.add("equality-delete", "key-string", "null-key")
def equality_string_key(scene: Scene) -> None:
    """String keys: NULL, empty, 'NULL', case, composed against decomposed accents, an emoji. Catches SQL's NULL <>
    NULL, NULL taken for a text, and texts compared by anything but their characters.
    """
    scene.create("id int, k string")
    scene.insert("(1, NULL), (2, ''), (3, 'NULL'), (4, 'é'), (5, 'e\u0301'), (6, 'A'), (7, 'a'), (8, '\U0001f600')")
    scene.delete_equal(["k"], {"k": None}, {"k": "é"}, {"k": "a"}, {"k": "\U0001f600"})
    scene.current(ids=[2, 3, 5, 6])
    scene.columns("id")
    scene.where("k IS NULL", ids=[])
    scene.where("k IS NOT NULL", ids=[2, 3, 5, 6])


@RECIPES.add("equality-delete", "key-string", "null-key", "pruning", versions=(2,))
def equality_null_key_alone(scene: Scene) -> None:
    """A delete of NULL alone, which has no bounds. Catches pruning it for its missing bounds, and values deleted by it;
    the second delete names values only, and must leave the NULLs of later rows.
    """
    scene.create("id int, k string")
    scene.insert("(1, NULL), (2, 'a'), (3, 'b')")
    scene.delete_equal(["k"], {"k": None})
    scene.insert("(4, NULL), (5, 'a')")
    scene.delete_equal(["k"], {"k": "a"})
    scene.current(ids=[3, 4])
    scene.history([1, 2, 3], [2, 3], [2, 3, 4, 5], [3, 4])
    scene.columns("id")


@RECIPES.add("equality-delete", "several-id-sets", "multi-column-key")
def equality_several_id_sets(scene: Scene) -> None:
    """Deletes by id, by (a, b) and by (b, a). Catches mixing the key sets of different delete files, and caring about
    the order of the ids.
    """
    scene.create("id int, a int, b int")
    scene.insert("(1, 1, 2), (2, 2, 1), (3, 3, 3), (4, 1, 1), (5, 4, 5)")
    scene.delete_equal(["id"], {"id": 3})
    scene.delete_equal(["a", "b"], {"a": 1, "b": 2})
    scene.delete_equal(["b", "a"], {"b": 5, "a": 4}, {"b": 2, "a": 9})
    scene.delete_equal(["a"], {"a": 7})
    scene.current(ids=[2, 4])
    scene.columns("b")


@RECIPES.add("equality-delete", "key-double", "key-float", "negative-zero", versions=(2,))
def equality_negative_zero(scene: Scene) -> None:
    """-0.0 deleted as a double, 0.0 as a float. Catches -0.0 = 0.0: the rows with the other zero live."""
    scene.create("id int, d double, f float")
    rows = [(1, -0.0, 1.0), (2, 0.0, 1.0), (3, 1.0, -0.0), (4, 1.0, 0.0), (5, None, None)]
    scene.commit(data=[scene.data_file([{"id": i, "d": d, "f": f} for i, d, f in rows])])
    scene.delete_equal(["d"], {"d": -0.0})
    scene.delete_equal(["f"], {"f": 0.0})
    scene.current(ids=[2, 3, 5])
    scene.columns("id")


@RECIPES.add("equality-delete", "key-double", "key-float", "nan", versions=(3,))
def equality_nan_key(scene: Scene) -> None:
    """NaN deleted as a double in one file, as a float in another, with infinities near. Catches NaN <> NaN."""
    scene.create("id int, d double, f float")
    nan, inf = "NaN", "Infinity"
    rows = [(1, nan, 1), (2, inf, f"-{inf}"), (3, 1, nan), (4, f"-{inf}", inf), (5, None, None)]
    scene.commit(data=[scene.data_file([{"id": i, "d": d, "f": f} for i, d, f in rows])])
    scene.delete_equal(["d"], {"d": "NaN"})
    scene.delete_equal(["f"], {"f": "NaN"}, {"f": "-Infinity"})
    scene.current(ids=[4, 5])
    scene.columns("id")


@RECIPES.add("equality-delete", "key-double", "nan", "pruning", "spark-wrong", versions=(3,))
def equality_nan_outside_bounds(scene: Scene) -> None:
    """A delete of NaN and 100.0 on a file with NaN and 1.0. Catches pruning by bounds, which never cover NaN: the
    ranges are disjoint, and the NaN row is dead all the same.
    """
    scene.create("id int, d double")
    scene.commit(data=[scene.data_file([{"id": 1, "d": "NaN"}, {"id": 2, "d": "1.0"}])])
    scene.delete_equal(["d"], {"d": "NaN"}, {"d": "100.0"})
    live = pa.table({"id": pa.array([2], pa.int32()), "d": pa.array([1.0], pa.float64())})
    scene.current(ids=[2], rows=live, wrong="Iceberg prunes the delete file: its bounds leave NaN out")


@RECIPES.add("equality-delete", "key-long", "key-boolean", "key-binary", versions=(2,))
def equality_long_boolean_binary_keys(scene: Scene) -> None:
    """Keys of long beyond 2^53, boolean and binary. Catches longs compared as doubles, signed bytes,
    and false = NULL.
    """
    scene.create("id int, l bigint, b boolean, y binary")
    big = 2**53
    scene.insert(
        f"(1, {big}L, true, X''), (2, {big + 1}L, true, X'00'), (3, {2**63 - 1}L, false, X'FF'), "
        f"(4, 0L, NULL, X'FF00'), (5, -1L, false, X'00FF'), (6, 6L, true, NULL)"
    )
    scene.delete_equal(["l"], {"l": big + 1}, {"l": 2**63 - 1})
    scene.delete_equal(["b", "l"], {"b": False, "l": -1}, {"b": False, "l": 0})
    scene.delete_equal(["y"], {"y": ""}, {"y": "FF"})
    scene.current(ids=[4, 6])
    scene.columns("id")
    scene.where("l > 0", ids=[6])


@RECIPES.add("equality-delete", "key-decimal", "wide-decimal", versions=(3,))
def equality_decimal_keys(scene: Scene) -> None:
    """Decimal keys that Parquet keeps as int32, int64 and fixed bytes, negative too. Catches decimals compared as
    floats or by their unscaled bytes without the sign.
    """
    scene.create("id int, s decimal(9,2), m decimal(18,3), w decimal(38,10)")
    wide = "1234567890123456789012345678.0123456789"
    scene.insert(
        f"(1, 1.10BD, 1.100BD, {wide}BD), (2, -1.10BD, -1.1BD, -{wide}BD), (3, 0BD, 0.001BD, 0.0000000001BD), "
        f"(4, NULL, NULL, NULL), (5, 9999999.99BD, 999999999999999.999BD, {wide[:-1]}8BD)"
    )
    scene.delete_equal(["s"], {"s": "-1.10"})
    scene.delete_equal(["m"], {"m": "0.001"})
    scene.delete_equal(["w"], {"w": wide}, {"w": "-0.0000000001"})
    scene.current(ids=[4, 5])
    scene.columns("id")


@RECIPES.add("equality-delete", "key-date", "key-timestamp", "key-timestamptz", versions=(2,))
def equality_time_keys(scene: Scene) -> None:
    """Keys of date, timestamp and timestamptz, before 1970 too, one microsecond apart. Catches milliseconds, a
    session's time zone let in, and negative days rounded.
    """
    scene.create("id int, d date, t timestamp_ntz, z timestamp")
    scene.insert(
        "(1, DATE'1969-12-31', TIMESTAMP_NTZ'1969-12-31 23:59:59.999999', TIMESTAMP'1969-12-31 23:59:59.999999+00:00'),"
        "(2, DATE'2024-02-29', TIMESTAMP_NTZ'2024-02-29 12:00:00.000001', TIMESTAMP'2024-02-29 12:00:00.000001+02:00'),"
        "(3, DATE'2024-03-01', TIMESTAMP_NTZ'2024-02-29 12:00:00.000002', TIMESTAMP'2024-02-29 10:00:00.000002+00:00'),"
        "(4, NULL, NULL, NULL),"
        "(5, DATE'0001-01-01', TIMESTAMP_NTZ'0001-01-01 00:00:00', TIMESTAMP'9999-12-31 23:59:59.999999+00:00')"
    )
    scene.delete_equal(["d"], {"d": "1969-12-31"}, {"d": "1970-01-01"})
    scene.delete_equal(["t"], {"t": "2024-02-29T12:00:00.000001"})
    scene.delete_equal(["z"], {"z": "2024-02-29T10:00:00.000002+00:00"}, {"z": "2024-02-29T10:00:00.000003+00:00"})
    scene.current(ids=[4, 5])
    scene.columns("id")
    scene.where("d IS NOT NULL", ids=[5])


@RECIPES.add("equality-delete", "key-uuid", "key-fixed", "key-time", "java-only", versions=(3,))
def equality_uuid_fixed_time_keys(scene: Scene) -> None:
    """Keys of uuid, fixed and time, written by Iceberg Java. Catches types that Spark never writes."""
    types = scene.spark._jvm.org.apache.iceberg.types.Types
    scene.create("id int")
    scene.add_columns(u=types.UUIDType.get(), f=types.FixedType.ofLength(3), t=types.TimeType.get())
    uuids = [uuid.UUID(int=n) for n in (0, 1, 2**127, 2**128 - 1)]
    fixed = [b"\x00\x00\x00", b"\x00\x00\x01", b"\x7f\xff\xff", b"\xff\x00\x00"]
    times = [dt.time(0), dt.time(12, 0, 0, 1), dt.time(12, 0, 0, 2), dt.time(23, 59, 59, 999999)]
    rows = [
        {"id": i, "u": str(u), "f": f.hex().upper(), "t": t.isoformat("microseconds")}
        for i, (u, f, t) in enumerate(zip(uuids, fixed, times, strict=True))
    ]
    scene.commit(data=[scene.data_file(rows)])
    scene.delete_equal(["u"], {"u": str(uuids[2])})
    scene.delete_equal(["f"], {"f": "FF0000"})
    scene.delete_equal(["t"], {"t": "12:00:00.000001"})
    live = pa.table({
        "id": pa.array([0], pa.int32()),
        "u": pa.array([uuids[0].bytes], pa.uuid()),
        "f": pa.array(fixed[:1], pa.binary(3)),
        "t": pa.array(times[:1], pa.time64("us")),
    })  # fmt: skip
    scene.current(ids=[0], rows=live, wrong="Spark has no type for a time of day, and shows a uuid as text")


@RECIPES.add("equality-delete", "key-timestamp-ns", "java-only", versions=(3,))
def equality_timestamp_ns_key(scene: Scene) -> None:
    """A timestamp_ns key, values one nanosecond apart. Catches nanoseconds cut to microseconds."""
    types = scene.spark._jvm.org.apache.iceberg.types.Types
    scene.create("id int")
    scene.add_columns(n=types.TimestampNanoType.withoutZone())
    texts = ["2024-01-01T00:00:00.000000001", "2024-01-01T00:00:00.000000002", "1969-12-31T23:59:59.999999999"]
    scene.commit(data=[scene.data_file([{"id": i, "n": text} for i, text in enumerate(texts)])])
    scene.delete_equal(["n"], {"n": texts[0]}, {"n": texts[2]})
    nanos = pa.array([1704067200000000002], pa.timestamp("ns"))
    live = pa.table({"id": pa.array([1], pa.int32()), "n": nanos})
    scene.current(ids=[1], rows=live, wrong="Spark has no type for timestamp_ns")


@RECIPES.add("equality-delete", "key-nested", versions=(2,))
def equality_nested_key(scene: Scene) -> None:
    """Keys inside structs, read with the structs; one file's key is at the top and in a struct. Catches comparing the
    struct's other fields, and finding the key by its last name alone (`k` is at the top too).
    """
    scene.create("id int, k int, s struct<v: string, k: int>")
    scene.insert(
        "(1, 2, named_struct('v', 'a', 'k', 1)), (2, 1, named_struct('v', 'b', 'k', 2)), "
        "(3, 3, named_struct('v', 'c', 'k', 3)), (4, 4, named_struct('v', CAST(NULL AS string), 'k', 3)), (5, 5, NULL)"
    )
    scene.delete_equal(["s.k"], {"s": {"k": 2}})
    scene.delete_equal(["k", "s.k"], {"k": 3, "s": {"k": 3}}, {"k": 4, "s": {"k": 4}})
    scene.current(ids=[1, 4, 5])


@RECIPES.add("equality-delete", "key-nested", "null-key", "spark-wrong", versions=(3,))
def equality_nested_null_key(scene: Scene) -> None:
    """A NULL key inside an optional struct. Catches telling a NULL struct from a struct with a NULL key: by the spec
    the leaf is NULL in both, and the delete hits both.
    """
    scene.create("id int, s struct<k: int, v: string>")
    scene.insert(
        "(1, named_struct('k', 1, 'v', 'a')), (2, NULL), "
        "(3, named_struct('k', CAST(NULL AS int), 'v', 'd')), (4, named_struct('k', 4, 'v', CAST(NULL AS string)))"
    )
    scene.delete_equal(["s.k"], {"s": {"k": None}})
    struct = pa.struct([("k", pa.int32()), ("v", pa.string())])
    values = [{"k": 1, "v": "a"}, {"k": 4, "v": None}]
    live = pa.table({"id": pa.array([1, 4], pa.int32()), "s": pa.array(values, struct)})
    scene.current(ids=[1, 4], rows=live, wrong="Iceberg compares the whole structs, not their leaves")


@RECIPES.add("equality-delete", "key-nested", "projection", "spark-wrong", versions=(3,))
def equality_nested_key_not_projected(scene: Scene) -> None:
    """Keys one and two structs deep that the projection leaves out. Catches looking for the leaf at the top of the row,
    where it is not, so that it reads NULL and deletes nothing.
    """
    scene.create("id int, s struct<k: int, v: string>, deep struct<a: struct<b: bigint, c: int>>")
    scene.insert(
        "(1, named_struct('k', 1, 'v', 'a'), named_struct('a', named_struct('b', 1L, 'c', 1))), "
        "(2, named_struct('k', 2, 'v', 'b'), named_struct('a', named_struct('b', 2L, 'c', 2))), "
        "(3, named_struct('k', 3, 'v', 'c'), NULL)"
    )
    scene.delete_equal(["s.k"], {"s": {"k": 2}})
    scene.delete_equal(["deep.a.b"], {"deep": {"a": {"b": 1}}})
    scene.current(ids=[3])
    wrong = "Iceberg reads a nested key that is not projected as a column of the top level, so as NULL"
    scene.columns("id", rows=pa.table({"id": pa.array([3], pa.int32())}), wrong=wrong)
