"""Where a lease is kept: beside the job's tables, so that every run of the job finds it, whatever its state folder is.

Several jobs may write into one lake, each with a lease of its own. The stamps of their tables keep two jobs from
writing to one table (``apply.look``).
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

import msgspec

from ticdc_spark.config.paths import local_folder
from ticdc_spark.config.state import StateUri
from ticdc_spark.durable import replace_file
from ticdc_spark.errors import SinkFault
from ticdc_spark.replicate.state.place import need_obstore
from ticdc_spark.replicate.state.processes import Process, machine, process


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The process that holds a lease."""

    job: str
    host: str
    machine: str
    """Identifies this boot of this machine (or container) among others of the same host name."""
    process: Process
    jvm: Process | None = None
    """The JVM of its Spark driver: it can still commit when the process itself is gone."""
    label: str | None = None


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a store keeps."""

    owner: Owner
    epoch: int
    """Rises by one each time that the lease is taken."""
    heartbeat_at: float
    """Seconds since the epoch, by the owner's clock."""
    ttl: float
    released: bool = False


class LeaseStore(Protocol):
    """A place for one lease record with compare-and-swap.

    Those below serve a warehouse on a file system, and a state in an object store; ``target_lease`` has one that keeps
    the lease in a catalog.
    """

    where: str
    """The place, for messages."""
    earlier: "LeaseStore | None"
    """Where earlier versions kept the lease, of all jobs of the target together."""

    def read(self) -> tuple[LeaseRecord | None, bytes]:
        """Return the record and its version. Raises: SinkFault"""

    def swap(self, version: bytes, record: LeaseRecord) -> bytes | None:
        """Replace the record if it still has this version; return the new version, or ``None``. Raises: SinkFault"""

    def hold(self) -> bool:
        """Take what the store has against a second living process, for as long as this one lives.

        ``False``: another living process has it. ``True``: taken, or the store has no such thing.
        """

    def let_go(self) -> None:
        """Give up what ``hold`` took."""


class FileLeaseStore:
    """A lease in ``<warehouse>/_ticdc_spark/<catalog>.<job>.lease.json``.

    The record is replaced whole under a short lock; a second lock is held for the life of the process, so that a
    process that cannot be seen from here (another container on the same disk) still counts.
    """

    def __init__(self, warehouse: Path, catalog: str, job: str | None = None) -> None:
        """``job``: ``None`` for the one lease of a target, as earlier versions kept it."""
        self._folder = warehouse / "_ticdc_spark"
        self._path = self._folder / (f"{catalog}.lease.json" if job is None else f"{catalog}.{job}.lease.json")
        self.earlier: LeaseStore | None = None if job is None else FileLeaseStore(warehouse, catalog)
        self._held: IO[bytes] | None = None
        self.where = str(self._path)

    def read(self) -> tuple[LeaseRecord | None, bytes]:
        try:
            data = self._path.read_bytes()
            return msgspec.json.decode(data, type=LeaseRecord), data
        except FileNotFoundError:
            return None, b""
        except (OSError, msgspec.DecodeError) as error:
            message = f"the lease {self._path} cannot be read: {error}"
            raise SinkFault(message) from error

    def swap(self, version: bytes, record: LeaseRecord) -> bytes | None:
        data = msgspec.json.encode(record)
        try:
            with self._locked():
                if self.read()[1] != version:
                    return None
                replace_file(self._path, data)
        except OSError as error:
            message = f"the lease {self._path} cannot be written: {error}"
            raise SinkFault(message) from error
        return data

    def hold(self) -> bool:
        if self._held is not None:
            return True
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = self._path.with_suffix(".held").open("ab")
        except OSError as error:
            message = f"the lease {self._path} cannot be written: {error}"
            raise SinkFault(message) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        except OSError:
            # A file system without locks: the record and its heartbeat must do.
            file.close()
            return True
        self._held = file
        return True

    def let_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def lease_store(warehouse: str, catalog: str, job: str, state: Path | StateUri) -> LeaseStore:
    """The store of a job's lease that can be reached without Spark.

    Of a warehouse that is not on a file system, it lies beside the state, and so keeps out a second run with this
    state, but not one with another: that, the lease in the catalog does (``target_lease``).

    Raises: UsageError for an object store whose options do not fit, and without obstore
    """
    if isinstance(state, Path):
        return FileLeaseStore(local_folder(warehouse) or state, catalog, job)
    need_obstore(state)
    from ticdc_spark.replicate.state.objects import ObjectLeaseStore, ObjectPlace

    return ObjectLeaseStore(ObjectPlace(state), catalog, job)


def this_process(job: str, label: str | None = None) -> Owner:
    """The owner that this process is."""
    me = process(os.getpid())
    assert me is not None, "this process runs"
    return Owner(job=job, host=socket.gethostname(), machine=machine(), process=me, label=label)
