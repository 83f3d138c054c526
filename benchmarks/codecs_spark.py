"""How fast the protocols are read inside Spark, with one task at a time, beside their code alone.

    python -m benchmarks.codecs_spark [--rows 20000] [--protocol open]

Rows are those of one table of the workload's shop, and the same inside and outside.

Messages in a Parquet file are opened and typed in one ``mapInArrow``, and the columns thrown away.

A pass is a Spark job. Of the passes the fastest counts, each way of counting for itself: by the clock; by processor
time of the Python worker, which other work on the machine disturbs little; and the JVM's.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.codec_subjects import MemoryRegistry
from benchmarks.codecs import OPTIONS, Readers, decode, rate, shop_changes
from benchmarks.measure import Processors, processors
from ticdc_spark.changes.opening import Opener, Opening, of_batch, raw_rows
from ticdc_spark.model import Envelope, RowChange, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols import PROTOCOLS, decoder
from ticdc_spark.protocols.base import Decoder, Encoded
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.spark.decode.raw import RawRows
from ticdc_spark.spark.decode.rows import read_rows, rows_ddl
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.session.session import open_session
from ticdc_spark.spark.tasks import chain
from ticdc_spark.spark.types import LakeOptions, lake_columns

TABLE = "products"
"""Nine columns: integers, decimals, floats, text, SET and JSON."""
PASSES = 3
REPEATED = 5
"""How often the rows of a pass outside Spark stand in one inside, where a job has costs of its own."""
LAKE = LakeOptions()


class Subject(NamedTuple):
    protocol: str
    options: Mapping[str, str]


_STRINGS = {"avro-decimal-handling-mode": "string", "avro-bigint-unsigned-handling-mode": "string"}
SUBJECTS = {
    "open": Subject("open", {}),
    "simple_json": Subject("simple", {}),
    "simple_avro": Subject("simple", {"encoding-format": "avro"}),
    "debezium_ext": Subject("debezium", {}),
    "debezium_avro_string": Subject("debezium-avro", _STRINGS),
    "avro_ext_string": Subject("avro", _STRINGS),
    "canal_json_ext": Subject("canal-json", {}),
}
"""With the TiDB extension where there is one, as ``convert`` writes them."""


class Speed(NamedTuple):
    """Rows a second: alone by processor time; in Spark by the clock, the worker's processor time and the JVM's."""

    alone: float
    clock: float
    worker: float
    jvm: float


class Bench:
    """One table's changes, and Spark."""

    def __init__(self, spark: SparkSession, changes: Sequence[RowChange], folder: Path, seconds: float) -> None:
        self.spark = spark
        self.changes = changes
        self.folder = folder
        self.seconds = seconds
        self.table: Table = changes[0].table
        self.columns = lake_columns(self.table, handle_key(self.table), LAKE)

    def measure(self, name: str, subject: Subject) -> Speed:
        """Decode."""
        registry = MemoryRegistry() if PROTOCOLS[subject.protocol].traits.registry else None
        encoder = target_encoder(subject.protocol, subject.options, registry)
        messages = list(encoder.rows(self.changes))
        texts = None if registry is None else registry.schemas
        protocol = decoder(subject.protocol, texts)
        readers = Readers(protocol, [self.table])
        count = len(self.changes)
        alone = rate(count, lambda: decode(protocol, readers, messages), self.seconds)
        return Speed(
            alone, *self.passes(self.decoded(name, subject.protocol, protocol, texts, messages), sql.count("*"))
        )

    def decoded(
        self, name: str, protocol: str, reader: Decoder, schemas: dict[int, str] | None, messages: Sequence[Encoded]
    ) -> DataFrame:
        path = self.folder / f"{name}.parquet"
        _write(path, _recorded(messages))
        events = [event for one in messages for event in reader.open_message(one.key, one.value)]
        keys = {event.schema_key for event in events if isinstance(event, Envelope)}
        opening = Opening(protocol=protocol, schemas=schemas)
        reading = ReadPlan(
            protocol=protocol,
            tables=dict.fromkeys(keys, self.table),
            columns=self.columns,
            options=OPTIONS,
            lake=LAKE,
            strict=True,
            schemas=schemas,
        )
        task = chain(_raw(opening), read_rows(reading))
        return self.spark.read.parquet(str(path)).mapInArrow(task, rows_ddl(self.columns))

    def passes(self, frame: DataFrame, rows: Column) -> Sequence[float]:
        """The clock, the worker, the JVM; ``rows`` tells how many rows were handled, in a first, uncounted pass."""
        wanted, found = len(self.changes) * REPEATED, frame.select(rows).first()
        if found is None or found[0] != wanted:
            raise SystemExit(f"{found} rows of {wanted}")
        spent = [self._once(frame) for _ in range(PASSES)]
        return [wanted / max(min(way), 0.01) for way in zip(*spent, strict=True)]

    @staticmethod
    def _once(frame: DataFrame) -> Processors:
        with processors() as spent:
            frame.write.format("noop").mode("overwrite").save()
        return spent[0]


def _write(path: Path, rows: pa.Table) -> None:
    pq.write_table(pa.concat_tables([rows] * REPEATED), path, compression="none")


def _recorded(messages: Sequence[Encoded]) -> pa.Table:
    count = len(messages)
    return pa.table(
        {
            "topic": pa.repeat("shop", count),
            "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.nulls(count, pa.int64()),
            "key": pa.array([one.key for one in messages], pa.binary()),
            "value": pa.array([one.value for one in messages], pa.binary()),
        }
    )


def _raw(opening: Opening) -> Callable[[Iterable[pa.RecordBatch]], Iterator[RawRows]]:
    """Messages to all their rows with raw images."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[RawRows]:
        opener = Opener(opening)
        for batch in batches:
            messages = of_batch(batch)
            opened = opener.open(messages)
            yield raw_rows(messages, opened, range(len(opened.rows)), verify=False)

    return run


def report(found: Mapping[str, Speed]) -> str:
    """The results in Markdown."""
    lines = ["| | alone | worker | JVM | clock |", "|---|" + "---:|" * 4]
    for name, one in found.items():
        cells = [f"{value:,.0f}" for value in (one.alone, one.worker, one.jvm, one.clock)]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("benchmarks.codecs_spark", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=20_000, help="row changes in a pass outside Spark")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure outside Spark")
    parser.add_argument("--protocol", choices=SUBJECTS, action="append")
    arguments = parser.parse_args()
    # of six tables
    changes = [change for change in shop_changes(arguments.rows * 7) if change.table.name == TABLE][: arguments.rows]
    if len(changes) < arguments.rows:
        raise SystemExit(f"{len(changes)} changes of {TABLE}, fewer than --rows")
    spark = open_session("bench", {"spark.master": "local[1]"}, ())
    spark.sparkContext.setLogLevel("ERROR")
    found: dict[str, Speed] = {}
    with tempfile.TemporaryDirectory(prefix="ticdc-bench-") as folder:
        bench = Bench(spark, changes, Path(folder), arguments.seconds)
        for name in arguments.protocol or SUBJECTS:
            print(f"{name} …", file=sys.stderr)
            found[name] = bench.measure(name, SUBJECTS[name])
    spark.stop()
    versions = f"Spark {pyspark.__version__} on local[1], Python {platform.python_version()}"
    print(f"{versions}; rows/s of {len(changes):,} rows outside Spark, {REPEATED} times as many inside.\n")
    print(report(found))


if __name__ == "__main__":
    main()
