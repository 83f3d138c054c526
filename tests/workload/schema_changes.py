"""Schema changes on demand. Each takes its commit_ts from ``tick`` before it touches a table."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from tests.workload.catalogue import Blueprint, any_column, blueprint, new_table
from tests.workload.columns import KINDS, WIDER, Rand, Recipe, recipe, widen
from tests.workload.config import DdlAction
from tests.workload.tables import LiveTable, Name, create_sql
from ticdc_spark.model import Index, Row, SchemaChange, Table
from ticdc_spark.mysql import NO_CONSTANT, default_value

_LEAST_TABLES = 4
"""Below so many tables nothing is dropped."""


class Shop:
    """All live tables, and where names, ids and timestamps come from."""

    def __init__(self, rand: Rand, tick: Callable[[], int], schema: str) -> None:
        self.rand = rand
        self.tick = tick
        self.schema = schema
        self.databases = [schema]
        self.tables: dict[Name, LiveTable] = {}
        self.number = 0

    def fresh(self) -> int:
        """A number that was never used in this workload."""
        self.number += 1
        return self.number

    def any_table(self) -> LiveTable:
        """One of the live tables; there must be one."""
        names = list(self.tables)
        return self.tables[names[int(self.rand() * len(names))]]

    def any_database(self) -> str:
        """One of the databases."""
        return self.databases[int(self.rand() * len(self.databases))]


def create_database(shop: Shop, name: str = "") -> Iterator[SchemaChange]:
    """CREATE DATABASE."""
    schema, ts = name or f"db_{shop.fresh()}", shop.tick()
    if schema not in shop.databases:
        shop.databases.append(schema)
    yield SchemaChange(commit_ts=ts, query=f"CREATE DATABASE `{schema}`", kind="QUERY", schema=schema)


def drop_database(shop: Shop) -> Iterator[SchemaChange]:
    """DROP DATABASE with its tables; never the shop's own."""
    if len(shop.databases) < 2:
        yield from create_database(shop)
        return
    schema, ts = shop.databases[1 + int(shop.rand() * (len(shop.databases) - 1))], shop.tick()
    shop.databases.remove(schema)
    for name in [name for name in shop.tables if name[0] == schema]:
        del shop.tables[name]
    yield SchemaChange(commit_ts=ts, query=f"DROP DATABASE `{schema}`", kind="QUERY", schema=schema)


def create_table(shop: Shop, schema: str = "", name: str = "", plan: Blueprint | None = None) -> Iterator[SchemaChange]:
    """CREATE TABLE of a given or of any blueprint."""
    plan = plan or blueprint(shop.rand)
    version, ts = shop.tick(), shop.tick()
    table = new_table(schema or shop.any_database(), name or f"extra_{shop.fresh()}", plan, 100 + shop.fresh(), version)
    shop.tables[table.schema, table.name] = LiveTable(table, plan[0])
    yield _change(ts, "CREATE", create_sql(table.name, *plan), table, None)


def drop_table(shop: Shop) -> Iterator[SchemaChange]:
    """DROP TABLE."""
    if len(shop.tables) < _LEAST_TABLES:
        yield from create_table(shop)
        return
    table, ts = shop.any_table().table, shop.tick()
    del shop.tables[table.schema, table.name]
    yield _change(ts, "ERASE", f"DROP TABLE `{table.schema}`.`{table.name}`", table, table)


def recreate_table(shop: Shop) -> Iterator[SchemaChange]:
    """DROP TABLE and CREATE TABLE of other columns under the same name."""
    table, ts = shop.any_table().table, shop.tick()
    del shop.tables[table.schema, table.name]
    yield _change(ts, "ERASE", f"DROP TABLE `{table.schema}`.`{table.name}`", table, table)
    yield from create_table(shop, table.schema, table.name)


def truncate_table(shop: Shop) -> Iterator[SchemaChange]:
    """TRUNCATE TABLE: a new table id, and no row is deleted one by one."""
    live, ts = shop.any_table(), shop.tick()
    before = live.table
    live.clear()
    live.evolve(replace(before, table_id=100 + shop.fresh()), live.recipes)
    yield _change(ts, "TRUNCATE", f"TRUNCATE TABLE `{before.name}`", live.table, before)


