"""The cache of fetched jars."""

import subprocess
import sys
from pathlib import Path

import pytest

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.spark.session.jars import locked, resolve_jars

WAITS = """
import sys
from pathlib import Path
from ticdc_spark.spark.session.jars import locked

print("begins", flush=True)
with locked(Path(sys.argv[1])):
    print((Path(sys.argv[1]) / "jar").read_text(), flush=True)
"""


def test_a_second_process_waits_until_the_cache_is_filled(tmp_path: Path) -> None:
    folder = tmp_path / "ivy"
    with locked(folder):
        second = subprocess.Popen([sys.executable, "-c", WAITS, str(folder)], stdout=subprocess.PIPE, text=True)
        assert second.stdout is not None
        assert second.stdout.readline() == "begins\n"
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(0.5)
        (folder / "jar").write_text("whole")
    out, _ = second.communicate(timeout=30)
    assert (second.returncode, out) == (0, "whole\n")


def test_a_cache_that_cannot_be_made_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match=r"the cache of fetched jars, .*file/ivy: Not a directory"):
        resolve_jars(["a:b:1"], {"spark.jars.ivy": str(tmp_path / "file" / "ivy")})
