"""What moves do: to the source, to TiCDC and Kafka, to the job and its file; the rest stands in ``operator_lake``."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from tests.simulator import operator_lake as lake
from tests.simulator.ddl import DDL
from tests.simulator.ddl_shapes import MORE_DDL
from tests.simulator.letters import folded
from tests.simulator.moves import CALM, Move, MoveKind
from tests.simulator.ticdc import DEFAULT_TOPIC
from tests.simulator.topics_gone import is_left_behind, note_gone
from tests.simulator.world import World
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import TicdcSparkError, UsageError
from ticdc_spark.protocols.simple.rows import row_writer
from ticdc_spark.replicate.state.requests import Repair

Apply = Callable[[World, Move, Random], None]
_GARBAGE = (b"", b"{", b"\xff\xfe\x00", b'{"version":1,"type":"INSERT"}', b"null", b"\x00" * 8 + b"\xff")


def perform(world: World, move: Move) -> None:
    """Do every kind of move but ``batch``."""
    if move.kind not in CALM:
        world.excuses.disturb(move.kind)
    MOVES[move.kind](world, move, Random(move.dice))


# ---- the source


def _transaction(world: World, move: Move, rand: Random) -> None:
    world.database.transaction(rand)


def _ddl(world: World, move: Move, rand: Random) -> None:
    before = len(world.database.events)
    hidden = set(world.database.hidden_drops)
    simple = world.setup.feed.protocol == "simple"
    tells = simple and world.setup.feed.bootstrap
    if (move.word.startswith("silent") and not tells) or (move.word == "hidden_drop" and simple and not tells):
        return  # the new schema would never be known
    (DDL.get(move.word) or MORE_DDL[move.word])(world.database, rand)
    world.excuse_local_keys()
    excuses = world.excuses
    if move.word in MORE_DDL and len(world.database.events) > before:
        world.draws[move.word] += 1
    for event in world.database.events[before:]:
        world.note_model(event)
        query = event.change.query if event.change else "no DDL is sent"
        if " LIKE " in query:
            if world.setup.feed.withheld >= 0:
                excuses.disturb("a table like one that is not sent")
            excuses.weak.update(dict.fromkeys(event.uids, "it is like a table of which there was a schema file alone"))
        world.note(f"{event.ts}: {query}")
        if event.refused:
            excuses.refused_ddl = True
            excuses.may_mark.update(event.uids)
        elif len(event.uids) == 2 and " EXCHANGE " in query:
            # What excuses one of them is an excuse for the other from there on.
            excuses.may_mark.update(event.uids)
            excuses.weak.update(dict.fromkeys(event.uids, "it has rows of another table"))
        if event.change is None or move.word == "lossy_modify":
            excuses.may_mark.update(event.uids)
    for uid in set(world.database.hidden_drops) - hidden:
        excuses.disturb("a DROP COLUMN that is not sent")
        excuses.weak[uid] = "rows lack a column of it"


# ---- TiCDC and Kafka


def _send(world: World, move: Move, rand: Random) -> None:
    world.ticdc.send(rand, move.n or 1)


def _advance(world: World, move: Move, rand: Random) -> None:
    world.ticdc.advance(rand)


def _restart(world: World, move: Move, rand: Random) -> None:
    # One transaction alone that is sent again is no other than one with equal rows.
    world.excuses.may_mark.update(uid for uid, live in world.database.versions.items() if not live.keys)
    world.ticdc.restart(rand)


def _older_start(world: World, move: Move, rand: Random) -> None:
    """The changefeed is made anew with an older start-ts, any that it ever had a watermark of."""
    world.excuses.unsettled.update(world.uids())
    world.ticdc.restart(rand, far=True)


def _widen(world: World, move: Move, rand: Random) -> None:
    uid, versions = world.setup.feed.withheld, world.database.names
    if any(names & versions.get(uid, set()) for other, names in versions.items() if other != uid):
        return  # what is sent again of one table would be taken for another that had its name since
    world.excuses.unsettled.add(uid)
    if not world.ticdc.widen():
        world.weaken([uid], "the changefeed cannot start from before a topic was deleted: older rows do not come")


def _stall(world: World, move: Move, rand: Random) -> None:
    places = sorted(world.broker.end_offsets())
    if world.ticdc.stalled:
        world.ticdc.stalled.clear()
    elif places:
        world.ticdc.stalled.add(rand.choice(places))
        world.note(f"no watermarks for {sorted(world.ticdc.stalled)}")


def _garbage(world: World, move: Move, rand: Random) -> None:
    places = sorted(world.broker.end_offsets())
    if places:
        world.excuses.bad_messages = True
        place = rand.choice(places)
        message = world.broker.append(place, None, rand.choice(_GARBAGE), 0)
        world.note(f"at {place} offset {message.offset}: {message.value!r}")


def _corrupt(world: World, move: Move, rand: Random) -> None:
    world.excuses.bad_messages = True
    world.ticdc.corrupt = rand


def _mangle(world: World, move: Move, rand: Random) -> None:
    world.excuses.bad_messages = True
    world.ticdc.mangle = True


def _trim_topic(world: World, move: Move, rand: Random) -> None:
    places = sorted(world.broker.end_offsets())
    if not places:
        return
    place = rand.choice(places)
    gone = world.broker.trim(place, rand.randrange(world.broker.end_offsets()[place] + 1))
    world.note(f"{len(gone)} messages of {place} are gone")
    touched = {uid for uid in world.uids() if any(world.ticdc.place_of(uid, message) for message in gone)}
    world.excuses.unsettled.update(touched)
    world.removed.update(dict.fromkeys(touched, "retention removed messages before lake and state were restored"))
    if not world.has_read(place[0]):
        world.weaken(touched, "retention removed messages before the job began")


def _recreate_topic(world: World, move: Move, rand: Random) -> None:
    topics = sorted(world.broker.topics)
    if not topics:
        return
    topic = rand.choice(topics)
    touched = {uid for uid, sent in world.ticdc.sent.items() if topic in sent.topics}
    world.excuses.unsettled.update(touched)
    world.removed.update(dict.fromkeys(touched, "the topic was made anew before lake and state were restored"))
    if world.has_read(topic):
        for uid in touched:
            world.made_anew.setdefault(uid, set()).update(world.ticdc.names_in(uid, topic))
    else:
        world.weaken(touched, "the topic was made anew before the job began")
        # Nothing is left that shows that the topic of one of its names had anything. The job takes a later table of
        # such a name for the renamed one.
        renamed = set(filter(world.is_renamed, touched))
        names = {name for uid in renamed for name in world.ticdc.sent[uid].names}
        world.excuses.unknowable.update(renamed, (uid for uid in touched if world.ticdc.sent[uid].names & names))
        # A topic that was made behind a full read looks the same.
        world.excuses.unknowable.update(touched & world.read_in_full())
    world.broker.create(topic)
    world.note(f"topic {topic} is deleted and made anew")


def _delete_topic(world: World, move: Move, rand: Random) -> None:
    """Somebody tidies up: a topic goes whose tables are all dropped, by what the job has read and applied, too."""
    for topic in sorted(world.broker.topics):
        if topic != DEFAULT_TOPIC and is_left_behind(world, topic):
            world.broker.delete(topic)
            world.note(f"topic {topic} is deleted, and all of its tables are dropped")
            world.draws["topics of dropped tables deleted"] += 1
            note_gone(world, topic)
            return


def _leave_topic(world: World, move: Move, rand: Random) -> None:
    """A topic goes that ``topics`` does not name any more."""
    others = sorted(topic for topic in world.broker.topics if topic != DEFAULT_TOPIC)
    if not others:
        return
    topic = rand.choice(others)
    read = {uid for uid in world.ticdc.sent if world.all_read(uid)}
    world.stop()
    world.job = replace(world.job, topics=(DEFAULT_TOPIC, *(name for name in others if name != topic)))
    world.excuses.unsettled.update(uid for uid in world.ticdc.sent if uid not in read)
    of_topic = {uid for uid, sent in world.ticdc.sent.items() if topic in sent.topics}
    world.weaken(of_topic, "a topic of it was left out and deleted")
    world.excuses.unsettled.update(of_topic)
    if not world.has_read_of_table(topic):
        # Nothing is left that shows that the topic of one of its names had anything.
        world.excuses.unknowable.update(filter(world.is_renamed, of_topic), of_topic & world.read_in_full())
    world.broker.delete(topic)
    world.note(f"topic {topic} is left out, and deleted")
    world.draws["topics left out and deleted"] += 1
    note_gone(world, topic)


def _meanwhile(world: World, move: Move, rand: Random) -> None:
    """The next full read meets a schema change between two of its chunks."""
    database = world.database

    def change() -> None:
        before = len(database.events)
        MORE_DDL[move.word](database, rand)
        for event in database.events[before:]:
            world.note_model(event)
        world.draws[f"{move.word} between two chunks"] += 1

    database.meanwhile = change


def _more_partitions(world: World, move: Move, rand: Random) -> None:
    topics = sorted(world.broker.topics)
    if topics:
        world.broker.add_partition(rand.choice(topics))


# ---- the job


def _stop(world: World, move: Move, rand: Random) -> None:
    world.stop()


def _kill(world: World, move: Move, rand: Random) -> None:
    world.kill()


def _wait(world: World, move: Move, rand: Random) -> None:
    """Time passes, and no partition lacks a watermark that others have had."""
    world.ticdc.flush(rand)
    world.clock.advance(float(move.n))


def _hang(world: World, move: Move, rand: Random) -> None:
    """TiCDC hangs between two messages for longer than the job waits for an idle partition."""
    world.excuses.unsettled.update(world.uids())
    world.clock.advance(70.0)


def _tables(world: World, move: Move, rand: Random) -> None:
    before = {uid: world.ticdc.sent[uid].names for uid in world.ticdc.sent}
    unwanted = {uid for uid, names in before.items() if not all(map(world.wanted, names))}
    world.stop()
    world.job = replace(world.job, tables=tuple(move.word.split()))
    excuses = world.excuses
    excuses.unsettled.update(before)
    for uid in unwanted:
        excuses.weak[uid] = "the filter left it out before"
        excuses.weak_names.update(before[uid])


def _topics(world: World, move: Move, rand: Random) -> None:
    """Some topics, or all; the default topic is always among them."""
    read = {uid for uid in world.ticdc.sent if world.all_read(uid)}
    some: tuple[str, ...] | None = None
    if rand.random() < 0.4:
        some = tuple(sorted({DEFAULT_TOPIC, *(name for name in world.broker.topics if rand.random() < 0.5)}))
    world.stop()
    world.job = replace(world.job, topics=some)
    world.note(f"topics = {some or 'all'}")
    world.excuses.unsettled.update(uid for uid in world.ticdc.sent if uid not in read)


def _skip_ddl(world: World, move: Move, rand: Random) -> None:
    """What the job proposes when it stops at a DDL."""
    proposed = world.proposed_skip()
    if proposed is not None:
        world.stop()
        world.job = replace(world.job, skip_ddl=(*world.job.skip_ddl, proposed))
        excuse_skipped(world, proposed.commit_ts)
        world.note(f"skip-ddl {proposed}")


def _skip_any_ddl(world: World, move: Move, rand: Random) -> None:
    """Any DDL, as an operator may who keeps a table."""
    applied = world.lab.view().applied
    changes = [event for event in world.database.events if event.change is not None and event.ts > applied]
    if not changes:
        return
    event = rand.choice(changes)
    world.stop()
    world.job = replace(world.job, skip_ddl=(*world.job.skip_ddl, SkipDdl(event.ts, "*")))
    excuse_skipped(world, event.ts)
    world.note(f"skip-ddl {event.ts}: {event.change.query if event.change else ''}")


def excuse_skipped(world: World, ts: int) -> None:
    """What a DDL would have brought along is missing, and what comes after it may be read anew from there on."""
    for event in world.database.events:
        if event.ts == ts and event.change is not None and event.change.kind != "ERASE":
            world.excuses.weak.update(dict.fromkeys(event.uids, "one of its DDLs was skipped"))


def _schema_file(world: World, move: Move, rand: Random) -> None:
    if world.setup.feed.protocol != "simple":
        world.stop()
        world.job = replace(world.job, schema_sql=world.schema_sql)


def _adopt(world: World, move: Move, rand: Random) -> None:
    world.stop()
    world.job = replace(world.job, adopt=move.word == "true")
    if world.job.adopt:
        world.left_alone.clear()


def _on_reject(world: World, move: Move, rand: Random) -> None:
    world.stop()
    world.job = replace(world.job, on_reject=move.word)


def _late_rows(world: World, move: Move, rand: Random) -> None:
    world.stop()
    world.job = replace(world.job, late_rows=move.word)


def _drop_table(world: World, move: Move, rand: Random) -> None:
    world.stop()
    world.job = replace(world.job, drop_table=move.word)


def _resume(world: World, move: Move, rand: Random) -> None:
    held = [name for name, table in world.lab.view().tables.items() if table.condition == "quarantined"]
    world.stop()
    some = None if rand.random() < 0.5 or not held else [rand.choice(held)]
    try:
        world.lab.resume(world.job, some)
    except UsageError as error:
        world.note(f"resume: {error}")
    except TicdcSparkError as error:
        world.note(f"resume: {type(error).__name__}: {error}")
        world.stops.append(f"{type(error).__name__}: {error}")


def _rebuild(world: World, move: Move, rand: Random) -> None:
    live = world.live(rand)
    world.stop()
    if live is None or not world.setup.job.snapshot:
        return
    try:
        world.lab.rebuild(world.job, (live.table.schema, live.table.name))
        world.note(f"rebuild {live.name}")
    except UsageError as error:
        world.note(f"rebuild: {error}")


def _repair(world: World, move: Move, rand: Random) -> None:
    """Rows of a table are read again, whether they differ or not; some of the keys may have no row."""
    live = world.live(rand)
    world.stop()
    names = () if live is None else [name for name in world.lab.view().tables if folded(name) == live.name]
    if live is None or not names or not live.keys or not world.setup.job.snapshot:
        return
    keys = {*rand.sample([*live.rows], min(len(live.rows), rand.randrange(3))), lake.any_key(live, rand)}
    write = row_writer(live.table, "UTC", live.keys)
    images = [bytes(write(dict(zip(live.keys, key, strict=True)))).decode() for key in sorted(keys, key=repr)]
    world.lab.repair(Repair(tables=(names[0],), keys=tuple(images)))
    world.draws["repairs of rows"] += 1
    world.note(f"repair {live.name}: {images}")


MOVES: dict[MoveKind, Apply] = {
    "transaction": _transaction,
    "ddl": _ddl,
    "send": _send,
    "advance": _advance,
    "restart": _restart,
    "older_start": _older_start,
    "widen": _widen,
    "stall": _stall,
    "garbage": _garbage,
    "corrupt": _corrupt,
    "mangle": _mangle,
    "trim_topic": _trim_topic,
    "recreate_topic": _recreate_topic,
    "more_partitions": _more_partitions,
    "delete_topic": _delete_topic,
    "leave_topic": _leave_topic,
    "meanwhile": _meanwhile,
    "stop": _stop,
    "kill": _kill,
    "wait": _wait,
    "hang": _hang,
    "tables": _tables,
    "topics": _topics,
    "skip_ddl": _skip_ddl,
    "skip_any_ddl": _skip_any_ddl,
    "schema_file": _schema_file,
    "adopt": _adopt,
    "on_reject": _on_reject,
    "late_rows": _late_rows,
    "drop_table": _drop_table,
    "resume": _resume,
    "rebuild": _rebuild,
    "repair": _repair,
    "save_lake": lake.save_lake,
    "restore_lake": lake.restore_lake,
    "restore_table": lake.restore_table,
    "rollback": lake.rollback,
    "compact": lake.compact,
    "expire": lake.expire,
    "insert_row": lake.insert_row,
    "delete_row": lake.delete_row,
    "drop_lake_column": lake.drop_lake_column,
    "drop_lake_table": lake.drop_lake_table,
    "foreign_table": lake.foreign_table,
    "rival": lake.rival,
    "rival_writer": lake.rival_writer,
}
"""Every move but ``batch``, by kind."""
