"""Reads a job file, and checks all of it before anything starts."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ticdc_spark.config import toml as job_file
from ticdc_spark.config.cluster import check_places
from ticdc_spark.config.job import (
    NATIVE,
    DeltaConfig,
    FilesSource,
    IcebergConfig,
    Identity,
    Job,
    JobKeys,
    KafkaSource,
    MetricsKeys,
    MysqlConfig,
    Notice,
    PostgresConfig,
    Recording,
    Route,
    SchemaFiles,
    SinkConfig,
    SnapshotKeys,
    SourceConfig,
    StorageSource,
    UpkeepKeys,
)
from ticdc_spark.config.kafka_options import read_kafka_options
from ticdc_spark.config.load_ddl import read_ddl, without_moved
from ticdc_spark.config.load_storage import read_storage
from ticdc_spark.config.paths import existing, local_folder, location, registry_files
from ticdc_spark.config.placement import hint
from ticdc_spark.config.route_values import TARGET
from ticdc_spark.config.spark_options import check_spark
from ticdc_spark.config.target_names import SOURCE, group_names, names_in
from ticdc_spark.config.toml import Mistakes, Section
from ticdc_spark.protocols import PROTOCOLS


def load_job(path: Path | str) -> Job:
    """Read a job file, and check all of it before anything starts.

    Raises: UsageError that names the file, and for every wrong key what was found and what is allowed.
    """
    file = Path(os.path.abspath(path))
    raw = job_file.read_toml(file)
    mistakes = Mistakes(file)
    tables = ("job", "source", "snapshot", "schema", "sink", "ddl", "upkeep", "metrics", "spark")
    known = (*tables, "route", "history", "notice")
    for title in raw:
        if title not in known:
            where = hint(title, "", known) or "; allowed: " + ", ".join(f"[{name}]" for name in known)
            mistakes.add("", f"unknown section or key `{title}`{where}")
    sections = {name: _table(raw, name, mistakes) for name in tables}
    keys = _job_keys(without_moved(sections["job"]), mistakes)
    ddl = read_ddl(sections["ddl"], sections["job"], mistakes)
    source = _source(sections["source"], sections["spark"], mistakes)
    sink = _sink(sections["sink"], mistakes)
    schema = job_file.read_section(sections["schema"], SchemaFiles, "schema", mistakes, hint)
    schema["file"] = tuple(existing(file, str(text), "[schema] file", mistakes) for text in schema.get("file", ()))
    snapshot = _snapshot(sections["snapshot"], source, mistakes) if "snapshot" in raw else None
    routes = tuple(Route(**keys) for keys in _rules(raw.get("route", []), Route, "route", mistakes))
    rules = _rules(raw.get("history", []), Recording, "history", mistakes)
    histories = tuple(Recording(**keys) for keys in rules)
    notices = _notices(raw.get("notice", []), mistakes)
    upkeep = UpkeepKeys(**job_file.read_section(sections["upkeep"], UpkeepKeys, "upkeep", mistakes, hint))
    metrics = MetricsKeys(**job_file.read_section(sections["metrics"], MetricsKeys, "metrics", mistakes, hint))
    spark = _spark(sections["spark"], mistakes)
    check_spark(spark, mistakes)
    _check_groups(routes, mistakes)
    is_iceberg = sink is None or isinstance(sink, IcebergConfig)
    if not is_iceberg and any(rule.partition_by or rule.sort_by or rule.properties for rule in routes):
        found = sections["sink"]["kind"]
        of = "partition-by, sort-by and properties are of a lake of Iceberg"
        mistakes.add("[[route]]", f'{of}; found [sink] kind = "{found}"')
    if any(how == "hash" for rule in routes for _, how in rule.mask_columns) and "mask_salt" not in keys:
        mistakes.add("[job] mask-salt", 'missing; "hash" under [[route]] needs a secret, such as "${env:MASK_SALT}"')
    if any(rule.origin for rule in routes):
        _check_origin(raw, keys, routes, mistakes)
    if ddl is not None and ddl.parks and routes:
        mistakes.add("[ddl] keep-dropped", "cannot be used with [[route]]: no rule names the tables that are parked")
    if histories:
        if ddl is not None and ddl.parks:
            mistakes.add("[ddl] keep-dropped", "cannot be used with [[history]]: a history does not come back")
        if keys.get("mode") == "arrival":
            mistakes.add("[job] mode", 'found "arrival"; [[history]] needs watermarks')
    if ddl is not None and ddl.rebuilds and (snapshot is None or snapshot.path is not None):
        mistakes.add(
            '[ddl] partition-ddl = "rebuild"', "reads tables of a database: [snapshot] with `upstream` names it"
        )
    if isinstance(sink, IcebergConfig) and sink.commit == "batch" and keys.get("writer") == "spark":
        what = 'found "spark", which commits each table by itself; [sink] commit = "batch" needs "python"'
        mistakes.add("[job] writer", what)
    check_places(spark, source, sink, snapshot, mistakes)
    mistakes.stop_if_any()
    assert source is not None and sink is not None and ddl is not None, "a section that could not be read is a mistake"
    files = SchemaFiles(**schema)
    more: dict[str, Any] = {"schema": files, "upkeep": upkeep, "snapshot": snapshot, "routes": routes, "spark": spark}
    more |= {"metrics": metrics, "histories": histories, "notices": notices}
    return Job(**keys, file=file, source=source, sink=sink, ddl=ddl, **more)


def _check_groups(routes: tuple[Route, ...], mistakes: Mistakes) -> None:
    """Note groups in names that no regular expression has."""
    for rule in routes:
        groups = () if rule.regex is None else group_names(rule.regex)
        numbers = [str(at) for at in range(1, len(groups) + 1)]
        for key, target in (("target-schema", rule.target_schema), ("target-table", rule.target_table)):
            if target is not None and not {*names_in(target)} <= {*SOURCE, *groups, *numbers}:
                listed = ", ".join(f"`{{{group}}}`" for group in groups)
                has = f"groups of its `regex`: {listed}" if groups else "groups of a `regex`, and the rule has none"
                mistakes.add(f"[[route]] {key}", f"found {target!r}; allowed: {TARGET}, and {has}")


def _check_origin(
    raw: Mapping[str, Any], keys: Mapping[str, Any], routes: tuple[Route, ...], mistakes: Mistakes
) -> None:
    """Note keys that cannot be used with merged tables."""
    where = "[[route]] origin"
    snapshot = raw.get("snapshot")
    if isinstance(snapshot, Mapping) and "path" in snapshot:
        what = "cannot be used with [snapshot] path. Merged tables are read from a database: name it with `upstream`"
        mistakes.add(where, what)
    if raw.get("history"):
        mistakes.add(where, "cannot be used with [[history]]. Keep the histories by another job")
    if keys.get("mode") == "arrival":
        mistakes.add("[job] mode", 'found "arrival"; [[route]] origin needs watermarks')
    if keys.get("adopt"):
        mistakes.add(where, "cannot be used with [job] adopt: a merged table of another job is not taken over")
    targets = [(rule.target_schema, rule.target_table) for rule in routes if rule.origin]
    if len(set(targets)) < len(targets):
        mistakes.add(where, "two rules have the same target-schema and target-table. Put their `tables` into one rule")


def load_identity(path: Path | str) -> Identity:
    """Read only a job's name and sink, so that ``status`` needs neither the source nor its secrets.

    Raises: UsageError
    """
    file = Path(os.path.abspath(path))
    raw = job_file.read_toml(file)
    mistakes = Mistakes(file)
    section = _table(raw, "job", mistakes)
    needed = {key: value for key, value in section.items() if key.partition(".")[0] in ("name", "state", "max-lag")}
    keys = _job_keys(needed, mistakes)
    sink = _sink(_table(raw, "sink", mistakes), mistakes)
    options = job_file.flatten(_table(raw, "spark", mistakes))
    hadoop = {key: value for key, value in options.items() if key.startswith("spark.hadoop.fs.")}
    spark = job_file.read_options(hadoop, "spark", mistakes)
    mistakes.stop_if_any()
    assert sink is not None, "a section that could not be read is a mistake"
    return Identity(file, keys["name"], sink, spark, keys.get("max_lag"))


def load_metrics(path: Path | str) -> MetricsKeys:
    """Read only the address and token of a job's page. Raises: UsageError"""
    file = Path(os.path.abspath(path))
    mistakes = Mistakes(file)
    section = _table(job_file.read_toml(file), "metrics", mistakes)
    keys = job_file.read_section(section, MetricsKeys, "metrics", mistakes, hint)
    mistakes.stop_if_any()
    return MetricsKeys(**keys)


