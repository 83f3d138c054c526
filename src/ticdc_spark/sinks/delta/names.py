"""The folders of a Delta sink; needs no Spark."""

import re

from ticdc_spark.names import escape

OURS = "_ticdc_spark"
"""The folder for what a job keeps beside its tables."""
_FOLDER = re.compile(r"[^A-Za-z0-9_ -]")


def folder_of(name: str) -> str:
    """The folder of a database or table: a name that every store accepts."""
    return _FOLDER.sub(lambda match: f"_x{ord(match[0]):x}_", escape(name))
