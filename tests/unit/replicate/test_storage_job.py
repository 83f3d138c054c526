"""A job on the files of a storage sink: what it applies, however it dies and however TiCDC starts again."""

from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulator.faults import Fault
from tests.support.shop import after_every_death
from tests.support.storage_shop import StorageShop
from tests.support.storage_sink import DEFAULT, SinkOptions, schema_file
from ticdc_spark.config.job import SchemaFiles
from ticdc_spark.errors import DecisionNeeded, EnvironmentFault, RejectedMessage, SourceChanged, SourceFault, UsageError
from ticdc_spark.topics.storage.csv_lines import CsvFormat

PLAIN_CSV = CsvFormat(delimiter="|+", quote="", null="\\N", binary="hex")
LAYOUTS = {
    "days": SinkOptions(),
    "no dates": SinkOptions(date=None),
    "months": SinkOptions(date=lambda: "2026-01"),
    "years": SinkOptions(date=lambda: "2026"),
    "table ids": SinkOptions(table_ids=True),
    "table ids without dates": SinkOptions(table_ids=True, date=None),
    "across nodes": SinkOptions(dispatcher="1f7d8b2e-5c43-4e4e-9d0c-8f3a0e6d2b11"),
    "wide numbers": SinkOptions(width=20),
    "csv": SinkOptions(csv=CsvFormat()),
    "csv with old values and a header": SinkOptions(csv=CsvFormat(old_values=True), header=True),
    "csv without quotes": SinkOptions(csv=PLAIN_CSV),
}


def of_orders(folder: Path, options: SinkOptions = DEFAULT, **job: Any) -> StorageShop:
    """A table, a row of it, and a checkpoint."""
    shop = StorageShop(folder, options, **job)
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY, amount INT)")
    shop.insert("orders", id="1", amount="10")
    shop.watermark()
    return shop


def with_everything(folder: Path, options: SinkOptions = DEFAULT) -> StorageShop:
    """Rows, DDL of several kinds, and what TiCDC sends again after a restart."""
    shop = of_orders(folder, options)
    shop.sql("CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(20))")
    shop.insert("customers", id="1", name='Ann, "the" first\r\n\\N|+')
    shop.insert("customers", id="2", name=None)
    since = shop.watermark()
    shop.insert("orders", id="2", amount="20")
    shop.sql("ALTER TABLE orders ADD COLUMN note VARCHAR(20) DEFAULT 'none'")
    shop.update("orders", id="1", amount="11", note="more")
    shop.delete("orders", id="2")
    shop.sink.flush()
    shop.again(since)  # no checkpoint was written
    shop.insert("orders", id="3", amount="30", note="")
    shop.sql("RENAME TABLE customers TO people")
    shop.insert("people", id="3", name="Zoë")
    shop.watermark()
    shop.sql("TRUNCATE TABLE orders")
    shop.insert("orders", id="4", amount="40", note="last")
    shop.watermark()
    return shop


def judge(shop: StorageShop) -> None:
    assert shop.rows("orders") == [(4, 40, "last")]
    assert shop.rows("people") == [(1, 'Ann, "the" first\r\n\\N|+'), (2, None), (3, "Zoë")]
    assert shop.lake("customers") is None
    assert [shop.condition(name) for name in ("orders", "people")] == ["clean", "clean"]


def test_rows_below_the_checkpoint_are_applied(tmp_path: Path) -> None:
    shop = of_orders(tmp_path)
    shop.run()
    assert shop.rows("orders") == [(1, 10)]
    assert shop.condition("orders") == "clean"
    shop.update("orders", id="1", amount="11")
    shop.sink.flush()
    shop.run()
    assert shop.rows("orders") == [(1, 10)]  # it is not below the checkpoint
    shop.watermark()
    shop.run(again=True)
    assert shop.rows("orders") == [(1, 11)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [100_000, 1], ids=["at once", "message by message"])
