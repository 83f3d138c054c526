"""Events as lines of text for people; ``streams.event_lines`` has the form for programs."""

from __future__ import annotations

import base64

from ticdc_spark.mysql import tso_time
from ticdc_spark.streams.event_lines import Cell, EventLine

_SHOWN = 60
"""How many characters of a value a line shows."""


def plain(line: EventLine) -> str:
    """A line for people: place, time, kind, table and content."""
    place = f"{line.topic}/{line.partition}@{line.offset}" + (f".{line.seq}" if line.seq else "")
    when = tso_time.utc(line.commit_ts) if line.commit_ts else "-"
    name = ".".join(part for part in (line.schema, line.table) if part)
    return f"{place}  {when}  {line.kind:<9} {name}  {_what(line)}".rstrip()


def _what(line: EventLine) -> str:
    if line.reason is not None:
        images = [("before", line.before), ("after", line.after)]
        sent = [f"{name}: {_cells(image)}" for name, image in images if image is not None]
        return "; as sent, ".join([line.reason, *sent])
    if line.query is not None:
        return _one_line(line.query)
    if line.kind == "watermark":
        return str(line.commit_ts)
    before, after = line.before or {}, line.after
    cells = before if after is None else after
    changes = after is not None and line.before is not None
    shown = [
        f"{name}={_show(before[name])}→{_show(cell)}"
        if changes and name in before and before[name] != cell
        else f"{name}={_show(cell)}"
        for name, cell in cells.items()
    ]
    return " ".join([*shown, *(["(partial)"] if line.partial else [])])


def _cells(cells: dict[str, Cell]) -> str:
    return " ".join(f"{name}={_show(cell)}" for name, cell in cells.items())


def _show(cell: Cell) -> str:
    if cell is None:
        return "NULL"
    if isinstance(cell, dict):
        data = base64.b64decode(cell["base64"])
        return "0x" + data[: _SHOWN // 2].hex() + (f"…({len(data)} bytes)" if len(data) > _SHOWN // 2 else "")
    text = _one_line(cell[:_SHOWN]) + (f"…({len(cell)} characters)" if len(cell) > _SHOWN else "")
    return f"'{text}'" if not text or " " in text or "=" in text else text


def _one_line(text: str) -> str:
    """Text without line breaks and control characters, which could also change a terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
