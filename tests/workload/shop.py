"""The events of a small shop, in commit order, and the tables that they lead to."""

from collections.abc import Iterator
from random import Random

from tests.workload.catalogue import SHOP
from tests.workload.config import WorkloadConfig
from tests.workload.schema_changes import ACTIONS, Shop, create_database, create_table
from tests.workload.tables import Key, LiveTable, Name, Truth
from ticdc_spark.model import Bootstrap, Change, Op, Row, RowChange, SchemaChange, Value, Watermark

_LOGICAL = 1 << 18
_RANK: dict[Op, int] = {"delete": 0, "update": 1, "insert": 2, "upsert": 2}


class _Reached(Exception):
    """The next commit_ts lies above the asked one."""


class Workload:
    """Iterates once over the events of a workload; afterwards (and meanwhile) ``truth`` holds the tables.

    Memory is bounded by the live rows. Two workloads of one configuration give equal events.
    """

    def __init__(self, config: WorkloadConfig, until: int | None = None) -> None:
        self._config = config
        self._rand = Random(config.seed).random
        self._until = until
        self._ts = config.start_ms * _LOGICAL
        self._shop = Shop(self._rand, self._tick, config.schema)
        self._events = self._run()

    def __iter__(self) -> Iterator[Change]:
        return self._events

    @property
    def truth(self) -> Truth:
        """Every live table and its rows by handle key, as of the events iterated so far."""
        return {name: (live.table, live.rows) for name, live in self._shop.tables.items()}

    def _tick(self) -> int:
        """The next commit_ts: some share the millisecond of the one before."""
        rand = self._rand
        if rand() < 0.5:
            ts = self._ts + 1 + int(rand() * 5)
        else:
            ts = (self._ts // _LOGICAL + 1 + int(rand() * 3)) * _LOGICAL + int(rand() * 5)
        if self._until is not None and ts > self._until:
            raise _Reached
        self._ts = ts
        return ts

    def _run(self) -> Iterator[Change]:
        try:
            yield from self._create()
            yield from self._work()
            yield Watermark(self._tick())
        except _Reached:
            return

    def _create(self) -> Iterator[Change]:
        yield from self._ddl(create_database(self._shop, self._config.schema))
        for name, plan in SHOP.items():
            yield from self._ddl(create_table(self._shop, self._config.schema, name, plan))

    def _work(self) -> Iterator[Change]:
        config, rand, shop = self._config, self._rand, self._shop
        actions = [ACTIONS[name] for name in config.ddl_actions]
        done = transactions = 0
        while done < config.changes:
            transactions += 1
            if config.ddl_every and transactions % config.ddl_every == 0 and actions:
                action = actions[int(rand() * len(actions))] if shop.tables else create_table
                yield from self._ddl(action(shop))
            before = self._ts
            ts = self._tick()
            if transactions % config.watermark_every == 0:
                # a watermark often equals the commit_ts of what comes next
                yield Watermark(ts if rand() < 0.5 else before + 1)
            changes = self._transaction(ts)
            for change in changes:
                live = shop.tables[change.table.schema, change.table.name]
                if live.since_bootstrap < 0 or live.since_bootstrap == config.bootstrap_every > 0:
                    yield Bootstrap(live.table)
                    live.since_bootstrap = 0
                live.since_bootstrap += 1
                yield change
            done += len(changes)

    def _ddl(self, changes: Iterator[SchemaChange]) -> Iterator[Change]:
        announced = 0
        for change in changes:
            if change.commit_ts != announced:
                # the checkpoint reaches the DDL before the DDL itself is sent
                announced = change.commit_ts
                yield Watermark(announced)
            yield change

    def _transaction(self, ts: int) -> list[RowChange]:
        config, rand, shop = self._config, self._rand, self._shop
        tables = list(shop.tables.values())
        touched: set[tuple[Name, Key]] = set()
        changes: list[RowChange] = []
        if not tables:
            return changes
        updates = config.insert_share + config.update_share
        for _ in range(1 + int(rand() * (2 * config.rows_per_transaction - 1))):
            live = tables[int(rand() * len(tables))]
            choice = rand()
            if not live.rows or (choice < config.insert_share and len(live.rows) < config.live_rows):
                new = live.make(rand, shop.fresh())
                live.put(new)
                touched.add((_name(live), live.key(new)))
                changes.append(RowChange(op="insert", table=live.table, commit_ts=ts, after=new))
                continue
            row = live.pick(rand)
            key = live.key(row)
            if (_name(live), key) in touched:
                continue
            touched.add((_name(live), key))
            if config.insert_share <= choice < updates and live.free:
                after = self._changed(live, row)
                live.put(after)
                changes.append(RowChange(op="update", table=live.table, commit_ts=ts, before=row, after=after))
            elif updates <= choice < updates + config.key_change_share:
                changes += self._key_change(live, ts, row, touched)
            else:
                live.remove(key)
                changes.append(RowChange(op="delete", table=live.table, commit_ts=ts, before=row))
        # as TiCDC sorts them: table by table; deletes, updates, inserts
        changes.sort(key=lambda change: (change.table.table_id or 0, _RANK[change.op]))
        return changes

    def _changed(self, live: LiveTable, row: Row) -> Row:
        rand, after = self._rand, dict(row)
        for _ in range(1 + int(rand() * 2)):
            item = live.free[int(rand() * len(live.free))]
            value: Value = None
            if not item.nulls or rand() >= item.nulls:
                value = item.make(rand, self._shop.number)
            after[item.column.name] = value
        return after

    def _key_change(self, live: LiveTable, ts: int, row: Row, touched: set[tuple[Name, Key]]) -> list[RowChange]:
        """One row gets a new key; now and then another row takes the key that became free."""
        rand = self._rand
        number = self._shop.fresh()
        after: Row = {**row, **{item.column.name: item.make(rand, number) for item in live.identity}}
        pairs = [(row, after)]
        if live.table.indexes and rand() < 0.5:
            heir = live.pick(rand)
            if (_name(live), live.key(heir)) not in touched:
                touched.add((_name(live), live.key(heir)))
                pairs.append((heir, {**heir, **{name: row[name] for name in live.key_columns}}))
        for old, _ in pairs:
            live.remove(live.key(old))
        for _, new in pairs:
            live.put(new)
            touched.add((_name(live), live.key(new)))
        table, raw = live.table, rand() < self._config.raw_key_changes
        if raw:
            pairs = pairs[::-1] if rand() < 0.5 else pairs
            return [RowChange(op="update", table=table, commit_ts=ts, before=old, after=new) for old, new in pairs]
        return [RowChange(op="delete", table=table, commit_ts=ts, before=old) for old, _ in pairs] + [
            RowChange(op="insert", table=table, commit_ts=ts, after=new) for _, new in pairs
        ]


def _name(live: LiveTable) -> Name:
    return live.table.schema, live.table.name


def generate(config: WorkloadConfig) -> Workload:
    """The events of a workload, in commit order."""
    return Workload(config)


def truth_at(config: WorkloadConfig, commit_ts: int) -> Truth:
    """The tables of a workload as of ``commit_ts``, that commit included; runs the workload again up to there."""
    workload = Workload(config, until=commit_ts)
    for _ in workload:
        pass
    return workload.truth
