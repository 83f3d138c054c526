"""Opens the catalog of a lake with PyIceberg, without a JVM, from the options of Iceberg's Java client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from ticdc_spark.errors import SinkFault, UsageError, os_reason

if TYPE_CHECKING:  # tasks import this module and do not need PyIceberg
    from pyiceberg.catalog import Catalog

_BUSY_SECONDS = "60"
"""How long SQLite waits while another process writes."""
_TRIES = 3
_CLASSES = {
    "org.apache.iceberg.jdbc.JdbcCatalog": "jdbc",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
}
"""Java's ``catalog-impl``, and the ``type`` with the same meaning."""
_PYTHON = {
    "jdbc": ("pyiceberg.catalog.sql", "SqlCatalog", ""),
    "rest": ("pyiceberg.catalog.rest", "RestCatalog", ""),
    "glue": ("pyiceberg.catalog.glue", "GlueCatalog", "pyiceberg[glue]"),
    "hive": ("pyiceberg.catalog.hive", "HiveCatalog", "pyiceberg[hive]"),
}
"""Types of catalogs: PyIceberg's module and class, and what must be installed in addition to PyIceberg."""
_DRIVERS = {
    "postgresql": ("postgresql+psycopg", "psycopg[binary]"),
    "mysql": ("mysql+pymysql", "pymysql"),
    "mariadb": ("mysql+pymysql", "pymysql"),
}
"""Databases of a JDBC catalog: SQLAlchemy's name, and what must be installed."""
_OF_BOTH = ("sslmode", "sslrootcert")
"""Parameters that mean the same to PostgreSQL's drivers for Java and for Python."""
_CATALOG_TABLES = ("iceberg_tables", "iceberg_namespace_properties")
"""Tables of the JDBC catalog itself."""
_JAVA_ONLY = ("type", "catalog-impl", "io-impl", "cache-enabled", "uri", "warehouse")
_AUTHORITY = "ssl.cabundle"
"""Names the certificates of the authorities that a REST catalog may have, for Python."""
_STRONGER = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Environment variables that win over it: the library that PyIceberg uses for HTTP has it so."""
STORE_AUTHORITY = "AWS_CA_BUNDLE"
"""The environment variable that does the same for an S3 store."""
_CURL = ("curlCode: 60", "curlCode: 77")
"""A certificate of another authority, and a file of authorities that cannot be read."""
_WITH_AUTHORITY = "ticdc_spark.sinks.iceberg.python_store.StoreFileIO"
_HADOOP_S3 = {
    "access.key": "s3.access-key-id",
    "secret.key": "s3.secret-access-key",
    "session.token": "s3.session-token",
    "endpoint.region": "s3.region",
    "endpoint": "s3.endpoint",
}
"""Keys after ``spark.hadoop.fs.s3a.``, and PyIceberg's names."""


def open_catalog(
    name: str,
    warehouse: str,
    options: Mapping[str, str],
    spark: Mapping[str, str] | None = None,
    *,
    create: bool = True,
) -> Catalog | None:
    """Open a catalog.

    ``options``: the keys ``catalog.…`` of the job file, without the prefix. ``spark``: its section ``[spark]``.

    Returns: ``None`` if there is no catalog yet and ``create`` is false.
    Raises: UsageError for a catalog that PyIceberg cannot open; SinkFault if it does not respond
    """
    kind = _kind(options)
    module, class_name, package = _PYTHON[kind]
    found = properties(warehouse, options, spark or {})
    if kind == "jdbc":
        file = sqlite_file(warehouse, options)
        if file is not None and not create and not file.exists():
            return None
        if file is not None and create:
            with suppress(OSError):  # opening the catalog reports the error
                file.parent.mkdir(parents=True, exist_ok=True)
        uri, package = _sql_uri(warehouse, options)
        found |= {"uri": uri, "init_catalog_tables": "true" if create else "false"}
    elif "uri" in options:
        found["uri"] = options["uri"]
    if os.environ.get(STORE_AUTHORITY):
        found.setdefault("py-io-impl", _WITH_AUTHORITY)
    more: dict[str, Any] = {"ssl": {"cabundle": options[_AUTHORITY]}} if _AUTHORITY in options else {}
    tries = _TRIES if kind == "jdbc" and create else 1
    for left in reversed(range(tries)):
        try:
            catalog: Catalog = getattr(import_module(module), class_name)(name, **found, **more)
            if kind != "jdbc" or create or _has_tables(catalog):
                return catalog
            catalog.close()
            return None
        except ImportError as error:
            install = f"pip install '{package or 'pyiceberg'}'"
            message = f"the catalog {name!r} of type {kind} needs a package that is missing: {install}"
            raise UsageError(message) from error
        except Exception as error:
            if not left:  # another process may have created the catalog's own tables at the same time
                raise SinkFault(f"the catalog {name!r} cannot be opened: {reason(error)}") from error
    raise AssertionError


def _has_tables(catalog: Any) -> bool:
    """Whether a JDBC catalog is complete. Another process may be creating its tables, one by one."""
    from sqlalchemy import inspect

    found = inspect(catalog.engine)
    return all(found.has_table(name) for name in _CATALOG_TABLES)


