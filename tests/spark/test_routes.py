"""Iceberg tables with other names than at the source."""

from __future__ import annotations

import hmac
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import lake, names, read_table, replicate, write_job
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from tests.support import merged_shards
from ticdc_spark import consistent, consistent_scans
from ticdc_spark.config.load import load_identity, load_job
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Change, Column, ColumnType, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.operate.status import job_status
from ticdc_spark.operate.upkeep import look_after

V = ColumnType(name="varchar", length=20, charset="utf8mb4", collate="utf8mb4_bin")
SALT = "a salt of some length"
ROUTES = """
[[route]]
tables = ["s.archive"]
target-schema = "old"

[[route]]
tables = ["s.*"]
target-schema = "lake_{schema}"
target-table = "{table}.v1"
"""
OF, ARCHIVED = table(10), table(40, name="archive")
CREATE = SchemaChange(
    commit_ts=10, query="CREATE TABLE `t` (`id` INT PRIMARY KEY)", kind="CREATE", schema="s", name="t", table=OF
)


def test_a_table_is_read_under_its_name_in_the_lake_by_that_of_the_source(spark: SparkSession, folder: Path) -> None:
    rename = ddl("RENAME", 40, "RENAME TABLE `s`.`t` TO `s`.`archive`", ARCHIVED, OF)
    again = table(50)
    create = SchemaChange(commit_ts=50, query=CREATE.query, kind="CREATE", schema="s", name="t", table=again)
    before = [CREATE, insert(OF, 20, id="1"), Watermark(40)]
    after = [rename, insert(ARCHIVED, 45, id="2"), Watermark(50), create, insert(again, 55, id="3"), Watermark(60)]
    job = write_job(folder, topic(folder, [*before, *after]), "batch-rows = 3")
    job.write_text(job.read_text() + ROUTES)
    replicate(job)
    session = lake(spark, folder)
    assert names(session) == {("old", "archive"), ("lake_s", "t_x2e_v1")}
    assert sorted(row["id"] for row in read_table(session, "old", "archive")) == [1, 2]
    found = consistent(job, spark=session)
    assert {name: sorted(row.id for row in frame.collect()) for name, frame in found.tables.items()} == {
        ("s", "archive"): [1, 2],
        ("s", "t"): [3],
    }
    of_state = "SELECT schema_name, table_name FROM lake._ticdc_spark.state_job WHERE kind = 'table'"
    assert {("old", "archive"), ("lake_s", "t_x2e_v1")} <= {tuple(row) for row in session.sql(of_state).collect()}
    snapshots, scans = consistent_scans(job)
    assert snapshots.targets == {("s", "archive"): ("old", "archive"), ("s", "t"): ("lake_s", "t.v1")}
    assert scans["s", "t"].to_arrow().to_pylist() == [{"id": 3}]
    assert [name for name, _ in look_after(load_job(job), ["s.archive"], None)] == [("s", "archive")]


BY_EXPRESSION = r"""
[[route]]
tables = ["*.*"]
regex = 'shop_(\d+)\.orders_(\d+)'
target-schema = "shop"
target-table = "orders"
origin = ["_schema", "_table"]

[[route]]
tables = ["*.*"]
regex = '(?P<brand>[a-z]+)_(\d+)\.items_(.*)'
target-schema = "{brand}"
target-table = "items_{3}_{2}"
"""


def test_tables_go_where_groups_of_a_regular_expression_say_and_shards_become_one(
    spark: SparkSession, folder: Path
) -> None:
    names_there = [("shop_1", "orders_1"), ("Shop_2", "Orders_2"), ("shop_1", "items_EU"), ("shop_1", "orders_old")]
    tables = [msgspec.structs.replace(table(10, name=name), schema=schema) for schema, name in names_there]
    creates = [ddl("CREATE", 10, f"CREATE TABLE `{one.name}` (`id` INT PRIMARY KEY)", one) for one in tables]
    rows = [insert(one, 20, id=str(at)) for at, one in enumerate(tables)]
    job = write_job(folder, topic(folder, [*creates, *rows, Watermark(30)]), "batch-rows = 3")
    job.write_text(job.read_text() + BY_EXPRESSION)
    replicate(job)
    session = lake(spark, folder)
    assert names(session) == {("shop", "orders"), ("shop", "items_EU_1"), ("shop_1", "orders_old")}
    found = sorted((row["id"], row["_table"].lower()) for row in read_table(session, "shop", "orders"))
    assert found == [(0, "orders_1"), (1, "orders_2")]
    assert [row["id"] for row in read_table(session, "shop", "items_EU_1")] == [2]
    assert [row["id"] for row in read_table(session, "shop_1", "orders_old")] == [3]


