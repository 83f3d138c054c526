"""Keys of the filter, and keys that only this project has."""

from ticdc_spark.changefeed.config.key import EVENTS, FILTER, OURS, Key, url_key
from ticdc_spark.changefeed.config.kinds import (
    Kind,
    annotated,
    integer,
    path,
    spark_options,
    table,
    text,
    texts,
    timestamps,
    words,
)
from ticdc_spark.config.values import Listen, Token, Zone


def _key(name: str, section: str, kind: Kind, default: object, meaning: str) -> Key:
    return Key(name=name, section=section, kind=kind, default=default, meaning=meaning)


FILTER_KEYS = (
    _key("rules", FILTER, texts(), ("*.*",), "Tables that are sent; the last rule that matches decides."),
    _key(
        "ignore-txn-start-ts",
        FILTER,
        timestamps(),
        (),
        "Transactions to exclude, by start_ts; a binlog has none.",
    ),
    Key(
        name="ddl-allow-list",
        section=FILTER,
        kind=timestamps(),
        default=(),
        meaning="Numbers of kinds of DDL to send besides the usual ones; a key of older versions of TiCDC.",
        use="ignored",
        reason="only `rules` and `event-filters` exclude DDL",
    ),
    _key("matcher", EVENTS, texts(), None, "Tables of this entry: filter rules. All entries that match a table count."),
    _key("ignore-event", EVENTS, texts(), (), "Kinds of events to exclude ([names](#events))."),
    _key("ignore-sql", EVENTS, texts(), (), "Regular expressions of DDL to exclude."),
    _key("ignore-insert-value-expr", EVENTS, text(), None, "SQL condition of inserts to exclude."),
    _key(
        "ignore-update-old-value-expr",
        EVENTS,
        text(),
        None,
        "SQL condition on the old row of updates to exclude.",
    ),
    _key(
        "ignore-update-new-value-expr",
        EVENTS,
        text(),
        None,
        "SQL condition on the new row of updates to exclude.",
    ),
    _key("ignore-delete-value-expr", EVENTS, text(), None, "SQL condition of deletes to exclude."),
    _key("ignore-update-only-columns", EVENTS, texts(), (), "Updates that change no other columns are excluded."),
)
_WORD = r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*"
OUR_KEYS = (
    _key(
        "changefeed-id",
        OURS,
        text(_WORD, "words of letters and digits, joined by single `-`"),
        None,
        "Name of the changefeed. Default: the name of the file, or the topic if there is none.",
    ),
    url_key("sink-uri", OURS, "The sink URI, if the command line has none."),
    url_key("source", OURS, "Where changes come from."),
    _key("state", OURS, path(), None, "Folder of the changefeed's progress."),
    _key(
        "time-zone",
        OURS,
        annotated(Zone),
        "UTC",
        "Time zone in which TIMESTAMP is written, like the option `tz` of a TiCDC server.",
    ),
    _key("start-ts", OURS, integer(1, 2**63 - 1), None, "commitTs (a TSO) from which changes are sent. Default: now."),
    _key(
        "target-ts",
        OURS,
        integer(1, 2**63 - 1),
        None,
        "commitTs up to which changes are sent; then the changefeed ends.",
    ),
    _key(
        "snapshot",
        OURS,
        words("never initial"),
        "never",
        "`initial`: a new changefeed first sends the rows that its tables have ([tables that exist already]"
        "(../how-to/changefeed.md#tables-that-exist-already)).",
    ),
    _key(
        "metrics",
        OURS,
        annotated(Listen),
        None,
        "Host and port where [metrics](../how-to/metrics.md), health and the [status page](../how-to/status-page.md) "
        "are served. Default: nowhere.",
    ),
    Key(
        name="metrics-token",
        section=OURS,
        kind=annotated(Token),
        meaning="What a request must send, as a bearer token or as the password of a login. Health needs none.",
        secret=True,
    ),
    _key(
        "metrics-table-series",
        OURS,
        integer(0, 10**6),
        200,
        "How many tables have their own series in the [metrics](../reference/metrics.md); all other tables share one.",
    ),
    _key("snapshot-parallelism", OURS, integer(1, 1024), 4, "How many ranges of keys are read in parallel."),
    _key("snapshot-chunk-rows", OURS, integer(1, 10**9), 50_000, "About how many rows a range has."),
    _key(
        "spark-backlog",
        OURS,
        integer(0, 2**63 - 1),
        0,
        "Spark's tasks send a backlog of at least this many messages; one process sends a shorter one. "
        "0: tasks are never used ([a long backlog](../how-to/changefeed.md#a-long-backlog)).",
    ),
    _key(
        "spark",
        OURS,
        spark_options(),
        None,
        'A table of Spark\'s own options, if Spark is used: `"spark.master" = "local[2]"` …',
    ),
    _key(
        "schema-registry",
        OURS,
        table(),
        None,
        'A table of options of the registry\'s client, by its own names: `"ssl.ca.location"`, `timeout` …',
    ),
    _key(
        "cluster-id",
        OURS,
        text(r"[A-Za-z0-9_-]+", "letters, digits, `_` and `-`"),
        "default",
        "Name of the cluster in Debezium's messages, like the option `cluster-id` of a TiCDC server.",
    ),
)
