"""A topic as a source of changes: whatever its changefeed did, each change is given once, in order."""

from pathlib import Path

import pytest

from tests.workload import Workload, WorkloadConfig, dispatch, write_topic
from ticdc_spark.capture.base import CapturedDdl, CaptureState, Transaction, follow
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.errors import LateRow, RejectedMessage, SchemaMissing, SourceFault, UsageError
from ticdc_spark.model import Message, RowChange, SchemaChange
from ticdc_spark.protocols.encoder_options import target_encoder

FAULTY = WorkloadConfig(
    seed=11,
    changes=1500,
    ddl_every=25,
    partitions=3,
    duplicates=0.1,
    reorder=True,
    restart_every=150,
    raw_key_changes=0.0,
)
PROTOCOLS = {
    "simple": {},
    "open-protocol": {},
    "canal-json": {"enable-tidb-extension": "true"},
    "debezium": {"enable-tidb-extension": "true"},
}


def record(folder: Path, protocol: str, config: WorkloadConfig) -> str:
    write_topic(dispatch(Workload(config), config, target_encoder(protocol, PROTOCOLS[protocol])), folder)
    return f"{folder}?source-timezone=UTC"


def truth(config: WorkloadConfig) -> list[tuple[int, str]]:
    return sorted(
        (event.commit_ts, _shown(event)) for event in Workload(config) if isinstance(event, RowChange | SchemaChange)
    )


def _shown(event: RowChange | SchemaChange) -> str:
    if isinstance(event, SchemaChange):
        return event.query
    image = event.before if event.after is None else event.after
    op = "insert" if event.op == "upsert" else event.op
    return f"{op} {event.table.schema}.{event.table.name} {sorted((image or {}).items())}"


def read(
    source: str, state: CaptureState | None = None, most: int = 1 << 60
) -> tuple[list[tuple[int, str]], CaptureState]:
    """What a source gives, at most so many elements, and the state after them."""
    capture = open_stream(source)
    state = state or capture.begin()
    found: list[tuple[int, str]] = []
    for captured in capture.read(state):
        assert captured.commit_ts >= state.commit_ts
        if isinstance(captured, Transaction | CapturedDdl):
            assert captured.commit_ts > state.commit_ts, "it rises"
            found += [(change.commit_ts, _shown(change)) for change in captured.changes]
        state = follow(state, captured)
        most -= 1
        if most == 0:
            break
    return found, state


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_replays_duplicates_and_disorder_give_each_change_once(tmp_path: Path, protocol: str) -> None:
    found, _ = read(record(tmp_path / "topic", protocol, FAULTY))
    assert sorted(found) == truth(FAULTY)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reading_goes_on_anywhere(tmp_path: Path, protocol: str) -> None:
    source = record(tmp_path / "topic", protocol, FAULTY)
    found: list[tuple[int, str]] = []
    state: CaptureState | None = None
    for most in (1, 7, 40, 3, 150, 90, 1 << 60):
        more, state = read(source, state, most)
        found += more
    assert sorted(found) == truth(FAULTY)


def write(folder: Path, *values: tuple[int, bytes | None]) -> str:
    offsets: dict[int, int] = {}
    messages = []
    for partition, value in values:
        offset = offsets[partition] = offsets.get(partition, -1) + 1
        messages.append(
            Message(topic="t", partition=partition, offset=offset, timestamp=len(messages), key=None, value=value)
        )
    write_topic(messages, folder)
    return str(folder)


def simple() -> tuple[bytes, list[bytes], list[int]]:
    """A BOOTSTRAP and two rows of a table, with their commitTs."""
    encoder = target_encoder("simple", {})
    rows = [event for event in Workload(WorkloadConfig(seed=1, changes=50)) if isinstance(event, RowChange)]
    one = rows[0]
    two = next(row for row in rows if row.table == one.table and row.commit_ts > one.commit_ts)
    bootstrap = encoder.bootstrap(one.table)
    assert bootstrap is not None and bootstrap.value is not None
    return (
        bootstrap.value,
        [next(encoder.rows([row])).value or b"" for row in (one, two)],
        [one.commit_ts, two.commit_ts],
    )


