"""Reads a changefeed from its file and its sink URI, and checks all of it before anything starts."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ticdc_spark.changefeed.config.encoding import check_encoder, read_encoder, sends_watermarks
from ticdc_spark.changefeed.config.given import Given, read_keys
from ticdc_spark.changefeed.config.kafka import read_kafka
from ticdc_spark.changefeed.config.key import KAFKA, OURS
from ticdc_spark.changefeed.config.keys import key
from ticdc_spark.changefeed.config.settings import BootstrapCadence, Changefeed, SnapshotSettings
from ticdc_spark.changefeed.config.sink_uri import WHERE, SinkUri, parse_sink_uri
from ticdc_spark.changefeed.config.tables import read_dispatchers, read_filter, read_selectors
from ticdc_spark.config.paths import absolute, location
from ticdc_spark.config.secrets import redact
from ticdc_spark.config.toml import Mistakes, read_toml
from ticdc_spark.protocols import PROTOCOLS

_NONE: Mapping[str, object] = {}
SERVERS = ("mysql://", "mariadb://")
"""Prefixes of sources that have tables to read."""


def load_changefeed(
    file: Path | str | None, sink_uri: str | None = None, overrides: Mapping[str, object] = _NONE
) -> Changefeed:
    """Read and check TiCDC's changefeed file and sink URI.

    ``file``: TOML; may be ``None``. ``sink_uri`` overrides the one in the file, and its parameters the file's keys.
    ``overrides``: keys of our own section ``[ticdc-spark]`` (``time-zone``, ``start-ts`` …), which override the file.
    ``None`` counts as missing.

    Raises: UsageError that names the file, and for every wrong key what was found and what is allowed.
    """
    path = None if file is None else Path(os.path.abspath(file))
    mistakes = Mistakes(path or Path("command line"))
    folder = path.parent if path else Path.cwd()
    given = Given(mistakes, folder)
    if path is not None:
        given.read_file(read_toml(path, "changefeed file"))
    given.read_overrides(overrides)
    uri = _uri(given, sink_uri)
    given.read_uri(uri.parameters)
    changefeed = _changefeed(given, path, uri)
    mistakes.stop_if_any()
    assert changefeed is not None, "a protocol that could not be read is a mistake"
    return changefeed


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a changefeed's configuration that finds its progress."""

    id: str
    file: Path | None = None
    state: Path | None = None
    """Folder of the progress, if one is given; absolute."""


def load_identity(
    file: Path | str | None, sink_uri: str | None = None, overrides: Mapping[str, object] = _NONE
) -> Identity:
    """Read only a changefeed's identity. Other keys are not checked, and no sink URI is needed.

    Raises: UsageError for a file that cannot be read, and for a wrong ``changefeed-id`` or ``state``.
    """
    path = None if file is None else Path(os.path.abspath(file))
    mistakes = Mistakes(path or Path("command line"))
    given = Given(mistakes, path.parent if path else Path.cwd())
    for section, ours in (read_toml(path, "changefeed file") if path is not None else {}).items():
        if section.lower() == OURS and isinstance(ours, Mapping):
            wanted = {name: value for name, value in ours.items() if name.lower() in ("changefeed-id", "state")}
            given.read_file({OURS: wanted})
    given.read_overrides({"state": overrides.get("state")})
    uri = SinkUri() if path is not None or not sink_uri else parse_sink_uri(sink_uri, given.folder, mistakes)
    name, state = _name(given, path, uri), given.get(f"{OURS}.state")
    mistakes.stop_if_any()
    where = None if state is None else absolute(given.folder / "any", str(state))
    return Identity(id=name, file=path, state=where)


def _uri(given: Given, sink_uri: str | None) -> SinkUri:
    ours, theirs = f"{OURS}.sink-uri", "sink-uri"
    if given.given(ours) and given.given(theirs):
        given.mistake(theirs, f"given here and at {given.place(ours)}")
    text = sink_uri or given.get(ours) or given.get(theirs)
    if not text:
        given.mistakes.add(WHERE, "missing; give it with --sink-uri, or as `sink-uri` in the file")
        return SinkUri()
    return parse_sink_uri(text, given.folder, given.mistakes)


