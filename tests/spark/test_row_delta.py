"""Row deltas where they meet something else: other writers, tables that take none, odd paths, keys of every type.

Whatever way the rows go, the table ends in the truth, and no file lies in it that no commit has.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import Rows, lake, read_table, replicate, write_job
from tests.spark.simple_topic import ID, INT, KEY, ddl, insert, table, topic
from tests.workload.compare import differences
from ticdc_spark.errors import DecisionNeeded, RejectedMessage, SinkFault
from ticdc_spark.model import Change, Column, Row, RowChange, Table, Watermark
from ticdc_spark.mysql import parse_type
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.watch import Watcher
from ticdc_spark.sinks.iceberg.lake import read_table as read_arrow
from ticdc_spark.sinks.iceberg.rows import direct, row_delta
from ticdc_spark.sinks.iceberg.rows.spark_writer import SparkWriter

T = table(10, Column(name="v", type=INT))
MERGE_ON_READ = "'format-version' = '2', 'write.merge.mode' = 'merge-on-read'"


def update(of: Table, ts: int, before: Row, **row: str | None) -> RowChange:
    return RowChange(op="update", table=of, commit_ts=ts, before=before, after={**before, **row})


def delete(of: Table, ts: int, before: Row) -> RowChange:
    return RowChange(op="delete", table=of, commit_ts=ts, before=before)


CREATE = ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT)", T)
FIRST: tuple[Change, ...] = (
    CREATE,
    *(insert(T, 20 + at, id=str(at), v=str(at)) for at in range(1, 5)),
    Watermark(30),
)
MORE: tuple[Change, ...] = (
    update(T, 40, {"id": "1", "v": "1"}, v="11"),
    delete(T, 41, {"id": "2", "v": "2"}),
    update(T, 42, {"id": "3", "v": "3"}, id="8"),
    insert(T, 43, id="5", v=None),
    Watermark(100),
)
END = [{"id": 1, "v": 11}, {"id": 4, "v": 4}, {"id": 5, "v": None}, {"id": 8, "v": 3}]


@dataclass
class Ways:
    """How rows came into the tables."""

    direct: list[bool] = field(default_factory=list)
    """Row deltas; False: refused by the catalog, as another writer was faster."""
    merges: int = 0


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    seen = Ways()
    commit, merge = direct.commit, SparkWriter.merge

    def spied_commit(*given: Any) -> bool:
        seen.direct.append(commit(*given))
        return seen.direct[-1]

    def spied_merge(*given: Any, **named: Any) -> None:
        merge(*given, **named)
        seen.merges += 1

    look_up = direct.positions

    def compared_positions(*given: Any) -> Any:
        found, by_spark = look_up(*given), row_delta.positions_by_spark(*given) if given[-1] is not None else None
        assert by_spark is None or found == by_spark, "Iceberg's own reader finds other rows"
        return found

    monkeypatch.setattr(direct, "positions", compared_positions)
    monkeypatch.setattr(direct, "commit", spied_commit)
    monkeypatch.setattr(SparkWriter, "merge", spied_merge)
    return seen


def rows(spark: SparkSession, folder: Path, name: str = "t") -> Rows:
    return sorted(read_table(lake(spark, folder), "s", name), key=lambda row: int(row["id"]))


def orphans(spark: SparkSession, folder: Path, name: str = "t") -> set[str]:
    """Files of a table that no snapshot has."""
    session = lake(spark, folder)
    held = {
        Path(row[0]).name
        for part in ("all_data_files", "all_delete_files")
        for row in session.sql(f"SELECT file_path FROM lake.s.`{name}`.{part}").collect()
    }
    return {
        path.name
        for place in (folder / "lake" / "s").iterdir()
        if place.name.split("-")[0] == name
        for path in place.rglob("data/**/*")
        if path.suffix in (".parquet", ".puffin")
    } - held


def run_first(folder: Path, more: str = "") -> Path:
    job = write_job(folder, topic(folder, FIRST), more)
    replicate(job)
    topic(folder, [*FIRST, *MORE])
    return job


OTHERS = {
    "compaction": "CALL lake.system.rewrite_data_files(table => 's.t', options => map('rewrite-all', 'true'))",
    "append": "INSERT INTO lake.s.t VALUES (99, 99)",
    "delete": "DELETE FROM lake.s.t WHERE id = 4",
}


def commits_meanwhile(monkeypatch: pytest.MonkeyPatch, spark: SparkSession, folder: Path, sql: str) -> None:
    """Let another writer commit between the job's look at its table and its own commit."""
    ours = direct.target

    def target(*given: Any) -> Any:
        found = ours(*given)
        lake(spark, folder).sql(sql).collect()
        return found

    monkeypatch.setattr(direct, "target", target)


