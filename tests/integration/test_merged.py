"""Tables that are one in a MariaDB."""

from __future__ import annotations

from pathlib import Path

from tests.integration.mysql_jobs import job_of
from tests.spark.lake import replicate
from tests.support import merged_shards
from tests.support.mariadb_server import Server


def test_merged_tables_are_one_in_a_database(folder: Path, target: Server) -> None:
    job = job_of(folder, target, merged_shards.events(), "batch-rows = 9")
    job.write_text(job.read_text() + merged_shards.RULE)
    replicate(job)
    columns = ", ".join(merged_shards.COLUMNS)
    assert merged_shards.sorted_rows(target.execute(f"SELECT {columns} FROM s.o")) == merged_shards.ROWS
    key = target.execute("SHOW KEYS FROM s.o WHERE Key_name = 'PRIMARY'")
    assert [row[4] for row in key] == ["_schema", "_table", "id"]