def _table(raw: Mapping[str, Any], name: str, mistakes: Mistakes) -> Mapping[str, Any]:
    found = raw.get(name, {})
    if not isinstance(found, Mapping):
        mistakes.add(f"[{name}]", f"found {found!r}; allowed: a section")
        return {}
    return found


def _job_keys(raw: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any]:
    plain = {key: value for key, value in raw.items() if key.partition(".")[0] != "state"}
    if len(plain) < len(raw):
        mistakes.add("[job] state", "the state of a job is kept in the lake, beside its tables; remove this line")
    return job_file.read_section(plain, JobKeys, "job", mistakes, hint)


def _source(raw: Mapping[str, Any], spark: Mapping[str, Any], mistakes: Mistakes) -> SourceConfig | None:
    kinds: dict[str, type[Section]] = {"files": FilesSource, "kafka": KafkaSource, "storage": StorageSource}
    kind = _kind(raw, kinds, "source", mistakes)
    if kind is None:
        return None
    if kind is StorageSource:
        return read_storage(raw, spark, mistakes)
    plain = {key: value for key, value in raw.items() if key != "kind"}
    options: dict[str, str] = {}
    more: tuple[str, ...] = ()
    plain, registry = _split(plain, "schema-registry", "source", mistakes)
    if kind is KafkaSource:
        more = ("kafka",)
        plain, options = _split(plain, "kafka", "source", mistakes)
    before = mistakes.count
    options = read_kafka_options(options, mistakes)
    keys = job_file.read_section(plain, kind, "source", mistakes, hint, more_known=("kind", *more))
    if "path" in keys:
        keys["path"] = existing(mistakes.path, str(keys["path"]), "[source] path", mistakes)
    if str(keys.get("schema_registry", "")).startswith("file:"):
        named = str(keys["schema_registry"]).removeprefix("file:")
        keys["schema_registry"] = f"file:{existing(mistakes.path, named, '[source] schema-registry', mistakes)}"
    stored = keys.get("claim_check_storage")
    if stored is not None and "://" not in str(stored):
        keys["claim_check_storage"] = str(
            existing(mistakes.path, str(stored), "[source] claim-check-storage", mistakes)
        )
    if registry and "schema_registry" not in keys:
        mistakes.add("[source]", f"`{min(registry)}` is an option of a schema registry; write `schema-registry` too")
    _suits_protocol(keys, mistakes)
    options_of_registry = {key.removeprefix("schema-registry."): text for key, text in registry.items()}
    where = "[source] schema-registry."
    keys["schema_registry_options"] = registry_files(options_of_registry, mistakes.path, where, mistakes)
    if mistakes.count > before:
        return None
    if kind is FilesSource:
        return FilesSource(**keys)
    if (keys.get("topics") is None) == (keys.get("topic_pattern") is None):
        mistakes.add("[source]", "exactly one of `topics` and `topic-pattern` must be set")
    return KafkaSource(**keys, options=options)


