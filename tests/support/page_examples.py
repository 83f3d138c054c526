"""A job and a changefeed in every state, as their pages are given them."""

import functools
from pathlib import Path

import msgspec

from tests.support.status_examples import IDENTITY, NOW, PROGRESS, TSO, WELL, beat, held_by
from ticdc_spark.changefeed.progress import Owner, Stored
from ticdc_spark.changefeed.report import Report
from ticdc_spark.model import SchemaChange
from ticdc_spark.operate.page.feed import FeedSeen
from ticdc_spark.operate.page.job_history import AppliedDdl, MaintainedAt, Told
from ticdc_spark.operate.page.job_source import Seen
from ticdc_spark.operate.page.samples import Sample
from ticdc_spark.operate.status import describe
from ticdc_spark.replicate.report import BatchReport, KeptLetter
from ticdc_spark.replicate.run.watch import Maintained
from ticdc_spark.replicate.state.conditions import Clean, Quarantined
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.progress import Counters, Progress, QueuedDdl, Status
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.upkeep import TableFiles, UpkeepResult

HOSTILE = "<script>alert('x')</script>"
"""A name that is somebody's try."""


NOTHING_TOLD = Told()


def seen(
    progress: Progress,
    status: Status | None,
    *,
    runs: bool = True,
    told: Told = NOTHING_TOLD,
    since: float | None = None,
) -> Seen:
    """A job whose page is asked for now."""
    held = held_by(this_process().process) if runs else None
    found = describe(IDENTITY, progress, status, held, NOW)
    times = {(table.schema, table.name): table.ddl_ts for table in progress.tables if table.ddl_ts}
    return Seen(now=NOW, status=found, progress=progress, told=told, since=since, ddl_times=times)


def many(number: int) -> Progress:
    """A progress with so many tables, two of which need a look."""
    tables = [
        TableState(schema="shop", name=f"orders_{at:05}", applied=TSO, condition=Clean(), rows=at * 7, snapshot_id=at)
        for at in range(number - 2)
    ]
    bad = [
        TableState(schema="shop", name=f"z_bad_{at}", condition=Quarantined(why=f"offset {at}: no JSON"))
        for at in range(2)
    ]
    return msgspec.structs.replace(WELL, tables=(*tables, *bad), counters=Counters(rows=123_456_789))


FILES = TableFiles(rows=9_400_000, bytes=1_290_000_000, files=3, delete_files=2, deleted_rows=610_000, snapshots=34)


def told() -> Told:
    """What a run has told that had much to do."""
    wave = [12.0, 14.0, 13.0, 40.0, 95.0, 60.0, 22.0, 14.0, 12.0, 13.0, 11.0, 12.0]
    samples = tuple(
        Sample(NOW - 10 * (240 - at), wave[at % 12] + (200.0 if 90 < at < 130 else 0.0), at * at * 40)
        for at in range(240)
    )
    change = SchemaChange(
        commit_ts=TSO - (9000 << 18), query="ALTER TABLE `shop`.`orders` ADD COLUMN note VARCHAR(20)", kind="ALTER"
    )
    ddl = QueuedDdl(change=change, topic="shop", partition=0, offset=5)
    phases = {"scan": 0.7, "advance": 0.01, "apply": 2.4, "commit": 0.3}
    return Told(
        report=BatchReport(progress=WELL, messages=20_500, seconds=3.5, phases=phases),
        samples=samples,
        ddls=(AppliedDdl(NOW - 20, ddl),),
        letters=(
            KeptLetter(
                stage="shop.b",
                topic="shop",
                partition=1,
                offset=2093,
                reason="column id: no BIGINT",
                message='{"id":"x"}',
                at=NOW - 300,
            ),
        ),
        maintained=(
            MaintainedAt(
                NOW - 60,
                Maintained(
                    table=("shop", "orders"),
                    seconds=1.9,
                    result=UpkeepResult(
                        done=("62 data files, of 61 small ones, became 1",),
                        before=TableFiles(rows=9_400_000, bytes=1_310_000_000, files=62, snapshots=30),
                        after=FILES,
                    ),
                ),
            ),
            MaintainedAt(NOW - 90, Maintained(table=("shop", "a"), seconds=0.4, fault="another writer was faster")),
        ),
        changed={("shop", "orders"): NOW - 4},
        files={("shop", "orders"): FILES},
    )


def _hostile() -> Progress:
    change = SchemaChange(commit_ts=TSO + 1, query=f"CREATE TABLE `{HOSTILE}` (id INT)", kind="CREATE")
    return msgspec.structs.replace(
        PROGRESS,
        tables=(TableState(schema="shop", name=HOSTILE, condition=Quarantined(why=f"{HOSTILE} & more")),),
        ddls=(QueuedDdl(change=change, topic=HOSTILE, partition=0, offset=9),),
        pending=(),
        hold=msgspec.structs.replace(PROGRESS.hold, what=HOSTILE),
    )


