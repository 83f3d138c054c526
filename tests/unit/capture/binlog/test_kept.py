"""How much binlog the server keeps around a position."""

from __future__ import annotations

from typing import Any

import pytest

from ticdc_spark.capture.binlog import kept
from ticdc_spark.capture.binlog.kept import Kept, around, ask_kept
from ticdc_spark.capture.binlog.position import Place, Position
from ticdc_spark.capture.binlog.uri import parse_uri
from ticdc_spark.errors import SourceFault, UsageError

FILES = {"log.000008": 100, "log.000009": 200, "log.000010": 50}
HERE = Position(server="7 abc", place=Place("log.000009", 150))
MARIADB = {"version": "11.4.2-MariaDB", "server_id": "7", "server_uid": "abc", "binlog_expire_logs_seconds": "3600"}


@pytest.mark.parametrize(
    ("file", "offset", "found"),
    [
        ("log.000009", 150, (250, 100)),
        ("log.000008", 4, (4, 346)),
        ("log.000010", 50, (350, 0)),
        ("log.000007", 90, (0, 350)),  # purged
        ("log.000011", 4, (None, None)),  # reset
        ("log.000010", 51, (None, None)),
    ],
)
def test_bytes_are_counted_before_and_behind_a_place(
    file: str, offset: int, found: tuple[int | None, int | None]
) -> None:
    assert around(Place(file, offset), FILES) == found


class Asked:
    """A connection with variables, and files or an error."""

    def __init__(self, variables: dict[str, str], files: dict[str, int] | Exception) -> None:
        self._variables, self._files = variables, files

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def variables(self, names: list[str]) -> dict[str, str]:
        return {name: self._variables[name] for name in names if name in self._variables}

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        assert sql == "SHOW BINARY LOGS"
        if isinstance(self._files, Exception):
            raise self._files
        return [(name, str(size), "No") for name, size in self._files.items()]


@pytest.mark.parametrize(
    ("variables", "files", "position", "found"),
    [
        (MARIADB, FILES, HERE, Kept(older=250, newer=100, seconds=3600)),
        (MARIADB, UsageError("denied"), HERE, Kept(seconds=3600)),
        (MARIADB, SourceFault("it is off"), HERE, Kept(seconds=3600)),
        ({**MARIADB, "server_uid": "other"}, FILES, HERE, Kept(seconds=3600)),
        ({**MARIADB, "binlog_expire_logs_seconds": "0", "expire_logs_days": "2"}, {}, HERE, Kept(seconds=172_800)),
        ({**MARIADB, "binlog_expire_logs_seconds": "0"}, {}, HERE, Kept()),
        (
            {"version": "8.4.3", "server_id": "7", "server_uuid": "u-1", "binlog_expire_logs_seconds": "60"},
            FILES,
            Position(server="u-1", place=Place("log.000010", 9), since=Place("log.000008", 60)),
            Kept(older=60, newer=290),
        ),
        (
            {"version": "8.4.3", "server_id": "7", "server_uuid": "u-1", "binlog_expire_logs_seconds": "60"},
            FILES,
            Position(server="u-1", place=Place("log.000010", 9)),
            Kept(older=309, newer=41, seconds=60),
        ),
    ],
)
def test_what_the_server_does_not_tell_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    files: dict[str, int] | Exception,
    position: Position,
    found: Kept,
) -> None:
    monkeypatch.setattr(kept, "Connection", lambda _: Asked(variables, files))
    assert ask_kept(parse_uri("mysql://root@nowhere"), position) == found
