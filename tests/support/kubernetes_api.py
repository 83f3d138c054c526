"""As much of Kubernetes as Spark's driver asks for: pods that are created, listed and deleted, each run as a process.

A pod's container becomes the entry point of the image, with the environment that Spark gave to the pod.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ENTRY_POINT = Path(__file__).parents[2] / "deploy" / "image" / "entrypoint.sh"
_PATH = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+))?")


class Cluster:
    """Pods of one namespace, and what was asked: (verb, resource)."""

    def __init__(self, folder: Path, driver: str) -> None:
        self.folder = folder
        self.asked: set[tuple[str, str]] = set()
        self.pods = {driver: {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": driver, "uid": "driver"}}}
        self.created: list[dict[str, Any]] = []
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def answer(self, verb: str, resource: str, name: str | None, body: bytes) -> tuple[HTTPStatus, dict[str, Any]]:
        """What the server answers to a request."""
        if resource != "pods":
            return HTTPStatus.FORBIDDEN, {}
        if verb == "create":
            return HTTPStatus.CREATED, self.create(json.loads(body))
        if verb in ("delete", "deletecollection"):
            self.delete(name)
            return HTTPStatus.OK, {}
        if name is not None:
            found = self.pods.get(name)
            return (HTTPStatus.NOT_FOUND, {}) if found is None else (HTTPStatus.OK, found)
        every = [each for each in self.pods.values() if "spec" in each]
        return HTTPStatus.OK, {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": every}

    def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        """Start the container of a pod, as a kubelet does."""
        name = pod["metadata"]["name"]
        with self._lock:
            self.created.append(pod)
            metadata = pod["metadata"] | {"uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
            self.pods[name] = pod | {"metadata": metadata, "status": {"phase": "Running", "podIP": "127.0.0.1"}}
            (container,) = pod["spec"]["containers"]
            given = {each["name"]: each.get("value", "127.0.0.1") for each in container["env"]}
            # The name of the pod and its address come from the pod itself.
            given["SPARK_EXECUTOR_POD_NAME"] = name
            home = self.folder / name
            home.mkdir(parents=True)
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            with (home / "log").open("wb") as log:
                self._running[name] = subprocess.Popen(
                    [ENTRY_POINT, *container["args"]],
                    env={"PATH": path, "JAVA_HOME": _java_home(), **given},
                    cwd=home,
                    stdout=log,
                    stderr=log,
                )
            return self.pods[name]

    def delete(self, name: str | None) -> None:
        """End one pod, or every executor."""
        with self._lock:
            for each in [name] if name else list(self._running):
                self._stop(each)

    def _stop(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()
            self.pods.pop(name)

    def log(self) -> str:
        """What the executors printed."""
        return "\n".join(path.read_text(errors="replace") for path in self.folder.glob("*/log"))


def _java_home() -> str:
    command = ["java", "-XshowSettings:properties", "-version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.search(r"java\.home = (.+)", shown)
    assert found is not None
    return found.group(1)


@contextmanager
def kubernetes(folder: Path, driver: str) -> Iterator[tuple[str, Cluster]]:
    """Serve the API while this lasts. ``driver``: name of the pod of the driver. Yields: its URL, and what it has"""
    cluster = Cluster(folder, driver)
    ended = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(cluster, ended))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", cluster
    finally:
        cluster.delete(None)
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(cluster: Cluster, ended: threading.Event) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            url = urlsplit(self.path)
            found = _PATH.fullmatch(url.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if found is None:
                self._answer(HTTPStatus.NOT_FOUND, {})
                return
            watches = "true" in parse_qs(url.query).get("watch", [])
            verb = _verb(self.command, found["name"], watches=watches)
            cluster.asked.add((verb, found["resource"]))
            if verb == "watch":
                self._watch()
            else:
                self._answer(*cluster.answer(verb, found["resource"], found["name"], body))

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _any  # noqa: N815

        def _watch(self) -> None:
            """A stream in which nothing happens: the driver also lists its pods now and then. By HTTP alone."""
            if self.headers.get("Upgrade"):
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {})
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            ended.wait()
            self.close_connection = True

        def _answer(self, status: HTTPStatus, value: dict[str, Any]) -> None:
            body = json.dumps({"kind": "Status", "apiVersion": "v1", "code": int(status)} | value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    return Handler


def _verb(method: str, name: str | None, *, watches: bool) -> str:
    """What Kubernetes calls a request, as a Role names it."""
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    if method == "GET":
        return "watch" if watches else "get" if name else "list"
    return {"POST": "create", "PATCH": "patch", "PUT": "update"}[method]
