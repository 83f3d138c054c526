"""A small HTTP server beside a run, for metrics, health and the status page. It is read-only.

Only the last part of a path counts, so everything works below any prefix: ``/shop/metrics`` is ``/metrics``.
"""

import base64
import binascii
import hmac
import ipaddress
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qs

import msgspec

from ticdc_spark.config.values import Address
from ticdc_spark.errors import UsageError, os_reason

log = logging.getLogger(__name__)
_MOST_FIELDS = 20
TEXT = "text/plain; charset=utf-8"
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request."""

    query: Mapping[str, str] = {}
    accept: str = ""
    """The header ``Accept``."""
    is_known: bool = True
    """Whether the request has the token, or none is needed. Other requests only reach open routes."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A complete response."""

    body: bytes
    kind: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A response that continues until the client is gone."""

    parts: Iterator[bytes]
    kind: str
    done: Callable[[], None]
    """Called once, at the end."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The handler of a path."""

    answer: Callable[[Asked], Answer | Stream]
    is_open: bool = False
    """Whether it responds without the token."""


Routes: TypeAlias = Mapping[str, Route]
"""Routes by the last part of the path: ``metrics``; ``""`` is the page itself."""


@contextmanager
def serving(address: Address, routes: Routes, key: str, token: str | None = None) -> Iterator[tuple[str, int]]:
    """Serve within a ``with`` block. ``key``: the setting of the address, for errors. Yields: host and port

    ``token``: must come with each request, as a bearer token or as the password of a login; ``None``: no token.
    Raises: UsageError if the server cannot listen on the address
    """
    try:
        server = _Server((address.host, address.port), _handler(routes, token))
    except OSError as error:
        raise UsageError(
            f"{key}: cannot listen on {address.host}:{address.port}: {os_reason(error)}. Name a free port of this "
            'machine, such as "127.0.0.1:9464"'
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    try:
        yield str(server.server_address[0]), int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def is_private(address: Address, token: str | None) -> bool:
    """Whether only this machine, or a client with the token, reaches an address."""
    if token is not None or address.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return False


def url_of(place: tuple[str, int]) -> str:
    """The URL of the page on a listening server."""
    host, port = place
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def comes_with(headers: Message, token: str) -> bool:
    """Whether a request has the token: as ``Authorization: Bearer …``, or as the password of ``Basic``."""
    scheme, _, given = (headers.get("Authorization") or "").partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode(errors="replace").partition(":")[2]
        except (binascii.Error, ValueError):
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.strip().encode(), token.encode())


class _Server(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the error, as a warning unless the client has gone."""
        error = sys.exc_info()[1]
        level = logging.DEBUG if isinstance(error, OSError) else logging.WARNING
        log.log(level, "nothing was sent to %s: %r", client_address, error)


def _query(text: str) -> dict[str, str]:
    """The last value of each name; empty if the query has too many fields."""
    try:
        return {name: values[-1] for name, values in parse_qs(text, max_num_fields=_MOST_FIELDS).items()}
    except ValueError:
        return {}


def _handler(routes: Routes, token: str | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "ticdc-spark"
        sys_version = ""
        timeout = 10

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            is_known = token is None or comes_with(self.headers, token)
            route = routes.get(path.rpartition("/")[2])
            if not is_known and not (route is not None and route.is_open):
                self._answer(
                    Answer(body=b"a token is needed\n", status=HTTPStatus.UNAUTHORIZED),
                    {"WWW-Authenticate": 'Basic realm="ticdc-spark: any name, and the token as the password"'},
                )
            elif route is None:
                known = ", ".join(f"/{name}" for name in routes)
                self._answer(Answer(body=f"allowed: {known}\n".encode(), status=HTTPStatus.NOT_FOUND))
            else:
                asked = Asked(query=_query(query), accept=self.headers.get("Accept") or "", is_known=is_known)
                self._give(route.answer(asked))

        do_HEAD = do_GET  # noqa: N815

        def _give(self, answer: Answer | Stream) -> None:
            if isinstance(answer, Answer):
                self._answer(answer)
                return
            try:
                self._head(HTTPStatus.OK, {"Content-Type": answer.kind, "X-Accel-Buffering": "no"})
                for part in answer.parts if self.command != "HEAD" else ():
                    self.wfile.write(part)
            finally:
                answer.done()

        def _answer(self, answer: Answer, more: Mapping[str, str] = {}) -> None:
            length = str(len(answer.body))
            self._head(answer.status, {"Content-Type": answer.kind, "Content-Length": length, **more})
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        def _head(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, **_HEADERS}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    return Handler
