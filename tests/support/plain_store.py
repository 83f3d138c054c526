"""As much of the S3 protocol as a state needs, in this process: a store that can be made to misbehave."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


class PlainStore:
    """Objects in memory behind HTTP."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.careless = False
        """Whether conditions of writes are ignored."""
        self.lost_answers = 0
        """How many of the next writes are done but answered with an error."""
        self.refusals = 0
        """How many of the next conditional writes are refused, whatever there is."""
        self.has_bucket = True
        self.failing = False
        self.goes_away = False
        """Whether nothing is answered any more after an answer that is lost."""
        self.requests: list[str] = []
        self.lock = threading.Lock()
        self.url = ""

    def options(self) -> dict[str, str]:
        """What a job file gives, after ``state.``."""
        return {"endpoint": self.url, "region": "us-east-1", "access_key_id": "a", "secret_access_key": "shop-secret"}


class _Server(ThreadingHTTPServer):
    def __init__(self, store: PlainStore) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store = store


@contextmanager
def plain_store() -> Iterator[PlainStore]:
    """A store on a free loopback port."""
    store = PlainStore()
    server = _Server(store)
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_GET(self) -> None:
        bucket, _, query = self.path.partition("?")
        if "list-type=2" in query:
            return self._list(bucket.rstrip("/"), parse_qs(query).get("prefix", [""])[0])
        with self.server.store.lock:
            data = self.server.store.objects.get(self.path)
        if self.server.store.failing:
            return self._answer(500)
        if data is None or not self.server.store.has_bucket:
            code = "NoSuchKey" if self.server.store.has_bucket else "NoSuchBucket"
            return self._answer(404, f"<Error><Code>{code}</Code></Error>".encode())
        return self._answer(200, data, _etag(data))

    def _list(self, bucket: str, prefix: str) -> None:
        with self.server.store.lock:
            found = {key.removeprefix(f"{bucket}/"): data for key, data in self.server.store.objects.items()}
        if self.server.store.failing:
            return self._answer(500)
        if not self.server.store.has_bucket:
            return self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        listed = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(data)}</Size><ETag>{_etag(data)}</ETag>"
            "<LastModified>2026-11-23T03:00:00.000Z</LastModified></Contents>"
            for key, data in sorted(found.items())
            if key.startswith(prefix)
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>"
        return self._answer(200, body.encode())

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.store.lock:
            self.server.store.requests.append(f"PUT {self.path}")
            there = self.server.store.objects.get(self.path)
            if self.server.store.failing:
                return self._answer(500)
            if self.server.store.refusals and (self.headers["If-Match"] or self.headers["If-None-Match"]):
                self.server.store.refusals -= 1
                return self._answer(412)
            if not self.server.store.careless and not self._may(there):
                return self._answer(412)
            self.server.store.objects[self.path] = data
            if self.server.store.lost_answers:
                self.server.store.lost_answers -= 1
                self.server.store.failing = self.server.store.goes_away
                return self._answer(500)
        return self._answer(200, b"", _etag(data))

    def do_DELETE(self) -> None:
        with self.server.store.lock:
            self.server.store.objects.pop(self.path, None)
        self._answer(204)

    def do_POST(self) -> None:
        """The removal of several objects in one request."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        bucket = self.path.partition("?")[0].rstrip("/")
        keys = [part.partition("</Key>")[0] for part in body.split("<Key>")[1:]]
        with self.server.store.lock:
            for key in keys:
                self.server.store.objects.pop(f"{bucket}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _may(self, there: bytes | None) -> bool:
        if self.headers["If-None-Match"] == "*":
            return there is None
        wanted = self.headers["If-Match"]
        return wanted is None or (there is not None and wanted == _etag(there))

    def _answer(self, status: int, data: bytes = b"", etag: str = "") -> None:
        self.send_response(status)
        if etag:
            self.send_header("ETag", etag)
            self.send_header("Last-Modified", "Mon, 23 Nov 2026 03:00:00 GMT")
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing."""
