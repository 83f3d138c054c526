"""What stands between a client and a REST catalog: a proxy that can lose an answer, or let something happen first."""

from __future__ import annotations

import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from tests.support.token_issuer import TokenIssuer

TRANSACTION = "/transactions/commit"
TOKENS = "/tokens"
Loses = Literal["", "answer", "request", "half"]
Fault = Literal["", "request", "answer", "silence", "late", "twice"]
"""What goes wrong with a request that changes something. ``request``: it does not reach the catalog, status 503.
``answer``: its answer becomes the status 502. ``silence``: its connection ends without an answer. ``late``: the status
504, and it reaches the catalog just before the next such request. ``twice``: it is sent again, and only the second
answer comes."""


class RestProxy:
    """A catalog behind a proxy. A commit of several tables is one step for every other request."""

    def __init__(self, real: str) -> None:
        self.real = real
        self.url = ""
        self.commits: list[list[str]] = []
        """The tables of each commit of several that the catalog has taken, sorted."""
        self.before: Callable[[], None] | None = None
        """What happens once, before the next such commit."""
        self.after: Callable[[], None] = lambda: None
        """What happens behind each, before its answer."""
        self.loses: Loses = ""
        """What of the next such commit is lost, with the status 500; ``half``: all but its first table, with 409."""
        self.offers = True
        """Whether it says that the catalog takes such commits."""
        self.issuer: TokenIssuer | None = None
        """Who gives tokens, at ``/tokens``; without one, a request needs none."""
        self.lock = threading.Lock()
        self.faults: Callable[[str, bytes], Fault] = lambda _, __: ""
        """What goes wrong, by path and content of a request that changes something in the catalog."""
        self._late: list[tuple[str, str, bytes, dict[str, str]]] = []

    def marks(self, schema: str, *tables: str) -> list[str | None]:
        """The marks of tables, as the catalog has them."""
        return [self.properties(schema, table).get("ticdc.applied") for table in tables]

    def properties(self, schema: str, table: str) -> dict[str, str]:
        with urllib.request.urlopen(f"{self.real}/v1/namespaces/{schema}/tables/{table}", timeout=10) as answer:
            found: dict[str, str] = json.load(answer)["metadata"]["properties"]
            return found

    def answer(
        self, method: str, path: str, sent: bytes, headers: dict[str, str], authorization: str
    ) -> tuple[int, bytes] | None:
        """The status and the content of an answer; ``None``: the connection ends without one."""
        if method not in ("GET", "HEAD") and path != TOKENS and not path.endswith("/metrics"):
            with self.lock:
                while self._late:
                    self._forward(*self._late.pop(0))
            match self.faults(path, sent):
                case "request":
                    return 503, b""
                case "late":
                    self._late.append((method, path, sent, headers))
                    return 504, b""
                case "answer":
                    self.answered(method, path, sent, headers, authorization)
                    return 502, b""
                case "silence":
                    self.answered(method, path, sent, headers, authorization)
                    return None
                case "twice":
                    self.answered(method, path, sent, headers, authorization)
        return self.answered(method, path, sent, headers, authorization)

    def answered(
        self, method: str, path: str, sent: bytes, headers: dict[str, str], authorization: str
    ) -> tuple[int, bytes]:
        if self.issuer is not None and path == TOKENS:
            return self.issuer.issue(sent, authorization)
        if self.issuer is not None and not self.issuer.accepts(authorization):
            refusal = {"message": "the token is missing or old", "type": "NotAuthorizedException", "code": 401}
            return 401, json.dumps({"error": refusal}).encode()
        if not path.endswith(TRANSACTION):
            with self.lock:
                status, body = self._forward(method, path, sent, headers)
            if path.partition("?")[0].endswith("/v1/config") and not self.offers:
                found = json.loads(body)
                found["endpoints"] = [one for one in found["endpoints"] if not one.endswith(TRANSACTION)]
                body = json.dumps(found).encode()
            return status, body
        before, self.before, loses, self.loses = self.before, None, self.loses, ""
        if before is not None:
            before()
        if loses == "half":
            sent = json.dumps({"table-changes": json.loads(sent)["table-changes"][:1]}).encode()
        with self.lock:
            status, body = (500, b"") if loses == "request" else self._forward(method, path, sent, headers)
            if status < 300:
                changes: list[dict[str, Any]] = json.loads(sent)["table-changes"]
                self.commits.append(sorted(one["identifier"]["name"] for one in changes))
                self.after()
        return (409 if loses == "half" else 500, b"") if loses else (status, body)

    def _forward(self, method: str, path: str, sent: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        request = urllib.request.Request(self.real + path, sent or None, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@contextmanager
def proxied(real: str, certificate: tuple[Path, Path] | None = None) -> Iterator[RestProxy]:
    """A catalog behind a proxy of its own. ``certificate``: key and certificate, for TLS."""
    found = RestProxy(real)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kept = {"Content-Type": self.headers.get("Content-Type") or "application/json"}
            answer = found.answer(self.command, self.path, sent, kept, self.headers.get("Authorization") or "")
            if answer is None:
                self.close_connection = True
                return
            status, body = answer
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815  names of the library

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
        if certificate is not None:
            key, chain = certificate
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(chain, key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
