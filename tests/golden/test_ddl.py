"""The tables that DDL alone gives, against those that TiDB had: every DDL of every case, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.support.vectors import Case, cases, needs_vectors, truth_table
from ticdc_spark import mysql
from ticdc_spark.ddl import apply_ddl, ddl_tables, fold, parse_create
from ticdc_spark.model import Column, Table, TableName

pytestmark = needs_vectors

CLASSIC = [case for case in cases() if case.producer == "tiflow"]
every_case = pytest.mark.parametrize("case", cases(), ids=str)


class Folded:
    """The tables of a case, while its DDL are read."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.tables: dict[TableName, Table] = {}
        self.dropped: dict[TableName, Table] = {}

    def differences(self) -> Iterator[Difference]:
        for event in self.case.events:
            where = f"{self.case}/{event['schema']}.{event.get('table', '')}" if "schema" in event else ""
            if event["kind"] == "ddl":
                yield from self.ddl(where, event)
            elif event["kind"] in ("bootstrap", "insert", "update", "delete"):
                columns = event.get("table_columns") or event.get("columns") or event["pre_columns"]
                yield from self.compare(where, event, columns, whole=event["kind"] == "bootstrap")

    def ddl(self, where: str, event: dict[str, Any]) -> Iterator[Difference]:
        # what Open's messages have; it is not the one under which a RENAME into another database runs
        schema = event["schema"]
        effect = apply_ddl(self.tables, schema, event["query"], dropped=self.dropped)
        if effect.unsupported:
            yield Difference("unsupported", where, effect.unsupported, event["query"])
        before, after = ddl_tables(event["query"], schema)
        named = event.get("table") and "view" not in event["ddl_type_name"]
        if named and (event["schema"], event["table"]) not in after + before:
            yield Difference("name", where, (before, after), event["query"])
        self.dropped |= {name: self.tables[name] for name in effect.dropped if name in self.tables}
        self.tables = fold(self.tables, effect)
        if event.get("table_columns") and event["ddl_type_name"] not in ("drop table", "drop view", "create view"):
            yield from self.compare(where, event, event["table_columns"], whole=True)

    def compare(
        self, where: str, event: dict[str, Any], columns: list[dict[str, Any]], *, whole: bool
    ) -> Iterator[Difference]:
        table = self.tables.get((event["schema"], event["table"]))
        if table is None:
            yield Difference("table", where, None, event["kind"])
            return
        truth = truth_table(event, [column for column in columns if not column["name"].startswith("_V$_")])
        ours = [column for column in table.columns if whole or not column.virtual]
        names = [column.name for column in ours], [column.name for column in truth.columns]
        if names[0] != names[1]:
            yield Difference("columns", where, *names)
            return
        for mine, theirs in zip(ours, truth.columns, strict=True):
            yield from column_differences(f"{where}.{mine.name}", mine, theirs, whole)
        primary = next((set(index.columns) for index in table.indexes if index.primary), set())
        if primary != {name for index in truth.indexes for name in index.columns}:
            yield Difference("key", where, primary, truth.indexes)


def column_differences(where: str, ours: Column, theirs: Column, whole: bool) -> Iterator[Difference]:
    known = ours.type if theirs.type.collate else replace(ours.type, collate=None)
    if known != theirs.type:
        yield Difference("type", where, ours.type, theirs.type)
    if ours.nullable != theirs.nullable:
        yield Difference("nullable", where, ours.nullable, theirs.nullable)
    if ours.stored != theirs.stored:
        yield Difference("stored", where, ours.stored, theirs.stored)
    if whole and ours.virtual != theirs.virtual:
        yield Difference("virtual", where, ours.virtual, theirs.virtual)
    if whole and ours.default != theirs.default:
        yield Difference("default", where, ours.default, theirs.default)


@cache
def folded(case: Case) -> tuple[list[Difference], dict[TableName, Table]]:
    state = Folded(case)
    return list(state.differences()), state.tables


@every_case
def test_ddl_alone_gives_the_tables(case: Case) -> None:
    assert unexplained("ddl", folded(case)[0]) == []


@cache
def final_differences(case: Case) -> list[Difference]:
    found = []
    tables = folded(case)[1]
    expected = {}
    for final in case.final_state["tables"]:
        if final["replicated"] and "VIEW" not in final["show_create"][:80]:
            expected[final["schema"], final["table"]] = parse_create(final["show_create"], final["schema"])
    for name in expected.keys() | tables.keys():
        ours, theirs = tables.get(name), expected.get(name)
        where = f"{case}/{'.'.join(name)}"
        if ours is None or theirs is None:
            found.append(Difference("final table", where, ours, theirs))
            continue
        for mine, other in zip(ours.columns, theirs.columns, strict=False):
            found += column_differences(f"{where}.{mine.name}", mine, other, whole=True)
        names = [[column.name for column in table.columns] for table in (ours, theirs)]
        if names[0] != names[1]:
            found.append(Difference("columns", where, *names))
        if mysql.handle_key(ours) != mysql.handle_key(theirs):
            found.append(Difference("key", where, mysql.handle_key(ours), mysql.handle_key(theirs)))
        indexes = [sorted((i.name, i.unique, i.nullable, i.columns) for i in table.indexes) for table in (ours, theirs)]
        if indexes[0] != indexes[1]:
            found.append(Difference("indexes", where, *indexes))
    return found


@pytest.mark.parametrize("case", CLASSIC, ids=str)
def test_the_last_tables_equal_show_create_table(case: Case) -> None:
    assert unexplained("ddl", final_differences(case)) == []


def test_every_exception_is_still_needed() -> None:
    found = [difference for case in cases() for difference in folded(case)[0]]
    found += [difference for case in CLASSIC for difference in final_differences(case)]
    assert unneeded("ddl", found) == []