def watermark(ts: int) -> bytes:
    encoded = target_encoder("simple", {}).watermark(ts)
    assert encoded is not None and encoded.value is not None
    return encoded.value


def test_a_late_row_is_an_error_and_a_replay_is_not(tmp_path: Path) -> None:
    bootstrap, (one, two), (first, second) = simple()
    passed = [(0, bootstrap), (0, one), (0, watermark(second)), (1, watermark(second))]
    end = [(0, watermark(second + 1)), (1, watermark(second + 1))]
    found, _ = read(write(tmp_path / "replay", *passed, (0, one), (0, two), *end))
    assert [ts for ts, _ in found] == [first, second]
    # a partition that was not there when the others had passed it
    late = [*passed[:3], (0, watermark(second)), (1, watermark(first)), (1, watermark(second))]
    found, _ = read(write(tmp_path / "fine", *late, *end))
    assert [ts for ts, _ in found] == [first]


def test_a_row_below_what_was_given_in_a_partition_that_had_not_passed_it_is_late(tmp_path: Path) -> None:
    bootstrap, (one, two), (first, second) = simple()
    source = write(tmp_path / "topic", (0, bootstrap), (0, two), (0, watermark(second + 5)))
    _, state = read(source)
    assert state.commit_ts == second + 4
    # the partition appears later, with a row from before
    later = write(tmp_path / "later", (0, bootstrap), (0, two), (0, watermark(second + 5)), (1, one))
    with pytest.raises(LateRow, match=f"partition 1, offset 0: a row of .* with commitTs {first} came after"):
        read(later, state)


def test_a_version_that_never_comes_stops(tmp_path: Path) -> None:
    _, (one, _), (first, _) = simple()
    with pytest.raises(SchemaMissing, match=r"partition 0, offset 0: a row of .* needs version \d+ of it"):
        read(write(tmp_path / "topic", (0, one), (0, watermark(first + 1))))


def test_a_version_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    bootstrap, (one, two), (first, second) = simple()
    source = write(tmp_path / "topic", (0, one), (0, two), (0, watermark(second + 1)), (0, bootstrap))
    found, _ = read(source)
    assert [ts for ts, _ in found] == [first, second]


def test_a_message_that_cannot_be_read_stops(tmp_path: Path) -> None:
    bootstrap, (one, _), (first, _) = simple()
    with pytest.raises(RejectedMessage, match="partition 0, offset 1 cannot be read"):
        read(write(tmp_path / "topic", (0, bootstrap), (0, b"{}"), (0, one), (0, watermark(first + 1))))


def test_what_lies_above_the_last_watermark_is_not_given(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bootstrap, (one, two), (first, second) = simple()
    found, _ = read(write(tmp_path / "topic", (0, bootstrap), (0, one), (0, watermark(second)), (0, two)))
    assert [ts for ts, _ in found] == [first]
    assert "1 rows and DDLs above the last watermark" in caplog.text


def test_sources_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="debezium-avro has no watermarks"):
        open_stream(f"{write(tmp_path / 'x', (0, b'{}'))}?protocol=debezium-avro").begin()
    with pytest.raises(UsageError, match="no option 'tipo'; allowed: "):
        open_stream(f"{tmp_path}?tipo=x")
    with pytest.raises(UsageError, match="write kafka://host:port/topic"):
        open_stream("kafka://host:9092")
    with pytest.raises(UsageError, match="from is 'middle'; allowed: beginning, end"):
        open_stream("kafka://host:9092/t?from=middle")
    with pytest.raises(SourceFault, match="no such recorded topic"):
        open_stream(str(tmp_path / "nowhere"))
