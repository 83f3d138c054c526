"""A proxy that counts the requests to an HTTP server."""

import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Counted:
    """A server behind a proxy that counts requests by their method."""

    def __init__(self, real: str) -> None:
        self.real = urlsplit(real)
        self.url = ""
        self.requests: Counter[str] = Counter()

    def serve(self, client: socket.socket) -> None:
        """Pass on what a connection brings, in both directions, until it ends."""
        with client, socket.create_connection((self.real.hostname or "", self.real.port or 80)) as server:
            back = threading.Thread(target=_pass_on, args=(server, client, lambda _: None), daemon=True)
            back.start()
            _pass_on(client, server, self._count)
            back.join()

    def _count(self, sent: bytes) -> None:
        for method in _REQUEST.findall(sent):
            self.requests[method.decode()] += 1


_REQUEST = re.compile(rb"(?:^|\n)(GET|HEAD|POST|PUT|DELETE) /[^\r\n]* HTTP/1\.1\r\n")


def _pass_on(source: socket.socket, target: socket.socket, look: Callable[[bytes], None]) -> None:
    with suppress(OSError):
        while found := source.recv(1 << 16):
            look(found)
            target.sendall(found)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def counted(real: str) -> Iterator[Counted]:
    """A server behind a proxy of its own."""
    found = Counted(real)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        found.url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=found.serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield found
