"""Who lives in a simulated world: writers, sinks, maintenance, readers; and what is checked after each operation."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import deletekit as dk
from tests.world import java
from tests.world import model as models
from tests.world.model import Model, Op, Rows
from tests.world.storage import Places, Store, opened
from tests.world.world import BrokenPromiseError, Plan, World, governed

HOUR = 3600
TABLE = "world.t"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.int64())])
SHARED = 24
"""Ids below this are everybody's. Rows that are appended have ids of their own."""
MODES = {
    2: ("copy-on-write", "position-delete", "equality-delete"),
    3: ("copy-on-write", "deletion-vector", "equality-delete"),
}
PROPERTIES = {
    "commit.manifest.min-count-to-merge": "4",
    "write.parquet.compression-codec": "uncompressed",
    "write.manifest.compression-codec": "uncompressed",
}


@dataclass
class Home:
    """A world with its table, and what its processes share.

    Attributes
    ----------
    last_id: of rows that were appended.
    sinks: by name, how many batches have been written for certain.
    """

    plan: Plan
    last_id: int = 1000
    sinks: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world = World(self.plan)
        self.model = Model(self.world.fail, lambda: self.me and self.me.op, lambda: self.world.now)
        self.store = Store(self.world, self.model)
        self.places = Places(self.world, self.model)
        chance = self.world.rng
        self.kind, self.version = chance.choice(("sql", "sql", "rest")), chance.choice((2, 3, 3))
        self.modes = MODES[self.version]
        self.partition = chance.choice(((), (), ("bucket(2, id)",)))
        self.branch = chance.choice((None, None, "dev"))
        writers = [f"writer{n}" for n in range(chance.choice((1, 1, 2, 3)))]
        everybody = tuple(sorted(ACTORS.keys() - {"writer"}))
        kinds = chance.choice(
            (everybody, everybody, ("eraser", "expiry"), ("expiry", "foreign", "maintenance", "sink"))
        )
        others = enumerate(chance.choices(kinds, k=chance.randint(1, 5)))
        drawn = (*writers, *(f"{name}{number}" for number, name in others))
        self.actors = drawn if self.plan.actors is None else self.plan.actors
        self.may_rewind = not any(a.startswith("sink") for a in self.actors)
        self.trims = chance.choice((False, False, True))
        self.age, self.pause = chance.choice((0.3, HOUR)), chance.choice((0.1, 1))

    def open(self) -> dk.Table:
        return dk.load_table(opened(self.kind, self.places, self.store), TABLE)

    def live(self) -> None:
        """Make the table, let the actors live, and check what is left. Raise `BrokenPromiseError`."""
        models.forget()
        world = self.world
        with governed(world, self.store), dk.engine.local(1):
            catalog = opened(self.kind, self.places, self.store)
            more = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "3"}
            age = {"history.expire.max-snapshot-age-ms": str(int(self.age * 1000))}
            properties = {**PROPERTIES, **age, **(more if self.trims else {})}
            options: Any = {"format_version": self.version, "partition_by": list(self.partition)}
            place = "mem://warehouse/t"
            table = dk.create_table(catalog, TABLE, SCHEMA, properties=properties, location=place, **options)
            rows = dict.fromkeys(range(0, SHARED, 2), 0)
            doing, self.model.op = self.model.op, lambda: Op("set up", lambda _: rows, moves=True)
            dk.append(table, _rows(rows))
            if self.branch:
                dk.create_branch(table, self.branch)
            self.model.op = doing
            world.sleep(HOUR)  # nothing that is stale is from before
            world.run({name: partial(self._process, name) for name in self.actors})
            if world.broken is None:
                self._end()
        if world.broken is not None:
            raise world.broken

    def _process(self, name: str) -> None:
        with dk.engine.local(1):
            try:
                actor = ACTORS[name.rstrip("0123456789")](self, name)
            except dk.DeletekitError:
                return  # it is started again
            while True:
                chance = self.me.chance
                is_long = chance.random() < 0.03
                self.world.sleep(chance.expovariate(1 / (8 * HOUR)) if is_long else chance.random() * self.pause)
                if self.world.closing:
                    return
                self.me.hurt = False
                try:
                    actor()
                except dk.DeletekitError as e:  # it looked at the table for what to do
                    if not self.me.hurt and not self.world.stale:
                        self.world.fail("refused", f"{name} failed without a fault: {e}")

    @property
    def me(self) -> Any:
        return self.world.current

    def do(self, op: Op, verb: Callable[[], Any], *, several: bool = False, allowed: tuple[type, ...] = ()) -> Any:
        """Run a verb as an operation, and check that its answer is true. Return it, or None if it failed."""
        me = self.me
        me.op, me.hurt = op, False
        done = None
        try:
            done = verb()
        except dk.CommitStateUnknownError:
            # A REST catalog may not be able to tell: the winner of a race may have expired by then.
            if not me.hurt and self.kind == "sql":
                self.world.fail("unknown", f"{op.name} does not know its state, and there was no fault")
            return None
        except dk.DeletekitError as e:
            if not several and op.landed:
                self.world.fail("not refused", f"{op.name} landed and was reported as failed: {e}")
            # A stale answer cannot tell that a missing file's snapshot has expired.
            usual = (dk.CommitConflictError, *allowed, *((dk.NotFoundError,) if self.world.stale else ()))
            if not me.hurt and not isinstance(e, usual):
                self.world.fail("refused", f"{op.name} failed without a fault: {type(e).__name__}: {e}")
            op.refused = not several
        else:
            said = [getattr(done, "snapshot_id", None)]
            landed: list[Any] = op.landed or [None]
            if isinstance(done, dk.results.Commit) and not several and said != landed:
                self.world.fail("answer", f"{op.name} said that it committed {said}, and committed {op.landed}")
        finally:
            me.op = None
        left = {p for p in op.wrote - self.model.ever if p in self.store.files and "/_deletekit/" not in p}
        if left and not me.hurt:
            self.world.fail("leftover", f"{op.name} left files that nothing leads to: {sorted(left)}")
        return done

    # --- the end -------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Check the table when everything is quiet: nothing was lost, and what nobody names is found."""
        world, model = self.world, self.model
        try:
            for name, done in self.sinks.items():
                missing = [n for n in range(done) if not model.was_applied((name, n))]
                if missing:
                    world.fail("exactly once", f"batches {missing} of {name} were acknowledged, and are not there")
            table = self.open()
            found = {r["id"]: r["value"] for r in dk.scan(table).to_arrow().to_pylist()}
            if found != model.head():
                world.fail("rows", "a scan finds other rows at the end")
            report = dk.verify(table)
            if not report.ok:
                world.fail("verify", str(report))
            world.sleep(100 * HOUR)
            dk.remove_orphan_files(table)
            raw = model.raw
            known = {*model.live, *(entry["metadata-file"] for entry in raw.get("metadata-log", ()))}
            left = [p for p in self.store.files if p not in known and "/_deletekit/" not in p]
            if left:
                world.fail("orphans", f"orphan removal does not find {left}")
        except BrokenPromiseError:
            pass
        except dk.DeletekitError as e:
            world.broken = BrokenPromiseError("end", f"{type(e).__name__}: {e}")