def _snapshot(raw: Mapping[str, Any], source: SourceConfig | None, mistakes: Mistakes) -> SnapshotKeys | None:
    before = mistakes.count
    keys = job_file.read_section(raw, SnapshotKeys, "snapshot", mistakes, hint)
    if "path" in keys:
        keys["path"] = existing(mistakes.path, str(keys["path"]), "[snapshot] path", mistakes)
        if "upstream" in keys:
            mistakes.add("[snapshot]", "only one of `upstream` and `path` may be set")
    elif "commit_ts" in keys:
        mistakes.add("[snapshot] commit-ts", "is of a dump; write `path` too")
    elif "upstream" not in keys:
        if source is not None and source.upstream is not None:
            keys["upstream"] = source.upstream
        elif source is not None:
            mistakes.add("[snapshot]", "`upstream` or `path` must be set, or `upstream` under [source]")
    return None if mistakes.count > before else SnapshotKeys(**keys)


def _rules(raw: object, kind: type[Section], title: str, mistakes: Mistakes) -> list[dict[str, Any]]:
    """The keys of sections such as ``[[route]]``, in their order, without the wrong ones."""
    if not isinstance(raw, list) or not all(isinstance(one, Mapping) for one in raw):
        mistakes.add(f"[{title}]", f"each rule is a section of its own; allowed: [[{title}]]")
        return []
    before, found = mistakes.count, []
    for one in raw:
        keys = job_file.read_section(one, kind, f"[{title}]", mistakes, hint)
        if keys.get("tables") == ():
            mistakes.add(f"[[{title}]] tables", 'found []; allowed: TiCDC filter rules such as "shop.*"')
        if mistakes.count == before:
            found.append(keys)
    return found


