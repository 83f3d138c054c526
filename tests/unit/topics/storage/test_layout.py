"""Which files of a storage sink are found, what they are called, and in which order they are taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from ticdc_spark.errors import SourceChanged, SourceFault, UsageError
from ticdc_spark.streams import storage_topic
from ticdc_spark.streams.storage_messages import Form
from ticdc_spark.streams.storage_topic import StorageTopic
from ticdc_spark.topics.storage.csv_lines import CsvFormat
from ticdc_spark.topics.storage.files import LocalFiles
from ticdc_spark.topics.storage.layout import DataFolder, DataName, SchemaName, indexed, key_of, place_of, walk
from ticdc_spark.topics.storage.ledger import PLACE, Ledger, Most, needed, new_files, with_checkpoint, with_cut, within

DAY = 86_400_000 << 18
DESCRIBED = b'{"Table":"t","TableColumnsTotal":1}'


def put(folder: Path, *paths: str, content: bytes = b"") -> LocalFiles:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return LocalFiles(str(folder))


@pytest.mark.parametrize(
    ("path", "root", "version", "rest"),
    [
        ("shop/t/44/CDC000001.json", "shop/t", 44, (0, "", "", 1)),
        ("shop/t/44/2026-01-31/CDC000012.csv", "shop/t", 44, (0, "2026-01-31", "", 12)),
        ("shop/t/44/2026-01/CDC1000000.json", "shop/t", 44, (0, "2026-01", "", 1_000_000)),
        ("shop/t/44/101/2026-01-31/CDC000001.json", "shop/t", 44, (101, "2026-01-31", "", 1)),
        ("shop/t/44/101/2026/CDC000001.json", "shop/t", 44, (101, "2026", "", 1)),
        ("shop/t/44/101/CDC000001.json", "shop/t", 44, (101, "", "", 1)),
        ("shop/t/44/CDC_a-b_c_000001.json", "shop/t", 44, (0, "", "a-b_c", 1)),
        ("shop/meta/44/CDC000001.json", "shop/meta", 44, (0, "", "", 1)),
        ("2026/7/44/CDC000001.json", "2026/7", 44, (0, "", "", 1)),
    ],
)
def test_a_file_with_rows_is_found(
    tmp_path: Path, path: str, root: str, version: int, rest: tuple[int, str, str, int]
) -> None:
    files = put(tmp_path, path, f"{root}/meta/schema_44_0000000001.json", "shop/meta/schema_1_0000000001.json")
    (found,) = walk(files, "").data
    assert (found.folder.root, found.folder.version) == (root, version)
    assert (found.folder.partition, found.folder.date, found.dispatcher, found.number) == rest
    assert found.path == path


def test_table_ids_may_stand_for_names(tmp_path: Path) -> None:
    files = put(tmp_path, "113/44/2026-01-31/CDC000001.json")
    put(tmp_path, "113/meta/schema_44_0000000001.json", content=DESCRIBED)
    found = walk(files, "")
    assert [one.folder.root for one in found.data] == ["113"]
    assert [(one.root, one.version) for one in found.schemas] == [("113", 44)]


def test_what_is_no_file_of_the_sink_is_not_found(tmp_path: Path) -> None:
    files = put(
        tmp_path,
        "metadata",
        "shop/t/meta/schema_44_0000000001.json.tmp.0",
        "shop/t/meta/schema_44_1.json",
        "shop/t/44/CDC000001.json.tmp.5f",
        "shop/t/44/CDC01.json",
        "shop/t/44/meta/CDC.index",
        "shop/t/44/CDC000001.json.gz",
        "shop/README.md",
    )
    found = walk(files, "")
    assert (found.schemas, found.data) == ((), ())


def test_folders_of_days_gone_by_are_not_listed(tmp_path: Path) -> None:
    files = put(
        tmp_path,
        "s/t/meta/schema_1_0000000001.json",
        *(f"s/t/1/{date}/CDC000001.json" for date in ("2026-01-30", "2026-01-31", "2025-12", "2026-01")),
    )
    assert [one.folder.date for one in walk(files, "2026-01-31").data] == ["2026-01", "2026-01-31"]


def test_the_index_names_the_last_complete_file(tmp_path: Path) -> None:
    files = put(tmp_path, "s/t/1/CDC000001.json", "s/t/1/CDC_x_000001.json", "s/t/meta/schema_1_0000000001.json")
    put(tmp_path, "s/t/1/meta/CDC.index", content=b"CDC000012.json\n")
    found = walk(files, "").data
    assert indexed(files, found) == {("s/t/1", ""): 12}
    put(tmp_path, "s/t/1/meta/CDC.index", content=b"\xff\x00")
    with pytest.raises(SourceFault, match=r"CDC\.index: begins with"):
        indexed(files, found)


def test_keys_name_a_file_and_a_line() -> None:
    assert place_of(key_of("s/t/1/CDC000001.json", 3)) == "s/t/1/CDC000001.json, line 3"
    assert place_of(key_of("metadata")) == "metadata"
    assert place_of(b"17") == place_of(None) == ""


def rows(folder: DataFolder, number: int, dispatcher: str = "") -> DataName:
    return DataName(f"CDC{number:06d}.json", folder, dispatcher, number, ".json", 10)


def test_files_are_taken_in_the_order_of_ticdcs_own_consumer() -> None:
    old, new = DataFolder("s/t/1/2026-01-01", "s/t", 1, date="2026-01-01"), DataFolder("s/t/2", "s/t", 2)
    part = DataFolder("s/p/1/7", "s/p", 1, partition=7)
    data = [rows(new, 1), rows(part, 1), rows(old, 2), rows(old, 1), rows(old, 3)]
    schemas = [SchemaName(f"s/t/meta/schema_{at}_0000000001.json", "s/t", at) for at in (2, 1)]
    complete = {one.sequence: 2 for one in data}
    most = Most(100, 1000)
    cut = new_files(Ledger(), schemas, data, complete, most)
    counts = dict.fromkeys([one.path for one in (*cut.data, *cut.schemas)], 5) | {
        schemas[0].path: 1,
        schemas[1].path: 1,
    }
    ledger = with_checkpoint(with_cut(Ledger(), cut, counts, {("s/t", 1): "schema"}), DAY)
    assert [(one.first, one.path) for one in ledger.entries] == [
        (0, "s/t/meta/schema_1_0000000001.json"),
        (1, "s/t/1/2026-01-01/CDC000001.json"),
        (6, "s/t/1/2026-01-01/CDC000002.json"),
        (11, "s/p/1/7/CDC000001.json"),
        (16, "s/t/meta/schema_2_0000000001.json"),
        (17, "s/t/2/CDC000001.json"),
        (22, ""),
    ]
    assert ledger.end == 23
    assert not new_files(ledger, schemas, data, complete, most).data
    assert not new_files(ledger, schemas, data, complete, most).schemas
    assert msgspec.json.decode(msgspec.json.encode(ledger), type=Ledger) == ledger
    kept = needed(ledger, 17, [(3, 4), (12, 16)])
    assert [one.first for one in kept.entries] == [1, 11, 17, 22]
    assert [one.first for one in within(kept, 0, 12)] == [1, 11]


def test_the_checkpoint_comes_after_all_files_that_were_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = put(tmp_path, "s/t/meta/schema_1_0000000001.json", content=DESCRIBED)
    put(tmp_path, *(f"s/t/1/CDC{at:06d}.json" for at in range(1, 6)), content=b'{"_tidb":1}\r\n')
    put(tmp_path, "s/t/1/meta/CDC.index", content=b"CDC000005.json\n")
    put(tmp_path, "metadata", content=b'{"checkpoint-ts":100}')
    monkeypatch.setattr(storage_topic, "MOST_FILES", 2)
    topic = StorageTopic(files, Form())
    for number in range(1, 4):
        assert topic.look() == (number == 3)
        assert topic.look() == (number == 3)  # it takes no more before these are read
        assert topic.has_more == (number < 3)
        entries = topic.ledger.entries
        assert len(entries) == (2, 4, 7)[number - 1]
        topic.memory({PLACE: topic.ledger.end}, [(0, 1000)])
    assert [one.path.rpartition("/")[2][:9] for one in topic.ledger.entries[1:]] == [
        *(f"CDC{at:06d}" for at in range(1, 6)),
        "",
    ]
    assert topic.ledger.entries[-1].commit_ts == 100


def test_files_that_come_while_it_looks_are_no_gap(tmp_path: Path) -> None:
    files = put(tmp_path, "s/t/1/CDC000001.json", content=b'{"_tidb":1}\r\n')
    put(tmp_path, "s/t/meta/schema_1_0000000001.json", "s/t/1/meta/CDC.index", content=b"CDC000001.json\n")
    put(tmp_path, "metadata", content=b'{"checkpoint-ts":100}')

    class Slow(LocalFiles):
        """The sink goes on between the listing and the look at the index."""

        def find(self, paths: Sequence[str]) -> list[bytes | None]:
            if any(path.endswith(".index") for path in paths):
                put(tmp_path, "s/t/1/CDC000002.json", content=b'{"_tidb":1}\r\n')
                put(tmp_path, "s/t/1/meta/CDC.index", content=b"CDC000002.json\n")
            return super().find(paths)

    topic = StorageTopic(Slow(files.where), Form())
    topic.look()
    assert [one.path[-11:-5] for one in topic.ledger.entries if one.size] == ["000001", "000002"]


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_file_that_its_index_names_is_taken_once_it_is_written(tmp_path: Path, is_empty: bool) -> None:
    """TiCDC's older architecture writes the index before the file. A file that it left empty is written again."""
    files = put(tmp_path, "s/t/1/CDC000001.json", content=b'{"_tidb":1}\r\n')
    put(tmp_path, "s/t/meta/schema_1_0000000001.json", "s/t/1/meta/CDC.index", content=b"CDC000002.json\n")
    put(tmp_path, "metadata", content=b'{"checkpoint-ts":100}')
    if is_empty:
        put(tmp_path, "s/t/1/CDC000002.json", content=b"")
    topic = StorageTopic(files, Form())
    topic.look()
    assert topic.unread == "files that meta/CDC.index names last are missing or empty: s/t/1: file 2"
    put(tmp_path, "s/t/1/CDC000002.json", content=b'{"_tidb":1}\r\n')
    topic.look(force=True)
    assert [one.path[-11:-5] for one in topic.ledger.entries if one.size] == ["000001", "000002"]
    assert topic.unread == ""