def hashed(text: str) -> str:
    return hmac.digest(SALT.encode(), text.encode(), "sha256").hex()


MASKS = """
[[route]]
tables = ["*.*"]
drop-columns = ["secret"]
mask-columns = { id = "hash", email = "hash", n = "null", c = "constant:7" }
rename-columns = { a = "b" }
"""


def masked(*, wider: bool) -> Table:
    """A table with a key that is hashed. ``wider``: after a DDL that changes types."""
    kind = V if wider else INT
    names = {"email": V, "secret": V, "n": kind, "c": kind, "a": INT}
    columns = [Column(name=name, type=of) for name, of in names.items()]
    return table(40 if wider else 10, *columns)


EMAIL = "someone@example.org"
"""Long enough that no compressed file has these bytes by chance."""


def masked_events() -> list[Change]:
    of, after = masked(wider=False), masked(wider=True)
    row = {"email": EMAIL, "secret": "s", "n": "1", "c": "1", "a": "5"}
    create = ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY)", of)
    alter = ddl("ALTER", 40, "ALTER TABLE `t` MODIFY `n` VARCHAR(20), MODIFY `c` VARCHAR(20)", after, of)
    changed = {**row, "id": "1", "email": None, "n": "z", "c": "z", "a": "6"}
    return [
        create,
        *(insert(of, 20, id=str(key), **row) for key in (1, 2, 3)),
        Watermark(40),
        alter,
        RowChange(op="update", table=after, commit_ts=50, before={**row, "id": "1"}, after=changed),
        RowChange(op="delete", table=after, commit_ts=51, before={**row, "id": "2"}, after=None),
        Watermark(60),
    ]


MASKED = [(hashed("1"), None, None, "7", 6), (hashed("3"), hashed(EMAIL), None, "7", 5)]
"""The rows of ``t`` in the end, without the one that was deleted."""


def test_no_file_has_what_is_masked_or_dropped(spark: SparkSession, folder: Path) -> None:
    job = write_job(folder, topic(folder, masked_events()), f'batch-rows = 5\nmask-salt = "{SALT}"')
    job.write_text(job.read_text() + MASKS)
    replicate(job)
    rows = read_table(lake(spark, folder), "s", "t")
    assert list(rows[0]) == ["id", "email", "n", "c", "b"]
    assert sorted(tuple(row.values()) for row in rows) == sorted(MASKED)
    for file in (folder / "lake").rglob("*"):
        assert file.is_dir() or not any(text in file.read_bytes() for text in (EMAIL.encode(), SALT.encode()))


@pytest.mark.parametrize("writer", ["python", "spark"])
def test_only_rows_that_meet_the_condition_are_there_and_in_files(
    spark: SparkSession, folder: Path, writer: str
) -> None:
    of, row = masked(wider=False), {"email": "x@y", "secret": "in", "n": "1", "c": "1", "a": "5"}
    out = {**row, "secret": "out", "email": "not@here"}
    events = [
        ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY)", of),
        *(insert(of, 20, id=str(key), **row) for key in (1, 2)),
        *(insert(of, 20, id=str(key), **out) for key in (3, 4)),
        Watermark(30),
        RowChange(op="update", table=of, commit_ts=40, before={**row, "id": "1"}, after={**out, "id": "1"}),
        RowChange(op="update", table=of, commit_ts=41, before={**out, "id": "3"}, after={**row, "id": "3"}),
        RowChange(op="delete", table=of, commit_ts=42, before={**out, "id": "4"}, after=None),
        Watermark(60),
    ]
    job = write_job(folder, topic(folder, events), f'writer = "{writer}"\nbatch-rows = 6')
    job.write_text(f"""{job.read_text()}[[route]]
tables = ["*.*"]
drop-columns = ["secret"]
where = "secret = 'in'"
""")
    replicate(job)
    rows = read_table(lake(spark, folder), "s", "t")
    assert sorted((one["id"], one["email"]) for one in rows) == [(2, "x@y"), (3, "x@y")]
    for file in (folder / "lake").rglob("*"):
        assert file.is_dir() or b"not@here" not in file.read_bytes()


