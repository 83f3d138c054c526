"""The state of a job in PostgreSQL: rows that a commit replaces in the transaction that has written the tables."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.postgres.client import NOT_THERE, OURS, Client, code_of
from ticdc_spark.sinks.state import NOTHING, Parts, StateMoved, StateRow, StoredState, changed_rows, read_parts

if TYPE_CHECKING:
    from ticdc_spark.sinks.postgres.work import Work

_COLUMNS = "kind, db, name, resolved_ts, snapshot_id, condition, value"
_VERSION = f"SELECT version, resolved_ts, parts FROM {OURS}.states WHERE job = $1"


class PostgresState:
    """See ``StateStore``. Only the newest state is kept."""

    def __init__(self, client: Client, job: str) -> None:
        self.client, self.job = client, job
        self.where = f"the schema {OURS} at {client.where}"
        self.pause = 1.0
        self.waiting: Work | None = None
        """The work that the next commit includes."""
        self._lock = threading.Lock()
        self._read = NOTHING

    def version(self) -> str | None:
        found = self.client.ask(_VERSION, self.job)
        return found[0][0] or None if found else None

    def load(self) -> StoredState:
        try:
            with self._lock, self.client.connection() as connection, connection.cursor() as cursor:
                cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                cursor.execute(_VERSION, (self.job,))
                found = cursor.fetchone()
                if found is not None and found[0] and found[0] != self._read.version:
                    cursor.execute(
                        f"SELECT part, {_COLUMNS} FROM {OURS}.state_rows WHERE job = $1 ORDER BY part, seq", (self.job,)
                    )
                    self._read = StoredState(version=found[0], parts=read_parts(found[2], cursor.fetchall()))
                cursor.execute("COMMIT")
                return self._read if found is not None and found[0] else NOTHING
        except SinkFault as fault:
            if code_of(fault) in NOT_THERE:
                return NOTHING
            raise

    def as_of(self, resolved_ts: int) -> StoredState:
        found = self.client.ask(_VERSION, self.job)
        return self.load() if found and 0 < found[0][1] <= resolved_ts else NOTHING

    def commit(self, parts: Parts, expected: str | None, resolved_ts: int) -> str:
        """See ``StateStore``. The tables are at ``resolved_ts``, too: the same commit includes their waiting
        changes."""
        self.client.prepare()
        if expected is None:
            sql = f"INSERT INTO {OURS}.states VALUES ($1, '', 0, '[]') ON CONFLICT (job) DO NOTHING"
            self.client.run(sql, self.job)
        made, work = uuid4().hex, self.waiting
        with self._lock:
            if work is None:
                with self.client.transaction() as cursor:
                    self._write(cursor, parts, expected, (made, resolved_ts))
            else:
                try:
                    with work.step() as cursor:
                        self._write(cursor, parts, expected, (made, resolved_ts))
                    work.commit()
                except StateMoved:
                    raise  # the caller tries again on top of the other process's commit
                except BaseException:
                    self.waiting = None
                    work.give_up()
                    raise
            if self._read.version == expected:
                self._read = StoredState(version=made, parts={**self._read.parts, **parts})
        self.waiting = None
        failpoints.point("committed")
        return made

    def _write(self, cursor: Any, parts: Parts, expected: str | None, new: tuple[str, int]) -> None:
        """``new``: the version and the resolved ts."""
        cursor.execute(f"{_VERSION} FOR UPDATE", (self.job,))
        found = cursor.fetchone()
        if found is None or (found[0] or None) != expected:
            raise StateMoved
        known = self._read.parts if self._read.version == expected else {}
        for name, rows in parts.items():
            self._put(cursor, name, rows, known.get(name))
        names = sorted({*msgspec.json.decode(found[2], type=list[str]), *parts})
        cursor.execute(
            f"UPDATE {OURS}.states SET version = $2, resolved_ts = $3, parts = $4 WHERE job = $1",
            (self.job, *new, msgspec.json.encode(names).decode()),
        )

    def _put(self, cursor: Any, part: str, rows: Sequence[StateRow], known: Sequence[StateRow] | None) -> None:
        """Write the changed rows of a part. ``known``: the stored rows; ``None``: unknown."""
        last = 0 if known is None else len(rows)
        cursor.execute(
            f"DELETE FROM {OURS}.state_rows WHERE job = $1 AND part = $2 AND seq >= $3", (self.job, part, last)
        )
        values = [
            (
                *(self.job, part, at, row.kind, row.schema, row.table),
                *(row.resolved_ts, row.snapshot_id, row.condition, row.value),
            )
            for at, row in changed_rows(rows, known)
        ]
        if values:
            new = ", ".join(f"{name} = EXCLUDED.{name}" for name in _COLUMNS.split(", "))
            cursor.executemany(
                f"INSERT INTO {OURS}.state_rows (job, part, seq, {_COLUMNS}) VALUES "
                f"($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (job, part, seq) DO UPDATE SET {new}",
                values,
            )

    def beat(self, heartbeat: bytes) -> None:
        if self.version() is not None:
            self.client.run(
                f"INSERT INTO {OURS}.heartbeats VALUES ($1, $2) ON CONFLICT (job) DO UPDATE SET beat = EXCLUDED.beat",
                self.job,
                heartbeat,
            )

    def heartbeat(self) -> bytes | None:
        found = self.client.ask(f"SELECT beat FROM {OURS}.heartbeats WHERE job = $1", self.job)
        return found[0][0] if found else None

    def close(self) -> None:
        self.client.close()
