"""Statements between a place of the binlog and its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from ticdc_spark.capture.binlog.dump import Dump
from ticdc_spark.capture.binlog.position import Place
from ticdc_spark.capture.binlog.server import Facts
from ticdc_spark.capture.binlog.sql_text import is_control
from ticdc_spark.capture.binlog.uri import ServerUri
from ticdc_spark.capture.binlog.wire.events import Kind, query

_HEARTBEAT = 0.5


def statements_since(server: ServerUri, place: Place, server_id: int, facts: Facts) -> Iterator[str]:
    """The statements that may change tables, as SQL. Raises: SourceFault; SourceChanged if the binlog was purged"""
    with closing(Dump(server, place, server_id, mariadb=facts.mariadb, heartbeat=_HEARTBEAT, wait=False)) as dump:
        for event in dump.events():
            if event.kind in (Kind.QUERY, Kind.QUERY_COMPRESSED):
                found = query(event)
                sql = facts.charsets.text(found.sql, found.charset)
                if not is_control(sql):
                    yield sql
