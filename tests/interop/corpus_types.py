"""Cases of column types: nested ones, extremes, and NULLs everywhere, under deletes."""

from collections.abc import Sequence

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import Scene

RECIPES = Recipes()
NESTED = """
    id int,
    tags array<string>,
    counts map<string, bigint>,
    who struct<name: string, born: date, homes: array<struct<city: string, since: int>>>,
    deep map<int, array<map<string, decimal(5,2)>>>
"""
NESTED_ROWS = """
    (1, array('x', NULL, ''), map('k', 1L, 'n', NULL),
     named_struct('name', 'ann', 'born', DATE'1990-01-01', 'homes', array(named_struct('city', 'ü', 'since', 1))),
     map(1, array(map('a', 1.25BD), NULL))),
    (2, array(), map(), named_struct('name', NULL, 'born', NULL, 'homes', NULL), map()),
    (3, NULL, NULL, NULL, NULL),
    (4, array('y'), map('z', 9L),
     named_struct('name', 'di', 'born', DATE'2000-02-29', 'homes', array()), map(2, array())),
    (5, array('w', 'v'), map('a', 1L, 'b', 2L),
     named_struct('name', 'ed', 'born', NULL, 'homes', array(NULL, named_struct('city', NULL, 'since', 2))),
     map(3, NULL))
"""


@RECIPES.add("nested-types", "position-delete", "deletion-vector", "equality-delete", "key-nested")
def nested_types_parquet(scene: Scene) -> None:
    """Lists, maps and structs, empty, NULL and with NULLs inside. Catches positions counted in values instead of rows,
    and empty taken for NULL.
    """
    _nested(scene, "parquet")


@RECIPES.add(
    "nested-types", "avro", "position-delete", "deletion-vector", "equality-delete", "key-nested", versions=(3,)
)
def nested_types_avro(scene: Scene) -> None:
    """The same in Avro, where a map with int keys is an array of records. Catches taking it for a list."""
    _nested(scene, "avro")


@RECIPES.add(
    "nested-types", "orc", "position-delete", "deletion-vector", "equality-delete", "key-nested", versions=(2,)
)
def nested_types_orc(scene: Scene) -> None:
    """The same in ORC. Catches nested field ids taken by order."""
    _nested(scene, "orc")


@RECIPES.add("all-types", "position-delete", "deletion-vector", "equality-delete", "avro")
def extremes_of_all_types(scene: Scene) -> None:
    """Smallest, largest, zero and NULL of every type Spark has, in Parquet and Avro. Catches lost precision and shifted
    times.
    """
    live = _extremes(scene, ("parquet", "avro"), first_year="0001", last_year="9999")
    scene.current(ids=live)
    scene.where("l = 9223372036854775807", ids=[i for i in live if i % 10 in (2, 5)])
    scene.where("b IS NULL", ids=[3, 13])


@RECIPES.add("all-types", "position-delete", "deletion-vector", "equality-delete", "orc")
def extremes_of_all_types_orc(scene: Scene) -> None:
    """The same in ORC, with times that nanoseconds in 64 bits can hold. Catches lost precision and shifted times."""
    live = _extremes(scene, ("orc",), first_year="1678", last_year="2261")
    scene.current(ids=live)
    scene.where("l = 9223372036854775807", ids=[2])
    scene.where("b IS NULL", ids=[3])


@RECIPES.add("orc", "position-delete", "deletion-vector", "out-of-nanosecond-range", versions=(3,))
def orc_times_beyond_nanoseconds(scene: Scene) -> None:
    """Times of the years 1 and 9999 in ORC, which Arrow reads as nanoseconds of 64 bits. Catches times that wrap."""
    scene.create("id int, t timestamp_ntz", properties={"write.format.default": "orc"})
    times = ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2024-01-01 00:00:00")
    scene.insert(", ".join(f"({i}, TIMESTAMP_NTZ'{text}')" for i, text in enumerate(times)))
    scene.sql("DELETE FROM {t} WHERE id = 2")
    scene.current(ids=[0, 1])


def _extremes(scene: Scene, formats: Sequence[str], first_year: str, last_year: str) -> list[int]:
    """In each format a lowest, a highest, an all NULL, a lowest and a highest row; the ids that live after deletes."""
    scene.create(
        "id int, b boolean, i int, l bigint, f float, d double, s string, y binary, "
        "n9 decimal(9,0), n18 decimal(18,18), n38 decimal(38,0), da date, t timestamp_ntz, z timestamp"
    )
    first, last = f"{first_year}-01-01 00:00:00", f"{last_year}-12-31 23:59:59.999999"
    low = (
        "true, -2147483648, bigint('-9223372036854775808'), float('-inf'), double('4.9e-324'), '', X'', "
        "-999999999BD, -0.999999999999999999BD, -99999999999999999999999999999999999999BD, "
        f"DATE'0001-01-01', TIMESTAMP_NTZ'{first}', TIMESTAMP'{first}Z'"
    )
    high = (
        "false, 2147483647, 9223372036854775807L, float('3.4e38'), double('NaN'), '\U0010ffff', X'00FF', "
        "999999999BD, 0.999999999999999999BD, 99999999999999999999999999999999999999BD, "
        f"DATE'9999-12-31', TIMESTAMP_NTZ'{last}', TIMESTAMP'{last}Z'"
    )
    nulls = ", ".join(["NULL"] * 13)
    for number, file_format in enumerate(formats):
        scene.set(write_format_default=file_format)
        rows = enumerate((low, high, nulls, low, high), start=number * 10 + 1)
        scene.insert(", ".join(f"({i}, {values})" for i, values in rows))
    scene.sql("DELETE FROM {t} WHERE id IN (4, 15)")
    scene.delete_equal(["l", "id"], {"l": 2**63 - 1, "id": 5}, {"l": -(2**63), "id": 14}, {"l": None, "id": 4})
    return [number * 10 + i for number in range(len(formats)) for i in (1, 2, 3)]


def _nested(scene: Scene, file_format: str) -> None:
    scene.create(NESTED, properties={"write.format.default": file_format})
    scene.insert(NESTED_ROWS)
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.delete_equal(["who.name"], {"who": {"name": "di"}}, format=file_format)
    scene.sql("UPDATE {t} SET tags = array('new'), deep = NULL WHERE id = 5")
    scene.current(ids=[2, 3, 5])
    scene.columns("who", "counts")
    if scene.version == 3:
        scene.lineage()
