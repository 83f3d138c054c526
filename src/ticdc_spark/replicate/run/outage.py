"""Probe whether a source is there at all, where its client retries silently."""

import socket

from ticdc_spark.config.job import KafkaSource, SourceConfig, StorageSource

TIMEOUT = 3.0
"""Seconds for one broker to accept a connection."""


def silent(source: SourceConfig, timeout: float = TIMEOUT) -> str:
    """One sentence if none of a source's brokers accepts a connection, or its folder is gone; ``""``: it is there."""
    if isinstance(source, StorageSource):
        return ""  # what reads it says so
    if not isinstance(source, KafkaSource):
        return "" if source.path.exists() else f"the recorded topic {source.path} is not there"
    why = ""
    for server in source.bootstrap_servers.split(","):
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout).close()
        except (OSError, OverflowError) as error:
            why = why or f"{server}: {error.strerror or error if isinstance(error, OSError) else error}"
        else:
            return ""
    return f"cannot reach Kafka at {source.bootstrap_servers}: {why}"
