"""The status page in a real browser: every state is drawn without a complaint, and it follows the job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.support.browser import CHROMIUM, Browser, browser
from tests.support.page_examples import feeds, job_file, jobs, many
from tests.support.status_examples import IDENTITY
from ticdc_spark.config.job import Identity
from ticdc_spark.config.values import Address
from ticdc_spark.operate.page.changes import Changes
from ticdc_spark.operate.page.feed_site import feed_routes
from ticdc_spark.operate.page.job_history import JobHistory
from ticdc_spark.operate.page.job_site import job_page, job_routes
from ticdc_spark.operate.page.job_source import RunningJob, Seen
from ticdc_spark.operate.page.site import saved
from ticdc_spark.operate.page.view import MOST, Query
from ticdc_spark.operate.serving import Routes, serving, url_of
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.state.progress import Counters

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
HERE = Address("127.0.0.1", 0)


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as found:
        yield found


class Still:
    """A job that does not change."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def seen(self) -> Seen:
        return self._seen


def look(window: Browser, routes: Routes, picture: Path, *, width: int = 1200, dark: bool = False) -> str:
    """Open a page below a prefix and take its picture. Returns: what its headline says"""
    window.errors.clear()
    window.asked.clear()
    with serving(HERE, routes, "listen") as place:
        window.open(url_of(place) + "a/b/", width=width, dark=dark)
        window.wait("document.getElementById('live').textContent === 'live'")
        window.shoot(picture)
        assert window.errors == []
        assert {address.partition("?")[0].rpartition("/")[0] for address in window.asked if "data:" not in address} == {
            url_of(place) + "a/b"
        }
        return str(window.ask("document.querySelector('[data-part=headline]').innerText"))


@pytest.mark.parametrize("name", jobs())
def test_every_state_of_a_job_is_drawn(window: Browser, tmp_path: Path, name: str) -> None:
    identity = Identity(job_file(tmp_path), "shop", IDENTITY.sink)
    routes = job_routes(Still(jobs()[name]), identity, Changes(), is_running=True)
    assert jobs()[name].status.state in look(window, routes, tmp_path / "page.png")
    assert window.ask("document.documentElement.scrollWidth <= innerWidth"), "no text is wider than the page"


@pytest.mark.parametrize("name", feeds())
def test_every_state_of_a_changefeed_is_drawn(window: Browser, tmp_path: Path, name: str) -> None:
    routes = feed_routes(lambda: feeds()[name], None, Changes(), is_running=True)
    assert look(window, routes, tmp_path / "page.png")


def test_a_page_is_dark_where_the_reader_wants_it_and_fits_a_telephone(window: Browser, tmp_path: Path) -> None:
    routes = job_routes(Still(jobs()["warning"]), IDENTITY, Changes(), is_running=True)
    look(window, routes, tmp_path / "light.png")
    light = window.ask("getComputedStyle(document.body).backgroundColor")
    look(window, routes, tmp_path / "dark.png", width=400, dark=True)
    assert window.ask("getComputedStyle(document.body).backgroundColor") != light
    assert window.ask("document.documentElement.scrollWidth <= innerWidth")


def test_a_page_follows_the_job_and_is_searched_with_the_keyboard(window: Browser) -> None:
    changes = Changes(pause=0.0)
    history = JobHistory(changes.tell)
    routes = job_routes(RunningJob(IDENTITY, history), IDENTITY, changes, is_running=True)
    history.watcher.committed(BatchReport(progress=many(100)))
    with serving(HERE, routes, "listen") as place:
        window.open(url_of(place))
        window.wait("document.getElementById('live').textContent === 'live'")
        window.ask("window.marked = 'the page was not loaded again'")
        window.press("/")
        for letter in "bad_1":
            window.press(letter)
        window.wait("document.querySelectorAll('#tables tbody tr').length === 1")
        assert "shop.z_bad_1" in window.ask("document.querySelector('#tables tbody').innerText")
        more = msgspec.structs.replace(many(100), counters=Counters(rows=4711))
        history.watcher.committed(BatchReport(progress=more))
        window.wait("document.querySelector('#progress').innerText.includes('4,711 applied')")
        assert window.ask("document.querySelectorAll('#tables tbody tr').length") == 1
        assert window.ask("document.activeElement.name") == "search", "who types goes on typing"
        assert window.ask("window.marked")
        window.press("Escape")
        window.press("j")
        window.press("j")
        assert window.ask("document.activeElement.innerText") == "Tables"
        changes.close()
    window.wait("document.getElementById('live').textContent.includes('does not respond')")


def test_a_page_in_a_file_needs_no_server(window: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    page = saved(job_page(jobs()["many tables"], IDENTITY, Query(limit=MOST), is_running=False))
    path.write_text(page, encoding="utf-8")
    window.errors.clear()
    window.open(path.as_uri())
    assert window.ask("document.querySelectorAll('#tables tbody tr').length") == MOST
    assert window.ask("getComputedStyle(document.querySelector('section')).borderRadius") != "0px"
    assert window.errors == []
