"""The lease of a target that is no folder: kept in its catalog, so that runs with other state folders find it, too."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from uuid import uuid4

import msgspec

from ticdc_spark.errors import SinkFault
from ticdc_spark.replicate.state.lease import Lease, acquire
from ticdc_spark.replicate.state.lease_store import LeaseRecord, LeaseStore
from ticdc_spark.sinks.claims import Claims

log = logging.getLogger(__name__)


class ClaimLeaseStore:
    """See ``LeaseStore``: a claim each time that the lease is taken, with a token of its maker and the record.

    Who has made the claim of the next epoch has the lease; what changes within an epoch, only its owner writes. The
    token shows whose claim it is, also where a person has removed one and another process has made it again.
    """

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._token = uuid4().hex
        self._mine: tuple[int, LeaseRecord, bytes] | None = None
        self.where = claims.where
        self.earlier: LeaseStore | None = None

    def read(self) -> tuple[LeaseRecord | None, bytes]:
        while True:
            newest = self._claims.newest()
            if not newest:
                return None, b""
            text = self._claims.read(newest)
            if text is None:
                continue  # The claim after it was made meanwhile.
            token, _, record = text.partition(" ")
            if self._mine is not None and (newest, token) == (self._mine[0], self._token):
                return self._mine[1:]  # also where the answer to its last change was lost
            return self._decoded(record), text.encode()

    def _decoded(self, text: str) -> LeaseRecord:
        try:
            return msgspec.json.decode(text, type=LeaseRecord)
        except msgspec.DecodeError as error:
            message = f"the lease {self.where} cannot be read: {error}"
            raise SinkFault(message) from error

    def swap(self, version: bytes, record: LeaseRecord) -> bytes | None:
        found, now = self.read()
        if now != version:
            return None
        data = msgspec.json.encode(record)
        epoch = record.epoch
        if found is not None and found.epoch == epoch:
            if not self._claims.write(epoch, self._text(data)):
                return None
        elif not self._make(epoch, self._text(data)):
            return None
        self._mine = epoch, record, data
        return data

    def _text(self, record: bytes) -> str:
        return f"{self._token} {record.decode()}"

    def _make(self, epoch: int, text: str) -> bool:
        # An answer may be lost, and a client that tries again by itself finds its own claim.
        try:
            made = self._claims.make(epoch, text) or self._claims.read(epoch) == text
        except SinkFault:
            if self._claims.read(epoch) != text:
                raise
            made = True
        if not made:
            return False
        newest = self._claims.newest()
        if newest == epoch:
            self._tidy(lambda: self._claims.remove_before(epoch))
            return True
        self._tidy(lambda: self._claims.remove(epoch))
        if newest < epoch:
            message = f"the lease {self.where} cannot be taken: the catalog does not list what was made there"
            raise SinkFault(message)
        return False  # Others had taken it twice since it was read, and removed what lay before.

    def _tidy(self, remove: Callable[[], None]) -> None:
        """What stays of older claims is in nobody's way."""
        try:
            remove()
        except SinkFault as fault:
            log.warning("%s", fault)

    def hold(self) -> bool:
        return True

    def let_go(self) -> None: ...


class Leases:
    """The leases of a run: that of the state folder or warehouse, and that of the target, once it can be reached. Use
    as a context manager."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self._target: Lease | None = None

    def take(self, claims: Claims | None, stop: threading.Event) -> None:
        """Take the lease of the target, unless this run has it. Raises: as ``acquire``"""
        if claims is None or self._target is not None:
            return
        store = ClaimLeaseStore(claims)
        self._target = acquire(store, self.lease.owner, stop=stop)
        log.info("lease: %s", store.where)

    def check(self) -> None:
        self.lease.check()
        if self._target is not None:
            self._target.check()

    def __enter__(self) -> "Leases":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._target is not None:
            self._target.release()
