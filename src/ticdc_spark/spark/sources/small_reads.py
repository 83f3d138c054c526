"""Reading few messages of Kafka without Spark: a task costs more than they do.

Offsets are still listed by the client in Spark's JVM. What librdkafka cannot do, Spark's reader does: an option that it
does not know is no error here, and neither is a broker that it does not reach.
"""

import logging
from collections.abc import Mapping

import pyarrow as pa

from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.model import Message, Offsets
from ticdc_spark.spark.tasks import is_small
from ticdc_spark.topics.json_lines import ARROW_SCHEMA, to_table
from ticdc_spark.topics.kafka_reader import TopicReader

log = logging.getLogger(__name__)
_WAIT = 0.2
"""Seconds after which what has come is looked at."""


class SmallReads:
    """A client that is opened when it is needed, and stays open; after its first fault it is not used any more."""

    def __init__(self, servers: str, options: Mapping[str, str]) -> None:
        """``options``: as of Spark's source; ``kafka.…`` are the client's."""
        self._servers = servers
        client = {key: value for key, value in options.items() if key.startswith("kafka.")}
        # As Java's client has it; librdkafka's default is read_committed.
        self._options = {"kafka.isolation.level": "read_uncommitted", **client}
        del self._options["kafka.bootstrap.servers"]
        self._reader: TopicReader | None = None
        self.is_of_use = True
        """Whether it is worth asking."""

    def read(self, first: Offsets, end: Offsets) -> pa.Table | None:
        """The messages [first, end) of the partitions of ``first``; ``None`` where Spark must read them."""
        if not first:
            return ARROW_SCHEMA.empty_table()
        try:
            if self._reader is None:
                self._reader = TopicReader(self._servers, self._options)
            return self._read(self._reader, first, {partition: end[partition] for partition in first})
        except (SourceFault, UsageError) as error:
            log.info("small batches are read by Spark, too: %s", error)
            self.close()
            self.is_of_use = False
            return None

    def _read(self, reader: TopicReader, first: Offsets, end: Offsets) -> pa.Table | None:
        found: list[Message] = []
        size = 0
        try:
            for messages in reader.batches(first, end, [], patient=False, wait=_WAIT):
                found += messages
                size += sum(len(message.key or b"") + len(message.value or b"") for message in messages)
                if not is_small(len(found), size):
                    return None
        finally:
            reader.rest()
        return to_table(found)

    def close(self) -> None:
        """Close the client."""
        if self._reader is not None:
            self._reader.__exit__()
            self._reader = None


__all__ = ["SmallReads"]
