"""A state in an object store: its files, and the lease beside them, by conditional writes."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias
from uuid import uuid4

import msgspec
import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore, from_url

from ticdc_spark.config.state import StateUri
from ticdc_spark.config.toml import nearest
from ticdc_spark.errors import SinkFault, StateFault, UsageError
from ticdc_spark.replicate.state.lease_store import LeaseRecord, LeaseStore

if TYPE_CHECKING:
    from obstore import UpdateVersion
    from obstore.store import ClientConfig

Version: TypeAlias = str
"""Of an object: its ETag; on Google's store its generation."""
TIMEOUT = "10s"
_METADATA = "169.254.169.254"
"""Where a machine of a cloud has its role's keys; asked where there are no others."""
_NO_KEYS = (
    "; no keys are given: with a `state.…` option under [job], nothing is taken of the lake's catalog; name "
    "`state.access_key_id` and `state.secret_access_key` too, or AWS_… in the environment"
)
_OPTIONS = ("endpoint", "access_key_id", "secret_access_key", "session_token", "region", "account_name", "account_key")
"""Of obstore's options, those that jobs name; others work too."""
_RETRIES, _RETRY_FOR = 2, timedelta(seconds=15)  # less than a lease is good for


class ObjectPlace:
    """See ``Place``: objects under a prefix, which can also be replaced on condition of their version.

    Errors are ``StateFault``, which a job that has begun waits out; ``UsageError`` for options that do not fit.
    """

    def __init__(self, state: StateUri) -> None:
        """Raises: UsageError"""
        self._uri = state.uri
        self._by: Literal["e_tag", "version"] = "version" if state.uri.startswith("gs:") else "e_tag"
        self._store = _open(state)
        self._last: dict[str, tuple[Version | None, bytes | None]] = {}
        """Of what was read or replaced here: its version, and what a write whose answer is not known was to bring."""

    def where(self, name: str) -> str:
        return f"{self._uri}/{name}"

    def read(self, name: str) -> bytes | None:
        found = self.read_version(name)
        self._last[name] = (None if found is None else found[1]), None
        return None if found is None else found[0]

    def replace(self, name: str, data: bytes) -> None:
        """See ``Place``. Raises: StateFault also where somebody else, or an older write of this process that the store
        was slow to do, has replaced it since it was read or replaced here"""
        if name not in self._last:
            self.read(name)
        version, tried = self._last[name]
        self._last[name] = version, data
        new = self.swap(name, version, data)
        if new is None:
            there = self.read_version(name)
            if there is not None and tried is not None and there[0] == tried:
                new = self.swap(name, there[1], data)
        if new is None:
            raise StateFault(f"{self.where(name)} was replaced by somebody else meanwhile")
        self._last[name] = new, None

    def overwrite(self, name: str, data: bytes) -> None:
        try:
            obstore.put(self._store, name, data)
        except (BaseError, OSError) as error:
            raise self._fault(name, "written", error) from error

    def names(self, folder: str) -> list[str]:
        """See ``Place``. Raises: StateFault"""
        try:
            return [one["path"] for page in obstore.list(self._store, folder) for one in page]
        except (BaseError, OSError) as error:
            raise self._fault(folder, "listed", error) from error

    def read_version(self, name: str) -> tuple[bytes, Version] | None:
        """An object and its version; ``None`` when it is not there. Raises: StateFault"""
        try:
            found = obstore.get(self._store, name)
            data, version = bytes(found.bytes()), found.meta[self._by]
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise StateFault(f"{self._uri}: there is no such bucket") from error
            return None
        except (BaseError, OSError) as error:
            raise self._fault(name, "read", error) from error
        if not version:
            raise StateFault(f"{self.where(name)} has no version (ETag): keep `state` under [job] on a disk")
        return data, version

    def swap(self, name: str, version: Version | None, data: bytes) -> Version | None:
        """Replace an object if it still has this version (``None``: if there is none); return the new version, or
        ``None``. Raises: StateFault"""
        try:
            if version is None:
                put = obstore.put(self._store, name, data, mode="create")
            else:
                wanted: UpdateVersion = {"version": version} if self._by == "version" else {"e_tag": version}
                put = obstore.put(self._store, name, data, mode=wanted)
        except FileNotFoundError as error:
            if version is None:
                raise self._fault(name, "written", error) from error
            return None
        except (AlreadyExistsError, PreconditionError):
            # A request whose answer was lost is sent again, and then finds its own object.
            there = self.read_version(name)
            return there[1] if there is not None and there[0] == data else None
        except (BaseError, OSError) as error:
            raise self._fault(name, "written", error) from error
        return put[self._by] or ""

    def remove(self, name: str) -> None:
        """See ``Place``. Raises: StateFault"""
        try:
            obstore.delete(self._store, name)
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise self._fault(name, "removed", error) from error

    def _fault(self, name: str, what: str, error: Exception) -> StateFault:
        text = first_line(error)
        hint = _NO_KEYS if _METADATA in text else ""
        return StateFault(f"{self.where(name)} cannot be {what}: {text}{hint}")


