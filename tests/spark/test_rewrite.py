"""Data files that Python rewrites: the same rows as before, for every reader, whatever the table was like.

What it does not rewrite is left to Iceberg's procedure.
"""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from tests.spark.lake import lake, replicate, write_job
from tests.spark.simple_topic import topic
from tests.spark.test_commits import commits_again, fails_to_commit
from tests.spark.test_row_delta import END, FIRST, MORE, orphans, rows
from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.iceberg import commits, rewrite
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog, catalog_options
from ticdc_spark.sinks.iceberg.files.data_files import WrittenFile, new_name
from ticdc_spark.sinks.iceberg.files.live_rows import schema_of
from ticdc_spark.sinks.iceberg.files.partitions import split
from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.java import to_dict, to_schema, to_snapshot
from ticdc_spark.sinks.iceberg.rewrite import Rewritten, rewrite_files
from ticdc_spark.sinks.iceberg.rows.content_files import data_file
from ticdc_spark.sinks.iceberg.rows.deletes import write_deletes
from ticdc_spark.sinks.iceberg.rows.target import Target, layout
from ticdc_spark.sinks.iceberg.upkeep import IcebergUpkeep
from ticdc_spark.sinks.upkeep import UpkeepPolicy
from ticdc_spark.spark.storage import write_row_groups

TABLE = ("s", "t")
POLICY = UpkeepPolicy(small_files=2, keep_all=3600, keep_hourly=7200)
PLAIN = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.parquet.compression-codec": "zstd",
    "write.delete.granularity": "partition",
}


class Lake:
    """A lake with one table, and what the tests do with it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        (folder / "lake").mkdir(exist_ok=True)
        self.spark, self.folder = spark, folder
        self.session = lake(spark, folder)
        options = catalog_options("lake", str(folder / "lake"), {})
        self.fenced = False
        self.catalog = IcebergCatalog(self.session, "lake", str(folder / "lake"), {}, options, self._fence)

    def _fence(self) -> None:
        if self.fenced:
            raise SinkFault("the job has another owner")

    def create(self, columns: str, more: str = "", **properties: str) -> None:
        self.sql("CREATE NAMESPACE IF NOT EXISTS lake.s")
        named = PLAIN | {key.replace("_", "-"): text for key, text in properties.items()}
        listed = ", ".join(f"'{key}' = '{text}'" for key, text in named.items())
        self.sql(f"CREATE TABLE lake.s.t ({columns}) USING iceberg {more} TBLPROPERTIES ({listed})")

    def sql(self, text: str) -> list[Any]:
        return self.session.sql(text).collect()

    def rows(self, what: str = "") -> list[str]:
        """All rows, as text, since NaN is not equal to itself."""
        return sorted(map(repr, self.session.sql(f"SELECT * FROM lake.s.t {what}").toArrow().to_pylist()))

    def by_pyiceberg(self) -> list[str]:
        found = StaticTable.from_metadata(str(self.loaded().operations().current().metadataFileLocation()))
        return sorted(map(repr, found.scan().to_arrow().to_pylist()))

    def loaded(self) -> Any:
        return self.catalog.load_table(TABLE)

    def rewrite(self) -> Rewritten | Closed:
        loaded = self.loaded()
        current = to_snapshot(self.catalog.iceberg, loaded.currentSnapshot())
        assert current is not None
        return rewrite_files(self.catalog, TABLE, loaded, current)

    def files(self, of: str = "data_files") -> list[Any]:
        return self.sql(f"SELECT * EXCEPT (readable_metrics) FROM lake.s.t.{of}")

    def snapshot(self) -> tuple[int, str, Mapping[str, str]]:
        """Id, operation and summary of the current snapshot."""
        found = to_snapshot(self.catalog.iceberg, self.loaded().currentSnapshot())
        assert found is not None
        return found.snapshot_id, found.summary["operation"], found.summary


@pytest.fixture
def at(spark: SparkSession, folder: Path) -> Lake:
    return Lake(spark, folder)


def of_procedure(at: Lake, before: int, **options: str) -> list[str]:
    """The rows after Iceberg's own rewrite of the same snapshot."""
    at.sql(f"CALL lake.system.rollback_to_snapshot('s.t', {before})")
    (done,) = at.sql("CALL lake.system.rewrite_data_files(table => 's.t', options => map('rewrite-all', 'true'))")
    assert done.rewritten_data_files_count >= 5
    return at.rows()


