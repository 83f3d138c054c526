"""Prepares for the rows of a table: its topic, its schemas in the registry, its BOOTSTRAP."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import count
from typing import Any

from ticdc_spark.changefeed.actions import SendBootstrap
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.encoders import cadence, encoder, opened_registry
from ticdc_spark.changefeed.outbox import Outbox
from ticdc_spark.changefeed.producer import KafkaProducer
from ticdc_spark.changefeed.topics import Topics
from ticdc_spark.model import Table
from ticdc_spark.protocols import protocol
from ticdc_spark.streams.registering import Registering, register_table
from ticdc_spark.streams.target_tables import TargetTables


class Announcer:
    """Announces tables. A context manager for one thread."""

    def __init__(self, changefeed: Changefeed, rules: Router, topics: Topics) -> None:
        self._changefeed, self._rules, self._topics = changefeed, rules, topics
        self._bootstraps = cadence(changefeed).bootstraps
        self._tickets = count(1)
        self._producer: KafkaProducer | None = None

    def __enter__(self) -> Announcer:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._producer is not None:
            self._producer.close(drop=True)

    def announce(self, tables: Iterable[Table], commit_ts: int) -> Mapping[tuple[str, str], int]:
        """Create the tables' topics, register their schemas, and send their BOOTSTRAPs, if the protocol has them.

        Returns: the ids of the registered schemas. Raises: SinkFault, RegistryFault, UsageError, DecisionNeeded
        """
        found = [*tables]
        for table in found:
            self._topics.facts(self._rules.route(table).topic)
        self._bootstrap(found, commit_ts)
        with opened_registry(self._changefeed) as registry:
            if registry is None:
                return {}
            registering = Registering(registry)
            completed = TargetTables(protocol(self._changefeed.protocol).traits)
            for table in found:
                route = self._rules.route(table)
                limit = self._topics.limit(route.topic)
                register_table(
                    encoder(self._changefeed, registering, self._rules.topic, limit),
                    completed.table(route.sent_table, commit_ts),
                )
            return registering.ids

    def _bootstrap(self, tables: list[Table], commit_ts: int) -> None:
        if self._bootstraps is None:
            return
        if self._producer is None:
            self._producer = KafkaProducer(self._changefeed.kafka)
        outbox = Outbox(
            self._changefeed.protocol,
            partial(encoder, self._changefeed, None, self._rules.topic),
            self._topics.limit,
            self._producer,
        )
        waiting = set()
        for table in tables:
            topic = self._rules.route(table).topic
            partitions = self._topics.partitions(topic) if self._bootstraps.to_all_partitions else 1
            places = tuple((topic, number) for number in range(partitions))
            ticket = next(self._tickets)
            waiting.add(ticket)
            outbox.do(SendBootstrap(ticket, places, table, commit_ts))
        began = time.monotonic()
        while waiting:
            self._producer.poll(0.05)
            waiting.difference_update(outbox.acknowledged)
            self._producer.check_silence(began)
