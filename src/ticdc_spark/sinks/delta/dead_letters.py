"""Dead letters in a Delta table for people. Needs no JVM."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ticdc_spark.sinks.dead_letters import DeadLetter
from ticdc_spark.sinks.delta.names import OURS, folder_of
from ticdc_spark.sinks.delta.python_tables import make_folder, open_table, plain, python_faults, read_rows

_ROW = ("topic", "partition", "offset", "seq")
_SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("stage", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("seq", pa.int32()),
        ("reason", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


class DeltaDeadLetters:
    """See ``sinks.dead_letters.DeadLetters``. The first letter creates the table."""

    def __init__(
        self, warehouse: str, job: str, options: Mapping[str, str], fence: Callable[[], None] = lambda: None
    ) -> None:
        """``options``: settings of the store. ``fence``: called before each commit."""
        self.where = f"{warehouse.rstrip('/')}/{OURS}/dead_letters_{folder_of(job)}"
        self._options, self._fence = dict(options), fence

    def keep(self, batch: int, stage: str, letters: Sequence[DeadLetter], at: float) -> None:
        from deltalake import write_deltalake

        moment = datetime.fromtimestamp(at, UTC)
        new = [
            {"batch": batch, "stage": stage, "reason": one.reason, "key": one.key, "value": one.value, "at": moment}
            | {name: getattr(one, name) for name in _ROW}
            for one in letters
        ]
        with python_faults(f"the dead letters {self.where} cannot be written"):
            table = open_table(self.where, self._options)
            mine = {tuple(one[name] for name in _ROW) for one in new}
            held = [] if table is None else read_rows(table)
            same_stage = [row for row in held if (row["batch"], row["stage"]) == (batch, stage)]
            new += [row for row in same_stage if tuple(row[name] for name in _ROW) not in mine]
            quoted = stage.replace("'", "''")
            self._fence()
            make_folder(self.where)
            rows, options = pa.Table.from_pylist(new, schema=_SCHEMA), self._options or None
            if table is None:
                write_deltalake(plain(self.where), rows, mode="error", storage_options=options)
            else:
                group = f"batch = {batch} AND stage = '{quoted}'"
                write_deltalake(table, rows, mode="overwrite", predicate=group, storage_options=options)

    def read(self) -> list[dict[str, Any]]:
        """All letters, ordered by topic, partition and offset. Raises: SinkFault"""
        with python_faults(f"the dead letters {self.where} cannot be read"):
            table = open_table(self.where, self._options)
            rows = [] if table is None else read_rows(table)
        return sorted(rows, key=lambda row: (*(row[name] for name in _ROW), row["batch"]))
