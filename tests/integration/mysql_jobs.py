"""Jobs that write to a MySQL sink, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.spark.simple_topic import topic
from tests.support.mariadb_server import Server
from ticdc_spark.model import Change


def write_job(folder: Path, target: Server, job: str = "", sink: str = "", more: str = "") -> Path:
    """A job that reads the topic of a folder. ``job``, ``sink``: lines of these sections; ``more``: other sections."""
    file = folder / "job.toml"
    file.write_text(
        f'[job]\nname = "{folder.name}"\n{job}\n[source]\nkind = "files"\npath = "{folder / "topic"}"\n'
        f'protocol = "simple"\n[sink]\nkind = "mysql"\nuri = "{target.uri}"\n{sink}\n{more}\n'
    )
    return file


def job_of(folder: Path, target: Server, events: Iterable[Change], job: str = "", sink: str = "") -> Path:
    """A job with a topic, on a server without copies."""
    target.execute("DROP DATABASE IF EXISTS s", "DROP DATABASE IF EXISTS _ticdc_spark")
    topic(folder, events)
    return write_job(folder, target, job, sink)