def test_rows_and_ddl_are_applied_in_every_layout(tmp_path: Path, layout: str, rows: int) -> None:
    shop = with_everything(tmp_path, LAYOUTS[layout])
    shop.run(rows)
    judge(shop)


def test_a_job_that_follows_applies_the_same(tmp_path: Path) -> None:
    follower = StorageShop(tmp_path)
    shop = StorageShop(tmp_path)
    shop.watermark()
    for step in (
        lambda: shop.sql("CREATE TABLE orders (id INT PRIMARY KEY, amount INT)"),
        lambda: shop.insert("orders", id="1", amount="10"),
        lambda: shop.sql("ALTER TABLE orders ADD COLUMN note VARCHAR(20)"),
        lambda: shop.update("orders", id="1", amount="11", note="x"),
        lambda: shop.sql("CREATE DATABASE other"),
        lambda: shop.sql("CREATE TABLE other.t (id INT PRIMARY KEY)", schema="other"),
        lambda: shop.insert("t", "other", id="1"),
        lambda: shop.sql("DROP TABLE orders"),
    ):
        step()
        shop.sink.flush()
        follower.run(2, again=True)
        shop.watermark()
        follower.run(2, again=True)
    assert follower.rows("orders") is None
    assert follower.rows("t", "other") == [(1,)]
    assert follower.condition("orders") == "dropped"


@pytest.mark.parametrize(("layout", "rows"), [("days", 3), ("csv", 20)])
def test_after_every_death_the_tables_are_right(tmp_path: Path, layout: str, rows: int) -> None:
    number = iter(range(10_000))

    def make() -> StorageShop:
        return with_everything(tmp_path / str(next(number)), LAYOUTS[layout])

    assert after_every_death(make, judge, rows) > 20


def test_files_that_come_between_a_death_and_the_restart_change_nothing_of_the_batch(tmp_path: Path) -> None:
    deaths = 0
    for at in range(200):
        shop = with_everything(tmp_path / str(at))
        if not shop.dies_at(Fault(at=at, kind="die_after"), 3):
            break
        shop.sql("CREATE TABLE aaa (id INT PRIMARY KEY)")
        shop.insert("aaa", id="1")
        shop.insert("orders", id="5", amount="50", note=None)
        shop.watermark()
        shop.run(3, again=True)
        assert shop.rows("orders") == [(4, 40, "last"), (5, 50, None)]
        assert shop.rows("aaa") == [(1,)]
        deaths += 1
    assert deaths > 20


def test_rows_that_are_sent_again_are_replays(tmp_path: Path) -> None:
    shop = of_orders(tmp_path)
    shop.update("orders", id="1", amount="11")
    since = shop.watermark() - 5_000_000_000
    shop.run()
    shop.sink.options = SinkOptions(date=lambda: "2026-01-02")
    shop.again(0 * since)
    shop.insert("orders", id="2", amount="20")
    shop.watermark()
    shop.run()
    assert shop.rows("orders") == [(1, 11), (2, 20)]
    assert shop.lab.state.progress is not None
    assert shop.lab.state.progress.counters.replays >= 2
    assert shop.condition("orders") == "clean"


def test_rows_of_a_version_that_has_a_successor_are_read(tmp_path: Path) -> None:
    """TiCDC goes on in the folder of an older version after a restart."""
    shop = of_orders(tmp_path)
    old = shop.sink.versions["shop", "orders"]
    table = shop.tables["shop", "orders"]
    late = shop.row("insert", ("shop", "orders"), {"id": "2", "amount": "20"})
    shop.sql("ALTER TABLE orders ADD COLUMN note VARCHAR(20)")
    shop.run()
    shop.sink.versions["shop", "orders"] = old
    assert late.table == table
    shop.sink.write(("shop", "orders"), [late])
    shop.watermark()
    shop.run()
    assert shop.rows("orders") == [(1, 10, None), (2, 20, None)]


