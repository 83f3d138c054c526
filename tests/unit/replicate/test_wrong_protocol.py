"""A job file that names a protocol which the topic is not of: refused at once, nothing is kept, dropped or applied."""

from pathlib import Path

import msgspec
import pytest

from tests.memory_sink.lake import Lake
from tests.reference.workloads import FAULTS, messages_of
from tests.support.memory_job import Kept, ListSource, job_of, run
from ticdc_spark.errors import RejectedMessage, UsageError

SIMPLE = messages_of(FAULTS)


@pytest.mark.parametrize("policy", ["stop", "quarantine", "continue"])
@pytest.mark.parametrize("named", ["canal-json", "open", "debezium"])
@pytest.mark.parametrize("batch_rows", [1, 10_000])
def test_another_protocol_is_a_mistake_of_the_job_file(
    tmp_path: Path, policy: str, named: str, batch_rows: int
) -> None:
    lake, store = Lake(), Kept()
    job = job_of(tmp_path, on_reject=policy, parallel_tables=1, batch_rows=batch_rows, source_timezone="UTC")
    wrong = msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, protocol=named))
    with pytest.raises(UsageError, match=rf"these look like simple, but \[source\] protocol is {named}"):
        run(wrong, ListSource(SIMPLE), lake, store, named)
    assert not lake.tables
    assert lake.letters["job"] == {}
    assert store.progress is not None and store.progress.batch == 0
    done = run(job, ListSource(SIMPLE), lake, store)
    assert (
        done.progress.counters.rejected,
        all(table.is_clean for table in done.progress.tables if not table.is_gone),
    ) == (
        0,
        True,
    )


def test_bad_messages_of_the_right_protocol_are_no_mistake(tmp_path: Path) -> None:
    bad = [
        msgspec.structs.replace(SIMPLE[0], value=b'{"version":1,"type":"INSERT","oops":1}', offset=at) for at in (0, 1)
    ]
    store = Kept()
    with pytest.raises(RejectedMessage):
        run(job_of(tmp_path, parallel_tables=1), ListSource(bad), Lake(), store)
    nothing = [msgspec.structs.replace(one, value=b"\xff\xff") for one in bad]
    with pytest.raises(RejectedMessage):
        run(job_of(tmp_path, parallel_tables=1), ListSource(nothing), Lake(), Kept())


def test_one_foreign_message_among_good_ones_is_a_bad_message(tmp_path: Path) -> None:
    canal = b'{"database":"s","table":"t","isDdl":false,"type":"INSERT","es":1,"mysqlType":{},"sqlType":{},"data":[]}'
    first = msgspec.structs.replace(SIMPLE[0], key=None, value=canal, topic="t", partition=9, offset=0)
    with pytest.raises(RejectedMessage):
        run(job_of(tmp_path, parallel_tables=1), ListSource([first, *SIMPLE]), Lake(), Kept())
