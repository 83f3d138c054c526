"""What ``draw_more`` draws happens, and the verdict finds what would be wrong with it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from tests.simulator import fake_iceberg
from tests.simulator.draw import draw, draw_basic
from tests.simulator.draw_harder import draw_harder
from tests.simulator.draw_snapshots import draw_with_snapshots
from tests.simulator.faults import Injector
from tests.simulator.feed import Feed
from tests.simulator.files import Files, Rival
from tests.simulator.files_sink import FilesSink
from tests.simulator.job_lab import JobLab
from tests.simulator.letters import Letters, folded
from tests.simulator.moves import Move
from tests.simulator.operator import MOVES
from tests.simulator.setup import JobSetup, Setup
from tests.simulator.story import Outcome, Story, run
from tests.simulator.world import Finding, World
from ticdc_spark.model import Column, ColumnType, SchemaChange, Table

_INT = ColumnType(name="int")


def change(query: str, kind: str, name: str) -> SchemaChange:
    table = Table(schema="app", name=name, columns=(Column(name="id", type=_INT),))
    return SchemaChange(commit_ts=1, query=query, kind=kind, schema="app", name=name, table=table)


def told(*lines: str, setup: Setup, seed: int = 5) -> Outcome:
    """The outcome of a story of moves, each with its word or number."""
    moves = []
    for at, line in enumerate(lines):
        name, _, word = line.partition(" ")
        n = {"send": 1000, "batch": 1000, "wait": 70}.get(name, 0)
        moves.append(Move(kind=name, word=word, n=n, dice=seed * 1000 + at))  # type: ignore[arg-type]
    return run(Story(seed=0, setup=setup, moves=tuple(moves)), JobLab)


def findings(*lines: str, setup: Setup, seeds: int = 30) -> list[Finding]:
    found = (told(*lines, setup=setup, seed=seed).finding for seed in range(seeds))
    return [finding for finding in found if finding is not None]


SIMPLE = Setup(feed=Feed(), job=JobSetup(protocol="simple"))
BY_FILES = Setup(feed=Feed(), job=JobSetup(protocol="simple", row_deltas=True))
ROWS = ("transaction", "transaction", "send", "advance", "send", "batch")


def test_most_stories_draw_one_of_it_or_none() -> None:
    seeds = range(600)
    same = sum(draw(seed) == draw_basic(seed) for seed in seeds)
    assert 0.5 < same / len(seeds) < 0.8


def test_everything_of_it_is_drawn() -> None:
    stories = [draw(seed) for seed in range(1500)] + [draw_with_snapshots(seed) for seed in range(300)]
    stories += [draw_harder(seed) for seed in range(300)]
    words = Counter(f"{move.kind} {move.word}".strip() for story in stories for move in story.moves)
    assert {move.kind for story in stories for move in story.moves} <= {*MOVES, "batch"}
    for line in ("delete_topic", "leave_topic", "rival", "rival refuses", "rival_writer", "foreign_table required"):
        assert words[line] > 10, line
    for word in ("archive_table", "swap_alike", "return_column", "hidden_drop", "fill_tables"):
        assert words[f"ddl {word}"] > 10, word
    assert words["meanwhile archive_table"] > 10
    feeds = Counter(story.setup.feed.letters for story in stories)
    assert min(feeds["sql"], feeds["messages"]) > 50
    assert sum(story.setup.feed.lacks >= 0 for story in stories) > 20
    assert sum(story.setup.job.row_deltas for story in stories) > 50


def test_a_table_is_named_as_its_create_or_rename_was_typed() -> None:
    letters = Letters("sql", 1)
    database = SchemaChange(commit_ts=1, query="CREATE DATABASE `app`", kind="QUERY", schema="app")
    letters.statement([database])
    typed = set()
    for _ in range(40):
        (made,) = letters.statement([change("CREATE TABLE `t1` (`id` INT)", "CREATE", "t1")])
        (moved,) = letters.statement([change("RENAME TABLE `app`.`t1` TO `app`.`t2`", "RENAME", "t2")])
        for one in (made, moved):
            assert one.table is not None
            assert f"`{one.table.name}`" in one.query
            assert one.table.schema == letters.databases["app"]
            typed.add(one.table.name)
    assert {folded(("app", name))[1] for name in typed} == {"t1", "t2"}
    assert len(typed) == 4


def test_a_message_names_a_database_in_other_letters_than_rows() -> None:
    letters = Letters("messages", 1)
    letters.databases["app"] = "app"
    sent = {letters.sent(change("DROP TABLE `app`.`t1`", "ERASE", "t1")).schema for _ in range(40)}
    assert sent == {"app", "App", "APP"}


def test_another_writer_between_two_commits_changes_nothing() -> None:
    lines = ("ddl create_table", *ROWS, "transaction", "send", "advance", "send", "rival", "batch", *ROWS)
    outcomes = [told(*lines, setup=BY_FILES, seed=seed) for seed in range(30)]
    assert not [outcome.finding for outcome in outcomes if outcome.finding]
    assert sum(outcome.draws["commits that met another writer"] for outcome in outcomes) > 15


def test_a_file_that_is_removed_though_a_table_has_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    upsert = FilesSink.upsert

    def and_remove(self: FilesSink, *given: Any) -> None:
        upsert(self, *given)
        for path in sorted(self.files.committed):
            self.files.remove(path)

    monkeypatch.setattr(FilesSink, "upsert", and_remove)
    found = findings("ddl create_table", *ROWS, setup=BY_FILES, seeds=5)
    assert {finding.kind for finding in found} == {"files of a table are removed"}


def test_a_null_where_the_lake_holds_none_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_iceberg._SchemaUpdate, "commit", lambda _self: None)
    adopting = replace(BY_FILES, job=replace(BY_FILES.job, adopt=True))
    found = findings("ddl create_table", "foreign_table required", *ROWS, *ROWS, setup=adopting)
    assert found
    assert all("a NULL reads as a value" in finding.where for finding in found)


def test_a_table_changes_places_with_another_between_two_chunks() -> None:
    reading = replace(SIMPLE, tables_before=1, job=replace(SIMPLE.job, snapshot="now"))
    start = ("ddl fill_tables", "ddl fill_tables", "send", "advance", "send", "batch", "batch", "batch", "batch")
    lines = (*start, "rebuild", "advance", "send", "batch", "meanwhile archive_table", "batch", "advance", "send")
    outcomes = [told(*lines, "batch", "batch", setup=reading, seed=seed) for seed in range(20)]
    assert sum(outcome.draws["archive_table between two chunks"] for outcome in outcomes) > 5


def test_a_topic_is_left_behind_once_the_job_has_applied_the_drop_of_its_tables() -> None:
    setup = Setup(feed=Feed(topic_per_table=True), job=JobSetup(protocol="simple"))
    start = ("ddl create_table", *ROWS, "ddl drop_table", "send", "advance", "send")
    early, late = (
        sum(told(*start, *more, setup=setup, seed=seed).draws["topics of dropped tables deleted"] for seed in range(10))
        for more in (("delete_topic",), ("batch", "wait 70", "batch", "batch", "delete_topic"))
    )
    assert not early
    assert late > 5


def test_a_column_that_is_dropped_without_a_ddl_counts_once_a_row_lacks_it() -> None:
    outcome = told("ddl create_table", *ROWS, "ddl hidden_drop", "advance", "send", "batch", setup=SIMPLE)
    assert outcome.finding is None


def test_a_rival_acts_once_and_refuses_one_commit() -> None:
    files = Files(rival=Rival(after=1, kind="nobody", refuses=2))
    assert files.meet(is_second=False) is None
    rival = files.meet(is_second=False)
    assert rival is not None
    assert not rival.is_refused(is_second=False)
    assert files.meet(is_second=True) is rival
    assert rival.is_refused(is_second=True)
    assert files.meet(is_second=False) is None


def test_a_world_counts_what_happened() -> None:
    world = World(
        replace(SIMPLE, feed=Feed(letters="sql")), lambda broker, clock, injector: JobLab(broker, clock, injector)
    )
    assert isinstance(world.injector, Injector)
    assert world.all_draws()["stories with letters in sql"] == 1
