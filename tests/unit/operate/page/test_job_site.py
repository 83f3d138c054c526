"""The page of a job over HTTP, and its settings."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import urllib.request
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.support.job_state import put
from tests.support.page_examples import HOSTILE, job_file, jobs, many
from tests.support.page_examples import seen as seen_of
from tests.support.status_examples import IDENTITY, NOW, PROGRESS, beat, write_job
from tests.unit.operate.page.test_job_page import text
from tests.unit.operate.test_serving import HERE, get, lines
from ticdc_spark.cli import main
from ticdc_spark.cli.status import command
from ticdc_spark.config.secrets import remember
from ticdc_spark.operate.page.changes import Changes
from ticdc_spark.operate.page.job_history import JobHistory
from ticdc_spark.operate.page.job_site import job_routes
from ticdc_spark.operate.page.job_source import RunningJob, Seen
from ticdc_spark.operate.page.settings import settings, versions
from ticdc_spark.operate.page.view import MOST, Facts, Query, query_of
from ticdc_spark.operate.serving import serving
from ticdc_spark.replicate.report import BatchReport


class Still:
    """A job that does not change."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def seen(self) -> Seen:
        return self._seen


def test_page_parts_and_json_are_served_below_a_prefix() -> None:
    routes = job_routes(Still(jobs()["warning"]), IDENTITY, Changes(), is_running=True)
    with serving(HERE, routes, "listen") as place:
        assert "<h1>" in get(place, "/a/b/")[1]
        assert get(place, "/a/b/page.js")[1].startswith("//") and ":root" in get(place, "/a/b/page.css")[1]
        live = json.loads(get(place, "/a/b/live.json")[1])
        assert live["title"] == "▲ shop: warning"
        assert {"headline", "progress", "tables", "settings", "versions"} <= live["parts"].keys()
        status = json.loads(get(place, "/a/b/status.json")[1])
        assert (status["state"], status["changes"]) == ("warning", 1234) and "tables" not in status


def test_tables_are_searched_and_paged_by_the_server() -> None:
    routes = job_routes(Still(seen_of(many(10_000), beat())), IDENTITY, Changes(), is_running=True)
    with serving(HERE, routes, "listen") as place:
        found = json.loads(get(place, "/tables.json?search=orders_09&limit=3&offset=2")[1])
        assert (found["found"], found["states"]) == (998, {"clean": 9998, "quarantined": 2})
        assert [table["table"] for table in found["tables"]] == ["orders_09002", "orders_09003", "orders_09004"]
        many_of = get(place, "/tables.json?limit=100000")[1]
        assert len(json.loads(many_of)["tables"]) == MOST
        live = json.loads(get(place, "/live.json?search=orders_0999")[1])["parts"]["tables"]
        assert "1 to 8 of 8" in text(live)


@pytest.mark.parametrize("wrong", ["-1", "x", "9" * 5000, "1e3", "٣", ""])
def test_a_number_that_cannot_be_read_counts_as_not_given(wrong: str) -> None:
    assert query_of({"offset": wrong, "limit": wrong}) == Query()
    assert query_of({"limit": "0"}).limit == 1


def test_a_browser_hears_of_a_batch_and_finds_it() -> None:
    changes = Changes(pause=0.0, tick=60.0)
    history = JobHistory(changes.tell, lambda: NOW)
    routes = job_routes(RunningJob(IDENTITY, history, lambda: NOW), IDENTITY, changes, is_running=True)
    with serving(HERE, routes, "listen") as place:
        events = lines(place)
        assert next(events) == "data: 0"
        history.watcher.committed(BatchReport(progress=PROGRESS, messages=9))
        assert next(events) == "data: 1"
        assert "1,234 applied" in text(json.loads(get(place, "/live.json")[1])["parts"]["progress"])
        changes.close()


def test_a_browser_for_which_there_is_no_place_is_told_so() -> None:
    with serving(HERE, job_routes(Still(jobs()["normal"]), IDENTITY, Changes(most=0), is_running=True), "x") as place:
        assert get(place, "/events") == (503, "too many browsers listen\n")


def test_a_hostile_name_is_text_wherever_it_is_served() -> None:
    with serving(HERE, job_routes(Still(jobs()["hostile"]), IDENTITY, Changes(), is_running=True), "x") as place:
        assert HOSTILE not in get(place, "/?search=" + HOSTILE.replace(" ", "+"))[1]
        assert HOSTILE not in json.loads(get(place, "/live.json")[1])["parts"]["tables"]