LAID_OUT = """
[[route]]
tables = ["s.t"]
partition-by = ["bucket(2, id)", "truncate(1, EMAIL)"]
sort-by = ["a desc", "id"]
rename-columns = { email = "mail" }
properties = { "format-version" = 3, write.parquet.compression-codec = "zstd" }
"""


@pytest.mark.parametrize("writer", ["python", "spark"])
def test_a_new_table_has_the_layout_of_its_rule(spark: SparkSession, folder: Path, writer: str) -> None:
    job = write_job(folder, topic(folder, masked_events()), f'writer = "{writer}"\nbatch-rows = 2')
    job.write_text(job.read_text() + LAID_OUT + "[upkeep]\nenabled = false\nsmall-files = 2\n")
    replicate(job)
    session = lake(spark, folder)
    made = session.sql("SHOW CREATE TABLE lake.s.t").collect()[0][0]
    for text in (
        "PARTITIONED BY (truncate(1, mail))",
        "CLUSTERED BY (id)\nINTO 2 BUCKETS",
        "'format-version' = '3'",
        "compression-codec' = 'zstd'",
        "'sort-order' = 'a DESC NULLS LAST, id ASC",
    ):
        assert text in made
    found = [(1, None, 6), (3, EMAIL, 5)]
    assert sorted((row["id"], row["mail"], row["a"]) for row in read_table(session, "s", "t")) == found
    files = {tuple(row.partition) for row in session.table("lake.s.t.files").select("partition").collect()}
    assert len(files) > 1
    ((_, done),) = look_after(load_job(job), (), None)
    assert done and "data files" in done[0], done
    assert sorted((row["id"], row["mail"], row["a"]) for row in read_table(lake(spark, folder), "s", "t")) == found
    orders = {row.sort_order_id for row in session.table("lake.s.t.files").collect() if row.content == 0}
    assert 1 in orders


@pytest.mark.parametrize(
    ("key", "text"), [("days(email)", "Iceberg refuses day of `email`: Invalid source type"), ("nope", "column `nope`")]
)
def test_a_layout_that_the_columns_do_not_allow_is_refused(
    spark: SparkSession, folder: Path, key: str, text: str
) -> None:
    job = write_job(folder, topic(folder, masked_events()))
    job.write_text(f'{job.read_text()}[[route]]\ntables = ["*.*"]\npartition-by = ["{key}"]\n')
    with pytest.raises(UsageError, match=rf"\[\[route\]\] partition-by.*{text}"):
        replicate(job)
    assert names(lake(spark, folder)) == set()


def test_tables_that_are_merged_are_one_with_their_origin(spark: SparkSession, folder: Path) -> None:
    job = write_job(folder, topic(folder, merged_shards.events()), 'batch-rows = 12\nwriter = "spark"')
    job.write_text(job.read_text() + merged_shards.RULE)
    replicate(job)
    session = lake(spark, folder)
    assert names(session) == {("s", "o")}
    rows = read_table(session, "s", "o")
    assert tuple(rows[0]) == merged_shards.COLUMNS
    assert merged_shards.sorted_rows([tuple(row.values()) for row in rows]) == merged_shards.ROWS
    assert [*consistent(job, spark=session).tables] == [merged_shards.NAME]
    assert {one.name: one.condition for one in job_status(load_identity(job)).tables} == {"merged:s.o": "clean"}
