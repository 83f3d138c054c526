"""Event filters and table rules: what is left out, and why."""

from __future__ import annotations

import re

import pytest

from tests.support.changefeed_tables import change, changefeed, event_filter, filters, table
from ticdc_spark.capture.base import CapturedDdl
from ticdc_spark.changefeed.config.settings import EventFilter
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.filter.ddl_events import DDL_EVENTS, EVENTS, ddl_event
from ticdc_spark.changefeed.filter.tables import has_valid_index
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Row, SchemaChange, Table
from ticdc_spark.protocols.shared.tidb_ddl_codes import ddl_type_code

T = table("t (id int primary key, name varchar(9), n int, u int, unique key u (u))")
ROW: Row = {"id": "1", "name": "a", "n": "1", "u": "1"}


def router(*entries: EventFilter, rules: tuple[str, ...] = ("*.*",), **settings: object) -> Router:
    return Router(changefeed(filter=filters(rules=rules, event_filters=entries), **settings))


def entry(*events: str, matcher: tuple[str, ...] = ("test.*",), **more: object) -> EventFilter:
    return event_filter(matcher=matcher, ignore_event=events, **more)  # type: ignore[arg-type]


def kinds(found: Router, before: Row | None, after: Row | None, of: Table = T) -> list[str]:
    return [one.op for one in found.route(of).events(change(of, before, after))]


INSERT, DELETE = (None, ROW), (ROW, None)
UPDATE = (ROW, {**ROW, "n": "2"})
KEY_UPDATE = (ROW, {**ROW, "id": "2"})


@pytest.mark.parametrize(
    ("events", "sent"),
    [
        ([], [["insert"], ["update"], ["delete"], ["delete", "insert"]]),
        (["insert"], [[], ["update"], ["delete"], ["delete"]]),
        (["delete"], [["insert"], ["update"], [], ["insert"]]),
        # an update that would be split is an update to the filter
        (["update"], [["insert"], [], ["delete"], []]),
        (["all dml"], [[], [], [], []]),
        (["all ddl", "drop table"], [["insert"], ["update"], ["delete"], ["delete", "insert"]]),
    ],
)
def test_rows_by_kind(events: list[str], sent: list[list[str]]) -> None:
    found = router(entry(*events))
    assert [kinds(found, *images) for images in (INSERT, UPDATE, DELETE, KEY_UPDATE)] == sent


def test_all_entries_that_match_apply() -> None:
    found = router(entry("insert"), entry("delete", matcher=("*.*", "!test.x")), entry("update", matcher=("test.x",)))
    assert [kinds(found, *images) for images in (INSERT, UPDATE, DELETE)] == [[], ["update"], []]
    assert kinds(router(entry("insert", matcher=("TEST.T",))), *INSERT) == []
    assert kinds(router(entry("insert", matcher=("TEST.T",)), case_sensitive=True), *INSERT) == ["insert"]


def test_rows_by_value() -> None:
    found = router(
        entry(
            ignore_insert_value_expr="name = 'a'",
            ignore_update_old_value_expr="n = 1",
            ignore_update_new_value_expr="n = 9",
            ignore_delete_value_expr="n is null",
        )
    )
    assert kinds(found, None, ROW) == []
    assert kinds(found, None, {**ROW, "name": None}) == ["insert"]  # unknown is not true
    other = {**ROW, "n": "5"}
    assert kinds(found, ROW, other) == []
    assert kinds(found, other, {**ROW, "n": "9"}) == []
    assert kinds(found, other, {**ROW, "n": "6"}) == ["update"]
    assert kinds(found, {**ROW, "n": None}, None) == []
    assert kinds(found, ROW, None) == ["delete"]
    # the parts of an update of a key are a delete and an insert to the filter
    assert kinds(found, {**ROW, "n": None}, {**ROW, "id": "2", "name": "b"}) == ["insert"]
    assert kinds(found, other, {**other, "id": "2"}) == ["delete"]


