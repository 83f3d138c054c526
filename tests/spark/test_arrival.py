"""Topics without watermarks: replays, partitions and small batches change nothing; schemas change without DDL."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.golden.equality import unequal_in_lake
from tests.golden.test_reference import of
from tests.reference.faults import replayed, split
from tests.spark.lake import lake, read_table, replicate, write_job
from tests.spark.test_protocols import differences, registry, write_topic
from tests.support.vectors import case, needs_vectors
from ticdc_spark import failpoints
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import DecisionNeeded, UsageError
from ticdc_spark.model import Message, Row, RowChange
from ticdc_spark.protocols.avro.encode import AvroConfig, encoder

UTC = 'source-timezone = "UTC"'
HIDDEN = "_ticdc_commit_ts"


@needs_vectors
@pytest.mark.parametrize(
    ("name", "config_name", "batch_rows"),
    [
        ("smoke", "debezium", 15),
        ("smoke", "avro", 4),
        pytest.param("smoke", "avro_ext_string", 4, marks=pytest.mark.slow),
        pytest.param("keys", "debezium", 150, marks=pytest.mark.slow),
        pytest.param("keys", "canal_json", 150, marks=pytest.mark.slow),
        pytest.param("keys", "avro_ext_string", 100, marks=pytest.mark.slow),
    ],
)
def test_replays_partitions_and_batches_change_nothing(
    spark: SparkSession, folder: Path, name: str, config_name: str, batch_rows: int
) -> None:
    config = case("tiflow", name).config(config_name)
    # Only a commitTs gives the order of a key's changes in two partitions, and no millisecond does.
    partitions = split([sent.message for sent in config.messages], of(config), 3, by_key=config.protocol != "debezium")
    topic = write_topic(folder, (message for part in replayed(partitions, seed=1) for message in part))
    more = f'{UTC}\nbatch-rows = {batch_rows}\nmode = "arrival"'
    summary = replicate(write_job(folder, topic, more, config.protocol, registry(config)))
    assert summary.batches > 2
    found = list(differences(lake(spark, folder), config, summary.progress))
    assert not unequal_in_lake(config.protocol, found)


class Died(Exception):
    """A process that ends at a fault point."""


@needs_vectors
@pytest.mark.parametrize("config_name", [pytest.param("debezium", marks=pytest.mark.slow), "avro"])
def test_a_run_that_dies_at_every_point_ends_in_the_same_state(
    spark: SparkSession, folder: Path, config_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = case("tiflow", "smoke").config(config_name)
    job = write_job(folder, config.path, f'{UTC}\nmode = "arrival"\nbatch-rows = 5', config.protocol, registry(config))
    passed: dict[str, int] = {}

    def die(name: str) -> None:
        passed[name] = passed.get(name, 0) + 1
        if passed[name] in (1, 3):
            raise Died(name)

    deaths = 0
    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "point", die)
        for _ in range(30):
            try:
                summary = replicate(job)
                break
            except Died:
                deaths += 1
    assert deaths >= 8
    assert {"scan", "advance", "merge", "apply", "progress"} <= passed.keys()
    found = list(differences(lake(spark, folder), config, summary.progress))
    assert not unequal_in_lake(config.protocol, found)


class Schemas:
    """A registry in a file."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], int] = {}

    def register(self, subject: str, schema: str) -> int:
        return self.ids.setdefault((subject, schema), len(self.ids) + 1)

    def save(self, folder: Path) -> str:
        entries = [{"id": number, "schema": schema} for (_, schema), number in self.ids.items()]
        (folder / "schemas.json").write_bytes(msgspec.json.encode(entries))
        return 'schema-registry = "file:schemas.json"'