def _rows(rows: Rows) -> pa.Table:
    return pa.table({"id": list(rows), "value": list(rows.values())}, schema=SCHEMA)


# --- actors -----------------------------------------------------------------------------------------------------------


class Actor:
    """What does something in one process, again and again."""

    def __init__(self, home: Home, name: str) -> None:
        self.home, self.name, self.table = home, name, home.open()

    @property
    def chance(self) -> random.Random:
        return self.home.me.chance  # type: ignore[no-any-return]


class Writer(Actor):
    """Calls every verb that changes rows, on `main` and at times on a branch."""

    def __call__(self) -> None:
        self.ref = self.home.branch if self.home.branch and self.chance.random() < 0.2 else "main"
        self.mode = self.chance.choice(self.home.modes)
        names = "append append delete delete delete_keys update add add upsert overwrite replace"
        getattr(self, self.chance.choice(names.split()))()

    def _some(self, most: int = 3) -> list[int]:
        known = sorted(self.home.model.head(self.ref) or {0: 0})
        ids = {*self.chance.sample(range(SHARED), 1), *self.chance.choices(known, k=self.chance.randint(1, most))}
        return sorted(ids)

    def _do(self, name: str, apply: Callable[[Rows], Rows], verb: Callable[..., Any], *args: Any, **named: Any) -> None:
        self.home.do(Op(f"{name}, {self.mode}", apply), partial(verb, self.table, *args, ref=self.ref, **named))

    def append(self) -> None:
        new = {self.home.last_id + n: self.chance.randrange(9) for n in range(self.chance.randint(1, 3))}
        self.home.last_id += 3
        self._do("append", lambda rows: {**rows, **new}, dk.append, _rows(new))

    def delete(self) -> None:
        if self.chance.random() < 0.3:
            value, on = self.chance.randrange(9), {"on": ["id"]} if self.mode == "equality-delete" else {}
            keep = lambda rows: {i: v for i, v in rows.items() if v != value}  # noqa: E731
            self._do("delete by value", keep, dk.delete, f"value = {value}", mode=self.mode, **on)
            return
        some = self._some()
        self._do("delete", partial(_without, some), dk.delete, f"id in ({', '.join(map(str, some))})", mode=self.mode)

    def delete_keys(self) -> None:
        some = self._some()
        self._do("delete_keys", partial(_without, some), dk.delete_keys, [{"id": i} for i in some])

    def update(self) -> None:
        some, value = self._some(), self.chance.randrange(9)
        where = f"id in ({', '.join(map(str, some))})"
        apply = lambda rows: {i: value if i in some else v for i, v in rows.items()}  # noqa: E731
        self._do("update", apply, dk.update, {"value": value}, where=where, mode=self.mode)

    def add(self) -> None:
        least = self.chance.randrange(SHARED)
        where, more = f"id >= {least} and id < {least + 4}", {"value": lambda rows: pc.add(rows.column("value"), 1)}
        apply = lambda rows: {i: v + 1 if least <= i < least + 4 else v for i, v in rows.items()}  # noqa: E731
        self._do("add", apply, dk.update, more, where=where, mode=self.mode)

    def upsert(self) -> None:
        new = dict.fromkeys(self._some(), self.chance.randrange(9))
        verb, named = self.chance.choice(((dk.upsert, {}), (dk.merge, {})))
        self._do(verb.__name__, lambda rows: {**rows, **new}, verb, _rows(new), on=["id"], mode=self.mode, **named)

    def overwrite(self) -> None:
        at, value = self.chance.randrange(SHARED), self.chance.randrange(9)
        apply = lambda rows: {**{i: v for i, v in rows.items() if not at <= i < at + 3}, at: value}  # noqa: E731
        where = f"id >= {at} and id < {at + 3}"
        on = {"on": ["id"]} if self.mode == "equality-delete" else {}
        self._do(
            "overwrite", apply, dk.overwrite, _rows({at: value}), where, mode=self.mode if not on else "copy-on-write"
        )

    def replace(self) -> None:
        """Keep the table small: drop most rows that were appended."""
        keep = self.home.last_id - 30
        apply = lambda rows: {i: v for i, v in rows.items() if i < SHARED or i >= keep}  # noqa: E731
        self._do("replace", apply, dk.delete, f"id >= {SHARED} and id < {keep}", mode=self.home.modes[1])


