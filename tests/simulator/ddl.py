"""Schema changes of every kind, each with its SQL and its events as TiCDC gives them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from tests.simulator.columns import KEY_KINDS, KINDS, Spec, any_spec, convert, fill, spec
from tests.simulator.database import Database, Event, Key, Live, Name, live_table
from ticdc_spark.model import Index, Row, SchemaChange, Table

SCHEMAS = ("app", "b")
NAMES = ("t1", "t2", "t3", "t_old", "x1", "x2")
"""Few names, so that each is used again by another table; ``t*`` is what a filter may want."""
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
    name = name or _free_name(db, rand)
    if name is None or len(db.now) >= _MOST_TABLES:
        drop_table(db, rand)
        return
    specs, index = _columns(db, rand)
    version, ts = db.tick(rand), db.tick(rand)
    columns = tuple(item.column for item in specs)
    table = Table(
        schema=name[0], name=name[1], columns=columns, indexes=(index,), table_id=100 + db.fresh(), version=version
    )
    live = live_table(db.new_uid(), table, specs, {})
    keys = ",".join(f"`{column}`" for column in index.columns)
    word = "PRIMARY KEY" if index.primary else f"UNIQUE `{index.name}`"
    query = f"CREATE TABLE `{name[1]}` ({','.join(item.definition for item in specs)},{word}({keys}))"
    _commit(db, ts, "CREATE", query, None, live)


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
    live, name = _any(db, rand), _free_name(db, rand)
    if live is None or name is None or len(db.now) >= _MOST_TABLES:
        create_table(db, rand)
        return
    version, ts = db.tick(rand), db.tick(rand)
    table = replace(live.table, schema=name[0], name=name[1], table_id=100 + db.fresh(), version=version)
    query = f"CREATE TABLE {_full(name)} LIKE {_full(live.name)}"
    _commit(db, ts, "CREATE", query, None, live_table(db.new_uid(), table, live.specs, {}))


def drop_table(db: Database, rand: Random) -> None:
    live = _any(db, rand)
    if live is None:
        create_table(db, rand)
        return
    _drop(db, rand, live)


def _drop(db: Database, rand: Random, live: Live) -> None:
    left = {name: other for name, other in db.now.items() if name != live.name}
    change = _change(db.tick(rand), "ERASE", f"DROP TABLE {_full(live.name)}", live.table, live.table)
    db.commit_ddl(left, change, uids=(live.uid,))


def recreate_table(db: Database, rand: Random) -> None:
    live = _any(db, rand)
    if live is not None:
        _drop(db, rand, live)
    create_table(db, rand, live.name if live else None)


def truncate_table(db: Database, rand: Random) -> None:
    live = _any(db, rand)
    if live is None:
        create_table(db, rand)
        return
    table = replace(live.table, table_id=100 + db.fresh())
    _commit(
        db, db.tick(rand), "TRUNCATE", f"TRUNCATE TABLE `{live.name[1]}`", live, replace(live, table=table, rows={})
    )


def rename_table(db: Database, rand: Random, *, schema: str | None = None) -> None:
    live = _any(db, rand)
    new = _free_name(db, rand, schema=schema or (live.name[0] if live else None))
    if live is None or new is None:
        create_table(db, rand)
        return
    old = live.name
    query = f"RENAME TABLE {_full(old)} TO {_full(new)}"
    if rand.random() < 0.3:
        query = f"ALTER TABLE {_full(old)} RENAME TO {_full(new)}"
    _commit(db, db.tick(rand), "RENAME", query, live, _named(live, new))


def move_table(db: Database, rand: Random) -> None:
    """RENAME TABLE into another database."""
    if len(db.databases) < 2:
        create_database(db, rand)
    rename_table(db, rand, schema=rand.choice(db.databases))


def swap_tables(db: Database, rand: Random) -> None:
    """``RENAME TABLE t TO t_old, t_new TO t``: an event a pair, all at one commit_ts."""
    live, other, free = _any(db, rand), _any(db, rand), _free_name(db, rand)
    if live is None or other is None or free is None or live.uid == other.uid:
        rename_table(db, rand)
        return
    _rename_many(db, db.tick(rand), [(live, free), (other, live.name)])


def rename_many(db: Database, rand: Random) -> None:
    """One statement that renames two tables to new names."""
    live, other = _any(db, rand), _any(db, rand)
    first, second = _free_name(db, rand), _free_name(db, rand)
    if live is None or other is None or first is None or second is None or live.uid == other.uid or first == second:
        rename_table(db, rand)
        return
    _rename_many(db, db.tick(rand), [(live, first), (other, second)])


def _rename_many(db: Database, ts: int, pairs: list[tuple[Live, Name]]) -> None:
    state = {name: live for name, live in db.now.items() if all(live.uid != old.uid for old, _ in pairs)}
    changes = []
    for live, new in pairs:
        renamed = _named(live, new)
        state[new] = renamed
        query = f"RENAME TABLE {_full(live.name)} TO {_full(new)}"
        changes.append(_change(ts, "RENAME", query, renamed.table, live.table))
    db.commit_ddl(state, *changes, uids=tuple(live.uid for live, _ in pairs))


def add_column(db: Database, rand: Random) -> None:
    live = _any(db, rand)
    if live is None or len(live.specs) > 6:
        drop_column(db, rand)
        return
    item = any_spec(rand, f"a{db.fresh()}", zone=db.zone, plain=db.plain)
    dice, specs, place = rand.random(), (*live.specs, item), ""
    if dice < 0.2:
        specs, place = (item, *live.specs), " FIRST"
    elif dice < 0.4:
        specs, place = (live.specs[0], item, *live.specs[1:]), f" AFTER `{live.specs[0].column.name}`"
    value = fill(item)
    query = f"ALTER TABLE `{live.name[1]}` ADD COLUMN {item.definition}{place}"
    _alter(db, rand, live, query, specs, lambda row: {**row, item.column.name: value})


def drop_column(db: Database, rand: Random) -> None:
    live = _any(db, rand)
    item = _plain_column(live, rand)
    if live is None or item is None or len(live.specs) - len(live.keys) < 2:
        create_table(db, rand)
        return
    name = item.column.name
    specs = tuple(other for other in live.specs if other is not item)
    query = f"ALTER TABLE `{live.name[1]}` DROP COLUMN `{name}`"
    _alter(db, rand, live, query, specs, lambda row: {key: row[key] for key in row if key != name})


def rename_column(db: Database, rand: Random) -> None:
    live = _any(db, rand)
    item = _plain_column(live, rand)
    if live is None or item is None:
        create_table(db, rand)
        return
    old, new = item.column.name, f"n{db.fresh()}"
    renamed = replace(
        item, column=replace(item.column, name=new), definition=item.definition.replace(f"`{old}`", f"`{new}`", 1)
    )
    specs = tuple(renamed if other is item else other for other in live.specs)
    query = f"ALTER TABLE `{live.name[1]}` RENAME COLUMN `{old}` TO `{new}`"
    _alter(db, rand, live, query, specs, lambda row: {new if key == old else key: row[key] for key in row})


def modify_column(db: Database, rand: Random, *, lossy: bool = False) -> None:
    """MODIFY COLUMN to a wider type; with ``lossy``, to one that changes values."""
    live = _any(db, rand)
    ways = (
        []
        if live is None
        else [
            (item, kind)
            for item in live.specs
            if item.column.name not in live.keys and item.column.name not in _indexed(live)
            for kind in (KINDS[item.kind].loses if lossy else KINDS[item.kind].becomes)
        ]
    )
    if live is None or not ways:
        add_column(db, rand)
        return
    item, kind = rand.choice(ways)
    old, name = item.column, item.column.name
    new = spec(kind, name, nullable=old.nullable or kind == "timestamp", default=False, zone=db.zone)
    specs = tuple(new if other is item else other for other in live.specs)
    query = f"ALTER TABLE `{live.name[1]}` MODIFY COLUMN {new.definition}"

    def changed(row: Row) -> Row:
        return {**row, name: convert(row[name], old.type, new.column.type, db.zone)}

    _alter(db, rand, live, query, specs, changed)


def lossy_modify(db: Database, rand: Random) -> None:
    modify_column(db, rand, lossy=not db.plain)


def add_index(db: Database, rand: Random) -> None:
    live = _any(db, rand)
    item = _plain_column(live, rand)
    if live is None or item is None or item.kind == "blob":
        add_column(db, rand)
        return
    name, column = f"i{db.fresh()}", item.column
    index = Index(name=name, unique=False, primary=False, nullable=column.nullable, columns=(column.name,))
    query = f"CREATE INDEX `{name}` ON `{live.name[1]}` (`{column.name}`)"
    _alter(db, rand, live, query, live.specs, None, "CINDEX", (*live.table.indexes, index))


def drop_index(db: Database, rand: Random) -> None:
    live = _any(db, rand)
    index = next((index for index in live.table.indexes if not index.unique), None) if live else None
    if live is None or index is None:
        add_index(db, rand)
        return
    left = tuple(other for other in live.table.indexes if other is not index)
    _alter(db, rand, live, f"DROP INDEX `{index.name}` ON `{live.name[1]}`", live.specs, None, "DINDEX", left)


def exchange_partition(db: Database, rand: Random) -> None:
    """Rows change places between two tables, and no row message says so."""
    live = _any(db, rand)
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
    query = f"ALTER TABLE {_full(live.name)} EXCHANGE PARTITION `p0` WITH TABLE {_full(other.name)}"
    change = _change(db.tick(rand), "ALTER", query, live.table, other.table)
    db.commit_ddl(state, change, uids=(live.uid, other.uid), refused=True)


def silent_version(db: Database, rand: Random) -> None:
    """TiDB raises the version of a schema for what TiCDC never sends."""
    live = _any(db, rand)
    if live is not None:
        table = replace(live.table, version=db.tick(rand))
        _silently(db, db.tick(rand), replace(live, table=table))


def silent_column(db: Database, rand: Random) -> None:
    """A nullable column comes, and the changefeed leaves the DDL out."""
    live = _any(db, rand)
    if live is None or len(live.specs) > 6:
        silent_version(db, rand)
        return
    item = spec(rand.choice(tuple(KINDS)), f"s{db.fresh()}", nullable=True, default=False)
    specs = (*live.specs, item)
    table = replace(live.table, columns=tuple(one.column for one in specs), version=db.tick(rand))
    rows: dict[Key, Row] = {key: {**row, item.column.name: None} for key, row in live.rows.items()}
    _silently(db, db.tick(rand), live_table(live.uid, table, specs, rows))


def _silently(db: Database, ts: int, live: Live) -> None:
    state = {**db.now, live.name: live}
    names = tuple((table.uid, name) for name, table in state.items())
    db.commit(ts, state, Event(ts=ts, uids=(live.uid,), live=names))


def _alter(
    db: Database,
    rand: Random,
    live: Live,
    query: str,
    specs: tuple[Spec, ...],
    rows: Callable[[Row], Row] | None,
    kind: str = "ALTER",
    indexes: tuple[Index, ...] | None = None,
) -> None:
    version, ts = db.tick(rand), db.tick(rand)
    columns = tuple(item.column for item in specs)
    table = replace(
        live.table, columns=columns, indexes=live.table.indexes if indexes is None else indexes, version=version
    )
    held = live.rows if rows is None else {key: rows(row) for key, row in live.rows.items()}
    _commit(db, ts, kind, query, live, live_table(live.uid, table, specs, held))


def _commit(db: Database, ts: int, kind: str, query: str, before: Live | None, after: Live) -> None:
    state = {name: live for name, live in db.now.items() if before is None or live.uid != before.uid}
    state[after.name] = after
    change = _change(ts, kind, query, after.table, before.table if before else None)
    db.commit_ddl(state, change, uids=(after.uid,))


def _change(ts: int, kind: str, query: str, table: Table, pre_table: Table | None) -> SchemaChange:
    return SchemaChange(
        commit_ts=ts, query=query, kind=kind, schema=table.schema, name=table.name, table=table, pre_table=pre_table
    )


def _named(live: Live, new: Name) -> Live:
    return replace(live, table=replace(live.table, schema=new[0], name=new[1]))


def _any(db: Database, rand: Random) -> Live | None:
    return rand.choice(tuple(db.now.values())) if db.now else None


def _free_name(db: Database, rand: Random, schema: str | None = None) -> Name | None:
    schemas = [schema] if schema else db.databases
    free = [(one, name) for one in schemas for name in NAMES if (one, name) not in db.now]
    return rand.choice(free) if free else None


def _indexed(live: Live) -> set[str]:
    return {name for index in live.table.indexes for name in index.columns}


def _plain_column(live: Live | None, rand: Random) -> Spec | None:
    plain = [item for item in live.specs if item.column.name not in _indexed(live)] if live else []
    return rand.choice(plain) if plain else None


def _full(name: Name) -> str:
    return f"`{name[0]}`.`{name[1]}`"


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
