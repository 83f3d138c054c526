"""A headless Chromium, driven by its own protocol over two pipes: no driver and no package is needed."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_SECONDS = 30.0


class Browser:
    """One window. ``errors``: what the page's script and its policy complained of; ``asked``: addresses that the page
    asked for."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._number, self._buffer = 0, b""
        self.errors: list[str] = []
        self.asked: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol in the window."""
        return self._call(method, self._session, **parameters)

    def open(self, url: str, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Show a page, and wait until it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")

    def ask(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + _SECONDS
        while not self.ask(script):
            assert time.monotonic() < end, script
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Press a key, and let it go."""
        typed = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def shoot(self, path: Path) -> None:
        """Write a picture of the whole page."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(picture))

    def _call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": session} if session else {}
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while (found := self._read()).get("id") != self._number:
            self._note(found)
        assert "result" in found, found
        result: dict[str, Any] = found["result"]
        return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._receive, 1 << 20)
            assert more, "the browser has ended"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.asked.append(event["params"]["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(event["params"]["exceptionDetails"]))
            case "Log.entryAdded" if event["params"]["entry"]["level"] == "error":
                self.errors.append(event["params"]["entry"]["text"])


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser while this lasts."""
    assert CHROMIUM is not None, "there is a Chromium"
    to_read, send = os.pipe()
    receive, to_write = os.pipe()
    kept = tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True)
    with kept as profile, Path(profile, "log").open("wb") as log:
        # The protocol wants the descriptors 3 and 4.
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        command += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"]
        shell = f'exec 3<&{to_read} 4>&{to_write}; exec "$@"'
        child = subprocess.Popen(
            ["/bin/bash", "-c", shell, "bash", *command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        os.close(to_read)
        os.close(to_write)
        try:
            yield Browser(send, receive)
        finally:
            child.terminate()
            child.wait(10)
            os.close(send)
            os.close(receive)
