"""Writes docs/reference/changefeed-keys.md: every key of a changefeed's configuration, and its effect here.

The rows come from the table that reads the keys (``ticdc_spark.changefeed.config.keys``). A test runs this and
compares. Run it after a change: python scripts/changefeed_keys.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from ticdc_spark.changefeed.config.key import (
    CODEC,
    DISPATCHERS,
    EVENTS,
    FEED,
    FILTER,
    GLUE,
    KAFKA,
    LARGE,
    OURS,
    SELECTORS,
    SINK,
    URI,
    Key,
)
from ticdc_spark.changefeed.config.keys import BY_ID, KEYS
from ticdc_spark.changefeed.config.kinds import ticdc_name
from ticdc_spark.changefeed.filter import ddl_events
from ticdc_spark.protocols import PROTOCOLS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "changefeed-keys.md"
_HEAD = """# Keys of a changefeed

Every key of TiCDC's configuration of a Kafka sink, and its effect here. Begin with
[the changefeed](../how-to/changefeed.md). Written by `scripts/changefeed_keys.py` from the table that reads the keys.

- **Key**: its name in the file. **URI**: its name in the sink URI, if it is allowed there; a value of the URI
  overrides the file's. **Default** and meaning are TiCDC's.
- **Here**: ✓ it does what it does in TiCDC. *no effect*: it is accepted with a warning.
  *refused*: any value but the default is an error.
- Durations are written as Go writes them: `"10s"`, `"1m30s"`, `"500ms"`.
- An option of a protocol that another protocol does not have is accepted with a warning.
"""
_TITLES = {
    FEED: ("Top level", "Above the first section of the file."),
    SINK: ("[sink]", ""),
    KAFKA: ("[sink.kafka-config]", ""),
    URI: ("Only in the sink URI", ""),
    CODEC: ("[sink.kafka-config.codec-config]", ""),
    LARGE: ("[sink.kafka-config.large-message-handle]", ""),
    GLUE: ("[sink.kafka-config.glue-schema-registry-config]", ""),
    "sink.open": ("[sink.open]", ""),
    "sink.debezium": ("[sink.debezium]", ""),
    DISPATCHERS: ("[[sink.dispatchers]]", "Entries of `dispatchers`: where the rows of a table go."),
    SELECTORS: ("[[sink.column-selectors]]", "Entries of `column-selectors`: which columns are sent."),
    FILTER: ("[filter]", ""),
    EVENTS: ("[[filter.event-filters]]", "Entries of `event-filters`: events to exclude."),
    "integrity": ("[integrity]", ""),
    "mounter": ("[mounter]", ""),
    "scheduler": ("[scheduler]", ""),
    "cyclic-replication": ("[cyclic-replication]", "A section of TiCDC 4.0 to 6.1."),
    "synced-status": ("[synced-status]", ""),
    OURS: (
        "[ticdc-spark]",
        "Keys that TiCDC's file does not have. All are optional, and the command line overrides them.",
    ),
}


def page() -> str:
    """The page."""
    missing = {key.section for key in KEYS} - set(_TITLES)
    assert not missing, missing
    parts = [_HEAD]
    for section, (title, text) in _TITLES.items():
        rows = [_row(key) for key in KEYS if key.section == section]
        head = "| key | URI | default | allowed | meaning | here |\n|---|---|---|---|---|---|\n"
        parts.append(f"## {title}\n\n{text and text + chr(10) * 2}{head}" + "\n".join(rows) + "\n")
    parts.append(_options())
    names = "\n".join(ddl_events.EVENTS)
    rest = "`alter table` is all that ALTER TABLE does, CREATE INDEX and DROP INDEX. Other DDL is never excluded."
    parts.append(f"## Events\n\n`ignore-event` takes:\n\n```text\n{names}\n```\n\n{rest}\n")
    return "\n".join(parts)


def _options() -> str:
    """Which protocols have which options: rows are options, columns are protocols."""
    from ticdc_spark.changefeed.config.encoding import takes

    names = sorted(PROTOCOLS)
    head = "| option | " + " | ".join(f"`{ticdc_name(PROTOCOLS[name])}`" for name in names) + " |\n"
    lines = [head + "|---" * (len(names) + 1) + "|"]
    options = {key.option: key for key in KEYS if key.option}
    for option, key in options.items():
        ids = [found for found in BY_ID.values() if found.option == option]
        marks = ["✓" if takes(PROTOCOLS[name], option) else "" for name in names]
        lines.append(f"| `{ids[0].place if len(ids) == 1 else key.name}` | " + " | ".join(marks) + " |")
    return "## Options and protocols\n\n" + "\n".join(lines) + "\n"


def _row(key: Key) -> str:
    uri = "" if key.section == URI else f"`{key.uri}`" if key.uri and key.uri != key.name else "✓" if key.uri else ""
    here = {"used": "✓", "ignored": f"*no effect*: {key.reason}", "refused": f"*refused*: {key.reason}"}[key.use]
    cells = (f"`{key.name}`", uri, _default(key), key.kind.allowed, key.meaning, here)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(key: Key) -> str:
    value = key.default
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{item}"' for item in value) + "]`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
