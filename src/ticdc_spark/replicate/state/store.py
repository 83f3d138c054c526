"""The state of a job: progress, plan and heartbeat, each a file that is replaced whole; and requests, a file each."""

import time
from pathlib import Path
from typing import Protocol, TypeVar, cast
from uuid import uuid4

import msgspec

from ticdc_spark.config.state import StateUri
from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.replicate.state.place import open_place
from ticdc_spark.replicate.state.progress import Plan, Progress, Status
from ticdc_spark.replicate.state.requests import Request, RequestStore

T = TypeVar("T")
_REQUESTS = "requests"
"""The folder of a state with the requests that wait."""


class ProgressStore(RequestStore, Protocol):
    """Where the progress of a job and the plan of the batch under way are kept, each replaced whole, and its requests.

    Raises: EnvironmentFault where it cannot be read or written.
    """

    def load(self) -> Progress | None:
        """Return the committed progress; ``None`` when there is none yet."""

    def save(self, progress: Progress) -> None:
        """Commit a progress; the plan that led to it is then over."""

    def load_plan(self) -> Plan | None:
        """Return the plan of a batch that may have been interrupted."""

    def save_plan(self, plan: Plan) -> None:
        """Fix a batch before it starts."""


class Store:
    """The state of a job, in a folder or an object store. A ``ProgressStore`` with the heartbeat beside it."""

    def __init__(self, state: Path | StateUri) -> None:
        """Raises: UsageError for an object store whose options do not fit"""
        self._place = open_place(state)
        self.pause = 1.0 if isinstance(state, Path) else 5.0
        """Seconds between two heartbeats, or two looks for requests."""

    def load(self) -> Progress | None:
        """Return the committed progress; ``None`` when there is none yet.

        Raises: EnvironmentFault when the file cannot be read as what it should be.
        """
        return self._read("progress.json", Progress)

    def save(self, progress: Progress) -> None:
        """Commit a progress; the plan that led to it is then over."""
        self._write("progress.json", progress)

    def load_plan(self) -> Plan | None:
        """Return the plan of a batch that may have been interrupted."""
        return self._read("plan.json", Plan)

    def save_plan(self, plan: Plan) -> None:
        """Fix a batch before it starts."""
        self._write("plan.json", plan)

    def load_status(self) -> Status | None:
        """Return the last heartbeat."""
        return self._read("status.json", Status)

    def save_status(self, status: Status) -> None:
        """Write a heartbeat."""
        self._place.overwrite("status.json", msgspec.json.encode(status))

    def requests(self) -> dict[str, Request]:
        names = sorted(self._place.names(_REQUESTS))
        kind, todo = cast(type[Request], Request), "; remove it, and give the command again"
        read = {name: self._read(name, kind, todo) for name in names}
        return {name: one for name, one in read.items() if one is not None}

    def ask(self, request: Request) -> None:
        name = f"{_REQUESTS}/{time.time_ns():020d}-{uuid4().hex[:8]}.json"
        self._place.overwrite(name, msgspec.json.encode(request))

    def remove_request(self, name: str) -> None:
        self._place.remove(name)

    def _read(self, name: str, kind: type[T], todo: str = "") -> T | None:
        data = self._place.read(name)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError as error:
            todo = todo or (
                ". Another version of ticdc-spark may have written it: run that one, or begin a new job with another "
                "name, another state and an empty lake"
            )
            message = f"{self._place.where(name)} cannot be read: {error}{todo}"
            raise EnvironmentFault(message) from error

    def _write(self, name: str, value: object) -> None:
        self._place.replace(name, msgspec.json.encode(value))