def test_a_file_counts_once_its_index_is_written(tmp_path: Path) -> None:
    shop = of_orders(tmp_path)
    shop.run()
    orphan = shop.row("insert", ("shop", "orders"), {"id": "2", "amount": "20"})
    path = shop.sink.write(("shop", "orders"), [orphan], index=False)
    shop.run()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])  # as one who writes in place has it for a moment
    shop.run()
    path.write_bytes(whole)
    shop.send_row(orphan)
    shop.watermark()
    shop.run()
    assert shop.rows("orders") == [(1, 10), (2, 20)]


def unindex(folder: Path) -> None:
    """As a copy of a feed that lacks the indexes."""
    for path in folder.rglob("*.index"):
        path.unlink()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_of_which_no_file_has_an_index_stops_the_job(tmp_path: Path, layout: str) -> None:
    shop = of_orders(tmp_path, LAYOUTS[layout])
    unindex(tmp_path)
    with pytest.raises(SourceFault, match=r"/CDC\S+ has rows below the checkpoint \d+, and no meta/CDC\.index names a"):
        shop.run()
    assert shop.lake("orders") is None


def test_a_feed_without_any_meta_folder_stops_the_job(tmp_path: Path) -> None:
    shop = of_orders(tmp_path, LAYOUTS["days"])
    for path in sorted(tmp_path.rglob("meta")):
        rmtree(path)
    with pytest.raises(SourceFault, match="also copy its `meta` folders"):
        shop.run()


def test_a_first_file_that_has_no_index_yet_does_not_stop_the_job(tmp_path: Path) -> None:
    shop = StorageShop(tmp_path)
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY, amount INT)")
    shop.watermark()
    row = shop.row("insert", ("shop", "orders"), {"id": "1", "amount": "10"})
    path = shop.sink.write(("shop", "orders"), [row], index=False)
    shop.run()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    shop.run()
    path.unlink()
    shop.send_row(row)
    shop.watermark()
    shop.run()
    assert shop.rows("orders") == [(1, 10)]


