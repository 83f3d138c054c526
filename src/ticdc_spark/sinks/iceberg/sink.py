"""The sink ``kind = "iceberg"``."""

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from ticdc_spark.config.job import IcebergConfig
from ticdc_spark.config.values import WriterName
from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.base import Applied, NetChanges, NewestChanges
from ticdc_spark.sinks.iceberg.changelog import IcebergChangeLog
from ticdc_spark.sinks.iceberg.rows.net_changes import apply_net_changes
from ticdc_spark.sinks.iceberg.rows.newest_changes import apply_newest
from ticdc_spark.sinks.iceberg.unreadable import unreadable_rows
from ticdc_spark.sinks.iceberg.upkeep import IcebergUpkeep
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.states import open_state
from ticdc_spark.spark.decode.log_files import LogScan
from ticdc_spark.spark.decode.rows import BadRow
from ticdc_spark.spark.decode.versions import ReadPlan


class IcebergSink(IcebergUpkeep):
    """Iceberg tables with their change log. See ``sinks.base.Sink``."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        warehouse: str,
        properties: Mapping[str, str],
        options: Mapping[str, str],
        writer: WriterName = "python",
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        """``options``: those of the catalog; each session that writes gets them.

        ``writer``: what writes and reads files. ``python`` has an effect where Python can open the warehouse;
        elsewhere it is always Spark. ``fence``: called before each commit; raises where the job must not write
        any more.
        """
        super().__init__(spark, catalog, warehouse, properties, options, fence)
        self.writer: WriterName = writer
        self._log: IcebergChangeLog | None = None

    @property
    def opened_changelog(self) -> IcebergChangeLog:
        """The change log that was opened."""
        assert self._log is not None, "the change log is opened before rows of it are applied"
        return self._log

    def changelog(self, job: str) -> IcebergChangeLog:
        try:
            self._log = IcebergChangeLog(self.spark, self.catalog, job, self.writer, self.fence, self.storages)
        except SinkFault as fault:
            # The first that is written to the warehouse: what is wrong with it, or with its credentials, shows here.
            message = f"warehouse {self.warehouse}: {fault}"
            raise SinkFault(message) from fault
        return self._log

    def state(self, job: str) -> StateStore:
        prefix = f"spark.sql.catalog.{self.catalog}."
        options = {key.removeprefix(prefix): text for key, text in self.options.items() if key.startswith(prefix)}
        config = IcebergConfig(warehouse=self.warehouse, catalog=self.catalog, catalog_options=options)
        return open_state(config, job, dict(self.spark.sparkContext.getConf().getAll()))

    def apply_net_changes(self, changes: NetChanges) -> Applied:
        return apply_net_changes(self, self.opened_changelog, changes)

    def apply_newest(self, changes: NewestChanges) -> Applied:
        return apply_newest(self, self.opened_changelog, changes)

    def unreadable_rows(self, scan: LogScan, plan: ReadPlan, limit: int) -> list[BadRow]:
        with self.session() as session:
            return unreadable_rows(self.opened_changelog, session, scan, plan, limit)
