"""Options of the protocol's encoder, and which of them need or exclude each other."""

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from ticdc_spark.changefeed.config.given import Given
from ticdc_spark.changefeed.config.key import CODEC, KAFKA, LARGE, OURS, Key
from ticdc_spark.changefeed.config.keys import KEYS, key
from ticdc_spark.config.paths import location
from ticdc_spark.errors import UsageError
from ticdc_spark.protocols import PROTOCOLS, WireProtocol
from ticdc_spark.protocols.encoder_options import target_encoder

WATERMARK = f"{CODEC}.avro-enable-watermark"
HANDLE = f"{LARGE}.large-message-handle-option"
STORAGE = f"{LARGE}.claim-check-storage-uri"
REGISTRY = "sink.schema-registry"
CHECKSUM = "integrity.integrity-check-level"
_FIELDS = {"large-message-handle-option": "large-message-handle", "large-message-handle-compression": "compression"}
_CLAIM_CHECK = {"claim-check-storage-uri", "claim-check-raw-value"}


def read_encoder(given: Given, protocol: WireProtocol[Any]) -> Mapping[str, str]:
    """All options of the encoder, also unset ones: TiCDC's defaults differ from the encoder's own."""
    fields = _fields(protocol)
    options = {}
    for found in KEYS:
        if found.option is None:
            continue
        if takes(protocol, found.option):
            value = given.get(found.id)
            if found.id == STORAGE and value is not None:
                value = location(given.folder / "any", value, bare_path=True)
            if value is not None:
                options[found.option] = _text(value)
        elif found.section != KAFKA and given.given(found.id) and given.get(found.id) != found.otherwise:
            _has_no_effect(given, found, protocol)
    if given.get(HANDLE) != "claim-check":
        options = {name: value for name, value in options.items() if name not in _CLAIM_CHECK}
    if given.get("sink.content-compatible") and "content-compatible" in fields:
        options["only-output-updated-columns"] = "true"
    sums = _text(given.get(CHECKSUM) == "correctness")
    more = {
        "time-zone": given.get(f"{OURS}.time-zone"),
        "cluster-id": given.get(f"{OURS}.cluster-id"),
        "enable-row-checksum": sums,
        "compute-row-checksum": sums,
    }
    return options | {name: value for name, value in more.items() if name in fields}


def check_encoder(given: Given, protocol: WireProtocol[Any], options: Mapping[str, str]) -> None:
    """Note options that exclude each other, as TiCDC does, and then errors of the encoder itself."""
    before = given.mistakes.count
    _check_registry(given, protocol)
    _check_large(given, protocol, options)
    _check_checksum(given, protocol, options)
    force = given.get("force-replicate")
    if force and protocol.traits.registry:
        given.mistake("force-replicate", f"found true; allowed with {protocol.name}: false, as its keys need an index")
    delete = "sink.delete-only-output-handle-key-columns"
    if force and given.get(delete):
        given.mistake("force-replicate", f"found true; allowed with `{key(delete).name}`: false")
    if options.get("avro-enable-watermark") == "true" and options.get("enable-tidb-extension") != "true":
        given.warn(WATERMARK, "has an effect only together with `enable-tidb-extension`")
    raw = f"{KAFKA}.output-raw-change-event"
    if given.get(raw) and _hides_old_values(protocol, options):
        given.warn(raw, f"{protocol.name} sends no old row here, so consumers keep the row of the old key")
    if given.mistakes.count == before:
        try:
            target_encoder(protocol.name, options, _NoRegistry())
        except UsageError as error:
            given.mistakes.add("", str(error))


def takes(protocol: WireProtocol[Any], option: str) -> bool:
    """Whether a protocol's encoder has an option. ``option``: TiCDC's name of it."""
    if option in _CLAIM_CHECK:
        return protocol.traits.claim_check
    return _FIELDS.get(option, option) in _fields(protocol)


