"""What landing tasks need of a job and its progress."""

from collections.abc import Callable, Sequence

import msgspec

from ticdc_spark.config.job import Job, native_of
from ticdc_spark.config.values import ModeName
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.modes.choose import MODES
from ticdc_spark.replicate.plan.spelling import Spelled, is_landed, landing_names, spell
from ticdc_spark.replicate.schemas.registered import Registered
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.spark.decode.control import ControlEvent
from ticdc_spark.spark.decode.envelopes import LandingPlan, partition_key, table_id_key
from ticdc_spark.spark.decode.log_schema import BUCKETS


def landing_plan(
    job: Job, protocol: str, mode: ModeName | None, progress: Progress, batch: int, registry: Registered | None
) -> LandingPlan:
    """The plan of a batch. While the mode is not known, rows that hide their commit_ts are rows all the same."""
    acting: ModeName = mode or ("arrival" if PROTOCOLS[protocol].traits.hidden_deletes else "watermark")
    # Without DDL nothing tells two tables apart but the names that their rows have.
    exact = PROTOCOLS[protocol].traits.schema_blocks and mode == "arrival"
    return LandingPlan(
        protocol=protocol,
        generation=progress.generation,
        batch=batch,
        buckets=BUCKETS,
        table_replay_below={
            table_id_key(*name): commit_ts for name, commit_ts in MODES[acting].replay_below(progress).items()
        },
        watermarks={partition_key(p.topic, p.partition): p.watermark for p in progress.partitions},
        bases={
            table_id_key(table.schema, table.name): table.emptied
            for table in progress.tables
            if table.origin == "snapshot" and not table.dropped
        },
        skip=tuple((place.topic, place.partition, place.offset) for place in job.skip_messages),
        arrival=acting == "arrival",
        claim_check_storage=job.source.claim_check_storage,
        verify_checksum=job.verify_checksum,
        block_keys=PROTOCOLS[protocol].traits.schema_blocks and mode != "watermark",
        native=native_of(job.source),
        schemas=None if registry is None else dict(registry.known),
        names=landing_names(progress, exact=exact),
    )


def land(
    plan: LandingPlan,
    progress: Progress,
    registry: Registered | None,
    land_by: Callable[[LandingPlan], Sequence[ControlEvent]],
) -> Spelled:
    """Land a batch, and again where it brings what its rows need to land: schemas, or names of tables. Both are seldom.

    Raises: RegistryFault; as ``land_by``
    """
    while True:
        controls = land_by(plan)
        if registry is not None and registry.learn(controls):
            plan = msgspec.structs.replace(plan, schemas=dict(registry.known))
            continue
        spelled = spell(progress, controls, plan.names)
        if spelled.landing is plan.names or is_landed(controls, plan.names, spelled.landing):
            return spelled
        plan = msgspec.structs.replace(plan, names=spelled.landing)
