"""How the names in a batch are spelled; and the names in a statement."""

from __future__ import annotations

import pytest

from ticdc_spark.ddl import change_tables, statement_of
from ticdc_spark.ddl.known_names import KnownNames, Names
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.references import references, with_names
from ticdc_spark.model import Column, ColumnType, SchemaChange, Table, TableName
from ticdc_spark.replicate.plan.names import is_guessed
from ticdc_spark.replicate.plan.spelling import by_source, databases_after, scan_names, spell
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState, drop
from ticdc_spark.spark.decode.control import BootstrapRead, DdlRead


def known(*tables: str, databases: str = "", exact: bool = False) -> KnownNames:
    return KnownNames(Names(tables=tuple(map(name, tables)), databases=tuple(databases.split()), exact=exact))


def name(text: str) -> TableName:
    schema, table = text.split(".")
    return schema, table


@pytest.mark.parametrize(
    ("tables", "databases", "asked", "meant"),
    [
        (["s.t"], "", "S.T", "s.t"),
        (["s.u"], "", "S.t", "s.t"),
        ([], "s", "S.T", "s.T"),
        (["s.t"], "", "other.t", "other.t"),
        ([], "", "S.t", "S.t"),
        (["s.ΟΔΟΣ"], "", "s.οδοσ", "s.ΟΔΟΣ"),
        (["s.ΟΔΟΣ"], "", "s.οδος", "s.οδος"),
        (["s.İx"], "", "s.ix", "s.İx"),
    ],
)
def test_names_that_are_equal_without_case_are_spelled_as_they_were_met_first(
    tables: list[str], databases: str, asked: str, meant: str
) -> None:
    names = known(*tables, databases=databases)
    assert names.table(name(asked)) == names.of_rows(name(asked)) == name(meant)
    names.add(name(asked))
    assert names.table(name(asked)) == name(meant)
    if asked.isascii():
        assert names.table(name(asked.swapcase())) == name(meant)
    again = KnownNames(names.names())
    assert again.names() == names.names()


def test_where_rows_alone_tell_tables_apart_they_keep_their_names() -> None:
    names = known("s.t", exact=True)
    assert [names.of_rows(name(one)) for one in ("s.T", "S.t")] == [("s", "T"), ("S", "t")]
    assert names.table(("S", "T")) == ("s", "t"), "SQL is as somebody typed it"
    names.meet(("s", "T"))
    assert names.table(("s", "T")) == ("s", "t")
    names.add(("s", "T"))
    assert [names.table(name(one)) for one in ("s.T", "s.t")] == [("s", "T"), ("s", "t")]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("CREATE TABLE a.b LIKE c", "+a.b c"),
        ("ALTER TABLE a RENAME TO b.c, ADD COLUMN a INT", "a +b.c"),
        ("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b", "a b"),
        ("RENAME TABLE a TO b, b TO c", "a +b b +c"),
        ("DROP TABLE a, b.c", "a b.c"),
        ("TRUNCATE a", "a"),
        ("FLASHBACK TABLE a TO b", "a +b"),
        ("CREATE DATABASE a", "+a."),
        ("DROP DATABASE a", "a."),
        ("CREATE VIEW v AS SELECT 1", ""),
    ],
)
def test_the_names_in_a_statement_and_others_in_their_place(sql: str, found: str) -> None:
    statement = parse(sql)
    named = references(statement)
    assert [
        ("+" if one.is_new else "") + ".".join(part for part in one.name if part is not None) for one in named
    ] == found.split()
    numbered = [("s", f"t{at}") for at in range(len(named))]
    again = references(with_names(statement, numbered))
    if "DATABASE" in sql:
        assert [one.name for one in again] == [("s", "")]
    else:
        assert [one.name for one in again] == numbered


def ddl(query: str, ts: int, schema: str = "s", table: str = "", offset: int = 0) -> DdlRead:
    change = SchemaChange(commit_ts=ts, query=query, kind="", schema=schema, name=table)
    return DdlRead(topic="t", partition=0, offset=offset, seq=0, change=change)


def spelled(progress: Progress, *events: DdlRead) -> list[SchemaChange]:
    found = spell(progress, events, scan_names(progress)).controls
    return [event.change for event in found if isinstance(event, DdlRead)]


def test_a_ddl_sees_what_those_before_it_make_wherever_they_stand_in_the_batch() -> None:
    progress = Progress(job="j", tables=(TableState(schema="s", name="a"),))
    later, rename, made = spelled(
        progress,
        ddl("ALTER TABLE X ADD COLUMN c INT", 30),
        ddl("RENAME TABLE A TO x", 20),
        ddl("CREATE TABLE A LIKE x", 40),
    )
    assert change_tables(later) == ((("s", "x"),), (("s", "x"),))
    assert change_tables(rename) == ((("s", "a"),), (("s", "x"),))
    assert change_tables(made) == ((), (("s", "a"),)), "the name that was met first"


def test_a_chain_of_renames_at_one_commit_ts_is_followed_by_its_names() -> None:
    tables = (TableState(schema="s", name="a"), TableState(schema="s", name="b"))
    one, two, three = spelled(
        Progress(job="j", tables=tables),
        ddl("RENAME TABLE x TO B", 20),
        ddl("RENAME TABLE A TO X", 20),
        ddl("RENAME TABLE B TO A", 20),
    )
    assert change_tables(one) == ((("s", "X"),), (("s", "b"),))
    assert change_tables(two) == ((("s", "a"),), (("s", "X"),))
    assert change_tables(three) == ((("s", "b"),), (("s", "a"),))