@pytest.mark.parametrize(
    ("columns", "changed", "sent"),
    [
        (("n",), {"n": "2"}, []),
        (("N", "no such column"), {"n": "2"}, []),
        (("n",), {"n": "2", "name": "b"}, ["update"]),
        (("n", "name"), {"n": None, "name": "b"}, []),
        (("u",), {"u": "2"}, ["delete", "insert"]),  # a column of a unique index is never ignored
        (("id",), {"id": "2"}, ["delete", "insert"]),
        (("no such column",), {"n": "2"}, ["update"]),
    ],
)
def test_updates_of_columns_that_do_not_matter(columns: tuple[str, ...], changed: Row, sent: list[str]) -> None:
    found = router(entry(ignore_update_only_columns=columns))
    assert kinds(found, ROW, {**ROW, **changed}) == sent
    assert kinds(found, None, ROW) == ["insert"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"events": ("alter database",)},
            r"event-filters\[1\] ignore-event: 'alter database'.*allowed are all dml, all ddl",
        ),
        ({"events": ("Insert",)}, "'Insert' is no event"),
        ({"ignore_sql": ("^drop", "(")}, r"event-filters\[1\] ignore-sql: /\(/ is no regular expression"),
        ({"matcher": ("test",)}, r"event-filters\[1\] matcher: rule 'test'"),
        (
            {"ignore_insert_value_expr": "nope = 1"},
            r"event-filters\[1\] ignore-insert-value-expr 'nope = 1' for `test`.`t`",
        ),
        ({"ignore_update_old_value_expr": "sleep(1)"}, "ignore-update-old-value-expr.*function SLEEP"),
        ({"ignore_update_new_value_expr": "1 +"}, "ignore-update-new-value-expr '1 \\+'"),
        ({"ignore_delete_value_expr": "name"}, "ignore-delete-value-expr.*a text value as a condition"),
    ],
)
def test_what_is_wrong_is_named_by_entry_and_key(settings: dict[str, object], reason: str) -> None:
    events = settings.pop("events", ())
    with pytest.raises(UsageError, match=reason):
        router(entry(), entry(*events, **settings)).route(T)  # type: ignore[misc, arg-type]


def ddl(
    query: str, before: Table | None = T, after: Table | None = T, name: tuple[str, str] = ("test", "t")
) -> CapturedDdl:
    one = SchemaChange(commit_ts=1, query=query, kind="x", schema=name[0], name=name[1], pre_table=before, table=after)
    return CapturedDdl(commit_ts=1, changes=(one,), position="")


def verdict(found: Router, captured: CapturedDdl) -> str:
    (one,) = found.ddl(captured)
    return one.verdict


SQL_OF = {
    "create database": "CREATE DATABASE d",
    "drop database": "DROP SCHEMA d",
    "modify schema charset and collate": "ALTER DATABASE d CHARACTER SET utf8mb4",
    "create table": "CREATE TABLE t (a int)",
    "drop table": "DROP TABLE IF EXISTS `test`.`t`",
    "truncate table": "TRUNCATE t",
    "rename table": "ALTER TABLE t RENAME TO t2",
    "recover table": "FLASHBACK TABLE t",
    "create view": "CREATE OR REPLACE DEFINER=`root`@`%` VIEW v AS SELECT 1",
    "drop view": "DROP VIEW v",
    "modify table comment": "ALTER TABLE t COMMENT = 'x'",
    "modify table charset and collate": "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "add table partition": "ALTER TABLE t ADD PARTITION (PARTITION p1 VALUES LESS THAN (3))",
    "drop table partition": "ALTER TABLE t DROP PARTITION p1, p2",
    "truncate table partition": "ALTER TABLE t TRUNCATE PARTITION p1",
    "exchange table partition": "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE x",
    "reorganize table partition": "ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION a VALUES LESS THAN (1))",
    "alter table partitioning": "ALTER TABLE t PARTITION BY HASH(id) PARTITIONS 4",
    "remove table partitioning": "ALTER TABLE t REMOVE PARTITIONING",
    "add column": "/* note */ ALTER TABLE t ADD COLUMN a int FIRST",
    "drop column": "ALTER TABLE t DROP a",
    "modify column": "ALTER TABLE t CHANGE a b bigint",
    "set default value": "ALTER TABLE t ALTER a SET DEFAULT 1",
    "rebase auto id": "ALTER TABLE t AUTO_INCREMENT = 100",
    "add primary key": "ALTER TABLE t ADD PRIMARY KEY (a)",
    "drop primary key": "ALTER TABLE t DROP PRIMARY KEY",
    "create index": "CREATE UNIQUE INDEX i ON t (a)",
    "drop index": "ALTER TABLE t DROP INDEX i",
    "rename index": "ALTER TABLE t RENAME INDEX a TO b",
    "alter index visibility": "ALTER TABLE t ALTER INDEX i INVISIBLE",
    "alter ttl info": "ALTER TABLE t TTL = `a` + INTERVAL 1 DAY",
    "alter ttl remove": "ALTER TABLE t REMOVE TTL",
    "multi schema change": "ALTER TABLE t ADD a int, DROP b",
    "add foreign key": "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES x (b)",
    "drop foreign key": "ALTER TABLE t DROP FOREIGN KEY c",
    "add fulltext index": "ALTER TABLE t ADD FULLTEXT INDEX (a)",
}


