"""The small server: what is found below a prefix, who may ask, and who is waited for."""

from __future__ import annotations

import base64
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from ticdc_spark.config.values import Address
from ticdc_spark.errors import UsageError
from ticdc_spark.operate.page.changes import Changes
from ticdc_spark.operate.serving import Answer, Asked, Route, Stream, is_private, serving, url_of

HERE = Address("127.0.0.1", 0)
TOKEN = "a-token-of-the-test"
ROUTES = {
    "": Route(answer=lambda asked: Answer(body=f"page {asked.query}".encode())),
    "state": Route(answer=lambda asked: Answer(body=b"known" if asked.is_known else b"unknown"), is_open=True),
}


def get(place: tuple[str, int], path: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(url_of(place).rstrip("/") + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_route_is_found_below_any_prefix() -> None:
    with serving(HERE, ROUTES, "listen") as place:
        for path in ("/", "/a/b/", "/a/b/?", "//"):
            assert get(place, path) == (200, "page {}"), path
        assert get(place, "/a/state") == (200, "known")
        assert get(place, "/a/?search=x%20y&search=z") == (200, "page {'search': 'z'}")
        assert get(place, "/?" + "&".join(f"a{at}=1" for at in range(30))) == (200, "page {}")
        assert get(place, "/a/other") == (404, "allowed: /, /state\n")


def test_an_answer_says_how_long_it_is_and_that_nothing_from_elsewhere_is_loaded() -> None:
    with serving(HERE, ROUTES, "listen") as place, urllib.request.urlopen(url_of(place), timeout=10) as answer:
        headers = answer.headers
    assert headers["Content-Length"] == "7"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
    assert not [name for name in headers if name.lower().startswith("access-control")]


def basic(password: str, user: str = "any") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN), basic(TOKEN, "")])
def test_a_request_with_the_token_is_answered(given: str) -> None:
    with serving(HERE, ROUTES, "listen", TOKEN) as place:
        assert get(place, "/", Authorization=given) == (200, "page {}")
        assert get(place, "/state", Authorization=given) == (200, "known")


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Basic !",
        "Basic é",
        basic(""),
        basic(f"x{TOKEN}"),
        TOKEN,
        f"Digest {TOKEN}",
    ],
)
def test_a_request_without_the_token_gets_only_what_is_open(given: str) -> None:
    with serving(HERE, ROUTES, "listen", TOKEN) as place:
        request = urllib.request.Request(url_of(place), headers={"Authorization": given} if given else {})
        with pytest.raises(urllib.error.HTTPError) as found, urllib.request.urlopen(request, timeout=10):
            pass
        with found.value as error:
            assert (error.code, error.read()) == (401, b"a token is needed\n")
            assert error.headers["WWW-Authenticate"].startswith("Basic ")
        assert get(place, "/nowhere")[0] == 401
        assert get(place, "/state") == (200, "unknown")


def test_one_who_asks_and_does_not_wait_is_no_error_of_the_job(capfd: pytest.CaptureFixture[str]) -> None:
    much = {"": Route(answer=lambda _: Answer(body=b"x" * 3_000_000)), "state": ROUTES["state"]}
    with serving(HERE, much, "listen") as place:
        for _ in range(3):
            with socket.create_connection(place) as asking:
                asking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                asking.send(b"GET / HTTP/1.0\r\n\r\n")
                asking.recv(1)
        assert get(place, "/state") == (200, "known")
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_what_only_this_machine_reaches_needs_no_token(host: str) -> None:
    assert is_private(Address(host, 1), None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "job.example"])
def test_what_others_reach_needs_a_token(host: str) -> None:
    assert not is_private(Address(host, 1), None) and is_private(Address(host, 1), TOKEN)


def test_an_address_that_is_taken_is_named_with_its_key() -> None:
    with (
        serving(HERE, ROUTES, "first") as (host, port),
        pytest.raises(UsageError, match=rf"job.toml: \[metrics\] listen: cannot listen on 127.0.0.1:{port}"),
        serving(Address(host, port), ROUTES, "job.toml: [metrics] listen"),
    ):
        pass


def events_of(changes: Changes) -> dict[str, Route]:
    def events(_: Asked) -> Answer | Stream:
        assert changes.enter()
        return Stream(parts=changes.events(), kind="text/event-stream", done=changes.leave)

    return {"events": Route(answer=events), **ROUTES}


def lines(place: tuple[str, int]) -> Iterator[str]:
    with urllib.request.urlopen(url_of(place) + "events", timeout=10) as answer:
        for line in answer:
            if line.startswith(b"data:"):
                yield line.decode().strip()


def test_a_browser_is_told_of_each_change_and_of_none_twice() -> None:
    changes = Changes(pause=0.0, tick=60.0)
    with serving(HERE, events_of(changes), "listen") as place:
        told = lines(place)
        assert next(told) == "data: 0"
        changes.tell()
        assert next(told) == "data: 1"
        changes.close()
        assert list(told) == []


def test_an_event_comes_now_and_then_without_news() -> None:
    changes = Changes(pause=0.0, tick=0.01)
    events = changes.events()
    assert next(events) == next(events) == b"retry: 5000\ndata: 0\n\n"


def test_many_changes_are_one_event() -> None:
    changes = Changes(pause=0.0, tick=60.0)
    events = changes.events()
    next(events)
    for _ in range(100):
        changes.tell()
    assert next(events).endswith(b"data: 100\n\n")


def test_more_browsers_than_there_are_places_are_refused_until_one_has_gone() -> None:
    changes = Changes(most=2)
    assert changes.enter() and changes.enter() and not changes.enter()
    changes.leave()
    assert changes.enter()


def test_a_browser_that_reads_nothing_holds_neither_the_run_nor_others_back() -> None:
    changes = Changes(pause=0.0, tick=60.0)
    with serving(HERE, events_of(changes), "listen") as place:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            slow.connect(place)
            slow.send(b"GET /events HTTP/1.0\r\n\r\n")
            slow.recv(16)
            began = time.monotonic()
            for _ in range(20_000):
                changes.tell()
            assert time.monotonic() - began < 5
            told = lines(place)
            assert next(told) == "data: 20000"
            assert get(place, "/state") == (200, "known")
        changes.close()


def test_what_a_stream_held_is_given_back_when_it_is_only_looked_at() -> None:
    done = threading.Event()
    stream = Stream(parts=iter(()), kind="text/plain", done=done.set)
    with serving(HERE, {"": Route(answer=lambda _: stream)}, "listen") as place:
        request = urllib.request.Request(url_of(place), method="HEAD")
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.read() == b""
        assert done.wait(10), "the server has sent its answer by then, and may not have come to its end"
