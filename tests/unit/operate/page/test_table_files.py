"""The files of a table in words."""

import pytest

from ticdc_spark.operate.page.table_files import helped, made_of, size
from ticdc_spark.sinks.upkeep import TableFiles, UpkeepResult


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (1_310_000_000, "1.3 GB"),
        (7 * 10**18, "7,000.0 PB"),
    ],
)
def test_bytes_have_the_unit_that_is_read_most_easily(count: int, words: str) -> None:
    assert size(count) == words


def test_a_table_is_made_of_files_and_of_what_readers_skip() -> None:
    assert made_of(TableFiles(rows=10, files=1, snapshots=2)) == "1 data file, 2 snapshots"
    crowded = TableFiles(rows=1000, files=1200, delete_files=2, deleted_rows=300, snapshots=1)
    assert made_of(crowded) == "1,200 data files, 2 files of deletes, 1 snapshot, 30% of its rows are deleted"


def test_maintenance_that_did_something_says_what_it_made_of_the_table() -> None:
    before = TableFiles(bytes=1_310_000_000, files=60, delete_files=2)
    after = TableFiles(bytes=1_290_000_000, files=1)
    assert helped(UpkeepResult(done=("compacted",), before=before, after=after)) == "62 files, 1.3 GB → 1 file, 1.3 GB"
    assert helped(UpkeepResult(before=before, after=before)) == ""
    assert helped(UpkeepResult(done=("something",))) == ""
