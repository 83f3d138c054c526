"""A whole job over random workloads in whose messages names of tables and databases change their case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from tests.memory_sink.lake import Lake
from tests.reference.applier import run as run_reference
from tests.reference.test_reference import SQL_PROTOCOLS
from tests.reference.workloads import ENCODER, FAULTS, columns_of, rows_of, truth_of
from tests.support.memory_job import Kept, ListSource, in_order, job_of, lake_rows, run
from tests.workload import WorkloadConfig, dispatch, generate
from ticdc_spark.config.job import FilesSource
from ticdc_spark.model import Bootstrap, Change, RowChange, SchemaChange
from ticdc_spark.names import escape
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.simple.decode import DECODER

PROTOCOLS = {"simple": (ENCODER, DECODER), **SQL_PROTOCOLS}


def in_other_case(events: Iterable[Change], dice: Random, *, rows: bool) -> Iterator[Change]:
    """Names in SQL in any case, and with ``rows`` those of databases in rows and schemas, as TiCDC sends them."""

    def other(name: str) -> str:
        return dice.choice([name, name.upper(), name.capitalize()])

    names: set[str] = set()
    for event in events:
        if isinstance(event, SchemaChange):
            tables = [table for table in (event.table, event.pre_table) if table is not None]
            names |= {event.schema, event.name, *(name for one in tables for name in (one.schema, one.name))} - {""}
            query = event.query
            for name in sorted(names, key=len, reverse=True):
                query = query.replace(f"`{name}`", f"`\0{other(name)}`")
            event = replace(event, query=query.replace("\0", ""))
        elif rows and isinstance(event, RowChange | Bootstrap):
            event = replace(event, table=replace(event.table, schema=other(event.table.schema)))
        yield event


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("batch_rows", [7, 60, 10_000])
@pytest.mark.parametrize("topic_per_table", [False, True])
def test_the_tables_equal_the_truth(topic_per_table: bool, batch_rows: int, protocol: str, tmp_path: Path) -> None:
    config = replace(FAULTS, seed=batch_rows, changes=120, topic_per_table=topic_per_table, restart_every=40)
    events = in_other_case(generate(config), Random(batch_rows), rows=True)
    lake, source = Lake(), ListSource(list(dispatch(events, config, PROTOCOLS[protocol][0])))
    job = job_of(tmp_path, batch_rows=batch_rows, parallel_tables=1, source_timezone="UTC", ddl_timezone="UTC")
    job = replace(job, source=FilesSource(path=tmp_path, protocol=protocol))
    steps = run(job, source, lake, Kept(), protocol)
    found = {(schema.lower(), name.lower()): table.named_rows() for (schema, name), table in lake.tables.items()}
    expected = lake_rows(truth_of(config))
    assert len(found) == len(lake.tables)
    assert found.keys() == {(escape(schema).lower(), escape(name).lower()) for schema, name in expected}
    for (schema, name), rows in expected.items():
        assert in_order(found[escape(schema).lower(), escape(name).lower()]) == in_order(rows), name
    assert all(table.is_clean for table in steps.progress.tables if not table.is_gone)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", range(3))
def test_the_reference_follows_sql_that_was_typed_in_another_case(seed: int, protocol: str) -> None:
    config: WorkloadConfig = replace(FAULTS, seed=seed, changes=120)
    encoder, decoder = PROTOCOLS[protocol]
    events = in_other_case(generate(config), Random(seed), rows=False)
    options = ReadOptions(source_timezone="UTC")
    applied = run_reference(list(dispatch(events, config, encoder)), decoder, options, batch_size=40)
    truth = truth_of(config)
    assert rows_of(applied.lake.tables) == rows_of(truth)
    assert columns_of(applied.lake.tables) == columns_of(truth)
