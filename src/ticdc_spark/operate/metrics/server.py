"""The HTTP server of metrics and health: ``/metrics``, ``/healthz`` and ``/readyz``."""

import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from ticdc_spark.config.secrets import redact
from ticdc_spark.config.values import Address
from ticdc_spark.errors import UsageError, os_reason

log = logging.getLogger(__name__)


class Collected(Protocol):
    """What metrics and health are asked of."""

    def not_ready(self) -> str:
        """Why no work is done; ``""``: it is."""


@contextmanager
def served(address: Address, metrics: Collected, key: str) -> Iterator[tuple[str, int]]:
    """Serve while this lasts. ``key``: of the setting that names the address. Yields: host and port

    Raises: UsageError where the address cannot be listened at
    """
    registry = CollectorRegistry()
    registry.register(metrics)  # type: ignore[arg-type]  # a Collector by its form
    try:
        server = _Server((address.host, address.port), _handler(registry, metrics.not_ready))
    except OSError as error:
        raise UsageError(
            f"{key}: {address.host}:{address.port} cannot be listened at: {os_reason(error)}. Name a free port of this "
            'machine, such as "127.0.0.1:9464"'
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield str(server.server_address[0]), int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say so, unless one who asked has gone."""
        error = sys.exc_info()[1]
        level = logging.DEBUG if isinstance(error, OSError) else logging.WARNING
        log.log(level, "metrics were not sent to %s: %r", client_address, error)


def _handler(registry: CollectorRegistry, not_ready: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "ticdc-spark"
        timeout = 10

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                encode, kind = choose_encoder(self.headers.get("Accept") or "")
                self._answer(HTTPStatus.OK, encode(registry), kind)
            elif path == "/healthz":
                self._answer(HTTPStatus.OK, b"ok\n")
            elif path == "/readyz":
                why = redact(not_ready())
                status = HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
                self._answer(status, f"{why or 'ok'}\n".encode())
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"allowed: /metrics, /healthz, /readyz\n")

        do_HEAD = do_GET  # noqa: N815

        def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    return Handler
