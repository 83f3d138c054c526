"""Checks that Kafka topics are still the ones that were read: the id of a recreated topic differs."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ticdc_spark.durable import replace_file
from ticdc_spark.errors import EnvironmentFault, SourceChanged, SourceFault, os_reason
from ticdc_spark.model import Offsets
from ticdc_spark.topics.kafka_reader import TopicReader

_EACH = 1.0
"""Seconds between two checks, and the timeout of one."""
_RETURNS = 5.0
"""How many seconds after its deletion a topic may be created again."""
_PAUSE = 0.2
_SHOWN = 5
"""How many partitions an error names."""
_FILE = ".topics.json"
_LOG = logging.getLogger(__name__)


def check_ids(known: Mapping[str, str], now: Mapping[str, str], held: Offsets, way_out: str) -> None:
    """Compare ids of topics, except ids that are unknown or that the broker does not have.

    ``held``: the offsets up to which partitions were read. Raises: SourceChanged
    """
    for topic, was in known.items():
        if now.get(topic, was) != was:
            of = [f"partition {place[1]} up to offset {held[place]}" for place in sorted(held) if place[0] == topic]
            more = "" if len(of) <= _SHOWN else f" and {len(of) - _SHOWN} more"
            read = f"; of the one before it were read: {', '.join(of[:_SHOWN])}{more}" if of else ""
            raise SourceChanged(
                f"topic {topic!r} was deleted and created again: its id was {was} and is {now[topic]}{read}. {way_out}"
            )


class TopicWatch:
    """Compares the ids of topics during reading, as the client silently continues in the middle of a new topic."""

    def __init__(self, kafka: TopicReader, ids: Mapping[str, str], way_out: str) -> None:
        self._kafka, self._ids, self._way_out = kafka, ids, way_out
        self._last = time.monotonic()

    def look(self, held: Offsets, *, at_once: bool = False) -> None:
        """Compare the ids, at most once a second. If the broker does not answer, the reading reports it.

        ``at_once``: compare them now, since the reading has failed. A topic that is gone may come back in a moment.

        Raises: SourceChanged
        """
        if not self._ids or not (at_once or time.monotonic() - self._last > _EACH):
            return
        try:
            now = self._kafka.ids(tuple(self._ids), _EACH)
            deadline = time.monotonic() + _RETURNS
            while at_once and len(now) < len(self._ids) and time.monotonic() < deadline:
                time.sleep(_PAUSE)
                now = self._kafka.ids(tuple(self._ids), _EACH)
        except SourceFault as error:
            _LOG.debug("ids of topics: %s", error)
            return
        finally:
            self._last = time.monotonic()
        check_ids(self._ids, now, held, self._way_out)


def recorded_ids(folder: Path) -> dict[str, str]:
    """The known ids of the topics that a folder was recorded from. Raises: SourceFault"""
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise SourceFault(f"{folder / _FILE}, with the ids of the recorded topics, cannot be read: {error}") from error


def keep_recorded_ids(folder: Path, ids: Mapping[str, str]) -> None:
    """Write the ids beside the recording. Raises: EnvironmentFault"""
    try:
        replace_file(folder / _FILE, msgspec.json.encode(ids))
    except OSError as error:
        raise EnvironmentFault(f"{folder / _FILE}: {os_reason(error)}") from error
