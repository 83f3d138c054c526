"""Adds messages and DDLs to ``skip-messages`` and ``skip-ddl`` of a job file. A running job takes them over."""

import re
import stat
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError

from ticdc_spark.config.job import Job, KafkaSource
from ticdc_spark.config.load import load_job
from ticdc_spark.config.toml import NotAllowed, read_value
from ticdc_spark.config.values import MessagePlace, Places, Skips
from ticdc_spark.durable import replace_file
from ticdc_spark.errors import UsageError, os_reason
from ticdc_spark.model import TopicPartition
from ticdc_spark.replicate.plan.offsets import known_offsets
from ticdc_spark.replicate.run.outage import silent
from ticdc_spark.replicate.run.preflight import security
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.store import progress_of
from ticdc_spark.topics.kafka_reader import TopicReader

_KEYS: dict[str, Any] = {"skip-messages": Places, "skip-ddl": Skips}
_DDL = re.compile(r"[0-9]+:")
"""The beginning of an entry of ``skip-ddl``. This command cannot skip messages of a topic with such a name."""


def skip(path: Path, entries: Sequence[str]) -> list[tuple[str, str]]:
    """Add entries to a job file, all or none. The file keeps its comments, order and mode.

    Returns: (key, entry) of each new entry. Raises: UsageError
    """
    file = path.resolve()  # a symbolic link stays a link
    load_job(path)
    added = [("skip-ddl" if _DDL.match(entry) else "skip-messages", entry) for entry in entries]
    for key, entry in added:
        try:
            read_value([entry], _KEYS[key])
        except NotAllowed as error:
            raise UsageError(f"{entry!r}: {error}") from None
    before = file.read_text(encoding="utf-8")
    try:
        text, new = _with_entries(before, added)
    except (TOMLKitError, AttributeError, KeyError, TypeError) as error:
        raise UsageError(_by_hand(path, added, "this command cannot change a file of this form")) from error
    if not new:
        return []
    try:
        replace_file(file, text.encode(), stat.S_IMODE(file.stat().st_mode))
    except OSError as error:
        raise UsageError(_by_hand(path, added, os_reason(error))) from error
    return new


def stop_without_effect(job: Job, entries: Sequence[str]) -> None:
    """Refuse a message that the job has read and no longer needs, or that its topic does not have yet.

    Raises: UsageError, EnvironmentFault
    """
    places = [place for place in _messages(entries) if place not in job.skip_messages]
    if not places:
        return
    progress, ends = progress_of(job), _ends(job, {place.topic for place in places})
    for place in places:
        why = no_effect(place, progress, ends)
        if why:
            raise UsageError(f"{place}: {why}; nothing was changed")


def no_effect(place: MessagePlace, progress: Progress | None, ends: Mapping[TopicPartition, int] | None) -> str:
    """Why skipping a message has no effect; ``""``: it has one, if known.

    ``ends``: the current ends of the topic's partitions; ``None``: unknown
    """
    at = (place.topic, place.partition)
    if ends is not None and at not in ends:
        there = sum(topic == place.topic for topic, _ in ends)
        return f"topic {place.topic!r} has no partition {place.partition}" if there else "there is no such topic"
    if ends is not None and place.offset >= ends[at]:
        return f"there is no such message yet: the next one will have offset {ends[at]:,}"
    if progress is None or place.offset >= known_offsets(progress).get(at, 0):
        return ""
    waits = any((one.topic, one.partition) == at and one.first <= place.offset < one.end for one in progress.pending)
    return "" if waits else "the message was read before, and no row of it waits, so skipping it has no effect"


def _messages(entries: Sequence[str]) -> tuple[MessagePlace, ...]:
    try:
        return cast("tuple[MessagePlace, ...]", read_value([one for one in entries if not _DDL.match(one)], Places))
    except NotAllowed:
        return ()  # ``skip`` reports the error


def _ends(job: Job, topics: Collection[str]) -> dict[TopicPartition, int] | None:
    source = job.source
    if not isinstance(source, KafkaSource) or silent(source):
        return None
    try:
        options = security(source)
    except UsageError:  # only Spark can reach the cluster
        return None
    with TopicReader(source.bootstrap_servers, options) as kafka:
        there = kafka.partitions(sorted(set(kafka.topics()) & set(topics)))
        return dict(kafka.places(there, "end"))


def _with_entries(text: str, entries: Sequence[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
    """The text of a job file with entries added, and the new entries. Raises: TOMLKitError, TypeError"""
    document = tomlkit.parse(text)
    section: Any = document["job"]
    wanted = {key: list(section.get(key, ())) for key in _KEYS}
    new = []
    for key, entry in entries:
        if entry in wanted[key]:
            continue
        wanted[key].append(entry)
        new.append((key, entry))
        if key in section:
            section[key].append(entry)
        else:
            section[key] = [entry]
    found = tomlkit.dumps(document)
    job, was = tomllib.loads(found), tomllib.loads(text)
    expected = was | {"job": was["job"] | {key: some for key, some in wanted.items() if some}}
    if job != expected:
        raise TypeError("the text does not say what it should")
    return found, new


def _by_hand(path: Path, entries: Sequence[tuple[str, str]], why: str) -> str:
    lines = "; ".join(f'"{entry}" to {key}' for key, entry in entries)
    return f"{path} cannot be changed: {why}. Add to [job] by hand: {lines}"
