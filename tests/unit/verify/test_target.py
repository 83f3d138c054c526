"""The target of a job as a comparison opens it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.cli.test_check import job_file
from ticdc_spark.config.load import load_job
from ticdc_spark.verify import target
from ticdc_spark.verify.target import Target


def test_a_start_of_spark_is_told_before_it_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "topic").mkdir()
    file = job_file(tmp_path, 'kind = "files"\npath = "topic"')
    happened = list[str]()
    kind = SimpleNamespace(open_lake=lambda _: happened.append("open"))
    monkeypatch.setattr(target, "sink_kind", lambda _: kind)
    opened = Target(load_job(file), lambda: happened.append("told"))
    assert happened == []
    assert (opened._session, opened._session) == (None, None)
    assert happened == ["told", "open"]
    opened.close()