@functools.cache
def jobs() -> dict[str, Seen]:
    """A job in every state that it can have, by a name."""
    error = "a DDL cannot be replayed: TRUNCATE PARTITION p1\n  SQL: ALTER TABLE t TRUNCATE p1\n  To skip it: …"
    ended = {"error": error, "error_code": "UnsupportedDdl", "error_at": NOW - 840, "exit_code": 4}
    settled = told()
    return {
        "pending": seen(Progress(job="shop"), None, runs=False),
        "starting": seen(Progress(job="shop"), beat("pending", phase="starting"), since=NOW - 12),
        "normal": seen(WELL, beat(phase="waiting", read_at=NOW - 1, left=0), told=settled, since=NOW - 7200),
        "catch-up": seen(WELL, beat(phase="apply", left=1_250_000, rate=8_400.0), told=settled, since=NOW - 600),
        "warning": seen(PROGRESS, beat(phase="apply"), told=settled, since=NOW - 90),
        "retrying": seen(WELL, beat("warning", error="no broker of Kafka at broker:9092 answers"), told=settled),
        "failed": seen(PROGRESS, beat("failed", at=NOW - 840, **ended), runs=False, since=NOW - 840),
        "stopped": seen(WELL, beat("stopped", at=NOW - 3600), runs=False, since=NOW - 3600),
        "finished": seen(WELL, beat("finished", at=NOW - 30), runs=False, since=NOW - 30),
        "many tables": seen(many(10_000), beat(phase="apply"), told=settled, since=NOW - 90),
        "hostile": seen(_hostile(), beat(phase="apply", error=f"{HOSTILE}")),
    }


def feeds() -> dict[str, FeedSeen]:
    """A changefeed in every state that it can have."""
    stored = Stored(
        changefeed="shop",
        target="broker:9092/shop",
        source="mysql://cdc:password@db:3306",
        position="0-1-4711 mysql-bin.000042:15321",
        commit_ts=TSO,
        schemas="schemas-1.json",
        partitions={"shop": 3, "shop_orders": 12, HOSTILE: 1},
        saved_at=NOW - 2,
        rows=987_654,
        unread=(("shop", "late"), ("shop", HOSTILE)),
    )
    samples = tuple(Sample(NOW - 10 * (90 - at), 2.0 + at % 7, at * 9000) for at in range(90))
    report = Report(rows=810_000, messages=790_000, waiting=120, rows_per_second=903.0, saved=TSO)
    running = {"stored": stored, "is_running": True, "samples": samples, "since": NOW - 900}
    away = msgspec.structs.replace(report, outage="broker:9092 refuses the connection")
    return {
        "pending": FeedSeen(now=NOW, name="shop"),
        "starting": FeedSeen(now=NOW, name="shop", is_running=True, since=NOW - 3),
        "normal": FeedSeen(now=NOW, name="shop", report=report, **running),
        "outage": FeedSeen(now=NOW, name="shop", report=away, **running),
        "reading": FeedSeen(
            now=NOW,
            name="shop",
            report=msgspec.structs.replace(report, reading="shop.late, 12,000 rows"),
            owner=Owner(changefeed="shop", host="db-1", pid=77, since=NOW - 900),
            **running,
        ),
        "stopped": FeedSeen(now=NOW, name="shop", stored=stored),
        "unreadable": FeedSeen(now=NOW, name="shop", fault="the changefeed's state cannot be read: progress.json"),
    }


def job_file(folder: Path) -> Path:
    """A job file with a secret of each kind."""
    path = folder / "shop.toml"
    path.write_text(
        '[job]\nname = "shop"\nmask-salt = "plain-salt-of-the-job"\n'
        '[source]\nkind = "kafka"\nbootstrap-servers = "broker:9092"\ntopics = ["shop"]\n'
        'upstream = "mysql://reader:plain-password@db:4000?ssl-ca=/etc/ca.pem"\n'
        '"kafka.sasl.jaas.config" = "Module required password=\\"plain-jaas\\";"\n'
        '"schema-registry.basic.auth.user.info" = "user:plain-registry"\n'
        '[sink]\nkind = "iceberg"\nwarehouse = "lake"\n"catalog.credential" = "plain-credential"\n'
        '[metrics]\ntoken = "${file:token}"\n'
        '[[route]]\ntables = ["shop.*"]\ntarget-schema = "lake_{schema}"\n'
    )
    return path
