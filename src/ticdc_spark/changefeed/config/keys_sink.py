"""Keys for what is sent and where: the protocol and its options, dispatchers, column selectors."""

from ticdc_spark.changefeed.config.key import CODEC, DISPATCHERS, LARGE, SELECTORS, SINK, Key
from ticdc_spark.changefeed.config.kinds import Kind, annotated, boolean, integer, protocol, table, text, texts, words
from ticdc_spark.config.values import RegistryUrl

_STORAGE = "it is for storage sinks"


def _key(
    name: str,
    section: str,
    kind: Kind,
    default: object,
    meaning: str,
    *,
    uri: str | None = None,
    option: str | None = None,
) -> Key:
    return Key(name=name, section=section, uri=uri, kind=kind, default=default, meaning=meaning, option=option)


def _codec(name: str, kind: Kind, default: object, meaning: str) -> Key:
    return _key(name, CODEC, kind, default, meaning, uri=name, option=name)


def _large(name: str, kind: Kind, default: object, meaning: str) -> Key:
    return _key(name, LARGE, kind, default, meaning, option=name)


def _not_sent(name: str, section: str, meaning: str, reason: str, uri: str | None = None) -> Key:
    return Key(
        name=name,
        section=section,
        uri=uri,
        kind=boolean(),
        default=False,
        meaning=meaning,
        use="refused",
        reason=reason,
    )


def _unused(name: str, kind: Kind, default: object, meaning: str, reason: str) -> Key:
    return Key(name=name, section=SINK, kind=kind, default=default, meaning=meaning, use="ignored", reason=reason)


