"""The statements of the page of security erase a row, as written: no file of the lake has its value any more."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.spark.lake import lake, replicate, write_job
from tests.spark.simple_topic import insert, topic
from tests.spark.test_rejects import BEFORE, T, record
from tests.spark.test_row_delta import delete, rows
from ticdc_spark.model import Watermark

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "security.md"
PERSONAL = 271_828
"""A value of the row that is erased, and of the dead letter."""


def statements() -> list[str]:
    """What the page shows, for the tables and the time of this test."""
    shown = re.findall(r"<!-- erase -->\n```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    each = [line.rstrip(";") for block in shown for line in block.splitlines()]
    assert [line.split()[0] for line in each] == ["CALL", "CALL", "DELETE"]
    soon = f"{datetime.now(UTC) + timedelta(seconds=1):%Y-%m-%d %H:%M:%S}"
    return [
        re.sub(r"TIMESTAMP '[^']+'", f"TIMESTAMP '{soon}'", line)
        .replace("shop.customers", "s.t")
        .replace("dead_letters_shop", "dead_letters_job")
        .replace("topic = 'shop'", "topic = 'topic'")
        .replace("1042", str(len(BEFORE)))
        for line in each
    ]


def files_with_it(folder: Path) -> set[str]:
    """Tables that have a file with the value, in a column of numbers or within bytes."""
    found = set()
    for file in (folder / "lake").rglob("*.parquet"):
        for column in pq.read_table(file).columns:
            values = column.to_pylist()
            text = str(PERSONAL).encode()
            if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
                hit = any(text in value for value in values if value)
            else:
                hit = PERSONAL in values
            if hit:
                found.add("letters" if "dead_letters" in str(file) else "table")
    return found


def test_the_statements_of_the_page_erase_a_row_and_a_dead_letter(spark: SparkSession, folder: Path) -> None:
    row = {"id": "7", "v": str(PERSONAL)}
    changes = [insert(T, 130, **row), Watermark(140)]
    source = record(folder, f'{{"personal": "{PERSONAL}"}}'.encode())
    topic(folder, changes, partition=1)
    job = write_job(folder, source, 'on-reject = "continue"')
    job.write_text(job.read_text() + "[upkeep]\nenabled = false\n")
    replicate(job)
    topic(folder, [*changes, delete(T, 150, row), Watermark(160)], partition=1)
    replicate(job)
    assert files_with_it(folder) == {"table", "letters"}
    session = lake(spark, folder)
    rewrite, expire, erase = statements()
    for statement in (rewrite, erase, expire):
        session.sql(statement)
    assert files_with_it(folder) == {"letters"}
    for statement in (rewrite, expire):
        session.sql(statement.replace("s.t", "_ticdc_spark.dead_letters_job"))
    assert files_with_it(folder) == set()
    assert [each["id"] for each in rows(spark, folder)] == [1, 2]
