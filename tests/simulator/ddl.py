"""Schema changes of tables and databases, each with its SQL and its events as TiCDC gives them; and the list of all."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from tests.simulator.columns import KEY_KINDS, Spec, any_spec, generated, generated_sql, spec
from tests.simulator.database import Database, Live, Name, columns_of, has_number, live_table
from tests.simulator.ddl_columns import (
    add_column,
    add_index,
    drop_column,
    drop_index,
    lossy_modify,
    modify_column,
    rename_column,
    silent_column,
    silent_version,
)
from tests.simulator.ddl_parts import any_table, change_of, commit_change, free_name, full_name, named
from tests.simulator.letters import SCHEMAS
from ticdc_spark.model import Column, Index, SchemaChange, Table

_MOST_TABLES = 4


def create_database(db: Database, rand: Random) -> None:
    missing = [name for name in SCHEMAS if name not in db.databases]
    if missing:
        _create_database(db, rand, missing[0])
    else:
        create_table(db, rand)


def _create_database(db: Database, rand: Random, name: str) -> None:
    db.databases.append(name)
    change = SchemaChange(commit_ts=db.tick(rand), query=f"CREATE DATABASE `{name}`", kind="QUERY", schema=name)
    db.commit_ddl(dict(db.now), change, uids=())


def drop_database(db: Database, rand: Random) -> None:
    if len(db.databases) < 2:
        create_database(db, rand)
        return
    name = db.databases.pop()
    gone = tuple(live.uid for live in db.now.values() if live.name[0] == name)
    change = SchemaChange(commit_ts=db.tick(rand), query=f"DROP DATABASE `{name}`", kind="QUERY", schema=name)
    db.commit_ddl({at: live for at, live in db.now.items() if at[0] != name}, change, uids=gone)


def create_table(db: Database, rand: Random, name: Name | None = None) -> None:
    if not db.databases:
        _create_database(db, rand, SCHEMAS[0])
    name = name or free_name(db, rand)
    if name is None or len(db.now) >= _MOST_TABLES:
        drop_table(db, rand)
        return
    specs, index = _columns(db, rand)
    without_key = db.is_next(db.keyless)
    version, ts = db.tick(rand), db.tick(rand)
    virtual = _virtual(db, rand, specs)
    columns = columns_of(specs, virtual)
    table = Table(
        schema=name[0],
        name=name[1],
        columns=columns,
        indexes=() if without_key else (index,),
        table_id=100 + db.fresh(),
        version=version,
    )
    live = live_table(db.new_uid(), table, specs, {})
    keys = ",".join(f"`{column}`" for column in index.columns)
    word = "PRIMARY KEY" if index.primary else f"UNIQUE `{index.name}`"
    key = "" if without_key else f",{word}({keys})"
    more = "".join(f",{generated_sql(one.name)}" for one in virtual)
    query = f"CREATE TABLE `{name[1]}` ({','.join(item.definition for item in specs)}{more}{key})"
    commit_change(db, ts, "CREATE", query, None, live)


def _virtual(db: Database, rand: Random, specs: tuple[Spec, ...]) -> tuple[Column, ...]:
    if not db.generated or not has_number(specs) or rand.random() < 0.3:
        return ()
    return (generated(f"g{db.fresh()}"),)


def _columns(db: Database, rand: Random) -> tuple[tuple[Spec, ...], Index]:
    keys = [spec(rand.choice(tuple(KEY_KINDS)), "id", nullable=False, default=False)]
    if rand.random() < 0.2:
        keys.append(spec("int", "line", nullable=False, default=False))
    more = [any_spec(rand, f"c{number}", zone=db.zone, plain=db.plain) for number in range(1 + rand.randrange(3))]
    names = tuple(item.column.name for item in keys)
    primary = rand.random() < 0.85
    name = "primary" if primary else "uk"
    return (*keys, *more), Index(name=name, unique=True, primary=primary, nullable=False, columns=names)


def create_like(db: Database, rand: Random) -> None:
    """A table with the columns of another."""
    live, name = any_table(db, rand), free_name(db, rand)
    if live is None or name is None or len(db.now) >= _MOST_TABLES:
        create_table(db, rand)
        return
    version, ts = db.tick(rand), db.tick(rand)
    table = replace(live.table, schema=name[0], name=name[1], table_id=100 + db.fresh(), version=version)
    query = f"CREATE TABLE {full_name(name)} LIKE {full_name(live.name)}"
    commit_change(db, ts, "CREATE", query, None, live_table(db.new_uid(), table, live.specs, {}))


def drop_table(db: Database, rand: Random) -> None:
    live = any_table(db, rand)
    if live is None:
        create_table(db, rand)
        return
    _drop(db, rand, live)


def _drop(db: Database, rand: Random, live: Live) -> None:
    left = {name: other for name, other in db.now.items() if name != live.name}
    change = change_of(db.tick(rand), "ERASE", f"DROP TABLE {full_name(live.name)}", live.table, live.table)
    db.commit_ddl(left, change, uids=(live.uid,))


def recreate_table(db: Database, rand: Random) -> None:
    live = any_table(db, rand)
    if live is not None:
        _drop(db, rand, live)
    create_table(db, rand, live.name if live else None)


def truncate_table(db: Database, rand: Random) -> None:
    live = any_table(db, rand)
    if live is None:
        create_table(db, rand)
        return
    table = replace(live.table, table_id=100 + db.fresh())
    commit_change(
        db, db.tick(rand), "TRUNCATE", f"TRUNCATE TABLE `{live.name[1]}`", live, replace(live, table=table, rows={})
    )


def rename_table(db: Database, rand: Random, *, schema: str | None = None) -> None:
    live = any_table(db, rand)
    new = free_name(db, rand, schema=schema or (live.name[0] if live else None))
    if live is None or new is None:
        create_table(db, rand)
        return
    old = live.name
    query = f"RENAME TABLE {full_name(old)} TO {full_name(new)}"
    if rand.random() < 0.3:
        query = f"ALTER TABLE {full_name(old)} RENAME TO {full_name(new)}"
    commit_change(db, db.tick(rand), "RENAME", query, live, named(live, new))


def move_table(db: Database, rand: Random) -> None:
    """RENAME TABLE into another database."""
    if len(db.databases) < 2:
        create_database(db, rand)
    rename_table(db, rand, schema=rand.choice(db.databases))


def swap_tables(db: Database, rand: Random) -> None:
    """``RENAME TABLE t TO t_old, t_new TO t``: an event a pair, all at one commit_ts."""
    live, other, free = any_table(db, rand), any_table(db, rand), free_name(db, rand)
    if live is None or other is None or free is None or live.uid == other.uid:
        rename_table(db, rand)
        return
    rename_many_to(db, db.tick(rand), [(live, free), (other, live.name)])


def rename_many(db: Database, rand: Random) -> None:
    """One statement that renames two tables to new names."""
    live, other = any_table(db, rand), any_table(db, rand)
    first, second = free_name(db, rand), free_name(db, rand)
    if live is None or other is None or first is None or second is None or live.uid == other.uid or first == second:
        rename_table(db, rand)
        return
    rename_many_to(db, db.tick(rand), [(live, first), (other, second)])


def rename_many_to(db: Database, ts: int, pairs: list[tuple[Live, Name]]) -> None:
    """One statement: an event a pair, all at one commit_ts."""
    state = {name: live for name, live in db.now.items() if all(live.uid != old.uid for old, _ in pairs)}
    changes = []
    for live, new in pairs:
        renamed = named(live, new)
        state[new] = renamed
        query = f"RENAME TABLE {full_name(live.name)} TO {full_name(new)}"
        changes.append(change_of(ts, "RENAME", query, renamed.table, live.table))
    db.commit_ddl(state, *changes, uids=tuple(live.uid for live, _ in pairs))


def exchange_partition(db: Database, rand: Random) -> None:
    """Rows change places between two tables, without row messages."""
    live = any_table(db, rand)
    same = [
        other
        for other in db.now.values()
        if live and other.uid != live.uid and other.table.columns == live.table.columns
    ]
    if live is None or not same:
        create_like(db, rand)
        return
    other = rand.choice(same)
    state = {**db.now, live.name: replace(live, rows=other.rows), other.name: replace(other, rows=live.rows)}
    query = f"ALTER TABLE {full_name(live.name)} EXCHANGE PARTITION `p0` WITH TABLE {full_name(other.name)}"
    change = change_of(db.tick(rand), "ALTER", query, live.table, other.table)
    db.commit_ddl(state, change, uids=(live.uid, other.uid), refused=True)


DDL: dict[str, Callable[[Database, Random], None]] = {
    function.__name__: function
    for function in (
        create_database,
        drop_database,
        create_table,
        create_like,
        drop_table,
        recreate_table,
        truncate_table,
        rename_table,
        move_table,
        swap_tables,
        rename_many,
        add_column,
        drop_column,
        rename_column,
        modify_column,
        lossy_modify,
        add_index,
        drop_index,
        exchange_partition,
        silent_version,
        silent_column,
    )
}
"""Every schema change by name."""
