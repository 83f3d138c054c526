"""The job file: what is read, what is refused, and that the refusal helps."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ticdc_spark.config.histories import histories
from ticdc_spark.config.job import (
    DeltaConfig,
    FilesSource,
    IcebergConfig,
    Job,
    JobKeys,
    KafkaSource,
    MysqlConfig,
    PostgresConfig,
    Recording,
    Route,
    SchemaFiles,
)
from ticdc_spark.config.load import load_identity, load_job
from ticdc_spark.config.placement import hint
from ticdc_spark.config.secrets import redact
from ticdc_spark.config.toml import Section
from ticdc_spark.config.values import MessagePlace, SkipDdl, skip_ddl_line
from ticdc_spark.errors import UsageError

FILES = {"kind": '"files"', "path": '"recorded"', "protocol": '"simple"'}
KAFKA = {"kind": '"kafka"', "bootstrap-servers": '"b:9092"', "topics": '["shop"]', "protocol": '"simple"'}
SINK = {"kind": '"iceberg"', "warehouse": '"lake"'}
JOB = {"name": '"shop"'}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recorded").mkdir()
    return tmp_path


def write(folder: Path, **sections: dict[str, str]) -> Path:
    """Write a job file; sections not given are the least that is allowed, values are TOML."""
    whole = {"job": JOB, "source": FILES, "sink": SINK, **sections}
    text = "".join(
        f"[{title}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()) for title, keys in whole.items()
    )
    path = folder / "job.toml"
    path.write_text(text)
    return path


def load(folder: Path, **sections: dict[str, str]) -> Job:
    return load_job(write(folder, **sections))


def refused(folder: Path, **sections: dict[str, str]) -> str:
    with pytest.raises(UsageError) as error:
        load(folder, **sections)
    assert str(folder / "job.toml") in str(error.value)
    assert error.value.exit_code == 2
    return str(error.value)


def test_the_least_that_is_allowed(folder: Path) -> None:
    job = load(folder)
    assert job.name == "shop"
    assert job.file == folder / "job.toml"
    assert job.source == FilesSource(path=folder / "recorded", protocol="simple")
    assert job.sink.warehouse == str(folder / "lake")
    assert job.sink.catalog == "lake"
    assert (job.batch_rows, job.batch_bytes, job.poll_interval) == (500_000, 256 * 2**20, 1.0)
    assert job.spark == {}


MYSQL = {"kind": '"mysql"', "uri": '"mysql://job:secret@db:3307"'}


def test_a_mysql_sink(folder: Path) -> None:
    found = load(folder, sink=MYSQL).sink
    assert found == MysqlConfig(uri="mysql://job:secret@db:3307")
    assert load(folder, sink=MYSQL | {"database-prefix": '"copy_"'}).sink == msgspec.structs.replace(
        found, database_prefix="copy_"
    )


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"kind": '"mysql"'}, "[sink] uri: missing"),
        (MYSQL | {"uri": '"db:3306"'}, "[sink] uri: found 'db:3306'; allowed: a URL such as \"mysql://"),
        (MYSQL | {"uri": '"mysql://job:se#cret@db"'}, "special characters URL-encoded (# is %23, @ is %40)"),
        (MYSQL | {"warehouse": '"lake"'}, "[sink]: unknown key `warehouse`"),
        (MYSQL | {"database-prefx": '"a"'}, "did you mean `database-prefix`?"),
        (MYSQL | {"kind": '"mysq"'}, '[sink] kind: found \'mysq\'; allowed: "iceberg", "delta", "mysql", "postgres"'),
    ],
)
def test_a_wrong_mysql_sink_is_refused(folder: Path, keys: dict[str, str], text: str) -> None:
    found = refused(folder, sink=keys)
    assert text in found
    assert "job:secret" not in found


def test_a_delta_sink(folder: Path) -> None:
    job = load(folder, sink={"kind": '"delta"', "warehouse": '"lake"', "type-widening": "false"})
    assert job.sink == DeltaConfig(warehouse=str(folder / "lake"), type_widening=False)
    assert "[sink] warehouse: missing" in refused(folder, sink={"kind": '"delta"'})
    text = refused(folder, sink={"kind": '"delta"', "warehouse": '"lake"', "table-properties": "3"})
    assert "[sink] table-properties: found 3" in text
    text = refused(folder, sink={"kind": '"iceberg"', "warehouse": '"lake"', "type-widening": "true"})
    assert 'it belongs under [sink] with kind = "delta"' in text


POSTGRES = {"kind": '"postgres"', "uri": '"postgresql://job:secret@db:5433/copies?sslmode=require"'}


def test_a_postgres_sink(folder: Path) -> None:
    found = load(folder, sink=POSTGRES | {"schema-prefix": '"copy_"'}).sink
    uri = "postgresql://job:secret@db:5433/copies?sslmode=require"
    assert found == PostgresConfig(uri=uri, schema_prefix="copy_")
    text = refused(folder, sink=POSTGRES | {"uri": '"postgresql://job:secret@db"'})
    assert "[sink] uri: found" in text
    assert 'allowed: a URL such as "postgresql://user:' in text
    assert "job:secret" not in text
    assert '[sink] with kind = "mysql"' in refused(folder, sink=POSTGRES | {"database-prefix": '"a"'})


def test_paths_are_relative_to_the_file_not_to_where_it_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert load_job(f"../{path.name}") == load_job(path)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("batch-bytes", '"1GB"', 10**9),
        ("batch-bytes", "4096", 4096),
        ("poll-interval", '"500ms"', 0.5),
        ("schema-timeout", '"1.5h"', 5400.0),
        ("on-reject", '"quarantine"', "quarantine"),
        ("tinyint1", '"boolean"', "boolean"),
        ("source-timezone", '"Asia/Shanghai"', "Asia/Shanghai"),
        ("ddl-timezone", '"Asia/Shanghai"', "Asia/Shanghai"),
        ("tables", '["shop.*", "!shop.tmp_*"]', ("shop.*", "!shop.tmp_*")),
        ("skip-messages", '["shop/0/7"]', (MessagePlace("shop", 0, 7),)),
        ("skip-ddl", '["7:ALTER TABLE a", "8:*"]', (SkipDdl(7, "ALTER TABLE a"), SkipDdl(8, "*"))),
        ("adopt", "true", True),
    ],
)
def test_keys_of_a_job(folder: Path, key: str, text: str, value: object) -> None:
    assert getattr(load(folder, job=JOB | {key: text}), key.replace("-", "_")) == value


@pytest.mark.parametrize(("key", "old", "new"), [("writer", "tasks", "python"), ("mode", "barrier", "watermark")])
def test_an_old_word_is_read_with_a_warning_that_names_the_new_one(
    folder: Path, caplog: pytest.LogCaptureFixture, key: str, old: str, new: str
) -> None:
    assert getattr(load(folder, job=JOB | {key: f'"{old}"'}), key) == new
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f'[job] {key} = "{old}" is now "{new}"' in caplog.text
    caplog.clear()
    assert getattr(load(folder, job=JOB | {key: f'"{new}"'}), key) == new
    assert not caplog.records


@pytest.mark.parametrize(
    ("key", "text", "found", "allowed"),
    [
        ("name", '"a b"', "'a b'", "letters, digits"),
        ("name", '".."', "'..'", "letters, digits"),
        ("batch-rows", "0", "found 0", "an integer of at least 1"),
        ("batch-rows", "true", "found True", "an integer of at least 1"),
        ("batch-rows", '"5"', "found '5'", "an integer"),
        ("batch-bytes", '"256 MiBs"', "'256 MiBs'", '"256MiB"'),
        ("batch-bytes", "-1", "found -1", "above 0"),
        ("poll-interval", "1", "found 1", '"500ms"'),
        ("poll-interval", '"1 week"', "'1 week'", '"7d"'),
        ("on-reject", '"ignore"', "'ignore'", '"stop", "quarantine", "continue"'),
        ("late-rows", '"drop"', "'drop'", '"fail", "apply-if-newest"'),
        ("source-timezone", '"Mars/Base"', "'Mars/Base'", "IANA"),
        ("ddl-timezone", '"Mars/Base"', "'Mars/Base'", "IANA"),
        ("source-timezone", '"../passwd"', "'../passwd'", "IANA"),
        ("skip-messages", '["shop/0"]', "['shop/0']", "<topic>/<partition>/<offset>"),
        ("skip-messages", '["shop:0:12"]', "['shop:0:12']", "<topic>/<partition>/<offset>"),
        ("skip-messages", '["shop/0/-1"]', "shop/0/-1", "<topic>/<partition>/<offset>"),
        ("skip-ddl", '["ALTER"]', "['ALTER']", "<commitTs>:<start of the SQL>"),
        ("skip-ddl", '["9223372036854775808:*"]', "92233", "<commitTs>"),
        ("tables", '["shop"]', "['shop']", "shop.*"),
        ("adopt", '"yes"', "'yes'", "true or false"),
        ("owner", "1", "found 1", "a string"),
        ("writer", '"task"', "'task'", '"python", "spark"'),
        ("mode", '"barriers"', "'barriers'", '"watermark", "arrival"'),
        ("mode", '["arrival"]', "['arrival']", '"watermark", "arrival"'),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(
    folder: Path, key: str, text: str, found: str, allowed: str
) -> None:
    message = refused(folder, job=JOB | {key: text})
    assert f"[job] {key}: found " in message
    assert found in message
    assert allowed in message.partition("allowed:")[2]
    assert "\n" not in message


def test_all_mistakes_are_reported_at_once(folder: Path) -> None:
    message = refused(
        folder,
        job={"batch_rows": "3", "on-reject": '"halt"'},
        source=FILES | {"protocol": '"simpel"', "path": '"nowhere"'},
        sink={"kind": '"hudi"'},
        spark={"executor.memory": '"2g"'},
        jobs={},
    )
    first, *mistakes = message.splitlines()
    assert first.endswith("job.toml: 8 mistakes")
    assert len(mistakes) == 8
    for part in (
        "unknown section or key `jobs`; did you mean `job`?",
        "[job]: unknown key `batch_rows`; did you mean `batch-rows`?",
        "[job] name: missing",
        "[job] on-reject: found 'halt'",
        "[source] protocol: found 'simpel'",
        f"[source] path: found 'nowhere', but there is no file or folder {folder / 'nowhere'}",
        "[sink] kind: found 'hudi'; allowed: \"iceberg\"",
        "did you mean `spark.executor.memory`?",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("section", "key", "nearest"),
    [
        ("job", "batch-row", "batch-rows"),
        ("job", "onReject", "on-reject"),
        ("source", "protcol", "protocol"),
        ("sink", "ware-house", "warehouse"),
        ("sink", "table-property", "table-properties"),
        ("schema", "files", "file"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known(folder: Path, section: str, key: str, nearest: str) -> None:
    have: dict[str, dict[str, str]] = {"job": JOB, "source": FILES, "sink": SINK}
    message = refused(folder, **{section: have.get(section, {}) | {key: "1"}})
    assert f"[{section}]: unknown key `{key}`; did you mean `{nearest}`?" in message


@pytest.mark.parametrize("key", ["options", "catalog-options", "xyzzy"])
def test_an_unknown_key_without_a_near_one_lists_what_is_allowed(folder: Path, key: str) -> None:
    message = refused(folder, source=KAFKA | {key: "{}"})
    assert f"unknown key `{key}`" in message
    assert "options" not in message.partition("allowed:")[2]


@pytest.mark.parametrize(
    ("section", "key", "place"),
    [
        ("source", "source-timezone", "[job]"),
        ("source", "source_timezone", "[job] as `source-timezone`"),
        ("source", "skip-to-known", "[schema]"),
        ("source", "topics", '[source] with kind = "kafka"'),
        ("sink", "batch-rows", "[job]"),
        ("sink", "schema-registry", "[source]"),
        ("sink", '"kafka.security.protocol"', '[source] with kind = "kafka"'),
        ("job", "warehouse", "[sink]"),
        ("job", "protocol", "[source]"),
        ("job", "path", '[snapshot] or [source] with kind = "files" or "storage"'),
        ("job", "kind", "[source] or [sink]"),
        ("job", "catalog.uri", "[sink]"),
        ("job", "spark.master", "[spark]"),
        ("spark", "parallel-tables", "[job]"),
        ("schema", "tables", "[job] or [snapshot] or [[route]] or [[history]] or [[notice]]"),
        ("job", "target-table", "[[route]]"),
    ],
)
def test_an_unknown_key_that_another_section_has_is_refused_with_its_place(
    folder: Path, section: str, key: str, place: str
) -> None:
    have: dict[str, dict[str, str]] = {"job": JOB, "source": FILES, "sink": SINK}
    message = refused(folder, **{section: have.get(section, {}) | {key: "1"}})
    assert message.endswith(f"; it belongs under {place}")


def test_a_key_above_all_sections_is_refused_with_its_place(folder: Path) -> None:
    path = write(folder)
    path.write_text('batch-rows = 5\nsink-kind = "x"\n' + path.read_text())
    with pytest.raises(UsageError) as error:
        load_job(path)
    assert "unknown section or key `batch-rows`; it belongs under [job]" in str(error.value)
    assert "unknown section or key `sink-kind`; did you mean `sink`?" in str(error.value)


@pytest.mark.parametrize("kind", [KafkaSource, FilesSource, IcebergConfig, SchemaFiles, JobKeys, Route])
def test_every_key_of_a_section_has_a_place(kind: type[Section]) -> None:
    for field in msgspec.structs.fields(kind):
        if not field.name.endswith(("options", "properties")):
            assert "it belongs under [" in hint(field.encode_name, "elsewhere", ())


@pytest.mark.parametrize("kind", [None, '"kafak"', "3"])
def test_a_source_needs_its_kind(folder: Path, kind: str | None) -> None:
    message = refused(folder, source={"kind": kind} if kind else {})
    assert "[source] kind: " in message
    assert 'allowed: "files", "kafka"' in message


def test_kafka_options_pass_quoted_or_not(folder: Path) -> None:
    source = KAFKA | {"kafka.security.protocol": '"SSL"', '"kafka.max.poll.records"': "10", "kafka.check.crcs": "true"}
    found = load(folder, source=source).source
    assert isinstance(found, KafkaSource)
    assert found.topics == ("shop",)
    assert found.options == {
        "kafka.security.protocol": "SSL",
        "kafka.max.poll.records": "10",
        "kafka.check.crcs": "true",
    }


def test_servers_are_a_text_or_a_list(folder: Path) -> None:
    for text in ('"a:1, b:2"', '["a:1", "b:2"]'):
        found = load(folder, source=KAFKA | {"bootstrap-servers": text}).source
        assert isinstance(found, KafkaSource)
        assert found.bootstrap_servers == "a:1,b:2"
    assert "host:port" in refused(folder, source=KAFKA | {"bootstrap-servers": '"broker"'})


def test_topics_are_listed_or_matched_not_both(folder: Path) -> None:
    one = "exactly one of `topics` and `topic-pattern`"
    assert one in refused(folder, source=KAFKA | {"topic-pattern": '"shop_.*"'})
    alone = {key: value for key, value in KAFKA.items() if key != "topics"}
    assert one in refused(folder, source=alone)
    found = load(folder, source=alone | {"topic-pattern": '"shop_.*"'}).source
    assert isinstance(found, KafkaSource)
    assert found.topic_pattern == "shop_.*"
    assert "a regular expression (" in refused(folder, source=alone | {"topic-pattern": '"("'})


@pytest.mark.parametrize(
    ("key", "instead"),
    [("kafka.bootstrap.servers", "bootstrap-servers"), ("kafka.auto.offset.reset", "starting")],
)
def test_what_the_job_sets_itself_is_refused(folder: Path, key: str, instead: str) -> None:
    assert instead in refused(folder, source=KAFKA | {f'"{key}"': '"x"'})


def test_catalog_options_and_their_paths(folder: Path) -> None:
    sink = SINK | {"catalog": '"shop"', '"catalog.type"': '"jdbc"', '"catalog.uri"': '"jdbc:sqlite:c.db?x=1"'}
    found = load(folder, sink=sink).sink
    assert found.catalog == "shop"
    assert found.catalog_options == {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/c.db?x=1"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lake", "{0}/lake"),
        ("/data/lake", "/data/lake"),
        ("s3a://b/lake", "s3a://b/lake"),
        ("file:lake", "file:{0}/lake"),
    ],
)
def test_a_warehouse_is_a_path_or_a_uri(folder: Path, text: str, found: str) -> None:
    sink = SINK | {"warehouse": f'"{text}"', '"catalog.type"': '"glue"'}
    assert load(folder, sink=sink).sink.warehouse == found.format(folder)


def test_a_catalog_that_cannot_rename_is_refused(folder: Path) -> None:
    message = refused(folder, sink=SINK | {'"catalog.type"': '"hadoop"'})
    assert "cannot rename tables" in message
    assert "[sink] catalog.warehouse: write `warehouse`" in refused(folder, sink=SINK | {'"catalog.warehouse"': '"x"'})


def test_options_are_scalars_as_spark_writes_them(folder: Path) -> None:
    sections: dict[str, Any] = {
        "spark": {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "8", '"spark.x.fraction"': "0.5"},
        "sink.table-properties": {'"write.format.default"': '"parquet"', "format-version": "3"},
    }
    job = load(folder, **sections)
    assert job.spark == {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "8", "spark.x.fraction": "0.5"}
    assert job.sink.table_properties == {"write.format.default": "parquet", "format-version": "3"}
    assert "[spark] spark.x: found [1]" in refused(folder, spark={'"spark.x"': "[1]"})


def test_schema_files_must_be_there(folder: Path) -> None:
    (folder / "a.sql").touch()
    assert load(folder, schema={"file": '"a.sql"'}).schema.file == (folder / "a.sql",)
    assert "there is no file or folder" in refused(folder, schema={"file": '["a.sql", "b.sql"]'})


def test_what_is_no_toml_is_refused_with_its_place(folder: Path) -> None:
    path = folder / "job.toml"
    path.write_text("[job]\nname = shop\n")
    with pytest.raises(UsageError, match=r"job\.toml: not valid TOML: .*line 2"):
        load_job(path)
    path.write_text('[source]\nuri = "a"\n[sink]\ncatalog = "a"\ncatalog.uri = "b"\n')
    with pytest.raises(UsageError, match="must be quoted"):
        load_job(path)
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_job(path)
    with pytest.raises(UsageError, match="no such job file"):
        load_job(folder / "none.toml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_job(folder)


def test_the_line_that_skips_a_ddl_skips_exactly_it(folder: Path) -> None:
    query = (
        'ALTER TABLE `a"b`\n  EXCHANGE   PARTITION p0 WITH TABLE `\\x` -- 注释 and much more text than the entry keeps'
    )
    skips = tomllib.loads(skip_ddl_line(42, query))["skip-ddl"]
    job = load(folder, job=JOB | {"skip-ddl": skip_ddl_line(42, query).removeprefix("skip-ddl = ")})
    (skip,) = job.skip_ddl
    assert skips == [f"42:{skip.prefix}"]
    assert skip.matches(42, query)
    assert not skip.matches(43, query)
    assert not skip.matches(42, "ALTER TABLE `a` EXCHANGE PARTITION p0")
    assert SkipDdl(42, "*").matches(42, "anything")


def test_the_identity_needs_neither_source_nor_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    broken = {"kind": '"kafka"', "bootstrap-servers": '"${env:NOT_SET}"'}
    path = write(folder, job=JOB | {"batch-rows": "-1"}, source=broken)
    identity = load_identity(path)
    assert (identity.name, identity.sink) == ("shop", IcebergConfig(warehouse=str(folder / "lake")))
    with pytest.raises(UsageError, match=r"\[sink\] warehouse: .*NOT_SET"):
        load_identity(write(folder, sink=SINK | {"warehouse": '"s3a://${env:NOT_SET}"'}))
    with pytest.raises(UsageError, match="name: missing"):
        load_identity(write(folder, job={}))


@pytest.mark.parametrize("key", ["state", '"state.endpoint"'])
def test_a_place_for_the_state_is_a_mistake(folder: Path, key: str) -> None:
    for load in (load_job, load_identity):
        with pytest.raises(UsageError, match=r"\[job\] state: the state of a job is kept in the lake.*; remove this"):
            load(write(folder, job=JOB | {key: '"state/shop"'}))


def routed(folder: Path, rules: str) -> Path:
    path = write(folder)
    path.write_text(path.read_text() + rules)
    return path


def test_rules_for_tables_in_their_order(folder: Path) -> None:
    first = '[[route]]\ntables = ["shop.*", "!shop.tmp"]\ntarget-schema = "lake_{schema}"\n'
    job = load_job(routed(folder, first + '[[route]]\ntables = ["*.*"]\ntarget-table = "{schema}_{table}"\n'))
    assert job.routes == (
        Route(tables=("shop.*", "!shop.tmp"), target_schema="lake_{schema}"),
        Route(tables=("*.*",), target_table="{schema}_{table}"),
    )


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ('[[route]]\ntarget-table = "x"', "[[route]] tables: missing"),
        ("[[route]]\ntables = []", "[[route]] tables: found []; allowed: TiCDC filter rules"),
        ('[[route]]\ntables = ["shop"]', "[[route]] tables: found ['shop']; allowed: TiCDC filter rules"),
        ('[[route]]\ntables = ["*.*"]\ntarget-table = "{db}"', "[[route]] target-table: found '{db}'"),
        (
            '[[route]]\ntables = ["*.*"]\ntarget-table = "{1}"',
            "are the source's, and groups of a `regex`, and the rule has none",
        ),
        (
            '[[route]]\ntables = ["*.*"]\nregex = "(.)_(?P<what>.*)"\ntarget-schema = "{1}{wat}"\ntarget-table = "{3}"',
            "[[route]] target-schema: found '{1}{wat}'; allowed: a name, in which `{schema}` and",
        ),
        (
            '[[route]]\ntables = ["*.*"]\nregex = "(.)_(?P<what>.*)"\ntarget-schema = "{1}{wat}"',
            "and groups of its `regex`: `{1}`, `{what}`",
        ),
        ('[[route]]\ntables = ["*.*"]\nregex = "(.)"\ntarget-table = "{2}"', "[[route]] target-table: found '{2}'"),
        ('[[route]]\ntables = ["*.*"]\nregex = "(?P<table>.)"', "groups with other names than 'table'"),
        (
            '[[route]]\ntables = ["*.*"]\nregex = "("',
            "[[route]] regex: found '('; allowed: a regular expression of RE2",
        ),
        ('[[route]]\ntables = ["*.*"]\nregex = ""', "[[route]] regex: found ''; allowed: a regular expression of RE2"),
        ('[[history]]\ntables = ["*.*"]\ntarget = "h.{table}{1}"', "[[history]] target: found 'h.{table}{1}'"),
        ('[[route]]\ntables = ["*.*"]\ntarget-schema = "_ticdc_spark"', "allowed: a name that is not the job's own"),
        ('[[route]]\ntables = ["*.*"]\ntarget-schema = ""', "[[route]] target-schema: found ''"),
        (
            '[[route]]\ntables = ["*.*"]\ndrop-columns = ["a-b"]',
            "[[route]] drop-columns: found ['a-b']; allowed: names of",
        ),
        ('[[route]]\ntables = ["*.*"]\ndrop-columns = ["@x"]', "[[route]] drop-columns: found ['@x']; allowed: a list"),
        ('[[route]]\ntables = ["*.*"]\nmask-columns = { "!a" = "null" }', "[[route]] mask-columns: found {'!a'"),
        ('[[route]]\ntables = ["*.*"]\nmask-columns = ["a"]', "[[route]] mask-columns: found ['a']; allowed: columns,"),
        ('[[route]]\ntables = ["*.*"]\nmask-columns = { a = "md5" }', "[[route]] mask-columns: found {'a': 'md5'}"),
        ('[[route]]\ntables = ["*.*"]\nrename-columns = { a = "" }', "[[route]] rename-columns: found {'a': ''}"),
        (
            '[[route]]\ntables = ["*.*"]\nwhere = "a = "',
            "[[route]] where: found 'a = '; allowed: a condition over columns, as SQL writes it (it cannot be read: ",
        ),
        ('[[route]]\ntables = ["*.*"]\nwhere = "1 = 1"', "[[route]] where '1 = 1' names no column"),
        ('[[route]]\ntables = ["*.*"]\nwhere = "_tidb_origin_ts > 1"', "names _tidb_origin_ts, which is hidden"),
        ('[[route]]\ntables = ["*.*"]\nwhere = ["a"]', "[[route]] where: found ['a']; allowed: a condition over"),
        (
            '[[route]]\ntables = ["*.*"]\npartition-by = ["dayz(a)"]',
            "[[route]] partition-by: found ['dayz(a)']; allowed",
        ),
        ('[[route]]\ntables = ["*.*"]\nsort-by = ["a down"]', "[[route]] sort-by: found ['a down']; allowed"),
        ('[[route]]\ntables = ["*.*"]\nproperties = { a = "${env:X}" }', "[[route]] properties: found {'a': "),
        ('[[route]]\ntables = ["*.*"]\nmask-columns = { a = "hash" }', '[job] mask-salt: missing; "hash" under'),
        ('[[route]]\ntables = ["*.*"]\ntarget_table = "x"', "did you mean `target-table`?"),
        ('[route]\ntables = ["*.*"]', "[route]: each rule is a section of its own; allowed: [[route]]"),
    ],
)
def test_a_wrong_rule_for_tables_is_refused(folder: Path, rule: str, text: str) -> None:
    with pytest.raises(UsageError) as error:
        load_job(routed(folder, rule))
    assert text in str(error.value)


MERGES = '[[route]]\ntables = ["shop_*.orders"]\ntarget-schema = "shop"\norigin = ["_schema", "_table"]\n'


def test_a_rule_may_merge_tables(folder: Path) -> None:
    (route,) = load_job(routed(folder, MERGES)).routes
    assert route.origin == ("_schema", "_table")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ('[[route]]\ntables = ["*.*"]\norigin = []', "[[route]] origin: found []; allowed: one or two new columns"),
        ('[[route]]\ntables = ["*.*"]\norigin = ["a", "A"]', "[[route]] origin: found ['a', 'A']; allowed"),
        ('[[route]]\ntables = ["*.*"]\norigin = "a"', "[[route]] origin: found 'a'; allowed"),
        (f"{MERGES}{MERGES}", "[[route]] origin: two rules have the same target-schema and target-table"),
        (f'{MERGES}[[history]]\ntables = ["a.b"]', "[[route]] origin: cannot be used with [[history]]"),
        (f'{MERGES}[snapshot]\npath = "dump"', "[[route]] origin: cannot be used with [snapshot] path"),
    ],
)
def test_what_cannot_be_beside_merged_tables_is_refused(folder: Path, more: str, text: str) -> None:
    with pytest.raises(UsageError) as error:
        load_job(routed(folder, more))
    assert text in str(error.value)


@pytest.mark.parametrize(("key", "text"), [("mode", "origin needs watermarks"), ("adopt", r"with \[job\] adopt")])
def test_merged_tables_need_watermarks_and_are_not_taken_over(folder: Path, key: str, text: str) -> None:
    path = write(folder, job=JOB | {key: {"mode": '"arrival"', "adopt": "true"}[key]})
    path.write_text(path.read_text() + MERGES)
    with pytest.raises(UsageError, match=text):
        load_job(path)


def test_rules_for_histories_in_their_order(folder: Path) -> None:
    more = '[[history]]\ntables = ["shop.*"]\n[[history]]\ntables = ["*.*"]\ntarget = "old_{schema}.{table}"\n'
    job = load_job(routed(folder, more))
    assert job.histories == (
        Recording(tables=("shop.*",), target="{schema}.{table}_history"),
        Recording(tables=("*.*",), target="old_{schema}.{table}"),
    )
    of = histories(job.histories).of
    assert (of(("shop", "t")), of(("a", "t"))) == (("shop", "t_history"), ("old_a", "t"))


OF_ALL = '[[history]]\ntables = ["*.*"]\n'


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("[[history]]", "[[history]] tables: missing"),
        (f'{OF_ALL}target = "{{table}}_h"', "[[history]] target: found '{table}_h'; allowed: a schema"),
        (f'{OF_ALL}target = "old.all"', "[[history]] target: found 'old.all'"),
        (f'{OF_ALL}target = "_ticdc_spark.{{table}}"', "allowed: a name that is not the job's own"),
        ('[history]\ntables = ["*.*"]', "[history]: each rule is a section of its own; allowed: [[history]]"),
        (f'{OF_ALL}[ddl]\nkeep-dropped = "1d"', "[ddl] keep-dropped: cannot be used with [[history]]"),
    ],
)
def test_a_wrong_rule_for_histories_is_refused(folder: Path, more: str, text: str) -> None:
    with pytest.raises(UsageError) as error:
        load_job(routed(folder, more))
    assert text in str(error.value)


def test_a_history_without_watermarks_is_refused(folder: Path) -> None:
    path = write(folder, job=JOB | {"mode": '"arrival"'})
    path.write_text(path.read_text() + OF_ALL)
    with pytest.raises(UsageError, match=r'\[job\] mode: found "arrival"; \[\[history\]\] needs watermarks'):
        load_job(path)


def test_layouts_are_of_a_lake(folder: Path) -> None:
    rule = '[[route]]\ntables = ["*.*"]\npartition-by = ["days(d)"]\nproperties = { write.x = 1, "y.z" = true }\n'
    (route,) = load_job(routed(folder, rule)).routes
    assert (route.partition_by, route.properties) == (("days(d)",), (("write.x", "1"), ("y.z", "true")))
    path = write(folder, sink={"kind": '"mysql"', "uri": '"mysql://u:p@h:4000"'})
    path.write_text(path.read_text() + rule)
    with pytest.raises(UsageError, match="partition-by, sort-by and properties are of a lake"):
        load_job(path)


def test_rules_for_columns_and_the_salt_that_is_shown_nowhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", "0123456789abcdef")
    rule = (
        '[[route]]\ntables = ["*.*"]\ndrop-columns = ["card_*", "!card_type"]\n'
        'mask-columns = { email = "hash", note = "constant:" }\nrename-columns = { ctime = "created_at" }\n'
        "where = \"region = 'EU'\"\n"
    )
    path = write(folder, job=JOB | {"mask-salt": '"${env:SALT}"'})
    path.write_text(path.read_text() + rule)
    job = load_job(path)
    assert job.routes == (
        Route(
            tables=("*.*",),
            drop_columns=("card_*", "!card_type"),
            mask_columns=(("email", "hash"), ("note", "constant:")),
            rename_columns=(("ctime", "created_at"),),
            where="region = 'EU'",
        ),
    )
    assert job.mask_salt == "0123456789abcdef"
    assert "0123456789abcdef" not in repr(job) and "0123456789abcdef" not in redact("salt 0123456789abcdef")
    message = refused(folder, job=JOB | {"mask-salt": '"too short"'})
    assert (
        "too short" not in message
        and "[job] mask-salt: found '(secret)'" in message
        and "allowed: a text of 16 characters at least" in message
    )


def test_policies_of_ddl_for_all_tables_and_for_some(folder: Path) -> None:
    text = (
        '[ddl]\ndrop-table = "stop"\nallow = ["7:DROP TABLE a"]\n[[ddl.rules]]\ntables = ["shop.*"]\n'
        'drop-table = "keep"\npartition-ddl = "mark"\n[[ddl.rules]]\ntables = ["SHOP.a"]\ndrop-column = "keep"\n'
    )
    path = write(folder)
    path.write_text(path.read_text() + text)
    ddl = load_job(path).ddl
    assert (ddl.of(("x", "a")).drop_table, ddl.of(("x", "a")).partition_ddl) == ("stop", "stop")
    assert (ddl.of(("shop", "a")).drop_table, ddl.of(("shop", "a")).drop_column) == ("keep", "keep")
    assert (ddl.of(("shop", "b")).partition_ddl, ddl.of(("shop", "b")).drop_column) == ("mark", "apply")
    assert ddl.allow == (SkipDdl(7, "DROP TABLE a"),)


def test_tables_that_rules_name_are_not_parked(folder: Path) -> None:
    path = routed(folder, '[[route]]\ntables = ["*.*"]\ntarget-table = "{table}_v1"\n[ddl]\nkeep-dropped = "10m"\n')
    with pytest.raises(UsageError, match=r"\[ddl\] keep-dropped: cannot be used with \[\[route\]\]"):
        load_job(path)


def test_mistakes_in_policies_of_ddl_are_named(folder: Path) -> None:
    path = write(folder, ddl={"rename-table": '"keep"', "drop-index": '"stop"'})
    path.write_text(path.read_text() + '[[ddl.rules]]\ndrop-table = "ignore"\n')
    with pytest.raises(UsageError) as error:
        load_job(path)
    assert '[ddl] rename-table: found \'keep\'; allowed: "apply", "stop"' in str(error.value)
    assert "unknown key `drop-index`" in str(error.value)
    assert "[ddl.rules] tables: missing" in str(error.value)
    assert "[ddl.rules] drop-table: found 'ignore'" in str(error.value)
    assert '[ddl] rules: found "all"; allowed: sections [[ddl.rules]]'.replace('"all"', "'all'") in refused(
        folder, ddl={"rules": '"all"'}
    )


def test_keys_of_ddl_are_read_under_job_for_one_more_version(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert load(folder, job=JOB | {"drop-table": '"keep"'}).ddl.drop_table == "keep"
    assert "[job] drop-table is now a key of [ddl]" in caplog.text
    assert "given under [ddl], too" in refused(folder, job=JOB | {"drop-table": '"keep"'}, ddl={"drop-table": '"keep"'})
