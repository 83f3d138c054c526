"""Commits of Iceberg's transactions, each sent once; afterwards the table shows whether the catalog has it.

``Transaction.commitTransaction`` sends a commit again after a refusal, and deletes its files if it is refused in the
end. But a catalog may get a request twice: a proxy sends it again, and so does the JDBC client after a lost connection.
The catalog takes the first request and refuses the second. Iceberg then deletes files that the table needs, and no
engine can read it. Here files stay, whatever the catalog responds.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError

from ticdc_spark.config.routes import shown
from ticdc_spark.model import TableName
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog

log = logging.getLogger(__name__)
REFUSED = "CommitFailedException"
_PLAIN = "BaseTransaction"
"""Not a transaction that creates a table and tells a cache about it (option ``cache-enabled``)."""
_TRIES = 4
"""Attempts of a commit that lost a race against another writer."""
_PAUSE_S = 0.1
"""Seconds between two attempts; they get longer each time."""


def commit_or_retry(catalog: IcebergCatalog, table: TableName, begin: Callable[[], Any]) -> Any:
    """Commit a transaction, and begin it again if another writer was faster. Returns: the committed transaction

    ``begin``: makes the transaction from the current state of the table, and checks that the job may still commit.
    Raises: as ``commit``; what ``begin`` raises
    """
    for left in reversed(range(_TRIES)):
        transaction = begin()
        try:
            commit(catalog, table, transaction)
        except Py4JJavaError as error:
            if not left or not is_refused(error):
                raise
            catalog.conflicts.add(table)
            time.sleep(_PAUSE_S * (_TRIES - left))
        else:
            return transaction
    raise AssertionError("the last attempt returns or raises")


def commit(catalog: IcebergCatalog, table: TableName, transaction: Any) -> None:
    """Commit a transaction of Iceberg's Java API that starts from the current state of a table.

    Raises: Py4JJavaError if the catalog did not confirm it and the table does not have it; ``is_refused`` is true for
    it if another writer was faster
    """
    if str(transaction.getClass().getSimpleName()) != _PLAIN:
        transaction.commitTransaction()
        return
    made = _snapshot_id(transaction)
    if made is None:
        # A REST catalog only compares snapshots: the properties of a former owner would win.
        transaction.commitTransaction()
        return
    try:
        transaction.underlyingOps().commit(transaction.startMetadata(), transaction.currentMetadata())
    except Py4JJavaError as error:
        loaded = catalog.find_table(table)
        if loaded is None or loaded.snapshot(made) is None:
            raise
        log.warning("the catalog has committed %s but did not confirm it: %s", shown(table), error.java_exception)


def is_refused(error: Py4JJavaError) -> bool:
    """Whether a catalog refused a commit because another writer was faster."""
    return str(error.java_exception.getClass().getSimpleName()) == REFUSED


def _snapshot_id(transaction: Any) -> int | None:
    """The newest snapshot that a transaction makes; ``None``: it makes none."""
    start, made = transaction.startMetadata(), transaction.currentMetadata().snapshots()
    before = 0 if start is None else len(start.snapshots())
    return int(made[len(made) - 1].snapshotId()) if len(made) > before else None
