"""The state of a job in MySQL: rows that a commit replaces together with the waiting changes of its tables."""

import threading
from collections.abc import Sequence
from uuid import uuid4

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.mysql.client import NOT_THERE, OURS, Client, code_of
from ticdc_spark.sinks.mysql.pending import Change, Pending, bring_in
from ticdc_spark.sinks.state import NOTHING, Parts, StateMoved, StateRow, StoredState, changed_rows, read_parts

_COLUMNS = "`kind`, `db`, `name`, `resolved_ts`, `snapshot_id`, `condition`, `value`"
_VERSION = f"SELECT `version`, `resolved_ts`, `parts` FROM `{OURS}`.`states` WHERE `job` = %s"


class MysqlState:
    """See ``StateStore``. Only the newest state is kept."""

    def __init__(self, client: Client, job: str) -> None:
        self.client, self.job = client, job
        self.where = f"the database {OURS} at {client.where}"
        self.pause = 1.0
        self.waiting: Pending | None = None
        """The changes that the next commit includes."""
        self._lock = threading.Lock()
        self._read = NOTHING

    def version(self) -> str | None:
        found = self.client.ask(_VERSION, self.job)
        return found[0][0] or None if found else None

    def load(self) -> StoredState:
        try:
            with self._lock, self.client.connection() as connection, connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                cursor.execute(_VERSION, (self.job,))
                found = cursor.fetchone()
                if found is not None and found[0] and found[0] != self._read.version:
                    cursor.execute(
                        f"SELECT `part`, {_COLUMNS} FROM `{OURS}`.`state_rows` WHERE `job` = %s ORDER BY `part`, `seq`",
                        (self.job,),
                    )
                    self._read = StoredState(version=found[0], parts=read_parts(found[2], cursor.fetchall()))
                connection.commit()
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
            self.client.run(f"INSERT IGNORE INTO `{OURS}`.`states` VALUES (%s, '', 0, '[]')", self.job)
        made, changes = uuid4().hex, [] if self.waiting is None else self.waiting.of()
        try:
            with self._lock:
                self._commit(parts, expected, resolved_ts, made, changes)
        except StateMoved:
            raise  # the caller tries again on top of the other process's commit
        except BaseException:
            self.waiting = None
            raise
        failpoints.point("committed")
        if self.waiting is not None:
            self.waiting.remove(changes)
            self.waiting = None
            for place in [place for change in changes for place in change.staged]:
                self.client.run(f"DROP TABLE IF EXISTS {place}")
        return made

    def _commit(
        self, parts: Parts, expected: str | None, resolved_ts: int, made: str, changes: Sequence[Change]
    ) -> None:
        with self.client.transaction() as cursor:
            cursor.execute(f"{_VERSION} FOR UPDATE", (self.job,))
            found = cursor.fetchone()
            if found is None or (found[0] or None) != expected:
                raise StateMoved
            bring_in(cursor, changes)
            known = self._read.parts if self._read.version == expected else {}
            for name, rows in parts.items():
                self._put(cursor, name, rows, known.get(name))
            names = sorted({*msgspec.json.decode(found[2], type=list[str]), *parts})
            cursor.execute(
                f"UPDATE `{OURS}`.`states` SET `version` = %s, `resolved_ts` = %s, `parts` = %s WHERE `job` = %s",
                (made, resolved_ts, msgspec.json.encode(names).decode(), self.job),
            )
            failpoints.point("transaction")
        if self._read.version == expected:
            self._read = StoredState(version=made, parts={**self._read.parts, **parts})

    def _put(self, cursor: object, part: str, rows: Sequence[StateRow], known: Sequence[StateRow] | None) -> None:
        """Write the changed rows of a part. ``known``: the stored rows; ``None``: unknown."""
        run, many = cursor.execute, cursor.executemany  # type: ignore[attr-defined]
        last = 0 if known is None else len(rows)
        run(
            f"DELETE FROM `{OURS}`.`state_rows` WHERE `job` = %s AND `part` = %s AND `seq` >= %s",
            (self.job, part, last),
        )
        values = [
            (
                *(self.job, part, at, row.kind, row.schema, row.table),
                *(row.resolved_ts, row.snapshot_id, row.condition, row.value),
            )
            for at, row in changed_rows(rows, known)
        ]
        if values:
            marks = ", ".join(["%s"] * 10)
            many(f"REPLACE INTO `{OURS}`.`state_rows` VALUES ({marks})", values)

    def beat(self, heartbeat: bytes) -> None:
        if self.version() is not None:
            self.client.run(f"REPLACE INTO `{OURS}`.`heartbeats` VALUES (%s, %s)", self.job, heartbeat)

    def heartbeat(self) -> bytes | None:
        found = self.client.ask(f"SELECT `beat` FROM `{OURS}`.`heartbeats` WHERE `job` = %s", self.job)
        return found[0][0] if found else None

    def close(self) -> None:
        self.client.close()
