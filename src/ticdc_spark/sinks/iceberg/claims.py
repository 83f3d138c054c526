"""Claims as tables of the catalog, which is what makes them one process's: a catalog creates a table once.

Changes of a table would not do. A REST catalog puts properties of two writers on top of each other.
"""

from typing import Any
from zlib import crc32

from py4j.protocol import Py4JJavaError

from ticdc_spark.names import unescape
from ticdc_spark.sinks.iceberg.catalog import NAMESPACE, IcebergCatalog
from ticdc_spark.sinks.iceberg.faults import faults

_TEXT = "ticdc.claim"
_PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


class IcebergClaims:
    """See ``sinks.claims.Claims``: tables ``_ticdc_spark.lease_<job>_<number>``, without rows."""

    def __init__(self, catalog: IcebergCatalog, job: str) -> None:
        self._catalog = catalog
        # Some catalogs fold names: then two jobs whose names differ by case alone must still differ.
        own = "" if job == job.lower() else f"_{crc32(job.encode()):08x}"
        self._prefix = f"lease_{job.lower()}{own}_"
        self.where = f"{catalog.name}.{NAMESPACE}.{self._prefix}* (warehouse {catalog.warehouse})"

    def newest(self) -> int:
        return max(self._numbers(), default=0)

    def read(self, number: int) -> str | None:
        with self._faults("read"):
            found = self._catalog.find_table(self._name(number))
            text = None if found is None else found.properties().get(_TEXT)
        return None if text is None else str(text)

    def make(self, number: int, text: str) -> bool:
        catalog = self._catalog
        with self._faults("made"):
            catalog.create_database(NAMESPACE)
            properties = catalog.java.util.HashMap()
            for key, value in (_PROPERTIES | {_TEXT: text}).items():
                properties.put(key, value)
            spec = catalog.iceberg.PartitionSpec.unpartitioned()
            schema = catalog.iceberg.SchemaParser.fromJson(_SCHEMA)
            try:
                catalog.java_catalog.createTable(catalog.identifier(self._name(number)), schema, spec, properties)
            except Py4JJavaError as error:
                if _kind(error) != "AlreadyExistsException":
                    raise
                return False
        return True

    def write(self, number: int, text: str) -> bool:
        with self._faults("written"):
            found = self._catalog.find_table(self._name(number))
            if found is None:
                return False
            try:
                found.updateProperties().set(_TEXT, text).commit()
            except Py4JJavaError as error:
                if _kind(error) != "NoSuchTableException":
                    raise
                return False
        return True

    def remove(self, number: int) -> None:
        with self._faults("removed"):
            name = self._catalog.identifier(self._name(number))
            try:
                self._catalog.java_catalog.dropTable(name, True)
            except Py4JJavaError:  # Not every catalog removes files.
                self._catalog.java_catalog.dropTable(name, False)

    def remove_before(self, number: int) -> None:
        for one in self._numbers():
            if one < number:
                self.remove(one)

    def _numbers(self) -> list[int]:
        catalog = self._catalog
        with self._faults("listed"):
            try:
                names = [
                    unescape(str(one.name())) for one in catalog.java_catalog.listTables(catalog.namespace(NAMESPACE))
                ]
            except Py4JJavaError as error:
                if _kind(error) != "NoSuchNamespaceException":
                    raise
                return []
        ends = [name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix)]
        return [int(end) for end in ends if end.isdecimal()]

    def _name(self, number: int) -> tuple[str, str]:
        return NAMESPACE, f"{self._prefix}{number}"

    def _faults(self, what: str) -> Any:
        return faults(f"the lease {self.where} cannot be {what}")


_SCHEMA = '{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"nothing","required":false,"type":"string"}]}'


def _kind(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getSimpleName())
