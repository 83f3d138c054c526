"""The command that creates the changefeed of a new job in TiCDC, starting at the job's first load.

Flags and parameters: pingcap/docs, page ticdc-changefeed-config, "CLI and Configuration Parameters" (v8.4).
"""

import json
import re
import shlex
from collections.abc import Sequence
from contextlib import closing
from urllib.parse import quote

import msgspec

from ticdc_spark.capture.snapshot.base import SnapshotReader
from ticdc_spark.capture.snapshot.open import open_reader
from ticdc_spark.config.job import Job, KafkaSource
from ticdc_spark.errors import UsageError
from ticdc_spark.mysql import tso_time
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.state.store import progress_of
from ticdc_spark.topics.client_options import SECURITY

CONFIG = "changefeed.toml"
"""The file with the filter of the changefeed."""


class CdcCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How a changefeed is created."""

    start_ts: int
    """The commitTs from which it sends changes."""
    words: tuple[str, ...]
    """The command and its arguments."""
    config: str
    """The content of ``CONFIG``; ``""``: the file is not needed."""
    notes: tuple[str, ...]
    """One sentence each."""

    def script(self) -> str:
        """The notes, the file and the command as a shell script."""
        lines = [f"# {note}" for note in self.notes]
        if self.config:
            lines += [f"cat > {CONFIG} <<'END'", *self.config.splitlines(), "END"]
        return "\n".join([*lines, " \\\n    ".join([" ".join(self.words[:4]), *map(shlex.quote, self.words[4:])])])


def cdc_command(job: Job, server: str) -> CdcCommand:
    """The command for a job that has not run yet. ``server``: the address of TiCDC.

    Raises: UsageError if TiCDC cannot create the changefeed of the job, or the job has run; SourceFault, SinkFault
    """
    source, keys = job.source, job.snapshot
    if not isinstance(source, KafkaSource) or source.topics is None or len(source.topics) != 1:
        raise UsageError(f"{job.file}: [source]: name one topic of Kafka with `topics`; the changefeed sends to it")
    if keys is None:
        raise UsageError(f"{job.file}: [snapshot]: missing; it names the database or the dump that the job reads first")
    parameters = _parameters(job)
    known = progress_of(job)
    if known is not None and known.batch:
        raise UsageError(
            f"{job.file}: the job has run already, and a topic serves only one changefeed. Use another topic and "
            "another `name` under [job] for a new changefeed"
        )
    with closing(open_reader(keys)) as reader:
        start, whence = _start(job, reader)
    words = ["cdc", "cli", "changefeed", "create", f"--server={server}", f"--changefeed-id={_id(job.name)}"]
    words += [f"--start-ts={start}"] + ([f"--config={CONFIG}"] if job.tables else [])
    words.append(f"--sink-uri=kafka://{source.bootstrap_servers}/{quote(source.topics[0])}?{parameters}")
    return CdcCommand(
        start_ts=start, words=tuple(words), config=_config(job.tables), notes=(whence, *_notes(source.options))
    )


def _parameters(job: Job) -> str:
    """The query of the sink URI. Raises: UsageError"""
    named = PROTOCOLS.get(job.source.protocol or "")
    if named is None:
        raise UsageError(f"{job.file}: [source] protocol: missing; the changefeed needs it")
    if named.traits.watermarks == "never" or named.traits.registry:
        raise UsageError(
            f"{job.file}: [source] protocol: {named.name} has no watermarks, which [snapshot] needs; "
            'use another one, such as "simple"'
        )
    extension = "&enable-tidb-extension=true" if named.traits.watermarks == "optional" else ""
    return f"protocol={(*named.aliases, named.name)[0]}{extension}"  # TiCDC does not know every short name


def _start(job: Job, reader: SnapshotReader) -> tuple[int, str]:
    """Where the changefeed begins, and one sentence about it. Raises: UsageError, SourceFault"""
    if reader.fixed is not None:
        return reader.fixed, f"start-ts is the TSO of the dump ({tso_time.utc(reader.fixed)})"
    if not reader.exact:
        raise UsageError(
            f"{job.file}: [snapshot] upstream is no TiDB, but TiCDC only reads TiDB. For MySQL and MariaDB, "
            "`ticdc-spark changefeed` sends the changes"
        )
    now = reader.now()
    return now, f"start-ts is the time of TiDB now ({tso_time.utc(now)})"


def _id(name: str) -> str:
    """A changefeed's id: letters and digits, with single hyphens between."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "ticdc-spark"


def _config(tables: Sequence[str]) -> str:
    rules = ", ".join(json.dumps(rule, ensure_ascii=False) for rule in tables)
    return f"[filter]\nrules = [{rules}]\n" if tables else ""


def _notes(options: dict[str, str]) -> list[str]:
    if not any(key.removeprefix("kafka.").startswith(SECURITY) for key in options):
        return []
    return [
        "the brokers need TLS or a login: add enable-tls, ca, sasl-mechanism, sasl-user or sasl-password to sink-uri"
    ]
