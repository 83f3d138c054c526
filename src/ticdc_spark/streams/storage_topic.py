"""A storage sink as one partition of messages: the base of a job's source, without Spark."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import islice
from pathlib import Path

import msgspec

from ticdc_spark.errors import MessageError, SourceChanged, SourceFault, UsageError
from ticdc_spark.model import Message, Offsets
from ticdc_spark.streams.storage_messages import CSV, Form
from ticdc_spark.streams.storage_unindexed import Unindexed, some_of
from ticdc_spark.topics.storage.csv_lines import CsvFormat
from ticdc_spark.topics.storage.files import Files, LocalFiles
from ticdc_spark.topics.storage.layout import METADATA, DataName, Walked, data_in, indexed, key_of, walk
from ticdc_spark.topics.storage.ledger import (
    PLACE,
    Entry,
    Ledger,
    Most,
    date_of,
    day_of,
    needed,
    new_files,
    with_checkpoint,
    with_cut,
    with_descriptions,
    within,
)
from ticdc_spark.topics.storage.other_files import checkpoint_file, described_only, read_checkpoint

_LOOK_AGAIN_SECONDS = 1.0
MOST_FILES = 20_000
"""The most files that are taken and not read yet. The rest is taken when these are read."""
MOST_BYTES = 4 << 30
_KEPT_BYTES = 32 << 20
"""The most bytes of cached files that were counted and will be read soon."""
_WAYS_OUT = (
    "What they held is lost: begin again with an empty target (a job with another `name`, a query with another "
    "checkpoint), and a new changefeed with an empty folder. Keep files longer (file-expiration-days, rules of the "
    "bucket)"
)
ANY = 0
"""The count of an entry whose messages were not counted."""
_ENTRIES = msgspec.json.Decoder(Ledger)


class StorageTopic:
    """Lists the files of a storage sink, and reads them. Looks at most every ``every`` seconds."""

    def __init__(
        self, files: Files, form: Form, *, every: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.files, self.form = files, form
        self.ledger = Ledger()
        self._every, self._clock = every, clock
        self._looked_at: float | None = None
        self._kept: dict[str, bytes] = {}
        self._unindexed = Unindexed(files, form)
        self._unwritten: tuple[str, ...] = ()
        """Files that an index names last, and that are missing or empty."""
        self.has_more = False
        """Whether the last look left files for the next one."""

    def recall(self, memory: str) -> None:
        """See ``Source.recall``."""
        self.ledger = _ENTRIES.decode(memory) if memory else Ledger()
        self._looked_at, self._kept, self.has_more = None, {}, False

    def memory(self, offsets: Offsets, stretches: Iterable[tuple[int, int]]) -> str:
        """See ``Source.memory``."""
        self.ledger = needed(self.ledger, offsets.get(PLACE, 0), stretches)
        return msgspec.json.encode(self.ledger).decode()

    def skip_all(self) -> int:
        """Treat all present files as read, except the tables' schemas. Returns: the offset where a job begins"""
        while not self.look(force=True, skips=True):
            self.ledger = needed(self.ledger, self.ledger.end, ())
        self.ledger = needed(self.ledger, self.ledger.end, ())
        begin = self.ledger.end
        schemas = walk(self.files, self.ledger.since).schemas
        newest = {one.root: one.path for one in schemas if one.version <= dict(self.ledger.versions).get(one.root, 0)}
        self.ledger = with_descriptions(self.ledger, sorted(newest.values()))
        return begin

    def take_all(self) -> None:
        """Take all present files. Raises: as ``look``"""
        while not self.look(force=True):
            continue

    def take_schemas(self) -> None:
        """Take only the schema files, as if there were no others. Raises: SourceFault, UsageError"""
        schemas = self._walk("").schemas
        cut = new_files(self.ledger, schemas, (), {}, Most(len(schemas), MOST_BYTES))
        self.ledger = with_cut(self.ledger, cut, dict.fromkeys((one.path for one in schemas), 1), {})

    def look(self, *, force: bool = False, skips: bool = False) -> bool:
        """Take new files. ``skips``: they will not be read. Returns: whether all present files were taken

        Raises: SourceFault; SourceChanged for files that were removed before they were taken
        """
        now = self._clock()
        if not force and self._has_enough():
            return not self.has_more
        if not force and not self.has_more and self._looked_at is not None and now - self._looked_at < self._every:
            return True
        checkpoint = self._checkpoint()  # Everything below it is already in files.
        found = self._walk(self.ledger.since)
        if not skips:
            self._stop_if_old(found)
        found, complete = self._complete(found)
        _stop_if_removed(self.files.where, self.ledger, found, complete, checkpoint)
        self._unindexed.look(self.ledger, found.data, complete, checkpoint)
        cut = new_files(self.ledger, found.schemas, found.data, complete, Most(MOST_FILES, MOST_BYTES))
        counts = self._counts([one.path for one in cut.schemas], cut.data)
        of_version = {} if self.form.csv is None else {(at.root, at.version): at.path for at in reversed(found.schemas)}
        ledger = with_cut(self.ledger, cut, counts, of_version)
        if cut.is_all and checkpoint > ledger.checkpoint:
            ledger = with_checkpoint(ledger, checkpoint)
        self.ledger, self._looked_at, self.has_more = ledger, now, not cut.is_all
        return cut.is_all

    def _has_enough(self) -> bool:
        """Whether many files were taken and not read yet."""
        unread = [entry for entry in self.ledger.entries if entry.end > self.ledger.read]
        return len(unread) >= MOST_FILES or sum(entry.size for entry in unread) >= MOST_BYTES

    def _complete(self, found: Walked) -> tuple[Walked, dict[tuple[str, str], int]]:
        """The files, with ones that arrived meanwhile, and the last complete file of each sequence with new files."""
        numbers = {(folder, name): last for folder, name, last in self.ledger.numbers}
        complete = indexed(self.files, [one for one in found.data if one.number > numbers.get(one.sequence, 0)])
        last = {one.sequence: one.number for one in found.data}
        newer = {
            one.folder.path: one.folder for one in found.data if complete.get(one.sequence, 0) > last[one.sequence]
        }
        listed = self.files.look_into(list(newer))
        more = [one for folder, names in zip(newer.values(), listed, strict=True) for one in data_in(folder, names)]
        rest = [one for one in found.data if one.folder.path not in newer]
        data = tuple(sorted((*rest, *more), key=lambda one: (one.sequence, one.number)))
        return msgspec.structs.replace(found, data=data), self._written(data, complete)

    def _written(self, data: Sequence[DataName], complete: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """The last complete file of each sequence, without a last one that is missing or empty.

        TiCDC's older architecture writes the index before the file. If it dies in between, it uses the number again, or
        goes on in another folder. The checkpoint is below the rows of such a file.
        """
        whole = {(one.sequence, one.number) for one in data if one.size}
        taken = {(folder, name): last for folder, name, last in self.ledger.numbers}
        missing = {at for at, last in complete.items() if last > taken.get(at, 0) and (at, last) not in whole}
        self._unwritten = tuple(f"{folder}: file {complete[folder, name]}" for folder, name in sorted(missing))
        return {at: last - (at in missing) for at, last in complete.items()}

    @property
    def unread(self) -> str:
        """See ``Source.unread``."""
        missing = some_of(self._unwritten)
        named = f"files that meta/CDC.index names last are missing or empty: {missing}" if missing else ""
        return "; ".join(filter(None, (self._unindexed.told(), named)))

    def entries(self, first: int, end: int) -> list[Entry]:
        """The still known files that have offsets in [first, end)."""
        return within(self.ledger, first, end)

    def messages(self, first: int, end: int) -> Iterator[Message]:
        """The messages [first, end) of the still known files, in order. Raises: SourceFault, SourceChanged"""
        for entry in self.entries(first, end):
            kept = self._kept.get(entry.path)
            yield from entry_messages(self.files, self.form, entry, (first, end), kept)

    def glance(self) -> str:
        """Check that it is a storage sink. Returns: its checkpoint, as text. Raises: SourceFault"""
        return f"checkpoint {self._checkpoint()}"

    def check(self, messages: int) -> tuple[str, list[Message]]:
        """Check the folder without taking anything. Returns: a summary, and the first messages

        Raises: SourceFault, UsageError
        """
        checkpoint, found = self._checkpoint(), self._walk("")
        self._stop_if_old(found)
        tables = {one.root for one in found.schemas} | {one.folder.root for one in found.data}
        what = f"{len(found.data):,} files with rows, of {len(tables):,} folders of tables; checkpoint {checkpoint}"
        self._unindexed.look(Ledger(), found.data, indexed(self.files, found.data), checkpoint)
        what += f"; {self.unread}" if self.unread else ""
        entries = [Entry(0, 1, one.path, is_schema=True) for one in found.schemas[:messages]]
        entries += [Entry(0, ANY, one.path, one.size) for one in found.data[:1] if self.form.csv is None]
        sample = (one for entry in entries for one in entry_messages(self.files, self.form, entry, (0, messages)))
        return what, list(islice(sample, messages))

    def _walk(self, since: str) -> Walked:
        found = walk(self.files, since)
        other = next((one for one in found.data if one.extension != self.form.extension), None)
        if other is not None:
            raise UsageError(
                f"{self.files.where}/{other.path} ends in {other.extension}, and files of the given protocol end in "
                f"{self.form.extension}: `protocol` is not that of the changefeed"
            )
        return found

    def _stop_if_old(self, found: Walked) -> None:
        """Stop if the first rows of a job may be in folders that are not read. Later, TiCDC was upgraded since.

        Raises: SourceFault
        """
        if found.old and not self.ledger.checkpoint:
            raise SourceFault(
                f"{self.files.where}/{found.old[0]} is a file of TiCDC v6.5.0 to v6.5.2, v6.6.0 or v7.0.0, whose "
                "folders are not read. Those of v6.5.3 and later, and of v7.1.0 and later, are. Upgrade TiCDC, and "
                'create a new changefeed with an empty folder. Or begin with the newest files: `starting = "latest"`'
            )

    def _checkpoint(self) -> int:
        (content,) = self.files.find([METADATA])
        if content is None:
            raise SourceFault(
                f"{self.files.where} has no file `{METADATA}`: it is not the folder of a storage sink of TiCDC, or the "
                "changefeed has not written to it yet"
            )
        try:
            return read_checkpoint(content)
        except MessageError as error:
            raise SourceFault(f"{self.files.where}/{METADATA}: {error}") from error

    def _counts(self, schemas: list[str], data: tuple[DataName, ...]) -> dict[str, int]:
        """How many messages new files hold."""
        found = dict.fromkeys(schemas, 1)
        self._kept, held = {}, 0
        for path, content in self._each([one.path for one in data]):
            found[path] = self.form.count(f"{self.files.where}/{path}", content)
            held += len(content)
            if held <= _KEPT_BYTES:
                self._kept[path] = content
        return found

    def _each(self, paths: list[str]) -> Iterator[tuple[str, bytes]]:
        for at in range(0, len(paths), 16):
            some = paths[at : at + 16]
            for path, content in zip(some, self.files.find(some), strict=True):
                yield path, _there(self.files, path, content)


def open_folder(path: Path) -> StorageTopic | None:
    """The storage sink in a folder of this machine, for ``inspect`` and ``convert``; ``None``: there is none. CSV is
    read with TiCDC's defaults. Raises: SourceFault"""
    if not (path / METADATA).is_file():
        return None
    files = LocalFiles(str(path))
    is_csv = any(one.extension == CSV for one in walk(files, "").data)
    return StorageTopic(files, Form(csv=CsvFormat() if is_csv else None))


def all_messages(topic: StorageTopic, *, follow: bool = False) -> Iterator[Message]:
    """The messages of a storage sink. ``follow``: also of later files. Raises: as ``StorageTopic.look``"""
    while True:
        begin = topic.ledger.end
        topic.take_all()
        yield from topic.messages(begin, topic.ledger.end)
        if not follow:
            return
        topic.ledger = needed(topic.ledger, topic.ledger.end, ())
        time.sleep(_LOOK_AGAIN_SECONDS)


def entry_messages(
    files: Files, form: Form, entry: Entry, wanted: tuple[int, int], content: bytes | None = None
) -> Iterator[Message]:
    """The messages of one file at the offsets ``wanted`` ([first, end)). ``content``: the file's, if already read.

    Raises: SourceFault; SourceChanged for a file that is missing or has changed
    """
    topic, partition = PLACE
    if not entry.path:
        pairs = [(key_of(METADATA), checkpoint_file(entry.commit_ts))]
    else:
        if content is None:
            content = _there(files, entry.path, files.find([entry.path])[0])
        if entry.size and len(content) != entry.size:
            raise SourceChanged(
                f"{files.where}/{entry.path} had {entry.size:,} bytes when it was first read and has {len(content):,} "
                f"now: TiCDC never changes a complete file. {_WAYS_OUT}"
            )
        if entry.is_schema:
            pairs = [(key_of(entry.path), described_only(content) if entry.describes else content)]
        else:
            schema = None
            if entry.schema and form.csv is not None:
                schema = _there(files, entry.schema, files.find([entry.schema])[0])
            pairs = list(form.rows(entry.path, content, schema))
            if entry.count not in (ANY, len(pairs)):
                raise SourceChanged(
                    f"{files.where}/{entry.path} had {entry.count:,} records when it was first read and has "
                    f"{len(pairs):,} now: the keys of CSV are not those of then. Put them back, or begin again with an "
                    "empty target (a job with another `name`, a query with another checkpoint)"
                )
    for offset, (key, value) in enumerate(pairs, entry.first):
        if wanted[0] <= offset < wanted[1]:
            yield Message(topic=topic, partition=partition, offset=offset, key=key, value=value)


def _there(files: Files, path: str, content: bytes | None) -> bytes:
    if content is None:
        raise _is_gone(files.where, path)
    return content


def _is_gone(where: str, path: str) -> SourceChanged:
    return SourceChanged(f"{where}/{path} no longer exists, and its rows were not applied yet. {_WAYS_OUT}")


def _stop_if_removed(
    where: str, ledger: Ledger, found: Walked, complete: dict[tuple[str, str], int], checkpoint: int
) -> None:
    """Raises: SourceChanged if files were removed before they were taken"""
    numbers = {(folder, name): last for folder, name, last in ledger.numbers}
    there: dict[tuple[str, str], set[int]] = {}
    for one in found.data:
        there.setdefault(one.sequence, set()).add(one.number)
    for sequence, last in complete.items():
        known = numbers.get(sequence, 0)
        if last < known:
            raise SourceChanged(
                f"{where}/{sequence[0]} was complete up to file {known} and is up to {last}: it is another folder than "
                f"before. {_WAYS_OUT}"
            )
        numbered = there.get(sequence, ())
        missing = next((number for number in range(known + 1, last + 1) if number not in numbered), None)
        if missing is not None:
            raise SourceChanged(
                f"{where}/{sequence[0]}: file {missing} is missing, and files up to {last} were written. It was "
                f"removed before it was read. {_WAYS_OUT}"
            )
    paths, since = {one.path for one in found.data}, ledger.since
    for entry in ledger.entries:
        day = date_of(entry.path.rpartition("/")[0])
        if entry.size and entry.path not in paths and (not day or day >= since[: len(day)]):
            raise _is_gone(where, entry.path)
    for sequence, numbered in there.items():
        if max(numbered) < numbers.get(sequence, 0):
            raise SourceChanged(
                f"{where}/{sequence[0]} was read up to file {numbers[sequence]}, and its last file is {max(numbered)} "
                f"now: its files were removed, and TiCDC began to count again. {_WAYS_OUT}"
            )
    for (folder, name), last in numbers.items():
        if (folder, name) not in there and not _may_be_gone(folder, ledger.checkpoint, checkpoint):
            raise SourceChanged(
                f"{where}/{folder} no longer exists. It was read up to file {last}, and more may have been written "
                f"after that. {_WAYS_OUT}"
            )


def _may_be_gone(folder: str, before: int, now: int) -> bool:
    """Whether TiCDC may have removed a folder that was read to its end. It keeps folders for at least a day, and the
    job has looked within the last day."""
    day = date_of(folder)
    if len(day) != len("2026-01-31"):
        return False
    looked = date.fromisoformat(day_of(before))
    today = date.fromisoformat(day_of(now))
    return (today - looked).days <= 1 and day < day_of(now, -1)
