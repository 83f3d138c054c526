"""Files of a storage sink that no index names: which are an error, which are named, and which are still written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.streams.storage_messages import Form
from ticdc_spark.streams.storage_topic import StorageTopic
from ticdc_spark.topics.storage.csv_lines import CsvFormat
from ticdc_spark.topics.storage.files import LocalFiles
from ticdc_spark.topics.storage.ledger import Ledger

ROW = b'{"mysqlType":{},"_tidb":{"commitTs":%d}}\r\n'


def feed(folder: Path, *rows: int, checkpoint: int = 100) -> StorageTopic:
    """A table with a file for each row, by its commitTs, and no index."""
    table = folder / "s/t/1"
    (table / "meta").mkdir(parents=True)
    for number, commit_ts in enumerate(rows, 1):
        (table / f"CDC{number:06d}.json").write_bytes(ROW % commit_ts)
    (folder / "metadata").write_text(f'{{"checkpoint-ts":{checkpoint}}}')
    return StorageTopic(LocalFiles(str(folder)), Form())


def index(folder: Path, number: int) -> None:
    (folder / "s/t/1/meta/CDC.index").write_text(f"CDC{number:06d}.json\n")


@pytest.mark.parametrize("at", [1, 100])
def test_a_table_with_rows_up_to_the_checkpoint_and_no_index_is_an_error(tmp_path: Path, at: int) -> None:
    topic = feed(tmp_path, at, 200)
    with pytest.raises(SourceFault, match=r"s/t/1/CDC000001\.json has rows below the checkpoint 100, and no"):
        topic.look()
    assert topic.ledger == Ledger()


def test_rows_above_the_checkpoint_may_have_no_index_yet(tmp_path: Path) -> None:
    topic = feed(tmp_path, 101)
    topic.look()
    assert topic.unread == ""


def test_a_table_of_which_the_job_may_have_read_other_folders_is_no_error(tmp_path: Path) -> None:
    """Folders of days gone by are not listed. TiCDC sends rows again after a restart."""
    topic = feed(tmp_path, 50)
    topic.ledger = Ledger(checkpoint=90, versions=(("s/t", 1),))
    topic.look()
    assert "not read: 1 (s/t/1/CDC000001.json)" in topic.unread


def test_a_file_is_named_until_an_index_names_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topic = feed(tmp_path, 50, 60, 70)
    index(tmp_path, 1)
    topic.look()
    topic.look()
    assert "not read: 2 (s/t/1/CDC000002.json, s/t/1/CDC000003.json)" in topic.unread
    assert len(caplog.records) == 1
    index(tmp_path, 3)
    topic.look()
    assert topic.unread == ""
    assert sum(one.count for one in topic.ledger.entries if one.size) == 3


def test_many_files_are_counted_and_a_few_are_named(tmp_path: Path) -> None:
    topic = feed(tmp_path, *range(1, 20))
    index(tmp_path, 1)
    topic.look()
    assert "not read: 18 (" in topic.unread
    assert "and 13 more" in topic.unread


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\n", b"[1]\n", b'{"_tidb":{"commitTs":-1}}\n', b'{"_tidb":{"c'])
def test_a_file_that_is_not_complete_is_no_error(tmp_path: Path, content: bytes) -> None:
    topic = feed(tmp_path, 50)
    (tmp_path / "s/t/1/CDC000001.json").write_bytes(content)
    topic.look()
    assert topic.unread == ""


def test_rows_without_commit_ts_are_refused_without_an_index_as_with_one(tmp_path: Path) -> None:
    topic = feed(tmp_path, 50)
    (tmp_path / "s/t/1/CDC000001.json").write_bytes(b'{"mysqlType":{}}\r\n')
    with pytest.raises(UsageError, match="enable-tidb-extension=true"):
        topic.look()


def test_the_first_commit_ts_of_csv_is_read_with_and_without_a_header() -> None:
    form = Form(csv=CsvFormat())
    header = b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,id\r\n"
    row = b'"I","t","s",7,1\r\n'
    assert form.first_commit_ts("f", row) == form.first_commit_ts("f", header + row) == 7
    for content in (b"", header, row[:8], b'"I","t","s","x",1\r\n'):
        assert form.first_commit_ts("f", content) == 0
