"""``python -m tests.support.prepare``: archive the classes of the JVMs that tests start as processes.

A run of all tests starts more than a hundred. With an archive, each is ready in about half the time.
"""

import sys
from collections.abc import Sequence

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.sinks.iceberg.kind import EXTENSIONS
from ticdc_spark.spark.session.prepare import archive_classes
from ticdc_spark.spark.session.session import Part, archive_of, coordinates

_OPTIONS = {"spark.sql.extensions": EXTENSIONS}
_PARTS: Sequence[Sequence[Part]] = (("iceberg", "sqlite", "kafka"), ("iceberg", "sqlite"))
"""Of jobs that read Kafka, and of those that read files."""


def main() -> None:
    """Archive them, if they are not. Without an archive the tests only take longer."""
    for parts in _PARTS:
        packages = coordinates(*parts)
        try:
            if archive_of(_OPTIONS, packages).find() is None:
                archive_classes("tests", _OPTIONS, packages)
        except EnvironmentFault as fault:
            sys.stderr.write(f"no archive of the JVM's classes: {fault}\n")


if __name__ == "__main__":
    main()