def _without(some: list[int], rows: Rows) -> Rows:
    return {i: v for i, v in rows.items() if i not in some}


class Sink(Actor):
    """Writes batches, each as often as it must until it is acknowledged, and goes on after a crash where it was.

    All of a world write the same batches of one stream.
    """

    def __init__(self, home: Home, name: str) -> None:
        super().__init__(home, "sink")
        chance = random.Random(f"{home.plan.seed} options of {name}")
        self.expire: Any = chance.choice(("own", 2))
        maintain = dk.stream.Maintain(every=chance.choice((2, 5)), expire=self.expire, metadata_files=None)  # type: ignore[arg-type]
        mode: Any = chance.choice(("auto", "index-only", "eq-only"))
        self.sink = dk.stream.sink(self.table, self.name, on=["id"], mode=mode, maintain=maintain)
        last = self.sink.last_batch()
        self.next = 0 if last is None else last[1] + 1

    def __call__(self) -> None:
        home, number = self.home, self.next
        chance = random.Random(f"{home.plan.seed} {self.name} {number}")
        ids = chance.sample(range(SHARED), 3)
        changes = [{"id": i, "value": number, "_change_type": "UPDATE_AFTER"} for i in ids[:2]]
        changes += [{"id": ids[2], "value": None, "_change_type": "DELETE"}]
        op = Op(
            f"{self.name}, batch {number}",
            lambda rows: {**_without(ids, rows), ids[0]: number, ids[1]: number},
            (self.name, number),
        )
        op.age = home.age if self.expire == "own" else -math.inf
        done = home.do(op, lambda: self.sink.write(changes, number), several=True)
        if done is not None:
            self.next += 1
            home.sinks[self.name] = max(home.sinks.get(self.name, 0), self.next)
            if not home.model.was_applied((self.name, number)):
                home.world.fail("exactly once", f"batch {number} of {self.name} is {done.status}, and not there")