def test_a_file_that_vanished_before_a_later_one_was_taken_stops_the_job(tmp_path: Path) -> None:
    files = put(tmp_path, "s/t/1/CDC000003.json", content=b'{"_tidb":1}\r\n')
    put(tmp_path, "s/t/meta/schema_1_0000000001.json", "s/t/1/meta/CDC.index", content=b"CDC000004.json\n")
    put(tmp_path, "metadata", content=b'{"checkpoint-ts":100}')
    with pytest.raises(SourceChanged, match="s/t/1: file 1 is missing, and files up to 3 were written"):
        StorageTopic(files, Form()).look()


@pytest.mark.parametrize("path", ["shop/a/b/meta/schema_1_0000000001.json", "a/b/t/meta/schema_1_0000000001.json"])
def test_names_with_a_slash_are_refused(tmp_path: Path, path: str) -> None:
    files = put(tmp_path, path, content=DESCRIBED)
    with pytest.raises(SourceFault, match="whose name has a slash"):
        walk(files, "")


def test_records_that_are_counted_otherwise_than_before_are_not_read(tmp_path: Path) -> None:
    """The section [source.csv] was changed, and offsets would be of other rows."""
    files = put(tmp_path, "s/t/1/CDC000001.csv", content=b"1\n2\n3\n")
    put(tmp_path, "s/t/meta/schema_1_0000000001.json", "s/t/1/meta/CDC.index", content=b"CDC000001.csv\n")
    put(tmp_path, "metadata", content=b'{"checkpoint-ts":100}')
    before = StorageTopic(files, Form(csv=CsvFormat()))
    before.look()
    after = StorageTopic(files, Form(csv=CsvFormat(terminator="\n")))
    after.recall(before.memory({PLACE: 0}, ()))
    with pytest.raises(SourceChanged, match=r"had 1 records when it was first read and has 3 now: the keys of CSV"):
        list(after.messages(0, 3))


