"""The state of a job in its target: in memory, and as an Iceberg table in a catalog on SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from tests.contract.state import StateContract, rows, taken, values
from tests.memory_sink.state import MemoryState
from ticdc_spark.config.job import IcebergConfig
from ticdc_spark.errors import DecisionNeeded, SinkFault, UsageError
from ticdc_spark.names import escape
from ticdc_spark.replicate.state.conditions import Clean, Diverged
from ticdc_spark.replicate.state.progress import PartitionState, Progress
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.iceberg import state as iceberg_state
from ticdc_spark.sinks.iceberg.python_catalog import open_catalog, properties, sqlite_file
from ticdc_spark.sinks.iceberg.state import KEPT, IcebergState
from ticdc_spark.sinks.iceberg.state_files import RESOLVED_TS
from ticdc_spark.sinks.state import StateMoved, StateStore
from ticdc_spark.sinks.states import open_state


class TestInMemory(StateContract):
    @pytest.fixture
    def opened(self) -> Callable[[], StateStore]:
        state = MemoryState("job")
        return lambda: state


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], IcebergState]]:
    states: list[IcebergState] = []

    def open_one() -> IcebergState:
        one = open_state(IcebergConfig(warehouse=str(tmp_path / "lake")), "job", {})
        assert isinstance(one, IcebergState)
        states.append(one)
        return one

    yield open_one
    for one in states:
        one.close()


class TestOnSqlite(StateContract):
    @pytest.fixture
    def opened(self, opened: Callable[[], IcebergState]) -> Callable[[], IcebergState]:
        return opened


def table_of(tmp_path: Path) -> Table:
    """The table of the state, as any reader loads it."""
    catalog = open_catalog("lake", str(tmp_path / "lake"), {})
    assert catalog is not None
    return catalog.load_table("_ticdc_spark.state_job")


def files(tmp_path: Path, folder: str) -> set[str]:
    return {path.name for path in (tmp_path / "lake" / "_ticdc_spark" / "state_job" / folder).iterdir()}


def test_a_look_at_a_job_that_never_ran_makes_nothing(tmp_path: Path, opened: Callable[[], IcebergState]) -> None:
    assert opened().load().version is None and opened().heartbeat() is None
    assert not (tmp_path / "lake").exists()


def test_the_rows_name_the_snapshot_of_each_table_and_their_condition(
    tmp_path: Path, opened: Callable[[], IcebergState]
) -> None:
    store = taken(opened())
    store.save(
        Progress(
            job="job",
            batch=1,
            applied=900,
            partitions=(PartitionState(topic="t", partition=0, offset=5, watermark=901),),
            tables=(
                TableState(schema="shop", name="a.b", applied=900, snapshot_id=11, condition=Clean()),
                TableState(schema="shop", name="c", applied=700, snapshot_id=12, condition=Diverged(since=600)),
            ),
        )
    )
    table = table_of(tmp_path)
    snapshot = table.current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    assert snapshot.summary.additional_properties[RESOLVED_TS] == "900"
    found = table.scan().to_arrow().to_pylist()
    assert [row["kind"] for row in found] == ["job", "progress", "partition", "table", "table"]
    columns = ("schema_name", "table_name", "resolved_ts", "snapshot_id", "condition")
    assert [tuple(row[name] for name in columns) for row in found if row["kind"] == "table"] == [
        ("shop", escape("a.b"), 900, 11, "clean"),
        ("shop", "c", 700, 12, "diverged"),
    ]
    assert json.loads(found[3]["value"])["name"] == "a.b"


def test_time_travel_finds_the_state_of_an_earlier_timestamp(opened: Callable[[], IcebergState]) -> None:
    states = opened()
    version = None
    for ts in (10, 20, 20, 30):
        version = states.commit({"a": rows(f"at {ts}")}, version, ts)
    for asked, found in ((9, {}), (10, {"a": ["at 10"]}), (29, {"a": ["at 20"]}), (99, {"a": ["at 30"]})):
        assert values(states.as_of(asked)) == found


def test_old_states_expire_with_their_files(tmp_path: Path, opened: Callable[[], IcebergState]) -> None:
    states = opened()
    version = states.commit({"small": rows("0"), "large": rows("kept")}, None, 0)
    for number in range(1, KEPT + 30):
        version = states.commit({"small": rows(str(number))}, version, number)
    table = table_of(tmp_path)
    assert len(table.snapshots()) <= KEPT + 2, "and the last of an hour"
    assert len(files(tmp_path, "data")) <= len(table.snapshots()) + 1
    assert len(files(tmp_path, "metadata")) <= 2 * len(table.snapshots()) + 1 + 11
    assert values(opened().load()) == {"small": [str(KEPT + 29)], "large": ["kept"]}
    for snapshot in table.snapshots():
        assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows == 2


def test_a_state_that_a_person_has_tagged_does_not_expire(
    tmp_path: Path, opened: Callable[[], IcebergState], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_state, "KEPT", 2)
    states = opened()
    version = states.commit({"a": rows("tagged")}, None, 1)
    table_of(tmp_path).manage_snapshots().create_tag(int(version), "before").commit()
    for number in range(6):
        version = states.commit({"a": rows(str(number))}, version, 2)
    table = table_of(tmp_path)
    assert table.scan(snapshot_id=table.refs()["before"].snapshot_id).to_arrow().column("value").to_pylist() == [
        "tagged"
    ]


def test_another_change_of_the_table_is_no_other_state(tmp_path: Path, opened: Callable[[], IcebergState]) -> None:
    """A person sets a property, or a tag: the state is the same, and the job goes on."""
    states = opened()
    version = states.commit({"a": rows("1")}, None, 0)
    with table_of(tmp_path).transaction() as change:
        change.set_properties(owner="ann")
    assert states.version() == version
    states.commit({"a": rows("2")}, version, 0)
    assert table_of(tmp_path).properties["owner"] == "ann"


def test_a_change_of_the_table_in_the_midst_of_a_commit_is_not_lost(
    tmp_path: Path, opened: Callable[[], IcebergState], monkeypatch: pytest.MonkeyPatch
) -> None:
    states = opened()
    version = states.commit({"a": rows("1")}, None, 0)
    catalog: Any = states._catalog
    commit, asked = catalog.commit_table, []

    def late(*arguments: Any) -> Any:
        asked.append(arguments)
        if len(asked) == 1:
            raise CommitFailedException("Table has been updated by another process")
        return commit(*arguments)

    monkeypatch.setattr(catalog, "commit_table", late)
    states.commit({"a": rows("2")}, version, 0)
    assert len(asked) == 2 and values(opened().load()) == {"a": ["2"]}


@pytest.mark.parametrize("error", [CommitFailedException("sent twice"), TimeoutError("no answer")])
def test_a_commit_that_happened_though_the_catalog_says_no_is_ours(
    opened: Callable[[], IcebergState], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    states = opened()
    version = states.commit({"a": rows("1")}, None, 0)
    catalog: Any = states._catalog
    commit = catalog.commit_table

    def lost(*arguments: Any) -> Any:
        commit(*arguments)
        raise error

    monkeypatch.setattr(catalog, "commit_table", lost)
    version = states.commit({"a": rows("2")}, version, 0)
    assert (opened().version(), values(opened().load())) == (version, {"a": ["2"]})


def test_nothing_is_committed_on_top_of_what_came_between(
    tmp_path: Path, opened: Callable[[], IcebergState], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg's own writers would do it; what was written for the refused commit is removed."""
    one, other = opened(), opened()
    version = one.commit({"a": rows("1")}, None, 0)
    catalog: Any = one._catalog
    commit = catalog.commit_table

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.undo()
        other.commit({"a": rows("other")}, version, 0)
        return commit(*arguments)

    monkeypatch.setattr(catalog, "commit_table", overtaken)
    with pytest.raises(StateMoved):
        one.commit({"a": rows("late")}, version, 0)
    assert values(opened().load()) == {"a": ["other"]}
    assert len(files(tmp_path, "data")) == 2, "those of the two that were committed"


