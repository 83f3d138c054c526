"""Where the files of the lake lie for pyarrow, and what reaches them, by what Iceberg or Hadoop was given."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from ticdc_spark.config.secrets import forget, redact
from ticdc_spark.sinks.iceberg.files.storage import Closed, s3_options, s3a_options
from ticdc_spark.spark.storage import (
    LOCAL,
    Storage,
    host_of,
    list_files,
    open_parquet,
    path_in,
    read_bytes,
    write_parquet,
)

KEYS = {"s3.access-key-id": "key", "s3.secret-access-key": "hunter2-s3"}
HADOOP_KEYS = {"fs.s3a.access.key": "key", "fs.s3a.secret.key": "hunter2-s3a"}


@pytest.mark.parametrize(
    ("kind", "location", "path"),
    [
        ("file", "file:/lake/t", "/lake/t"),
        ("file", "file:///lake/t%20x", "/lake/t%20x"),
        ("file", "s3://lake/t", None),
        ("s3", "s3://lake/a b%20c/generation=1", "lake/a b%20c/generation=1"),
        ("s3", "s3a://lake/t", "lake/t"),
        ("s3", "gs://lake/t", None),
        ("s3", "/lake/t", None),
        ("gs", "gs://lake/t", "lake/t"),
        ("hdfs", "hdfs://name:8020/lake/t", "/lake/t"),
        ("hdfs", "hdfs://other:8020/lake/t", None),
        ("abfs", "abfss://box@shop.dfs.core.windows.net/lake/t", "box/lake/t"),
        ("abfs", "abfss://box@other.dfs.core.windows.net/lake/t", None),
    ],
)
def test_a_location_has_a_path_in_its_own_store_only(kind: str, location: str, path: str | None) -> None:
    hosts = {"hdfs": "hdfs://name:8020", "abfs": "shop.dfs.core.windows.net"}
    storage = Storage(kind=kind, host=hosts.get(kind, ""))
    assert path_in(storage, location) == path
    assert path is None or host_of(location) == storage.host


def test_what_iceberg_was_given_reaches_the_same_store() -> None:
    given = {"s3.endpoint": "http://store:9000", "client.region": "eu-1", "s3.path-style-access": "true", **KEYS}
    assert s3_options({**given, "io-impl": "x", "jdbc.password": "y"}, {"AWS_CA_BUNDLE": "/ca.pem"}) == (
        ("access_key", "key"),
        ("endpoint_override", "http://store:9000"),
        ("force_virtual_addressing", "false"),
        ("region", "eu-1"),
        ("secret_key", "hunter2-s3"),
        ("tls_ca_file_path", "/ca.pem"),
    )
    assert s3_options({}, {}) == (), "credentials and region are those of the environment"
    assert ("force_virtual_addressing", "true") in s3_options({"s3.endpoint": "http://store:9000"}, {})


@pytest.mark.parametrize(
    ("property", "value", "closed"),
    [
        ("s3.sse.type", "kms", True),
        ("s3.sse.type", "none", False),
        ("s3.remote-signing-enabled", "true", True),
        ("s3.remote-signing-enabled", "false", False),
        ("client.assume-role.arn", "arn:x", True),
        ("client.credentials-provider", "com.shop.Provider", True),
        ("s3.write.tags.team", "shop", True),
        ("s3.delete.batch-size", "100", False),
    ],
)
def test_what_only_iceberg_can_do_is_left_to_it(property: str, value: str, closed: bool) -> None:
    found = s3_options({property: value}, {})
    assert isinstance(found, Closed) == closed
    assert not isinstance(found, Closed) or (property in found.reason and value not in found.reason)


def hadoop(given: Mapping[str, str]) -> tuple[tuple[str, str], ...] | Closed:
    return s3a_options(given.get, "lake", {})


def test_what_hadoop_was_given_reaches_the_same_store() -> None:
    given = {
        "fs.s3a.endpoint": "store:9000",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.endpoint.region": "eu-1",
        **HADOOP_KEYS,
    }
    wanted = {
        "access_key": "key",
        "endpoint_override": "http://store:9000",
        "force_virtual_addressing": "false",
        "region": "eu-1",
        "secret_key": "hunter2-s3a",
    }
    assert dict(hadoop(given)) == wanted
    assert dict(hadoop({**given, "fs.s3a.bucket.lake.access.key": "other"})) == wanted | {"access_key": "other"}
    assert dict(hadoop({**given, "fs.s3a.bucket.box.access.key": "other"})) == wanted
    assert dict(hadoop({"fs.s3a.endpoint": "store"})) == {
        "endpoint_override": "https://store",
        "force_virtual_addressing": "true",
    }


def test_credentials_and_encryption_of_hadoop_s_own_are_left_to_it() -> None:
    provider = "fs.s3a.aws.credentials.provider"
    default = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider, org.x.SimpleAWSCredentialsProvider"
    assert not isinstance(hadoop({provider: default, **HADOOP_KEYS}), Closed)
    assert isinstance(hadoop({provider: "com.shop.OurProvider", **HADOOP_KEYS}), Closed)
    assert isinstance(hadoop({"fs.s3a.bucket.lake.encryption.algorithm": "SSE-KMS"}), Closed)


def test_secrets_are_in_no_text_about_a_storage() -> None:
    forget()
    options = s3_options(KEYS, {})
    assert not isinstance(options, Closed)
    storage = Storage(kind="s3", options=options)
    assert "hunter2" not in f"{storage!r} {storage}"
    assert "secret_key" in repr(storage)
    assert redact(f"refused: {options}") == "refused: (('access_key', 'key'), ('secret_key', '(secret)'))"
    forget()


def test_a_footer_is_what_the_file_ends_with(tmp_path: Path) -> None:
    path = str(tmp_path / "new folder" / "x.parquet")
    size, footer = write_parquet(LOCAL, path, pa.table({"a": [1, 2, 3]}), compression="zstd")
    written = read_bytes(LOCAL, path)
    assert len(written) == size and written[-8 - len(footer) : -8] == footer
    with open_parquet(LOCAL, path, size) as opened:
        assert opened.read().to_pydict() == {"a": [1, 2, 3]}
    assert list_files(LOCAL, str(tmp_path)) == [path]
    assert list_files(LOCAL, str(tmp_path / "nothing")) == []
