"""Dead letters of a batch: messages and rows that cannot be read."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ticdc_spark.changes.topic import TopicRows
from ticdc_spark.replicate.report import KeptLetter
from ticdc_spark.sinks.dead_letters import DeadLetter, DeadLetters, readable
from ticdc_spark.spark.decode.control import Reject

Keys: TypeAlias = Mapping[tuple[str, int, int], bytes | None]
"""Keys of messages, by topic, partition and offset."""
_NEWEST = 50
_SHOWN = 400
"""How many bytes of a message watchers get."""


@dataclass(frozen=True, slots=True)
class Letters:
    """Keeps rejects as dead letters."""

    rows: TopicRows
    kept_in: DeadLetters
    newest: deque[KeptLetter] = field(default_factory=lambda: deque(maxlen=_NEWEST))
    """The newest letters for watchers, the oldest of them first."""

    @property
    def where(self) -> str:
        """Where they are kept, for messages."""
        return self.kept_in.where

    def keep(self, batch: int, stage: str, rejects: Sequence[Reject], now: float) -> Keys:
        """Keep rejects of one stage of one batch. Returns: the keys of their messages.

        Raises: SourceFault, SinkFault
        """
        messages = {
            (one.topic, one.partition, one.offset): one
            for one in self.rows.messages((at.topic, at.partition, at.offset) for at in rejects)
        }
        letters = []
        for at in rejects:
            message = messages.get((at.topic, at.partition, at.offset))
            letters.append(
                DeadLetter(
                    topic=at.topic,
                    partition=at.partition,
                    offset=at.offset,
                    seq=at.seq,
                    reason=at.reason,
                    key=None if message is None else message.key,
                    value=None if message is None else message.value,
                )
            )
        self.kept_in.keep(batch, stage, letters, now)
        self.newest.extend(
            KeptLetter(
                stage=stage,
                topic=one.topic,
                partition=one.partition,
                offset=one.offset,
                reason=one.reason,
                message=readable(one.value, _SHOWN),
                at=now,
            )
            for one in letters
        )
        return {place: message.key for place, message in messages.items()}