def test_a_ddl_of_names_as_they_are_known_is_left_as_it_is() -> None:
    event = ddl("ALTER TABLE `t` ADD COLUMN c INT", 20, table="t")
    progress = Progress(job="j", tables=(TableState(schema="s", name="t"),))
    assert spelled(progress, event) == [event.change]


def test_the_sql_of_a_ddl_stays_as_it_was_typed() -> None:
    progress = Progress(job="j", tables=(TableState(schema="s", name="t"),))
    (change,) = spelled(progress, ddl("DROP DATABASE S", 20, schema=""))
    assert (change.query, change.schema, statement_of(change)) == ("DROP DATABASE S", "", parse("DROP DATABASE s"))


def test_a_table_of_which_a_message_tells_the_schema_gets_its_known_name() -> None:
    columns = (Column(name="id", type=ColumnType(name="int")),)
    table = Table(schema="S", name="T", columns=columns)
    progress = Progress(job="j", tables=(TableState(schema="s", name="t"),))
    read = BootstrapRead(topic="t", partition=0, offset=0, seq=0, table=table)
    (found,) = spell(progress, [read], scan_names(progress)).controls
    assert isinstance(found, BootstrapRead)
    assert (found.table.schema, found.table.name, found.table.columns) == ("s", "t", columns)


def test_a_queued_ddl_and_the_ddl_that_makes_its_table_are_of_one_name_whichever_is_read_first() -> None:
    first = spell(Progress(job="j"), [ddl("RENAME TABLE A TO b", 50)], Names()).controls[0]
    assert isinstance(first, DdlRead)
    waits = QueuedDdl(change=first.change, topic="t", partition=0, offset=0)
    progress = Progress(job="j", ddls=(waits,))
    create = ddl("CREATE TABLE a (id INT PRIMARY KEY)", 40)
    found = spell(progress, [create], scan_names(progress))
    assert [change_tables(one.change) for one in found.progress.ddls] == [((("s", "A"),), (("s", "b"),))]
    assert isinstance(found.controls[0], DdlRead)
    assert change_tables(found.controls[0].change) == ((), (("s", "A"),))


def test_a_rename_into_another_database_finds_its_table_by_its_name_alone() -> None:
    """Open's message has only the database of the new name."""
    tables = (TableState(schema="s", name="a"), TableState(schema="s", name="c"), TableState(schema="z", name="c"))
    gone = drop(("other", "a"), 5, ())
    progress = Progress(job="j", tables=(*tables, gone))
    names = enumerate(("A", "c", "s.c", "x"), 50)
    events = [ddl(f"RENAME TABLE {one} TO Other.b", ts, schema="other") for ts, one in names]
    found = spelled(progress, *events)
    assert [change_tables(one)[0] for one in found] == [
        (("s", "a"),),
        (("other", "c"),),
        (("s", "c"),),
        (("other", "x"),),
    ]
    assert [is_guessed(one) for one in found] == [True, True, False, True]
    assert [one.candidates for one in found] == [(), (("s", "c"), ("z", "c")), (), ()]
    inside = ddl("RENAME TABLE a TO b", 50, schema="other")
    assert [change_tables(one)[0] for one in spelled(progress, inside)] == [(("other", "a"),)]
    own = Progress(job="j", tables=(*tables, TableState(schema="other", name="a")))
    (both,) = spelled(own, events[0])
    assert (change_tables(both)[0], both.candidates) == ((("other", "a"),), (("s", "a"),))


def test_a_rename_that_was_applied_does_not_look_for_its_table_in_other_databases() -> None:
    progress = Progress(job="j", tables=(TableState(schema="s", name="a"),), applied=60)
    (found,) = spelled(progress, ddl("RENAME TABLE a TO other.b", 50, schema="other"))
    assert change_tables(found)[0] == (("other", "a"),)


def test_a_database_whose_tables_were_read_before_it_has_their_name() -> None:
    create = ddl("CREATE TABLE t (id INT PRIMARY KEY)", 40, table="t").change
    progress = Progress(job="j", ddls=(QueuedDdl(change=create, topic="t", partition=0, offset=0),))
    made, dropped = spelled(progress, ddl("CREATE DATABASE S", 10, schema=""), ddl("DROP DATABASE S", 50, schema=""))
    assert [statement_of(made), statement_of(dropped)] == [parse("CREATE DATABASE s"), parse("DROP DATABASE s")]


def test_tables_that_are_not_known_are_of_one_database() -> None:
    names = known("other.t")
    for one in ("S.a", "s.b", "Other.c"):
        names.add(name(one))
    assert [names.of_rows(name(one)) for one in ("s.a", "S.b", "Other.c")] == [("S", "a"), ("S", "b"), ("other", "c")]


def test_databases_are_remembered_until_they_are_dropped() -> None:
    made, dropped = (
        QueuedDdl(change=ddl(f"{verb} DATABASE S", ts, schema="").change, topic="t", partition=0, offset=0)
        for verb, ts in (("CREATE", 10), ("DROP", 20))
    )
    assert databases_after(("a",), [made]) == ("a", "S")
    assert databases_after(("a", "S"), [dropped]) == ("a",)


def test_a_table_that_the_source_lists_in_another_case_is_the_one_that_the_job_has() -> None:
    progress = Progress(job="j", tables=(TableState(schema="s", name="t"), TableState(schema="s", name="a")))
    there = [("S", "t"), ("s", "a"), ("S", "u")]
    assert by_source(progress, there) == dict(zip(there, [("s", "t"), ("s", "a"), ("s", "u")], strict=True))


def test_a_table_that_the_source_lists_before_its_create_is_read_has_the_database_that_the_job_knows() -> None:
    progress = Progress(job="j", databases=("b",))
    assert by_source(progress, [("B", "t")]) == {("B", "t"): ("b", "t")}