@pytest.mark.parametrize("layout", ["days", "csv"])
def test_files_without_an_index_are_named_if_a_crash_may_have_left_them(
    tmp_path: Path, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    """TiCDC died between the file and its index, and went on in the folder of the next day."""
    shop = of_orders(tmp_path, LAYOUTS[layout])
    row = shop.row("insert", ("shop", "orders"), {"id": "2", "amount": "20"})
    orphan = shop.sink.write(("shop", "orders"), [row], index=False)
    shop.run()
    assert "are not read" not in caplog.text
    shop.sink.options = msgspec.structs.replace(LAYOUTS[layout], date=lambda: "2026-01-02")
    shop.send_row(row)
    shop.watermark()
    shop.run()
    shop.run()
    assert shop.rows("orders") == [(1, 10), (2, 20)]
    assert caplog.text.count(f"are not read: 1 ({orphan.relative_to(tmp_path)})") == 1


def test_physical_partitions_have_folders_of_their_own(tmp_path: Path) -> None:
    shop = of_orders(tmp_path)
    for at in range(2, 6):
        shop.sink.partitions["shop", "orders"] = 100 + at % 2
        shop.insert("orders", id=str(at), amount="0")
        shop.sink.flush()
    shop.watermark()
    shop.run()
    assert len(shop.rows("orders") or ()) == 5
    assert len({path.parent.parent.name for path in shop.sink.written}) == 3


def test_a_file_that_was_removed_before_it_was_read_stops_the_job(tmp_path: Path) -> None:
    shop = of_orders(tmp_path)
    shop.run()
    for at in range(2, 5):
        shop.insert("orders", id=str(at), amount="0")
        shop.watermark()
    shop.sink.written[2].unlink()
    with pytest.raises(SourceChanged, match=r"shop/orders/\d+/2026-01-01: file 3 is missing, and files up to 4"):
        shop.run()


def test_a_file_whose_rows_wait_and_that_was_removed_stops_the_job(tmp_path: Path) -> None:
    shop = of_orders(tmp_path)
    shop.run()
    shop.insert("orders", id="2", amount="0")
    shop.sink.flush()
    shop.run()
    shop.stop()
    shop.sink.written[-1].unlink()
    shop.watermark()
    with pytest.raises(SourceChanged, match=r"CDC000002\.json no longer exists, and its rows were not applied yet"):
        shop.run()


def test_a_folder_whose_numbers_begin_again_stops_the_job(tmp_path: Path) -> None:
    """All files of a table were removed, and TiCDC was started again."""
    shop = of_orders(tmp_path, SinkOptions(date=None))
    shop.insert("orders", id="2", amount="0")
    shop.watermark()
    shop.run()
    for path in tmp_path.rglob("CDC*"):
        path.unlink()
    shop.insert("orders", id="3", amount="0")
    shop.watermark()
    with pytest.raises(SourceChanged, match="was read up to file 2, and its last file is 1 now"):
        shop.run()


def test_files_that_were_removed_after_they_were_applied_are_not_missed(tmp_path: Path) -> None:
    shop = of_orders(tmp_path)
    shop.run()
    shop.sink.written[0].unlink()
    shop.insert("orders", id="2", amount="0")
    shop.watermark()
    shop.run(again=True)
    assert len(shop.rows("orders") or ()) == 2


def test_another_folder_stops_the_job(tmp_path: Path) -> None:
    shop = of_orders(tmp_path / "a")
    shop.run()
    other = of_orders(tmp_path / "b")
    other.sql("CREATE TABLE more (id INT PRIMARY KEY)")
    other.watermark()
    for table in ("orders",):
        (tmp_path / "b" / "shop" / table).rename(tmp_path / "b" / "shop" / "gone")
    shop.stop()
    shop.sink.folder = tmp_path / "b"
    with pytest.raises(SourceChanged, match=r"no longer exists\. It was read up to file 1"):
        shop.run()


def test_a_folder_without_metadata_is_no_storage_sink(tmp_path: Path) -> None:
    shop = StorageShop(tmp_path)
    with pytest.raises(SourceFault, match="has no file `metadata`"):
        shop.run()


def test_rows_without_commit_ts_are_refused_with_the_cure(tmp_path: Path) -> None:
    shop = of_orders(tmp_path)
    path = shop.sink.written[0]
    path.write_bytes(path.read_bytes().replace(b'"_tidb"', b'"other"'))
    with pytest.raises(UsageError, match="enable-tidb-extension=true"):
        shop.run()


@pytest.mark.parametrize("layout", ["days", "csv"])
def test_a_line_that_cannot_be_read_is_named_by_file_and_line(tmp_path: Path, layout: str) -> None:
    shop = of_orders(tmp_path, LAYOUTS[layout])
    shop.insert("orders", id="2", amount="20")
    shop.insert("orders", id="3", amount="30")
    shop.watermark()
    path = shop.sink.written[-1]
    first, second, _ = path.read_bytes().split(b"\r\n")
    path.write_bytes(b"\r\n".join([first, b'"broken, ' + second.replace(b'"', b""), b""]))
    with pytest.raises(RejectedMessage, match=rf"CDC000002\{path.suffix}, line 2"):
        shop.run()
    shop.configure(on_reject="continue")
    shop.run()
    assert shop.rows("orders") == [(1, 10), (2, 20)]
    assert shop.condition("orders") == "diverged"


def test_a_ddl_is_read_though_another_file_describes_its_version(tmp_path: Path) -> None:
    shop = of_orders(tmp_path)
    ts = shop.sql("ALTER TABLE orders ADD COLUMN note VARCHAR(20) DEFAULT 'none'")
    described = schema_file(shop.tables["shop", "orders"], ts, None)
    (tmp_path / f"shop/orders/meta/schema_{ts}_0000000000.json").write_bytes(described)
    shop.watermark()
    shop.run()
    assert shop.rows("orders") == [(1, 10, "none")]
    assert shop.condition("orders") == "clean"


@given(content=st.binary(max_size=80), at=st.integers(0, 3), data=st.sampled_from(["json", "csv"]))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_in_place_of_any_file_never_break_the_job(tmp_path: Path, content: bytes, at: int, data: str) -> None:
    folder = Path(mkdtemp(dir=tmp_path))
    shop = of_orders(folder, SinkOptions(csv=CsvFormat() if data == "csv" else None), on_reject="continue")
    shop.run()
    shop.sql("CREATE TABLE more (id INT PRIMARY KEY)")
    shop.insert("more", id="1")
    shop.insert("orders", id="2", amount="20")
    shop.watermark()
    files = sorted(path for path in folder.rglob("*") if path.name.startswith(("schema_", "CDC0")))
    files[at % len(files)].write_bytes(content)
    with suppress(DecisionNeeded, EnvironmentFault, UsageError):  # what a person reads
        shop.run(2)


def test_tables_that_were_there_before_the_changefeed_are_described_by_their_schema_files(tmp_path: Path) -> None:
    shop = StorageShop(tmp_path)
    shop.change("CREATE TABLE orders (id INT PRIMARY KEY, price DECIMAL(10,3), note VARCHAR(9))")
    shop.insert("orders", id="1", price="1.500", note=None)
    shop.sql("ALTER TABLE orders DROP COLUMN note")
    shop.insert("orders", id="2", price="2.500")
    shop.watermark()
    shop.run()
    assert [(row[0], str(row[1])) for row in shop.rows("orders") or ()] == [(1, "1.500"), (2, "2.500")]
    assert shop.condition("orders") == "unverified"


def test_a_table_without_a_primary_key_waits_for_what_names_its_key(tmp_path: Path) -> None:
    shop = StorageShop(tmp_path / "feed")
    create = "CREATE TABLE orders (id INT NOT NULL, amount INT, UNIQUE KEY k (id))"
    shop.change(create)
    shop.insert("orders", id="1", amount="10")
    shop.watermark()
    shop.run()
    assert shop.rows("orders") is None
    (tmp_path / "shop.orders-schema.sql").write_text(f"{create};\n")
    shop.configure(schema=SchemaFiles(file=(tmp_path / "shop.orders-schema.sql",)))
    shop.run()
    assert shop.rows("orders") == [(1, 10)]


def test_a_full_read_joins_the_files(tmp_path: Path) -> None:
    shop = StorageShop(tmp_path, snapshot="now")
    shop.change("CREATE TABLE orders (id INT PRIMARY KEY, amount INT)")
    shop.row("insert", ("shop", "orders"), {"id": "1", "amount": "10"})  # before the changefeed
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    for at in range(5):
        shop.insert("other", id=str(at))
        shop.watermark()
        shop.run()
    shop.insert("orders", id="2", amount="20")
    shop.watermark()
    shop.run()
    assert shop.rows("orders") == [(1, 10), (2, 20)]
    assert shop.condition("orders") == "clean"


def test_from_the_latest_files_are_left_out(tmp_path: Path) -> None:
    shop = of_orders(tmp_path)
    shop.starting = "latest"
    shop.start()
    shop.stop()
    shop.insert("orders", id="2", amount="20")
    shop.watermark()
    shop.run()
    assert shop.rows("orders") == [(2, 20)]
    assert shop.condition("orders") == "unverified"


def test_the_state_does_not_grow_with_files_and_days(tmp_path: Path) -> None:
    days = iter(range(1, 29))
    shop = StorageShop(tmp_path, SinkOptions(date=lambda: f"2026-01-{shop.ts >> 18 and day:02d}"))
    day = next(days)
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY, amount INT)")
    sizes = []
    for day in days:
        shop.ts += (86_400_000) << 18
        for at in range(5):
            shop.insert("orders", id=str(day * 10 + at), amount="1")
            shop.sink.flush()
        shop.watermark()
        shop.run()
        assert shop.lab.state.progress is not None
        sizes.append(len(shop.lab.state.progress.source_memory))
    assert sizes[-1] <= max(sizes[:6]) + 50
    assert sizes[-1] < 1000
    assert len(shop.rows("orders") or ()) == 5 * 27
