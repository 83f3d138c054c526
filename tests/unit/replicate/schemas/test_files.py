"""CREATE TABLE statements of ``[schema] file``."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_spark.errors import UsageError
from ticdc_spark.replicate.schemas.files import with_schema_files
from ticdc_spark.replicate.state.progress import Progress


def known(folder: Path, **texts: str) -> dict[str, tuple[str, ...]]:
    """The columns of each table of files, by their names without ``.sql``."""
    files = [folder / f"{name.replace('__', '.')}.sql" for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text)
    progress = with_schema_files(Progress(job="shop"), files)
    return {f"{one.schema}.{one.name}": tuple(c.name for c in one.table.columns) for one in progress.schemas}


def test_a_file_of_dumpling_names_its_database(tmp_path: Path) -> None:
    text = "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\nCREATE TABLE `t` (`id` int PRIMARY KEY);\n"
    assert known(tmp_path, **{"shop__t-schema": text, "my%2Eshop__t-schema": text}) == {
        "shop.t": ("id",),
        "my.shop.t": ("id",),
    }


def test_a_later_file_sees_the_tables_of_those_before_it(tmp_path: Path) -> None:
    texts = {"one": "CREATE TABLE s.t (id INT PRIMARY KEY)", "two": "ALTER TABLE s.t ADD COLUMN v INT"}
    assert known(tmp_path, **texts) == {"s.t": ("id", "v")}


def test_the_file_and_the_statement_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\[schema\] file .*one\.sql: .*CREATE TABLE s\.t"):
        known(tmp_path, one="CREATE TABLE s.t (id INT PRIMARY KEY")
    (tmp_path / "two.sql").write_bytes(b"CREATE TABLE s.\xff (id INT)")
    with pytest.raises(UsageError, match=r"two\.sql: 'utf-8' codec"):
        with_schema_files(Progress(job="shop"), [tmp_path / "two.sql"])