@pytest.mark.parametrize(
    "path",
    [
        "shop/t/44/schema.json",
        "shop/44/schema.json",
        "shop/t/44/2026-01-31/CDC.index",
        "shop/t/44/101/2026-01-31/CDC.index",
        "shop/t/44/101/CDC.index",
    ],
)
def test_folders_of_older_versions_of_ticdc_are_refused(tmp_path: Path, path: str) -> None:
    files = put(tmp_path, "shop/t/44/2026-01-31/CDC000001.json", path, content=b"CDC000001.json\n")
    named = rf"/{path} is a file of TiCDC v6\.5\.0 to v6\.5\.2, v6\.6\.0 or v7\.0\.0, .*create a new changefeed"
    put(tmp_path, "metadata", content=b'{"checkpoint-ts":100}')
    with pytest.raises(SourceFault, match=named):
        StorageTopic(files, Form()).look()


def test_a_job_goes_on_where_ticdc_was_upgraded_from_a_version_with_other_folders(tmp_path: Path) -> None:
    files = put(tmp_path, "s/t/1/schema.json", "s/t/1/CDC.index", "s/t/1/CDC000001.json", content=b'{"_tidb":1}\r\n')
    put(tmp_path, "s/t/2/CDC000001.json", content=b'{"_tidb":1}\r\n')
    put(tmp_path, "s/t/meta/schema_2_0000000001.json", content=DESCRIBED)
    put(tmp_path, "s/t/2/meta/CDC.index", content=b"CDC000001.json\n")
    put(tmp_path, "metadata", content=b'{"checkpoint-ts":100}')
    topic = StorageTopic(files, Form())
    topic.skip_all()
    put(tmp_path, "s/t/2/CDC000002.json", content=b'{"_tidb":1}\r\n')
    put(tmp_path, "s/t/2/meta/CDC.index", content=b"CDC000002.json\n")
    topic.look(force=True)
    assert topic.ledger.numbers == (("s/t/2", "", 2),)