def sends_watermarks(protocol: WireProtocol[Any], options: Mapping[str, str]) -> bool:
    """Whether the encoder writes watermarks."""
    if protocol.traits.watermarks != "optional":
        return protocol.traits.watermarks == "always"
    extended = options.get("enable-tidb-extension") == "true"
    return extended and options.get("avro-enable-watermark", "true") == "true"


def _check_registry(given: Given, protocol: WireProtocol[Any]) -> None:
    there = given.given(REGISTRY)
    if protocol.traits.registry and not there:
        given.mistake(REGISTRY, f"missing; {protocol.name} needs the URL of a schema registry")
    elif there and protocol.traits.schema_blocks:
        others = " or ".join(f'"{name}"' for name, found in PROTOCOLS.items() if found.traits.registry)
        given.mistake(REGISTRY, f"{protocol.name} has no schema registry; allowed with protocol {others}")
    elif there and not protocol.traits.registry:
        given.warn(REGISTRY, f"has no effect with protocol {protocol.name}")
    if protocol.traits.registry and not given.entries.get("sink.dispatchers"):
        given.warnings.append(
            f"{key('sink.protocol').place}: {protocol.name} needs a topic for each table; without an entry in "
            '`dispatchers` such as {matcher = ["*.*"], topic = "{schema}_{table}"} all tables go to one'
        )


def _check_large(given: Given, protocol: WireProtocol[Any], options: Mapping[str, str]) -> None:
    handle = given.get(HANDLE)
    if handle == "none":
        return
    if not protocol.traits.claim_check:
        able = ", ".join(f'"{name}"' for name, found in sorted(PROTOCOLS.items()) if found.traits.claim_check)
        given.mistake(HANDLE, f'found {handle!r}; allowed with {protocol.name}: "none" (with {able}: the others too)')
    elif options.get("enable-tidb-extension", "true") != "true":
        given.mistake(HANDLE, f"found {handle!r}; it needs enable-tidb-extension = true with {protocol.name}")
    if handle == "claim-check" and not given.get(STORAGE):
        given.mistake(STORAGE, "missing; `claim-check` needs it")
    elif handle == "claim-check" and "?" in given.get(STORAGE):
        given.mistake(STORAGE, "settings behind ? are not read; allowed: a path or a URI without them")


def _check_checksum(given: Given, protocol: WireProtocol[Any], options: Mapping[str, str]) -> None:
    if given.get(CHECKSUM) == "none":
        return
    if given.entries.get("sink.column-selectors"):
        given.mistake(CHECKSUM, 'found "correctness"; allowed together with `column-selectors`: "none"')
    if "enable-row-checksum" not in options:
        given.warn(CHECKSUM, f"has no effect with protocol {protocol.name}, which has no checksums")
    if "enable-row-checksum" in options and "avro-decimal-handling-mode" in options:
        needs = {
            "enable-tidb-extension": "true",
            "avro-decimal-handling-mode": "string",
            "avro-bigint-unsigned-handling-mode": "string",
        }
        for name, value in needs.items():
            if options[name] != value:
                what = f'found {options[name]}; `integrity-check-level = "correctness"` needs {value}'
                given.mistake(f"{CODEC}.{name}", what)


def _hides_old_values(protocol: WireProtocol[Any], options: Mapping[str, str]) -> bool:
    olds = [options[name] for name in ("output-old-value", "debezium-output-old-value") if name in options]
    return protocol.traits.hidden_deletes or "false" in olds


def _has_no_effect(given: Given, found: Key, protocol: WireProtocol[Any]) -> None:
    able = [name for name, other in sorted(PROTOCOLS.items()) if takes(other, found.option or "")]
    if found.id != HANDLE:  # HANDLE is an error
        given.warn(found.id, f"has no effect with protocol {protocol.name}; it is for {', '.join(able)}")


@functools.cache
def _fields(protocol: WireProtocol[Any]) -> frozenset[str]:
    return frozenset(field.name.replace("_", "-") for field in msgspec.structs.fields(protocol.config_type()))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _NoRegistry:
    """Nothing is registered while a configuration is read."""

    def register(self, subject: str, schema: str) -> int:
        raise AssertionError(subject)