def check_catalog(options: Mapping[str, str]) -> None:
    """Raises: UsageError for a catalog that PyIceberg cannot open"""
    if _kind(options) == "jdbc":
        _sql_uri("", options)


def properties(warehouse: str, options: Mapping[str, str], spark: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg's properties: options of Java's client with the same name, and the S3 settings of Spark's Hadoop."""
    of_hadoop = {key.removeprefix("spark.hadoop.fs.s3a."): text for key, text in spark.items()}
    found = {name: of_hadoop[key] for key, name in _HADOOP_S3.items() if of_hadoop.get(key)}
    found |= {key: text for key, text in options.items() if key not in _JAVA_ONLY and not key.startswith("jdbc.")}
    if found.get("s3.path-style-access", "").lower() == "false" and "s3.endpoint" in found:
        found["s3.force-virtual-addressing"] = "true"
    if "client.region" in found:
        found.setdefault("s3.region", found["client.region"])
    return {"warehouse": warehouse, **found}


def sqlite_file(warehouse: str, options: Mapping[str, str]) -> Path | None:
    """The file of a catalog on SQLite; ``None``: another kind of catalog."""
    uri = _jdbc_uri(warehouse, options)
    if not uri.startswith("jdbc:sqlite:"):
        return None
    path = uri.removeprefix("jdbc:sqlite:").partition("?")[0]
    return None if path == ":memory:" else Path(path.removeprefix("file:"))


def moved_away(file: str) -> str:
    """The error text for a metadata file that the catalog lists and that is gone, with the cure."""
    return (
        f"the catalog refers to {file}, which does not exist: the file was removed, or the warehouse was moved, which "
        "Iceberg's absolute paths do not allow; move the warehouse back to that path, or restore the lake from a backup"
    )


def reason(error: Exception) -> str:
    """The message of an error from PyIceberg or a library below it, on one line."""
    if isinstance(error, OSError) and error.strerror:
        return os_reason(error)
    if isinstance(error, OSError) and any(code in str(error) for code in _CURL):
        return f"{error}; does {STORE_AUTHORITY} in the environment name the authority of the store's certificate?"
    text = str(error).strip().partition("\n")[0]
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__) + _advice(type(error).__name__, text)


def _advice(kind: str, text: str) -> str:
    """What to set after an error of PyIceberg; ``""``: the error says it."""
    if kind == "OAuthError":
        return "; does [sink] catalog.credential have the id and the secret, and catalog.scope what the server allows?"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        variable = next(filter(os.environ.get, _STRONGER), None)
        named = f"[sink] catalog.{_AUTHORITY}" if variable is None else f"{variable} in the environment"
        wins = "" if variable is None else f" It wins over [sink] catalog.{_AUTHORITY}"
        return f"; does {named} name the authority of the catalog's certificate?{wins}"
    return ""


def _kind(options: Mapping[str, str]) -> str:
    named = options.get("catalog-impl")
    kind = _CLASSES.get(named, named) if named else options.get("type", "jdbc").lower()
    if kind not in _PYTHON:
        what = f"catalog.catalog-impl = {named!r}" if named else f"catalog.type = {kind!r}"
        raise UsageError(
            f"[sink] {what}: PyIceberg, which keeps the state of the job in the catalog, cannot open it; allowed: "
            f"{', '.join(_PYTHON)}. Nessie and most other catalogs also speak Iceberg's REST protocol: "
            '"catalog.type" = "rest" and "catalog.uri"'
        )
    return kind


def _jdbc_uri(warehouse: str, options: Mapping[str, str]) -> str:
    if "uri" not in options and _kind(options) == "jdbc":
        return f"jdbc:sqlite:{warehouse.removeprefix('file://').removeprefix('file:')}/catalog.db"
    return options.get("uri", "")


def _sql_uri(warehouse: str, options: Mapping[str, str]) -> tuple[str, str]:
    """SQLAlchemy's URI of a JDBC catalog, and the package with its driver. Raises: UsageError"""
    file = sqlite_file(warehouse, options)
    if file is not None:
        return f"sqlite:///{quote(str(file))}?timeout={_BUSY_SECONDS}", "pyiceberg[sql-sqlite]"
    database, _, rest = _jdbc_uri(warehouse, options).removeprefix("jdbc:").partition("://")
    if database not in _DRIVERS or not rest:
        raise UsageError(
            f"[sink] catalog.uri: PyIceberg, which keeps the state of the job in the catalog, cannot open "
            f"{options.get('uri', '')!r}; allowed: jdbc:sqlite:, {', '.join(f'jdbc:{name}://' for name in _DRIVERS)}"
        )
    driver, package = _DRIVERS[database]
    place, _, query = rest.partition("?")
    given = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
    user = options.get("jdbc.user") or given.get("user", "")
    password = options.get("jdbc.password") or given.get("password", "")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    kept = {key: text for key, text in given.items() if database == "postgresql" and key in _OF_BOTH}
    return f"{driver}://{login}{place}{'?' + urlencode(kept) if kept else ''}", package