SINK_KEYS = (
    _key("protocol", SINK, protocol(), None, "How changes are written. It must be given.", uri="protocol"),
    _key(
        "transaction-atomicity",
        SINK,
        words("none"),
        "none",
        "Rows of a transaction are sent one by one; Kafka has no other way.",
        uri="transaction-atomicity",
    ),
    Key(
        name="schema-registry",
        section=SINK,
        uri="schema-registry",
        kind=annotated(RegistryUrl),
        meaning="Schema registry of the protocols that need one: a URL, with `user:password@` where it needs them.",
        secret=True,
        url=True,
    ),
    _key(
        "only-output-updated-columns",
        SINK,
        boolean(),
        False,
        "Send only the changed columns of an UPDATE's old row.",
        uri="only-output-updated-columns",
        option="only-output-updated-columns",
    ),
    _key(
        "delete-only-output-handle-key-columns",
        SINK,
        boolean(),
        False,
        "Send only the key of a deleted row.",
        option="delete-only-output-handle-key-columns",
    ),
    _key(
        "content-compatible",
        SINK,
        boolean(),
        False,
        "Write as Alibaba's Canal does; turns `only-output-updated-columns` on.",
        uri="content-compatible",
        option="content-compatible",
    ),
    _key(
        "debezium-disable-schema",
        SINK,
        boolean(),
        False,
        "Omit Debezium's schema block.",
        uri="debezium-disable-schema",
        option="debezium-disable-schema",
    ),
    _key("output-old-value", "sink.open", boolean(), True, "Send the old row of an UPDATE.", option="output-old-value"),
    _key(
        "output-old-value",
        "sink.debezium",
        boolean(),
        True,
        "Send the old row of an UPDATE (`before`).",
        option="debezium-output-old-value",
    ),
    _not_sent(
        "include-start-ts",
        "sink.debezium",
        "Send the transaction's start_ts.",
        "a binlog has no start_ts",
        "debezium-include-start-ts",
    ),
    _codec(
        "enable-tidb-extension",
        boolean(),
        False,
        "Send what only TiDB has, such as the commitTs, and watermarks where the protocol has them.",
    ),
    _codec("max-batch-size", integer(1), 16, "The most rows of one message."),
    _codec("encoding-format", words("json avro"), "json", "Format of the Simple protocol."),
    _codec("avro-decimal-handling-mode", words("precise string"), "precise", "DECIMAL in Avro: bytes, or text."),
    _codec(
        "avro-bigint-unsigned-handling-mode",
        words("long string"),
        "long",
        "BIGINT UNSIGNED in Avro: a number, or text.",
    ),
    _codec(
        "avro-enable-watermark",
        boolean(),
        False,
        "Send DDL and watermarks in Avro, which Confluent's consumers cannot read; needs `enable-tidb-extension`.",
    ),
    _not_sent(
        "avro-include-before-value",
        CODEC,
        "Send the old row in Avro.",
        "the Avro encoder does not write it",
        "avro-include-before-value",
    ),
    _not_sent(
        "output-row-key", CODEC, "Send TiKV's key of a row.", "only TiKV has keys of this kind", "output-row-key"
    ),
    _large(
        "large-message-handle-option",
        words("none handle-key-only claim-check"),
        "none",
        "For a message that is too large: an error, only its key, or a file that a small message names.",
    ),
    _large(
        "large-message-handle-compression",
        words("none lz4 snappy"),
        "none",
        "Compression of every value, large or not, as TiCDC does it.",
    ),
    _large(
        "claim-check-storage-uri", text(), None, "Place for the files of `claim-check`: a path, or a URI of fsspec."
    ),
    _large("claim-check-raw-value", boolean(), False, "Files hold the bare value."),
    _key(
        "send-bootstrap-interval-in-sec",
        SINK,
        integer(-(2**63), 2**63 - 1),
        120,
        "Simple: seconds between BOOTSTRAP messages of a table; 0 or less is off.",
    ),
    _key(
        "send-bootstrap-in-msg-count",
        SINK,
        integer(-(2**31), 2**31 - 1),
        10000,
        "Simple: rows between them; 0 or less is off.",
    ),
    _key("send-bootstrap-to-all-partition", SINK, boolean(), True, "Simple: to every partition, or to partition 0."),
    _key("send-all-bootstrap-at-start", SINK, boolean(), False, "Simple: for all tables at the start."),
    _key(
        "matcher",
        DISPATCHERS,
        texts(),
        None,
        "Tables of this entry: filter rules. The first entry that matches a table decides.",
    ),
    _key(
        "topic",
        DISPATCHERS,
        text(),
        "",
        "A topic, an expression with `{schema}` and `{table}`, or empty: the topic of the sink URI.",
    ),
    _key(
        "partition",
        DISPATCHERS,
        text(),
        "default",
        "`default`, `table`, `index-value` (`rowid`), `columns` or `ts`; anything else is `default`.",
    ),
    _key("dispatcher", DISPATCHERS, text(), None, "Older name of `partition`; not together with it."),
    _key(
        "index",
        DISPATCHERS,
        text(),
        None,
        "For `index-value`: the unique index whose columns decide. Default: the handle key.",
    ),
    _key("columns", DISPATCHERS, texts(), (), "For `columns`: the columns that decide."),
    _key(
        "target-schema",
        DISPATCHERS,
        text(),
        "",
        "The database that messages name: text, `{schema}`, `{table}`. Of the entries that have it or `target-table`, "
        "the first that matches a table decides.",
    ),
    _key("target-table", DISPATCHERS, text(), "", "The table that messages name, in the same way."),
    _key(
        "matcher",
        SELECTORS,
        texts(),
        None,
        "Tables of this entry: filter rules. The first entry that matches a table decides.",
    ),
    _key(
        "columns",
        SELECTORS,
        texts(),
        None,
        "Patterns of the columns that are sent; `!` excludes columns. The last match decides.",
    ),
    _unused(
        "encoder-concurrency",
        integer(0),
        32,
        "Threads that encode.",
        "the process that reads also encodes, or tasks do",
    ),
    _unused("enable-kafka-sink-v2", boolean(), False, "Use another Kafka client.", "there is one Kafka client here"),
    _unused(
        "advance-timeout-in-sec", integer(0), 150, "When the sink counts as stuck.", "no table waits on a TiKV region"
    ),
    _unused("terminator", text(), None, "End of a line.", _STORAGE),
    _unused("date-separator", text(), "day", "Folders by date.", _STORAGE),
    _unused("enable-partition-separator", boolean(), True, "Folders by partition.", _STORAGE),
    _unused("file-index-digit", integer(0), None, "Digits in file names.", _STORAGE),
    _unused("csv", table(), None, "CSV files.", _STORAGE),
    _unused("cloud-storage-config", table(), None, "Storage sinks.", _STORAGE),
    _unused("safe-mode", boolean(), None, "REPLACE for INSERT.", "it is for databases as sinks"),
    _unused("mysql-config", table(), None, "MySQL as a sink.", "it is for databases as sinks"),
    _unused("pulsar-config", table(), None, "Pulsar as a sink.", "it is for Pulsar"),
)
