"""``ticdc-spark check``, and the same checks before Spark starts: what is wrong is known in seconds."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from pyspark import SparkContext

from tests.reference.workloads import FAULTS, messages_of
from tests.support.job_state import heartbeat, owned, put
from tests.workload import write_topic
from ticdc_spark.cli import main
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.model import Message, SchemaChange
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.streams.sql_tables import SqlTables
from ticdc_spark.topics.kafka_reader import TopicReader

kafka = pytest.importorskip("confluent_kafka")
SENT = messages_of(FAULTS)[:40]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A broker of librdkafka's own, with the topic ``shop``. It does not answer what the settings of a topic are."""
    monkeypatch.setattr(TopicReader, "compacted", lambda *_: [])
    producer = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "unused:1"})
    (there,) = producer.list_topics(timeout=10).brokers.values()
    for message in SENT:
        producer.produce("shop", key=message.key, value=message.value)
    assert producer.flush(20) == 0
    yield f"{there.host}:{there.port}"
    producer.flush(1)  # it is there as long as its producer


def job_file(folder: Path, source: str, job: str = "", warehouse: str = "lake") -> Path:
    file = folder / "job.toml"
    file.write_text(
        f'[job]\nname = "shop"\n{job}\n[source]\n{source}\n[sink]\nkind = "iceberg"\nwarehouse = "{warehouse}"\n'
    )
    return file


def of_kafka(servers: str, topic: str = 'topics = ["shop"]', more: str = 'protocol = "simple"') -> str:
    return f'kind = "kafka"\nbootstrap-servers = "{servers}"\n{topic}\n{more}\n'


def check(file: Path, *options: str) -> tuple[int, dict[str, str]]:
    """Without Spark, unless ``options`` are given."""
    done = CliRunner().invoke(main, ["check", *(options or ("--quick",)), str(file)])
    lines = [line.split(maxsplit=2) for line in done.output.splitlines()]
    assert all(line[0] in ("ok", "FAILED") for line in lines), done.output
    return done.exit_code, {what: f"{state} {text}" for state, what, text in lines}


def test_a_job_that_can_run_has_a_line_for_each_thing(tmp_path: Path, broker: str) -> None:
    code, text = check(job_file(tmp_path, of_kafka(broker)))
    assert code == 0, text
    assert text["state"].endswith(
        f"_ticdc_spark.state_shop in catalog lake (warehouse {tmp_path}/lake) will be created"
    )
    assert text["owner"] == "ok no process runs the job"
    assert "shop; " in text["source"] and "about 40 messages" in text["source"]
    assert text["protocol"] == "ok simple, by the first messages"
    assert text["packages"].startswith("ok Java is there")
    assert not (tmp_path / "lake").exists(), "it changes nothing"


def test_the_packages_of_the_job_file_are_listed_beside_our_own(tmp_path: Path, broker: str) -> None:
    file = job_file(tmp_path, of_kafka(broker))
    file.write_text(f'{file.read_text()}[spark]\n"spark.jars.packages" = "org.example:mine:1,org.example:other:2"\n')
    assert check(file)[1]["packages"].endswith(", org.example:mine:1, org.example:other:2")


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ('topics = ["shop", "nope"]', "has no topic 'nope'"),
        ('topics = ["shop"]', ""),
        ('topic-pattern = "sh.*"', ""),
        ('topic-pattern = "x.*"', "ok Kafka at"),
    ],
)
def test_a_missing_topic_is_named(tmp_path: Path, broker: str, topic: str, text: str) -> None:
    code, found = check(job_file(tmp_path, of_kafka(broker, topic)))
    assert (code, text in found["source"]) == (1 if "nope" in topic else 0, True), found


def test_a_dead_broker_is_named_in_seconds_and_before_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)  # another test of this process may have started one
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = job_file(tmp_path, of_kafka(f"127.0.0.1:{port}"))
    code, text = check(file)
    assert (code, "cannot reach Kafka" in text["source"], "protocol" in text) == (1, True, False)
    with pytest.raises(SourceFault, match="cannot reach Kafka"):
        loop.run(load_job(file), once=True)
    assert SparkContext._gateway is None, "no JVM was started"
    status = heartbeat(file)
    assert status is not None and (status.state, status.exit_code) == ("failed", 1)


@pytest.mark.parametrize("named", ["canal-json", "avro", "open"])
def test_another_protocol_is_a_mistake_of_the_job_file(tmp_path: Path, broker: str, named: str) -> None:
    registry = 'schema-registry = "file:schemas.json"\n' if named == "avro" else ""
    (tmp_path / "schemas.json").write_text("[]")
    file = job_file(tmp_path, of_kafka(broker, more=f'protocol = "{named}"\n{registry}'))
    code, text = check(file)
    assert (code, f"protocol is {named}" in text["protocol"], "look like simple" in text["protocol"]) == (
        2,
        True,
        True,
    ), text
    if named != "avro":
        with pytest.raises(UsageError, match="look like simple"):
            loop.run(load_job(file), once=True)


