"""The unit of systemd: systemd finds nothing wrong, and a stop fits what SIGTERM and the exit codes mean."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[3] / "deploy" / "systemd" / "ticdc-spark@.service"


def keys(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.M))


def test_a_person_decides_after_the_exit_codes_that_a_restart_does_not_cure() -> None:
    found = keys(UNIT.read_text(encoding="utf-8"))
    assert (found["Restart"], found["RestartPreventExitStatus"]) == ("on-failure", "2 4")
    assert (found["KillMode"], found["TimeoutStopSec"]) == ("mixed", "15min")
    assert found["ExecStart"].endswith("ticdc-spark replicate /etc/ticdc-spark/%i.toml")
    assert found["StartLimitIntervalSec"] == "0"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_knows_every_line(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    unit = tmp_path / UNIT.name
    # The command and the user of the unit are not on this machine.
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/sh", text, flags=re.M))
    instance = str(tmp_path / "ticdc-spark@shop.service")
    done = subprocess.run(["systemd-analyze", "verify", instance], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(text.replace("KillMode=mixed", "KilMode=mixed"))
    wrong = subprocess.run(["systemd-analyze", "verify", instance], capture_output=True, text=True, check=False)
    assert "KilMode" in wrong.stderr