def test_a_commit_of_which_nothing_is_known_is_a_fault_and_keeps_its_files(
    tmp_path: Path, opened: Callable[[], IcebergState], monkeypatch: pytest.MonkeyPatch
) -> None:
    states = opened()
    version = states.commit({"a": rows("1")}, None, 0)

    def away(*_: Any) -> Any:
        raise TimeoutError("no answer")

    monkeypatch.setattr(states._catalog, "commit_table", away)
    with pytest.raises(SinkFault, match=r"the state _ticdc_spark\.state_job .* cannot be written: TimeoutError"):
        states.commit({"a": rows("2")}, version, 0)
    assert len(files(tmp_path, "data")) == 2


def test_a_state_that_another_tool_has_rewritten_stops_with_the_cure(
    tmp_path: Path, opened: Callable[[], IcebergState]
) -> None:
    states = opened()
    version = states.commit({"a": rows("1")}, None, 0)
    table = table_of(tmp_path)
    table.overwrite(table.scan().to_arrow())
    with pytest.raises(DecisionNeeded, match=r"another tool has rewritten it\. Roll the table back"):
        opened().load()
    with pytest.raises(StateMoved):
        states.commit({"a": rows("2")}, version, 0)
    table_of(tmp_path).manage_snapshots().rollback_to_snapshot(int(version)).commit()
    states.commit({"a": rows("2")}, version, 0)
    assert values(opened().load()) == {"a": ["2"]}


