"""Check that a source is still the one that was read: the same topics, with all messages not read yet."""

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from ticdc_spark.config.job import KafkaSource, SourceConfig
from ticdc_spark.errors import SourceChanged
from ticdc_spark.model import Offsets, TableName
from ticdc_spark.replicate.plan.gone_topics import without_tables
from ticdc_spark.replicate.plan.offsets import known_offsets
from ticdc_spark.replicate.state.notes import SourceNote
from ticdc_spark.replicate.state.progress import PendingRows, Plan, Progress
from ticdc_spark.replicate.state.table import diverge
from ticdc_spark.spark.sources.base import Source

WAYS_OUT = (
    "If the topic was created again, begin a new job with another `name` and an empty target. If messages were "
    "removed before they were read, this job has lost their changes: begin a new one, too"
)


NOT_THERE = (
    "If its tables are no longer needed, take it out of `topics` under [source]: they stay unchanged. Otherwise "
    "begin a new job with another `name` and an empty target"
)


def source_notes(source: Source, progress: Progress) -> tuple[SourceNote, ...]:
    """What must still be true when reading continues from the progress. Raises: SourceFault"""
    offsets = known_offsets(progress)
    if progress.batch == 0:
        # Nothing was read of a topic at offset 0: if it is created again, nothing is lost.
        begun = {topic for (topic, _), offset in offsets.items() if offset > 0}
        offsets = {place: offset for place, offset in offsets.items() if place[0] in begun}
    return _notes(source, offsets)


def notes_of_batch(source: Source, progress: Progress, end_offsets: Offsets) -> tuple[SourceNote, ...]:
    """What must still be true after a batch up to ``end_offsets``, also of new topics. Take the notes before the read:
    then the next batch at the latest notices a topic that is created again meanwhile. Raises: SourceFault"""
    return _notes(source, known_offsets(progress) | end_offsets)


def _notes(source: Source, offsets: Offsets) -> tuple[SourceNote, ...]:
    found = source.notes(offsets)
    return tuple(SourceNote(topic=topic, what=what, value=value) for (topic, what), value in sorted(found.items()))


def with_notes_of_left_out(notes: tuple[SourceNote, ...], progress: Progress) -> tuple[SourceNote, ...]:
    """The notes after a batch. They include topics that the job has read but that `topics` now excludes.

    If such a topic is read again, it must be the same one: rows and DDLs of the old one were applied, or wait.
    ``progress``: after the batch, with the notes from before it.
    """
    read = {state.topic for state in progress.partitions} | {note.topic for note in notes}
    left = {note.topic for note in progress.source} - read
    # Rows of it waited for the DDL that makes their table.
    waiting = {topic for one in progress.catching_up for topic, _, _ in one.needs}
    left -= without_tables(progress, left) - waiting
    return (*notes, *(note for note in progress.source if note.topic in left))


def check_source(source: Source, progress: Progress, config: SourceConfig) -> frozenset[str]:
    """Compare the source with what the job knows about it.

    Returns: the topics in the progress that are no longer read: ``config`` does not name them, or they are gone and all
    their tables are dropped.

    Raises: SourceChanged, which names what has changed; SourceFault
    """
    known = known_offsets(progress)
    beginning, end_offsets = source.beginning_offsets(), source.end_offsets()
    gone = {topic for topic, _ in known} - {topic for topic, _ in end_offsets}
    left = {topic for topic in gone if not _is_named(config, topic)} | without_tables(progress, gone)
    known = {place: offset for place, offset in known.items() if place[0] not in left}
    ends = {(one.topic, one.partition): one.end for one in progress.partitions}
    # New topics, too: the job may have read them before `topics` excluded them.
    notes = source.notes(dict.fromkeys(end_offsets, 0) | known)
    _compare(progress.source, notes, {topic for topic, _ in end_offsets.keys() - known.keys()})
    for place, offset in known.items():
        where = f"topic {place[0]}, partition {place[1]}"
        if place not in end_offsets:
            if offset > 0:
                unread = f" of {ends[place]}" if ends[place] > offset else ""
                message = f"{where} is not there any more. It was read up to offset {offset}{unread}. {NOT_THERE}"
                raise SourceChanged(message)
        elif end_offsets[place] < offset:
            raise SourceChanged(
                f"{where} ends at offset {end_offsets[place]}, and was read up to {offset}: it was created again, or "
                f"restored to an older state. {WAYS_OUT}"
            )
        elif beginning[place] > offset:
            raise SourceChanged(
                f"{where} begins at offset {beginning[place]}, and was read up to {offset}: the messages between were "
                f"removed before they were read. {WAYS_OUT}"
            )
    _stop_if_removed(progress, beginning, left)
    return frozenset(left)