def foreign(me: Actor) -> None:
    """Append as Java does."""
    new = {me.home.last_id: me.chance.randrange(9)}
    me.home.last_id += 1
    if not me.home.partition:
        me.home.do(Op("java's append", lambda rows: {**rows, **new}), partial(java.append, me.table, new))


def maintenance(me: Actor) -> None:
    """Change files and no row."""
    verbs: list[Callable[[dk.Table], Any]] = [
        partial(dk.compact, min_input_files=2, partial_progress=me.chance.random() < 0.3, max_commits=2),
        partial(dk.compact, rewrite_all=True),
        partial(dk.rewrite_position_deletes, rewrite_all=True),
        dk.convert_equality_deletes,
        dk.rewrite_manifests,
        dk.remove_dangling_deletes,
    ]
    number = me.chance.randrange(len(verbs))
    me.home.do(Op(f"maintenance {number}"), partial(verbs[number], me.table), several=number == 0)


def expiry(me: Actor) -> None:
    """Expire snapshots of more than an hour, in some worlds as good as all."""
    verb = partial(dk.expire_snapshots, me.table, retain_last=me.chance.choice((None, 1, 3)))
    me.home.do(Op("expire", age=me.home.age), verb, several=True)


def orphans(me: Actor) -> None:
    """Remove files of more than a day that nothing leads to."""
    before = int((me.home.world.now - 24 * HOUR - 1) * 1000)
    allowed = (dk.InvalidInputError,) if me.home.world.list_lag else ()  # a listing without what is new is refused
    verb = partial(dk.remove_orphan_files, me.table, older_than=before)
    me.home.do(Op("orphans"), verb, several=True, allowed=allowed)


def eraser(me: Actor) -> None:
    """Erase a few ids, with all snapshots that hold them."""
    some = me.chance.sample(range(SHARED), 2)
    op = Op("erase", partial(_without, some), age=-math.inf)
    me.home.do(op, lambda: dk.erase(me.table, f"id in ({some[0]}, {some[1]})"), several=True)


def refs(me: Actor) -> None:
    """Roll back, and make and drop tags."""
    snapshots = sorted(s.snapshot_id for s in me.table.refresh().snapshots())
    chosen, what, tag = me.chance.choice(snapshots), me.chance.randrange(3), f"tag{me.chance.randrange(3)}"
    verb: Any = partial(dk.create_tag, me.table, tag, chosen) if what else partial(dk.drop_ref, me.table, tag)
    if what == 2 and me.home.may_rewind:
        verb = partial(dk.rollback, me.table, chosen)
    gone = (dk.NotFoundError, dk.InvalidInputError)
    me.home.do(Op("refs", moves=True), verb, several=True, allowed=gone)


def reader(me: Actor) -> None:
    """Read a snapshot, at times slowly: right rows, or the news that it has expired."""
    home, table = me.home, me.table.refresh()
    snapshot = table.current_snapshot
    assert snapshot is not None
    try:
        scan = dk.scan(table)
        home.world.sleep(me.chance.choice((0, 0, 1, 2 * HOUR)))
        found = [(r["id"], r["value"]) for r in scan.to_arrow().to_pylist()]
    except dk.DeletekitError as e:
        is_there = any(s["snapshot-id"] == snapshot.snapshot_id for s in home.model.raw["snapshots"])
        if not home.me.hurt and is_there:
            home.world.fail("reader", f"a scan failed on a snapshot that is there: {e}")
        return
    if sorted(found) != sorted(home.model.rows[snapshot.snapshot_id].items()):
        home.world.fail("reader", f"a scan found other rows than snapshot {snapshot.snapshot_id} has")


def _again(what: Callable[[Actor], None]) -> Any:
    return lambda home, name: partial(what, Actor(home, name))


_PLAIN = (foreign, maintenance, expiry, orphans, eraser, refs, reader)
ACTORS: dict[str, Any] = {"writer": Writer, "sink": Sink} | {what.__name__: _again(what) for what in _PLAIN}