def test_a_lake_restored_in_place_has_the_state_of_then(tmp_path: Path, opened: Callable[[], IcebergState]) -> None:
    store = taken(opened())
    store.save(Progress(job="job", batch=1))
    copy = {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    store.save(Progress(job="job", batch=2))
    for path, content in copy.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert taken(opened()).load() == Progress(job="job", batch=1)


def test_jobs_whose_names_differ_by_case_have_a_state_each(tmp_path: Path) -> None:
    config = IcebergConfig(warehouse=str(tmp_path / "lake"))
    for job in ("shop", "Shop", "SHOP"):
        states = open_state(config, job, {})
        states.commit({"a": rows(job)}, None, 0)
        states.close()
    for job in ("shop", "Shop", "SHOP"):
        states = open_state(config, job, {})
        assert values(states.load()) == {"a": [job]}
        states.close()


def test_ten_thousand_tables_are_one_file_and_a_plan_does_not_write_it_again(
    tmp_path: Path, opened: Callable[[], IcebergState]
) -> None:
    store = taken(opened())
    tables = tuple(
        TableState(schema="shop", name=f"t{at}", applied=2**58 + at, snapshot_id=2**61 + at * 7919, condition=Clean())
        for at in range(10_000)
    )
    store.save(Progress(job="job", batch=1, tables=tables))
    large = files(tmp_path, "data")
    sizes = [(tmp_path / "lake/_ticdc_spark/state_job/data" / name).stat().st_size for name in large]
    assert sum(sizes) < 2_000_000, sizes
    store.set_jvm(1)
    (small,) = files(tmp_path, "data") - large
    assert (tmp_path / "lake/_ticdc_spark/state_job/data" / small).stat().st_size < 10_000


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, "/w/catalog.db"),
        ({"uri": "jdbc:sqlite:/c/x.db?busy_timeout=1"}, "/c/x.db"),
        ({"type": "jdbc", "uri": "jdbc:sqlite:file:/c/x.db"}, "/c/x.db"),
        ({"type": "rest", "uri": "http://c"}, None),
        ({"type": "jdbc", "uri": "jdbc:postgresql://h/d"}, None),
        ({"type": "jdbc", "uri": "jdbc:postgresql://h/d?sslmode=require"}, None),
    ],
)
def test_a_catalog_on_sqlite_is_one_file(options: dict[str, str], found: str | None) -> None:
    for warehouse in ("/w", "file:/w", "file:///w"):
        assert sqlite_file(warehouse, options) == (None if found is None else Path(found))


def test_options_of_java_become_those_of_pyiceberg() -> None:
    options = {
        "type": "rest",
        "uri": "http://c",
        "token": "t",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": "r",
        "s3.endpoint": "http://s",
        "s3.path-style-access": "false",
        "cache-enabled": "false",
    }
    found = properties("s3://b/w", options, {"spark.hadoop.fs.s3a.access.key": "k", "spark.executor.cores": "2"})
    assert found == {
        "warehouse": "s3://b/w",
        "token": "t",
        "client.region": "r",
        "s3.region": "r",
        "s3.endpoint": "http://s",
        "s3.path-style-access": "false",
        "s3.force-virtual-addressing": "true",
        "s3.access-key-id": "k",
    }


@pytest.mark.parametrize(
    "options",
    [
        {"type": "nessie", "uri": "http://n"},
        {"catalog-impl": "org.apache.iceberg.nessie.NessieCatalog"},
        {"type": "jdbc", "uri": "jdbc:oracle:thin:@h"},
    ],
)
def test_a_catalog_that_pyiceberg_cannot_open_is_refused_by_name(options: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"^\[sink\] catalog\..*PyIceberg, which keeps the state of the job"):
        open_state(IcebergConfig(warehouse="s3://b/w", catalog_options=options), "job", {})


def test_a_catalog_that_does_not_answer_is_a_fault_of_the_sink() -> None:
    options = {"type": "rest", "uri": "http://127.0.0.1:9"}
    states = open_state(IcebergConfig(warehouse="s3://b/w", catalog_options=options), "job", {})
    with pytest.raises(SinkFault, match="cannot be opened: ConnectionError"):
        states.load()


def test_an_empty_file_is_no_catalog_yet(tmp_path: Path, opened: Callable[[], IcebergState]) -> None:
    """Another process may be making it."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "catalog.db").touch()
    assert opened().load().version is None
    opened().commit({"a": rows("1")}, None, 0)
    assert values(opened().load()) == {"a": ["1"]}


def test_a_state_is_created_while_another_process_makes_the_tables_of_the_catalog(
    tmp_path: Path, opened: Callable[[], IcebergState]
) -> None:
    """PyIceberg makes them one after the other."""
    (tmp_path / "lake").mkdir()
    open_catalog("lake", str(tmp_path / "lake"), {})
    with closing(sqlite3.connect(tmp_path / "lake" / "catalog.db")) as database:
        database.execute("DROP TABLE iceberg_namespace_properties")
        database.commit()
    state = opened()
    assert state.load().version is None
    assert state.commit({"job": rows("1")}, None, 0)
