"""What ``check`` says about the tables of a job that are in its target."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.memory_sink.sink import MemorySink
from tests.support.changefeed import SCHEMA
from tests.unit.replicate.test_merged import merged
from ticdc_spark.replicate.run import target_tables
from ticdc_spark.replicate.run.target_tables import look_at_target
from ticdc_spark.sinks.recorded import of_job


def test_shards_are_the_merged_table_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = merged()
    shop.run()
    assert shop.steps is not None
    job, sink = shop.steps.open.job, MemorySink(shop.lab.tables)
    monkeypatch.setattr(target_tables, "open_sink", lambda *_: of_job(sink, job))
    monkeypatch.setattr(target_tables, "progress_of", lambda _: shop.lab.state.progress)
    monkeypatch.setattr(target_tables, "sink_kind", lambda _: cast(Any, sink))
    monkeypatch.setattr(sink, "is_untouched", lambda _: False, raising=False)
    found = look_at_target(job, cast(Any, None), {(SCHEMA, "orders_1"), (SCHEMA, "orders_2"), (SCHEMA, "orders_9")})
    assert found == "1 of 1 known tables are there"
