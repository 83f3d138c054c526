"""The files of a storage sink in an object store."""

import json
from pathlib import Path

import pytest

from tests.support.datasource import read, rows_of, stream
from tests.support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server
from tests.support.storage_shop import PlainStorage, StorageShop
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import SourceChanged, SourceFault
from ticdc_spark.replicate.run.preflight import checks
from ticdc_spark.spark.sources.stored_files import StoreFiles, open_storage


class StoredShop(StorageShop):
    """The changefeed writes to the folder behind the store, and the job reads the store."""

    def __init__(self, store: S3Server, folder: Path, secret: str = SECRET_KEY) -> None:
        super().__init__(store.folder / "data" / BUCKET / folder.name)
        (folder / "job.toml").write_text(
            f'[job]\nname = "sim"\n[source]\nkind = "storage"\npath = "s3a://{BUCKET}/{folder.name}"\n'
            'protocol = "canal-json"\nlist-interval = "0s"\n[sink]\nkind = "iceberg"\nwarehouse = "lake"\n'
            f'[spark]\n"spark.hadoop.fs.s3a.endpoint" = "{store.url}"\n'
            '"spark.hadoop.fs.s3a.endpoint.region" = "us-east-1"\n'
            f'"spark.hadoop.fs.s3a.access.key" = "{ACCESS_KEY}"\n"spark.hadoop.fs.s3a.secret.key" = "{secret}"\n'
            '"spark.hadoop.fs.s3a.path.style.access" = "true"\n'
        )
        self.job = load_job(folder / "job.toml")

    def open_source(self) -> PlainStorage:
        return PlainStorage(None, open_storage(self.job.source))  # type: ignore[arg-type]


def test_a_job_reads_a_storage_sink_in_an_object_store(store: S3Server, tmp_path: Path) -> None:
    shop = StoredShop(store, tmp_path)
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY, amount INT)")
    for at in range(3):
        shop.insert("orders", id=str(at), amount="1")
        shop.watermark()
    source = next(one for one in checks(shop.job) if one.what == "source")
    assert source.error is None
    assert "3 files with rows, of 1 folders of tables" in source.found
    shop.run(2)
    assert shop.rows("orders") == [(0, 1), (1, 1), (2, 1)]
    shop.delete("orders", id="1")
    shop.sink.flush()
    shop.run(again=True)
    shop.sink.written[-1].unlink()
    shop.watermark()
    with pytest.raises(SourceChanged, match=r"s3a://lake/.*CDC000004\.json no longer exists"):
        shop.run(again=True)


def test_the_source_of_spark_reads_a_storage_sink_in_an_object_store(store: S3Server, tmp_path: Path) -> None:
    shop = StoredShop(store, tmp_path)
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY, amount INT)")
    shop.insert("orders", id="1", amount="1")
    shop.watermark()
    options = {
        "path": f"s3a://{BUCKET}/{tmp_path.name}",
        "list-interval": "0s",
        "fs.s3a.endpoint": store.url,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.access.key": ACCESS_KEY,
        "fs.s3a.secret.key": SECRET_KEY,
        "fs.s3a.path.style.access": "true",
    }
    assert [json.loads(row["after"]) for row in read(options).to_pylist()] == [{"id": "1", "amount": "1"}]
    reader = stream({**options, "table": "shop.orders"})
    start, end = reader.initialOffset(), reader.latestOffset()
    assert rows_of(reader.partitions(start, end), reader._columns).column("id").to_pylist() == [1]
    shop.insert("orders", id="2", amount="1")
    shop.watermark()
    later = reader.latestOffset()
    parts = reader.partitions(end, later)
    assert rows_of(parts, reader._columns).column("id").to_pylist() == [2]
    shop.sink.written[-1].unlink()
    with pytest.raises(SourceChanged, match=r"s3a://lake/.*CDC000002\.json no longer exists"):
        rows_of(parts, reader._columns)
    with pytest.raises(SourceFault, match=r"s3a://lake/.*/metadata cannot be read"):
        read({**options, "protocol": "canal-json", "fs.s3a.secret.key": "another-secret"})


def test_a_store_that_refuses_the_login_is_a_fault_that_names_it(store: S3Server, tmp_path: Path) -> None:
    shop = StoredShop(store, tmp_path, "another-secret")
    with pytest.raises(SourceFault, match=r"s3a://lake/.*/metadata cannot be read"):
        shop.run()


def test_a_listing_shows_folders_and_files(store: S3Server, tmp_path: Path) -> None:
    shop = StoredShop(store, tmp_path)
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY)")
    shop.watermark()
    files = open_storage(shop.job.source).files  # type: ignore[arg-type]
    assert isinstance(files, StoreFiles)
    top, table, nothing = files.look_into(["", "shop/orders", "nowhere"])
    assert (top.folders, [name for name, _ in top.files]) == (("shop",), ["metadata"])
    assert table.folders == ("meta",)
    assert (nothing.folders, nothing.files) == ((), ())
