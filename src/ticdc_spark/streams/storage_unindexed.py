"""Files of a storage sink that no index names although their rows are below the checkpoint.

TiCDC writes a file with rows, then its index, then the checkpoint (the older architecture: the index first). So rows
below a checkpoint that was read before the files are in files that an index names. A file without an index is:

- one that TiCDC writes at this moment: its rows are above that checkpoint;
- what a crash left behind: its rows were sent again, and an index names the file that has them;
- part of an incomplete copy of the folder.

The last two differ for certain only if no index names any file of the table.
"""

import logging
from collections.abc import Mapping, Sequence

from ticdc_spark.errors import SourceFault
from ticdc_spark.streams.storage_messages import Form
from ticdc_spark.topics.storage.files import Files
from ticdc_spark.topics.storage.layout import DataName
from ticdc_spark.topics.storage.ledger import Ledger

log = logging.getLogger(__name__)
_NAMED = 5
"""Most files that a sentence names."""


def some_of(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


class Unindexed:
    """Remembers which files have no index."""

    def __init__(self, files: Files, form: Form) -> None:
        self._files, self._form = files, form
        self._first: dict[tuple[str, int], int] = {}
        """The first commitTs of a file, by path and size."""
        self._found: frozenset[str] = frozenset()

    def look(
        self, ledger: Ledger, data: Sequence[DataName], complete: Mapping[tuple[str, str], int], checkpoint: int
    ) -> None:
        """Find the files. ``ledger``: from before this look; ``checkpoint``: read before the files were listed.

        Raises: SourceFault for a table that has no other files; UsageError as ``Form.count``
        """
        last = {**{(folder, name): number for folder, name, number in ledger.numbers}, **complete}
        loose = [one for one in data if one.number > last.get(one.sequence, 0)]
        below = [one for one in loose if 0 < self._first_commit_ts(one) <= checkpoint]
        known = {folder for folder, _, _ in ledger.numbers}
        if ledger.checkpoint:  # the job may have read the table in folders that are no longer listed
            known |= {f"{root}/" for root, _ in ledger.versions}
        named = {one.folder.root for one in data if complete.get(one.sequence)}
        for one in below:
            root = one.folder.root
            if root not in named and not any(folder.startswith(f"{root}/") for folder in known):
                raise SourceFault(
                    f"{self._files.where}/{one.path} has rows below the checkpoint {checkpoint}, and no "
                    "meta/CDC.index names a file of its table: the folder is incomplete. If it is a copy, also copy "
                    "its `meta` folders"
                )
        loose_paths = {one.path for one in loose}
        gone_on = {one.path for one in data} - loose_paths
        found = frozenset(one.path for one in below) | (self._found - gone_on)
        if found - self._found:
            self._found = found
            log.warning("%s: %s", self._files.where, self.told())
        self._found = found
        self._first = {key: at for key, at in self._first.items() if key[0] in loose_paths}

    def told(self) -> str:
        """A sentence about the files; ``""``: there are none."""
        if not self._found:
            return ""
        return (
            f"files with rows below the checkpoint that no meta/CDC.index names are not read: {len(self._found)} "
            f"({some_of(sorted(self._found))}). After a crash, TiCDC sends their rows again. If it did not crash, "
            "or the folder is a copy, rows are missing"
        )

    def _first_commit_ts(self, one: DataName) -> int:
        """0: it cannot be read, as the file may not be complete."""
        key = (one.path, one.size)
        if key not in self._first:
            (content,) = self._files.find([one.path])
            found = self._form.first_commit_ts(f"{self._files.where}/{one.path}", content or b"")
            if not found:
                return 0
            self._first[key] = found
        return self._first[key]
