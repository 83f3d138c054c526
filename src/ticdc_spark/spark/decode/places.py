"""In which partition the rows of each physical id lie. Vectorised in Arrow.

A protocol that sends the physical id of a row's partition (Open, Simple) tells so whether the partition expression is
evaluated as the source does it: all rows of one id lie in one partition.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.ddl.partition_rows import ColumnTest, NotComputed, rows_of
from ticdc_spark.model import Table
from ticdc_spark.spark.types import LakeColumn, LakeOptions, arrow_type, to_arrow

Place: TypeAlias = tuple[int, str]
"""A physical id, and the name of a partition in which a row of it lies."""


class Places(Protocol):
    """What collects places in tasks."""

    def add(self, places: Any, /) -> Any:
        """Add a set of them."""

    @property
    def value(self) -> set[Place]:
        """What was added, once the tasks are done."""


class Placing:
    """Finds the places of rows; one a task."""

    def __init__(self, table: Table, columns: Sequence[LakeColumn], lake: LakeOptions) -> None:
        """``columns``: those that rows are read into."""
        at = {column.source.casefold(): number for number, column in enumerate(columns)}
        self._tests: dict[str, list[list[_Compiled]]] = {}
        self._last: dict[int, str] = {}
        for one in table.partitioning.partitions if table.partitioning else ():
            rows = rows_of(table, [one.name])
            if isinstance(rows, NotComputed) or any(
                test.column.casefold() not in at for tests in rows for test in tests
            ):
                continue
            numbered = [[(at[test.column.casefold()], test) for test in tests] for tests in rows]
            self._tests[one.name] = [
                [_Compiled(number, columns[number], test, lake) for number, test in tests] for tests in numbered
            ]

    def places(self, ids: pa.Array, arrays: Sequence[pa.Array]) -> set[Place]:
        """``ids``: NULL where a row has none. ``arrays``: the values of each column."""
        found: set[Place] = set()
        for number in pc.unique(pc.drop_null(ids)).to_pylist():
            mine = pc.fill_null(pc.equal(ids, number), False)
            rest = [array.filter(mine) for array in arrays]
            while len(rest[0]):
                first = [array.slice(0, 1) for array in rest]
                names = dict.fromkeys([self._last.get(number, ""), *self._tests])
                name = next((one for one in names if one in self._tests and self._meets(one, first)[0].as_py()), "")
                if not name:
                    rest = [array.slice(1) for array in rest]
                    continue
                self._last[number] = name
                found.add((number, name))
                others = pc.invert(self._meets(name, rest))
                rest = [array.filter(others) for array in rest]
        return found

    def _meets(self, name: str, arrays: Sequence[pa.Array]) -> pa.Array:
        either = pa.array(np.zeros(len(arrays[0]), bool))
        for tests in self._tests[name]:
            every = pa.array(np.ones(len(arrays[0]), bool))
            for test in tests:
                every = pc.and_(every, test.meets(arrays))
            either = pc.or_(either, every)
        return either


class _Compiled:
    """A test with its bounds as Arrow has them."""

    def __init__(self, number: int, column: LakeColumn, test: ColumnTest, lake: LakeOptions) -> None:
        convert, kind = to_arrow(column, lake), arrow_type(column.type)
        self._number, self._test = number, test
        self._least, self._below = (convert([bound])[0][0] for bound in (test.at_least, test.below))
        self._any, self._none = (
            pa.array([], kind) if not values else convert(list(values))[0] for values in (test.any_of, test.none_of)
        )

    def meets(self, arrays: Sequence[pa.Array]) -> pa.Array:
        array, test = arrays[self._number], self._test
        found = valid = pc.is_valid(array)
        compared = pc.utf8_rtrim(array, " ") if test.rtrim else array
        if test.at_least is not None:
            found = pc.and_(found, pc.fill_null(pc.greater_equal(array, self._least), False))
        if test.below is not None:
            found = pc.and_(found, pc.fill_null(pc.less(array, self._below), False))
        if test.any_of is not None:
            found = pc.and_(found, pc.is_in(compared, self._any))
        if test.none_of:
            found = pc.and_not(found, pc.is_in(compared, self._none))
        if test.remainder is not None:
            divisor, remainder = test.remainder
            numbers = pc.fill_null(array, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
            found = pc.and_(found, pa.array(np.abs(np.fmod(numbers, divisor)) == remainder))
        return pc.or_(found, pc.invert(valid)) if test.or_null else found
