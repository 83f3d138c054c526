"""Ids and versions of tables, for a source that has none: a server's binlog.

A table has its id from CREATE or TRUNCATE to DROP or the next TRUNCATE, also over a RENAME, as in TiDB. Ids are counted
in the state. A version is the commit_ts of the DDL that made it. Both depend only on the state and the binlog, so
reading again gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ticdc_spark.model import SchemaChange, Table, TableName


def first_ids(tables: Iterable[Table], commit_ts: int) -> tuple[Table, ...]:
    """Tables of a new changefeed, numbered from 1.

    Their version, and its ``version_of_rows``, are below ``commit_ts``, where the changefeed begins.
    """
    return tuple(replace(table, table_id=at, version=commit_ts - 2) for at, table in enumerate(tables, 1))


def follow_ids(
    changes: Iterable[SchemaChange], after: Mapping[TableName, Table], commit_ts: int, last: int
) -> tuple[tuple[SchemaChange, ...], dict[TableName, Table], int]:
    """A DDL at ``commit_ts`` with the ids and versions of its tables, the tables ``after`` it, and the last id.

    ``last``: the last id that was given before. A table without an id gets one at a TRUNCATE.
    """
    given: list[SchemaChange] = []
    tables = dict(after)
    for change in changes:
        before, table = change.pre_table, change.table
        if table is not None:
            if before is None or change.kind == "truncate table":
                last += 1
                table = replace(table, table_id=last, version=commit_ts)
            elif table.version is None and before.version is not None:
                table = replace(table, version=commit_ts)
            tables[table.full_name] = table
        given.append(replace(change, commit_ts=commit_ts, table=table))
    return tuple(given), tables, last


def version_of_rows(table: Table) -> int | None:
    """The version of a table after its rows have shown more of it than its DDL.

    Rows are above the DDL, so this version is not above them, and no other DDL has it.
    """
    return None if table.version is None else table.version + 1
