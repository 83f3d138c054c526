"""Fetches the jars of every kind of job into TICDC_SPARK_IVY, so that a start needs no network.

The arguments are Maven coordinates that jobs may name in "spark.jars.packages". Each set of packages is fetched
without them and with all of them: a job finds its jars if it names none, or exactly these.
"""

import shutil
import sys
from collections.abc import Sequence
from itertools import product

from ticdc_spark.config.job import DeltaConfig, FilesSource, IcebergConfig, KafkaSource
from ticdc_spark.sinks.registry import SINKS
from ticdc_spark.spark.session.jars import ivy_folder, resolve_jars
from ticdc_spark.spark.session.session import coordinates
from ticdc_spark.spark.sources.open import parts as source_parts

_SINKS = (
    IcebergConfig(warehouse="lake"),
    IcebergConfig(warehouse="lake", catalog_options={"type": "rest"}),
    DeltaConfig(warehouse="lake"),
)
"""One for each set of jars. The sinks of databases need none."""
_SOURCES = (KafkaSource(bootstrap_servers="broker:9092", topics=("shop",)), FilesSource(path="topic"))


def requests(extra: Sequence[str]) -> list[list[str]]:
    """The sets of packages that jobs ask for."""
    sinks = [[], *(SINKS[str(sink.__struct_config__.tag)].parts(sink) for sink in _SINKS)]
    sources = [source_parts(source) for source in _SOURCES]
    own = [list(coordinates(*sink, *source)) for sink, source in product(sinks, sources)]
    return [each for each in (*own, *([*one, *extra] for one in own if extra)) if each]


def main() -> None:
    """Fetch them."""
    for packages in requests(sys.argv[1:]):
        jars = resolve_jars(packages, {})
        print(f"{len(jars)} jars: {', '.join(packages)}", flush=True)
    # Ivy has each jar twice: in its cache, and in the folder that jobs read.
    shutil.rmtree(ivy_folder() / "cache")


if __name__ == "__main__":
    main()
