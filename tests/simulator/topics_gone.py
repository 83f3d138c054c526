"""Topics that nobody needs any more."""

from __future__ import annotations

import re

from tests.simulator.world import World
from ticdc_spark.errors import SourceChanged, TicdcSparkError

_UNCERTAIN = {"restore_lake", "tables", "topics", "skip_any_ddl", "recreate_topic"}
"""Moves by which a job may not know any more that the tables of a topic are dropped."""
_MANGLING = {"mangle", "corrupt"}
"""Moves by which the job may not be able to read the DROP of a table."""


def is_left_behind(world: World, topic: str) -> bool:
    """Whether every table that a topic ever had messages of is dropped, and the job has read and applied all of it."""
    view, database = world.lab.view(), world.database
    uids = {uid for uid, sent in world.ticdc.sent.items() if topic in sent.topics}
    alive = {live.uid for state in (database.now, database.truth_at(view.applied)) for live in state.values()}
    if not uids or uids & alive or topic in world.ticdc.live_topics():
        return False
    if world.setup.job.starting == "latest":
        return False  # it may have met the DROP alone, and knows no table of the topic
    if any(len(world.ticdc.sent[uid].names) > 1 for uid in uids):
        return False  # of a renamed table: another table that took the name may have the topic, too
    names = set().union(*(world.ticdc.sent[uid].names for uid in uids))
    if not all(map(world.wanted, names)):
        return False
    if world.setup.job.snapshot and names & database.truth_at(view.applied).keys():
        return False  # a table that is read in full has the topics of its name
    later = (database.truth_at(event.ts) for event in database.events if event.ts > view.applied)
    if any(names & state.keys() for state in later):
        return False  # another table takes the name where the job has not come to yet: it may have rows in the topic
    if any(end > view.offsets.get(place, -1) for place, end in world.broker.end_offsets(frozenset({topic})).items()):
        return False
    last = max(at for at, event in enumerate(database.events) if uids & {*event.uids, *(uid for uid, _ in event.rows)})
    return database.events[last].ts <= view.applied and world.ticdc.forget_before(last)


def note_gone(world: World, topic: str) -> None:
    """A topic that the job does not need is deleted. With an older state, the job cannot know what was in it."""
    uids = [uid for uid, sent in world.ticdc.sent.items() if topic in sent.topics]
    world.removed.update(dict.fromkeys(uids, "a topic of it was deleted before lake and state were restored"))
    world.gone_topics.add(topic)


def is_needless(world: World, error: TicdcSparkError) -> str:
    """The topic that a job stops at though it does not need it any more; ``""``: it does not."""
    if not isinstance(error, SourceChanged) or (_UNCERTAIN | _MANGLING) & set(world.excuses.disturbances):
        return ""
    topics = world.job.topics
    for topic in sorted(world.gone_topics):
        is_read = topics is None or topic in topics
        back = topic in world.broker.topics
        if re.search(rf"topic {re.escape(topic)}[, ]", str(error)) and not (is_read and back):
            return topic
    return ""
