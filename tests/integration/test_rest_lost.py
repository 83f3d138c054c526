"""A REST catalog behind a proxy that loses or repeats requests around each commit, of the tables and of the state.

The job is started again after each fault that ends it, and its tables end in the truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from zlib import crc32

import pytest
from _pytest.mark import ParameterSet

from tests.integration.rest_lake import RestLake
from tests.spark.deaths import END, FIRST, SECOND
from tests.spark.histories import SECTION, check, read_again
from tests.spark.lake import read_table, replicate
from tests.spark.simple_topic import topic
from tests.support.rest_proxy import Fault
from ticdc_spark.errors import SinkFault

FAULTS: tuple[Fault, ...] = ("request", "answer", "silence", "late", "twice")
MOST = 8
"""So many requests for each path may meet a fault, so that the job ends."""


class Lossy:
    """Decides by the path of a request and its number among those of the path, so that a run can be repeated."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.seen, self.met = Counter[str](), Counter[str]()

    def __call__(self, path: str, sent: bytes) -> Fault:
        name = path.rpartition("/")[2].partition("?")[0].partition("_test_")[0]
        self.seen[name] += 1
        number = self.seen[name]
        # Iceberg deletes the files of a commit by Spark that was taken at once and refused afterwards.
        spared = self.fault == "twice" and b"spark.app.id" in sent
        if spared or number > MOST or crc32(f"0 {name} {number}".encode()) % 3:
            return ""
        self.met[name] += 1
        return self.fault


def _cases() -> Iterator[ParameterSet]:
    """One is quick."""
    quick = {("twice", "table", "plain")}
    for case in product(FAULTS, ("table", "batch"), ("plain", "history")):
        yield pytest.param(*case, marks=() if case in quick else pytest.mark.slow, id="-".join(case))


@pytest.mark.parametrize(("fault", "commit", "tables"), [*_cases()])
def test_tables_end_in_the_truth_whatever_is_lost_around_a_commit(
    rest_lake: RestLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, commit: str, tables: str
) -> None:
    rest_lake.empty("old")
    topic(tmp_path, FIRST)
    job_file = rest_lake.job(tmp_path, SECTION if tables == "history" else "")
    job_file.write_text(job_file.read_text().replace('commit = "batch"', f'commit = "{commit}"'))
    replicate(job_file)
    topic(tmp_path, (*FIRST, *SECOND))
    rest_lake.proxy.faults = lossy = Lossy(fault)
    faults: list[str] = []
    while not _is_done(job_file, faults):
        assert len(faults) <= sum(lossy.met.values()), faults
    assert sum(lossy.met.values()) > 5
    rest_lake.proxy.faults = lambda _, __: ""
    assert {name: rest_lake.rows(name) for name in END} == END
    if tables == "history":
        read_again(job_file, monkeypatch)
        session = rest_lake.session()
        check(lambda name: read_table(session, "old", name))


def _is_done(job_file: Path, faults: list[str]) -> bool:
    """Run the job to its end, or to the first fault that it does not bear."""
    try:
        return replicate(job_file).finished
    except SinkFault as error:
        faults.append(str(error))
        return False
