"""What stands before a real schema registry in production: a proxy that ends TLS and requires a password."""

from __future__ import annotations

import base64
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.apicurio_registry import Registry


@contextmanager
def guarded(
    registry: Registry, user: str, password: str, certificate: tuple[Path, Path] | None = None
) -> Iterator[str]:
    """The registry behind such a proxy; gives host, port and path of its address.

    ``certificate``: key and certificate, for TLS.
    """
    expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    real = registry.url.partition("/apis/")[0]

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, body = 401, b'{"error_code":40101,"message":"Unauthorized"}'
            if self.headers.get("Authorization") == expected:
                forwarded = urllib.request.Request(real + self.path, sent or None, method=self.command)
                forwarded.add_header("Content-Type", self.headers.get("Content-Type") or "application/json")
                try:
                    with urllib.request.urlopen(forwarded, timeout=10) as answer:
                        status, body = answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    status, body = error.code, error.read()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_GET  # noqa: N815  names of the library

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        if certificate is not None:
            key, chain = certificate
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(chain, key)
            proxy.socket = context.wrap_socket(proxy.socket, server_side=True)
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{proxy.server_port}/apis/ccompat/v7"
        finally:
            proxy.shutdown()
            thread.join()