@pytest.mark.parametrize("event", sorted({*DDL_EVENTS} - {"create hybrid index"}))
def test_ddl_by_kind(event: str) -> None:
    sql = SQL_OF[event]
    assert ddl_event(sql) == event
    is_database = "database" in event or "schema charset" in event
    captured = ddl(sql, None, None, ("test", "")) if is_database else ddl(sql)
    assert verdict(router(), captured) == "send"
    assert verdict(router(entry(event)), captured) == "ignore"
    assert verdict(router(entry("all ddl")), captured) == "ignore"
    others = [
        name for name in EVENTS if name not in (event, "all ddl", "alter table", event.replace("database", "schema"))
    ]
    assert verdict(router(entry(*others)), captured) == "send"


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE SEQUENCE s",
        "CREATE USER u",
        "GRANT ALL ON *.* TO u",
        "CREATE PLACEMENT POLICY p",
        "ANALYZE TABLE t",
        "ALTER TABLE t ENGINE = InnoDB",
        "ALTER TABLE t SET TIFLASH REPLICA 1",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (n > 1)",
        "ALTER TABLE t DROP CHECK c",
        "",
        "nonsense",
    ],
)
def test_other_ddl_is_not_replicated(sql: str) -> None:
    assert ddl_event(sql) is None
    assert verdict(router(), ddl(sql)) == "discard"


@pytest.mark.parametrize(
    ("sql", "event", "code"),
    [
        ("ALTER TABLE t ADD INDEX i (n), ALGORITHM=INPLACE, LOCK=NONE", "create index", 7),
        ("ALTER TABLE t ADD x INT, ALGORITHM=INSTANT", "add column", 5),
        ("ALTER TABLE t RENAME TO u, ALGORITHM=COPY", "rename table", 14),
        ("ALTER TABLE t DROP FOREIGN KEY f, LOCK=SHARED", "drop foreign key", 10),
        ("ALTER TABLE t ADD x INT, ADD CHECK (x > 1)", "multi schema change", 61),
        ("ALTER TABLE t ADD x INT, ENGINE=InnoDB", "multi schema change", 61),
        ("ALTER TABLE t CHARACTER SET utf8mb4, COLLATE utf8mb4_bin", "modify table charset and collate", 22),
        ("ALTER TABLE t ADD PARTITION PARTITIONS 2", "reorganize table partition", 64),
        ("ALTER TABLE t FIRST PARTITION LESS THAN (9)", "drop table partition", 20),
        ("ALTER TABLE t LAST PARTITION LESS THAN (9)", "add table partition", 19),
        ("ALTER TABLE t MERGE FIRST PARTITION LESS THAN (9)", "reorganize table partition", 64),
        ("ALTER TABLE t SPLIT MAXVALUE PARTITION LESS THAN (9)", "reorganize table partition", 64),
        ("ALTER TABLE `t`", "alter ttl info", 65),
        ("ALTER TABLE t DISCARD PARTITION p TABLESPACE", "reorganize table partition", 64),
        ("ALTER TABLE t ENGINE=InnoDB, ROW_FORMAT=DYNAMIC", None, 0),
        ("CREATE TABLE t AS SELECT 1", "create table", 3),
        ("RECOVER TABLE BY JOB 5", "recover table", 25),
        (
            "CREATE OR REPLACE ALGORITHM = UNDEFINED DEFINER = CURRENT_USER SQL SECURITY DEFINER VIEW `v` AS SELECT 1",
            "create view",
            21,
        ),
        ("CREATE DEFINER=`a b`@'%' VIEW v AS SELECT 1", "create view", 21),
        ("/*!50001 CREATE ALGORITHM=MERGE */ /*!50013 SQL SECURITY INVOKER */ VIEW v AS SELECT 1", "create view", 21),
        ("DROP VIEW IF EXISTS v", "drop view", 24),
        ("CREATE USER 'view'@'%' IDENTIFIED BY 'x'", None, 0),
        ("CREATE ROLE view", None, 0),
    ],
)
def test_the_kind_of_a_ddl_and_its_code_are_those_of_one_job_of_tidb(sql: str, event: str | None, code: int) -> None:
    assert (ddl_event(sql), ddl_type_code(sql)) == (event, code)


def test_alter_table_stands_for_its_kinds() -> None:
    found = router(entry("alter table"))
    for sql in (
        "ALTER TABLE t ADD a int",
        "CREATE INDEX i ON t (a)",
        "RENAME TABLE t TO t2",
        "ALTER TABLE t ADD a int, DROP b",
    ):
        assert verdict(found, ddl(sql)) == "ignore", sql
    for sql in ("TRUNCATE TABLE t", "DROP TABLE t", "CREATE TABLE t (a int)"):
        assert verdict(found, ddl(sql)) == "send", sql
    assert verdict(router(entry("drop schema")), ddl("DROP DATABASE test", None, None, ("test", ""))) == "ignore"


