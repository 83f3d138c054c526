"""Where the tables of a catalog keep their files, and which folders are inside a location.

Locations are compared as folders, however they are spelt. If in doubt, two spellings are treated as the same folder:
then at worst a file is kept too long.
"""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any
from urllib.parse import unquote

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError

from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.java import to_dict
from ticdc_spark.sinks.upkeep import FilePlace
from ticdc_spark.spark.sql import quote

_OWN_FOLDERS = ("write.data.path", "write.folder-storage.path", "write.object-storage.path", "write.metadata.path")
"""Properties that name a folder of a table's files."""
_ALIKE = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
    "hdfs": "file",
    "viewfs": "file",
}
"""Schemes of the same store. A cluster may have several names; a path without a scheme may be on it or on a disk."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
_AT_ONCE = 8
"""Tables that are loaded concurrently: with an object store, each needs a request."""


def places_in(location: str, places: Iterable[FilePlace]) -> list[FilePlace]:
    """The places that are ``location`` or are inside it."""
    store, folder = _folder_of(location)
    found = []
    for place in places:
        other_store, other = _folder_of(place.location)
        if other_store == store and f"{other}/".startswith(f"{folder.rstrip('/')}/"):
            found.append(place)
    return found


@cache  # called again for each table that is cleaned
def _folder_of(location: str) -> tuple[str, str]:
    """A location as (store, absolute path), the same for all its spellings."""
    split = _SCHEME.fullmatch(location)
    scheme, authority, path = ("file", "", location) if split is None else (split[1], split[2] or "", split[3])
    store = _ALIKE.get(scheme.lower(), scheme.lower())
    path = "/" + re.sub("/+", "/", unquote(path)).strip("/")
    if store == "file":
        return store, os.path.realpath(posixpath.normpath(path))
    return f"{store}://{authority.lower().replace('.blob.', '.dfs.')}", path


def table_places(
    owner: str, location: str, properties: Mapping[str, str], metadata_file: str | None = None
) -> list[FilePlace]:
    """Every folder with files of a table, by its metadata. ``metadata_file``: the current one."""
    root = location.rstrip("/")
    folders = [location, f"{root}/data", f"{root}/metadata"]
    folders += [properties[name] for name in _OWN_FOLDERS if properties.get(name)]
    if metadata_file:
        folders.append(metadata_file.rpartition("/")[0])
    return [FilePlace(owner, folder) for folder in dict.fromkeys(folders)]


def catalog_places(catalog: IcebergCatalog) -> list[FilePlace]:
    """The folders of all tables and views in all namespaces of a catalog, and the catalog's warehouse.

    Raises: SinkFault, also if one of them cannot be read
    """
    java = catalog.java_catalog
    gateway = catalog.spark.sparkContext._gateway
    has_views = is_instance_of(gateway, java, "org.apache.iceberg.catalog.ViewCatalog")

    def table(identifier: Any) -> list[FilePlace]:
        name = _sql_name(catalog, identifier)
        with faults(f"{name} cannot be read, so the folders of its files are not known"):
            loaded = _if_there(java.loadTable, identifier)
            if loaded is None:
                return []
            metadata = loaded.operations().current().metadataFileLocation()
            properties = to_dict(catalog.iceberg, loaded.properties())
            return table_places(name, str(loaded.location()), properties, metadata)

    def view(identifier: Any) -> list[FilePlace]:
        name = _sql_name(catalog, identifier)
        with faults(f"{name} cannot be read, so the folders of its files are not known"):
            loaded = _if_there(java.loadView, identifier)
            return [] if loaded is None else table_places(name, str(loaded.location()), {})

    tables, views = [], []
    with faults(f"catalog {catalog.name!r} cannot be listed"):
        for namespace in _namespaces(java, java.listNamespaces()):
            tables += list(java.listTables(namespace))
            views += list(java.listViews(namespace)) if has_views else []
    with ThreadPoolExecutor(_AT_ONCE, "places") as pool:
        found = [place for places in (*pool.map(table, tables), *pool.map(view, views)) for place in places]
    return [*found, FilePlace("the catalog", catalog.warehouse)]


def _namespaces(java_catalog: Any, of: Iterable[Any]) -> Iterator[Any]:
    """Namespaces, each followed by the namespaces inside it."""
    for namespace in of:
        yield namespace
        yield from _namespaces(java_catalog, java_catalog.listNamespaces(namespace))


def _if_there(load: Any, identifier: Any) -> Any:
    """The loaded object; ``None``: it was dropped meanwhile, or is not an Iceberg table."""
    try:
        return load(identifier)
    except Py4JJavaError as error:
        if str(error.java_exception.getClass().getSimpleName()).startswith("NoSuch"):
            return None
        raise


def _sql_name(catalog: IcebergCatalog, identifier: Any) -> str:
    return ".".join(quote(str(part)) for part in (catalog.name, *identifier.namespace().levels(), identifier.name()))