TYPES = (
    "id BIGINT, i INT, n BIGINT, d0 DECIMAL(9,2), d1 DECIMAL(18,4), d2 DECIMAL(38,10), x FLOAT, y DOUBLE, s STRING, "
    "b BINARY, d DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, f BOOLEAN, v ARRAY<FLOAT>"
)
ENDS = [
    ("-2147483648, 9223372036854775807, -9999999.99", "2147483647, -9223372036854775808, 0", "0, 0, 0.01"),
    ("12345678901234.5678, 1234567890123456789012345678.0123456789", "-1, -9999999999999999999999999999.9", "1, 1"),
    ("float('nan'), double('-0.0')", "float('-inf'), double('1e308')", "float('1e-45'), double('nan')"),
    ("'äöü \U0001f600 %=/', X'00FF'", "'', X''", "'null', X'6E756C6C'"),
    ("date'0001-01-01'", "date'9999-12-31'", "date'1969-12-31'"),
    ("timestamp'0001-01-01 00:00:00'", "timestamp'9999-12-31 23:59:59.999999'", "timestamp'1969-12-31 23:59:59.9'"),
    (
        "timestamp_ntz'0001-01-01 00:00:00'",
        "timestamp_ntz'9999-12-31 23:59:59.999999'",
        "timestamp_ntz'1969-12-31 1:0:0'",
    ),
    ("true, array(float(1.5), null, float('-inf'))", "false, array()", "true, array(float(0))"),
]
VALUES = [*("({id}, " + ", ".join(row) + ")" for row in zip(*ENDS, strict=True)), "({id}" + ", NULL" * 14 + ")"]
"""Rows of ``TYPES``."""


def test_rows_of_every_type_stay_what_they_are(at: Lake) -> None:
    at.create(TYPES)
    for number in range(6):
        listed = ", ".join(VALUES[n % 4].format(id=number * 10 + n) for n in range(9))
        at.sql(f"INSERT INTO lake.s.t SELECT /*+ COALESCE(1) */ * FROM VALUES {listed}")
    at.sql("DELETE FROM lake.s.t WHERE id % 10 = 3 AND id < 40")
    (before, _, _), held, read = at.snapshot(), at.rows(), at.by_pyiceberg()
    sequence = at.loaded().currentSnapshot().sequenceNumber()
    assert at.rewrite() == Rewritten(6, 1)
    ((there,),) = at.sql("SELECT sequence_number FROM lake.s.t.entries WHERE status = 1")
    assert there == sequence, "a later delete by value would apply to the rows that were read"
    now, operation, mine = at.snapshot()
    assert (at.rows(), at.by_pyiceberg(), operation) == (held, read, "replace")
    assert at.rows(f"VERSION AS OF {before}") == held
    assert (len(at.files()), at.files("delete_files")) == (1, [])
    assert (int(mine["total-records"]), mine["total-position-deletes"]) == (len(held), "0")
    assert at.rewrite() == Rewritten(0, 0)
    assert at.snapshot()[0] == now, "there was nothing to do"
    assert of_procedure(at, before) == held
    theirs = at.snapshot()[2]
    assert {key for key in mine if "delete" not in key} >= {key for key in theirs if "delete" not in key}
    assert not [key for key in mine if key.startswith("ticdc")]