def _notices(raw: object, mistakes: Mistakes) -> tuple[Notice, ...]:
    found = tuple(Notice(**keys) for keys in _rules(raw, Notice, "notice", mistakes))
    for notice in found:
        if (notice.webhook is None) == (notice.command is None):
            mistakes.add("[[notice]]", "exactly one of `webhook` and `command` must be set")
        elif notice.authorization is not None and notice.webhook is None:
            mistakes.add("[[notice]] authorization", "is of a webhook; write `webhook` too")
    return found


def _suits_protocol(keys: Mapping[str, Any], mistakes: Mistakes) -> None:
    """Look for keys that the protocol needs, or that only another protocol uses."""
    named = PROTOCOLS.get(keys.get("protocol", ""))
    if named is None:
        return
    if named.traits.registry and "schema_registry" not in keys:
        mistakes.add("[source] schema-registry", "missing; Avro messages name schemas of a registry")
    for name in NATIVE:
        if name in keys and not named.traits.connector_properties:
            suited = " or ".join(f'"{name}"' for name, of in PROTOCOLS.items() if of.traits.connector_properties)
            what = f'is for protocol {suited}; found "{named.name}"'
            mistakes.add(f"[source] {name.replace('_', '-')}", what)


def _sink(raw: Mapping[str, Any], mistakes: Mistakes) -> SinkConfig | None:
    databases: dict[str, type[MysqlConfig | PostgresConfig]] = {"mysql": MysqlConfig, "postgres": PostgresConfig}
    kinds: dict[str, type[Section]] = {"iceberg": IcebergConfig, "delta": DeltaConfig, **databases}
    kind = _kind(raw, kinds, "sink", mistakes)
    if kind is None:
        return None
    if (database := databases.get(raw["kind"])) is not None:
        before, own = mistakes.count, {key: value for key, value in raw.items() if key != "kind"}
        read = job_file.read_section(own, database, "sink", mistakes, hint, more_known=("kind",))
        return None if mistakes.count > before else database(**read)
    if kind is DeltaConfig:
        return _delta({key: value for key, value in raw.items() if key != "kind"}, mistakes)
    plain, options = _split({key: value for key, value in raw.items() if key != "kind"}, "catalog", "sink", mistakes)
    properties = plain.pop("table-properties", {})
    before = mistakes.count
    keys = job_file.read_section(plain, IcebergConfig, "sink", mistakes, hint, more_known=("kind", "table-properties"))
    keys["table_properties"] = _properties(properties, mistakes)
    keys["catalog_options"] = {
        key.removeprefix("catalog."): location(mistakes.path, value) if key == "catalog.uri" else value
        for key, value in options.items()
    }
    if (authority := options.get("catalog.ssl.cabundle")) is not None:
        found = existing(mistakes.path, authority, "[sink] catalog.ssl.cabundle", mistakes)
        keys["catalog_options"]["ssl.cabundle"] = str(found)
    if keys["catalog_options"].get("type", "").lower() == "hadoop":
        mistakes.add(
            "[sink] catalog.type", 'found "hadoop", which cannot rename tables; allowed: jdbc, rest, hive, glue, nessie'
        )
    if "warehouse" in keys["catalog_options"]:
        mistakes.add("[sink] catalog.warehouse", "write `warehouse`")
    if keys.get("commit") == "batch" and not _is_rest(keys["catalog_options"]):
        what = 'found "batch", which only a REST catalog can do: "catalog.type" = "rest" and "catalog.uri"'
        mistakes.add("[sink] commit", what)
    if mistakes.count > before:
        return None
    keys["warehouse"] = location(mistakes.path, keys["warehouse"], bare_path=True)
    if local_folder(keys["warehouse"]) is None and not {"type", "catalog-impl", "uri"} & keys["catalog_options"].keys():
        what = f"found {keys['warehouse']!r}; without a catalog only a warehouse on a disk can be used"
        cure = '"catalog.type" = "rest" and "catalog.uri" = "http://catalog:8181"'
        mistakes.add("[sink] warehouse", f"{what}; name one, such as {cure}")
        return None
    return IcebergConfig(**keys)


