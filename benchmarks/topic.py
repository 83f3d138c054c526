"""Recorded topics to measure on: generated once for each set of parameters, kept with what they lead to."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import msgspec

from ticdc_spark.model import Table
from ticdc_spark.protocols.simple.decode import SimpleConfig, encoder
from ticdc_spark.workload import WorkloadConfig, dispatch, generate, write_topic


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in a folder, and the truth about it."""

    path: Path
    config: WorkloadConfig
    messages: int
    tables: tuple[Table, ...]
    rows: dict[str, int]
    """Rows that each table ends with, by its name."""


def configs(changes: int, seed: int) -> dict[str, WorkloadConfig]:
    """The workloads: no DDL but the first CREATEs, no replays, no key changes, since the baselines handle none."""
    plain = WorkloadConfig(
        seed=seed,
        changes=changes,
        live_rows=100_000_000,
        key_change_share=0.0,
        watermark_every=max(10, changes // 4000),
        bootstrap_every=max(200, changes // 60),
        partitions=4,
    )
    return {
        "insert-heavy": msgspec.structs.replace(plain, insert_share=0.9, update_share=0.07),
        "update-heavy": msgspec.structs.replace(plain, insert_share=0.25, update_share=0.7),
    }


def recorded(config: WorkloadConfig, cache: Path) -> Recorded:
    """The topic of a workload, in Parquet; made when the cache does not have it."""
    name = hashlib.sha256(msgspec.json.encode(config)).hexdigest()[:16]
    folder = cache / name
    about = folder / "about.json"
    if not about.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        events = generate(config)
        messages = write_topic(dispatch(events, config, encoder(SimpleConfig())), folder / "topic", "parquet")
        truth = events.truth
        made = Recorded(
            path=folder / "topic",
            config=config,
            messages=messages,
            tables=tuple(table for table, _ in truth.values()),
            rows={name: len(rows) for (_, name), (_, rows) in truth.items()},
        )
        about.write_bytes(msgspec.json.encode(made, enc_hook=str))
    return msgspec.json.decode(about.read_bytes(), type=Recorded, dec_hook=lambda kind, value: kind(value))