def test_a_job_that_has_run_is_not_judged_by_the_oldest_messages(tmp_path: Path, broker: str) -> None:
    file = job_file(tmp_path, of_kafka(broker, more='protocol = "canal-json"'))
    put(file, Progress(job="shop", batch=3))
    code, text = check(file)
    assert (code, text["protocol"]) == (0, "ok canal-json, as before")


def test_what_only_the_java_client_can_is_left_to_it(tmp_path: Path, broker: str) -> None:
    (tmp_path / "ca.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    more = 'protocol = "simple"\n"kafka.security.protocol" = "SSL"\n"kafka.ssl.truststore.location" = "ca.jks"'
    code, text = check(job_file(tmp_path, of_kafka(broker, more=more)))
    assert (code, "topics are checked by Spark (ssl.truststore.location: librdkafka reads" in text["source"]) == (
        0,
        True,
    ), text


def test_a_job_that_runs_needs_the_operator(tmp_path: Path, broker: str) -> None:
    file = job_file(tmp_path, of_kafka(broker))
    with owned(file, this_process("ann")):
        code, text = check(file)
        assert (code, "held by job 'shop' (ann)" in text["owner"]) == (4, True)
    assert check(file)[0] == 0


def test_a_recorded_topic_and_a_warehouse_that_is_none(tmp_path: Path) -> None:
    write_topic(SENT, tmp_path / "topic", "jsonl")
    (tmp_path / "file").touch()
    source = 'kind = "files"\npath = "topic"\n'
    code, text = check(job_file(tmp_path, source, warehouse="file/lake"))
    assert (code, text["sink"]) == (1, f"FAILED {tmp_path}/file/lake: {tmp_path}/file is no folder")
    assert text["protocol"] == "ok simple, by the first messages"
    assert check(job_file(tmp_path, source))[0] == 0
    (tmp_path / "job.toml").write_text("[job]\n")
    assert CliRunner().invoke(main, ["check", str(tmp_path / "job.toml")]).exit_code == 2


@pytest.mark.parametrize("there", [True, False])
def test_a_registry_is_read(tmp_path: Path, broker: str, there: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    where = "file:schemas.json" if there else f"http://127.0.0.1:{port}"
    (tmp_path / "schemas.json").write_text("[]")
    more = f'schema-registry = "{where}"\n"schema-registry.max.retries" = "0"\n'
    code, text = check(job_file(tmp_path, of_kafka(broker, more=more)))
    assert (code, text["registry"].split()[0]) == ((0, "ok") if there else (1, "FAILED")), text


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "topic").mkdir()
    code, text = check(job_file(tmp_path, 'kind = "files"\npath = "topic"\n', warehouse="/proc/lake"))
    assert (code, text["sink"].startswith("FAILED /proc/lake: /proc cannot be written to: ")) == (1, True), text


@pytest.mark.parametrize("protocol", ["simple", "open"])
def test_known_tables_without_a_key_are_named_all_at_once(tmp_path: Path, protocol: str) -> None:
    tables, ddls = SqlTables(), []
    for name, key in (("a", " PRIMARY KEY"), ("log", ""), ("log2", ""), ("old", "")):
        create = SchemaChange(
            commit_ts=9 + len(ddls), query=f"CREATE TABLE {name} (id INT{key})", kind="CREATE", schema="shop", name=name
        )
        tables.follow(create)
        table = replace(tables.tables["shop", name], table_id=1 + len(ddls), version=create.commit_ts)
        ddls.append(replace(create, table=table))
    drop = SchemaChange(commit_ts=20, query="DROP TABLE old", kind="ERASE", schema="shop", name="old")
    ddls.append(replace(drop, pre_table=ddls[-1].table))
    write = PROTOCOLS[protocol].encoder()
    encoded = filter(None, map(write.ddl, ddls))
    messages = [
        Message(topic="shop", partition=0, offset=at, key=each.key, value=each.value) for at, each in enumerate(encoded)
    ]
    write_topic(messages, tmp_path / "topic", "jsonl")
    file = job_file(tmp_path, f'kind = "files"\npath = "topic"\nprotocol = "{protocol}"\n')
    code, text = check(file)
    assert code == 4
    assert text["tables"].startswith("FAILED `shop`.`log`, `shop`.`log2`: there is no primary key"), text
    file = job_file(
        tmp_path, file.read_text().partition("[source]\n")[2].partition("[sink]")[0], 'tables = ["*.*", "!*.log*"]'
    )
    assert check(file)[1]["tables"] == "ok 1 known so far, each with a key"
    file.write_text(file.read_text().replace('tables = ["*.*", "!*.log*"]', 'no-key = "skip"'))
    assert check(file)[1]["tables"] == "ok 3 known so far; no-key skips the rows of `shop`.`log`, `shop`.`log2`"


def test_tables_to_read_in_full_need_a_key_and_those_without_are_named(tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    dump.mkdir()
    (dump / "metadata").write_text(
        "Started dump at: 2024-05-05 10:00:00\nSHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: 449576018944000001\n"
        "\tGTID:\n\nFinished dump at: 2024-05-05 10:00:01\n"
    )
    for name, key in (("shop.a", " PRIMARY KEY"), ("shop.log", ""), ("shop.log2", "")):
        create = f"CREATE TABLE `{name.partition('.')[2]}` (`id` int NOT NULL{key});\n"
        (dump / f"{name}-schema.sql").write_text(create)
    write_topic(SENT, tmp_path / "topic", "jsonl")
    file = job_file(tmp_path, 'kind = "files"\npath = "topic"\n')
    of_job, snapshot = file.read_text(), '[snapshot]\npath = "dump"\n'
    file.write_text(of_job + snapshot)
    code, text = check(file)
    assert code == 4
    assert text["snapshot"].startswith("FAILED `shop`.`log`, `shop`.`log2`: there is no primary key")
    assert "Exclude such tables with `tables` under [snapshot] or [job]" in text["snapshot"]
    file.write_text(of_job.replace("[source]", 'no-key = "skip"\n[source]') + snapshot)
    left_out = "without a key, and not read: `shop`.`log`, `shop`.`log2`"
    assert check(file)[1]["snapshot"] == f"ok 1 tables to read; {left_out}"
    file.write_text(of_job + snapshot + 'tables = ["*.*", "!shop.log*"]\n')
    assert check(file)[1]["snapshot"] == "ok 1 tables to read"
    file.write_text(of_job + snapshot + SHARED)
    assert "`shop`.`a` and `shop`.`log` would both be `lake`.`all`" in check(file)[1]["snapshot"]
    file.write_text(of_job + snapshot + 'tables = ["shopp.*"]\n')
    code, text = check(file)
    assert (code, text["snapshot"]) == (
        2,
        "FAILED the source has no table that `tables` under [snapshot] and [job] include",
    )


SHARED = '[[route]]\ntables = ["*.*"]\ntarget-schema = "lake"\ntarget-table = "all"\n'


def test_known_tables_that_would_share_a_name_are_named(tmp_path: Path) -> None:
    write_topic(iter(SENT), tmp_path / "topic", "jsonl")
    file = job_file(tmp_path, 'kind = "files"\npath = "topic"\nprotocol = "simple"')
    file.write_text(file.read_text() + SHARED)
    code, text = check(file)
    assert (code, "would both be `lake`.`all` in the target" in text["tables"]) == (2, True), text
    file = job_file(tmp_path, 'kind = "files"\npath = "topic"\nprotocol = "simple"')
    file.write_text(f'{file.read_text()}[[route]]\ntables = ["*.*"]\ndrop-columns = ["*"]\n')
    code, text = check(file)
    assert (code, "is in the key, by which rows are found" in text["tables"]) == (2, True), text


def test_rules_by_which_a_table_would_move_are_refused(tmp_path: Path, broker: str) -> None:
    file = job_file(tmp_path, of_kafka(broker, more='protocol = "simple"'))
    table = TableState(schema="shop", name="t", mark=(1, 1))
    put(file, Progress(job="shop", batch=3, tables=(table,)))
    file.write_text(file.read_text() + SHARED)
    code, text = check(file)
    assert (code, "`shop`.`t` is `shop`.`t` in the target, and would be `lake`.`all`" in text["state"]) == (2, True)


@pytest.mark.parametrize("named", [True, False])
def test_a_lake_on_s3_needs_the_client_that_iceberg_does_not_bring(tmp_path: Path, named: bool) -> None:
    write_topic(SENT, tmp_path / "topic", "jsonl")
    file = job_file(tmp_path, 'kind = "files"\npath = "topic"\n', warehouse="s3://lake/house")
    with file.open("a") as more:
        more.write('"catalog.type" = "rest"\n"catalog.uri" = "http://catalog:8181"\n')
    if named:
        spark = '[spark]\n"spark.jars.packages" = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"\n'
        file.write_text(file.read_text() + spark)
    assert ("which [spark] does not name" in check(file)[1]["sink"]) is not named


def test_a_deep_check_reads_what_the_job_has_not_read(tmp_path: Path, broker: str) -> None:
    file = job_file(tmp_path, of_kafka(broker))
    code, found = check(file, "--quick", "--deep")
    assert (code, found["ahead"].split(",")[0]) == (0, f"ok {len(SENT)} messages read"), found
    producer = kafka.Producer({"bootstrap.servers": broker})
    producer.produce("shop", value=b"no message")
    assert producer.flush(20) == 0
    done = CliRunner().invoke(main, ["check", "--quick", "--deep", str(file)])
    assert done.exit_code == 4
    assert "STOPS   ahead" in done.output and "1 stop ahead" in done.output
    assert "decide: [job] skip-messages = [" in done.output


def test_a_deep_check_of_a_recorded_topic_names_its_stops(tmp_path: Path) -> None:
    write_topic(iter(SENT), tmp_path / "topic", "jsonl")
    file = job_file(tmp_path, 'kind = "files"\npath = "topic"\nprotocol = "simple"')
    code, found = check(file, "--quick", "--deep")
    assert (code, found["ahead"].split(",")[0]) == (0, f"ok {len(SENT)} messages read"), found
