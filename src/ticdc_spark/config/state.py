"""Where a job keeps its state: a folder, or a prefix of an object store."""

import re
from collections.abc import Mapping

import msgspec

SCHEMES = ("s3", "s3a", "gs", "abfs", "abfss", "az")
"""Schemes of the object stores that can hold a state."""

_CATALOG = {
    "s3.endpoint": "endpoint",
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "client.region": "region",
}
"""What Iceberg's S3FileIO is given, and obstore's name for it."""


class StateUri(msgspec.Struct, frozen=True):
    """A prefix of an object store."""

    uri: str
    options: tuple[tuple[str, str], ...] = ()
    """obstore's configuration of the store; secrets among them."""

    def __str__(self) -> str:
        return self.uri

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self.options)
        return f"StateUri({self.uri!r}, options: {names})"


def state_uri(text: str) -> StateUri:
    """Raises: ValueError for a scheme that cannot hold a state, without a bucket, and for what would not be part of
    the objects' names as it is written: ``?``, ``#``, ``%``, spaces, and segments such as ``..``"""
    scheme, _, rest = text.partition("://")
    bucket, *segments = rest.rstrip("/").split("/")
    account = "@" if scheme.startswith("abfs") else ""
    if scheme not in SCHEMES or not re.fullmatch(rf"[\w.:{account}-]+", bucket):
        raise ValueError
    if any(segment in ("", ".", "..") or re.search(r"[?#%\\\s]", segment) for segment in segments):
        raise ValueError
    return StateUri("/".join([f"{scheme}://{bucket}", *segments]))


def with_catalog(state: StateUri, catalog: Mapping[str, str]) -> StateUri:
    """The state with what the lake's catalog is given for S3, unless it has options of its own."""
    if state.options or not state.uri.startswith("s3"):
        return state
    found = {name: catalog[key] for key, name in _CATALOG.items() if catalog.get(key)}
    return StateUri(state.uri, tuple(sorted(found.items())))
