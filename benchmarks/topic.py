"""Recorded topics to measure on: generated once for each set of parameters, kept with what they lead to."""

from __future__ import annotations

import hashlib
import os
import shutil
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import msgspec
from tests.workload import WorkloadConfig, dispatch, generate, write_topic

from benchmarks.accounts import Accounts, AccountsConfig
from ticdc_spark.model import Table
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in a folder, and the truth about it."""

    path: Path
    config: WorkloadConfig
    messages: int
    tables: tuple[Table, ...]
    rows: dict[str, int]
    """Rows that each table ends with, by its name."""


class RecordedAccounts(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in two folders: the rows that the tables have before, and the changes."""

    before: Path
    changes: Path
    tables: tuple[Table, ...]
    rows: dict[str, int]
    visits: dict[str, int]
    """The sum of a column that every update counts up, by table."""


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
    folder = _folder(config, cache)
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


def recorded_accounts(config: AccountsConfig, cache: Path) -> RecordedAccounts:
    """The topic of a workload, in Parquet; made when the cache does not have it."""
    folder = _folder(config, cache)
    about = folder / "about.json"
    if not about.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        events = Accounts(config)
        messages = dispatch(events, config.delivery(), encoder(SimpleConfig()))
        for loaded, part in groupby(messages, key=lambda _: events.loaded):
            write_topic(part, folder / ("changes" if loaded else "before"), "parquet")
        named = [(table.name, rows) for table, rows in zip(events.tables, events.rows, strict=True)]
        made = RecordedAccounts(
            before=folder / "before",
            changes=folder / "changes",
            tables=events.tables,
            rows={name: len(rows) for name, rows in named},
            visits={name: sum(int(str(row["visits"])) for row in rows) for name, rows in named},
        )
        about.write_bytes(msgspec.json.encode(made, enc_hook=str))
    return msgspec.json.decode(about.read_bytes(), type=RecordedAccounts, dec_hook=lambda kind, value: kind(value))


def link_topic(part: Path, topic: Path) -> None:
    """Bring a part of a recorded topic into a folder, without a copy."""
    topic.mkdir(parents=True, exist_ok=True)
    for file in part.iterdir():
        os.link(file, topic / f"{part.name}-{file.name}")


_Config: TypeAlias = WorkloadConfig | AccountsConfig


def _folder(config: _Config, cache: Path) -> Path:
    return cache / hashlib.sha256(msgspec.json.encode(config)).hexdigest()[:16]
