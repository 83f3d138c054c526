"""DDL on partitions: rows go without row messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from msgspec.structs import replace

from tests.simulator.database import Database, Live
from tests.simulator.ddl import truncate_table
from tests.simulator.ddl_parts import any_table, change_of, commit_change, create_alike, free_name, full_name, is_alike
from ticdc_spark.model import Value


def empty_partition(db: Database, rand: Random) -> None:
    """Partition a table by its key, and then, perhaps after some transactions, empty a partition of it."""
    live = any_table(db, rand)
    if live is None or _kind(live) not in ("int", "bigint"):
        truncate_table(db, rand)
        return
    column, of = live.keys[0], full_name(live.name)
    by, verb, parts = _partitions(rand, column, sorted({_number(row[column]) for row in live.rows.values()}))
    _commit(db, rand, live, f"ALTER TABLE {of} PARTITION BY {by}")
    for _ in range(rand.randrange(3)):
        db.transaction(rand)
    now = db.now[live.name]
    name = rand.choice(sorted(parts))
    kept = {key: row for key, row in now.rows.items() if not parts[name](_number(row[column]))}
    _commit(db, rand, replace(now, rows=kept), f"ALTER TABLE {of} {verb} PARTITION {name}")


def swap_partition(db: Database, rand: Random) -> None:
    """Partition a table by its key, and then exchange the rows of a partition with those of a table like it."""
    live = any_table(db, rand)
    if live is None or len(live.keys) != 1 or _kind(live) not in ("int", "bigint"):
        empty_partition(db, rand)
        return
    alike = [one for one in db.now.values() if one.uid != live.uid and is_alike(one, live)]
    name = rand.choice(alike).name if alike else free_name(db, rand)
    if name is None:
        empty_partition(db, rand)
        return
    if not alike:
        create_alike(db, rand, live, name)
    column, of = live.keys[0], full_name(live.name)
    by, _, parts = _partitions(rand, column, sorted({_number(row[column]) for row in live.rows.values()}))
    _commit(db, rand, db.now[live.name], f"ALTER TABLE {of} PARTITION BY {by}")
    for _ in range(rand.randrange(4)):
        db.transaction(rand)
    one, other, part = db.now[live.name], db.now[name], rand.choice(sorted(parts))
    inside = {key: row for key, row in one.rows.items() if parts[part](_number(row[column]))}
    outside = {key: row for key, row in one.rows.items() if key not in inside}
    if outside.keys() & other.rows.keys():
        _commit(db, rand, replace(one, rows=outside), f"ALTER TABLE {of} TRUNCATE PARTITION {part}")
        return
    fits = all(parts[part](_number(row[column])) for row in other.rows.values())
    query = f"ALTER TABLE {of} EXCHANGE PARTITION `{part}` WITH TABLE {full_name(name)}"
    state = {
        **db.now,
        one.name: replace(one, rows={**outside, **other.rows}),
        other.name: replace(other, rows=inside),
    }
    change = change_of(db.tick(rand), "ALTER", query + ("" if fits else " WITHOUT VALIDATION"), one.table, other.table)
    db.commit_ddl(state, change, uids=(one.uid, other.uid))


def _partitions(rand: Random, column: str, numbers: Sequence[int]) -> tuple[str, str, dict[str, Callable[[int], bool]]]:
    """What stands behind PARTITION BY, what may be done to a partition, and what lies in those of which it may be."""
    low = rand.choice([*numbers, 2])
    high = max(rand.choice([*numbers, 4]), low) + 1
    if rand.random() < 0.3:
        parts = {"p0": lambda one: abs(one) % 2 == 0, "p1": lambda one: abs(one) % 2 == 1}
        return f"HASH (`{column}`) PARTITIONS 2", "TRUNCATE", parts
    if rand.random() < 0.4:
        parts = {"a": lambda one: one in (low, high), "b": lambda one: one not in (low, high)}
        by = f"LIST (`{column}`) (PARTITION a VALUES IN ({low}, {high}), PARTITION b DEFAULT)"
        return by, "TRUNCATE", parts
    by = (
        f"RANGE (`{column}`) (PARTITION low VALUES LESS THAN ({low}), PARTITION mid VALUES LESS THAN ({high}), "
        "PARTITION high VALUES LESS THAN MAXVALUE)"
    )
    return by, rand.choice(("DROP", "TRUNCATE")), {"low": lambda one: one < low, "mid": lambda one: low <= one < high}


def _number(value: Value) -> int:
    return int(str(value))


def _kind(live: Live) -> str:
    return next((column.type.name for column in live.table.columns if column.name in live.keys[:1]), "")


def _commit(db: Database, rand: Random, live: Live, query: str) -> None:
    version, ts = db.tick(rand), db.tick(rand)
    table = replace(live.table, version=version, table_id=100 + db.fresh())
    commit_change(db, ts, "ALTER", query, db.now[live.name], replace(live, table=table))
