"""The routes of a status page: the page, its style and script, and its content as JSON."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Any

import msgspec

from ticdc_spark.operate.page.changes import Changes
from ticdc_spark.operate.page.render import parts, title, whole
from ticdc_spark.operate.page.view import Query, View, query_of
from ticdc_spark.operate.serving import Answer, Asked, Route, Stream

_HTML = "text/html; charset=utf-8"
_JSON = "application/json"
_FILES = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}


def page_routes(view: Callable[[Query], View], changes: Changes) -> dict[str, Route]:
    """The routes of a page. ``view``: describes it; ``changes``: tells browsers when to ask again."""

    def page(asked: Asked) -> Answer:
        return Answer(body=whole(view(query_of(asked.query))).encode(), kind=_HTML)

    def live(asked: Asked) -> Answer:
        now = view(query_of(asked.query))
        return json_answer({"title": title(now), "parts": parts(now)})

    def events(_: Asked) -> Answer | Stream:
        if not changes.enter():
            return Answer(body=b"too many browsers listen\n", status=HTTPStatus.SERVICE_UNAVAILABLE)
        return Stream(parts=changes.events(), kind="text/event-stream", done=changes.leave)

    static = {name: Route(answer=_file(name, kind)) for name, kind in _FILES.items()}
    return {
        "": Route(answer=page),
        "live.json": Route(answer=live),
        "events": Route(answer=events),
        **static,
    }


def saved(view: View) -> str:
    """A page for a file: with its style, and without parts that need a server."""
    return whole(view, _read("page.css"))


def _read(name: str) -> str:
    return (files("ticdc_spark.operate.page") / "files" / name).read_text(encoding="utf-8")


def _file(name: str, kind: str) -> Callable[[Asked], Answer]:
    answer = Answer(body=_read(name).encode(), kind=kind)
    return lambda _: answer


def json_answer(found: Mapping[str, Any]) -> Answer:
    """A JSON response."""
    return Answer(body=msgspec.json.encode(found), kind=_JSON)