def _stop_if_removed(progress: Progress, beginning: Offsets, left: Collection[str]) -> None:
    """Stop if rows were removed from their topic before they were applied. Raises: SourceChanged"""
    asked = {one.full_name for one in progress.wanted if one.asked}
    gone: dict[TableName, PendingRows] = {}
    for rows in progress.pending:
        name = rows.full_name
        if rows.first < beginning.get((rows.topic, rows.partition), 0) and rows.topic not in left and name not in asked:
            gone.setdefault(name, rows)
    if gone:
        (schema, table), rows = next(iter(gone.items()))
        more = f" (and rows of {len(gone) - 1} more tables)" if len(gone) > 1 else ""
        raise SourceChanged(
            f"`{schema}`.`{table}`: rows in topic {rows.topic}, partition {rows.partition}, from offset "
            f"{rows.first} on, are not applied yet, but the topic now begins at offset "
            f"{beginning[rows.topic, rows.partition]}{more}. Read the tables again (`ticdc-spark rebuild`), "
            "and keep messages longer (retention.ms of the topic)"
        )


def without_removed(progress: Progress, beginning: Offsets) -> Progress:
    """The progress without messages that are gone from the topics: skipped messages, and rows of tables for which a
    person asked a full read."""
    left_out = tuple(at for at in progress.left_out if at[2] >= beginning.get(at[:2], 0))
    progress = msgspec.structs.replace(progress, left_out=left_out)
    asked = {one.full_name for one in progress.wanted if one.asked}
    pending, marked = [], set()
    for rows in progress.pending:
        begins = beginning.get((rows.topic, rows.partition), 0)
        if rows.full_name in asked and rows.first < begins:
            marked.add(rows.full_name)
            if begins >= rows.end:
                continue
            rows = msgspec.structs.replace(rows, first=begins, cut=True)
        pending.append(rows)
    if not marked:
        return progress
    why = "rows of it were removed from the topic before they were applied; a full read of it is wanted"
    tables = tuple(
        diverge(table, table.applied, why) if table.full_name in marked else table for table in progress.tables
    )
    return msgspec.structs.replace(progress, pending=tuple(pending), tables=tables)


def without_left_out(source: Source, plan: Plan, config: SourceConfig, left_out: Collection[str]) -> Plan:
    """The plan of an interrupted batch, without the topics in ``left_out``, and without topics that are gone and that
    ``config`` no longer names. The progress does not know a topic that this batch was the first to read.

    Raises: SourceFault
    """
    there = {topic for topic, _ in source.end_offsets()}
    planned = {topic for topic, _, _ in plan.end_offsets}
    gone = {topic for topic in planned - there if not _is_named(config, topic)} | {*left_out}
    return msgspec.structs.replace(plan, end_offsets=tuple(end for end in plan.end_offsets if end[0] not in gone))


def check_plan(source: Source, plan: Plan) -> None:
    """Compare the source with a batch that was planned before a crash. Its rows may be in tables already, although the
    progress has not read them yet.

    Raises: SourceChanged; SourceFault
    """
    planned: Offsets = {(topic, partition): end for topic, partition, end in plan.end_offsets}
    _compare(plan.source, source.notes(planned))
    beginning, now = source.beginning_offsets(), source.end_offsets()
    begun = f"batch {plan.batch}, which was begun before a restart, reads it"
    for place, end in planned.items():
        if now.get(place, 0) < end:
            raise SourceChanged(
                f"topic {place[0]}, partition {place[1]} ends at offset {now.get(place, 0)}, and {begun} up to {end}: "
                f"it was created again, or restored to an older state. {WAYS_OUT}"
            )
    for topic, partition, start in plan.start_offsets:
        if beginning.get((topic, partition), 0) > start:
            raise SourceChanged(
                f"topic {topic}, partition {partition} begins at offset {beginning[topic, partition]}, and {begun} "
                f"from {start} on: the messages between were removed since. {WAYS_OUT}"
            )


def _compare(
    then: Sequence[SourceNote], now: Mapping[tuple[str, str], str], left: Collection[str] = frozenset()
) -> None:
    """``left``: topics that `topics` under [source] excluded before."""
    for note in then:
        value = now.get((note.topic, note.what), note.value)
        if value != note.value:
            left_out = ". You can also take the topic out of `topics` under [source]" if note.topic in left else ""
            raise SourceChanged(f"{note.what} was {note.value} and is {value}. {WAYS_OUT}{left_out}")


def _is_named(config: SourceConfig, topic: str) -> bool:
    """Whether a job file names a topic."""
    if not isinstance(config, KafkaSource):
        return True
    if config.topics is not None:
        return topic in config.topics
    return re.fullmatch(config.topic_pattern or "", topic) is not None
