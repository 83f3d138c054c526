"""Schema changes of a table's columns and indexes, also those that TiCDC sends no DDL for."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from tests.simulator.columns import KINDS, Spec, any_spec, convert, fill, generated, generated_sql, spec
from tests.simulator.database import Database, Event, Key, Live, columns_of, has_number, live_table, virtual_columns
from tests.simulator.ddl_parts import any_table, commit_change
from ticdc_spark.model import Column, Index, Row


def _change_virtual(db: Database, rand: Random, live: Live) -> None:
    """Add a virtual column, or drop or rename the one that is there."""
    dice, there = rand.random(), virtual_columns(live)
    of, name = f"ALTER TABLE `{live.name[1]}`", f"g{db.fresh()}"
    if not there:
        query, then = f"{of} ADD COLUMN {generated_sql(name)}", (generated(name),)
    elif dice < 0.5:
        query, then = f"{of} DROP COLUMN `{there[0].name}`", ()
    elif dice < 0.8:
        query, then = f"{of} RENAME COLUMN `{there[0].name}` TO `{name}`", (replace(there[0], name=name),)
    else:
        query, then = f"{of} CHANGE COLUMN `{there[0].name}` {generated_sql(name)}", (generated(name),)
    _alter(db, rand, live, query, live.specs, None, virtual=then)


def add_column(db: Database, rand: Random) -> None:
    live = any_table(db, rand)
    if live is not None and db.generated and has_number(live.specs) and rand.random() < 0.4:
        _change_virtual(db, rand, live)
        return
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
    live = any_table(db, rand)
    item = _plain_column(live, rand)
    if live is None or item is None or len(live.specs) - len(live.keys) < 2:
        return
    name = item.column.name
    specs = tuple(other for other in live.specs if other is not item)
    query = f"ALTER TABLE `{live.name[1]}` DROP COLUMN `{name}`"
    _alter(db, rand, live, query, specs, lambda row: {key: row[key] for key in row if key != name})


def return_column(db: Database, rand: Random) -> None:
    """A column is dropped, and one of its name is added, by two statements: the rows have the default in it."""
    live = any_table(db, rand)
    item = _plain_column(live, rand)
    if live is None or item is None or len(live.specs) - len(live.keys) < 2:
        return
    name = item.column.name
    specs = tuple(other for other in live.specs if other is not item)
    query = f"ALTER TABLE `{live.name[1]}` DROP COLUMN `{name}`"
    _alter(db, rand, live, query, specs, lambda row: {key: row[key] for key in row if key != name})
    live = db.now[live.name]
    # A type may have become DATETIME NOT NULL. Added so, it would be the zero date, which strict servers refuse.
    again = not str(fill(item)).startswith("0000-00-00")
    new = any_spec(rand, name, zone=db.zone, plain=db.plain) if rand.random() < 0.5 or not again else item
    value = fill(new)
    query = f"ALTER TABLE `{live.name[1]}` ADD COLUMN {new.definition}"
    _alter(db, rand, live, query, (*live.specs, new), lambda row: {**row, name: value})


def rename_column(db: Database, rand: Random) -> None:
    live = any_table(db, rand)
    item = _plain_column(live, rand)
    if live is None or item is None:
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
    live = any_table(db, rand)
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
    live = any_table(db, rand)
    item = _plain_column(live, rand)
    if live is None or item is None or item.kind == "blob":
        add_column(db, rand)
        return
    name, column = f"i{db.fresh()}", item.column
    index = Index(name=name, unique=False, primary=False, nullable=column.nullable, columns=(column.name,))
    query = f"CREATE INDEX `{name}` ON `{live.name[1]}` (`{column.name}`)"
    _alter(db, rand, live, query, live.specs, None, "CINDEX", (*live.table.indexes, index))


def drop_index(db: Database, rand: Random) -> None:
    live = any_table(db, rand)
    index = next((index for index in live.table.indexes if not index.unique), None) if live else None
    if live is None or index is None:
        add_index(db, rand)
        return
    left = tuple(other for other in live.table.indexes if other is not index)
    _alter(db, rand, live, f"DROP INDEX `{index.name}` ON `{live.name[1]}`", live.specs, None, "DINDEX", left)


def silent_version(db: Database, rand: Random) -> None:
    """TiDB raises the version of a schema for what TiCDC never sends."""
    live = any_table(db, rand)
    if live is not None:
        table = replace(live.table, version=db.tick(rand))
        _silently(db, db.tick(rand), replace(live, table=table))


def silent_column(db: Database, rand: Random) -> None:
    """A nullable column comes, and the changefeed leaves the DDL out."""
    live = any_table(db, rand)
    if live is None or len(live.specs) > 6:
        silent_version(db, rand)
        return
    item = spec(rand.choice(tuple(KINDS)), f"s{db.fresh()}", nullable=True, default=False)
    specs = (*live.specs, item)
    table = replace(live.table, columns=columns_of(specs, virtual_columns(live)), version=db.tick(rand))
    rows: dict[Key, Row] = {key: {**row, item.column.name: None} for key, row in live.rows.items()}
    _silently(db, db.tick(rand), live_table(live.uid, table, specs, rows))


def hidden_drop(db: Database, rand: Random) -> None:
    """A nullable column is dropped, and the changefeed's event filter leaves the DDL out: rows lack it from then on."""
    live = any_table(db, rand)
    item = _plain_column(live, rand)
    if live is None or item is None or not item.column.nullable or len(live.specs) - len(live.keys) < 2:
        return
    specs = tuple(other for other in live.specs if other is not item)
    table = replace(live.table, columns=columns_of(specs, virtual_columns(live)), version=db.tick(rand))
    name = item.column.name
    rows = {key: {at: row[at] for at in row if at != name} for key, row in live.rows.items()}
    ts = db.tick(rand)
    db.hidden_drops.setdefault(live.uid, []).append((ts, name))
    _silently(db, ts, live_table(live.uid, table, specs, rows))


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
    virtual: tuple[Column, ...] | None = None,
) -> None:
    """``virtual``: its virtual columns; ``None``: as before."""
    version, ts = db.tick(rand), db.tick(rand)
    columns = columns_of(specs, virtual_columns(live) if virtual is None else virtual)
    table = replace(
        live.table, columns=columns, indexes=live.table.indexes if indexes is None else indexes, version=version
    )
    held = live.rows if rows is None else {key: rows(row) for key, row in live.rows.items()}
    commit_change(db, ts, kind, query, live, live_table(live.uid, table, specs, held))


def _indexed(live: Live) -> set[str]:
    return {name for index in live.table.indexes for name in index.columns}


def _plain_column(live: Live | None, rand: Random) -> Spec | None:
    plain = [item for item in live.specs if item.column.name not in _indexed(live)] if live else []
    return rand.choice(plain) if plain else None
