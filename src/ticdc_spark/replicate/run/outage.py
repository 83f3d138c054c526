"""Probe whether a source can be reached, since its client retries silently."""

import socket

from ticdc_spark.config.job import KafkaSource, SourceConfig, StorageSource

_LAST_PORT = 65535
"""Systems would use another port for a higher number."""
TIMEOUT = 3.0
"""Seconds for one broker to accept a connection."""


def silent(source: SourceConfig, timeout: float = TIMEOUT) -> str:
    """One sentence if none of a source's brokers accepts a connection, or its folder is gone; ``""``: it is there."""
    if isinstance(source, StorageSource):
        return ""  # its reader reports this itself
    if not isinstance(source, KafkaSource):
        return "" if source.path.exists() else f"the recorded topic {source.path} is not there"
    why = ""
    for server in source.bootstrap_servers.split(","):
        host, _, port = server.rpartition(":")
        if int(port) > _LAST_PORT:
            why = why or f"{server}: the last port is {_LAST_PORT}"
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout).close()
        except OSError as error:
            why = why or f"{server}: {error.strerror or error}"
        else:
            return ""
    return f"cannot reach Kafka at {source.bootstrap_servers}: {why}"
