"""What is said of tables that are left out, and of rules that accept no table."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ticdc_spark.capture.base import CapturedDdl
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.notices import notices
from ticdc_spark.changefeed.route import Placer
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import SchemaChange, Table


def feed(folder: Path, text: str = "") -> Changefeed:
    (folder / "feed.toml").write_text(text)
    return load_changefeed(folder / "feed.toml", "kafka://broker:9092/t?protocol=simple")


def table(name: str, columns: str = "id INT PRIMARY KEY") -> Table:
    return parse_create(f"CREATE TABLE {name} ({columns})", "shop", "escape")


def test_tables_without_a_key_are_named_once_and_only_so_many(tmp_path: Path) -> None:
    keyless = [table(f"log{number}", "line INT") for number in range(10)]
    (found,) = notices(feed(tmp_path), [table("orders"), *keyless], all_known=True)
    assert "shop.log0, shop.log1" in found and found.count("shop.") == 8 and "and 2 more" in found
    assert "orders" not in found and "force-replicate" in found


def test_a_nullable_unique_index_is_no_key(tmp_path: Path) -> None:
    (found,) = notices(feed(tmp_path), [table("t", "a INT, UNIQUE KEY (a)")], all_known=True)
    assert "shop.t" in found
    assert not [*notices(feed(tmp_path), [table("t", "a INT NOT NULL, UNIQUE KEY (a)")], all_known=True)]


def test_nothing_is_left_out_where_tables_without_a_key_are_sent(tmp_path: Path) -> None:
    assert not [*notices(feed(tmp_path, "force-replicate = true"), [table("t", "a INT")], all_known=True)]


def test_tables_that_the_rules_exclude_are_not_warned_of(tmp_path: Path) -> None:
    keyless = [table("log", "line INT"), table("tmp", "line INT")]
    feed_ = feed(tmp_path, '[filter]\nrules = ["shop.*", "!shop.tmp"]\n')
    (found,) = notices(feed_, keyless, all_known=True)
    assert "shop.log" in found and "tmp" not in found
    assert not [*notices(feed(tmp_path, '[filter]\nrules = ["*.*", "!shop.*"]\n'), keyless, all_known=False)]


def test_a_rule_that_lets_in_no_table_is_named(tmp_path: Path) -> None:
    rules = '[filter]\nrules = ["shop.*", "shopp.*", "!shop.tmp", "# shop", "shop.order"]\n'
    found = [*notices(feed(tmp_path, rules), [table("orders")], all_known=True)]
    assert found == [
        "filter.rules: 'shopp.*' accepts no table that the source has now",
        "filter.rules: 'shop.order' accepts no table that the source has now",
    ]


def test_rules_are_not_judged_by_tables_of_a_stream(tmp_path: Path) -> None:
    assert not [*notices(feed(tmp_path, '[filter]\nrules = ["shopp.*"]\n'), [], all_known=False)]


@pytest.mark.parametrize(("columns", "warns"), [("a INT", True), ("a INT PRIMARY KEY", False)])
def test_a_new_table_without_a_key_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, columns: str, warns: bool
) -> None:
    class One:
        def partitions(self, topic: str) -> int:
            return 1

    new = table("late", columns)
    change = SchemaChange(
        kind="create table", schema="shop", commit_ts=7, query="CREATE TABLE late …", table=new, pre_table=None
    )
    with caplog.at_level(logging.WARNING):
        Placer(feed(tmp_path), One()).route(CapturedDdl(commit_ts=7, position="p", changes=(change,)))
    assert ("`shop`.`late` is excluded" in caplog.text) == warns
