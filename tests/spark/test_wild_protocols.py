"""A workload with every schema change and every fault, in the protocols that send only the SQL of a DDL."""

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.reference.faults import by_partition, interleaved
from tests.reference.test_reference import SQL_PROTOCOLS
from tests.reference.test_reference_arrival import DEBEZIUM
from tests.spark.lake import replicate, wild, write_job
from tests.spark.shops import truth_of, wrong
from tests.workload import dispatch, generate, write_topic


@pytest.mark.parametrize(
    ("protocol", "seed"),
    [
        ("open", 31),
        ("canal-json", 32),
        ("debezium", 33),
        *(pytest.param(name, seed, marks=pytest.mark.slow) for name in SQL_PROTOCOLS for seed in range(41, 44)),
    ],
)
def test_the_tables_are_true_in_the_end(spark: SparkSession, folder: Path, protocol: str, seed: int) -> None:
    config = msgspec.structs.replace(wild(seed), raw_key_changes=0.5, topic_per_table=bool(seed % 2))
    encoder, _ = SQL_PROTOCOLS[protocol]
    sent = interleaved(by_partition(dispatch(generate(config), config, encoder)), seed)
    write_topic(sent, folder / "topic", "jsonl")
    job = write_job(folder, folder / "topic", 'batch-rows = 120\nsource-timezone = "UTC"', protocol)
    summary = replicate(job)
    assert summary.batches > 2
    assert summary.ddls > 10
    assert not wrong(spark, folder, truth_of(config))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(51, 56))
def test_and_without_watermarks(spark: SparkSession, folder: Path, seed: int) -> None:
    config = msgspec.structs.replace(wild(seed), raw_key_changes=0.5)
    sent = interleaved(by_partition(dispatch(generate(config), config, DEBEZIUM)), seed)
    write_topic(sent, folder / "topic", "jsonl")
    job = write_job(folder, folder / "topic", 'mode = "arrival"\nbatch-rows = 150\nsource-timezone = "UTC"', "debezium")
    summary = replicate(job)
    assert summary.batches > 2
    assert summary.ddls > 10
    assert not wrong(spark, folder, truth_of(config))
