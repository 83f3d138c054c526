"""A job and a table without a key."""

from pathlib import Path

from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.spark.lake import lake, read_table, replicate, write_job
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from ticdc_spark.model import Column, RowChange, SchemaChange, Watermark

V = Column(name="v", type=INT)
LOG = replace(table(10, V, name="log"), indexes=())
CREATE = SchemaChange(
    commit_ts=10, query="CREATE TABLE `log` (`id` INT,`v` INT)", kind="CREATE", schema="s", name="log", table=LOG
)


def change(ts: int, before: str, after: str | None = None) -> RowChange:
    op = "delete" if after is None else "update"
    new = None if after is None else {"id": after, "v": None}
    return RowChange(op=op, table=LOG, commit_ts=ts, before={"id": before, "v": None}, after=new)


def test_a_table_without_a_key_has_as_many_equal_rows_as_the_source(spark: SparkSession, folder: Path) -> None:
    first = [insert(LOG, 20, id="1", v=None), insert(LOG, 21, id="1", v=None), insert(LOG, 22, id="2", v=None)]
    wide = replace(LOG, version=60, indexes=table(10).indexes)
    source = topic(
        folder,
        [
            CREATE,
            *first,
            *first,
            Watermark(40),
            insert(LOG, 45, id="1", v=None),
            change(46, "1"),
            change(47, "2", "3"),
            Watermark(50),
            change(47, "2", "3"),
            change(51, "1"),
            Watermark(60),
            ddl("ALTER", 60, "ALTER TABLE `log` ADD PRIMARY KEY (`id`)", wide, LOG),
            RowChange(
                op="update", table=wide, commit_ts=70, before={"id": "3", "v": None}, after={"id": "3", "v": "7"}
            ),
            Watermark(80),
        ],
    )
    replicate(write_job(folder, source, 'no-key = "apply"\nbatch-rows = 9'))
    found = sorted((row["id"], row["v"]) for row in read_table(lake(spark, folder), "s", "log"))
    assert found == [(1, None), (3, 7)]
