"""Makes an encoder from options of a command line or a job: TiCDC's names, values as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ticdc_spark.clients.claim_check import ClaimCheckStorage
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.protocols import WireProtocol, protocol
from ticdc_spark.protocols.base import Encoder, Registry

_STORAGE = ("claim_check_storage_uri", "claim_check_raw_value")
_FIELDS = {"large-message-handle-option": "large_message_handle", "large-message-handle-compression": "compression"}


def target_encoder(
    name: str,
    options: Mapping[str, str],
    registry: Registry | None = None,
    topic: Callable[[str, str], str] | None = None,
) -> Encoder:
    """The encoder of a protocol. ``options`` are fields of its configuration, with ``-`` for ``_``, as text.

    Options of large messages have TiCDC's names: ``large-message-handle-option``, ``large-message-handle-compression``,
    ``claim-check-storage-uri``, ``claim-check-raw-value``.

    ``topic``: (schema, table) → topic, which names the registry's subjects; ``None``: TiCDC's rule
    ``{schema}_{table}``.

    Raises: UsageError for an unknown protocol or option, a wrong value, or a missing registry.
    """
    target = protocol(name)
    if target.traits.registry:
        target.needed(registry)
    fields = {_FIELDS.get(key, key.replace("-", "_")): value for key, value in options.items()}
    stores = {key: fields.pop(key) for key in _STORAGE if target.traits.claim_check and key in fields}
    config = target.config_type()
    known = {field.name: field for field in msgspec.structs.fields(config) if not _is_callable(field.type)}
    for field in fields:
        if field not in known:
            allowed = ", ".join(sorted(name.replace("_", "-") for name in known))
            raise UsageError(f"{target.name} has no option {field.replace('_', '-')!r}; allowed: {allowed}")
    read = dict(target.encoder_defaults)
    for field, value in fields.items():
        try:
            read[field] = msgspec.convert(value, known[field].type, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"option {field.replace('_', '-')}: {error}") from error
    if target.traits.claim_check:
        read |= _stores(target, read.get("large_message_handle"), stores)
    if topic is not None and "topic" in (field.name for field in msgspec.structs.fields(config)):
        read["topic"] = topic
    try:
        return target.encoder(config(**read), registry)
    except MessageError as error:
        raise UsageError(str(error)) from error


def _stores(target: WireProtocol[Any], handle: Any, given: Mapping[str, str]) -> dict[str, Any]:
    if handle != "claim-check":
        for key in given:
            raise UsageError(f"option {key.replace('_', '-')} needs large-message-handle-option=claim-check")
        return {}
    uri, raw = given.get("claim_check_storage_uri"), given.get("claim_check_raw_value", "false")
    if not uri:
        raise UsageError("large-message-handle-option=claim-check needs claim-check-storage-uri")
    if raw not in ("true", "false"):
        raise UsageError(f"option claim-check-raw-value is {raw!r}; allowed: true, false")
    return {"store": target.store(ClaimCheckStorage(uri), raw=raw == "true")}


def _is_callable(kind: Any) -> bool:
    return "Callable" in str(kind)
