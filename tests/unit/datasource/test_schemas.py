"""Schemas that the source learns: by commitTs, from any partition, once."""

from __future__ import annotations

import pytest

from ticdc_spark.datasource.schemas import Known, Learning, Schemas, from_ddl, unpack
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Bootstrap, Envelope, SchemaChange, Table

CREATE = "CREATE TABLE t (id INT PRIMARY KEY)"


def ddl(ts: int, query: str, schema: str = "s") -> SchemaChange:
    return SchemaChange(commit_ts=ts, query=query, kind="", schema=schema, name="t")


def learnt(known: Known, *events: SchemaChange | Bootstrap, versioned: bool = False) -> Known:
    learning = Learning(known, versioned=versioned)
    for event in events:
        learning.add(event)
    return learning.finish()


def columns(known: Known, ts: int, name: str = "t", key: str = "", *, versioned: bool = False) -> list[str] | None:
    row = Envelope(op="insert", schema="s", table=name, commit_ts=ts, schema_key=key)
    table = Schemas(known, versioned=versioned).of(row)
    return None if table is None else [column.name for column in table.columns]


def test_a_row_is_read_by_the_schema_of_its_commit_ts_in_whatever_order_the_ddls_come() -> None:
    add, drop = ddl(20, "ALTER TABLE t ADD COLUMN v INT"), ddl(30, "ALTER TABLE t DROP COLUMN v")
    known = learnt(Known(), drop, add, ddl(10, CREATE), add)
    assert [columns(known, ts) for ts in (10, 11, 20, 21, 30, 31)] == [
        None,
        ["id"],
        ["id"],
        ["id", "v"],
        ["id", "v"],
        ["id"],
    ]
    # where a protocol hides the commitTs, the newest one
    assert columns(known, 0) == ["id"]


def test_a_ddl_that_comes_again_later_is_not_followed_again() -> None:
    add = ddl(20, "ALTER TABLE t ADD COLUMN v INT")
    known = learnt(learnt(Known(), ddl(10, CREATE)), add)
    again = learnt(unpack(known.pack()), add, ddl(10, CREATE))
    assert again.versions == known.versions
    assert columns(learnt(again, ddl(30, "ALTER TABLE t ADD COLUMN w INT")), 31) == ["id", "v", "w"]


def test_a_ddl_of_one_table_may_come_after_a_later_one_of_another() -> None:
    """Tables in topics of their own."""
    known = learnt(Known(), ddl(30, "CREATE TABLE other (id INT PRIMARY KEY)"))
    known = learnt(known, ddl(10, CREATE), ddl(20, "ALTER TABLE t ADD COLUMN v INT"))
    assert columns(known, 25) == ["id", "v"] and columns(known, 31, "other") == ["id"]


def test_a_renamed_table_and_a_dropped_database() -> None:
    known = learnt(Known(), ddl(10, CREATE), ddl(20, "RENAME TABLE t TO u"), ddl(30, "DROP DATABASE s"))
    assert columns(known, 15) == ["id"] and columns(known, 25) is None
    assert columns(known, 25, "u") == ["id"] and columns(known, 35, "u") is None
    assert known.newest(("s", "u")) is not None
    # the same database dropped again by a replay does not drop what was made since
    since = learnt(unpack(known.pack()), ddl(40, CREATE))
    assert columns(learnt(since, ddl(30, "DROP DATABASE s")), 41) == ["id"]


def test_versions_that_rows_name_are_found_by_their_name() -> None:
    (first, second) = (
        Table(schema="s", name="t", version=version, columns=from_ddl(sql, ("s", "t")).tables(("s", "t"))[0].columns)
        for version, sql in ((10, CREATE), (20, "CREATE TABLE t (id INT PRIMARY KEY, v INT)"))
    )
    change = SchemaChange(commit_ts=20, query="x", kind="", schema="s", name="t", pre_table=first, table=second)
    known = learnt(Known(), change, Bootstrap(second), versioned=True)
    assert len(known.tables(("s", "t"))) == 2 and known.newest(("s", "t")) == second
    assert columns(known, 5, key="10", versioned=True) == ["id"]
    assert columns(known, 5, key="20", versioned=True) == ["id", "v"]
    assert columns(known, 5, key="30", versioned=True) is None
    # a CREATE of the option reads versions that no message carries
    given = learnt(from_ddl(CREATE, ("s", "t")), Bootstrap(second), versioned=True)
    assert columns(given, 5, key="30", versioned=True) == ["id"]
    assert given.newest(("s", "t")) == second


def test_a_checkpoint_has_the_newest_versions_only() -> None:
    alters = [ddl(20 + at, f"ALTER TABLE t ADD COLUMN c{at} INT") for at in range(40)]
    known = learnt(Known(), ddl(10, CREATE), *alters)
    assert len(known.tables(("s", "t"))) == 41
    packed = unpack(known.pack())
    assert len(packed.tables(("s", "t"))) == 16 and packed.newest(("s", "t")) == known.newest(("s", "t"))
    assert known.pack() == packed.pack() == unpack(packed.pack()).pack()


def test_bad_ddl_and_a_bad_checkpoint_are_named() -> None:
    with pytest.raises(UsageError, match=r"option ddl: .*allowed: CREATE TABLE statements, each ended by `;`"):
        from_ddl("CREATE TABLE s.t (id", None)
    with pytest.raises(UsageError, match="option ddl: no CREATE TABLE in 'DROP TABLE t'"):
        from_ddl("DROP TABLE t", None)
    with pytest.raises(UsageError, match=r"option ddl: no database; write `db`\.`table`"):
        from_ddl(CREATE, None)
    assert len(from_ddl("CREATE TABLE a.t (id INT);\nCREATE TABLE b.u (id INT);\n", None).versions) == 2
    with pytest.raises(UsageError, match="the checkpoint is not of this version of the source"):
        unpack("x")


def test_a_table_of_the_option_stays_where_a_ddl_in_the_topic_was_in_it_already() -> None:
    given = from_ddl("CREATE TABLE t (id INT PRIMARY KEY, v INT)", ("s", "t"))
    known = learnt(given, ddl(20, "ALTER TABLE t ADD COLUMN v INT"))
    assert [columns(known, ts) for ts in (10, 30)] == [["id", "v"], ["id", "v"]]
    assert known.newest(("s", "t")) == given.newest(("s", "t"))
