"""Rows that a message does not hold whole, and rows with checksums, through Spark."""

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.golden.equality import unequal_in_lake
from tests.spark.lake import lake, read_table, replicate, write_job
from tests.spark.simple_topic import ddl, insert, table, topic
from tests.spark.test_protocols import differences
from tests.support.recorded_topics import Line, write_json
from tests.support.vectors import case, needs_vectors
from ticdc_spark.errors import RejectedMessage, SourceFault
from ticdc_spark.model import Column, ColumnType, Watermark
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

V = Column(name="v", type=ColumnType(name="varchar", length=9, charset="utf8mb4", collate="utf8mb4_bin"))
T = table(1, V)
CREATE = ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", T)


@needs_vectors
@pytest.mark.parametrize(
    ("config_name", "protocol"),
    [
        ("simple_json_claim_check", "simple"),
        pytest.param("simple_json_claim_check_raw", "simple", marks=pytest.mark.slow),
        pytest.param("simple_avro_claim_check", "simple", marks=pytest.mark.slow),
        pytest.param("open_claim_check", "open", marks=pytest.mark.slow),
    ],
)
def test_rows_in_the_claim_check_storage_are_read(
    spark: SparkSession, folder: Path, config_name: str, protocol: str
) -> None:
    config = case("tiflow", "types_all").config(config_name)
    stored = config.case.path / f"{config.name}.claim_check"
    assert any(stored.iterdir())
    job = write_job(folder, config.path, 'source-timezone = "UTC"', protocol, f'claim-check-storage = "{stored}"')
    summary = replicate(job)
    assert summary.finished
    assert not unequal_in_lake(protocol, list(differences(lake(spark, folder), config, summary.progress)))


@needs_vectors
def test_a_row_elsewhere_is_rejected_without_its_storage_and_lost_with_another(folder: Path) -> None:
    config = case("tiflow", "types_all").config("simple_json_claim_check")
    job = write_job(folder, config.path)
    with pytest.raises(RejectedMessage, match=r"the row is kept at file:///claim-check/.*: claim-check-storage names"):
        replicate(job)
    (folder / "empty").mkdir()
    job = write_job(folder, config.path, "", "simple", 'claim-check-storage = "empty"')
    with pytest.raises(SourceFault, match="is not in the claim check storage"):
        replicate(job)


@pytest.mark.parametrize("verify", ["true", "false"])
def test_a_row_with_a_wrong_checksum_is_rejected_where_that_is_set(
    spark: SparkSession, folder: Path, verify: str
) -> None:
    simple = encoder(SimpleConfig(enable_row_checksum=True, compute_row_checksum=True))
    sent = [simple.ddl(CREATE), *simple.rows([insert(T, 20, id="1", v="a"), insert(T, 21, id="2", v="b")])]
    sent.append(simple.watermark(30))
    values = [one.value for one in sent if one is not None and one.value is not None]
    message = msgspec.json.decode(values[2])
    assert message["checksum"]["current"]
    message["data"]["v"] = "c"
    values[2] = msgspec.json.encode(message)
    lines = [Line("topic", 0, at, None, None, value) for at, value in enumerate(values)]
    source = write_json(folder / "topic" / "0.jsonl", lines).parent
    job = write_job(folder, source, f"verify-checksum = {verify}")
    if verify == "true":
        with pytest.raises(RejectedMessage, match=r"the row's checksum is \d+, its message has \d+.*offset 2"):
            replicate(job)
    else:
        replicate(job)
        assert sorted(row["v"] for row in read_table(lake(spark, folder), "s", "t")) == ["a", "c"]


def test_a_row_of_which_only_the_key_was_sent_is_rejected_without_an_upstream(folder: Path) -> None:
    source = topic(folder, [CREATE, insert(T, 20, id="1", v="a"), Watermark(30)])
    file = source / "0.jsonl"
    file.write_text(file.read_text())
    lines = file.read_text().splitlines()
    record = msgspec.json.decode(lines[1])
    value = msgspec.json.decode(msgspec.json.decode(f'"{record["value"]}"', type=bytes))
    value |= {"handleKeyOnly": True, "data": {"id": "1"}}
    record["value"] = msgspec.json.decode(msgspec.json.encode(msgspec.json.encode(value)))
    lines[1] = msgspec.json.encode(record).decode()
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(RejectedMessage, match="`upstream` names the database to ask"):
        replicate(write_job(folder, source))