def avro_topic(folder: Path, changes: Iterable[tuple[str, Row]]) -> tuple[Path, str]:
    """A topic of inserts, each with the columns of its table then; and the registry's line of the job file."""
    schemas, sent = Schemas(), []
    to = encoder(AvroConfig(), schemas)
    for at, (columns, row) in enumerate(changes):
        table = parse_create(f"CREATE TABLE s.t (id INT PRIMARY KEY, {columns})", "s", "escape")
        (one,) = to.rows([RowChange(op="insert", table=table, commit_ts=(at + 1) << 20, after=row)])
        sent.append(Message(topic="s", partition=0, offset=at, key=one.key, value=one.value))
    return write_topic(folder, sent), schemas.save(folder)


ADDED = [
    ("a INT", {"id": "1", "a": "1"}),
    ("a INT, b INT NOT NULL DEFAULT 7", {"id": "2", "a": "2", "b": "2"}),
    ("a INT", {"id": "3", "a": "3"}),
]
GONE = [*ADDED, ("b INT NOT NULL DEFAULT 7, c VARCHAR(9)", {"id": "4", "b": "4", "c": "x"})]


def test_new_columns_come_without_a_ddl_with_their_defaults(spark: SparkSession, folder: Path) -> None:
    topic, line = avro_topic(folder, ADDED)
    replicate(write_job(folder, topic, "batch-rows = 1", "avro", line))
    found = sorted((row["id"], row["a"], row["b"]) for row in read_table(lake(spark, folder), "s", "t"))
    assert found == [(1, 1, 7), (2, 2, 2), (3, 3, 7)]


WIDER = [
    ("a SMALLINT, d DECIMAL(6,2)", {"id": "1", "a": "32767", "d": "1234.50"}),
    ("a BIGINT, d DECIMAL(20,2)", {"id": "2", "a": "9223372036854775807", "d": "123456789012345678.25"}),
    ("a SMALLINT, d DECIMAL(6,2)", {"id": "3", "a": "-1", "d": "0.10"}),
]


@pytest.mark.parametrize("batch_rows", [1, 1000])
def test_wider_types_come_without_a_ddl_and_without_asking(spark: SparkSession, folder: Path, batch_rows: int) -> None:
    topic, line = avro_topic(folder, WIDER)
    replicate(write_job(folder, topic, f"batch-rows = {batch_rows}", "avro", line))
    found = sorted((row["id"], row["a"], str(row["d"])) for row in read_table(lake(spark, folder), "s", "t"))
    assert found == [(1, 32767, "1234.50"), (2, 2**63 - 1, "123456789012345678.25"), (3, -1, "0.10")]


def test_another_change_of_a_schema_stops_or_keeps(spark: SparkSession, folder: Path) -> None:
    topic, line = avro_topic(folder, GONE)
    with pytest.raises(DecisionNeeded, match="`a` is gone"):
        replicate(write_job(folder, topic, "batch-rows = 1", "avro", line))
    replicate(write_job(folder, topic, 'batch-rows = 1\nschema-change = "keep"', "avro", line))
    (last,) = (row for row in read_table(lake(spark, folder), "s", "t") if row["id"] == 4)
    assert (last["a"], last["b"], last["c"], last[HIDDEN]) == (None, 4, "x", 0)


@needs_vectors
def test_a_timestamp_without_its_zone_needs_source_timezone(folder: Path) -> None:
    config = case("tiflow", "smoke").config("open")
    with pytest.raises(UsageError, match=r"source-timezone: missing; column `ts` of `s1`\.`t`"):
        replicate(write_job(folder, config.path, "", "open"))


@needs_vectors
def test_what_cannot_be_detected_is_required(folder: Path) -> None:
    nothing = [Message(topic="t", partition=0, offset=0, key=None, value=b"hello")]
    with pytest.raises(UsageError, match=r"\[source\] protocol: .* cannot be detected"):
        replicate(write_job(folder, write_topic(folder, nothing), "", None))
    with pytest.raises(UsageError, match="schema-registry: missing"):
        replicate(write_job(folder, case("tiflow", "smoke").config("avro").path, UTC, None))
    with pytest.raises(UsageError, match="mode: found"):
        replicate(write_job(folder, case("tiflow", "smoke").config("open").path, f'{UTC}\nmode = "arrival"', "open"))
