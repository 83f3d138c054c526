"""Drops remembered files of tables that are gone, so that the memory of a long run does not grow."""

from collections.abc import Mapping

from ticdc_spark.model import TableName
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.sinks.upkeep import TableFiles


def live_files(files: Mapping[TableName, TableFiles], progress: Progress) -> dict[TableName, TableFiles]:
    """The files of the tables in a progress."""
    live = {table.full_name for table in progress.tables if not table.is_gone}
    return {name: made for name, made in files.items() if name in live}
