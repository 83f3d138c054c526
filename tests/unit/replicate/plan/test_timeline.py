"""The order in which a batch is applied: rows cut at the DDLs that name their table. No Spark."""

from ticdc_spark.model import Column, ColumnType, SchemaChange, Table, TableName
from ticdc_spark.replicate.plan.timeline import DDL_STEPS, Ddl, Rows, Step, timelines
from ticdc_spark.replicate.state.progress import PendingRows, QueuedDdl
from ticdc_spark.replicate.state.table import TableState

RESOLVED = 100


def table(name: str, schema: str = "s") -> Table:
    return Table(schema=schema, name=name, columns=(Column(name="id", type=ColumnType(name="int")),))


def ddl(ts: int, query: str, name: str = "a", old: str | None = None, schema: str = "s") -> QueuedDdl:
    database = "DATABASE" in query
    change = SchemaChange(
        commit_ts=ts,
        query=query,
        kind="X",
        schema=schema,
        name="" if database else name,
        table=None if database else table(name, schema),
        pre_table=table(old, schema) if old else None,
    )
    return QueuedDdl(change=change, topic="t", partition=0, offset=ts)


def rows(name: str, low: int = 1, high: int = 99, schema: str = "s") -> PendingRows:
    return PendingRows(
        first=0,
        end=9,
        schema=schema,
        name=name,
        schema_key="1",
        rows=1,
        min_ts=low,
        max_ts=high,
        topic="t",
        partition=0,
    )


def states(*names: str, schema: str = "s") -> dict[TableName, TableState]:
    return {(schema, name): TableState(schema=schema, name=name, table=table(name, schema)) for name in names}


def described(lines: list[list[Step]]) -> list[list[str]]:
    """Each timeline as words; the timelines in an order of their own."""
    found = [
        [
            f"{step.table[1]}<={step.upto}" if isinstance(step, Rows) else f"ddl@{step.queued.change.commit_ts}"
            for step in line
        ]
        for line in lines
    ]
    return sorted(found)


def test_tables_without_ddl_have_timelines_of_their_own() -> None:
    lines = timelines(states("a", "b", "c"), [rows("a"), rows("b")], [], RESOLVED)
    assert described(lines) == [["a<=100"], ["b<=100"]]


def test_rows_above_resolved_wait() -> None:
    assert timelines(states("a"), [rows("a", low=101, high=120)], [], RESOLVED) == []
    assert described(timelines(states("a"), [rows("a", low=100, high=120)], [], RESOLVED)) == [["a<=100"]]


def test_a_tables_rows_are_cut_at_its_ddls_and_no_others() -> None:
    ddls = [ddl(30, "ALTER TABLE a ADD COLUMN x INT"), ddl(60, "TRUNCATE TABLE a")]
    lines = timelines(states("a", "b"), [rows("a"), rows("b")], ddls, RESOLVED)
    assert described(lines) == [["a<=30", "ddl@30", "a<=60", "ddl@60", "a<=100"], ["b<=100"]]


def test_a_ddl_that_skip_ddl_leaves_out_stands_among_the_rows_of_its_table() -> None:
    exchange = ddl(50, "ALTER TABLE a EXCHANGE PARTITION p WITH TABLE c")
    lines = timelines(states("a", "b"), [rows("a"), rows("b")], [exchange], RESOLVED)
    assert described(lines) == [["a<=50", "ddl@50", "a<=100"], ["b<=100"]]
    assert described(timelines(states("b"), [rows("b")], [exchange], RESOLVED)) == [["b<=100"], ["ddl@50"]]


def test_a_rename_binds_both_names() -> None:
    lines = timelines(states("a"), [rows("a"), rows("b")], [ddl(50, "RENAME TABLE a TO b", "b", "a")], RESOLVED)
    (line,) = described(lines)
    assert line[:3] == ["a<=50", "b<=50", "ddl@50"]
    assert sorted(line[3:]) == ["a<=100", "b<=100"]


def test_a_chain_of_renames_is_one_timeline() -> None:
    ddls = [ddl(40, "RENAME TABLE b TO c", "c", "b"), ddl(50, "RENAME TABLE a TO b", "b", "a")]
    lines = timelines(states("a", "b", "d"), [rows("a"), rows("b"), rows("c"), rows("d")], ddls, RESOLVED)
    assert len(lines) == 2
    line = next(line for line in described(lines) if len(line) > 1)
    assert line.index("b<=40") < line.index("ddl@40") < line.index("b<=50") < line.index("ddl@50")
    assert line.index("a<=50") < line.index("ddl@50")


def test_groups_that_a_later_rename_joins_keep_every_step_in_order() -> None:
    ddls = [
        ddl(10, "ALTER TABLE a ADD COLUMN x INT", "a"),
        ddl(20, "ALTER TABLE b ADD COLUMN x INT", "b"),
        ddl(30, "ALTER TABLE c ADD COLUMN x INT", "c"),
        ddl(40, "RENAME TABLE a TO z", "z", "a"),
        ddl(50, "RENAME TABLE b TO a", "a", "b"),
    ]
    lines = timelines(states("a", "b", "c"), [rows("a"), rows("b")], ddls, RESOLVED)
    long = next(line for line in lines if len(line) > 3)
    at = [step.queued.change.commit_ts if isinstance(step, Ddl) else step.upto for step in long]
    assert at == sorted(at)
    assert [ts for step, ts in zip(long, at, strict=True) if isinstance(step, Ddl)] == [10, 20, 40, 50]
    assert described([line for line in lines if line is not long]) == [["ddl@30"]]


def test_a_drop_of_a_database_binds_its_tables_only() -> None:
    known = states("a", "b") | states("a", schema="other")
    waiting = [rows("a"), rows("b"), rows("a", schema="other"), rows("new")]
    lines = timelines(known, waiting, [ddl(50, "DROP DATABASE s")], RESOLVED)
    assert len(lines) == 2
    line = max(described(lines), key=len)
    assert sorted(line[:3]) == ["a<=50", "b<=50", "new<=50"]
    assert line[3] == "ddl@50"


def test_a_table_that_comes_and_goes_with_its_database_is_bound() -> None:
    ddls = [ddl(20, "CREATE TABLE a (id INT)"), ddl(50, "DROP DATABASE s")]
    (line,) = timelines({}, [rows("a", 21, 40)], ddls, RESOLVED)
    assert described([line])[0][:4] == ["a<=20", "ddl@20", "a<=50", "ddl@50"]


def test_creating_a_database_binds_nothing() -> None:
    lines = timelines(states("a"), [rows("a")], [ddl(50, "CREATE DATABASE s")], RESOLVED)
    assert described(lines) == [["a<=100"], ["ddl@50"]]


def test_ddls_of_one_commit_ts_have_steps_of_their_own() -> None:
    ddls = [ddl(50, "RENAME TABLE b TO c", "c", "b"), ddl(50, "RENAME TABLE a TO b", "b", "a")]
    (line,) = timelines(states("a", "b"), [], ddls, RESOLVED)
    assert [step.step for step in line if isinstance(step, Ddl)] == [DDL_STEPS, 2 * DDL_STEPS]


def test_no_step_of_a_ddl_is_taken_for_rows_before_it() -> None:
    (line,) = timelines(states("a"), [rows("a")], [ddl(50, "TRUNCATE TABLE a")], RESOLVED)
    cut, truncate, _ = line
    assert isinstance(cut, Rows) and isinstance(truncate, Ddl)
    assert (cut.upto, 2) < (50, truncate.step)