def test_ddl_by_sql() -> None:
    found = router(entry(ignore_sql=("^drop", r"add\s+column")))
    assert verdict(found, ddl("DROP TABLE t", T, None)) == "ignore"
    assert verdict(found, ddl("ALTER TABLE t ADD  COLUMN a int")) == "ignore"
    assert verdict(found, ddl("CREATE TABLE t (a int) COMMENT 'drop'", None, T)) == "send"
    # an entry for one table of a database also applies to the database
    assert (
        verdict(
            router(entry(matcher=("test.t1",), ignore_sql=("^drop",))),
            ddl("drop database test", None, None, ("test", "")),
        )
        == "ignore"
    )
    assert (
        verdict(
            router(entry(matcher=("x.t1",), ignore_sql=("^drop",))), ddl("drop database test", None, None, ("test", ""))
        )
        == "send"
    )
    assert kinds(found, *INSERT) == ["insert"]


def test_the_names_of_value_expressions_are_compared_by_case() -> None:
    """Whatever ``case-sensitive`` says: TiCDC's ``pkg/filter/expr_filter.go``."""
    loud = entry("delete", matcher=("TEST.T",), ignore_insert_value_expr="n = 1")
    assert [kinds(router(loud), *images) for images in (INSERT, DELETE)] == [["insert"], []]
    assert kinds(router(entry(matcher=("test.t",), ignore_insert_value_expr="n = 1")), *INSERT) == []


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("rules", "sent"), [(("*.*",), "send"), (("test.t",), "send"), (("test.plain",), "send"), (("x.*",), "discard")]
)
def test_an_exchange_is_sent_if_one_of_its_tables_is(rules: tuple[str, ...], sent: str, known: bool) -> None:
    """As Simple describes it, and by its SQL alone."""
    plain = table("plain (id int primary key)")
    exchange = ddl("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE plain", *((plain, T) if known else (None, None)))
    assert verdict(router(rules=rules), exchange) == sent
    ignored = entry("exchange table partition", matcher=("test.plain",))
    hears = rules in (("*.*",), ("test.plain",))  # a rule of an excluded table does not count
    assert verdict(router(ignored, rules=rules), exchange) == ("ignore" if hears else sent)


def test_ddl_outside_the_rules_is_discarded() -> None:
    found = router(rules=("*.*", "!test.t", "!gone.*"))
    assert verdict(found, ddl("TRUNCATE TABLE t")) == "discard"
    assert verdict(found, ddl("DROP DATABASE test", None, None, ("test", ""))) == "send"
    assert verdict(found, ddl("DROP DATABASE gone", None, None, ("gone", ""))) == "discard"
    assert verdict(found, ddl("DROP DATABASE mysql", None, None, ("mysql", ""))) == "discard"


KEYLESS = table("t (id int, name varchar(9), unique key u (id))")


def test_a_table_without_a_valid_index_is_left_out_unless_forced() -> None:
    assert "force-replicate" in router().route(KEYLESS).left_out
    assert router(force_replicate=True).route(KEYLESS).left_out == ""
    # a DDL is judged by the table after it: one that takes the last index away is not sent, one that adds it is
    assert verdict(router(), ddl("ALTER TABLE t DROP PRIMARY KEY", T, KEYLESS)) == "discard"
    assert verdict(router(), ddl("ALTER TABLE t ADD PRIMARY KEY (id)", KEYLESS, T)) == "send"
    assert verdict(router(), ddl("DROP TABLE t", KEYLESS, None)) == "discard"
    assert verdict(router(force_replicate=True), ddl("ALTER TABLE t DROP PRIMARY KEY", T, KEYLESS)) == "send"


@pytest.mark.parametrize(
    ("sql", "valid"),
    [
        ("t (a int primary key)", True),
        ("t (a int not null, unique key u (a))", True),
        ("t (a int not null, b int, unique key u (a, b))", False),
        ("t (a int not null, key k (a))", False),
        ("t (a int)", False),
    ],
)
def test_valid_indexes(sql: str, valid: bool) -> None:
    assert has_valid_index(table(sql)) == valid


def test_all_names_are_those_that_ticdc_takes() -> None:
    assert len(EVENTS) == len({*EVENTS})
    assert all(re.fullmatch(r"[a-z ]+", event) for event in EVENTS)
    for event in EVENTS:
        router(entry(event))
