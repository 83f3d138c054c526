"""Two jobs in one lake: each has its tables, and a table of the other is refused."""

from pathlib import Path

import msgspec
import pytest

from tests.memory_sink.lake import Lake
from tests.memory_sink.sink import MemorySink
from tests.reference.workloads import FAULTS, messages_of
from tests.support.memory_job import Kept, ListSource, job_of, run
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.store import acquire

SOURCE = ListSource(messages_of(FAULTS))
NAMES = sorted(
    {
        (table.schema, table.name)
        for table in run(job_of(Path(), parallel_tables=1), SOURCE, Lake(), Kept()).progress.tables
        if not table.is_gone
    }
)


def test_each_job_has_its_tables(tmp_path: Path) -> None:
    lake, (first, *_) = Lake(), NAMES
    of_first = (".".join(first),)
    one = msgspec.structs.replace(job_of(tmp_path, tables=of_first), name="one")
    two = msgspec.structs.replace(job_of(tmp_path, tables=("*.*", f"!{of_first[0]}")), name="two")
    run(one, SOURCE, lake, Kept())
    run(two, SOURCE, lake, Kept())
    whole = Lake()
    run(job_of(tmp_path), SOURCE, whole, Kept())
    for name, table in whole.tables.items():
        assert sorted(map(repr, lake.tables[name].named_rows())) == sorted(map(repr, table.named_rows())), name


@pytest.mark.parametrize("running", [True, False])
def test_a_table_of_another_job_is_refused_and_never_adopted_from_one_that_runs(tmp_path: Path, running: bool) -> None:
    lake, (first, *_) = Lake(), NAMES
    job = job_of(tmp_path, tables=(".".join(first),))
    one, two = msgspec.structs.replace(job, name="one"), msgspec.structs.replace(job, name="two")
    run(one, SOURCE, lake, Kept())
    before = {name: table.current for name, table in lake.tables.items()}
    with pytest.raises(DecisionNeeded, match="already, written by job 'one'"):
        run(two, SOURCE, lake, Kept())
    owner = acquire(MemorySink(lake).state("one"), "one", this_process())
    if not running:
        owner.release()
    adopting = msgspec.structs.replace(two, adopt=True)
    if running:
        with pytest.raises(DecisionNeeded, match="another job that is running: job 'one'"):
            run(adopting, SOURCE, lake, Kept())
        owner.release()
        assert {name: table.current for name, table in lake.tables.items()} == before
    else:
        run(adopting, SOURCE, lake, Kept())
        assert {name: table.current for name, table in lake.tables.items()} != before
