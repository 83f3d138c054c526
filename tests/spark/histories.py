"""What the story of ``deaths``, and a full read after it, leave in the histories of its tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.spark.deaths import once_at, run_with_deaths
from ticdc_spark.cli import main

Found = list[tuple[int, str, int | None]]
SECTION = '[[history]]\ntables = ["*.*"]\ntarget = "old.{table}"\n'
_FILLED: Found = [(20 + at, "I", at) for at in range(1, 5)]
_CHANGED: Found = [*_FILLED, (40, "I", 5), (41, "I", 6), (42, "I", 7), (43, "U", 1), (44, "D", 2)]
HISTORIES: dict[str, Found] = {
    "t": [(82, "I", 1), (99, "R", None), (99, "S", 1)],
    "t2": [],
    "t3": [*_CHANGED, (52, "U", 3), (62, "I", 2), (72, "D", 2), (72, "U", 8)],
    "u": [],
    "u3": [*_CHANGED, (52, "I", 9), (55, "T", None), (57, "I", 1), (62, "I", 2), (70, "T", None)],
    "w": [*_CHANGED, (52, "I", 9)],
    "p": [
        *((20, "I", 1), (22, "I", 5), (25, "I", 11), (40, "I", 3)),
        *((50, "I", 2), (50, "I", 5), (50, "P", 1), (50, "P", 3), (50, "P", 5), (52, "I", 1)),
    ],
    "q": [(22, "I", 2), (25, "I", 5), (50, "R", None), *((50, "S", key) for key in (1, 3, 5)), (52, "I", 4)],
    "x": [(22, "I", 1), (52, "I", 2)],
    "y": [(52, "I", 1)],
}
"""By table: (commit_ts, op, key), sorted."""


_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "history.md"
_STAYS = [(4, 4, 24), (5, None, 40), (6, 6, 41), (7, 7, 42)]
VERSIONS: dict[str, set[tuple[Any, ...]]] = {
    "t3": {
        *((1, 1, 21, 43), (1, 11, 43, None), (2, 2, 22, 44), (2, 22, 62, 72), (8, 22, 72, None)),
        *((3, 3, 23, 52), (3, 3, 52, None), *((*one, None) for one in _STAYS)),
    },
    "u3": {
        *((1, 1, 21, 43), (1, 11, 43, 55), (2, 2, 22, 44), (3, 3, 23, 55), *((*one, 55) for one in _STAYS)),
        *((9, 9, 52, 55), (1, 1, 57, 70), (2, 2, 62, 70)),
    },
    "t": {(1, 100, 82, 99), (1, 100, 99, None)},
    "q": {
        *((2, -2, 22, 50), (5, -5, 25, 50), (1, 1, 50, None), (3, 3, 50, None), (5, 5, 50, None)),
        (4, 4, 52, None),
    },
    "p": {
        *((1, 1, 20, 50), (5, 5, 22, 50), (11, 11, 25, None), (3, 3, 40, 50)),
        *((2, -2, 50, None), (5, -5, 50, None), (1, -1, 52, None)),
    },
}
"""The versions of the rows of the source: key, value, since when, until when."""


def read_again(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the table ``t`` in full once more, by a job that dies at each point on the way."""
    done = CliRunner().invoke(main, ["rebuild", str(job), "s.t", "--from", "topic"])
    assert done.exit_code == 0, done.output
    points = {"base", "gather", "history", "swap"}
    assert set(run_with_deaths(job, once_at(points, 2), monkeypatch)) == points


def check_versions(run: Callable[[str], Iterable[tuple[Any, ...]]]) -> None:
    """Compare what the page's view shows with the versions of the source. ``run``: the rows of a query."""
    (sql,) = re.findall(r"```sql\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for name, wanted in VERSIONS.items():
        asked = sql.replace("shop.orders_history", f"old.{name}").replace("c.total", "c.v")
        rows = list(run(asked))
        assert {(row[0], row[1], row[5], row[6]) for row in rows} == wanted, name
        assert len(rows) == len(wanted)
        assert all(bool(row[4]) == (row[6] is None) for row in rows)


def check(read: Callable[[str], Iterable[dict[str, Any]]]) -> None:
    """Compare histories with what they should be. ``read``: the rows of one by its name."""
    for name, wanted in HISTORIES.items():
        rows = list(read(name))
        found = [(int(row["_tidb_commit_ts"]), str(row["_tidb_op"]), row.get("id")) for row in rows]
        assert sorted(found, key=repr) == sorted(wanted, key=repr), name
        values = {(row["_tidb_commit_ts"], row.get("id")): row for row in rows if row["_tidb_op"] != "D"}
        if name == "w":
            assert (values[43, 1]["v_until_50"], values[43, 1]["v"], values[52, 9]["v"]) == (11, None, "nine")
        if name == "t3":
            assert (values[43, 1]["c"], values[52, 3]["c"], values[72, 8]["c"]) == (None, None, 2)
