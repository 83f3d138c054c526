"""Writes the tables of docs/reference that are made from the code: keys of a job file, commands, errors, metrics.

A page keeps its text. The table below a mark such as ``<!-- keys kafka -->`` is replaced. Only the page of the commands
is written completely. A test compares.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.reference_commands import commands
from scripts.reference_keys import SECTIONS, keys
from scripts.reference_metrics import changefeed_metrics, replicate_metrics

from ticdc_spark import errors

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
_MARK = re.compile(r"(<!-- ((?:keys|metrics) \w+|errors) -->\n)\n*(?:\|.*\n)*\n*")
CURES = {
    errors.UsageError: "Correct what the message names",
    errors.SourceFault: "Make the broker or the files reachable again, then start the job",
    errors.SinkFault: "Make the catalog, the store or the server reachable again, then start the job",
    errors.RegistryFault: "Make the registry reachable again, then start the job",
    errors.LeaseHeld: "[Another process holds the job](../how-to/operating.md#another-process-holds-the-job)",
    errors.SchemaMissing: "[Rows wait for a schema](../how-to/operating.md#rows-wait-for-a-schema)",
    errors.UnsupportedDdl: "[A DDL is not supported](../how-to/operating.md#a-ddl-is-not-supported)",
    errors.IncompatibleSchema: "Change the registry's compatibility, or the table",
    errors.SourceChanged: "[Backup and restore](../how-to/backup.md#what-happened-what-you-see-what-you-do)",
    errors.UnsendableChange: "Correct the row, exclude the table, or raise the topic's limit",
    errors.RejectedMessage: "[A message cannot be read](../how-to/operating.md#a-message-cannot-be-read)",
    errors.LateRow: "[Read the table again](../how-to/operating.md#read-a-table-again), or set `late-rows`",
}


def table(head: str, rows: list[str]) -> str:
    """A table of Markdown. ``head``: the column names with bars between them."""
    bars = "|---" * len(head.split("|")) + "|\n"
    return f"| {head} |\n" + bars + "".join(f"| {row} |\n" for row in rows)


def errors_table() -> str:
    """Every error that ends a command, with its exit code."""
    rows = []
    for kind, cure in CURES.items():
        what = " ".join((kind.__doc__ or "").split())
        rows.append(f"`{kind.__name__}` | {kind.exit_code} | {what.replace('``', '`')} | {cure}")
    return table("error | exit code | meaning | what to do", rows)


TABLES: dict[str, Callable[[], str]] = {
    **{
        f"keys {name}": lambda section=section: table("key | type | default | meaning", keys(section))  # type: ignore[misc]
        for name, section in SECTIONS.items()
    },
    "errors": errors_table,
    "metrics replicate": lambda: table("name | kind | meaning", replicate_metrics()),
    "metrics changefeed": lambda: table("name | kind | meaning", changefeed_metrics()),
}


def filled(text: str) -> str:
    """A page with its tables. Raises: KeyError for an unknown mark."""
    return _MARK.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n", text).rstrip("\n") + "\n"


def pages() -> dict[Path, str]:
    """The expected text of the pages."""
    found = {page: filled(page.read_text(encoding="utf-8")) for page in FOLDER.glob("*.md")}
    return {**found, FOLDER / "cli.md": commands()}


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{page}\n")
