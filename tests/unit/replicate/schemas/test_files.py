"""CREATE TABLE statements of ``[schema] file``."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_spark.errors import UsageError
from ticdc_spark.replicate.schemas.files import with_schema_files
from ticdc_spark.replicate.state.progress import Progress


def known(folder: Path, text: str, name: str = "tables.sql") -> dict[str, tuple[str, ...]]:
    """The columns of each table of a file."""
    (folder / name).write_text(text)
    progress = with_schema_files(Progress(job="shop"), [folder / name])
    return {f"{one.schema}.{one.name}": tuple(c.name for c in one.table.columns) for one in progress.schemas}


@pytest.mark.parametrize("between", ["; ", ";", ";\n", ";\r\n", ";;\n\n"])
def test_each_statement_of_a_file_counts_wherever_its_line_ends(tmp_path: Path, between: str) -> None:
    statements = ["USE shop", "CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (`x;y` INT PRIMARY KEY)"]
    assert known(tmp_path, between.join(statements)) == {"shop.a": ("id",), "shop.b": ("x;y",)}


def test_comments_before_a_statement_do_not_hide_it(tmp_path: Path) -> None:
    text = """-- the orders; see the wiki
/*!40101 SET NAMES utf8mb4 */;
# another one
/* made by hand */ CREATE TABLE `shop`.`orders` (
  `id` INT PRIMARY KEY COMMENT 'it''s; \\'quoted\\'',
  `v` INT DEFAULT '1' -- a note; with a semicolon
);
"""
    assert known(tmp_path, text) == {"shop.orders": ("id", "v")}


def test_a_file_of_mysqldump_gives_its_tables(tmp_path: Path) -> None:
    text = """/*!40000 DROP DATABASE IF EXISTS `shop`*/;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET latin1 */;
USE `shop`;
DROP TABLE IF EXISTS `t`;
CREATE TABLE `t` (`id` int(11) NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;
LOCK TABLES `t` WRITE;
/*!40000 ALTER TABLE `t` DISABLE KEYS */;
INSERT INTO `t` VALUES (1),(2);
/*!40000 ALTER TABLE `t` ENABLE KEYS */;
UNLOCK TABLES;
"""
    assert known(tmp_path, text) == {"shop.t": ("id",)}


def test_a_file_of_dumpling_names_its_database(tmp_path: Path) -> None:
    text = "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\nCREATE TABLE `t` (`id` int PRIMARY KEY);\n"
    assert known(tmp_path, text, "shop.t-schema.sql") == {"shop.t": ("id",)}


@pytest.mark.parametrize(
    "change",
    ["ALTER TABLE shop.t ADD COLUMN n INT", "RENAME TABLE shop.t TO shop.u", "CREATE TABLE shop.u AS SELECT 1"],
)
def test_a_change_that_would_be_ignored_is_refused(tmp_path: Path, change: str) -> None:
    with pytest.raises(UsageError, match=r"tables\.sql") as error:
        known(tmp_path, f"CREATE TABLE shop.t (id INT PRIMARY KEY);\n{change};\n")
    assert change[:40] in str(error.value)


def test_a_statement_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"tables\.sql: .*CREATE TABLE shop\.t"):
        known(tmp_path, "CREATE TABLE shop.t (id INT PRIMARY KEY")
    with pytest.raises(UsageError, match="no database for"):
        known(tmp_path, "CREATE TABLE t (id INT PRIMARY KEY)")
