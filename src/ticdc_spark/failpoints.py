"""Named points inside a step at which tests end the process with SIGKILL.

``TICDC_SPARK_KILL_AT=merge:2`` kills at the second pass of the point ``merge``. A point is after a commit and before
its successor: scan, advance, apply, progress (steps of a batch);

- write (files without a commit), append, merge, create, columns, intent, ddl, take (rows of another table), fill,
  aside, stamp, history (before its table)
- of full reads: base, gather, swap
- of repairs: repair (rows)
- of Iceberg: begun (before a commit of several tables), together (behind it)
- of a database: transaction (before COMMIT), committed (the state); of MySQL: statement (a DDL), recorded (a stamp)
- of a changefeed: save, saved, wave (tables), batch (a backlog).
"""

import os
import signal
import threading

ENVIRONMENT = "TICDC_SPARK_KILL_AT"
_passes: dict[str, int] = {}
_lock = threading.Lock()


def point(name: str) -> None:
    """Pass a point; does nothing unless the environment names it."""
    wanted = os.environ.get(ENVIRONMENT)
    if not wanted:
        return
    at, _, count = wanted.partition(":")
    with _lock:
        _passes[name] = _passes.get(name, 0) + 1
        if at == name and _passes[name] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)
