"""What landing tasks must know of a job and its progress."""

from ticdc_spark.config.job import Job, native_of
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.modes.arrival import floors_of
from ticdc_spark.replicate.modes.choose import Mode
from ticdc_spark.replicate.schemas.registered import Registered
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.sinks.iceberg.changelog import SLOTS
from ticdc_spark.spark.decode.envelopes import LandingPlan, partition_key, table_id_key


def landing_plan(
    job: Job, protocol: str, mode: Mode | None, progress: Progress, batch: int, registry: Registered | None
) -> LandingPlan:
    """The plan of a batch. While the mode is not known, rows that hide their commit_ts are rows all the same."""
    arrival = mode == "arrival" or (mode is None and PROTOCOLS[protocol].traits.hidden_deletes)
    floors = floors_of(progress) if arrival else {(t.schema, t.name): t.applied for t in progress.tables}
    return LandingPlan(
        protocol=protocol,
        generation=progress.generation,
        batch=batch,
        slots=SLOTS,
        floors={table_id_key(*name): floor for name, floor in floors.items()},
        watermarks={partition_key(p.topic, p.partition): p.watermark for p in progress.partitions},
        arrival=arrival,
        claim_check_storage=job.source.claim_check_storage,
        verify_checksum=job.verify_checksum,
        block_keys=PROTOCOLS[protocol].traits.schema_blocks and mode != "barrier",
        native=native_of(job.source),
        schemas=None if registry is None else dict(registry.known),
    )
