"""The comparison of one table: checksums wave by wave, the differing rows, and further looks at these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from random import Random

import msgspec

from ticdc_spark.verify.cells import Buckets, Key, Parts, Range, Ranges, chosen, ranges_of, size
from ticdc_spark.verify.columns import TablePlan
from ticdc_spark.verify.compare import Difference, Suspects, differences, find_suspects, single_differences, unequal
from ticdc_spark.verify.digests import Digest
from ticdc_spark.verify.options import Options, Watcher
from ticdc_spark.verify.repair import with_keys
from ticdc_spark.verify.report import (
    Kept,
    TableReport,
    fingerprint,
    name_text,
    read_key,
    selection_of,
    shown,
    write_keys,
)
from ticdc_spark.verify.settle import Settled
from ticdc_spark.verify.sides import Side, Source

_WAVE = 64
"""Parts between two saves."""
_MOST_BUCKETS = 1 << 16
_BUCKET_ROWS = 2_000
"""About this many rows are in a bucket."""
_GROUP_ROWS = 4_000_000
"""The checksums of about this many rows are in memory at once."""
_FEW = 20
"""If at most one of so many rows differs, single rows are read, not their parts."""
_MOST_SUSPECTS = 100_000
"""Largest number of kept rows to look at again. With more, the search pauses to look at them."""


class Both(msgspec.Struct, frozen=True, kw_only=True):
    """The two sides of a table, and how rows are looked at again."""

    source: Source
    target: Side
    commit_ts: int
    """The commit_ts of the target."""
    snapshot: int | None
    """The snapshot of the target; ``None``: it has none."""
    rows: int
    """The approximate number of rows."""
    settle: Callable[[Collection[Key]], Settled] | None
    """``None``: a difference counts at once."""
    beside: Executor
    """Reads the source while the target is read."""


class Comparison:
    """The comparison of one table and its progress."""

    def __init__(self, plan: TablePlan, both: Both, options: Options, keep: Callable[[Kept], None]) -> None:
        """``keep``: saves the progress."""
        self._plan, self._both, self._options, self._save = plan, both, options, keep
        self._name = name_text(plan.name)
        self._spared = False

    def run(self, kept: Kept | None, watcher: Watcher) -> TableReport:
        """Compare the table. ``kept``: from an earlier run. Raises: Altered, SourceFault, SinkFault"""
        kept = self._keep(self._begun(kept))
        parts = chosen(kept.selection, kept.chosen)
        report = kept.report or self._blank(kept)
        waiting = {read_key(one) for one in kept.suspects}
        # Each look at buckets reads the whole table.
        step = size(parts) if isinstance(parts, Buckets) else _WAVE
        while kept.done < size(parts) and not report.at_least:
            wave = range(kept.done, min(kept.done + step, size(parts)))
            known = [kept.digests[at] for at in wave if kept.digests]
            report, unlike = self._wave(chosen(parts, wave), known, report)
            for group, rows in unlike:
                report, new = self._searched(group, rows, report)
                waiting |= new
                if len(waiting) > _MOST_SUSPECTS:
                    report, waiting = self._settled(report, waiting, watcher), set()
            kept = self._keep(
                msgspec.structs.replace(kept, done=wave.stop, suspects=write_keys([*waiting]), report=report)
            )
            watcher.parts(self._name, kept.done, size(parts))
        report = self._settled(report, waiting, watcher)
        self._keep(msgspec.structs.replace(kept, done=0, suspects=(), report=None))
        result = "different" if report.differences else "undecided" if report.undecided else "equal"
        return msgspec.structs.replace(report, result=result)

    def _begun(self, kept: Kept | None) -> Kept:
        """The parts to compare, and the target's checksums of them, if these can be kept."""
        snapshot, print_ = self._both.snapshot, fingerprint(self._plan)
        if kept is None or kept.plan != print_:
            parts = self._parts()
            bounds, buckets = selection_of(parts)
            kept = Kept(plan=print_, bounds=bounds, buckets=buckets)
        if not kept.done:
            places = sampled(size(kept.selection), self._options.sample)
            same = places == kept.chosen
            kept = msgspec.structs.replace(kept, chosen=places, digests=kept.digests if same else ())
        self._spared = snapshot is not None and kept.snapshot == snapshot and bool(kept.digests)
        if snapshot is None or self._spared:
            return kept
        found = self._both.target.digests(chosen(kept.selection, kept.chosen))
        return msgspec.structs.replace(kept, snapshot=snapshot, digests=tuple(found))

    def _parts(self) -> Parts:
        if self._plan.has_ranges:
            return ranges_of(self._both.source.bounds(self._options.chunk_rows))
        count = max(1, min(_MOST_BUCKETS, self._both.rows // _BUCKET_ROWS))
        return Buckets(count, tuple(range(count)))

    def _keep(self, kept: Kept) -> Kept:
        self._save(kept)
        return kept

    def _blank(self, kept: Kept) -> TableReport:
        return TableReport(
            table=self._name,
            target=name_text(self._plan.target),
            result="equal",
            condition="",
            commit_ts=self._both.commit_ts,
            parts=size(kept.selection),
            target_read_again=not self._spared,
            columns_not_compared=self._plan.skipped,
        )

    def _wave(
        self, parts: Parts, known: Sequence[Digest], report: TableReport
    ) -> tuple[TableReport, list[tuple[Parts, int]]]:
        """Compare some parts. Returns: the parts that differ, in groups, each with its approximate rows. ``known``: the
        target's checksums; empty: they are computed."""
        source, target = self._both.source, self._both.target
        coming = self._both.beside.submit(source.digests, parts)
        there = known or target.digests(parts)
        here = coming.result()
        unlike = unequal(here, there)
        sizes = [max(here[at].rows, there[at].rows) for at in unlike]
        report = msgspec.structs.replace(
            report,
            rows_source=report.rows_source + sum(one.rows for one in here),
            rows_target=report.rows_target + sum(one.rows for one in there),
            parts_compared=report.parts_compared + size(parts),
            parts_differing=report.parts_differing + len(unlike),
        )
        return report, grouped(chosen(parts, unlike), sizes)

    def _searched(self, parts: Parts, rows: int, report: TableReport) -> tuple[TableReport, set[Key]]:
        """Find the rows of some parts that differ. Returns: the report with them, or the keys of rows that may still
        become equal."""
        source, target, live = self._both.source, self._both.target, self._both.settle is not None
        few = self._suspects(parts, rows // _FEW)
        unlike = None if few is None else single_differences(self._plan, source, target, few, live=live)
        if unlike is None:
            unlike = differences(self._plan, source, target, parts)
        return (report, {one.key for one in unlike}) if live else (self._noted(report, unlike), set())

    def _suspects(self, parts: Parts, most: int) -> Suspects | None:
        coming = self._both.beside.submit(lambda: [*self._both.source.checksums(parts)])
        there = [*self._both.target.checksums(parts)]
        return find_suspects(self._plan, coming.result(), there, most)

    def _settled(self, report: TableReport, suspects: Collection[Key], watcher: Watcher) -> TableReport:
        """The report with the result for rows that may not have been applied yet."""
        if not suspects:
            return report
        assert self._both.settle is not None, "there are some"
        watcher.looks(self._name, len(suspects))
        settled = self._both.settle(suspects)
        undecided = report.undecided + len(settled.undecided)
        return self._noted(
            msgspec.structs.replace(report, undecided=undecided, why=settled.why or report.why), settled.differences
        )

    def _noted(self, report: TableReport, found: Collection[Difference]) -> TableReport:
        room, count = self._options.limit - len(report.found), report.differences + len(found)
        more = tuple(shown(self._plan, one) for one in [*found][: max(0, room)])
        return msgspec.structs.replace(
            with_keys(report, self._plan, [*found]),
            differences=count,
            found=(*report.found, *more),
            at_least=count >= self._options.limit and report.parts_compared < report.parts,
        )


def grouped(parts: Parts, sizes: Sequence[int]) -> list[tuple[Parts, int]]:
    """Parts in groups, each with the number of its rows. ``sizes``: the rows of each part."""
    if isinstance(parts, Buckets):  # each group would read the whole table
        return [(parts, sum(sizes))] if sizes else []
    found, group, rows = list[tuple[Parts, int]](), list[Range](), 0
    for one, size_ in zip(parts.of, sizes, strict=True):
        if group and rows + size_ > _GROUP_ROWS:
            found.append((Ranges(tuple(group)), rows))
            group, rows = [], 0
        group.append(one)
        rows += size_
    return [*found, (Ranges(tuple(group)), rows)] if group else found


def sampled(count: int, percent: float | None) -> tuple[int, ...]:
    """The positions of the parts to compare: all, or a random sample of at least one."""
    if percent is None:
        return tuple(range(count))
    return tuple(sorted(Random().sample(range(count), max(1, min(count, round(count * percent / 100))))))
