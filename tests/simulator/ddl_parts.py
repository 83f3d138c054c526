"""What the schema changes have in common: names, and how they are committed."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from tests.simulator.database import Database, Live, Name, live_table
from tests.simulator.letters import NAMES
from ticdc_spark.model import SchemaChange, Table


def commit_change(db: Database, ts: int, kind: str, query: str, before: Live | None, after: Live) -> None:
    state = {name: live for name, live in db.now.items() if before is None or live.uid != before.uid}
    state[after.name] = after
    change = change_of(ts, kind, query, after.table, before.table if before else None)
    db.commit_ddl(state, change, uids=(after.uid,))


def change_of(ts: int, kind: str, query: str, table: Table, pre_table: Table | None) -> SchemaChange:
    return SchemaChange(
        commit_ts=ts, query=query, kind=kind, schema=table.schema, name=table.name, table=table, pre_table=pre_table
    )


def named(live: Live, new: Name) -> Live:
    return replace(live, table=replace(live.table, schema=new[0], name=new[1]))


def any_table(db: Database, rand: Random) -> Live | None:
    return rand.choice(tuple(db.now.values())) if db.now else None


def free_name(db: Database, rand: Random, schema: str | None = None) -> Name | None:
    schemas = [schema] if schema else db.databases
    free = [(one, name) for one in schemas for name in NAMES if (one, name) not in db.now]
    return rand.choice(free) if free else None


def full_name(name: Name) -> str:
    return f"`{name[0]}`.`{name[1]}`"


def is_alike(one: Live, other: Live) -> bool:
    """Whether two tables have the same columns and key."""
    return one.table.columns == other.table.columns and one.keys == other.keys


def create_alike(db: Database, rand: Random, live: Live, name: Name) -> None:
    """CREATE TABLE … LIKE."""
    version, ts = db.tick(rand), db.tick(rand)
    table = replace(live.table, schema=name[0], name=name[1], table_id=100 + db.fresh(), version=version)
    query = f"CREATE TABLE {full_name(name)} LIKE {full_name(live.name)}"
    commit_change(db, ts, "CREATE", query, None, live_table(db.new_uid(), table, live.specs, {}))
