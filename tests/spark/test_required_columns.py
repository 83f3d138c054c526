"""Adopted tables with NOT NULL columns: NULL of the source is NULL in the lake, whoever writes the rows."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.contract.member import Member
from tests.spark.lake import lake, replicate, write_job
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from tests.spark.test_row_delta import CREATE, MERGE_ON_READ, T, rows, update
from tests.spark.test_sink_contract import OnIceberg
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Change, Column, Watermark
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.spark.tasks import ArrowTask, Counter, ReadParts
from ticdc_spark.spark.types import arrow_type

NOT_NULL = "id INT NOT NULL, v INT NOT NULL"
STRICT = table(20, Column(name="v", type=INT, nullable=False))
LOOSE = msgspec.structs.replace(T, version=60)


def adopt(spark: SparkSession, folder: Path, columns: str, *alter: str) -> SparkSession:
    """Make a table that no job made, with a row of ones; returns a session that sees it."""
    (folder / "lake").mkdir()
    session = lake(spark, folder)
    session.sql("CREATE NAMESPACE lake.s")
    session.sql(f"CREATE TABLE lake.s.t ({columns}) USING iceberg TBLPROPERTIES ({MERGE_ON_READ})")
    session.sql(f"INSERT INTO lake.s.t VALUES ({', '.join('1' for _ in columns.split(','))})")
    for sql in alter:
        session.sql(sql)
    return session


def nullable(session: SparkSession) -> dict[str, bool]:
    return {field.name: field.nullable for field in session.table("lake.s.t").schema.fields}


def keys_without_v(session: SparkSession) -> list[int]:
    """As a condition finds them, and not as rows are shown."""
    return sorted(int(row["id"]) for row in session.sql("SELECT id FROM lake.s.t WHERE v IS NULL").collect())


@pytest.mark.parametrize("writer", ["python", "spark"])
def test_a_null_of_the_source_is_null_in_a_column_that_was_not_null(
    spark: SparkSession, folder: Path, writer: str
) -> None:
    session = adopt(spark, folder, NOT_NULL)
    events = (CREATE, insert(T, 20, id="2", v=None), update(T, 21, {"id": "1", "v": "1"}, v=None), Watermark(30))
    replicate(write_job(folder, topic(folder, events), f'adopt = true\nwriter = "{writer}"'))
    assert rows(spark, folder) == [{"id": 1, "v": None}, {"id": 2, "v": None}]
    assert keys_without_v(session) == [1, 2]
    assert nullable(session) == {"id": False, "v": True}


def test_an_adopted_table_that_lacks_a_column_is_named_with_it(spark: SparkSession, folder: Path) -> None:
    adopt(spark, folder, "id INT NOT NULL")
    job = write_job(folder, topic(folder, [CREATE, insert(T, 20, id="2", v="2"), Watermark(30)]), "adopt = true")
    with pytest.raises(DecisionNeeded, match=r"lacks columns of the source: `v`\. Add them \(ALTER"):
        replicate(job)


@pytest.mark.parametrize("writer", ["python", pytest.param("spark", marks=pytest.mark.slow)])
def test_a_column_that_the_source_lets_be_null_later_is_null_then(
    spark: SparkSession, folder: Path, writer: str
) -> None:
    session = adopt(spark, folder, NOT_NULL)
    first: tuple[Change, ...] = (
        ddl("CREATE", 20, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT NOT NULL)", STRICT),
        insert(STRICT, 30, id="2", v="2"),
        Watermark(40),
    )
    job = write_job(folder, topic(folder, first), f'adopt = true\nwriter = "{writer}"')
    replicate(job)
    modify = ddl("MODIFY COLUMN", 60, "ALTER TABLE `t` MODIFY `v` INT NULL", LOOSE, STRICT)
    topic(folder, [*first, modify, insert(LOOSE, 70, id="3", v=None), Watermark(80)])
    replicate(job)
    assert rows(spark, folder) == [{"id": 1, "v": 1}, {"id": 2, "v": 2}, {"id": 3, "v": None}]
    assert keys_without_v(session) == [3]


def test_a_column_that_the_source_does_not_have_becomes_null(spark: SparkSession, folder: Path) -> None:
    adopt(spark, folder, f"{NOT_NULL}, extra STRING NOT NULL")
    replicate(write_job(folder, topic(folder, (CREATE, insert(T, 20, id="2", v="2"), Watermark(30))), "adopt = true"))
    assert rows(spark, folder) == [{"id": 1, "v": 1, "extra": "1"}, {"id": 2, "v": 2, "extra": None}]


@pytest.mark.parametrize("identifiers", ["id", "id, v"])
def test_identifier_fields_are_of_the_sources_key(spark: SparkSession, folder: Path, identifiers: str) -> None:
    session = adopt(spark, folder, NOT_NULL, f"ALTER TABLE lake.s.t SET IDENTIFIER FIELDS {identifiers}")
    job = write_job(folder, topic(folder, (CREATE, insert(T, 20, id="2", v=None), Watermark(30))), "adopt = true")
    if identifiers != "id":
        with pytest.raises(DecisionNeeded, match=r"column `v` of `lake`\.`s`\.`t` is an identifier field") as stopped:
            replicate(job)
        session.sql(str(stopped.value).rpartition("\n")[2].strip().rstrip(";"))
        assert rows(spark, folder) == [{"id": 1, "v": 1}]
    replicate(job)
    assert rows(spark, folder) == [{"id": 1, "v": 1}, {"id": 2, "v": None}]
    assert nullable(session) == {"id": False, "v": True}


class TestFullReads(OnIceberg):
    """Rows of a full read, as tasks and as Spark write them."""

    def test_a_full_read_brings_null_into_a_column_that_was_not_null(self, member: Member) -> None:
        session = member.others.session  # type: ignore[attr-defined]
        session.sql(f"CREATE NAMESPACE lake.{member.schema}")
        name = f"lake.{member.schema}.t"
        session.sql(f"CREATE TABLE {name} (id INT NOT NULL, v INT NOT NULL, w STRING NOT NULL) USING iceberg")
        member.sink.stamp(member.name, member.stamp(10))
        member.sink.begin_load(member.name, LoadNote(token="one"))
        member.sink.load(member.name, member.columns, _one_row(member), 1, lambda number, _: LoadNote(token="one"))
        member.sink.finish_load(member.name, member.stamp(30))
        assert member.rows() == [{"id": 1, "v": None, "w": None}]
        assert session.sql(f"SELECT id FROM {name} WHERE v IS NULL AND w IS NULL").count() == 1


def _one_row(member: Member) -> ReadParts:
    """A row with NULL in all but its key."""
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in member.columns])

    def read(_: Counter) -> ArrowTask:
        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if len(batch):
                    yield pa.RecordBatch.from_pylist([{"id": 1, "v": None, "w": None}], schema=schema)

        return run

    return read
