"""``make demo-circle``: it ends with two equal sides, and leaves no process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "scripts.demo_circle")
ROOT = Path(__file__).parents[2]
TABLES = ("shop.customers", "shop.orders", "shop.page_views", "shop.products")


def processes_of(folder: Path) -> list[str]:
    """The command lines that name a file of the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has just ended
        if f"{folder}/" in line:
            found.append(line)
    return found


@pytest.mark.slow
def test_both_ends_are_equal_and_no_process_stays(tmp_path: Path) -> None:
    folder = tmp_path / "circle"
    command = [*COMMAND, "--folder", str(folder), "--seconds", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=590, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    lines = done.stdout.splitlines()
    for name in TABLES:
        (line,) = (line for line in lines if line.startswith(name))
        _, _, rows, verdict = line.split()
        assert verdict == "equal" and rows != "0", line
    assert not processes_of(folder)
    (folder / ".ticdc-spark-demo").unlink()
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)
    assert (refused.returncode, "has files that no demo wrote" in refused.stdout) == (2, True)


@pytest.mark.slow
def test_ctrl_c_ends_everything(tmp_path: Path) -> None:
    folder = tmp_path / "circle"
    command = [*COMMAND, "--folder", str(folder), "--seconds", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=ROOT) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "transactions in MariaDB" in line:
                break
        assert processes_of(folder)
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
        assert demo.wait(120) == 130, rest
    deadline = time.monotonic() + 10
    while left := processes_of(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