def test_new_files_are_described_as_iceberg_describes_its_own(at: Lake) -> None:
    at.create(TYPES)
    for number in range(5):
        listed = f"{VALUES[2].format(id=number)}, {VALUES[3].format(id=number + 10)}"
        at.sql(f"INSERT INTO lake.s.t SELECT /*+ COALESCE(1) */ * FROM VALUES {listed}")
    (before, _, _) = at.snapshot()
    assert at.rewrite() == Rewritten(5, 1)
    (mine,) = at.files()
    of_procedure(at, before)
    (theirs,) = at.files()
    alike = ("content", "file_format", "spec_id", "record_count", "value_counts", "null_value_counts", "sort_order_id")
    assert [mine[name] for name in alike] == [theirs[name] for name in alike]
    assert mine.lower_bounds == theirs.lower_bounds and mine.upper_bounds == theirs.upper_bounds
    ids = [
        {field.name: field.field_id for field in _leaves(pq.ParquetFile(one.file_path.removeprefix("file:")))}
        for one in (mine, theirs)
    ]
    assert ids[0] == ids[1]


def _leaves(file: pq.ParquetFile) -> list[Any]:
    class Leaf:
        def __init__(self, name: str, field: pa.Field) -> None:
            self.name, self.field_id = name, field.metadata[b"PARQUET:field_id"]

    found = []
    for field in file.schema_arrow:
        found.append(Leaf(field.name, field))
        if pa.types.is_list(field.type):
            found.append(Leaf(f"{field.name}.element", field.type.value_field))
    return found


def test_columns_are_found_by_their_ids(at: Lake) -> None:
    at.create("id INT, a INT, b STRING, c DECIMAL(5,2), e FLOAT, gone STRING, `x.y` ARRAY<FLOAT>, x INT")
    insert = "INSERT INTO lake.s.t SELECT /*+ COALESCE(1) */ int(id), {} FROM range({}, {})"
    old = "int(id) * 2, concat('b', id), id / 100, float(id) / 3, 'gone', array(float(id)), 7"
    at.sql(insert.format(old, 0, 10))
    at.sql(insert.format(old, 10, 20))
    at.sql("DELETE FROM lake.s.t WHERE id IN (3, 4, 15)")
    for change in (
        "RENAME COLUMN a TO b2",
        "RENAME COLUMN b TO a",
        "DROP COLUMN gone",
        "ADD COLUMN gone INT",
        "ADD COLUMN new TIMESTAMP_NTZ",
        "ALTER COLUMN b2 TYPE BIGINT",
        "ALTER COLUMN c TYPE DECIMAL(30,2)",
        "ALTER COLUMN e TYPE DOUBLE",
        "ALTER COLUMN e FIRST",
    ):
        at.sql(f"ALTER TABLE lake.s.t {change}")
    at.sql("INSERT INTO lake.s.t (id, b2, gone) SELECT /*+ COALESCE(1) */ int(id), 1L << 40, 5 FROM range(20, 30)")
    at.sql("DELETE FROM lake.s.t WHERE id BETWEEN 20 AND 29 OR id = 0")
    for _ in range(2):
        at.sql("INSERT INTO lake.s.t (id, a, `x.y`) VALUES (31, 'a', array())")
    (before, _, _), held = at.snapshot(), at.rows()
    assert at.rewrite() == Rewritten(5, 1)
    assert at.rows() == held == at.by_pyiceberg()
    assert at.rows(f"VERSION AS OF {before}") == held
    assert of_procedure(at, before) == held


def test_each_partition_is_rewritten_for_itself(at: Lake) -> None:
    at.create("id INT, p STRING, d DATE, v INT", "PARTITIONED BY (p, days(d), bucket(2, id))")
    for number in range(5):
        at.sql(
            f"INSERT INTO lake.s.t SELECT int(id), element_at(array('a', NULL, 'ä/=%'), int(id % 3) + 1), "
            f"if(id % 2 = 0, NULL, date'1969-12-31'), {number} FROM range(12)"
        )
    at.sql("INSERT INTO lake.s.t VALUES (1, 'few', NULL, 1), (2, 'deleted', NULL, 2), (2, 'deleted', NULL, 3)")
    at.sql("INSERT INTO lake.s.t VALUES (3, 'all', NULL, 1), (3, 'all', NULL, 1)")
    at.sql("DELETE FROM lake.s.t WHERE v = 2 AND (p IS NULL OR p = 'deleted') OR p = 'all'")
    before, held = at.snapshot()[0], at.rows()
    files = {(tuple(one.partition), one.file_path) for one in at.files()}
    assert isinstance(done := at.rewrite(), Rewritten)
    assert at.rows() == held == at.by_pyiceberg()
    assert at.rows("WHERE p IS NULL") == [row for row in held if "'p': None" in row]
    now = {(tuple(one.partition), one.file_path) for one in at.files()}
    stay = {one for one in files if one[0][0] == "few"}
    assert now & files == stay and stay
    assert {partition for partition, _ in now} == {one for one, _ in files if one[0] != "all"}
    assert (len(now), len(files) - len(stay)) == (done.added + len(stay), done.rewritten)
    assert at.files("delete_files") == []
    assert of_procedure(at, before) == held