def rename_table(shop: Shop) -> Iterator[SchemaChange]:
    """RENAME TABLE within its schema."""
    live, ts = shop.any_table(), shop.tick()
    new = f"renamed_{shop.fresh()}"
    yield _rename(shop, ts, live, (live.table.schema, new), f"RENAME TABLE `{live.table.name}` TO `{new}`")


def rename_chain(shop: Shop) -> Iterator[SchemaChange]:
    """RENAME b TO c, then a TO b: a name lives on with another table behind it."""
    first, second = shop.any_table(), shop.any_table()
    freed = (second.table.schema, second.table.name)
    for live, new in ((second, (freed[0], f"old_{shop.fresh()}")), (first, freed)):
        if live is first and first is second:
            return
        ts = shop.tick()
        yield _rename(shop, ts, live, new, f"RENAME TABLE {_full(live.table)} TO `{new[0]}`.`{new[1]}`")


def rename_many(shop: Shop) -> Iterator[SchemaChange]:
    """One statement that renames two tables: two events of one commit_ts."""
    pair, ts = {shop.any_table().table, shop.any_table().table}, shop.tick()
    for table in sorted(pair, key=lambda table: (table.schema, table.name)):
        new = f"many_{shop.fresh()}"
        query = f"RENAME TABLE {_full(table)} TO `{table.schema}`.`{new}`"
        yield _rename(shop, ts, shop.tables[table.schema, table.name], (table.schema, new), query)


def move_table(shop: Shop) -> Iterator[SchemaChange]:
    """RENAME TABLE into another database, often under its old name."""
    live = shop.any_table()
    others = [name for name in shop.databases if name != live.table.schema]
    if not others:
        yield from create_database(shop)
        others = shop.databases[1:]
    schema, ts = others[int(shop.rand() * len(others))], shop.tick()
    taken = (schema, live.table.name) in shop.tables
    new = (schema, f"moved_{shop.fresh()}" if taken else live.table.name)
    yield _rename(shop, ts, live, new, f"RENAME TABLE {_full(live.table)} TO `{new[0]}`.`{new[1]}`")


def add_column(shop: Shop) -> Iterator[SchemaChange]:
    """ADD COLUMN; rows that exist get the default, later ones may have an explicit NULL."""
    live = shop.any_table()
    item = any_column(shop.rand, f"add_{shop.fresh()}")
    name, fill = item.column.name, default_value(item.column)
    assert fill is not NO_CONSTANT, "the catalogue has only constant defaults"

    def with_column(row: Row) -> Row:
        return {**row, name: fill}

    place = f" AFTER `{live.recipes[0].column.name}`" if shop.rand() < 0.3 else ""
    query = f"ALTER TABLE `{live.table.name}` ADD COLUMN {item.definition()}{place}"
    yield _alter(shop, live, query, (*live.recipes, item), with_column)


def drop_column(shop: Shop) -> Iterator[SchemaChange]:
    """DROP COLUMN of a column that no index needs."""
    live = shop.any_table()
    plain = live.plain()
    if len(plain) < 2:
        yield from add_column(shop)
        return
    name = plain[int(shop.rand() * len(plain))].column.name
    query = f"ALTER TABLE `{live.table.name}` DROP COLUMN `{name}`"
    recipes = tuple(item for item in live.recipes if item.column.name != name)
    yield _alter(shop, live, query, recipes, lambda row: {key: row[key] for key in row if key != name})


def rename_column(shop: Shop) -> Iterator[SchemaChange]:
    """RENAME COLUMN of a column that no index needs."""
    live = shop.any_table()
    plain = live.plain()
    if not plain:
        yield from add_column(shop)
        return
    item = plain[int(shop.rand() * len(plain))]
    old, new = item.column.name, f"named_{shop.fresh()}"
    query = f"ALTER TABLE `{live.table.name}` RENAME COLUMN `{old}` TO `{new}`"
    renamed = replace(item, column=replace(item.column, name=new))
    recipes = tuple(renamed if other is item else other for other in live.recipes)
    yield _alter(shop, live, query, recipes, lambda row: {new if key == old else key: row[key] for key in row})


