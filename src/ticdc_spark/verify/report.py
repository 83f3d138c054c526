"""The results of a comparison, and its progress: one file, replaced after each step."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from ticdc_spark.config.secrets import redact
from ticdc_spark.durable import replace_file
from ticdc_spark.errors import UsageError
from ticdc_spark.model import TableName
from ticdc_spark.verify.cells import Buckets, Key, Parts, Ranges, ranges_of
from ticdc_spark.verify.columns import TablePlan
from ticdc_spark.verify.compare import Difference, Kind
from ticdc_spark.verify.digests import ALGORITHM, Digest

Result: TypeAlias = Literal["equal", "different", "undecided", "not compared"]
"""undecided: the job did not apply the changes of differing rows in time, or the table could not be read.
not compared: by design; otherwise `status` says why."""
_SHOWN = 100
"""Characters of a value that are shown."""
_MASKED = "(masked)"
_PRIVATE = 0o600
Cell: TypeAlias = tuple[str, str]


class Value(msgspec.Struct, frozen=True):
    """A value on both sides as text; ``None``: NULL."""

    source: str | None
    target: str | None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One row that differs."""

    kind: Kind
    key: dict[str, str | None]
    columns: dict[str, Value] = {}
    """The columns that differ."""
    why: str = ""


class TableReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one table."""

    table: str
    target: str
    result: Result
    condition: str
    why: str = ""
    commit_ts: int = 0
    """The commit_ts of the target's rows when they were first read."""
    rows_source: int = 0
    rows_target: int = 0
    """Rows in the compared parts."""
    parts: int = 0
    parts_compared: int = 0
    parts_differing: int = 0
    """Parts whose checksums differ, including differences from changes that were not applied yet."""
    target_read_again: bool = True
    """``False``: its checksums are from an earlier run, because its snapshot is the same."""
    differences: int = 0
    at_least: bool = False
    """The search ended at this number."""
    undecided: int = 0
    found: tuple[Found, ...] = ()
    """The first differences."""
    keys: tuple[str, ...] = ()
    """The keys of all rows that differ, for ``--repair`` (``repair.key_images``); empty: they are too many, or cannot
    be written."""
    columns_not_compared: dict[str, str] = {}
    seconds: float = 0.0


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a later run of a table continues with."""

    plan: str
    """Identifies the compared columns, see ``fingerprint``."""
    bounds: tuple[tuple[Cell, ...], ...] = ()
    buckets: int = 0
    snapshot: int | None = None
    digests: tuple[Digest, ...] = ()
    """Checksums of the target's parts at ``snapshot``; empty: the target has no snapshots."""
    chosen: tuple[int, ...] = ()
    """The positions of the parts to compare."""
    done: int = 0
    """The number of parts that are done."""
    suspects: tuple[tuple[Cell, ...], ...] = ()
    """Keys of rows in these parts that differed and may not be applied yet."""
    report: TableReport | None = None
    """The report of the parts that are done."""

    @property
    def selection(self) -> Parts:
        """All parts."""
        if self.buckets:
            return Buckets(self.buckets, tuple(range(self.buckets)))
        return ranges_of([read_key(one) for one in self.bounds])


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report."""

    job: str
    started: str
    finished: str = ""
    """In UTC; ``""``: the comparison is not finished."""
    options: str = ""
    """The options at its start; only a run with the same options continues it."""
    tables: tuple[TableReport, ...] = ()
    kept: dict[str, Kept] = {}


def load(path: Path) -> Report | None:
    """A report; ``None``: there is no file. Raises: UsageError, OSError"""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=Report)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{path} is no report of this version: {error}. Remove it, or name another file with --report"
        ) from error


def save(path: Path, report: Report) -> None:
    """Replace the file. Only its owner may read it. Raises: OSError"""
    replace_file(path, msgspec.json.format(msgspec.json.encode(report), indent=1), _PRIVATE)


def fingerprint(plan: TablePlan) -> str:
    """Distinguishes plans whose checksums cover other columns, or were computed in another way."""
    parts = [(one.name, one.form, one.source.type.name, one.target.name, one.target.type.name) for one in plan.pairs]
    return sha256(repr((ALGORITHM, plan.source, plan.target, plan.keys, parts)).encode()).hexdigest()[:16]


def shown(plan: TablePlan, one: Difference) -> Found:
    """A difference for the report, without values of masked columns and without secrets."""

    def text(at: int, row: tuple[Any, ...] | None) -> str | None:
        if row is None or row[at] is None:
            return None
        return _MASKED if plan.pairs[at].masked else _text(row[at])

    key = one.source or one.target
    reasons = [row[-1] for row in (one.source, one.target) if row is not None and row[-1] is not None]
    return Found(
        kind=one.kind,
        key={pair.name: text(at, key) for at, pair in enumerate(plan.key)},
        columns={plan.pairs[at].name: Value(text(at, one.source), text(at, one.target)) for at in one.columns},
        why=redact("; ".join(map(str, reasons))),
    )


def _text(value: Any) -> str:
    text = f"0x{value.hex()}" if isinstance(value, bytes) else redact(str(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def name_text(name: TableName) -> str:
    """A table's name."""
    return f"{name[0]}.{name[1]}"


def write_keys(keys: Sequence[Key]) -> tuple[tuple[Cell, ...], ...]:
    """Keys for the file."""
    return tuple(tuple(map(_cell, key)) for key in keys)


def read_key(cells: Sequence[Cell]) -> Key:
    """A key from the file."""
    return tuple(_READ[kind](text) for kind, text in cells)


_READ: dict[str, Any] = {
    "NoneType": lambda _: None,
    "bool": lambda text: text == "True",
    "int": int,
    "float": float,
    "Decimal": Decimal,
    "str": str,
    "bytes": b64decode,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
}


def _cell(value: Any) -> Cell:
    kind = type(value).__name__
    assert kind in _READ, "it is a value of Arrow"
    if isinstance(value, bytes):
        return kind, b64encode(value).decode()
    return kind, value.isoformat() if isinstance(value, date) else str(value)


def selection_of(selection: Parts) -> tuple[tuple[tuple[Cell, ...], ...], int]:
    """A selection of all parts of a table, for the file: its bounds, or its number of buckets."""
    if isinstance(selection, Buckets):
        return (), selection.count
    assert isinstance(selection, Ranges)
    return write_keys([one.upto for one in selection.of if one.upto is not None]), 0