def _is_rest(options: Mapping[str, str]) -> bool:
    named = options.get("catalog-impl")
    return options.get("type", "").lower() == "rest" if named is None else named.endswith(".RESTCatalog")


def _delta(raw: dict[str, Any], mistakes: Mistakes) -> DeltaConfig | None:
    before, properties = mistakes.count, raw.pop("table-properties", {})
    keys = job_file.read_section(raw, DeltaConfig, "sink", mistakes, hint, more_known=("kind", "table-properties"))
    keys["table_properties"] = _properties(properties, mistakes)
    if mistakes.count > before:
        return None
    return DeltaConfig(**keys | {"warehouse": location(mistakes.path, keys["warehouse"], bare_path=True)})


def _properties(given: object, mistakes: Mistakes) -> dict[str, str]:
    """The properties of new tables."""
    if not isinstance(given, Mapping):
        mistakes.add("[sink] table-properties", f"found {given!r}; allowed: a table of properties")
        return {}
    return job_file.read_options(given, "sink.table-properties", mistakes)


def _spark(raw: Mapping[str, Any], mistakes: Mistakes) -> dict[str, str]:
    options = job_file.read_options(raw, "spark", mistakes)
    for key in options:
        if not key.startswith("spark."):
            what = hint(key, "spark", ()) or f": did you mean `spark.{key}`?"
            mistakes.add(f"[spark] {key}", f"unknown option; Spark's options start with `spark.`{what}")
    return options


def _kind(
    raw: Mapping[str, Any], kinds: Mapping[str, type[Section]], title: str, mistakes: Mistakes
) -> type[Section] | None:
    found = raw.get("kind")
    if isinstance(found, str) and found in kinds:
        return kinds[found]
    allowed = ", ".join(f'"{kind}"' for kind in kinds)
    what = f"found {found!r}; allowed: {allowed}" if "kind" in raw else f"missing; allowed: {allowed}"
    mistakes.add(f"[{title}] kind", what)
    return None


def _split(
    raw: Mapping[str, Any], prefix: str, title: str, mistakes: Mistakes
) -> tuple[dict[str, Any], dict[str, str]]:
    """Separate a section's own keys from the free options under ``prefix``, quoted or as nested tables."""
    nested = raw.get(prefix)
    free = {prefix: nested} if isinstance(nested, Mapping) else {}
    free |= {key: value for key, value in raw.items() if key.startswith(f"{prefix}.")}
    own = {key: value for key, value in raw.items() if key not in free}
    return own, job_file.read_options(free, title, mistakes)
