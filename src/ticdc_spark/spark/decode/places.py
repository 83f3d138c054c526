"""Which partition has the rows of each physical id.

Open and Simple send the physical id of a row's partition, and all rows of an id are in the same partition. So the ids
show if a partition expression is evaluated differently than at the source.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.ddl.partition_rows import ColumnTest, rows_by_partition
from ticdc_spark.model import Table, Value
from ticdc_spark.spark.types import LakeColumn, LakeOptions, arrow_type, to_arrow

Place: TypeAlias = tuple[int, str]
"""A physical id, and the name of a partition that has a row with it."""

_ROWS_FOR_ARROW = 64
"""With this many rows per id or more, Arrow is faster than Python row by row."""


class Places(Protocol):
    """Collects places in tasks."""

    def add(self, places: Any, /) -> Any:
        """Add a set of places."""

    @property
    def value(self) -> set[Place]:
        """All places, once the tasks are done."""


class Placing:
    """Finds the places of rows; each task has its own."""

    def __init__(
        self, table: Table, columns: Sequence[LakeColumn], lake: LakeOptions, known: Iterable[Place] = ()
    ) -> None:
        """``columns``: the columns into which rows are read. ``known``: places found before."""
        rows = rows_by_partition(table)
        at = {column.source.casefold(): number for number, column in enumerate(columns)}
        every = [test for either in rows.values() for tests in either for test in tests]
        used = {number: columns[number] for number in {at[test.column.casefold()] for test in every}}
        values = {number: _converted(column, lake, every) for number, column in used.items()}
        kinds = {number: arrow_type(column.type) for number, column in used.items()}
        self._last = dict(known)
        self._tests: dict[str, list[list[_Compiled]]] = {name: [] for name in rows}
        for name, either in rows.items():
            for tests in either:
                numbered = [(at[test.column.casefold()], test) for test in tests]
                compiled = [_Compiled(number, test, values[number], kinds[number]) for number, test in numbered]
                self._tests[name].append(compiled)

    def places(self, ids: pa.Array, arrays: Sequence[pa.Array]) -> set[Place]:
        """The places of rows. ``ids``: NULL for rows without one. ``arrays``: the values of each column."""
        numbers = pc.unique(pc.drop_null(ids)).to_pylist()
        if len(numbers) * _ROWS_FOR_ARROW > len(ids):
            rows = zip(*(array.to_pylist() for array in arrays), strict=True)
            found = {(one, self._name_of(one, row)) for one, row in zip(ids.to_pylist(), rows, strict=True)}
            return {(one, name) for one, name in found if name}
        return {place for number in numbers for place in self._places_of(number, ids, arrays)}

    def _places_of(self, number: int, ids: pa.Array, arrays: Sequence[pa.Array]) -> Iterator[Place]:
        mine = pc.fill_null(pc.equal(ids, number), False)
        rest = [array.filter(mine) for array in arrays]
        while len(rest[0]):
            name = self._name_of(number, [array[0].as_py() for array in rest])
            if name:
                yield number, name
                others = pc.invert(self._meets(name, rest))
                rest = [array.filter(others) for array in rest]
            else:
                rest = [array.slice(1) for array in rest]

    def _name_of(self, number: int | None, row: Sequence[Any]) -> str:
        """The partition of a row; ``""``: it cannot be computed, or the row has no id."""
        if number is None:
            return ""
        expected = self._last.get(number, "")
        if self._has(expected, row):
            return expected
        found = next((name for name in self._tests if self._has(name, row)), "")
        if found:
            self._last[number] = found
        return found

    def _has(self, name: str, row: Sequence[Any]) -> bool:
        for tests in self._tests.get(name, ()):
            for one in tests:
                if not one.is_met_by(row):
                    break
            else:
                return True
        return False

    def _meets(self, name: str, arrays: Sequence[pa.Array]) -> pa.Array:
        either = pa.array(np.zeros(len(arrays[0]), bool))
        for tests in self._tests[name]:
            every = pa.array(np.ones(len(arrays[0]), bool))
            for test in tests:
                every = pc.and_(every, test.meets(arrays))
            either = pc.or_(either, every)
        return either


def _converted(column: LakeColumn, lake: LakeOptions, tests: Iterable[ColumnTest]) -> dict[Value, Any]:
    """The bounds of a column as Python values of its Arrow type."""
    mine = (test for test in tests if test.column.casefold() == column.source.casefold())
    bounds = list(
        {bound for test in mine for bound in (test.at_least, test.below, *(test.any_of or ()), *test.none_of)}
    )
    return dict(zip(bounds, to_arrow(column, lake)(bounds)[0].to_pylist(), strict=True))


class _Compiled:
    """A test whose bounds are Python values."""

    def __init__(self, number: int, test: ColumnTest, values: Mapping[Value, Any], kind: pa.DataType) -> None:
        self._number, self._test, self._kind = number, test, kind
        self._least, self._below = values[test.at_least], values[test.below]
        self._any = None if test.any_of is None else frozenset(values[one] for one in test.any_of)
        self._none = frozenset(values[one] for one in test.none_of)

    def meets(self, arrays: Sequence[pa.Array]) -> pa.Array:
        array, test = arrays[self._number], self._test
        found = valid = pc.is_valid(array)
        compared = pc.utf8_rtrim(array, " ") if test.rtrim else array
        if self._least is not None:
            least = pc.greater_equal(array, pa.scalar(self._least, self._kind))
            found = pc.and_(found, pc.fill_null(least, False))
        if self._below is not None:
            below = pc.less(array, pa.scalar(self._below, self._kind))
            found = pc.and_(found, pc.fill_null(below, False))
        if self._any is not None:
            found = pc.and_(found, pc.is_in(compared, pa.array(self._any, self._kind)))
        if self._none:
            found = pc.and_not(found, pc.is_in(compared, pa.array(self._none, self._kind)))
        if test.remainder is not None:
            divisor, remainder = test.remainder
            numbers = pc.fill_null(array, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
            found = pc.and_(found, pa.array(np.abs(np.fmod(numbers, divisor)) == remainder))
        return pc.or_(found, pc.invert(valid)) if test.or_null else found

    def is_met_by(self, row: Sequence[Any]) -> bool:
        """Whether one row meets the test."""
        value, test = row[self._number], self._test
        if value is None:
            return test.or_null
        compared = value.rstrip(" ") if test.rtrim else value
        return (
            (self._least is None or value >= self._least)
            and (self._below is None or value < self._below)
            and (self._any is None or compared in self._any)
            and compared not in self._none
            and (test.remainder is None or abs(value) % test.remainder[0] == test.remainder[1])
        )
