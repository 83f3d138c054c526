"""The page of a job: each of its states, hostile names, and as many tables as there may be."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import msgspec
import pytest

from tests.support.page_examples import HOSTILE, jobs, many, seen, told
from tests.support.status_examples import PROGRESS, TSO, WELL, beat
from ticdc_spark.model import SchemaChange
from ticdc_spark.operate.page.job_view import job_view
from ticdc_spark.operate.page.render import parts, title, whole
from ticdc_spark.operate.page.view import Query, Step, steps_of
from ticdc_spark.replicate.state.conditions import Clean
from ticdc_spark.replicate.state.progress import QueuedDdl
from ticdc_spark.replicate.state.table import TableState

MOST_BYTES = 120_000
"""Of a page, however many tables there are."""


def html(name: str, query: Query = Query()) -> str:  # noqa: B008  it is frozen
    return whole(job_view(jobs()[name], "shop.toml", query))


def text(page: str) -> str:
    """What a reader sees."""
    return " ".join(unescape(re.sub(r"<(style|title)>.*?</\1>|<[^>]*>", " ", page)).split())


class Tags(HTMLParser):
    """The tags of a page, which must be closed in the order in which they were opened."""

    EMPTY = ("meta", "link", "input", "polygon", "polyline")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self.open.pop() == tag


@pytest.mark.parametrize("name", jobs())
def test_every_state_is_a_whole_page_with_all_sections(name: str) -> None:
    page = html(name)
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert re.findall(r'<section id="([\w-]+)"', page) == [
        "progress",
        "tables",
        "held",
        "ddl",
        "dead-letters",
        "maintenance",
    ]
    assert tags.seen.count("script") == 1 and 'src="page.js"' in page
    addresses = re.findall(r'(?:href|src|action)="([^"]*)"', page)
    assert not [one for one in addresses if one.startswith("/") or "://" in one], "relative, so below any prefix"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pending", "pending it has not run yet"),
        ("starting", "pending starting since"),
        ("normal", "normal waiting for new messages since 2026-11-18 09:06:40Z"),
        ("catch-up", "catching up, 1,250,000 messages to read, about 2 min 28 s left"),
        ("warning", "warning 1 of 4 tables is quarantined, 1 of 4 tables has diverged"),
        ("retrying", "warning no broker of Kafka at broker:9092 answers"),
        ("failed", "To skip it: … since 2026-11-18 10:52:40Z, last heartbeat 14 min ago"),
        ("stopped", "stopped it was stopped on request since"),
        ("finished", "finished it reached the end that --once or --until-ts set"),
        ("many tables", "1 to 50 of 10,000"),
    ],
)
def test_a_page_says_how_the_job_is(name: str, said: str) -> None:
    assert said in text(html(name))


def test_the_next_commands_can_be_copied() -> None:
    page = html("failed")
    assert '<code class="command" data-copy>ticdc-spark replicate shop.toml</code>' in page
    assert steps_of("look at its log; nothing is lost; then run: ticdc-spark replicate shop.toml") == (
        Step("look at its log"),
        Step("nothing is lost"),
        Step("then run", "ticdc-spark replicate shop.toml"),
    )


def test_lags_what_waits_and_what_was_done_are_shown() -> None:
    shown = text(html("normal"))
    assert "lag 1 min 40 s upstream 59 s, this job 41 s" in shown
    assert "slowest partition shop-1" in shown
    assert "Lag now 1 min 40 s, highest 4 min 55 s, lowest 11 s, over 40 min" in shown
    assert "last batch 20,500 messages in 3.5 s: scan 0.7 s, apply 2.4 s, commit 0.3 s" in shown
    assert "ALTER TABLE `shop`.`orders` ADD COLUMN note VARCHAR(20)" in shown
    assert "62 data files, of 61 small ones, became 1" in shown and "another writer was faster" in shown
    assert "62 files, 1.3 GB → 5 files, 1.3 GB" in shown
    assert "1.3 GB 3 data files, 2 files of deletes, 34 snapshots, 6% of its rows are deleted" in shown
    assert "shop/1/2093" in shown and "ticdc-spark dead-letters shop.toml --show shop/1/2093" in shown
    held = text(html("warning"))
    assert "held back by ▲ partition: shop-1 is behind for 30 s" in held
    assert "▲ waits ALTER TABLE orders ADD x INT" in held


def test_names_errors_and_sql_of_others_are_text() -> None:
    page = html("hostile", Query(search=HOSTILE, state='"><script>'))
    assert HOSTILE not in page and page.count("<script") == 1
    shown = text(html("hostile"))
    assert shown.count(HOSTILE) >= 4, "they are shown as they are"
    for part in parts(job_view(jobs()["hostile"], "shop.toml", Query())).values():
        assert "<script" not in part


def test_a_page_does_not_grow_with_the_tables_nor_with_what_was_done() -> None:
    sizes = []
    for number in (1000, 10_000):
        page = whole(job_view(seen(many(number), beat(), told=told()), "shop.toml", Query()))
        sizes.append(len(page))
        assert page.count("<tr>") < 100
    assert max(sizes) < MOST_BYTES and abs(sizes[0] - sizes[1]) < 100
    ddls = tuple(
        QueuedDdl(
            change=SchemaChange(commit_ts=TSO + at, query="ALTER TABLE t " + "x" * 20_000, kind="ALTER"),
            topic="shop",
            partition=0,
            offset=at,
        )
        for at in range(200)
    )
    longer = msgspec.structs.replace(PROGRESS, ddls=ddls)
    assert len(whole(job_view(seen(longer, beat()), "shop.toml", Query(limit=500)))) < MOST_BYTES


def test_a_table_is_found_by_a_part_of_its_name_and_by_its_state() -> None:
    status = jobs()["many tables"]
    found = text(whole(job_view(status, "shop.toml", Query(search="ORDERS_0001"))))
    assert "shop.orders_00010" in found and "1 to 10 of 10" in found and "shop.orders_00020" not in found
    bad = text(whole(job_view(status, "shop.toml", Query(state="quarantined"))))
    assert "1 to 2 of 2" in bad and "offset 1: no JSON" in bad
    assert "no table fits" in text(whole(job_view(status, "shop.toml", Query(search="nowhere"))))


def test_tables_that_need_a_look_come_first_and_pages_follow_each_other() -> None:
    status = jobs()["many tables"]
    first = whole(job_view(status, "shop.toml", Query()))
    assert text(first).index("shop.z_bad_0") < text(first).index("shop.orders_00000")
    assert 'rel="next" data-offset="50"' in first and 'rel="prev"' not in first
    last = whole(job_view(status, "shop.toml", Query(offset=9_990)))
    assert "9,991 to 10,000 of 10,000" in text(last) and 'rel="prev" data-offset="9940"' in last
    assert 'rel="next"' not in last
    beyond = whole(job_view(status, "shop.toml", Query(offset=50_000)))
    assert "0 of 10,000" in text(beyond)


def test_the_last_ddl_of_a_table_is_shown_where_no_text_is_known() -> None:
    table = TableState(schema="shop", name="orders", applied=TSO, condition=Clean(), ddl_ts=TSO - (60_000 << 18))
    progress = msgspec.structs.replace(WELL, tables=(table,))
    assert "2026-11-18 11:04:00.000Z ● applied the last one of shop.orders" in text(
        whole(job_view(seen(progress, beat()), "shop.toml", Query()))
    )


def test_the_title_says_the_state_without_a_colour() -> None:
    assert title(job_view(jobs()["warning"], "shop.toml", Query())) == "▲ shop: warning"
