"""Schema changes of tables that look alike: one is made like another, is archived, or changes places with another."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from tests.simulator.database import Database
from tests.simulator.ddl import create_like, create_table, rename_many_to
from tests.simulator.ddl_columns import hidden_drop, return_column
from tests.simulator.ddl_partitions import empty_partition, swap_partition
from tests.simulator.ddl_parts import (
    any_table,
    change_of,
    commit_change,
    create_alike,
    free_name,
    full_name,
    is_alike,
    named,
)

_FULL = 7
"""Rows of a table that a full read needs several waves for."""


def archive_table(db: Database, rand: Random) -> None:
    """``RENAME TABLE log TO log_old; CREATE TABLE log LIKE log_old``."""
    live = any_table(db, rand)
    old = free_name(db, rand, schema=live.name[0]) if live else None
    if live is None or old is None:
        create_table(db, rand)
        return
    query = f"RENAME TABLE {full_name(live.name)} TO {full_name(old)}"
    commit_change(db, db.tick(rand), "RENAME", query, live, named(live, old))
    create_alike(db, rand, db.now[old], live.name)


def swap_alike(db: Database, rand: Random) -> None:
    """``RENAME TABLE log TO log_old, log_new TO log`` of two tables of one shape."""
    live = any_table(db, rand)
    free = free_name(db, rand, schema=live.name[0]) if live else None
    others = [one for one in db.now.values() if live and one.uid != live.uid and is_alike(one, live)]
    if live is None or free is None:
        create_table(db, rand)
    elif not others:
        create_like(db, rand)
    else:
        rename_many_to(db, db.tick(rand), [(live, free), (rand.choice(others), live.name)])


def fill_tables(db: Database, rand: Random) -> None:
    """A large transaction: rows for tables that have few, so that a full read takes several waves. No DDL."""
    for _ in range(12):
        if all(len(live.rows) >= _FULL for live in db.now.values()):
            return
        db.transaction(rand)


def recover_table(db: Database, rand: Random) -> None:
    """A table is dropped, and after some transactions it comes back, perhaps under another name."""
    live = any_table(db, rand)
    if live is None:
        create_table(db, rand)
        return
    left = {name: other for name, other in db.now.items() if name != live.name}
    gone = change_of(db.tick(rand), "ERASE", f"DROP TABLE {full_name(live.name)}", live.table, live.table)
    db.commit_ddl(left, gone, uids=(live.uid,))
    for _ in range(rand.randrange(3)):
        db.transaction(rand)
    free = free_name(db, rand, schema=live.name[0])
    new = free if free is not None and rand.random() < 0.5 else live.name
    query = f"FLASHBACK TABLE {full_name(live.name)} TO {full_name(new)}"
    if new == live.name and rand.random() < 0.5:
        query = f"RECOVER TABLE {full_name(new)}"
    back = named(live, new)
    back = replace(back, table=replace(back.table, version=db.tick(rand)))
    change = replace(change_of(db.tick(rand), "QUERY", query, back.table, None), pre_table=None)
    db.commit_ddl({**db.now, new: back}, change, uids=(live.uid,))


MORE_DDL: dict[str, Callable[[Database, Random], None]] = {
    function.__name__: function
    for function in (
        archive_table,
        swap_alike,
        return_column,
        hidden_drop,
        fill_tables,
        empty_partition,
        swap_partition,
        recover_table,
    )
}
"""Every other schema change, by name."""