@pytest.mark.parametrize("other", ["compaction", "append", pytest.param("delete", marks=pytest.mark.slow)])
def test_what_others_commit_meanwhile_is_kept(
    spark: SparkSession, folder: Path, ways: Ways, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = run_first(folder)
    ways.direct.clear()
    commits_meanwhile(monkeypatch, spark, folder, OTHERS[other])
    reports: list[BatchReport] = []
    replicate(job, watchers=[Watcher(committed=reports.append)])
    assert (ways.direct, ways.merges) == ([False], 1)
    assert (sum(one.conflicts for one in reports), reports[-1].epoch) == (1, 2)
    assert sum(one.commits.get(("s", "t"), 0) for one in reports) == 1
    wanted = [row for row in END if other != "delete" or row["id"] != 4]
    assert rows(spark, folder) == wanted + [{"id": 99, "v": 99}] * (other == "append")
    assert not orphans(spark, folder)


def test_names_that_another_writer_swaps_before_iceberg_looks_up_keys_give_no_row_twice(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg skips files by the present names of columns, so it would not find the row to replace."""
    sent = [CREATE, insert(T, 20, id="1", v="1001"), Watermark(30)]
    job = write_job(folder, topic(folder, sent))
    replicate(job)
    topic(folder, [*sent, update(T, 40, {"id": "1", "v": "1001"}, v="1011"), Watermark(100)])
    swap = [f"ALTER TABLE lake.s.t RENAME COLUMN {one} TO {two}" for one, two in (("id", "x"), ("v", "id"), ("x", "v"))]
    ours = direct.target

    def target(*given: Any) -> Any:
        found = ours(*given)
        for statement in swap:
            lake(spark, folder).sql(statement)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(direct, "positions", row_delta.positions_by_spark)
        patch.setattr(direct, "target", target)
        with suppress(SinkFault):
            replicate(job)
    for statement in swap:
        lake(spark, folder).sql(statement)
    with suppress(DecisionNeeded):
        replicate(job)
    assert [row["id"] for row in rows(spark, folder)] == [1]


@pytest.mark.slow
def test_tables_that_take_no_row_deltas_are_merged(spark: SparkSession, folder: Path, ways: Ways) -> None:
    properties = '"write.merge.mode" = "copy-on-write"'
    job = write_job(folder, topic(folder, FIRST))
    job.write_text(job.read_text() + f"[sink.table-properties]\n{properties}\n")
    replicate(job)
    topic(folder, [*FIRST, *MORE])
    replicate(job)
    assert ways.direct == [] and ways.merges
    assert rows(spark, folder) == END
    assert not orphans(spark, folder)


ADOPTED: dict[str, tuple[Sequence[str], bool]] = {
    "as ours": ([f"(v INT, id INT NOT NULL) USING iceberg TBLPROPERTIES ({MERGE_ON_READ})"], True),
    "partitioned": (
        [f"(id INT, v INT) USING iceberg PARTITIONED BY (bucket(4, id)) TBLPROPERTIES ({MERGE_ON_READ})"],
        True,
    ),
    "partitioned once": (
        [
            f"(id INT, v INT) USING iceberg PARTITIONED BY (v) TBLPROPERTIES ({MERGE_ON_READ})",
            "ALTER TABLE lake.s.t DROP PARTITION FIELD v",
        ],
        True,
    ),
    "another column": ([f"(id INT, v INT, extra STRING) USING iceberg TBLPROPERTIES ({MERGE_ON_READ})"], False),
    "copy on write": (["(id INT, v INT) USING iceberg"], False),
    "orc once, version 3": (
        [
            f"(id INT, v INT) USING iceberg TBLPROPERTIES ({MERGE_ON_READ}, 'write.format.default' = 'orc')",
            "ALTER TABLE lake.s.t SET TBLPROPERTIES ('format-version' = '3', 'write.format.default' = 'parquet')",
        ],
        False,
    ),
    "orc": ([f"(id INT, v INT) USING iceberg TBLPROPERTIES ({MERGE_ON_READ}, 'write.format.default' = 'orc')"], False),
}
"""What is done to the table before it is adopted, and whether it takes row deltas."""


@pytest.mark.parametrize(
    "case",
    [
        "as ours",
        "partitioned once",
        "another column",
        "orc once, version 3",
        *(pytest.param(case, marks=pytest.mark.slow) for case in ("partitioned", "copy on write", "orc")),
    ],
)
def test_an_adopted_table_keeps_its_ways(spark: SparkSession, folder: Path, ways: Ways, case: str) -> None:
    (create, *alter), takes = ADOPTED[case]
    (folder / "lake").mkdir()
    session = lake(spark, folder)
    session.sql("CREATE NAMESPACE lake.s")
    session.sql(f"CREATE TABLE lake.s.t {create}")
    extra = "extra" in create
    for number, word in ((1, "one"), (2, "two")):
        columns, values = ("id, v, extra", f"{number}, 0, '{word}'") if extra else ("id, v", f"{number}, 0")
        session.sql(f"INSERT INTO lake.s.t ({columns}) VALUES ({values})")
    for sql in alter:
        session.sql(sql)
    replicate(write_job(folder, topic(folder, [*FIRST, *MORE]), "adopt = true"))
    kept = {1: "one"} if extra else {}
    assert rows(spark, folder) == [row | ({"extra": kept.get(row["id"])} if extra else {}) for row in END]
    assert ways.direct == [True] * takes
    assert bool(ways.merges) != takes


@pytest.mark.parametrize("name", ["100% #1 %20 ä 日", pytest.param("a{b,c}[d] $x", marks=pytest.mark.slow)])
def test_a_warehouse_may_lie_anywhere(spark: SparkSession, tmp_path: Path, ways: Ways, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    replicate(run_first(folder))
    assert (ways.direct, ways.merges) == ([True, True], 0)
    assert rows(spark, folder) == END
    assert not orphans(spark, folder)


KEYS: dict[str, tuple[str, str, str, str]] = {
    "decimal(20,5)": ("-1.50000", "0.00000", "123456789012345.00001", "2.00000"),
    "decimal(65,30)": ("1." + "0" * 30, "-1." + "1" * 30, "9" * 35 + "." + "9" * 30, "0." + "0" * 30),
    "binary(4)": ("\0\0\0\0", "a\0\0\0", "\x7f\x7f\0\x01", "'\"\\ "),
    "varbinary(9)": ("", "\0", "a", "a\0"),
    "timestamp(6)": (
        "1970-01-01 00:00:01.000000",
        "2024-03-31 02:30:00.000001",
        "2038-01-19 03:14:07.999999",
        "2000-01-01 00:00:00.000000",
    ),
    "datetime(3)": (
        "1000-01-01 00:00:00.000",
        "1582-10-10 12:00:00.001",
        "9999-12-31 23:59:59.999",
        "2024-02-29 00:00:00.000",
    ),
    "date": ("1000-01-01", "1582-10-10", "9999-12-31", "2024-02-29"),
    "time(2)": ("-838:59:59.00", "00:00:00.01", "838:59:59.00", "12:00:00.00"),
    "year": ("0", "1901", "2155", "2000"),
    "varchar(50)": ("", "it's \"\\ `x`\n\t\0", "a ", "\U0001f600 日本"),
    "char(10)": ("a", "A", "á", "ß"),
    "bigint unsigned": ("0", "18446744073709551615", "9223372036854775808", "1"),
    "bigint": ("-9223372036854775808", "9223372036854775807", "0", "-1"),
    "int unsigned": ("0", "4294967295", "2147483648", "1"),
    "tinyint": ("-128", "127", "0", "1"),
    "enum('a','B','it''s','')": ("1", "2", "3", "4"),
    "set('a','b','c')": ("0", "1", "5", "7"),
    "bit(64)": ("0", "18446744073709551615", "1", "2"),
    "bit(9)": ("0", "511", "1", "2"),
    "double": ("-1.5", "0", "1e+300", "0.1"),
    "float": ("-1.5", "0", "3.4e+38", "0.1"),
}
"""Four values of a key type."""


def keyed(at: int, kind: str, *, composite: bool) -> tuple[Table, list[Change], dict[tuple[Any, ...], Row]]:
    """A table with such a key, its changes up to 30 and later ones, and what is left in the end."""
    type_ = parse_type(kind)
    if type_.charset is None:
        text = type_.name in {"varchar", "char", "enum", "set"}
        type_ = msgspec.structs.replace(type_, charset="utf8mb4" if text else "binary")
    name = "k`é .$" if kind == "year" else "k"
    key = Column(name=name, type=type_, nullable=False)
    columns = (key, *([ID] if composite else []), Column(name="v", type=INT))
    names = (name, "id") if composite else (name,)
    one = Table(
        schema="s",
        name=f"t{at}",
        columns=columns,
        indexes=(msgspec.structs.replace(KEY, columns=names),),
        table_id=at + 100,
        version=10,
    )
    a, b, c, d = (
        {name: value.encode("latin-1") if "binary" in kind else value, **({"id": "1"} if composite else {}), "v": "0"}
        for value in KEYS[kind]
    )
    changes: list[Change] = [
        ddl("CREATE", 10, f"CREATE TABLE `{one.name}` (`id` INT)", one),
        *(insert(one, 20 + n, **row) for n, row in enumerate((a, b, c))),
        update(one, 40, a, v="1"),
        delete(one, 41, b),
        update(one, 42, c, **{name: d[name]}),
        insert(one, 43, **b | {"v": "2"}),
    ]
    left = [a | {"v": "1"}, b | {"v": "2"}, c | {name: d[name]}]
    if composite:
        other = a | {"id": "2"}
        changes += [insert(one, 25, **other), delete(one, 44, a | {"v": "1"})]
        left = [other, *left[1:]]
    return one, changes, {tuple(row[column] for column in names): row for row in left}


FLOATS = ("double", "float")


@pytest.mark.parametrize(
    ("composite", "tasks"),
    [
        pytest.param(False, 1, id="alone", marks=pytest.mark.slow),
        pytest.param(True, 1, id="with an integer", marks=pytest.mark.slow),
        pytest.param(False, 3, id="spread over tasks"),
        pytest.param(True, 3, id="with an integer, spread over tasks", marks=pytest.mark.slow),
    ],
)
def test_keys_of_every_type_find_their_rows(
    spark: SparkSession, folder: Path, ways: Ways, composite: bool, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tasks > 1:
        monkeypatch.setattr(direct, "TASK_ROWS", 2)
    made = [keyed(at, kind, composite=composite or kind == "varchar(50)") for at, kind in enumerate(KEYS)]
    events = sorted((change for _, changes, _ in made for change in changes), key=lambda one: one.commit_ts)
    first = [event for event in events if event.commit_ts < 30]
    job = write_job(folder, topic(folder, [*first, Watermark(30)]))
    replicate(job)
    topic(folder, [*first, Watermark(30), *events[len(first) :], Watermark(100)])
    replicate(job)
    merged = 0 if tasks == 1 else len(FLOATS)  # and appended before
    assert (ways.direct, ways.merges) == ([True] * 2 * (len(KEYS) - merged), merged)
    session = lake(spark, folder)
    reported = {
        kind: differences(read_arrow(session, ("s", one.name)), one, truth.values())
        for kind, (one, _, truth) in zip(KEYS, made, strict=True)
    }
    assert not {kind: lines for kind, lines in reported.items() if lines}


def test_a_key_that_is_null_is_rejected(spark: SparkSession, folder: Path, ways: Ways) -> None:
    job = write_job(folder, topic(folder, [*FIRST, insert(T, 40, id=None, v="1"), Watermark(100)]))
    with pytest.raises(RejectedMessage, match=r"key column `id` is null.*offset 6"):
        replicate(job)
    assert not ways.direct
    assert not orphans(spark, folder)


def test_many_changes_go_through_sparks_tasks(
    spark: SparkSession, folder: Path, ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = run_first(folder)
    assert ways.direct == [True]
    monkeypatch.setattr(direct, "MOST_TASKS", 0)
    replicate(job)
    assert (ways.direct, ways.merges) == ([True], 1)
    assert rows(spark, folder) == END


@pytest.mark.parametrize("rule", ["quarantine", "continue"])
def test_rows_that_cannot_be_read_leave_no_file_behind(
    spark: SparkSession, folder: Path, ways: Ways, rule: str
) -> None:
    bad = insert(T, 44, id="77", v="seventy")
    job = run_first(folder, f'on-reject = "{rule}"')
    topic(folder, [*FIRST, bad, *MORE])
    (state,) = replicate(job).progress.tables
    assert rows(spark, folder) == END
    if rule == "continue":
        assert (ways.direct, ways.merges) == ([True], 1)
        assert (state.diverged_since, state.quarantined) == (44, None)
    else:
        assert (ways.direct, ways.merges) == ([True, True], 0), "rows before it are applied"
        assert "'seventy' is no int" in str(state.quarantined)
    assert not orphans(spark, folder)
