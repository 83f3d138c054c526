"""All tables of a batch in one commit of a REST catalog: what of it is there, whoever is faster and what is lost."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.contract.appends import BASE, History
from tests.contract.member import Member, insert, row, source, update
from tests.integration.rest_lake import RestLake
from tests.support.rest_proxy import Loses
from ticdc_spark.config.job import IcebergConfig
from ticdc_spark.config.layout import Layout
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.sinks.appends import Events, Marker
from ticdc_spark.sinks.base import ColumnChanges
from ticdc_spark.sinks.capabilities import SinkConflict
from ticdc_spark.sinks.iceberg.kind import KIND
from ticdc_spark.sinks.iceberg.sink import IcebergSink


@pytest.fixture
def lake(rest_lake: RestLake) -> RestLake:
    return rest_lake


def change(member: Member, ts: int, v: str = "9") -> None:
    """Give the row 1 another value, and add one."""
    changes = [update(member.of, ts, source(1), v=v), insert(member.of, ts, **source(ts))]
    member.apply(changes, ts, above=ts - 10)


def filled(lake: RestLake, number: int = 3) -> tuple[IcebergSink, list[Member]]:
    """Tables with the rows 1 and 2, at (20, 2)."""
    sink = lake.sink()
    members = lake.members(number, sink)
    for member in members:
        member.fill(1, 2)
    sink.tables.together.commit()
    return sink, members


AFTER = [row(1, 9), row(2), row(30)]


def marks(lake: RestLake, members: list[Member]) -> list[str | None]:
    return [mark for member in members for mark in lake.proxy.marks(member.schema, "t")]


def test_rows_and_stamps_of_all_tables_come_at_once(lake: RestLake) -> None:
    sink, members = filled(lake)
    lake.proxy.commits.clear()
    for member in members:
        change(member, 30)
    sink.stamp(members[0].name, members[0].stamp(30, about='{"more": 1}'))
    found = [member.found() for member in members]
    assert [one.stamp and one.stamp.mark for one in found] == [(30, 2)] * 3, "the sink sees what waits"
    assert marks(lake, members) == ["20:2"] * 3 and members[0].rows() == [row(1), row(2)], "no reader does"
    ids = [sink.snapshot_id(member.name) for member in members]
    sink.tables.together.commit()
    assert lake.proxy.commits == [["t"] * 3]
    assert marks(lake, members) == ["30:2"] * 3
    assert ids == [sink.snapshot_id(member.name) for member in members] == [one.snapshot for one in found]
    assert [member.rows() for member in members] == [AFTER] * 3
    assert [(one.changed_by, one.rolled_back) for one in map(Member.found, members)] == [("", False)] * 3
    about = members[0].found().stamp
    assert about is not None and about.about == '{"more": 1}'


@pytest.mark.parametrize("lost", ["answer", "request", "half"])
def test_a_commit_without_an_answer_is_looked_for(lake: RestLake, lost: Loses) -> None:
    sink, members = filled(lake, 2)
    for member in members:
        change(member, 30)
    lake.proxy.loses = lost
    if lost == "answer":
        sink.tables.together.commit()
        assert [member.rows() for member in members] == [AFTER] * 2
        return
    with pytest.raises(SinkFault) as raised:
        sink.tables.together.commit()
    assert not isinstance(raised.value, SinkConflict)
    assert marks(lake, members) == ["30:2" if lost == "half" else "20:2", "20:2"]
    assert lake.unused(members[1].schema, "t"), "the catalog may take them yet"


def test_who_was_overtaken_commits_nothing(lake: RestLake) -> None:
    sink, members = filled(lake, 2)
    successor = lake.sink()
    for member in members:
        change(member, 30)
    for member in members:
        member.sink = successor
    change(members[0], 30)
    successor.tables.together.commit()
    with pytest.raises(SinkConflict):
        sink.tables.together.commit()
    assert marks(lake, members) == ["30:2", "20:2"]
    assert members[0].rows() == AFTER


def test_a_ddl_brings_in_the_rows_of_its_table_alone(lake: RestLake) -> None:
    sink, members = filled(lake, 2)
    first, second = members
    for member in members:
        change(member, 30)
    lake.proxy.commits.clear()
    renamed = ColumnChanges(rename=(("w", "text"),))
    sink.change_columns(first.name, renamed, first.stamp(35, 1000))
    assert marks(lake, members) == ["35:1000", "20:2"]
    sink.rename(second.name, (second.schema, "u"))
    assert lake.proxy.marks(second.schema, "u") == ["30:2"]
    sink.drop(first.name)
    sink.tables.together.commit()
    assert lake.proxy.commits == [["t"], ["t"]]


def test_a_history_is_never_behind_its_table(lake: RestLake) -> None:
    sink, (member,) = filled(lake, 1)
    history = History(member)
    lake.proxy.commits.clear()
    net = member.net(member.land([insert(member.of, BASE + 5, **source(5))]), BASE + 9, stamp=history.stamp(9))
    history.append(Events(net.changes, BASE), 9)
    member.apply([insert(member.of, BASE + 5, **source(5))], BASE + 9, above=BASE)
    assert lake.proxy.commits == [], "both wait"
    history.append(Marker("T", BASE + 10), 10)
    assert lake.proxy.commits == [["t_history"]], "it may be ahead"
    sink.truncate(member.name, member.stamp(BASE + 10, 1000))
    assert lake.proxy.commits == [["t_history"], ["t", "t_history"]]
    assert lake.proxy.marks(member.schema, "t", "t_history") == [f"{BASE + 10}:1000", f"{BASE + 10}:2"]


def test_a_table_that_spark_writes_is_a_commit_of_its_own(lake: RestLake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sink = lake.sink()
    members = lake.members(3, sink)
    for member, mode in zip(members, ("merge-on-read", "copy-on-write", "merge-on-read"), strict=True):
        layout = Layout(properties=(("write.merge.mode", mode),))
        sink.create(member.name, member.columns, member.stamp(10, 0), layout)
        member.apply([insert(member.of, 30, **source(3))], 30, above=20, new_keys=True)
    assert marks(lake, members) == ["10:0", "30:2", "10:0"]
    sink.tables.together.commit()
    assert [member.rows() for member in members] == [[row(3)]] * 3
    assert lake.proxy.commits == [["t"] * 2]
    alone = f"{members[1].schema}.t: its changes have their own commit, because Spark writes them"
    assert [one for one in caplog.messages if "their own commit" in one] == [alone]


def test_a_catalog_that_takes_one_table_at_a_time_is_refused(lake: RestLake, tmp_path: Path) -> None:
    (tmp_path / "topic").mkdir()
    config = load_job(lake.job(tmp_path)).sink
    assert isinstance(config, IcebergConfig)
    assert KIND.look(lake.session(), config).endswith("and commits all tables of a batch at once")
    lake.proxy.offers = False
    for opened in (lake.sink, lambda: KIND.look(lake.session(), config)):
        with pytest.raises(UsageError, match=r"cannot commit several tables at once .*transactions/commit"):
            opened()
