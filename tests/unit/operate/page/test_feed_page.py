"""The page of a changefeed."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support.page_examples import HOSTILE, feeds
from tests.support.status_examples import NOW, TSO
from tests.unit.operate.page.test_job_page import Tags, text
from tests.unit.operate.test_serving import HERE, TOKEN, get
from ticdc_spark.capture.base import CaptureState
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.progress import StateFolder
from ticdc_spark.changefeed.report import Report
from ticdc_spark.cli.changefeed import watched
from ticdc_spark.operate.page.changes import Changes
from ticdc_spark.operate.page.feed import FeedFolder, FeedHistory, feed_view
from ticdc_spark.operate.page.feed_site import feed_routes
from ticdc_spark.operate.page.render import whole
from ticdc_spark.operate.page.view import Query
from ticdc_spark.operate.serving import serving

SENT = Report(rows=7, messages=5, waiting=2, rows_per_second=3.0, saved=TSO)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pending", "pending nothing is stored: it has not run"),
        ("starting", "pending it is starting"),
        ("normal", "normal sends what comes since"),
        ("outage", "warning it waits for Kafka: broker:9092 refuses the connection"),
        ("reading", "normal reads shop.late, 12,000 rows"),
        ("stopped", "stopped no process runs it last stored 2026-11-18 11:06:38Z"),
        ("unreadable", "warning the changefeed's state cannot be read: progress.json"),
    ],
)
def test_a_page_says_how_the_changefeed_is(name: str, said: str) -> None:
    page = whole(feed_view(feeds()[name], Query()))
    tags = Tags()
    tags.feed(page)
    assert tags.open == [] and said in text(page)
    assert HOSTILE not in page and "cdc:password" not in page


def test_topics_position_and_watermark_are_shown() -> None:
    shown = text(whole(feed_view(feeds()["normal"], Query())))
    assert "position 0-1-4711 mysql-bin.000042:15321" in shown
    assert "source mysql://cdc:(secret)@db:3306" in shown
    assert "shop_orders 12 2026-11-18 11:05:00.000Z" in shown
    assert "903 rows/s" in shown and "not acknowledged 120 rows" in shown
    assert "shop.late waits" in shown
    narrow = text(whole(feed_view(feeds()["normal"], Query(search="ORD"))))
    assert "1 to 1 of 1" in narrow


def folder_of(path: Path) -> StateFolder:
    return StateFolder(path, changefeed="shop", target="b:9092/shop", protocol="simple", source="mysql://db:3306")


def test_a_running_changefeed_shows_what_it_reported_and_stored(tmp_path: Path) -> None:
    told: list[int] = []
    now = [NOW]
    history = FeedHistory("shop", tmp_path / "state", lambda: told.append(1), lambda: now[0])
    assert text(whole(feed_view(history.seen(), Query()))).count("it is starting") == 1
    with folder_of(tmp_path / "state") as folder:
        folder.save(CaptureState(position="0-1-9", commit_ts=TSO, tables=()), {"shop": 3}, 7)
        history(SENT)
        now[0] += 30
        history(SENT)
        with serving(HERE, feed_routes(history.seen, None, Changes(), is_running=True), "x") as place:
            status, page = get(place, "/prefix/")
    shown = text(page)
    assert status == 200 and "normal sends what comes since 2026-11-18 11:06:40Z" in shown
    assert "position 0-1-9" in shown and "shop 3" in shown and "<svg" in page
    assert told == [1, 1]


def test_a_changefeed_that_is_down_is_read_from_its_folder(tmp_path: Path) -> None:
    now = [NOW]
    reader = FeedFolder("shop", tmp_path / "state", lambda: now[0])
    assert "it has not run" in text(whole(feed_view(reader.seen(), Query())))
    with folder_of(tmp_path / "state") as folder:
        folder.save(CaptureState(position="0-1-9", commit_ts=TSO, tables=()), {"shop": 3}, 7)
        now[0] += 60
        assert reader.seen().is_running
    assert reader.seen().is_running, "it is not looked at again at once"
    now[0] += 60
    assert "stopped no process runs it" in text(whole(feed_view(reader.seen(), Query())))


def test_a_run_serves_metrics_and_its_page_where_the_file_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(f'[ticdc-spark]\nmetrics = "127.0.0.1:0"\nmetrics-token = "{TOKEN}"\n')
    changefeed = load_changefeed(path, "kafka://broker:9092/shop?protocol=simple", {})
    with caplog.at_level(logging.INFO), watched(changefeed, tmp_path / "state") as show:
        show(SENT)
        (line,) = [one for one in caplog.messages if one.startswith("page: ")]
        place = ("127.0.0.1", int(line.rstrip("/").rpartition(":")[2]))
        assert get(place, "/")[0] == 401
        page = text(get(place, "/", Authorization=f"Bearer {TOKEN}")[1])
        metrics = get(place, "/metrics", Authorization=f"Bearer {TOKEN}")[1]
    assert "normal sends what comes" in page and "ticdc-spark.metrics-token (secret)" in page
    assert "ticdc_spark_changefeed_rows_total 7.0" in metrics
