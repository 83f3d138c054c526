"""Debezium's own MariaDB connector as a second judge of what a changefeed sends in Debezium."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.integration.judge import Message, Spot, compare, read_all
from tests.integration.judge_differences import DIFFERENCES
from tests.integration.judge_work import SCHEMA, WORK
from tests.integration.test_changefeed_binlog import until_now
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server
from tests.support.native_debezium import PROBE, Connectors
from ticdc_spark.changefeed.config.load import load_changefeed

pytestmark = pytest.mark.slow

FEEDS = {
    "plain": ("", ""),
    "extended": ("&enable-tidb-extension=true", ""),
    "bare": ("&debezium-disable-schema=true", "[sink.debezium]\noutput-old-value = false\n"),
}
"""Changefeeds: what their URIs and files have besides the defaults."""
_BARE = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
CONNECTORS = {
    "native": {},
    "alike": {
        **_BARE,
        "value.converter.replace.null.with.default": "false",
        "decimal.handling.mode": "double",
        "binary.handling.mode": "base64",
        "tombstones.on.delete": "false",
    },
}
"""Connectors: with their defaults, and as much like TiCDC as their properties can make them."""
PAIRS = (("plain", "native"), ("extended", "native"), ("bare", "alike"))
SOURCES = ("document, ", "TiCDC's messages", "config, ", "MariaDB, ", "limit, ", "native is wrong: ")
_LAST = 1_000_000
_SECONDS = 120


@pytest.fixture(scope="module")
def sent(
    logging_server: Server, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, list[Message]]]:
    """What each changefeed and each connector has sent of the same work, topic by topic in order."""
    folder = tmp_path_factory.mktemp("judge")
    logging_server.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
    connectors = Connectors(folder / "connect", logging_server, broker, CONNECTORS, SCHEMA)
    feeds = {}
    for name, (more, section) in FEEDS.items():
        file = folder / f"{name}.toml"
        file.write_text(f'[filter]\nrules = ["{SCHEMA}.*"]\n{section}')
        uri = f"kafka://{broker.servers}/{name}?protocol=debezium&partition-num=1{more}"
        feeds[name] = load_changefeed(file, uri, {})
    try:
        connectors.start()
        for name, feed in feeds.items():
            until_now(logging_server, feed, folder / f"{name}.state")
        logging_server.execute(*WORK)
        for name, feed in feeds.items():
            until_now(logging_server, feed, folder / f"{name}.state")
        logging_server.execute(f"INSERT INTO {PROBE}.t VALUES ({_LAST})")
        deadline = time.monotonic() + _SECONDS
        for name in CONNECTORS:
            while all(one.key["payload"]["id"] != _LAST for one in read_all(broker, f"{name}.{PROBE}.t")):
                assert time.monotonic() < deadline, connectors.log()
                time.sleep(0.5)
        found = {name: read_all(broker, name) for name in feeds}
        topics = sorted(broker.admin.list_topics(timeout=10).topics)
        for name in CONNECTORS:
            mine = [topic for topic in topics if topic == name or topic.startswith(f"{name}.{SCHEMA}.")]
            found[name] = [one for topic in mine for one in read_all(broker, topic)]
        yield found
    finally:
        connectors.stop()


def names(spot: Spot) -> list[str]:
    return [one.name for one in DIFFERENCES if one.fits(spot)]


def test_every_difference_has_a_name_and_every_name_a_difference(sent: dict[str, list[Message]]) -> None:
    seen: Counter[str] = Counter()
    unnamed = []
    for ours, native in PAIRS:
        for spot in compare(sent[ours], sent[native]):
            found = names(spot)
            seen.update(found)
            if len(found) != 1:
                unnamed.append(f"{ours}: {spot.where}: {spot.ours!r} beside {spot.native!r}: {found}")
    assert unnamed == []
    assert all(one.source.startswith(SOURCES) for one in DIFFERENCES)
    assert [one.name for one in DIFFERENCES if not seen[one.name]] == []


def test_a_change_of_any_place_is_seen(sent: dict[str, list[Message]]) -> None:
    """The judge itself: a message that is missing, or a value, a type or a key that is another, has no name."""
    ours, native = sent["plain"], sent["native"]
    changed = {
        "a row less": [one for one in ours if not _is(one, "u", "uniq", 1)],
        "a row twice": [each for one in ours for each in ([one, one] if _is(one, "c", "numbers", 1) else [one])],
        "a value": _with(ours, "numbers", 1, lambda payload: payload["after"].update(i=5)),
        "a decimal": _with(ours, "numbers", 1, lambda payload: payload["after"].update(n=12345678.91)),
        "a NULL": _with(ours, "times", 1, lambda payload: payload["after"].update(t=None)),
        "an operation": _with(ours, "numbers", 1, lambda payload: payload.update(op="u")),
        "a column less": _with(ours, "texts", 1, lambda payload: payload["after"].pop("v")),
        "another table": _with(ours, "pair", 1, lambda payload: payload["source"].update(table="times")),
    }
    for what, messages in changed.items():
        assert any(names(spot) == [] for spot in compare(messages, native)), what


def _is(one: Message, op: str, table: str, key: int) -> bool:
    if one.value is None or one.payload.get("op") != op or one.table != table:
        return False
    return bool(next(iter(one.key["payload"].values())) == key)


def _with(messages: list[Message], table: str, key: int, change: Callable[[Any], object]) -> list[Message]:
    """The same with the insert of one row changed."""
    copied = deepcopy(messages)
    (found,) = (one for one in copied if _is(one, "c", table, key))
    change(found.payload)
    return copied
