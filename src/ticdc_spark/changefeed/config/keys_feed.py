"""Keys of the changefeed as a whole. Most of them control features that only TiCDC has."""

from ticdc_spark.changefeed.config.key import FEED, Key, Use, url_key
from ticdc_spark.changefeed.config.kinds import (
    Kind,
    boolean,
    duration,
    integer,
    number,
    table,
    text,
    timestamps,
    words,
)

_SPLIT = "it splits tables of TiKV into regions"
_DATABASE = "it is for databases as sinks"
_RESOURCES = "memory and threads are set for the process, not for the changefeed"
_BDR = "it needs TiDB's source id of each transaction"
_PROCESS = "it steers the processes of TiCDC"
_CYCLIC = "it needs databases as sinks, which mark where a row is from (TiCDC 4.0 to 6.1)"


def _key(name: str, section: str, kind: Kind, default: object, meaning: str) -> Key:
    return Key(name=name, section=section, kind=kind, default=default, meaning=meaning)


def _not(use: Use, reason: str, section: str, name: str, kind: Kind, default: object, meaning: str) -> Key:
    return Key(name=name, section=section, kind=kind, default=default, meaning=meaning, use=use, reason=reason)


FEED_KEYS = (
    url_key("sink-uri", FEED, "The sink URI, if the command line has none."),
    _key(
        "case-sensitive",
        FEED,
        boolean(),
        False,
        "Whether upper and lower case differ in filter rules, dispatchers and selectors.",
    ),
    _not(
        "ignored",
        "old rows are always read; `output-old-value` and other options of protocols exclude them",
        FEED,
        "enable-old-value",
        boolean(),
        True,
        "Read old rows; a key of older versions of TiCDC.",
    ),
    _key(
        "force-replicate",
        FEED,
        boolean(),
        False,
        "Send tables without a primary key or a unique key that is NOT NULL, too.",
    ),
    _not(
        "ignored",
        "such tables are always excluded, and named",
        FEED,
        "ignore-ineligible-table",
        boolean(),
        False,
        "Create the changefeed although it excludes tables.",
    ),
    _not("ignored", _RESOURCES, FEED, "memory-quota", integer(0, 2**64 - 1), 1073741824, "Bytes of memory."),
    _not(
        "ignored",
        "there is no TiKV whose old versions could be collected",
        FEED,
        "check-gc-safe-point",
        boolean(),
        True,
        "Check the GC safe point.",
    ),
    _not("refused", _DATABASE, FEED, "enable-sync-point", boolean(), False, "Write sync points."),
    _not("ignored", _DATABASE, FEED, "sync-point-interval", duration(30, "30s"), "10m", "Time between sync points."),
    _not("ignored", _DATABASE, FEED, "sync-point-retention", duration(3600, "1h"), "24h", "How long they are kept."),
    _not(
        "ignored",
        "DDL is parsed as MySQL's default SQL mode has it",
        FEED,
        "sql-mode",
        text(),
        None,
        "SQL mode in which DDL is parsed.",
    ),
    _not("refused", _BDR, FEED, "bdr-mode", boolean(), False, "Replication in both directions."),
    _not(
        "ignored",
        "an error that may pass is tried again, any other ends the command",
        FEED,
        "changefeed-error-stuck-duration",
        duration(1800, "30m"),
        "30m",
        "How long errors may last.",
    ),
    _not(
        "ignored",
        _PROCESS,
        FEED,
        "performance-mode",
        words("throughput low-latency"),
        "throughput",
        "Throughput, or latency.",
    ),
    _not("ignored", _PROCESS, FEED, "enable-table-monitor", boolean(), False, "Metrics of each table."),
    _not("refused", _BDR, FEED, "enable-active-active", boolean(), False, "Two clusters that both write."),
    _not("ignored", _BDR, FEED, "active-active-progress-interval", duration(), "30m", "Between progress reports."),
    _not("ignored", _BDR, FEED, "active-active-sync-stats-interval", text(), "1m", "Between statistics reports."),
    _not("ignored", _PROCESS, FEED, "event-collector-batch-count", integer(0, 8192), None, "Events of one batch."),
    _not("ignored", _PROCESS, FEED, "event-collector-batch-bytes", integer(0, 2**63 - 1), None, "Bytes of one batch."),
    _not("ignored", _RESOURCES, "mounter", "worker-num", integer(0), 16, "Threads that decode rows."),
    _not("refused", _CYCLIC, "cyclic-replication", "enable", boolean(), False, "Clusters that replicate in a circle."),
    _not("ignored", _CYCLIC, "cyclic-replication", "replica-id", integer(0, 2**63 - 1), None, "This cluster's id."),
    _not("ignored", _CYCLIC, "cyclic-replication", "filter-replica-ids", timestamps(), (), "Clusters to exclude."),
    _not("ignored", _CYCLIC, "cyclic-replication", "id-buckets", integer(0, 2**63 - 1), 0, "Buckets of their ids."),
    _not("ignored", _CYCLIC, "cyclic-replication", "sync-ddl", boolean(), False, "Whether DDL is sent too."),
    _not("ignored", _PROCESS, "scheduler", "type", text(), "table-number", "How tables are spread (TiCDC 4.0 to 6.1)."),
    _not("ignored", _PROCESS, "scheduler", "polling-time", integer(-(2**31)), -1, "Minutes between two such rounds."),
    _not("ignored", _SPLIT, "scheduler", "enable-table-across-nodes", boolean(), False, "Split large tables."),
    _not("ignored", _SPLIT, "scheduler", "region-threshold", integer(0, 2**63 - 1), 10000, "Regions of a large table."),
    _not(
        "ignored",
        _SPLIT,
        "scheduler",
        "region-per-span",
        integer(0, 2**63 - 1),
        None,
        "Older name of `region-count-per-span`.",
    ),
    _not("ignored", _SPLIT, "scheduler", "region-count-per-span", integer(0, 2**63 - 1), 100, "Regions of a part."),
    _not("ignored", _SPLIT, "scheduler", "region-count-refresh-interval", duration(), None, "When they are counted."),
    _not(
        "ignored",
        _SPLIT,
        "scheduler",
        "write-key-threshold",
        integer(0, 2**63 - 1),
        0,
        "Rows a minute of a large table.",
    ),
    _not(
        "ignored", _SPLIT, "scheduler", "scheduling-task-count-per-node", integer(0, 2**63 - 1), 20, "Tasks of a node."
    ),
    _not(
        "ignored",
        _SPLIT,
        "scheduler",
        "enable-splittable-check",
        boolean(),
        False,
        "Check whether a table can be split.",
    ),
    _not("ignored", _SPLIT, "scheduler", "force-split", boolean(), False, "Split in any case."),
    _not("ignored", _SPLIT, "scheduler", "balance-score-threshold", integer(0, 2**63 - 1), 20, "When parts move."),
    _not("ignored", _SPLIT, "scheduler", "min-traffic-percentage", number(), 0.8, "When parts move."),
    _not("ignored", _SPLIT, "scheduler", "max-traffic-percentage", number(), 1.25, "When parts move."),
    _not(
        "ignored",
        _PROCESS,
        "synced-status",
        "synced-check-interval",
        integer(0, 2**63 - 1),
        300,
        "Seconds without changes until a changefeed counts as synced.",
    ),
    _not(
        "ignored",
        _PROCESS,
        "synced-status",
        "checkpoint-interval",
        integer(0, 2**63 - 1),
        15,
        "Seconds that its checkpoint may lag.",
    ),
    _not("ignored", _DATABASE, FEED, "consistent", table(), None, "The redo log."),
    _key(
        "integrity-check-level",
        "integrity",
        words("none correctness"),
        "none",
        "`correctness`: send each row's checksum, computed here. Not together with `column-selectors`.",
    ),
    _not(
        "ignored",
        "checksums are computed here, so no row can fail its own",
        "integrity",
        "corruption-handle-level",
        words("warn error"),
        "warn",
        "What to do with a row that fails its checksum.",
    ),
)
