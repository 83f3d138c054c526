"""What a job does where a person may choose, and where nothing may be chosen: NULL stays NULL, one process a job."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import lake, names, read_table, replicate, write_job
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from tests.support.job_state import owned, read, state_of
from ticdc_spark import failpoints
from ticdc_spark.config.values import skip_ddl_line
from ticdc_spark.errors import LeaseHeld, SchemaMissing
from ticdc_spark.model import Bootstrap, Change, Column, Row, RowChange, SchemaChange, Watermark
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.store import JobStore, take_over

V = Column(name="v", type=INT, default="7")
D = Column(name="d", type=INT, default="5")
ONE = table(10, V)
TWO = table(40, V, D)
CREATE = SchemaChange(
    commit_ts=10,
    query="CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT DEFAULT 7)",
    kind="CREATE",
    schema="s",
    name="t",
    table=ONE,
)


def rows(spark: SparkSession, folder: Path, name: str = "t") -> Sequence[Row]:
    return sorted(read_table(lake(spark, folder), "s", name), key=lambda row: str(row["id"]))


def test_null_stays_null_beside_a_default(spark: SparkSession, folder: Path) -> None:
    add = ddl("ALTER", 40, "ALTER TABLE `t` ADD COLUMN `d` INT DEFAULT 5", TWO, ONE)
    source = topic(
        folder,
        [
            CREATE,
            insert(ONE, 20, id="1", v=None),
            insert(ONE, 21, id="2", v="7"),
            Watermark(40),
            add,
            insert(TWO, 50, id="3", v=None, d=None),
            RowChange(
                op="update",
                table=TWO,
                commit_ts=60,
                before={"id": "2", "v": "7", "d": "5"},
                after={"id": "2", "v": None, "d": None},
            ),
            Watermark(100),
        ],
    )
    replicate(write_job(folder, source))
    assert rows(spark, folder) == [
        {"id": 1, "v": None, "d": 5},
        {"id": 2, "v": None, "d": None},
        {"id": 3, "v": None, "d": None},
    ]


def test_what_is_dropped_or_truncated_may_be_kept(spark: SparkSession, folder: Path) -> None:
    again = table(70, V)
    source = topic(
        folder,
        [
            CREATE,
            insert(ONE, 20, id="1", v="1"),
            Watermark(30),
            ddl("TRUNCATE", 30, "TRUNCATE TABLE `t`", table(30, V), ONE),
            insert(table(30, V), 40, id="1", v="2"),
            insert(table(30, V), 41, id="2", v="2"),
            ddl("ALTER", 45, "ALTER TABLE `t` DROP COLUMN `v`", table(45), table(30, V)),
            insert(table(45), 50, id="3"),
            Watermark(60),
            SchemaChange(
                commit_ts=60,
                query="DROP TABLE `s`.`t`",
                kind="ERASE",
                schema="s",
                name="t",
                table=table(45),
                pre_table=table(45),
            ),
            SchemaChange(commit_ts=70, query=CREATE.query, kind="CREATE", schema="s", name="t", table=again),
            insert(again, 80, id="9", v="9"),
            Watermark(100),
        ],
    )
    job = write_job(folder, source, '[ddl]\ndrop-table = "keep"\ntruncate-table = "keep"\ndrop-column = "keep"')
    replicate(job)
    assert rows(spark, folder) == [{"id": 9, "v": 9}]
    (aside,) = {name for _, name in names(lake(spark, folder))} - {"t"}
    assert rows(spark, folder, aside) == [{"id": 1, "v": 2}, {"id": 2, "v": 2}, {"id": 3, "v": None}]


EXCHANGE = ddl("ALTER", 40, "ALTER TABLE `t` EXCHANGE PARTITION `p` WITH TABLE `u`", ONE)


@pytest.mark.parametrize(("truncated", "since"), [(None, 40), (30, 40), (60, None)], ids=["not", "before", "after"])
def test_a_ddl_that_is_left_out_marks_its_table_among_the_rows_of_its_batch(
    spark: SparkSession, folder: Path, truncated: int | None, since: int | None
) -> None:
    events: list[tuple[int, Change]] = [
        *((10, CREATE), (40, EXCHANGE)),
        *((ts, insert(ONE, ts, id=str(ts), v="1")) for ts in (20, 50, 70)),
    ]
    if truncated is not None:
        events.append((truncated, ddl("TRUNCATE", truncated, "TRUNCATE TABLE `t`", ONE, ONE)))
    ordered = [event for _, event in sorted(events, key=lambda placed: placed[0])]
    source = topic(folder, [*ordered, Watermark(100)])
    states = replicate(write_job(folder, source, skip_ddl_line(40, EXCHANGE.query))).progress.tables
    state, partner = sorted(states, key=lambda one: one.name)
    assert [row["id"] for row in rows(spark, folder)] == [ts for ts in (20, 50, 70) if ts > (truncated or 0)]
    assert (state.name, state.diverged_since) == ("t", since)
    assert (partner.name, partner.diverged_since) == ("u", 40)


def test_a_second_process_of_a_job_is_refused(spark: SparkSession, folder: Path) -> None:
    job = write_job(folder, topic(folder, [CREATE, insert(ONE, 20, id="1", v="1"), Watermark(30)]))
    with owned(job, this_process("ann")):
        with pytest.raises(LeaseHeld, match="ann"):
            replicate(job)
        assert read(job).progress is None
    another = folder / "another.toml"
    another.write_text(job.read_text().replace('name = "job"', 'name = "another"'))
    with owned(another):
        replicate(job)
    assert rows(spark, folder) == [{"id": 1, "v": 1}]


@pytest.mark.parametrize("checked", [True, False], ids=["holds", "owner not checked"])
def test_i8_a_process_whose_job_is_taken_over_commits_nothing_more(
    spark: SparkSession, folder: Path, checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: tuple[Change, ...] = (CREATE, insert(ONE, 20, id="1", v="1"), Watermark(30))
    job = write_job(folder, topic(folder, first))
    replicate(job)
    topic(folder, [*first, insert(ONE, 40, id="2", v="2"), Watermark(50)])

    def take(point: str) -> None:
        if point == "advance":
            with state_of(job) as states:
                take_over(states, states.load(), "job", this_process("bob"))

    monkeypatch.setattr(failpoints, "point", take)
    if not checked:
        monkeypatch.setattr(JobStore, "check", lambda _: None)
    with pytest.raises(LeaseHeld, match=r"was taken by job 'job' \(bob\)"):
        replicate(job)  # at the latest its state is refused
    assert len(rows(spark, folder)) == (1 if checked else 2)
    found = read(job)
    assert found.progress is not None and found.progress.batch == 1 and found.held is not None
    assert found.held.owner.label == "bob"


MIDDLE: tuple[Change, ...] = (insert(ONE, 20, id="1", v="1"), insert(ONE, 25, id="2", v=None), Watermark(30))
"""A run from the middle: rows before any schema."""


def test_rows_from_the_middle_wait_for_their_bootstrap(spark: SparkSession, folder: Path) -> None:
    job = write_job(folder, topic(folder, MIDDLE))
    waiting = replicate(job).progress
    assert waiting.applied < 20
    assert "version 10" in waiting.hold.what
    write_job(folder, folder / "topic", 'schema-timeout = "1ms"')
    with pytest.raises(SchemaMissing, match="partition 0"):
        replicate(job)
    topic(folder, [*MIDDLE, Bootstrap(ONE), Watermark(40)])
    replicate(job)
    assert rows(spark, folder) == [{"id": 1, "v": 1}, {"id": 2, "v": None}]


def test_a_schema_file_reads_rows_whose_schema_never_comes(spark: SparkSession, folder: Path) -> None:
    (folder / "s.sql").write_text("CREATE TABLE `s`.`t` (`id` int(11) NOT NULL, `v` int(11), PRIMARY KEY (`id`));\n")
    job = write_job(folder, topic(folder, MIDDLE))
    job.write_text(job.read_text() + '[schema]\nfile = ["s.sql"]\n')
    replicate(job)
    assert rows(spark, folder) == [{"id": 1, "v": 1}, {"id": 2, "v": None}]


def test_rows_before_the_first_known_schema_may_be_left_out(spark: SparkSession, folder: Path) -> None:
    later = table(26, V)
    job = write_job(folder, topic(folder, [*MIDDLE, Bootstrap(later), insert(later, 35, id="3", v="3"), Watermark(40)]))
    job.write_text(job.read_text() + '[schema]\nskip-to-known = ["s.t"]\n')
    (state,) = replicate(job).progress.tables
    assert rows(spark, folder) == [{"id": 3, "v": 3}]
    assert state.diverged_since == 20