def modify_column(shop: Shop) -> Iterator[SchemaChange]:
    """MODIFY COLUMN to a wider type."""
    live = shop.any_table()
    plain = [item for item in live.plain() if item.kind in WIDER]
    if not plain:
        yield from add_column(shop)
        return
    item = plain[int(shop.rand() * len(plain))]
    name, kind, column = item.column.name, WIDER[item.kind], item.column
    default = column.default is not None and bool(KINDS[kind][2])
    wider = recipe(kind, name, nullable=column.nullable, default=default, nulls=item.nulls)
    query = f"ALTER TABLE `{live.table.name}` MODIFY COLUMN {wider.definition()}"
    recipes = tuple(wider if other is item else other for other in live.recipes)
    yield _alter(shop, live, query, recipes, lambda row: {**row, name: widen(row[name], item.kind)})


def add_index(shop: Shop) -> Iterator[SchemaChange]:
    """CREATE INDEX."""
    live = shop.any_table()
    plain = [item for item in live.plain() if item.kind not in ("text", "json", "blob")]
    if not plain:
        yield from add_column(shop)
        return
    column = plain[0].column
    index = Index(
        name=f"idx_{shop.fresh()}", unique=False, primary=False, nullable=column.nullable, columns=(column.name,)
    )
    query = f"CREATE INDEX `{index.name}` ON `{live.table.name}` (`{column.name}`)"
    yield _alter(shop, live, query, live.recipes, None, "CINDEX", (*live.table.indexes, index))


def drop_index(shop: Shop) -> Iterator[SchemaChange]:
    """DROP INDEX of an index that is not unique."""
    live = shop.any_table()
    index = next((index for index in live.table.indexes if not index.unique), None)
    if index is None:
        yield from add_index(shop)
        return
    left = tuple(other for other in live.table.indexes if other is not index)
    query = f"DROP INDEX `{index.name}` ON `{live.table.name}`"
    yield _alter(shop, live, query, live.recipes, None, "DINDEX", left)


def _alter(
    shop: Shop,
    live: LiveTable,
    query: str,
    recipes: tuple[Recipe, ...],
    rows: Callable[[Row], Row] | None,
    kind: str = "ALTER",
    indexes: tuple[Index, ...] | None = None,
) -> SchemaChange:
    version, ts = shop.tick(), shop.tick()
    before = live.table
    after = replace(
        before,
        columns=tuple(item.column for item in recipes),
        indexes=before.indexes if indexes is None else indexes,
        version=version,
    )
    if rows is not None:
        live.evolved_rows(rows)
    live.evolve(after, recipes)
    return _change(ts, kind, query, after, before)


def _rename(shop: Shop, ts: int, live: LiveTable, new: Name, query: str) -> SchemaChange:
    before = live.table
    after = replace(before, schema=new[0], name=new[1])
    del shop.tables[before.schema, before.name]
    live.evolve(after, live.recipes)
    shop.tables[new] = live
    return _change(ts, "RENAME", query, after, before)


def _change(ts: int, kind: str, query: str, table: Table, pre_table: Table | None) -> SchemaChange:
    return SchemaChange(
        commit_ts=ts, query=query, kind=kind, schema=table.schema, name=table.name, table=table, pre_table=pre_table
    )


def _full(table: Table) -> str:
    return f"`{table.schema}`.`{table.name}`"


ACTIONS: dict[DdlAction, Callable[[Shop], Iterator[SchemaChange]]] = {
    "create_table": create_table,
    "drop_table": drop_table,
    "recreate_table": recreate_table,
    "truncate_table": truncate_table,
    "rename_table": rename_table,
    "rename_chain": rename_chain,
    "rename_many": rename_many,
    "move_table": move_table,
    "create_database": create_database,
    "drop_database": drop_database,
    "add_column": add_column,
    "drop_column": drop_column,
    "rename_column": rename_column,
    "modify_column": modify_column,
    "add_index": add_index,
    "drop_index": drop_index,
}
"""Every schema change by name."""