def test_deletes_of_files_that_stay_are_kept(at: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    at.create("id INT, v STRING")
    at.sql("INSERT INTO lake.s.t SELECT /*+ COALESCE(1) */ int(id), md5(string(id)) FROM range(3000)")
    for number in range(5):
        at.sql(
            f"INSERT INTO lake.s.t SELECT /*+ COALESCE(1) */ int(id), 'x' FROM range({number * 5}, {number * 5 + 5})"
        )
    at.sql("DELETE FROM lake.s.t WHERE id % 5 = 0")
    at.sql("DELETE FROM lake.s.t WHERE id IN (2, 3) AND v = 'x'")
    assert len(at.files("delete_files")) == 2
    held = at.rows()
    monkeypatch.setattr(rewrite, "SMALL_BYTES", 20_000)
    assert at.rewrite() == Rewritten(5, 1)
    assert at.rows() == held == at.by_pyiceberg()
    assert len(at.files("delete_files")) == 1, "the first one also names the large file"
    at.sql("DELETE FROM lake.s.t WHERE id = 1")
    assert at.rows() == [row for row in held if not row.startswith("{'id': 1,")]


def test_a_table_without_any_row_left_has_no_file(at: Lake) -> None:
    at.create("id INT")
    at.sql("INSERT INTO lake.s.t SELECT /*+ COALESCE(1) */ int(id) FROM range(10)")
    for low in (0, 5):
        at.sql(f"DELETE FROM lake.s.t WHERE id >= {low} AND id < {low + 5} AND id IS NOT NULL AND id % 11 != 20")
    if not at.files():
        pytest.fail("Spark dropped the file itself")
    assert at.rewrite() == Rewritten(1, 0)
    assert (at.rows(), at.files(), at.files("delete_files")) == ([], [], [])


def test_memory_is_bounded_by_row_groups(at: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from ticdc_spark.sinks.iceberg.files import live_rows

    monkeypatch.setattr(live_rows, "_READ_ROWS", 7)
    monkeypatch.setattr(live_rows, "_BATCH_ROWS", 7)
    monkeypatch.setattr(live_rows, "_GROUP_BYTES", 300)
    at.create("id INT, v ARRAY<FLOAT>")
    for number in range(5):
        at.sql(
            f"INSERT INTO lake.s.t SELECT /*+ COALESCE(1) */ int(id), array(float(id)) "
            f"FROM range({number * 50}, {number * 50 + 50})"
        )
    at.sql("DELETE FROM lake.s.t WHERE id % 50 IN (0, 6, 7, 8, 49) OR id BETWEEN 60 AND 80")
    held = at.rows()
    assert at.rewrite() == Rewritten(5, 1)
    assert at.rows() == held == at.by_pyiceberg()
    (one,) = at.files()
    assert pq.read_metadata(one.file_path.removeprefix("file:")).num_row_groups > 5


def test_rows_with_long_texts_are_found_by_their_texts(at: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from ticdc_spark.sinks.iceberg.files import live_rows

    monkeypatch.setattr(live_rows, "_GROUP_BYTES", 100)  # a row group for each file that was there
    at.create("id INT, s STRING, b BINARY")
    for number in range(5):
        text = "concat('z', repeat('y', 5000), id)" if number == 4 else "concat('m', id)"
        at.sql(
            f"INSERT INTO lake.s.t SELECT /*+ COALESCE(1) */ int(id), {text}, cast({text} AS BINARY) FROM range(100)"
        )
    assert at.rewrite() == Rewritten(5, 1)
    for condition in ("s > 'y'", "b > X'79'"):
        assert at.sql(f"SELECT count(*) FROM lake.s.t WHERE {condition}")[0][0] == 100
    assert at.sql("SELECT count(*) FROM lake.s.t WHERE id < 50")[0][0] == 250


def test_a_job_goes_on_after_a_rewrite(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MIN_FILES", 1)
    job = write_job(folder, topic(folder, FIRST))
    replicate(job)
    at = Lake(spark, folder)
    assert at.rewrite() == Rewritten(1, 1)
    topic(folder, [*FIRST, *MORE])
    replicate(job)
    assert rows(spark, folder) == END
    assert isinstance(done := at.rewrite(), Rewritten) and done.rewritten == 2
    assert rows(spark, folder) == END
    (state,) = replicate(job).progress.tables
    assert (state.is_clean, state.diverged_since) == (True, None)
    assert orphans(spark, folder) == set()


def five_files(at: Lake) -> None:
    at.create("id INT, v INT")
    for number in range(5):
        low = number * 4
        at.sql(f"INSERT INTO lake.s.t SELECT /*+ COALESCE(1) */ int(id), 1 FROM range({low}, {low + 4})")
    at.sql("DELETE FROM lake.s.t WHERE id = 2")


def before_the_commit(at: Lake, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something after the files are written, once."""
    real = rewrite.data_file

    def acting(*given: Any) -> Any:
        monkeypatch.setattr(rewrite, "data_file", real)
        act()
        return real(*given)

    monkeypatch.setattr(rewrite, "data_file", acting)


GIVES_WAY = {
    "delete": "DELETE FROM lake.s.t WHERE id = 5",
    "overwrite": "INSERT OVERWRITE lake.s.t VALUES (7, 7)",
    "compaction": "CALL lake.system.rewrite_data_files(table => 's.t', options => map('rewrite-all', 'true'))",
    "truncate": "TRUNCATE TABLE lake.s.t",
    "rollback": "CALL lake.system.rollback_to_snapshot('s.t', {first})",
}


@pytest.mark.parametrize(
    "other",
    [
        "delete",
        "rollback",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("overwrite", "compaction", "truncate")),
    ],
)
def test_a_rewrite_gives_way_to_another_writer(at: Lake, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    five_files(at)
    first = at.sql("SELECT snapshot_id FROM lake.s.t.snapshots ORDER BY committed_at")[0][0]
    before_the_commit(at, monkeypatch, lambda: at.sql(GIVES_WAY[other].format(first=first)))
    with pytest.raises(SinkFault, match=r"upkeep of `s`.`t` fails"):
        IcebergUpkeep(at.catalog).look_after(TABLE, POLICY, 0)
    left = at.rows()
    assert len(left) == {"delete": 18, "overwrite": 1, "compaction": 19, "truncate": 0, "rollback": 4}[other]
    assert orphans(at.spark, at.folder) == set()
    IcebergUpkeep(at.catalog).look_after(TABLE, POLICY, 0)
    assert at.rows() == left


@pytest.mark.parametrize("when", ["before the commit is prepared", "before it is sent"])
@pytest.mark.parametrize(
    "other", ["INSERT INTO lake.s.t VALUES (99, 99)", "ALTER TABLE lake.s.t ADD COLUMN w INT FIRST"]
)
def test_what_leaves_the_files_alone_stays_as_well(
    at: Lake, when: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    five_files(at)
    if when == "before it is sent":
        real = commits.commit

        def acting(*given: Any) -> None:
            monkeypatch.setattr(commits, "commit", real)
            at.sql(other)
            real(*given)

        monkeypatch.setattr(commits, "commit", acting)
    else:
        before_the_commit(at, monkeypatch, lambda: at.sql(other))
    assert at.rewrite() == Rewritten(5, 1)
    held = at.rows()
    assert len(held) == (20 if "INSERT" in other else 19)
    assert held == at.by_pyiceberg()
    assert (len(at.files()), orphans(at.spark, at.folder)) == (2 if "INSERT" in other else 1, set())


def test_no_row_that_is_deleted_just_before_the_commit_returns(at: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    five_files(at)
    real = commits.commit

    def acting(*given: Any) -> None:
        monkeypatch.setattr(commits, "commit", real)
        at.sql("DELETE FROM lake.s.t WHERE id = 5")
        real(*given)

    monkeypatch.setattr(commits, "commit", acting)
    with pytest.raises(Py4JJavaError, match="ValidationException"):
        at.rewrite()
    assert len(at.rows()) == 18
    assert len(orphans(at.spark, at.folder)) == 1, "a file that was sent to the catalog stays"


@pytest.mark.parametrize("answer", ["refused", "unknown"])
def test_files_that_a_commit_may_have_stay(at: Lake, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_PAUSE_S", 0)
    five_files(at)
    held = at.rows()
    fails_to_commit(at.folder, answer)
    if answer == "unknown":
        assert at.rewrite() == Rewritten(5, 1), "the table has the commit"
    else:
        with pytest.raises(Py4JJavaError, match="CommitFailedException"):
            at.rewrite()
    assert at.rows() == held
    assert len(orphans(at.spark, at.folder)) == (1 if answer == "refused" else 0)
    commits_again(at.folder)
    assert at.rewrite() == (Rewritten(5, 1) if answer == "refused" else Rewritten(0, 0))
    assert at.rows() == held


@pytest.mark.parametrize("what", ["former owner", "interrupt", "no space", "another row count", "unreadable file"])
def test_without_a_commit_the_table_is_as_it_was(at: Lake, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    five_files(at)
    before, held = at.snapshot()[0], at.rows()
    if what == "former owner":
        at.fenced = True
    elif what == "interrupt":

        def interrupted(*given: Any) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr(rewrite, "data_file", interrupted)
    elif what == "no space":

        def full(*given: Any, **named: Any) -> Any:
            write_row_groups(*given, **named)
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(rewrite, "write_row_groups", full)
    elif what == "another row count":
        monkeypatch.setattr(rewrite._Rewrite, "_live", lambda self, group: 17)
    else:
        path = Path(at.files()[3].file_path.removeprefix("file:"))
        whole = path.read_bytes()
        path.write_bytes(whole[:-9] + b"\0" * 9)
    if what in {"former owner", "interrupt"}:
        with pytest.raises(SinkFault if what == "former owner" else KeyboardInterrupt):
            at.rewrite()
    else:
        assert isinstance(at.rewrite(), Closed)
    if what == "unreadable file":
        path.write_bytes(whole)
    assert (at.snapshot()[0], at.rows(), orphans(at.spark, at.folder)) == (before, held, set())


def test_files_of_a_process_that_died_belong_to_no_snapshot(at: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    five_files(at)
    before, held = at.snapshot()[0], at.rows()
    with monkeypatch.context() as died:
        died.setattr(rewrite, "remove", lambda io, names: None)
        died.setattr(at, "fenced", True)
        with pytest.raises(SinkFault):
            at.rewrite()
    assert len(orphans(at.spark, at.folder)) == 1
    assert (at.snapshot()[0], at.rows()) == (before, held)
    assert at.rewrite() == Rewritten(5, 1)
    assert at.rows() == held


LEFT = {
    "format version 3": ("", {"format_version": "3"}, ""),
    "sort order": ("", {}, "WRITE ORDERED BY id"),
    "bloom filter": ("", {"write.parquet.bloom-filter-enabled.column.id": "true"}, ""),
    "ORC": ("", {"write.format.default": "orc"}, ""),
    "own folder": ("", {"write.object-storage.enabled": "true"}, ""),
    "struct": (", v STRUCT<a: INT>", {}, ""),
    "map": (", v ARRAY<MAP<INT, INT>>", {}, ""),
    "new partitions": ("", {}, "ADD PARTITION FIELD bucket(2, id)"),
}


@pytest.mark.parametrize(
    "case",
    [
        "format version 3",
        "sort order",
        "bloom filter",
        "new partitions",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("ORC", "own folder", "struct", "map")),
    ],
)
def test_other_tables_are_left_to_the_procedure(at: Lake, case: str, caplog: pytest.LogCaptureFixture) -> None:
    columns, properties, alter = LEFT[case]
    at.create(f"id INT{columns}", **properties)
    value = {"": "", ", v STRUCT<a: INT>": ", struct(1)", ", v ARRAY<MAP<INT, INT>>": ", array(map(1, 2))"}[columns]
    for number in range(6):
        at.sql(f"INSERT INTO lake.s.t SELECT {number}{value}")
    if alter:
        at.sql(f"ALTER TABLE lake.s.t {alter}")
    held = at.rows()
    caplog.set_level("DEBUG", "ticdc_spark")
    done = IcebergUpkeep(at.catalog).look_after(TABLE, POLICY, 0).done
    assert done and done[0].startswith("6 data files, of 5 small ones, became ")
    assert "Iceberg's procedure rewrites its files: " in caplog.text
    assert at.rows() == held


def test_a_job_whose_files_spark_writes_also_leaves_compaction_to_it(at: Lake) -> None:
    five_files(at)
    held = at.rows()
    assert IcebergUpkeep(at.catalog, "spark").look_after(TABLE, POLICY, 0).done[0].startswith("5 data files")
    assert at.files()[0].file_path.endswith("-00001.parquet"), "the name is one of Spark's"
    assert at.rows() == held


def test_large_tables_are_left_to_the_procedure(at: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    five_files(at)
    monkeypatch.setattr(rewrite, "_MOST_BYTES", 1000)
    assert isinstance(at.rewrite(), Closed)


Rows = dict[int, dict[str, Any]]


class History:
    """Random changes of a table by Iceberg's API, and its true rows."""

    def __init__(self, at: Lake, seed: int) -> None:
        self.at, self.draw = at, random.Random(seed)
        self.held: Rows = {}
        self.kinds = {"id": pa.int64(), "p": pa.int32(), "a": pa.int32(), "s": pa.string()}
        self.names = (f"c{number}" for number in range(1000))
        self.rewritten = 0
        at.sql("DROP TABLE IF EXISTS lake.s.t")
        at.create("id BIGINT, p INT, a INT, s STRING", self.draw.choice(["", "PARTITIONED BY (p)"]))

    def run(self) -> None:
        for _ in range(self.draw.randint(8, 16)):
            step = self.draw.choice([self.upsert, self.upsert, self.upsert, self.alter, self.rewrite])
            step()
            if self.at.loaded().currentSnapshot() is not None:
                self.compare()
        self.rewrite()
        self.compare()

    def compare(self) -> None:
        assert self.at.by_pyiceberg() == sorted(map(repr, self.held.values()))

    def row(self, key: int) -> dict[str, Any]:
        kinds = {
            pa.int64(): lambda: self.draw.choice([None, -(2**40), 5]),
            pa.int32(): lambda: self.draw.choice([None, 1, 2]),
            pa.string(): lambda: self.draw.choice([None, "", "ä", "null"]),
            pa.float64(): lambda: self.draw.choice([None, 0.1, -1e300]),
            pa.float32(): lambda: self.draw.choice([None, 0.5, -2.0]),
        }
        return {"id": key} | {name: kinds[kind]() for name, kind in self.kinds.items() if name != "id"}

    def upsert(self) -> None:
        """A row delta, as of a job: new rows, and deletes of the old ones and of some more."""
        catalog, loaded = self.at.catalog, self.at.loaded()
        properties = to_dict(catalog.iceberg, loaded.properties())
        fields = to_schema(catalog.iceberg, loaded.schema()).fields
        files, schema = layout(catalog, loaded, properties, fields), schema_of(fields)
        assert not isinstance(files, Closed) and not isinstance(schema, Closed)
        keys = self.draw.sample(range(40), self.draw.randint(1, 12))
        new = [self.row(key) for key in keys if self.draw.random() < 0.75]
        delta = loaded.newRowDelta()
        snapshot = to_snapshot(catalog.iceberg, loaded.currentSnapshot())
        if snapshot is not None and self.held:
            sought = pa.table({"id": pa.array(keys, pa.int64())})
            old = catalog.lookup.find(files.storage, snapshot.manifest_list, sought, files.field_ids)
            assert old is not None
            to = Target(
                table=TABLE,
                loaded=loaded,
                files=files,
                snapshot_id=snapshot.snapshot_id,
                manifest_list=snapshot.manifest_list,
                is_empty=False,
                version=2,
                key_id=1,
                is_touched=False,
            )
            for deletes in write_deletes(catalog, loaded, to, old).added if old else ():
                delta.addDeletes(deletes)
        if new:
            for partition, part in split(pa.Table.from_pylist(new, schema), files.specs[files.spec_id]):
                name = new_name(files)
                size, footer = write_row_groups(files.storage, f"{files.folder}/{name}", schema, [part])
                made = WrittenFile(name=name, rows=len(part), size=size, footer=footer, partition=partition)
                delta.addRows(data_file(catalog, loaded, files, made))
        delta.commit()
        for key in keys:
            self.held.pop(key, None)
        self.held |= {row["id"]: row for row in new}

    def alter(self) -> None:
        update = self.at.loaded().updateSchema()
        types = self.at.catalog.iceberg.types.Types
        others = [name for name in self.kinds if name not in ("id", "p")]
        what = self.draw.choice(["add", "add", "drop", "rename", "again", "widen"])
        name = self.draw.choice(others) if others else "a"
        if what == "add" or not others:
            name = next(self.names)
            self.kinds[name], made = self.draw.choice(
                [(pa.int32(), "int"), (pa.float32(), "float"), (pa.string(), "string")]
            )
            update.addColumn(name, types.fromPrimitiveString(made)).commit()
            self.held = {key: row | {name: None} for key, row in self.held.items()}
        elif what == "rename":
            new = next(self.names)
            update.renameColumn(name, new).commit()
            self.kinds = {new if one == name else one: kind for one, kind in self.kinds.items()}
            self.held = {
                key: {new if one == name else one: value for one, value in row.items()}
                for key, row in self.held.items()
            }
        elif what == "widen":
            wide = {pa.int32(): (pa.int64(), "long"), pa.float32(): (pa.float64(), "double")}.get(self.kinds[name])
            if wide is not None:
                self.kinds[name] = wide[0]
                update.updateColumn(name, types.fromPrimitiveString(wide[1])).commit()
        else:
            update.deleteColumn(name)
            update.commit()
            del self.kinds[name]
            self.held = {key: {one: row[one] for one in row if one != name} for key, row in self.held.items()}
            if what == "again":
                self.at.loaded().updateSchema().addColumn(name, types.fromPrimitiveString("string")).commit()
                self.kinds[name] = pa.string()
                self.held = {key: row | {name: None} for key, row in self.held.items()}

    def rewrite(self) -> None:
        if self.at.loaded().currentSnapshot() is None:
            return
        before = self.at.snapshot()[0]
        done = self.at.rewrite()
        assert isinstance(done, Rewritten), done
        self.rewritten += done.rewritten
        assert (self.at.snapshot()[0] == before) == (done.rewritten == 0)


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 30), marks=pytest.mark.slow)], ids=["few", "many"])
def test_random_histories_end_in_their_truth(at: Lake, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MIN_FILES", 2)
    rewritten = 0
    for seed in seeds:
        history = History(at, seed)
        history.run()
        assert sorted(map(repr, history.held.values())) == at.rows(), seed
        rewritten += history.rewritten
    assert rewritten > 3 * len(seeds)