def test_settings_are_shown_as_they_are_written_and_no_secret_is(tmp_path: Path) -> None:
    path = job_file(tmp_path)
    (facts,) = settings(path).parts
    assert isinstance(facts, Facts)
    found = {row.name: row.text for row in facts.rows}
    assert found["source.upstream"] == "mysql://reader:(secret)@db:4000?ssl-ca=/etc/ca.pem"
    assert found["source.topics"] == "shop" and found["route 1.tables"] == "shop.*"
    for name in ("kafka.sasl.jaas.config", "schema-registry.basic.auth.user.info"):
        assert found[f"source.{name}"] == "(secret)"
    assert {found["job.mask-salt"], found["metrics.token"], found["sink.catalog.credential"]} == {"(secret)"}
    assert "plain-" not in str(found)
    remember("a-remembered-secret")
    path.write_text(
        '[job]\nowner = "a-remembered-secret"\n[ticdc-spark]\nsource = "kafka://b/t?sasl-password=plain-1"\n'
    )
    assert "plain-1" not in str(settings(path)) and "remembered" not in str(settings(path))


def test_a_login_before_a_broker_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(
        '[source]\nbootstrap-servers = "ann:plain-1@one:9092, two:9092,bob:plain-2@three:9092"\n'
        '"kafka.sasl.oauthbearer.config" = "principal=ann value=plain-3"\ntopics = ["a:b", "c@d"]\n'
    )
    (facts,) = settings(path).parts
    assert isinstance(facts, Facts)
    found = {row.name: row.text for row in facts.rows}
    assert found["source.bootstrap-servers"] == "ann:(secret)@one:9092, two:9092,bob:(secret)@three:9092"
    assert found["source.topics"] == "a:b, c@d" and "plain-" not in str(found)


def test_of_the_program_of_a_notice_only_its_name_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text('[[notice]]\ncommand = ["curl", "-H", "Authorization: Bearer plain-1", "https://h/plain-2"]\n')
    (facts,) = settings(path).parts
    assert isinstance(facts, Facts)
    assert {row.name: row.text for row in facts.rows}["notice 1.command"] == "curl (secret) (secret) (secret)"


def test_settings_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    assert "no such job file" in str(settings(tmp_path / "none.toml"))
    assert "ticdc-spark" in str(versions(is_running=False))


def test_a_page_is_written_into_a_file_that_needs_no_server(tmp_path: Path) -> None:
    path, out = write_job(tmp_path), tmp_path / "page.html"
    put(path, msgspec.structs.replace(PROGRESS, job="shop"), beat("stopped"))
    run = CliRunner().invoke(command, [str(path), "--html", str(out)])
    assert run.exit_code == 0, run.output
    page = out.read_text(encoding="utf-8")
    assert "<script" not in page and "<form" not in page and "shop.orders" in page and ":root" in page
    assert "NO_SUCH_SECRET" in page and "stopped" in text(page)


def until_ctrl_c(arguments: list[str], path: str) -> tuple[int, str]:
    """The exit code of a command that serves a page, and what a browser got of it before Ctrl-C."""
    got: list[str] = []

    class Browsing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            threading.Thread(target=self.browse, args=(record.getMessage(),)).start()

        def browse(self, line: str) -> None:
            try:
                with urllib.request.urlopen(line.removeprefix("page: ") + path, timeout=10) as answer:
                    got.append(answer.read().decode())
            finally:
                os.kill(os.getpid(), signal.SIGINT)

    logger, handler = logging.getLogger("ticdc_spark.cli.options.serve"), Browsing()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        run = CliRunner().invoke(main, arguments)
    finally:
        logger.removeHandler(handler)
    return run.exit_code, "".join(got)


def test_the_page_of_a_job_that_is_down_is_served_until_ctrl_c(tmp_path: Path) -> None:
    path = write_job(tmp_path)
    put(path, msgspec.structs.replace(PROGRESS, job="shop"), beat("stopped"))
    code, page = until_ctrl_c(["status", str(path), "--serve", "127.0.0.1:0"], "a/b/")
    assert code == 0
    assert "stopped it was stopped on request" in text(page) and "shop.orders" in page


def test_the_page_of_a_changefeed_that_is_down_is_served_until_ctrl_c(tmp_path: Path) -> None:
    arguments = ["changefeed", "--state", str(tmp_path / "none"), "--sink-uri", "kafka://b:9092/t?protocol=simple"]
    code, page = until_ctrl_c([*arguments, "--serve", "127.0.0.1:0"], "")
    assert code == 0 and "nothing is stored: it has not run" in text(page)


def test_ways_of_showing_a_status_exclude_each_other(tmp_path: Path) -> None:
    path = write_job(tmp_path)
    run = CliRunner().invoke(command, [str(path), "--watch", "--html", "x"])
    assert run.exit_code == 2 and "--watch and --html exclude each other" in run.output
    run = CliRunner().invoke(main, ["status", str(path), "--serve", "0.0.0.0:9466"])
    assert run.exit_code == 2 and "there is no token; serve it to this machine alone" in run.output
    assert "is no HOST:PORT" in CliRunner().invoke(command, [str(path), "--serve", "nowhere"]).output
