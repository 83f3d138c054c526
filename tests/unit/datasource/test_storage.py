"""Storage sinks: the rows of their files, each in exactly one batch of a stream, whatever arrives and restarts."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.datasource import read, rows_of, stream
from tests.support.storage_shop import StorageShop
from tests.support.storage_sink import SinkOptions
from ticdc_spark.datasource.bounds import Bounds, Span
from ticdc_spark.datasource.options import read_options
from ticdc_spark.datasource.source import FilteringReader, query_columns
from ticdc_spark.datasource.stream import StreamReader
from ticdc_spark.errors import RejectedMessage, SourceChanged, SourceFault, UsageError
from ticdc_spark.model import RowChange
from ticdc_spark.topics.storage.csv_lines import CsvFormat

CREATE = "CREATE TABLE orders (id INT PRIMARY KEY, amount DECIMAL(9,2))"
CSV = SinkOptions(csv=CsvFormat(delimiter="|", null="NULL", old_values=True))
OF_CSV = {"protocol": "csv", "csv.delimiter": "|", "csv.null": "NULL", "csv.output-old-value": "true"}


def fed(folder: Path, options: SinkOptions | None = None) -> tuple[StorageShop, dict[str, str]]:
    shop = StorageShop(folder / "feed", options or SinkOptions())
    shop.sql(CREATE)
    shop.insert("orders", id="1", amount="10.00")
    shop.update("orders", id="1", amount="11.50")
    shop.watermark()
    more = {} if options is None or options.csv is None else OF_CSV
    return shop, {"path": str(shop.sink.folder), "list-interval": "0s", **more}


@pytest.mark.parametrize("options", [SinkOptions(), CSV], ids=["canal-json", "csv"])
def test_a_batch_has_the_rows_of_all_complete_files(tmp_path: Path, options: SinkOptions) -> None:
    shop, given = fed(tmp_path, options)
    checkpoint = shop.ts
    shop.insert("orders", id="2", amount=None)
    (rows,) = shop.sink.waiting.values()
    shop.sink.write(("shop", "orders"), rows, index=False)  # TiCDC has died here, and writes the file again
    generic = read({**given, "include": "ddl,watermark"}).to_pylist()
    first = generic[0]
    assert (first["_change_type"], first["topic"], first["partition"], first["offset"]) == ("ddl", "storage", 0, 0)
    assert (generic[-1]["_change_type"], generic[-1]["_commit_version"]) == ("watermark", checkpoint)
    after = [json.loads(row["after"]) for row in generic if row["after"] is not None]
    assert after == [{"id": "1", "amount": "10.00"}, {"id": "1", "amount": "11.50"}]
    typed = read({**given, "table": "shop.orders"}).to_pylist()
    assert [(row["_change_type"], row["id"], str(row["amount"])) for row in typed][-1] == (
        "insert" if options.csv else "update_postimage",
        1,
        "11.50",
    )


def as_spark(offset: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def rows(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    parts = reader.partitions(as_spark(start), as_spark(end))
    found: list[dict[str, Any]] = rows_of(parts, reader._columns).to_pylist() if parts else []
    return found


def identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["table"], row["_commit_version"], row["_change_type"], row["after"]


def step(rng: random.Random, shop: StorageShop, last: int) -> int:
    """The source and TiCDC go on. Returns: the last id"""
    move = rng.choice(["rows", "rows", "rows", "files", "checkpoint", "checkpoint", "ddl", "again", "dead"])
    if move == "rows":
        for _ in range(rng.randint(1, 5)):
            last += 1
            shop.insert(rng.choice(["orders", "items"]), id=str(last))
    elif move == "files":
        shop.sink.flush()
    elif move == "checkpoint":
        shop.watermark()
    elif move == "ddl":
        last += 1
        shop.sql(f"ALTER TABLE orders ADD COLUMN c{last} INT")
    elif move == "again":
        shop.again(shop.ts - rng.randint(1, 5))
    elif move == "dead":
        for name, waiting in shop.sink.waiting.items():
            if waiting:
                shop.sink.write(name, waiting, index=False)
    return last


class Query:
    """A query as Spark runs it, which stops and starts again at random."""

    def __init__(self, options: dict[str, Any], rng: random.Random) -> None:
        self.options, self.rng = options, rng
        self.reader = stream(options)
        self.begin = self.at = as_spark(self.reader.initialOffset())
        self.seen: Counter[tuple[Any, ...]] = Counter()

    def restart(self) -> None:
        self.reader = stream(self.options)
        if self.at == self.begin:
            self.begin = self.at = as_spark(self.reader.initialOffset())
        else:
            assert self.reader.partitions(self.at, self.at) == []

    def batch(self) -> bool:
        """One batch. Returns: whether there was something new"""
        if self.rng.random() < 0.2:
            self.restart()
        if self.rng.random() < 0.1:
            self.reader.latestOffset()  # what Spark does not use
        end = as_spark(self.reader.latestOffset())
        if end == self.at:
            return False
        if self.rng.random() < 0.2:  # the batch was planned
            self.restart()
        found = rows(self.reader, self.at, end)
        if self.rng.random() < 0.1:
            assert rows(self.reader, self.at, end) == found
        self.seen.update(identity(row) for row in found)
        self.at = end
        return True


@pytest.mark.parametrize("seed", range(12))
def test_each_row_is_in_exactly_one_batch_over_restarts(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    shop = StorageShop(tmp_path / "feed")
    for table in ("orders", "items"):
        shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    shop.watermark()
    options: dict[str, Any] = {"path": shop.sink.folder, "list-interval": "0s", "max-records-per-partition": 3}
    if rng.random() < 0.5:
        options["maxOffsetsPerTrigger"] = rng.randint(1, 6)
    query, last = Query(options, rng), 0
    for _ in range(30):
        last = step(rng, shop, last)
        query.batch()
    shop.watermark()
    while query.batch():
        continue
    sent = {(one.table.name, one.commit_ts) for one in shop.sent if isinstance(one, RowChange)}
    assert {one[:2] for one in query.seen} == sent and len(sent) > 10
    assert query.seen == Counter(identity(row) for row in read(options).to_pylist())


def test_a_new_query_can_begin_at_the_end_and_its_first_batch_survives_a_restart(tmp_path: Path) -> None:
    shop, options = fed(tmp_path)
    options |= {"startingOffsets": "latest", "table": "shop.orders"}
    reader = stream(options)
    start = reader.initialOffset()
    assert reader.latestOffset() == start
    shop.insert("orders", id="2", amount="1.00")
    shop.watermark()
    end = as_spark(reader.latestOffset())
    shop.insert("orders", id="3", amount="1.00")
    shop.watermark()
    again = stream(options)  # the batch was planned, and Spark asks again where the query begins
    assert [row["id"] for row in rows(again, again.initialOffset(), end)] == [2]
    assert [row["id"] for row in rows(again, end, again.latestOffset())] == [3]


def test_an_end_that_a_new_query_numbered_for_itself_is_refused_behind_a_checkpoint(tmp_path: Path) -> None:
    """Spark asks for the end before it tells the reader the checkpoint, if triggerAvailableNowWrapper is enabled."""
    shop, options = fed(tmp_path)
    reader = stream(options)
    start = as_spark(reader.initialOffset())
    first = as_spark(reader.latestOffset())
    assert len(rows(reader, start, first)) == 2
    shop.insert("orders", id="2", amount="1.00")
    shop.watermark()
    again = stream(options)
    end = as_spark(again.latestOffset())
    assert again.partitions(first, first) == []
    with pytest.raises(SourceFault, match="triggerAvailableNowWrapper"):
        rows(again, first, end)


def test_a_batch_can_be_read_again_after_a_look_that_found_nothing(tmp_path: Path) -> None:
    _, options = fed(tmp_path)
    reader = stream(options)
    start = as_spark(reader.initialOffset())
    end = as_spark(reader.latestOffset())
    found = rows(reader, start, end)
    assert as_spark(reader.latestOffset()) == end
    assert rows(reader, start, end) == found


def test_files_that_were_read_may_go_and_others_may_not(tmp_path: Path) -> None:
    shop, options = fed(tmp_path)
    reader = stream(options)
    start, end = reader.initialOffset(), reader.latestOffset()
    assert len(rows(reader, start, end)) == 2
    shop.insert("orders", id="2", amount="1.00")
    shop.watermark()
    shop.sink.written[0].unlink()
    later = reader.latestOffset()
    assert [json.loads(row["after"])["id"] for row in rows(reader, end, later)] == ["2"]
    parts = reader.partitions(end, later)
    shop.sink.written[1].unlink()
    with pytest.raises(
        SourceChanged, match=r"feed/shop/orders/.*CDC000002\.json no longer exists.* another\s+checkpoint"
    ):
        rows_of(parts, reader._columns)


@pytest.mark.parametrize(
    ("form", "bad"),
    [({}, b'"11.50'), ({"table": "shop.orders"}, b'"11.50'), ({"table": "shop.orders"}, b'"eleven"')],
    ids=["generic", "typed", "a value"],
)
def test_an_unreadable_row_names_its_file_and_line(tmp_path: Path, form: dict[str, str], bad: bytes) -> None:
    shop, options = fed(tmp_path)
    (path,) = shop.sink.written
    path.write_bytes(path.read_bytes().replace(b'"11.50"', bad))
    with pytest.raises(RejectedMessage, match=r"topic 'storage', partition 0.*orders/.*CDC000001\.json, line 2"):
        read({**options, **form})
    (row,) = [
        row for row in read({**options, **form, "on-reject": "row"}).to_pylist() if row["_change_type"] == "unreadable"
    ]
    assert "CDC000001.json, line 2" in row["reason" if not form else "_reason"]


def test_filters_on_offsets_read_only_their_files(tmp_path: Path) -> None:
    shop, given = fed(tmp_path)
    shop.insert("orders", id="2", amount="1.00")
    shop.watermark()
    options = read_options({**given, "filter-pushdown": "true"})
    reader = FilteringReader(options, query_columns(options))
    reader._bounds = Bounds(offsets=Span(2, 2), sets={"topic": frozenset({"storage"})})
    (part,) = reader.partitions()
    (row,) = rows_of([part], reader._columns).to_pylist()
    assert (row["offset"], row["_change_type"]) == (2, "update_postimage")
    reader._bounds = Bounds(sets={"topic": frozenset({"shop"})})
    assert reader.partitions() == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"protocol": "open"}, "option protocol: found 'open'; .*feed is a storage sink: canal-json, csv"),
        ({"protocol": "csv"}, r"feed/shop/orders/.*\.json ends in \.json.* `protocol` is not that of the changefeed"),
        ({"csv.delimiter": ";"}, r"option csv\.…: is for protocol = csv"),
        ({"protocol": "csv", "csv.delimitr": ";"}, r"option csv\.delimitr: unknown; did you mean `delimiter`"),
        ({"protocol": "csv", "csv.quote": "''"}, r"option csv\.quote: found"),
        ({"protocol": "csv", "csv.include-commit-ts": "false"}, r"option csv\.include-commit-ts: .* allowed: true"),
        ({"startingOffsets": '{"storage": {"0": 3}}'}, "option starting-offsets: found offsets; allowed: earliest"),
        ({"schema-registry": "http://registry"}, "option schema-registry: has no use with a storage sink"),
        ({"topics": "shop"}, "option topics is for Kafka"),
        ({"path": "s3a://key:secret@bucket/feed"}, "^option path: found a login before the bucket; give keys by `fs"),
        ({"path": "ftp://bucket/feed"}, "option path: found 'ftp://bucket/feed'; allowed: a folder, or a URI of s3"),
    ],
)
def test_a_mistake_names_the_option_and_the_folder(tmp_path: Path, options: dict[str, str], says: str) -> None:
    _, given = fed(tmp_path)
    with pytest.raises(UsageError, match=says):
        read({**given, **options})


def test_csv_is_for_storage_sinks_and_a_folder_without_checkpoint_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="option protocol: csv is for the files of a storage sink"):
        read_options({"bootstrap-servers": "b:1", "topics": "t", "protocol": "csv"})
    shop, options = fed(tmp_path, CSV)
    (shop.sink.folder / "metadata").unlink()
    with pytest.raises(SourceFault, match="feed has no file `metadata`: it is not the folder of a storage sink"):
        read(options)


def test_rows_without_commit_ts_are_refused_with_their_file(tmp_path: Path) -> None:
    shop, options = fed(tmp_path)
    (path,) = shop.sink.written
    path.write_bytes(path.read_bytes().replace(b'"_tidb"', b'"_other"'))
    with pytest.raises(UsageError, match=r"feed/shop/orders/.*CDC000001\.json: its rows have no commitTs"):
        read(options)
