"""The servers that a changefeed is measured between."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.integration.binlog_stream import OPTIONS
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server, running


class Servers(NamedTuple):
    """A MariaDB with a binlog, a Kafka broker, and the folder that both lie in."""

    server: Server
    broker: Broker
    folder: Path


@contextmanager
def servers(*options: str, folder: Path | None = None) -> Iterator[Servers]:
    """Both, until the end of the context. ``options``: more of MariaDB. ``folder``: where theirs is made."""
    with tempfile.TemporaryDirectory(dir=folder) as name, running(Path(name) / "m", *OPTIONS, *options) as server:
        broker = Broker(Path(name) / "kafka", java_options=())
        broker.start()
        try:
            yield Servers(server, broker, Path(name))
        finally:
            broker.kill()
