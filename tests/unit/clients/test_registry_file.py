"""A registry in a file: what is registered is saved, and what cannot be read is reported with its file."""

import json
from pathlib import Path

import pytest

from tests.support.recorded_topics import write_json
from tests.unit.cli.test_convert import run
from tests.unit.cli.test_inspect import SIMPLE, lines, shown, topic
from ticdc_spark.clients.registry_file import RegistryFile, open_registry
from ticdc_spark.errors import RegistryFault, UsageError
from ticdc_spark.protocols.base import Encoded


def test_schemas_are_saved_and_found(tmp_path: Path) -> None:
    path = tmp_path / "schemas.json"
    with RegistryFile(path, create=True) as registry:
        assert [registry.register("a-key", "K"), registry.register("a-value", "V1")] == [1, 2]
        assert registry.register("a-key", "K") == 1, "registered twice"
        assert registry.register("b-key", "K") == 1, "a schema has one id under every subject"
        assert registry.register("a-value", "V2") == 3
        assert registry[3] == "V2"
    with RegistryFile(path, create=True) as registry:
        assert (registry[1], registry[2]) == ("K", "V1")
        assert registry.register("b-value", "new") == 4
        with pytest.raises(KeyError):
            registry[9]
    assert [list(entry.values()) for entry in json.loads(path.read_bytes())] == [
        [1, "K", "a-key", 1],
        [2, "V1", "a-value", 1],
        [1, "K", "b-key", 1],
        [3, "V2", "a-value", 2],
        [4, "new", "b-value", 1],
    ]


def test_reading_needs_ids_and_schemas_alone_and_saves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "schemas.json"
    path.write_text('[{"id": 7, "schema": "S", "schemaType": "AVRO"}]')
    path.chmod(0o444)
    with RegistryFile(path) as registry:
        assert registry[7] == "S"
    assert path.read_text() == '[{"id": 7, "schema": "S", "schemaType": "AVRO"}]'


@pytest.mark.parametrize(
    ("content", "reported"),
    [(None, "No such file"), ("{}", "Expected `array`"), ('[{"id": 1}]', "missing required field `schema`")],
)
def test_what_cannot_be_read_is_reported_with_its_file(tmp_path: Path, content: str | None, reported: str) -> None:
    path = tmp_path / "schemas.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RegistryFault, match=rf"schema registry file:.*schemas\.json: .*{reported}"):
        RegistryFile(path)


def test_a_file_that_cannot_be_made_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(RegistryFault, match="No such file"):
        RegistryFile(tmp_path / "not/there.json", create=True)


@pytest.mark.parametrize("target", ["avro", "debezium-avro"])
def test_a_topic_takes_its_schemas_along(target: str, tmp_path: Path) -> None:
    """Written in Avro without a server, and shown again from another folder."""
    path = write_json(tmp_path / "topic.jsonl", lines(topic(SIMPLE)))
    registry = f"file:{tmp_path / 'schemas.json'}"
    options = ["-O", "enable-tidb-extension=true"] if target == "avro" else []
    written = run("convert", path, "--to", target, "--out", tmp_path / "out", "--schema-registry", registry, *options)
    assert written.exit_code == 0, written.stderr
    subjects = [entry["subject"] for entry in json.loads((tmp_path / "schemas.json").read_bytes())]
    assert subjects == ["shop_t-key", "shop_t-value"]
    scans = ["--protocol", target, "--schema-registry", registry, "--source-timezone", "UTC"]
    found, sent = (
        [event["after"] | {"ts": event["after"]["ts"][:23]} for event in shown(events) if event["after"]]
        for events in (run("inspect", "--json", tmp_path / "out", *scans), run("inspect", "--json", path))
    )
    assert found and found == sent


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines([Encoded(None, b"\0\0\0\0\1")]))
    found = run("inspect", path, "--schema-registry", f"file:{tmp_path}/no.json")
    assert found.exit_code == 1
    assert "no.json" in found.stderr and "No such file" in found.stderr


@pytest.mark.parametrize("where", ["schemas.json", "ftp://registry", "http://"])
def test_what_is_no_registry_is_refused_with_what_is_allowed(where: str) -> None:
    with pytest.raises(UsageError, match=r"file:PATH, or a URL that begins with http:// or https://"):
        open_registry(where)