@lru_cache(maxsize=16)
def _open(state: StateUri) -> ObjectStore:
    options = dict(state.options)
    client: ClientConfig = {"timeout": TIMEOUT, "connect_timeout": TIMEOUT}
    named = [text for name, text in (*os.environ.items(), *options.items()) if "endpoint" in name.lower()]
    allowed = (options.pop("allow_http", ""), os.environ.get("AWS_ALLOW_HTTP", ""))
    if "true" in allowed or any(text.startswith("http://") for text in named):
        client["allow_http"] = True
    try:
        opened: ObjectStore = from_url(
            state.uri,
            config=options,  # type: ignore[call-overload]  # names by the job file; obstore refuses unknown ones
            client_options=client,
            retry_config={"max_retries": _RETRIES, "retry_timeout": _RETRY_FOR},
        )
        return opened
    except BaseException as error:
        # Some options of others than the store, such as `timeout`, end in a panic there.
        if not isinstance(error, BaseError | ValueError | TypeError) and type(error).__name__ != "PanicException":
            raise
        names = ", ".join(f"state.{name}" for name in sorted(options))
        message = f"[job] state: {state} cannot be opened: {first_line(error)}{_near(error)}"
        raise UsageError(f"{message} (options: {names or 'none'})") from error


def _near(error: BaseException) -> str:
    unknown = re.search(r"Configuration key: '([^']*)' is not valid", str(error))
    return nearest(unknown[1], _OPTIONS).replace("mean `", "mean `state.") if unknown else ""


_XML = re.compile(r"<\?xml.*", re.DOTALL)


def first_line(error: BaseException) -> str:
    """The error's first line, with the code and the text of an answer in XML."""
    text = str(error).strip() or type(error).__name__
    answer = _XML.search(text)
    if answer:
        said = [
            found[1]
            for tag in ("Code", "Message")
            if (found := re.search(f"<{tag}>(.*?)</{tag}>", answer[0], re.DOTALL))
        ]
        text = " ".join([text[: answer.start()].strip(), " - ".join(said)])
    return text.splitlines()[0].strip().rstrip(".")


class ObjectLeaseStore:
    """A lease in an object store, beside the state: ``<state>/<catalog>.<job>.lease.json``.

    Swapped by the store's conditional writes. What a store does that ignores their conditions is tried before the
    lease is taken.
    """

    def __init__(self, place: ObjectPlace, catalog: str, job: str) -> None:
        self._place = place
        self._name = f"{catalog}.{job}.lease.json"
        self._tried = False
        self.earlier: LeaseStore | None = None
        self.where = place.where(self._name)

    def read(self) -> tuple[LeaseRecord | None, bytes]:
        with _sink_faults():
            found = self._place.read_version(self._name)
        if found is None:
            return None, b""
        try:
            return msgspec.json.decode(found[0], type=LeaseRecord), found[1].encode()
        except msgspec.DecodeError as error:
            message = f"the lease {self.where} cannot be read: {error}"
            raise SinkFault(message) from error

    def swap(self, version: bytes, record: LeaseRecord) -> bytes | None:
        with _sink_faults():
            now = self._place.swap(self._name, version.decode() or None, msgspec.json.encode(record))
        return None if now is None else now.encode()

    def hold(self) -> bool:
        """See ``LeaseStore``. Raises: SinkFault also where the store ignores the conditions of a write."""
        if not self._tried:
            with _sink_faults():
                self._try()
            self._tried = True
        return True

    def _try(self) -> None:
        name = f"{self._name}.{uuid4().hex}.probe"
        first = self._place.swap(name, None, b"1")
        try:
            second = None if first is None else self._place.swap(name, first, b"2")
            if first is None or second is None:
                raise StateFault(f"{self._place.where(name)}, which nobody else knows, cannot be replaced")
            if self._place.swap(name, None, b"3") is not None or self._place.swap(name, first, b"4") is not None:
                message = (
                    f"{self._place.where('')} ignores conditions of writes (If-Match, If-None-Match), so a second run "
                    "of the job could not be kept out; keep `state` under [job] on a disk, or in another store"
                )
                raise SinkFault(message)
        finally:
            self._place.remove(name)

    def let_go(self) -> None: ...


@contextmanager
def _sink_faults() -> Iterator[None]:
    try:
        yield
    except StateFault as fault:
        message = f"the lease: {fault}"
        raise SinkFault(message) from fault
