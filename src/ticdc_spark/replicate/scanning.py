"""The scan of a batch: what it needs from a job and its progress, and when it is repeated."""

from collections.abc import Callable, Sequence

import msgspec

from ticdc_spark.changes.opening import Opening
from ticdc_spark.changes.ranges import rounds, stretches
from ticdc_spark.changes.scan import ScanPlan, partition_key, table_id_key
from ticdc_spark.changes.topic import TopicRows
from ticdc_spark.config.job import Job, native_of
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.values import ModeName
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.modes.choose import acting_mode
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.plan.pending import range_of
from ticdc_spark.replicate.plan.spelling import Spelled, keeps_names, scan_names, spell
from ticdc_spark.replicate.schemas.registered import Registered
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.spark.decode.control import ControlEvent


def opening_of(job: Job, protocol: str, mode: ModeName | None, registry: Registered | None) -> Opening:
    """How the job opens messages now."""
    return Opening(
        protocol=protocol,
        native=native_of(job.source),
        schemas=None if registry is None else dict(registry.known),
        block_keys=PROTOCOLS[protocol].traits.schema_blocks and mode != "watermark",
        claim_check_storage=job.source.claim_check_storage,
        verify_checksum=job.verify_checksum,
        left_out=tuple((place.topic, place.partition, place.offset) for place in job.skip_messages),
        routes=job.routes if compiled(job.routes).merges else (),
    )


def scan_plan(
    job: Job, protocol: str, mode: ModeName | None, progress: Progress, registry: Registered | None
) -> ScanPlan:
    """The plan for the scan of a batch. While the mode is unknown, rows that hide their commit_ts count as rows too."""
    acting = acting_mode(mode, protocol)
    # Without DDL, only the names in rows distinguish tables.
    exact = PROTOCOLS[protocol].traits.schema_blocks and not is_resolving(mode)
    return ScanPlan(
        opening=opening_of(job, protocol, mode, registry),
        table_replay_below={
            table_id_key(*name): commit_ts for name, commit_ts in acting.replay_below(progress).items()
        },
        watermarks=_read_before(progress),
        bases={
            table_id_key(table.schema, table.name): table.emptied
            for table in progress.tables
            if table.origin == "snapshot" and not table.is_gone
        },
        has_watermarks=acting.resolves,
        names=scan_names(progress, exact=exact),
    )


def _read_before(progress: Progress) -> dict[str, int]:
    """For each partition, the commit_ts below which every message was read before. A topic that was excluded for some
    time is read again from its start; the needs of its tables say how far it was read."""
    found = {partition_key(one.topic, one.partition): one.watermark for one in progress.partitions}
    for table in progress.catching_up:
        for topic, partition, need in table.needs:
            key = partition_key(topic, partition)
            found[key] = max(need, found.get(key, 0))
    return found


def scan(
    plan: ScanPlan,
    progress: Progress,
    registry: Registered | None,
    scan_by: Callable[[ScanPlan], Sequence[ControlEvent]],
) -> Spelled:
    """Scan a batch. Scan it again if its messages bring schemas or table names that its rows need, which is rare.

    Raises: RegistryFault; as ``scan_by``
    """
    while True:
        controls = scan_by(plan)
        if registry is not None and registry.learn(controls):
            opening = msgspec.structs.replace(plan.opening, schemas=dict(registry.known))
            plan = msgspec.structs.replace(plan, opening=opening)
            continue
        spelled = spell(progress, controls, plan.names)
        if spelled.scan_names is plan.names or keeps_names(controls, spelled.scan_names):
            return spelled
        plan = msgspec.structs.replace(plan, names=spelled.scan_names)


def learn_waiting(rows: TopicRows, registry: Registered, progress: Progress) -> None:
    """Fetch the schemas of rows that wait since an earlier run. Raises: RegistryFault, SourceFault"""
    opening = msgspec.structs.replace(rows.opening, schemas=dict(registry.known))
    for start, end in rounds(stretches(map(range_of, progress.pending))):
        count = sum(last - start[place] for place, last in end.items())
        registry.learn(rows.scan(ScanPlan(opening=opening), start, end, count))
