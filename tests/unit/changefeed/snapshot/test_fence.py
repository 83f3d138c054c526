"""What is left of a killed process does not send behind its successor; requests to read tables."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ticdc_spark.changefeed.backlog.backlog import Backlog
from ticdc_spark.changefeed.producer import ProducerLost
from ticdc_spark.changefeed.snapshot.faults import raise_fault
from ticdc_spark.changefeed.snapshot.fence import sending, take_over
from ticdc_spark.changefeed.snapshot.requests import request_tables, requested, taken
from ticdc_spark.errors import EnvironmentFault, SinkFault, UnsendableChange

SENDS = """
import sys, time
from pathlib import Path
from ticdc_spark.changefeed.snapshot.fence import sending
with sending(Path(sys.argv[1]), sys.argv[2]):
    print("sends", flush=True)
    time.sleep(60)
"""


def _taken(folder: Path) -> str:
    token = take_over(folder)
    assert token is not None
    return token


def test_who_takes_over_waits_for_the_tasks_of_a_killed_process(tmp_path: Path) -> None:
    token = _taken(tmp_path)
    command = [sys.executable, "-c", SENDS, str(tmp_path), token]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as task:
        assert task.stdout is not None and task.stdout.readline() == b"sends\n"
        with sending(tmp_path, token):
            pass  # tasks of one process do not wait for each other
        new: list[str] = []
        taking = Thread(target=lambda: new.append(_taken(tmp_path)))
        taking.start()
        time.sleep(0.5)
        assert not new, "the task sends"
        task.kill()
        taking.join(10)
        assert new and new != [token]
    with pytest.raises(SinkFault, match="taken over"), sending(tmp_path, token):
        pytest.fail("it sends")
    with sending(tmp_path, new[0]):
        pass


def test_a_task_that_does_not_end_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ticdc_spark.changefeed.snapshot.fence._LONGEST", 0.0)
    token = _taken(tmp_path)
    with sending(tmp_path, token), pytest.raises(EnvironmentFault, match="still send"):
        take_over(tmp_path)


def test_who_is_stopped_while_a_task_sends_takes_nothing_over(tmp_path: Path) -> None:
    token = _taken(tmp_path)
    with sending(tmp_path, token):
        assert take_over(tmp_path, lambda: True) is None
    with sending(tmp_path, token):  # it is still whose it was
        pass


def test_a_backlog_that_is_stopped_while_a_task_sends_leaves_its_files(tmp_path: Path) -> None:
    nothing: Any = None
    backlog = Backlog(nothing, nothing)
    left = tmp_path / "backlog" / "left"
    left.mkdir(parents=True)
    token = _taken(tmp_path)
    with sending(tmp_path, token):
        assert not backlog.take_over(tmp_path, lambda: True)
        assert left.exists()
    assert backlog.take_over(tmp_path, lambda: True) and not left.exists()


def test_a_state_folder_that_tasks_do_not_see_is_named(tmp_path: Path) -> None:
    with pytest.raises(SinkFault, match="elsewhere"), sending(tmp_path / "elsewhere", "any"):
        pytest.fail("it sends")


def test_requests_are_kept_until_they_are_taken(tmp_path: Path) -> None:
    request_tables(tmp_path, [("d", "one"), ("d", "zwei€")])
    request_tables(tmp_path, [("d", "two")])
    found = requested(tmp_path)
    assert [names for _, names in found] == [(("d", "one"), ("d", "zwei€")), (("d", "two"),)]
    request_tables(tmp_path, [("d", "later")])
    taken(found)
    assert [names for _, names in requested(tmp_path)] == [(("d", "later"),)]
    (tmp_path / "read-0.json").write_text("broken")
    with pytest.raises(EnvironmentFault, match=r"read-0\.json"):
        requested(tmp_path)


def test_errors_of_tasks_keep_their_kind() -> None:
    for name, kind in (("ProducerLost", ProducerLost), ("MessageError", UnsendableChange), ("Odd", EnvironmentFault)):
        with pytest.raises(kind, match="why"):
            raise_fault(name, "why")