def _changefeed(given: Given, path: Path | None, uri: SinkUri) -> Changefeed | None:
    """Read everything, even after a mistake, so that all mistakes are found."""
    name = _name(given, path, uri)
    protocol = PROTOCOLS.get(given.get("sink.protocol") or "")
    options: Mapping[str, str] = {}
    if protocol is not None:
        options = read_encoder(given, protocol)
        check_encoder(given, protocol, options)
    elif "sink.protocol" not in given.wrong:
        given.mistake("sink.protocol", "missing; allowed: " + key("sink.protocol").kind.allowed)
    start, target = given.get(f"{OURS}.start-ts"), given.get(f"{OURS}.target-ts")
    if start is not None and target is not None and target <= start:
        given.mistake(f"{OURS}.target-ts", f"found {target}, which is not after start-ts {start}")
    snapshot = _snapshot(given, start)
    parts: dict[str, Any] = {
        "kafka": read_kafka(given, uri, name),
        "filter": read_filter(given),
        "dispatchers": read_dispatchers(given, protocol),
        "column_selectors": read_selectors(given),
    }
    if protocol is None or given.mistakes.count:
        return None
    state = given.get(f"{OURS}.state")
    return Changefeed(
        id=name,
        file=None if path is None else str(path),
        protocol=protocol.name,
        encoder=options,
        schema_registry=_registry(given),
        schema_registry_options=given.registry_options,
        bootstrap=_bootstrap(given),
        case_sensitive=given.get("case-sensitive"),
        force_replicate=given.get("force-replicate"),
        output_raw_change_event=given.get(f"{KAFKA}.output-raw-change-event"),
        watermarks=sends_watermarks(protocol, options),
        time_zone=given.get(f"{OURS}.time-zone"),
        source=given.get(f"{OURS}.source"),
        state=None if state is None else absolute(given.folder / "any", str(state)),
        start_ts=start,
        target_ts=target,
        snapshot=snapshot,
        metrics=given.get(f"{OURS}.metrics"),
        metrics_token=given.get(f"{OURS}.metrics-token"),
        metrics_table_series=given.get(f"{OURS}.metrics-table-series"),
        backlog=given.get(f"{OURS}.spark-backlog") or None,
        warnings=tuple(map(redact, given.all_warnings())),
        **parts,
    )


def _name(given: Given, path: Path | None, uri: SinkUri) -> str:
    """The changefeed's id. Unlike TiCDC's, the default stays the same, as the progress is found by it."""
    found = given.get(f"{OURS}.changefeed-id")
    if found is not None:
        return str(found)
    words = re.findall(r"[A-Za-z0-9]+", path.stem if path else uri.topic)
    return "-".join(words) or "changefeed"


def _registry(given: Given) -> str | None:
    found: str | None = given.get("sink.schema-registry")
    return location(given.folder / "any", found) if found is not None else None


def _snapshot(given: Given, start: int | None) -> SnapshotSettings:
    mode = given.get(f"{OURS}.snapshot")
    source = given.get(f"{OURS}.source")
    if mode == "initial" and start is not None:
        given.mistake(f"{OURS}.snapshot", "found 'initial'; not with start-ts: tables are read as they are now")
    if mode == "initial" and source is not None and not source.startswith(SERVERS):
        given.mistake(f"{OURS}.snapshot", f"found 'initial'; only where source is one of {', '.join(SERVERS)}")
    spark = given.get(f"{OURS}.spark") or {}
    return read_keys(SnapshotSettings, f"{OURS}.snapshot-", given, mode=mode, spark=spark)


def _bootstrap(given: Given) -> BootstrapCadence:
    return BootstrapCadence(
        interval=float(given.get("sink.send-bootstrap-interval-in-sec")),
        messages=given.get("sink.send-bootstrap-in-msg-count"),
        to_all_partitions=given.get("sink.send-bootstrap-to-all-partition"),
        all_at_start=given.get("sink.send-all-bootstrap-at-start"),
    )
