"""``inspect`` and ``check`` on the folder of a storage sink."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.simulator.setup import job_of, with_keys
from tests.support.storage_shop import StorageShop
from tests.support.storage_sink import SinkOptions
from ticdc_spark.cli import main
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import UsageError
from ticdc_spark.operate.requests import rebuild_from_topic
from ticdc_spark.topics.storage.csv_lines import CsvFormat


def fed(folder: Path, *, csv: bool = False) -> StorageShop:
    shop = StorageShop(folder / "feed", SinkOptions(csv=CsvFormat() if csv else None))
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY, amount INT)")
    shop.insert("orders", id="1", amount="10")
    shop.update("orders", id="1", amount="11")
    shop.watermark()
    (folder / "job.toml").write_text(
        f'[job]\nname = "shop"\n[source]\nkind = "storage"\npath = "feed"\n'
        f'protocol = "{"csv" if csv else "canal-json"}"\n[sink]\nkind = "iceberg"\nwarehouse = "lake"\n'
    )
    return shop


@pytest.mark.parametrize("csv", [False, True])
def test_inspect_prints_the_changes_of_a_folder(tmp_path: Path, csv: bool) -> None:
    fed(tmp_path, csv=csv)
    found = CliRunner().invoke(main, ["inspect", str(tmp_path / "feed"), "--json"])
    assert found.exit_code == 0, found.output
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert [line["kind"] for line in lines] == ["ddl", "insert", "update", "watermark"]
    assert lines[2]["after"] == {"id": "1", "amount": "11"}


@pytest.mark.parametrize("csv", [False, True])
def test_check_says_what_is_there(tmp_path: Path, csv: bool) -> None:
    shop = fed(tmp_path, csv=csv)
    found = CliRunner().invoke(main, ["check", "--quick", str(tmp_path / "job.toml")])
    assert found.exit_code == 0, found.output
    assert f"1 files with rows, of 1 folders of tables; checkpoint {shop.ts}" in " ".join(found.output.split())
    deep = CliRunner().invoke(main, ["check", "--quick", "--deep", str(tmp_path / "job.toml")])
    assert deep.exit_code == 0, deep.output


def test_check_names_what_is_missing(tmp_path: Path) -> None:
    shop = fed(tmp_path)
    (shop.sink.folder / "metadata").unlink()
    found = CliRunner().invoke(main, ["check", "--quick", str(tmp_path / "job.toml")])
    assert found.exit_code == 1
    assert "has no file `metadata`: it is not the folder of a storage sink of TiCDC" in " ".join(found.output.split())


def test_check_names_files_without_an_index(tmp_path: Path) -> None:
    shop = fed(tmp_path)
    row = shop.row("insert", ("shop", "orders"), {"id": "2", "amount": "20"})
    orphan = shop.sink.write(("shop", "orders"), [row], index=False)
    shop.watermark()
    found = CliRunner().invoke(main, ["check", "--quick", str(tmp_path / "job.toml")])
    assert found.exit_code == 0, found.output
    words = " ".join(found.output.split())
    assert "names are not read: 1" in words
    assert orphan.name in words
    for path in shop.sink.folder.rglob("*.index"):
        path.unlink()
    found = CliRunner().invoke(main, ["check", "--quick", str(tmp_path / "job.toml")])
    assert found.exit_code == 1
    assert "no meta/CDC.index names a file of its table" in " ".join(found.output.split())


def test_check_names_the_other_protocol(tmp_path: Path) -> None:
    fed(tmp_path, csv=True)
    job = tmp_path / "job.toml"
    job.write_text(job.read_text().replace('"csv"', '"canal-json"'))
    found = CliRunner().invoke(main, ["check", "--quick", str(job)])
    assert found.exit_code == 2
    assert "`protocol` is not that of the changefeed" in " ".join(found.output.split())


def test_rebuild_from_topic_is_refused_with_the_way_out(tmp_path: Path) -> None:
    shop = fed(tmp_path)
    shop.run()
    job = with_keys(job_of(shop.setup, tmp_path), source=load_job(tmp_path / "job.toml").source)
    with pytest.raises(UsageError, match=r"Read the table from its database, with \[snapshot\]"):
        rebuild_from_topic(job, shop.lab.state.progress, ["shop.orders"])