def test_rows_of_which_nothing_says_the_table_are_named(tmp_path: Path) -> None:
    files = put(tmp_path, "113/44/2026-01-31/CDC000001.json")
    with pytest.raises(SourceFault, match="113/44 has rows of an unknown table"):
        walk(files, "")


def test_it_does_not_list_more_often_than_it_should(tmp_path: Path) -> None:
    files, now = put(tmp_path, "metadata", content=b'{"checkpoint-ts":100}'), [0.0]
    topic = StorageTopic(files, Form(), every=5.0, clock=lambda: now[0])
    topic.look()
    put(tmp_path, "metadata", content=b'{"checkpoint-ts":200}')
    topic.look()
    assert topic.ledger.checkpoint == 100
    now[0] = 5.0
    topic.look()
    assert topic.ledger.checkpoint == 200


def test_files_of_another_protocol_are_named(tmp_path: Path) -> None:
    files = put(tmp_path, "s/t/1/CDC000001.csv", "s/t/meta/schema_1_0000000001.json")
    put(tmp_path, "metadata", content=b'{"checkpoint-ts":100}')
    with pytest.raises(UsageError, match=r"s/t/1/CDC000001\.csv ends in \.csv, .* end in \.json"):
        StorageTopic(files, Form()).look()


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b'{"checkpoint-ts":-1}', b'{"checkpoint-ts":"1"}'])
def test_a_checkpoint_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SourceFault, match=r"/metadata: "):
        StorageTopic(put(tmp_path, "metadata", content=content), Form()).look()
